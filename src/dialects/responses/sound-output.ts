import { isEmpty, isObject, stringOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { mapChanged, mapListIn } from "../../lib/map-changed.ts";
import { UNNAMED_TOOL } from "../tools/tool-names.ts";
import { type Item, isCallType } from "./items.ts";
import { textPart } from "./output-items.ts";

/** A text with the list of what it rests on, which clients with checked types demand, be it empty (anomalyco/opencode #29187). */
function soundPart(part: unknown): unknown {
  if (!isObject(part) || part["type"] !== "output_text" || Array.isArray(part["annotations"])) return part;
  return { ...part, annotations: [] };
}

function soundContent(content: unknown): unknown {
  if (Array.isArray(content)) return mapChanged<unknown>(content, soundPart);
  return typeof content === "string" && content !== "" ? [textPart(content)] : [];
}

/** What every item of its type holds, as far as it is missing: Codex takes no message without a role, and no thought without a summary, for one (lidge-jun/opencodex #893). */
function missingIn({ type, role, content, summary }: Item): Edits {
  if (type === "reasoning") return Array.isArray(summary) ? {} : { summary: [] };
  if (type !== "message") return {};
  const sound = soundContent(content);
  return { ...(typeof role !== "string" && { role: "assistant" }), ...(sound !== content && { content: sound }) };
}

/**
 * An item of a vendor's reply as clients of its own dialect can read it; the very same where nothing is amiss. One without a state has none: vLLM writes null for what
 * its model thought, which ends OpenAI's SDK for .NET (openai/openai-dotnet#993). And a call has a name, without which the vendor would refuse every later turn.
 */
export function soundItem(item: unknown): unknown {
  if (!isObject(item)) return item;
  const isStateless = item["status"] === null;
  const isUnnamed = isCallType(item["type"]) && stringOf(item["name"]) === "";
  const edits = {
    ...missingIn(item),
    ...(isStateless && { status: undefined }),
    ...(isUnnamed && { name: UNNAMED_TOOL }),
  };
  return isEmpty(edits) ? item : { ...item, ...edits };
}

/** The output of a response, where an item of it is not sound. */
export function soundOutput(response: Item): Edits {
  const sound = mapListIn(response, "output", soundItem);
  return sound === response ? {} : { output: sound["output"] };
}

/** What of a record besides its response is not sound: its item, a part of one, or the name of the call that it tells the arguments of. */
export function soundRecord({ item, part, name }: Item, type: string): Edits {
  const sound = soundItem(item);
  const whole = soundPart(part);
  const isUnnamed = type === "response.function_call_arguments.done" && name === "";
  return {
    ...(sound !== item && { item: sound }),
    ...(whole !== part && { part: whole }),
    ...(isUnnamed && { name: UNNAMED_TOOL }),
  };
}
