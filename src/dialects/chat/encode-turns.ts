import type { Part, ToolCallPart, ToolResultPart, Turn } from "../../canon/prompt.ts";
import { cachesMarked } from "../cache-marks.ts";
import type { Quirks } from "../dialect.ts";
import { OnceLines } from "../lines.ts";
import { BREAKPOINT } from "../openai-fields.ts";
import { detailFields, detailsInPart } from "../reasoning/details.ts";
import { nameLostReasoning } from "../reasoning/lost-reasoning.ts";
import { makerOf, needsProof } from "../reasoning/proof.ts";
import { EMPTY_TEXT, NO_RESULT, strayHead } from "../refusals/own-words.ts";
import { cleanText, contextOf } from "../text.ts";
import { attachedBelow, ofResultAbove } from "../tools/attached-media.ts";
import { inputOf } from "../tools/custom-tools.ts";
import { CallIds } from "./call-ids.ts";
import { encodePart } from "./encode-parts.ts";

type Wire = Record<string, unknown>;

/**
 * Text parts of a message as one string, which every server takes; an array only where there is more than text or a cache mark. `keepsParts`: or more than
 * one part. Marks move on from turn to turn, and what stood before one must not read otherwise without it: it would not be found in the cache.
 */
function joinContent(parts: readonly Wire[], keepsParts: boolean): unknown {
  const [first] = parts;
  if (parts.length === 1 && first && isPlain(first)) return first["text"];
  return !keepsParts && parts.every(isPlain) ? parts.map((part) => part["text"]).join("\n") : parts;
}

const isPlain = (part: Wire): boolean =>
  part["type"] === "text" && part["cache_control"] === undefined && part[BREAKPOINT] === undefined;

/**
 * Writes turns as chat messages under the order rules of OpenAI (dialects.md 1.2): each call is followed at once by its result, before
 * anything else, whatever turn the result stood in; a call without one gets a synthetic one, a result without a call becomes text.
 */
export class TurnWriter {
  #messages: Wire[] = [];
  readonly #results = new OnceLines<string, ToolResultPart>();
  /** Images and documents of tool results, which go into the user message behind them (dialects.md 4.8 #3). */
  #attached: Wire[] | undefined;
  #attachedMedia = 0;
  /** Where reasoning text goes back; undefined where the vendor does not want it, or the model not without its proof. */
  readonly #textField: Quirks["reasoningReplay"];
  /** Whether results keep their cache marks: for models that cache by themselves they are plain strings, which every server takes. */
  readonly #keepsMarks: boolean;

  constructor(
    readonly quirks: Quirks,
    readonly dropped: string[],
    model = "",
  ) {
    this.#keepsMarks = quirks.acceptsCacheControl === true && cachesMarked(model);
    this.#textField = needsProof(makerOf(model)) ? undefined : quirks.reasoningReplay;
  }

  write(turns: readonly Turn[]): Wire[] {
    for (const turn of turns) {
      for (const part of turn.parts) {
        if (part.type === "tool-result") this.#results.add(part.callId, part);
      }
    }
    for (const turn of turns) {
      if (turn.role === "assistant") this.#writeAssistant(turn);
      else if (turn.role === "system") this.#writeSystem(turn);
      else this.#writeUser(turn);
    }
    this.#flushAttached();
    if (this.#messages.length === 0) return [{ role: "user", content: EMPTY_TEXT }];
    for (const message of this.#messages) {
      if (message["role"] !== "user") continue;
      message["content"] = joinContent(message["content"] as Wire[], this.quirks.acceptsCacheControl === true);
    }
    return this.#messages;
  }

  /**
   * Two turns of the user in a row are one: the templates of many servers raise on them (dialects.md 4.8 #5). What they hold is joined
   * when all is there.
   */
  #addUser(parts: Wire[]): void {
    const last = this.#messages.at(-1);
    if (last?.["role"] !== "user") this.#messages.push({ role: "user", content: parts });
    else for (const part of parts) (last["content"] as Wire[]).push(part);
  }

