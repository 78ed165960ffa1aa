import { REASONING_FORMS_OF } from "../../canon/intent.ts";
import { markChatBody } from "../cache-marks.ts";
import type { Dialect, ReplyChanges } from "../dialect.ts";
import { encodeError } from "../refusals/openai-error.ts";
import { readUpstreamError } from "../refusals/upstream-error.ts";
import { amend } from "./amend.ts";
import { checkRequest } from "./check.ts";
import { decodeRequest } from "./decode-request.ts";
import { ChatDecoder } from "./decode-stream.ts";
import { encodeRequest } from "./encode-request.ts";
import { ChatEncoder, encodeErrorFrame } from "./encode-stream.ts";
import { REASONING_FIELDS, readIntent, refuseChoices } from "./intent.ts";
import { lessons } from "./lessons.ts";
import { replyChanges } from "./older-tools.ts";
import { ownForms } from "./own-forms.ts";
import { ChatRelabeler } from "./relabel.ts";
import { repairs } from "./repairs.ts";
import { replay } from "./replay.ts";
import { decodeReply, encodeReply, relabelReply } from "./reply.ts";
import { serverTools } from "./server-tools.ts";
import { withUnsaidStops } from "./stops.ts";
import { renameReply, withToolNames } from "./wire-names.ts";

/** Throws GatewayError (invalid_request) for `n` above 1: what must be written anew is one answer. */
const refuseWriting = (body: Record<string, unknown>): void =>
  refuseChoices(body, "with these tools or stop sequences: this model's vendor knows them in another form.");

/** Changes of a reply. Throws as {@link refuseWriting} does where there are any. */
function ofOneAnswer(body: Record<string, unknown>, changes: ReplyChanges | undefined): ReplyChanges | undefined {
  if (changes) refuseWriting(body);
  return changes;
}

/** The chat completions dialect, both halves (interface 4.7, dialects.md 1). */
export const chat: Dialect = {
  name: "chat",
  reasoningForms: REASONING_FORMS_OF.chat,
  pathFor: () => "/chat/completions",
  // Headers that name an organisation or a project belong to the client's own account at a vendor, not to this gateway's.
  passHeaders: ["openai-beta"],
  ownForms,
  intent: readIntent,
  amountFields: ["n", "max_completion_tokens", "max_tokens"],
  reasoningFields: REASONING_FIELDS,
  ownNames: {
    max_tokens: ["max_completion_tokens", "max_tokens"],
    thinking: REASONING_FIELDS,
    user: ["safety_identifier", "user"],
    // Clients of the older `functions` never said it: their form of a call has place for one.
    parallel_tool_calls: ["parallel_tool_calls"],
    "response_format.strict": "response_format.json_schema.strict",
  },
  check: checkRequest,
  decodeRequest,
  encodeRequest,
  markCache: (body, model, quirks) => {
    if (quirks.acceptsCacheControl) markChatBody(body, model);
  },
  amend,
  lessons,
  replyChanges: (body, quirks) =>
    withToolNames(body, quirks, ofOneAnswer(body, withUnsaidStops(body, quirks, replyChanges(body, quirks)))),
  refuseWriting,
  repeatsCallIds: true,
  decodeReply,
  encodeReply,
  relabel: relabelReply,
  renameReply,
  decoder: (context) => new ChatDecoder(context),
  encoder: (context) => new ChatEncoder(context),
  relabeler: (context) => new ChatRelabeler(context),
  decodeError: readUpstreamError,
  encodeError,
  encodeErrorFrame,
  ping: ": ping\n\n",
  replay,
  serverTools,
  repairs,
};
