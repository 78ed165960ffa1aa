import type { Tool, ToolCallPart } from "../../canon/prompt.ts";
import { isObject, stringOf } from "../../lib/json.ts";
import { placeOf } from "./tool-place.ts";

/** The one argument under which a custom tool's text stands where only functions are known (dialects.md 1.1). */
const INPUT = "input";
/** Longest text before the value of {@link INPUT}, characters: what begins otherwise is read as a whole, at its end. */
const MAX_HEAD = 64;
const HEAD = /^\s*\{\s*"input"\s*:\s*"/;

/** A custom tool as the client wrote it at `place`, told as a function too. A grammar is told to the model in words. */
export function customTool(name: string, description: string, format: unknown, place: string): Tool {
  const constraint = isObject(format) && format["type"] !== "text" ? format : undefined;
  const shown = constraint && isObject(constraint["grammar"]) ? constraint["grammar"] : constraint;
  const definition = shown?.["definition"];
  const rule =
    typeof definition === "string" ? ` It must fit this ${stringOf(shown?.["syntax"])} grammar:\n${definition}` : "";
  const input = { type: "string", description: `The whole input of the tool, as plain text.${rule}` };
  return {
    name,
    ...(description !== "" && { description }),
    schema: { type: "object", properties: { [INPUT]: input }, required: [INPUT], additionalProperties: false },
    place,
    custom: { ...(constraint && { format: constraint }) },
  };
}

/** Places of the formats that are only told in words, since these tools go out as functions. */
export const lostFormats = (tools: readonly Tool[]): string[] =>
  tools.flatMap((tool) => (tool.custom?.format ? [`${placeOf(tool)}.format`] : []));

/** A custom call's text as a function's arguments. */
export const wrapInput = (text: string): string => JSON.stringify({ [INPUT]: text });

/** The text in a function's arguments: what stands under {@link INPUT}, else the one text there is, else all of it as it came. */
export function unwrapInput(json: string): string {
  try {
    const value: unknown = JSON.parse(json);
    if (typeof value === "string") return value;
    if (!isObject(value)) return json;
    const input = value[INPUT];
    if (typeof input === "string") return input;
    const values = Object.values(value);
    return values.length === 1 && typeof values[0] === "string" ? values[0] : json;
  } catch {
    // Cut off, or never JSON: the model wrote the text itself.
    return json;
  }
}

/** A custom call's own text in a canonical call. */
export const inputOf = (call: ToolCallPart): string => unwrapInput(call.arguments);

/** Whether the escape at `at` is the first half of a pair, as far as it can be seen. */
const isFirstHalf = (text: string, at: number): boolean => /^\\u[dD][89abAB]/.test(text.slice(at, at + 6));

/** Length of the escape at `at`, a pair's second half included; undefined when more of the string is needed to tell. */
function escapeLength(text: string, at: number): number | undefined {
  const kind = text[at + 1];
  if (kind === undefined) return undefined;
  if (kind !== "u") return 2;
  if (at + 6 > text.length) return undefined;
  if (!isFirstHalf(text, at)) return 6;
  const next = text.slice(at + 6, at + 8);
  if (next === "" || next === "\\" || (next === "\\u" && at + 12 > text.length)) return undefined;
  return next === "\\u" ? 12 : 6;
}

/** How much of `text`, the inside of a JSON string as far as it came, can be read, and whether the string ends there. */
function readable(text: string): { length: number; closed: boolean } {
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === 34) return { length: at, closed: true };
    const step = code === 92 ? escapeLength(text, at) : 1;
    if (step === undefined) break;
    at += step;
  }
  return { length: at, closed: false };
}

/**
 * Reads the text out of a function's arguments while they arrive: what stands under `input` goes out at once; arguments of any other
 * shape wait for their end.
 */
export class InputReader {
  #json = "";
  /** Inside of the value, as far as it is not written; undefined before it begins. */
  #rest: string | undefined;
  #closed = false;

  /** The text that this fragment completes, perhaps "". */
  push(fragment: string): string {
    if (this.#closed) return "";
    if (this.#rest === undefined) {
      // Nothing that comes later changes how they began, and looking into them would copy them as a whole each time.
      const isDecided = this.#json.length >= MAX_HEAD;
      this.#json += fragment;
      if (isDecided) return "";
      const head = HEAD.exec(this.#json.slice(0, MAX_HEAD));
      if (!head) return "";
      this.#rest = this.#json.slice(head[0].length);
    } else this.#rest += fragment;
    return this.#take(this.#rest);
  }

  /** What is left when the arguments end; half an escape is nothing. */
  end(): string {
    return this.#rest === undefined ? unwrapInput(this.#json) : "";
  }

  #take(rest: string): string {
    const { length, closed } = readable(rest);
    this.#closed = closed;
    this.#rest = rest.slice(length);
    return readString(rest.slice(0, length));
  }
}

/** The text of a JSON string's inside; as it stands when it is no JSON, since a model that writes line feeds bare means line feeds. */
function readString(inside: string): string {
  if (!inside.includes("\\") && !/[\n\r\t]/.test(inside)) return inside;
  try {
    return JSON.parse(`"${inside.replace(/[\n\r\t]/g, (bare) => JSON.stringify(bare).slice(1, -1))}"`) as string;
  } catch {
    // An escape that JSON does not know.
    return inside;
  }
}