  #writeSystem(turn: Turn): void {
    const text = turn.parts.flatMap((part) => (part.type === "text" ? [cleanText(part.text)] : [])).join("\n");
    if (text === "") return;
    this.#flushAttached();
    this.#messages.push({ role: "system", content: text });
  }

  #writeUser(turn: Turn): void {
    const parts = this.#takeAttached();
    for (const part of turn.parts) {
      if (part.type !== "tool-result") this.#encode(part, parts);
      else if (this.#results.claim(part)) this.#encodeOrphan(part, parts);
    }
    if (parts.length > 0) this.#addUser(parts);
  }

  #encodeOrphan(result: ToolResultPart, parts: Wire[]): void {
    parts.push({ type: "text", text: strayHead(cleanText(result.callId)) });
    for (const part of result.parts) this.#encode(part, parts);
  }

  /** Adds a part's wire form; what has none is named. */
  #encode(part: Part, parts: Wire[]): void {
    if (part.type === "opaque") {
      this.dropped.push(part.name);
      return;
    }
    const encoded = encodePart(part, this.quirks);
    if (!encoded) return;
    const context = encoded["type"] === "text" ? undefined : contextOf(part);
    if (context !== undefined) parts.push({ type: "text", text: context });
    parts.push(encoded);
  }

  #flushAttached(): void {
    if (this.#attached) this.#addUser(this.#takeAttached());
  }

  #takeAttached(): Wire[] {
    const attached = this.#attached ?? [];
    this.#attached = undefined;
    this.#attachedMedia = 0;
    return attached;
  }

  #writeAssistant(turn: Turn): void {
    let text = "";
    let isApart = false;
    let reasoning = "";
    let calls: ToolCallPart[] | undefined;
    let details: readonly unknown[] | undefined;
    for (const part of turn.parts) {
      const found = detailsInPart(part);
      if (found) details = found;
      else if (part.type === "text") {
        const next = part.isApart === true;
        text += text !== "" && (isApart || next) ? `\n${cleanText(part.text)}` : cleanText(part.text);
        isApart = next;
      } else if (part.type === "reasoning") reasoning += cleanText(part.text);
      else if (part.type === "tool-call") {
        calls ??= [];
        calls.push(part);
      } else if (part.type === "opaque") this.dropped.push(part.name);
      else if ("place" in part && part.place) this.dropped.push(part.place);
    }
    // Most refuse a turn in which nothing is said or called (dialects.md 4.8 #4), though it was thought: DeepSeek as the last one ("must be a user
    // message"), Moonshot for "must not be empty". Agents that ask again after a stream broke off behind the reasoning send such a turn.
    const saysNothing = text === "" && !calls;
    for (const part of turn.parts) {
      if (saysNothing || !(details || this.#isReplayed(part))) nameLostReasoning(part, this.dropped);
    }
    if (saysNothing) return;
    this.#flushAttached();
    const message: Wire = { role: "assistant", content: text };
    // They hold the text too.
    if (details) Object.assign(message, detailFields(details));
    else this.#addReasoning(message, reasoning);
    if (calls) this.#writeCalls(message, calls);
    else this.#addAssistant(message);
  }

  /** Whether reasoning stands in the text that goes back. */
  #isReplayed(part: Part): boolean {
    return this.#textField !== undefined && part.type === "reasoning" && part.text !== "";
  }

  #writeCalls(message: Wire, calls: readonly ToolCallPart[]): void {
    if (message["content"] === "") message["content"] = this.quirks.emptyContent ? "" : null;
    const ids = new CallIds(this.quirks);
    const called = calls.map((call) => ({ call, id: ids.take(call.id) }));
    message["tool_calls"] = called.map(({ call, id }) => this.#encodeCall(call, id));
    this.#addAssistant(message);
    for (const { call, id } of called) this.#writeResult(call, id);
  }

  /** Two turns of the assistant in a row are one as well; behind calls stand their results, so the earlier one has none. */
  #addAssistant(message: Wire): void {
    const last = this.#messages.at(-1);
    if (last?.["role"] !== "assistant") {
      this.#messages.push(message);
      return;
    }
    for (const [field, value] of Object.entries(message)) {
      const both = field !== "role" && typeof value === "string" && value !== "" && typeof last[field] === "string";
      if (both && last[field] !== "") last[field] += `\n${value}`;
      else if (value !== null && value !== "") last[field] = value;
    }
  }

  #addReasoning(message: Wire, reasoning: string): void {
    if (this.#textField !== undefined && reasoning !== "") message[this.#textField] = reasoning;
    else if (this.quirks.reasoningReplayAlways) message["reasoning_content"] = "";
  }

  /** Arguments go out as the text they came as: numbers keep their digits (dialects.md 4.8 #10 and #43). */
  #encodeCall(call: ToolCallPart, id: string): Wire {
    if (call.custom && this.quirks.customTools === true) {
      return { id, type: "custom", custom: { name: call.name, input: inputOf(call) } };
    }
    const text = call.arguments.trim();
    const called = { name: call.name, arguments: text === "" || text === "null" ? "{}" : cleanText(call.arguments) };
    return { id, type: "function", function: called };
  }

  #writeResult(call: ToolCallPart, id: string): void {
    const result = this.#results.take(call.id);
    const content = result ? this.#resultContent(result) : NO_RESULT;
    this.#messages.push({ role: "tool", tool_call_id: id, content });
  }

  /**
   * A result's text, in parts where its model caches what is marked or one of them ends what is cached; whatever is not text goes behind, with a word on both sides of where it went.
   */
  #resultContent(result: ToolResultPart): unknown {
    const texts: Wire[] = [];
    for (const part of result.parts) {
      const parts: Wire[] = [];
      this.#encode(part, parts);
      for (const encoded of parts) {
        if (encoded["type"] === "text") {
          texts.push(encoded);
          continue;
        }
        const label = `${part.type} ${++this.#attachedMedia}`;
        texts.push({ type: "text", text: attachedBelow(label) });
        this.#attached ??= [];
        this.#attached.push({ type: "text", text: ofResultAbove(label) }, encoded);
      }
    }
    const last = texts.at(-1);
    if (last && result.cache != null && this.#keepsMarks) last["cache_control"] ??= result.cache;
    if (result.isError) texts[0] = { type: "text", ...texts[0], text: `Error: ${texts[0]?.["text"] ?? ""}` };
    const keepsParts = this.#keepsMarks || texts.some((part) => part[BREAKPOINT] !== undefined);
    return keepsParts && texts.length > 0 ? joinContent(texts, true) : texts.map((part) => part["text"]).join("\n");
  }
}
