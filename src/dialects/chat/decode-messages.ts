import type { OpaquePart, Part, ReasoningPart, TextPart, ToolCallPart, Turn } from "../../canon/prompt.ts";
import { isObject, listOf, put } from "../../lib/json.ts";
import { unknownFields, unknownPaths } from "../loss/unknown-fields.ts";
import { cleanText, isVisible } from "../text.ts";
import { wrapInput } from "../tools/custom-tools.ts";
import { addToUserTurn } from "../turns.ts";
import { decodePart } from "./decode-parts.ts";
import { reasoningSignature, reasoningText, thoughtField } from "./delta.ts";
import { signatureIn } from "./extra-content.ts";
import { PICTURES, picturesSentBack } from "./pictures.ts";
import { inventCallId, readToolFragment } from "./tool-calls.ts";

type Wire = Record<string, unknown>;

/** Fields of a message that is not the assistant's, those that cross and those that are told apart. */
const KNOWN_FIELDS: ReadonlySet<string> = new Set(["role", "content", "name", "cache_control", "tool_call_id"]);
/** Those of an assistant's, and what a reply holds beside its words, which clients send back as it came (dialects.md 1.2, 1.3). */
const ASSISTANT_FIELDS: ReadonlySet<string> = new Set([
  ...["role", "content", "name", "cache_control", "tool_calls", "function_call", "refusal", "audio", "prefix"],
  ...["reasoning_content", "reasoning", "reasoning_details", "thinking"],
  ...["annotations", "citations", "parsed", "id", "phase", "provider_specific_fields", "thinking_blocks", PICTURES],
]);
/** Fields of a content part. */
const PART_FIELDS: ReadonlySet<string> = new Set([
  ...["type", "text", "refusal", "image_url", "input_audio", "video_url", "file", "file_id", "annotations"],
  ...["cache_control", "prompt_cache_breakpoint"],
]);

/** Whose name is that of the tool, which the call has told. */
const NAMED_BY_CALL: ReadonlySet<unknown> = new Set(["tool", "function"]);
/** What an image, a file and a sound may say inside their parts; `format` is LiteLLM's word for what their bytes show. */
const HELD_FIELDS: readonly [field: string, known: ReadonlySet<string>][] = [
  ["image_url", new Set(["url", "detail", "format"])],
  ["file", new Set(["filename", "file_data", "file_id", "format"])],
  ["input_audio", new Set(["data", "format"])],
];
/** Fields of a call, and of the function in it, those that SDKs put in while they read a reply among them. */
const CALL_FIELDS: ReadonlySet<string> = new Set([
  ...["id", "type", "index", "function", "custom", "extra_content", "cache_control", "provider_specific_fields"],
]);
const CALLED_FIELDS: ReadonlySet<string> = new Set([
  ...["name", "arguments", "parsed_arguments", "input", "provider_specific_fields"],
]);

/** Where a message stands: told only where something is amiss with it. */
const pathOf = (at: number): string => `messages[${at}]`;

const isSaid = (part: Part): boolean => part.type !== "text" || isVisible(part.text);

/** The parts that nobody else knows, of a message that holds no others: it was to say something, and not only a part of it is lost. */
function unknownParts(content: unknown, path: string): OpaquePart[] {
  if (!Array.isArray(content)) return [];
  return content.flatMap((value: unknown, index) => {
    const name = `${path}.content[${index}]`;
    return decodePart(value, name) ? [] : [{ type: "opaque", dialect: "chat", name, value }];
  });
}

/** Reads a conversation message by message: leading system text apart, tool results gathered into the user turn that answers a call. */
class MessageReader {
  readonly system: TextPart[] = [];
  readonly turns: Turn[] = [];
  /** Calls of the older `function_call` form carry no id; its result follows at once and gets the same one. */
  #legacyCalls = 0;

  constructor(readonly dropped: string[]) {}

  /** `at`: its place among the messages. `isLast`: nothing follows, so an assistant's turn is one to be continued. */
  read(message: Wire, at: number, isLast: boolean): void {
    if (message["name"] != null && !NAMED_BY_CALL.has(message["role"])) this.dropped.push(`${pathOf(at)}.name`);
    const known = message["role"] === "assistant" ? ASSISTANT_FIELDS : KNOWN_FIELDS;
    for (const field of unknownFields(message, known)) this.dropped.push(`${pathOf(at)}.${field}`);
    switch (message["role"]) {
      case "system":
      case "developer":
        this.#readSystem(message, at);
        break;
      case "assistant":
        this.#readAssistant(message, at, isLast);
        break;
      case "tool":
        this.#readResult(message, at, typeof message["tool_call_id"] === "string" ? message["tool_call_id"] : "");
        break;
      case "function":
        this.#readResult(message, at, this.#legacyId());
        break;
      default:
        this.#readUser(message, at);
    }
  }

