import { isObject } from "../../lib/json.ts";
import type { Item } from "./items.ts";

/** How an item's id looks at OpenAI, by the item's type: it refuses the ids of other vendors and of clients. */
const ID_FORMS: ReadonlyMap<unknown, RegExp> = new Map([
  ["message", /^msg[\w-]{0,61}$/],
  ["reasoning", /^rs[\w-]{0,62}$/],
  ["function_call", /^fc[\w-]{0,62}$/],
  ["function_call_output", /^fc[\w-]{0,62}$/],
  ["custom_tool_call", /^ctc[\w-]{0,61}$/],
  ["custom_tool_call_output", /^ctc[\w-]{0,61}$/],
]);

/** The field that holds parts, by the item's type. */
const HELD: ReadonlyMap<unknown, string> = new Map([
  ["message", "content"],
  ["function_call_output", "output"],
  ["custom_tool_call_output", "output"],
]);

/** Text under every name that clients give it. */
const TEXTS: ReadonlySet<unknown> = new Set(["text", "input_text", "output_text"]);

type Say = "input_text" | "output_text";

const isMisnamed = (part: unknown, say: Say): boolean =>
  isObject(part) && part["type"] !== say && TEXTS.has(part["type"]);

/** A text part under the name that its side has for it, without what only the other side's holds. */
function renamed(part: unknown, say: Say): unknown {
  if (!isObject(part) || !isMisnamed(part, say)) return part;
  const { annotations: _annotations, logprobs: _logprobs, ...rest } = part;
  return { ...rest, type: say };
}

/**
 * An item as OpenAI takes it: what an assistant says is output and all else is input, an id is one of its own (nothing is stored, so that
 * nobody misses another), reasoning has a summary. The same item where it is so already.
 */
export function soundItem(item: Item): Item {
  const type = item["type"] ?? "message";
  const changes: Item = {};
  const held = HELD.get(type);
  const parts = held === undefined ? undefined : item[held];
  if (held !== undefined && Array.isArray(parts)) {
    const say = item["role"] === "assistant" ? "output_text" : "input_text";
    if (parts.some((part) => isMisnamed(part, say))) changes[held] = parts.map((part) => renamed(part, say));
  }
  const { id } = item;
  if (id != null && ID_FORMS.get(type)?.test(String(id)) === false) changes["id"] = undefined;
  if (type === "reasoning" && item["summary"] == null) changes["summary"] = [];
  for (const _ in changes) return { ...item, ...changes };
  return item;
}
