import { NO_USAGE, type Usage } from "../../canon/usage.ts";
import { isObject } from "../../lib/json.ts";
import type { ReplyContext } from "../dialect.ts";
import type { Item } from "./items.ts";
import { writeUsage } from "./usage.ts";

/** What a response says of itself beside its frame. */
export type ResponseState = {
  status: string;
  incomplete_details?: { reason: string } | null;
  output: readonly Item[];
  usage?: Usage;
  /** How the vendor served it, where that was not as usual. */
  tier?: string;
};

/** The id of a reply as this dialect shows it. */
const replyIdOf = (context: ReplyContext): string => `resp_${context.replyId}`;

/** Usage until the vendor counts: a reply that cost no input does not exist. */
export const estimatedUsage = (context: ReplyContext): Usage => ({ ...NO_USAGE, input: context.estimatedInputTokens });

/** Fields of a request that its response repeats. */
export const REPEATED_FIELDS = (
  "instructions max_output_tokens max_tool_calls metadata parallel_tool_calls prompt_cache_key reasoning safety_identifier temperature" +
  " text tool_choice tools top_logprobs top_p truncation user"
).split(" ");

/** What a response repeats of its request: fields as the client wrote them, `text` always with a format. */
function repeatRequest(
  response: Record<string, unknown>,
  request: Readonly<Record<string, unknown>> | undefined,
): void {
  for (const field in request) {
    const value = request[field];
    response[field] =
      field === "text" && isObject(value) ? { ...value, format: value["format"] ?? TEXT_FORMAT } : value;
  }
}

// What a response says where its request said nothing.
const NO_METADATA = {};
const NO_REASONING = { effort: null, summary: null };
const NO_TOOLS: readonly unknown[] = [];
const TEXT_FORMAT = { type: "text" };
const PLAIN_TEXT = { format: TEXT_FORMAT };

/**
 * A whole response object with every field that clients' types demand. Fields that repeat the request are as it said, else the dialect's
 * defaults.
 */
export function writeResponse(context: ReplyContext, state: ResponseState): Record<string, unknown> {
  const response: Record<string, unknown> = {
    id: replyIdOf(context),
    object: "response",
    created_at: context.created,
    status: state.status,
    background: false,
    error: null,
    incomplete_details: state.incomplete_details ?? null,
    instructions: null,
    max_output_tokens: null,
    max_tool_calls: null,
    metadata: NO_METADATA,
    model: context.model,
    output: state.output,
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: NO_REASONING,
    safety_identifier: null,
    service_tier: state.tier ?? "default",
    store: false,
    temperature: null,
    text: PLAIN_TEXT,
    tool_choice: "auto",
    tools: NO_TOOLS,
    top_logprobs: 0,
    top_p: null,
    truncation: "disabled",
    access_programs: null,
  };
  repeatRequest(response, context.repeated ?? context.changes?.request);
  response["usage"] = state.usage ? writeUsage(state.usage) : null;
  return response;
}
