import { isObject, listOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { unknownPaths } from "../loss/unknown-fields.ts";
import {
  type OfferedTool,
  readPlace,
  resultsOfSize,
  type ServedFunction,
  type ServedOutcome,
  type ServerToolHalf,
} from "../server-tools.ts";
import { refuseChoices } from "./intent.ts";

type Wire = Record<string, unknown>;

const OPTIONS: ReadonlySet<string> = new Set(["search_context_size", "user_location"]);

const NONE: readonly OfferedTool[] = [];

/**
 * Tools that the client runs, or a server that it names. All others are a vendor's own, which costs money beside the tokens: Moonshot's `$web_search`
 * (platform.kimi.ai, "WebSearch Pricing"), Z.ai's search, Groq's browser, and what OpenRouter draws, reads, and asks other models for (openrouter.ai,
 * "Server Tools").
 */
const UNPRICED_TYPES: ReadonlySet<unknown> = new Set([undefined, null, "function", "custom", "mcp"]);

/**
 * `web_search_options` asks for a search, even when it is empty; what offers functions in the older form alone knows none of it. Throws
 * GatewayError (invalid_request) for `n` above 1: several answers cannot each have a search of their own.
 */
function find(body: Wire): readonly OfferedTool[] {
  const options = body["web_search_options"];
  if (!isObject(options)) return NONE;
  if (listOf(body["functions"]).length > 0 && listOf(body["tools"]).length === 0) return NONE;
  refuseChoices(body, "with web_search_options: the gateway searches for one answer.");
  const place = isObject(options["user_location"]) ? options["user_location"]["approximate"] : undefined;
  const offered: OfferedTool = {
    tool: "web_search",
    place: "web_search_options",
    maxUses: undefined,
    allowed: [],
    blocked: [],
    ...readPlace(place),
    maxResults: resultsOfSize(options["search_context_size"]),
    maxContentTokens: undefined,
    lost: unknownPaths(options, OPTIONS, "web_search_options"),
  };
  return [offered];
}

function open(body: Wire, functions: readonly ServedFunction[]): Edits {
  const served = functions.map(({ name, description, schema }) => ({
    type: "function",
    function: { name, description, parameters: schema },
  }));
  return { web_search_options: undefined, tools: [...listOf(body["tools"]), ...served] };
}

/** A choice that the first round has honoured binds the next ones no more: the loop would never end. */
function freeChoice(choice: unknown, last: boolean): Edits {
  if (last) return { tool_choice: "none" };
  if (choice !== "required" && !isObject(choice)) return {};
  const allowed = isObject(choice) ? choice["allowed_tools"] : undefined;
  return {
    tool_choice: isObject(allowed) ? { ...(choice as Wire), allowed_tools: { ...allowed, mode: "auto" } } : "auto",
  };
}

function extend(body: Wire, reply: Wire, outcomes: readonly ServedOutcome[], last: boolean): Edits {
  const [choice] = listOf(reply["choices"]);
  const said = isObject(choice) && isObject(choice["message"]) ? choice["message"] : {};
  const { refusal: _refusal, ...turn } = said;
  const results = outcomes.map(({ call, text }) => ({ role: "tool", tool_call_id: call.id, content: text }));
  return { messages: [...listOf(body["messages"]), turn, ...results], ...freeChoice(body["tool_choice"], last) };
}

/** Searching for clients of the chat dialect (dialects.md 1.1, 1.3): they see the answer and its annotations. */
export const serverTools: ServerToolHalf = {
  isPriced: ({ type }) => !UNPRICED_TYPES.has(type),
  keepsResults: false,
  citesAll: true,
  lost: ["logprobs", "top_logprobs", "audio"],
  repeats: [],
  find,
  open,
  extend,
  shownId: (id) => id,
  callBlock: () => undefined,
  callInput: ({ arguments: text }) => text,
  resultBlock: () => undefined,
};
