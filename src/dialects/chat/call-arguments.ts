import { isJson, isObject } from "../../lib/json.ts";
import { mapChanged, mapListIn } from "../../lib/map-changed.ts";
import { toInput } from "../tools/tool-input.ts";

type Wire = Record<string, unknown>;
type Called = Wire & { function: Wire & { arguments: string } };

/** Arguments up to so many characters are read, whatever they look like. */
const READ_UNTIL = 512;
/** What breaks JSON that is whole: a line break within a text, an escape that is none. Models that write files write such. */
const BREAKING = /\p{Cc}|\\[^"\\/bfnrtu]/u;

/**
 * Whether a text is the JSON of an object. Long ones are read only where something in them looks broken: an agent's conversation holds dozens of them, and
 * reading them all costs a tenth of what else is done with it.
 */
function isObjectText(text: string): boolean {
  if (!text.startsWith("{") || !text.endsWith("}")) return false;
  return (text.length > READ_UNTIL && !BREAKING.test(text)) || isJson(text);
}

/** A function's call whose arguments are text, but not that of an object. To nearly every server no text at all is none; MiniMax refuses it. */
function isBroken(call: unknown): call is Called {
  if (!isObject(call) || !isObject(call["function"])) return false;
  const { arguments: text } = call["function"];
  return typeof text === "string" && !isObjectText(text.trim());
}

const mended = (call: unknown): unknown =>
  isBroken(call)
    ? { ...call, function: { ...call.function, arguments: JSON.stringify(toInput(call.function.arguments)) } }
    : call;

/**
 * The messages with calls whose arguments are an object, whatever their model wrote: vLLM, SGLang, llama.cpp, Ollama, Mistral and others read them
 * for their templates, and refuse every further request of a conversation that holds a call which was cut off or is no JSON
 * (vllm-project/vllm #43995). Its text stands under a key then, as in dialects that know nothing but objects. The same array where none is in the way.
 */
export const withObjectArguments = (messages: readonly unknown[]): readonly unknown[] =>
  mapChanged(messages, (message) => (isObject(message) ? mapListIn(message, "tool_calls", mended) : message));
