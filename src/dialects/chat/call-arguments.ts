import { isJson, isObject } from "../../lib/json.ts";
import { toInput } from "../messages/tool-input.ts";

type Wire = Record<string, unknown>;
type Called = Wire & { function: Wire & { arguments: string } };

/** A function's call whose arguments are text, but not that of an object. No arguments at all are none to every server. */
function isBroken(call: unknown): call is Called {
  if (!isObject(call) || !isObject(call["function"])) return false;
  const { arguments: text } = call["function"];
  if (typeof text !== "string" || text.trim() === "") return false;
  return !text.trimStart().startsWith("{") || !isJson(text);
}

/**
 * Calls of an earlier turn with arguments that are an object, whatever their model wrote: vLLM, SGLang, llama.cpp, Ollama, Mistral and others read them
 * for their templates, and refuse every further request of a conversation that holds a call which was cut off or is no JSON
 * (vllm-project/vllm #43995). Its text stands under a key then, as in dialects that know nothing but objects. The same array where none is in the way.
 */
export function withObjectArguments(calls: readonly unknown[]): readonly unknown[] {
  if (!calls.some(isBroken)) return calls;
  return calls.map((call) =>
    isBroken(call)
      ? { ...call, function: { ...call.function, arguments: JSON.stringify(toInput(call.function.arguments)) } }
      : call,
  );
}
