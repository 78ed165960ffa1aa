import type { Tool, ToolCallPart } from "../../canon/prompt.ts";
import { isObject, stringOf } from "../../lib/json.ts";
import { placeOf } from "./tool-place.ts";

/** The one argument that holds a custom tool's text where the upstream knows only functions (dialects.md 1.1). */
const INPUT = "input";
/** Longest text before the value of {@link INPUT}, characters: arguments that begin in another way are read as a whole, at their end. */
const MAX_HEAD = 64;
const HEAD = /^\s*\{\s*"input"\s*:\s*"/;

/** A custom tool that the client wrote at `place`, in a form that can also go out as a function; its grammar is then in the argument's description. */
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

/** The places of the custom tools' formats, for `dropped`: where these tools go out as functions, nothing enforces their grammars. */
export const lostFormats = (tools: readonly Tool[]): string[] =>
  tools.flatMap((tool) => (tool.custom?.format ? [`${placeOf(tool)}.format`] : []));

/** A custom call's text as a function's arguments. */
export const wrapInput = (text: string): string => JSON.stringify({ [INPUT]: text });

/** The text in a function's arguments: themselves where they are a JSON string, else that under {@link INPUT} or their only key, else they as they came. */
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

/** The text of a custom tool's call. */
export const inputOf = (call: ToolCallPart): string => unwrapInput(call.arguments);

/** Whether the escape at `at` begins as the first half of a surrogate pair. */
const isFirstHalf = (text: string, at: number): boolean => /^\\u[dD][89abAB]/.test(text.slice(at, at + 6));

/** Length of the escape at `at`, characters, the second half of a surrogate pair included; undefined when more of the string must come first. */
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

/** How many characters of `text`, the inside of a JSON string as far as it has come, can be read, and whether the string ends behind them. */
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
 * Reads a custom tool's text out of a function's arguments while they arrive: that under `input` is returned at once; of arguments in any
 * other form, at their end.
 */
export class InputReader {
  #json = "";
  /** The part of the value that is not returned yet; undefined before the value begins. */
  #rest: string | undefined;
  #closed = false;

  /** The text that this fragment completes, perhaps "". */
  push(fragment: string): string {
    if (this.#closed) return "";
    if (this.#rest === undefined) {
      // How they begin is known by then, and to look again would copy all of them with each fragment.
      const isDecided = this.#json.length >= MAX_HEAD;
      this.#json += fragment;
      if (isDecided) return "";
      const head = HEAD.exec(this.#json.slice(0, MAX_HEAD));
      if (!head) return "";
      this.#rest = this.#json.slice(head[0].length);
    } else this.#rest += fragment;
    return this.#take(this.#rest);
  }

  /** The text that is left when the arguments end. Half an escape at the end is left out. */
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

/** The text that the inside of a JSON string stands for. Bare line breaks and tabs, which models write, are kept; as it stands when it is no JSON. */
function readString(inside: string): string {
  if (!inside.includes("\\") && !/[\n\r\t]/.test(inside)) return inside;
  try {
    return JSON.parse(`"${inside.replace(/[\n\r\t]/g, (bare) => JSON.stringify(bare).slice(1, -1))}"`) as string;
  } catch {
    // An escape that JSON does not know.
    return inside;
  }
}