  #readSystem(message: Wire, at: number): void {
    const isLeading = this.turns.length === 0;
    const parts: TextPart[] = isLeading ? this.system : [];
    for (const part of this.#parts(message, at)) {
      if (part.type === "text") parts.push(part);
      else this.dropped.push("place" in part && part.place ? part.place : pathOf(at));
    }
    if (!isLeading && parts.length > 0) this.turns.push({ role: "system", parts });
  }

  #readUser(message: Wire, at: number): void {
    const parts = this.#parts(message, at);
    addToUserTurn(this.turns, parts.some(isSaid) ? parts : [...parts, ...unknownParts(message["content"], pathOf(at))]);
  }

  #readAssistant(message: Wire, at: number, isLast: boolean): void {
    if (message[PICTURES] && !Array.isArray(message[PICTURES])) this.dropped.push(`${pathOf(at)}.${PICTURES}`);
    if (message["audio"]) this.dropped.push(`${pathOf(at)}.audio`);
    if (message["prefix"] && !isLast) this.dropped.push(`${pathOf(at)}.prefix`);
    const reasoning = readReasoning(message);
    const said = this.#parts(message, at);
    const parts: Part[] = reasoning ? [reasoning, ...said] : said;
    parts.push(...picturesSentBack(message, pathOf(at)));
    if (typeof message["refusal"] === "string" && message["refusal"] !== "") {
      parts.push({ type: "text", text: cleanText(message["refusal"]) });
    }
    const calls = listOf(message["tool_calls"]);
    for (let index = 0; index < calls.length; index++) {
      const path = `${pathOf(at)}.tool_calls[${index}]`;
      const part = readCall(calls[index], path);
      if (part) {
        parts.push(part);
        this.#nameLostOfCall(calls[index], path);
      } else this.dropped.push(path);
    }
    if (isObject(message["function_call"])) {
      this.#legacyCalls++;
      const part = readCall({ id: this.#legacyId(), function: message["function_call"] }, pathOf(at));
      if (part) parts.push(part);
    }
    this.turns.push({ role: "assistant", parts });
  }

  #readResult(message: Wire, at: number, callId: string): void {
    addToUserTurn(this.turns, [{ type: "tool-result", callId, parts: this.#parts(message, at) }]);
  }

  #legacyId(): string {
    return inventCallId("function_call", this.#legacyCalls);
  }

  #parts(message: Wire, at: number): Part[] {
    const content = message["content"];
    const cache = message["cache_control"];
    if (typeof content === "string") {
      if (content === "") return [];
      const part: TextPart = { type: "text", text: cleanText(content) };
      if (cache != null) part.cache = cache;
      return [part];
    }
    if (!Array.isArray(content)) return [];
    const parts: Part[] = [];
    for (let index = 0; index < content.length; index++) {
      const value: unknown = content[index];
      const place = `${pathOf(at)}.content[${index}]`;
      // Reasoning inside content is read with the rest of the message's reasoning.
      if (isObject(value) && thoughtField(value) !== undefined) continue;
      const part = decodePart(value, place);
      if (!part) {
        this.dropped.push(place);
        continue;
      }
      parts.push(part);
      if (!isObject(value)) continue;
      this.dropped.push(...unknownPaths(value, PART_FIELDS, place));
      for (const [field, known] of HELD_FIELDS) {
        if (field in value) this.dropped.push(...unknownPaths(value[field], known, `${place}.${field}`));
      }
    }
    return parts;
  }

  #nameLostOfCall(call: unknown, path: string): void {
    if (!isObject(call)) return;
    this.dropped.push(...unknownPaths(call, CALL_FIELDS, path));
    for (const field of ["function", "custom"]) {
      this.dropped.push(...unknownPaths(call[field], CALLED_FIELDS, `${path}.${field}`));
    }
  }
}

/** Reasoning that a client sends back (dialects.md 4.3); only Anthropic's own comes with its proof. */
function readReasoning(message: Wire): ReasoningPart | undefined {
  const text = cleanText(reasoningText(message));
  const signature = reasoningSignature(message);
  if (text === "" && signature === undefined) return undefined;
  return signature === undefined ? { type: "reasoning", text } : { type: "reasoning", text, signature };
}

/** A call that the assistant made. A custom tool's text becomes the argument `input` (dialects.md 1.1). */
function readCall(value: unknown, seed: string): ToolCallPart | undefined {
  const fragment = readToolFragment(value);
  if (!fragment || fragment.name === "") return undefined;
  const raw = fragment.custom ? wrapInput(fragment.arguments) : fragment.arguments;
  const id = fragment.id || inventCallId(seed, 0);
  const part: ToolCallPart = { type: "tool-call", id, name: fragment.name, arguments: cleanText(raw) };
  if (fragment.custom) part.custom = true;
  put(part, "signature", signatureIn(value));
  return part;
}

/** `messages` of a checked body as system text and turns (dialects.md 4.3, 4.8 #2). Parts that cannot cross are named in `dropped`. */
export function decodeMessages(messages: unknown, dropped: string[]): { system: TextPart[]; turns: Turn[] } {
  const reader = new MessageReader(dropped);
  const listed = listOf(messages);
  for (let index = 0; index < listed.length; index++) {
    const message = listed[index];
    if (isObject(message)) reader.read(message, index, index === listed.length - 1);
  }
  return { system: reader.system, turns: reader.turns };
}
