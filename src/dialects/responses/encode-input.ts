import type { Part, TextPart, ToolCallPart, ToolResultPart, Turn } from "../../canon/prompt.ts";
import { inputOf } from "../custom-tools.ts";
import type { Quirks } from "../dialect.ts";
import { Lines, OwnNames } from "../lines.ts";
import { unpackReasoning } from "../reasoning-proof.ts";
import { cleanText } from "../text.ts";
import { encodePart } from "./content.ts";
import type { Item } from "./items.ts";
import { summaryPart } from "./output-items.ts";

export const NO_RESULT = "(no result)";
/** Longest call id that its own vendor takes, characters (dialects.md 4.3 "ids"). */
const MAX_CALL_ID = 64;

/** A call's id as this dialect takes it: one that is missing or too long becomes its hash, the same for the call and its output. */
export function callIdOf(id: string): string {
  if (id !== "" && id.length <= MAX_CALL_ID) return id;
  return `call_${new Bun.CryptoHasher("sha256").update(id).digest("hex").slice(0, 40)}`;
}

/** Texts as one, in order (interface 4.5). */
export const joinTexts = (parts: readonly TextPart[]): string =>
  parts
    .filter((part) => part.text !== "")
    .map((part) => cleanText(part.text))
    .join("\n");

/** Text that stands above the user's, as an item. */
export function systemItem(text: string, quirks: Quirks): Item {
  const role = quirks.noDeveloperRole ? "system" : "developer";
  return { type: "message", role, content: [{ type: "input_text", text }] };
}

/**
 * Writes turns as input items: every call has one output, every output a call, and reasoning is never the last of its turn, all of
 * which its own vendor refuses (dialects.md 4.3).
 */
export class InputWriter {
  readonly #items: Item[] = [];
  /** Results by call id, in order, whatever turn they stand in. */
  readonly #results = new Lines<string, ToolResultPart>();
  readonly #placed = new Set<ToolResultPart>();
  /** Ids of calls so far: two calls of one id become two ids. */
  readonly #ids = new OwnNames();

  constructor(
    readonly quirks: Quirks,
    readonly dropped: string[],
  ) {}

  write(turns: readonly Turn[]): Item[] {
    for (const part of turns.flatMap((turn) => turn.parts)) {
      if (part.type === "tool-result") this.#results.add(part.callId, part);
    }
    for (const turn of turns) {
      if (turn.role === "assistant") this.#writeAssistant(turn);
      else if (turn.role === "system") this.#writeSystem(turn);
      else this.#writeUser(turn);
    }
    return this.#items;
  }

  #writeSystem(turn: Turn): void {
    const text = joinTexts(turn.parts.filter((part): part is TextPart => part.type === "text"));
    if (text !== "") this.#items.push(systemItem(text, this.quirks));
  }

  #writeUser(turn: Turn): void {
    const content: Item[] = [];
    for (const part of turn.parts) {
      if (part.type !== "tool-result") content.push(...this.#encode(part));
      else if (!this.#placed.has(part)) content.push(...this.#encodeStray(part));
    }
    if (content.length > 0) this.#items.push({ type: "message", role: "user", content });
  }

  /** A result whose call nobody made: the user says it. */
  #encodeStray(result: ToolResultPart): Item[] {
    // A later call of the same id must not take it again.
    this.#placed.add(result);
    const head = { type: "input_text", text: `Result of tool call ${cleanText(result.callId)}:` };
    return [head, ...result.parts.flatMap((part) => this.#encode(part))];
  }

  #encode(part: Part): Item[] {
    if (part.type === "opaque") {
      if (part.dialect === "responses") return [part.value as Item];
      this.dropped.push(part.name);
      return [];
    }
    const encoded = encodePart(part);
    return encoded ? [encoded] : [];
  }

  #writeAssistant(turn: Turn): void {
    const items: Item[] = [];
    const outputs: Item[] = [];
    for (const part of turn.parts) {
      if (part.type === "tool-call") {
        const call = this.#call(part);
        items.push(call);
        const type = `${String(call["type"])}_output`;
        outputs.push({ type, call_id: call["call_id"], output: this.#takeOutput(part.id) });
      } else items.push(...this.#assistantPart(part));
    }
    while (items.at(-1)?.["type"] === "reasoning") items.pop();
    this.#items.push(...items, ...outputs);
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

  #assistantPart(part: Part): Item[] {
    if (part.type === "text" && part.text !== "") {
      const content = [{ type: "output_text", text: cleanText(part.text) }];
      return [{ type: "message", role: "assistant", content }];
    }
    if (part.type === "reasoning") {
      // Only this dialect's own proof is taken back; other reasoning cannot be shown to it (dialects.md 4.8 #6).
      const proof = part.signature === undefined ? undefined : unpackReasoning(part.signature);
      if (!proof) return [];
      const summary = part.text === "" ? [] : [summaryPart(cleanText(part.text))];
      const id = proof.id === "" ? {} : { id: proof.id };
      return [{ type: "reasoning", ...id, summary, encrypted_content: proof.encrypted }];
    }
    if (part.type === "opaque") this.dropped.push(part.name);
    else if (part.type === "image" || part.type === "document" || part.type === "audio") {
      this.dropped.push(part.place ?? `assistant ${part.type}`);
    }
    return [];
  }

  /** The output of a call: text alone as a string, else parts; one that never came is made up (dialects.md 4.3). */
  #takeOutput(callId: string): unknown {
    const result = this.#results.take(callId, (one) => this.#placed.has(one));
    if (!result) return NO_RESULT;
    this.#placed.add(result);
    const parts = result.parts.flatMap((part) => this.#encode(part));
    if (parts.every((part) => part["type"] === "input_text")) {
      const text = parts.map((part) => part["text"]).join("\n");
      return result.isError ? `Error: ${text}` : text;
    }
    return result.isError ? [{ type: "input_text", text: "Error:" }, ...parts] : parts;
  }
}
