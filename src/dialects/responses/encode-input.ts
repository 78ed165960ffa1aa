import type { Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart, Turn } from "../../canon/prompt.ts";
import type { Quirks } from "../dialect.ts";
import { knowsLess } from "../knows-all.ts";
import { OnceLines } from "../lines.ts";
import { BREAKPOINT, withBreakpoint } from "../openai-fields.ts";
import { nameLostReasoning } from "../reasoning/lost-reasoning.ts";
import { unpackReasoning } from "../reasoning/proof.ts";
import { NO_RESULT, strayHead } from "../refusals/own-words.ts";
import { cleanText, contextOf, joinTexts } from "../text.ts";
import { inputOf } from "../tools/custom-tools.ts";
import { DistinctNames } from "../tools/distinct-names.ts";
import { encodePart } from "./content.ts";
import type { Item } from "./items.ts";
import { summaryPart } from "./output-items.ts";
import { phaseField } from "./phase.ts";

const SHOWN_BELOW = "(shown below)";

const isText = (part: Item): boolean => part["type"] === "input_text";
/** Longest call id that its own vendor takes, characters (dialects.md 4.3 "ids"). */
const MAX_CALL_ID = 64;

/** A call's id as this dialect takes it: one that is missing or too long becomes its hash, the same for the call and its output. */
export function callIdOf(id: string): string {
  if (id !== "" && id.length <= MAX_CALL_ID) return id;
  return `call_${new Bun.CryptoHasher("sha256").update(id).digest("hex").slice(0, 40)}`;
}

/** The content of what stands above the user's: one part, or as many as there are texts where one of them ends what is cached; [] for none. */
export function systemContent(texts: readonly TextPart[], quirks: Quirks): Item[] {
  if (!knowsLess(quirks) && texts.some(({ text, breakpoint }) => text !== "" && breakpoint)) {
    const said = texts.filter(({ text }) => text !== "");
    return said.map((part) => withBreakpoint({ type: "input_text", text: cleanText(part.text) }, part));
  }
  const text = joinTexts(texts);
  return text ? [{ type: "input_text", text }] : [];
}

/** {@link systemContent} as an item. */
export const systemItem = (content: readonly Item[], quirks: Quirks): Item => ({
  type: "message",
  role: quirks.noDeveloperRole ? "system" : "developer",
  content,
});

/**
 * Writes turns as input items: every call has one output, every output a call, and reasoning is never the last of its turn, all of
 * which its own vendor refuses (dialects.md 4.3).
 */
export class InputWriter {
  readonly #items: Item[] = [];
  /** Results by call id, in order, whatever turn they stand in. */
  readonly #results = new OnceLines<string, ToolResultPart>();
  /** Ids of calls so far: two calls of one id become two ids. */
  readonly #ids = new DistinctNames();

  /** `plain`: for a server of another vendor's than the dialect's own, of what one of its own clients has sent. */
  constructor(
    readonly quirks: Quirks,
    readonly dropped: string[],
    readonly plain = false,
  ) {}

  write(turns: readonly Turn[]): Item[] {
    for (const turn of turns) {
      for (const part of turn.parts) if (part.type === "tool-result") this.#results.add(part.callId, part);
    }
    for (const turn of turns) {
      if (turn.role === "assistant") this.#writeAssistant(turn);
      else if (turn.role === "system") this.#writeSystem(turn);
      else this.#writeUser(turn);
    }
    return this.#items;
  }

