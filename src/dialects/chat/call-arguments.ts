import { isObject } from "../../lib/json.ts";
import { mapChanged, mapListIn } from "../../lib/map-changed.ts";
import { asObjectText } from "../tools/object-text.ts";

/** A function's call whose arguments are text, with that of an object. To nearly every server no text at all is none; MiniMax refuses it. */
function mended(call: unknown): unknown {
  if (!isObject(call) || !isObject(call["function"])) return call;
  const { arguments: text } = call["function"];
  const sound = typeof text === "string" ? asObjectText(text) : text;
  return sound === text ? call : { ...call, function: { ...call["function"], arguments: sound } };
}

/** The messages with calls whose arguments are an object; see {@link asObjectText}. The same array where none is in the way. */
export const withObjectArguments = (messages: readonly unknown[]): readonly unknown[] =>
  mapChanged(messages, (message) => (isObject(message) ? mapListIn(message, "tool_calls", mended) : message));
