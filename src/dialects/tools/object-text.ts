import { isJson } from "../../lib/json.ts";
import { toInput } from "./tool-input.ts";

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

/**
 * A call's arguments as the text of an object, whatever their model wrote: vLLM, SGLang, llama.cpp, Ollama, Mistral and others read them for their templates,
 * and refuse every further request of a conversation that holds a call which was cut off or is no JSON (vllm-project/vllm #43995). Its text stands under a
 * key then, as in dialects that know nothing but objects. The same text where it is an object's.
 */
export const asObjectText = (text: string): string =>
  isObjectText(text.trim()) ? text : JSON.stringify(toInput(text));
