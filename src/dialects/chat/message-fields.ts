import { isObject } from "../../lib/json.ts";
import { mapChanged } from "../../lib/map-changed.ts";
import { BREAKPOINT } from "../openai-fields.ts";

type Wire = Record<string, unknown>;

/** Anthropic's mark for a cache, which is no loss where nobody reads it. */
const MARK = "cache_control";

/** What SDKs and vendors say of a reply in its message, which clients send back with it, and marks: they tell nobody anything more. */
const OF_REPLIES: ReadonlySet<string> = new Set([
  ...["refusal", "annotations", "function_call", "parsed", "images"],
  ...["reasoning", "reasoning_content", "reasoning_details", MARK],
]);

const isMarked = (value: unknown, mark = MARK): value is Wire => isObject(value) && Object.hasOwn(value, mark);
const withoutMark = (value: unknown, mark = MARK): unknown =>
  isMarked(value, mark) ? { ...value, [mark]: undefined } : value;

/** Adds to `changes` the message's content without a mark on its parts. */
function unmarkParts(message: Wire, mark: string, changes: Wire): void {
  const content = changes["content"] ?? message["content"];
  if (!Array.isArray(content) || !content.some((part) => isMarked(part, mark))) return;
  changes["content"] = content.map((part) => withoutMark(part, mark));
}

/** Adds to `changes` the message's content without marks for a cache, on itself and on its parts. */
export function removeMarks(message: Wire, changes: Wire): void {
  if (isMarked(message)) changes[MARK] = undefined;
  unmarkParts(message, MARK, changes);
}

/** Adds to `changes` the message's content without OpenAI's marks for a cache, which stand on parts and are no loss either. */
export const removeBreakpoints = (message: Wire, changes: Wire): void => unmarkParts(message, BREAKPOINT, changes);

function unmarkedTool(tool: unknown): unknown {
  const own = withoutMark(tool);
  return isObject(own) && isMarked(own["function"]) ? { ...own, function: withoutMark(own["function"]) } : own;
}

/** Tools without marks for a cache; the same value where none has one. */
export const unmarkedTools = (tools: unknown): unknown =>
  Array.isArray(tools) ? mapChanged(tools, unmarkedTool) : tools;

/** What a part of text says; undefined for any other part. */
function saidIn(part: unknown): string | undefined {
  if (!isObject(part)) return undefined;
  const said = part["type"] === "refusal" ? part["refusal"] : part["type"] === "text" ? part["text"] : undefined;
  return typeof said === "string" ? said : undefined;
}

/** Adds to `changes` the content of a message as one string, where parts of text are all that it is. */
export function joinContent(message: Wire, changes: Wire): void {
  const content = changes["content"] ?? message["content"];
  if (!Array.isArray(content)) return;
  const said = content.map(saidIn);
  if (said.every((text) => text !== undefined)) changes["content"] = said.join("\n");
}

/** A call and its function hold nothing else (`index` and `parsed_arguments` are the SDKs' own). */
const isPlainCall = (call: unknown): boolean => {
  if (!isObject(call) || !isObject(call["function"])) return true;
  const { id: _id, type: _type, function: called, ...others } = call;
  const { name: _name, arguments: _arguments, ...more } = called;
  return Object.keys(others).length + Object.keys(more).length === 0;
};

function plainCall(call: unknown): unknown {
  if (isPlainCall(call)) return call;
  const { id, type, function: called } = call as Wire;
  const { name, arguments: text } = called as Wire;
  return { id, type, function: { name, arguments: text } };
}

/** Whether a part of text holds this field: what it says stands under the name of its type, and marks for a cache go by rules of their own. */
const isOfText = ({ type }: Wire, field: string): boolean =>
  field === "type" || field === type || field === MARK || field === BREAKPOINT;

/** A part of text that holds more than that, as of OpenAI's Agents SDK for JavaScript, which writes what a reply's message held into its text. */
const isLaden = (part: unknown): part is Wire =>
  saidIn(part) !== undefined && Object.keys(part as Wire).some((field) => !isOfText(part as Wire, field));

const unladen = (part: unknown): unknown =>
  isLaden(part) ? Object.fromEntries(Object.entries(part).filter(([field]) => isOfText(part, field))) : part;

/** Whether a vendor that knows these fields alone takes this one: an empty one it takes of content alone, which may be null beside calls. */
const isTaken = (message: Wire, field: string, known: readonly string[]): boolean =>
  known.includes(field) && (field === "content" || message[field] != null);

/** Adds to `changes` what such a vendor refuses of a message, be it empty: the fields that it does not know, and those of calls and texts. */
export function amendFields(message: Wire, known: readonly string[], changes: Wire): void {
  for (const field in message) {
    if (!isTaken(message, field, known) && !Object.hasOwn(changes, field)) changes[field] = undefined;
  }
  const calls = changes["tool_calls"] ?? message["tool_calls"];
  if (Array.isArray(calls) && !calls.every(isPlainCall)) changes["tool_calls"] = calls.map(plainCall);
  const content = changes["content"] ?? message["content"];
  if (Array.isArray(content) && content.some(isLaden)) changes["content"] = content.map(unladen);
}

/** Whose name is that of the tool, which the call has told. */
const isResult = ({ role }: Wire): boolean => role === "tool" || role === "function";

const saysSomething = (value: unknown): boolean =>
  value != null && value !== "" && (typeof value !== "object" || Object.keys(value).length > 0);

/** Adds to `lost` the fields of parts of text that {@link amendFields} takes out, as far as they say something that the message does not hold itself. */
function nameLostOfTexts(message: Wire, path: string, lost: string[]): void {
  const { content } = message;
  if (!Array.isArray(content)) return;
  for (let at = 0; at < content.length; at++) {
    const part: unknown = content[at];
    if (!isLaden(part)) continue;
    for (const field in part) {
      if (isOfText(part, field) || OF_REPLIES.has(field) || Object.hasOwn(message, field)) continue;
      if (saysSomething(part[field])) lost.push(`${path}.content[${at}].${field}`);
    }
  }
}

/** Names the fields of messages that {@link amendFields} takes out, as far as they say something that stands nowhere else. */
export function lostMessageFields(messages: unknown, known: readonly string[] | undefined): string[] {
  if (!known || !Array.isArray(messages)) return [];
  const lost: string[] = [];
  for (let at = 0; at < messages.length; at++) {
    const message: unknown = messages[at];
    if (!isObject(message)) continue;
    for (const field in message) {
      if (known.includes(field) || OF_REPLIES.has(field) || (field === "name" && isResult(message))) continue;
      if (saysSomething(message[field])) lost.push(`messages[${at}].${field}`);
    }
    nameLostOfTexts(message, `messages[${at}]`, lost);
  }
  return lost;
}
