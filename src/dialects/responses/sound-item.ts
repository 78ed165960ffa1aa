import { isObject, stringOf } from "../../lib/json.ts";
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

const sayOf = (item: Item): Say => (item["role"] === "assistant" ? "output_text" : "input_text");

const isMisnamed = (part: unknown, say: Say): boolean =>
  isObject(part) && part["type"] !== say && TEXTS.has(part["type"]);

function holdsMisnamed(parts: unknown, say: Say): boolean {
  if (!Array.isArray(parts)) return false;
  for (const part of parts) if (isMisnamed(part, say)) return true;
  return false;
}

const typeOf = (item: Item): unknown => item["type"] ?? "message";

const isForeignId = ({ id }: Item, type: unknown): boolean =>
  id != null && ID_FORMS.get(type)?.test(stringOf(id)) === false;

const lacksSummary = (item: Item, type: unknown): boolean => type === "reasoning" && item["summary"] == null;

/** Whether {@link soundItem} has nothing to mend: so it is with nearly every item. */
export function isSoundItem(item: Item): boolean {
  const type = typeOf(item);
  if (isForeignId(item, type) || lacksSummary(item, type)) return false;
  const held = HELD.get(type);
  return held === undefined || !holdsMisnamed(item[held], sayOf(item));
}

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
  if (isSoundItem(item)) return item;
  const type = typeOf(item);
  const held = HELD.get(type);
  const parts = held === undefined ? undefined : item[held];
  return {
    ...item,
    ...(isForeignId(item, type) && { id: undefined }),
    ...(lacksSummary(item, type) && { summary: [] }),
    ...(held !== undefined && Array.isArray(parts) && { [held]: parts.map((part) => renamed(part, sayOf(item))) }),
  };
}