  #writeSystem(turn: Turn): void {
    const texts = turn.parts.filter((part): part is TextPart => part.type === "text");
    const content = systemContent(texts, this.quirks);
    if (content.length > 0) this.#items.push(systemItem(content, this.quirks));
  }

  #writeUser(turn: Turn): void {
    const content: Item[] = [];
    for (const part of turn.parts) {
      if (part.type !== "tool-result") this.#encode(part, content);
      else if (this.#results.claim(part)) this.#encodeStray(part, content);
    }
    if (content.length > 0) this.#items.push({ type: "message", role: "user", content });
  }

  /** A result whose call nobody made: the user says it. */
  #encodeStray(result: ToolResultPart, content: Item[]): void {
    content.push({ type: "input_text", text: strayHead(cleanText(result.callId)) });
    for (const part of result.parts) this.#encode(part, content);
  }

  /** Adds a part's wire form to `content`; what has none is named. */
  #encode(part: Part, content: Item[]): void {
    if (part.type !== "opaque") {
      const encoded = encodePart(part);
      if (!encoded) return;
      const context = encoded["type"] === "input_text" ? undefined : contextOf(part);
      if (context !== undefined) content.push({ type: "input_text", text: context });
      content.push(knowsLess(this.quirks) ? encoded : withBreakpoint(encoded, part));
    } else if (part.dialect === "responses") content.push(part.value as Item);
    else this.dropped.push(part.name);
  }

  #writeAssistant(turn: Turn): void {
    const items = this.#items;
    const begin = items.length;
    let outputs: Item[] | undefined;
    const shown: Item[] = [];
    for (const part of turn.parts) {
      if (part.type === "tool-call") {
        const call = this.#call(part);
        items.push(call);
        const type = `${String(call["type"])}_output`;
        outputs ??= [];
        outputs.push({ type, call_id: call["call_id"], output: this.#takeOutput(part.id, shown) });
      } else this.#addAssistantPart(part);
    }
    while (items.length > begin && items.at(-1)?.["type"] === "reasoning") items.pop();
    if (outputs) items.push(...outputs);
    if (shown.length > 0) items.push({ type: "message", role: "user", content: shown });
  }

  #call(part: ToolCallPart): Item {
    const id = this.#ids.take(part.id, (count) => callIdOf(count === 1 ? part.id : `${part.id}_${count}`));
    if (part.custom && this.quirks.customTools !== false) {
      return { type: "custom_tool_call", call_id: id, name: part.name, input: inputOf(part) };
    }
    const text = part.arguments.trim();
    const called = text === "" || text === "null" ? "{}" : cleanText(part.arguments);
    return { type: "function_call", call_id: id, name: part.name, arguments: called };
  }

  #addAssistantPart(part: Part): void {
    if (part.type === "text") {
      if (part.text === "") return;
      const content = [{ type: "output_text", text: cleanText(part.text) }];
      this.#items.push({ type: "message", role: "assistant", content, ...phaseField(part.signature) });
    } else if (part.type === "reasoning") this.#addReasoning(part);
    else if (part.type === "redacted-reasoning") nameLostReasoning(part, this.dropped);
    else if (part.type === "opaque") this.dropped.push(part.name);
    else if (part.type === "image" || part.type === "document" || part.type === "audio") {
      this.dropped.push(part.place ?? `assistant ${part.type}`);
    }
  }

  /** Only this dialect's own proof is taken back; other reasoning cannot be shown to it (dialects.md 4.8 #6). */
  #addReasoning(part: ReasoningPart): void {
    const proof = part.signature === undefined ? undefined : unpackReasoning(part.signature);
    if (!proof && this.plain && part.signature === undefined && part.text !== "") {
      const content = [{ type: "reasoning_text", text: cleanText(part.text) }];
      this.#items.push({ type: "reasoning", summary: [], content });
      return;
    }
    if (!proof) {
      nameLostReasoning(part, this.dropped);
      return;
    }
    const summary = part.text === "" ? [] : [summaryPart(cleanText(part.text))];
    const id = proof.id === "" ? {} : { id: proof.id };
    this.#items.push({ type: "reasoning", ...id, summary, encrypted_content: proof.encrypted });
  }

  /**
   * The output of a call: text alone as a string, else parts; one that never came is made up (dialects.md 4.3). Servers that take text alone (llama.cpp)
   * are told the rest behind it, as the user's: that is added to `shown`.
   */
  #takeOutput(callId: string, shown: Item[]): unknown {
    const result = this.#results.take(callId);
    if (!result) return NO_RESULT;
    const all: Item[] = [];
    for (const part of result.parts) this.#encode(part, all);
    const parts = knowsLess(this.quirks) ? all.filter(isText) : all;
    if (parts.length < all.length) {
      shown.push({ type: "input_text", text: `What the tool call ${cleanText(callId)} showed:` });
      shown.push(...all.filter((part) => !isText(part)));
      if (parts.length === 0) parts.push({ type: "input_text", text: SHOWN_BELOW });
    }
    if (parts.every((part) => part["type"] === "input_text" && part[BREAKPOINT] === undefined)) {
      const text = parts.map((part) => part["text"]).join("\n");
      return result.isError ? `Error: ${text}` : text;
    }
    return result.isError ? [{ type: "input_text", text: "Error:" }, ...parts] : parts;
  }
}
