import type { DocumentPart, Part, TextPart, ToolResultPart, Turn } from "../../canon/prompt.ts";
import { Lines } from "../lines.ts";
import { isPacked, makerOf } from "../reasoning-proof.ts";
import { cleanText, isVisible } from "../text.ts";
import { mergeTurns } from "../turns.ts";
import { NO_AUDIO, nameLostDetail, unsayable } from "../unsayable.ts";
import { encodeDocumentSource, encodeImageSource } from "./media.ts";
import { CONTINUE_TEXT } from "./prefill.ts";
import { EMPTY_TEXT, unansweredResult } from "./sound-messages.ts";
import { ToolIds } from "./tool-ids.ts";
import { toInput } from "./tool-input.ts";

export type Block = Record<string, unknown>;
export type Message = { role: "user" | "assistant"; content: Block[] };

const NO_OUTPUT_TEXT = "(no output)";

/** A canonical cache mark as the field of a block. */
export function markField(part: { cache?: unknown }): { cache_control?: unknown } {
  return part.cache === undefined ? {} : { cache_control: part.cache };
}

/** A text block, or nothing for text that cannot be seen. */
export function encodeText(part: TextPart): Block[] {
  const text = cleanText(part.text);
  if (!isVisible(text)) return [];
  return [part.cache === undefined ? { type: "text", text } : { type: "text", text, cache_control: part.cache }];
}

function encodeDocument(part: DocumentPart): Block {
  const { source } = part;
  if (source.kind === "base64" && source.mediaType.startsWith("image/")) {
    return { type: "image", source: encodeImageSource(part), ...markField(part) };
  }
  return {
    type: "document",
    source: encodeDocumentSource(part),
    ...(part.title && { title: part.title }),
    ...(part.context && { context: part.context }),
    ...markField(part),
  };
}

/** A part that users may send, also inside a tool result; nothing for those that only assistants have. */
function encodeUserPart(part: Part, dropped: string[]): Block[] {
  if (part.type === "text") return encodeText(part);
  if (part.type === "image") {
    nameLostDetail(part, dropped);
    return [{ type: "image", source: encodeImageSource(part), ...markField(part) }];
  }
  if (part.type === "document") return [encodeDocument(part)];
  if (part.type === "audio") throw unsayable(part, NO_AUDIO);
  if (part.type === "opaque") return encodeOpaque(part, dropped);
  return [];
}

function encodeOpaque(part: Extract<Part, { type: "opaque" }>, dropped: string[]): Block[] {
  if (part.dialect === "messages") return [part.value as Block];
  dropped.push(part.name);
  return [];
}

/** What a tool gave back, as the smallest form that says it. An error must not be empty. */
function encodeResultContent(part: ToolResultPart, dropped: string[]): unknown {
  const blocks = part.parts.flatMap((inner) => encodeUserPart(inner, dropped));
  if (blocks.length === 0) return part.isError ? NO_OUTPUT_TEXT : undefined;
  const only = blocks.length === 1 ? blocks[0] : undefined;
  if (only?.["type"] === "text" && only["cache_control"] === undefined) return only["text"];
  return blocks;
}

function encodeResult(part: ToolResultPart, id: string, dropped: string[]): Block {
  const content = encodeResultContent(part, dropped);
  return {
    type: "tool_result",
    tool_use_id: id,
    ...(content !== undefined && { content }),
    ...(part.isError && { is_error: true }),
    ...markField(part),
  };
}

/** A result whose call is not in the turn before it: this dialect refuses it as such, so the user says it (dialects.md 4.3). */
function encodeStrayResult(part: ToolResultPart, dropped: string[]): Block[] {
  const blocks = part.parts.flatMap((inner) => encodeUserPart(inner, dropped));
  return [{ type: "text", text: `Result of tool call ${cleanText(part.callId)}:` }, ...blocks];
}

const NO_ORPHANS: Block[] = [];

/** Writes the turns of one request, keeping in mind which tool calls still wait for their result. */
class TurnWriter {
  readonly messages: Message[] = [];
  #ids = new ToolIds();
  /** Client's call id → ids written for it, of the assistant turn just before. */
  #waiting = new Lines<string, string>();

  constructor(
    readonly dropped: string[],
    readonly model: string,
  ) {}

  #add(role: Message["role"], content: Block[]): void {
    const last = this.messages.at(-1);
    if (last?.role === role) last.content.push(...content);
    else this.messages.push({ role, content });
  }

  /** Error results for the calls nobody answered: without them the whole request is refused (dialects.md 2.2). */
  takeOrphans(): Block[] {
    const ids = this.#waiting.takeAll();
    return ids.length === 0 ? NO_ORPHANS : ids.map(unansweredResult);
  }

  user(turn: Turn): void {
    const results: Block[] = [];
    const others: Block[] = [];
    for (const part of turn.parts) {
      if (part.type !== "tool-result") {
        others.push(...encodeUserPart(part, this.dropped));
        continue;
      }
      const id = this.#waiting.take(part.callId);
      if (id === undefined) others.push(...encodeStrayResult(part, this.dropped));
      else results.push(encodeResult(part, id, this.dropped));
    }
    const orphans = this.takeOrphans();
    const content = results.length + orphans.length === 0 ? others : [...results, ...orphans, ...others];
    this.#add("user", content.length > 0 ? content : [{ type: "text", text: EMPTY_TEXT }]);
  }

  /** Calls come last: what follows a tool_use must be its result. A turn that holds nothing is left out. */
  assistant(turn: Turn): void {
    const orphans = this.takeOrphans();
    if (orphans.length > 0) this.#add("user", orphans);
    const content: Block[] = [];
    const calls: Block[] = [];
    for (const part of turn.parts) {
      if (part.type === "tool-call") calls.push(this.#call(part));
      else content.push(...this.#assistantPart(part));
    }
    content.push(...calls);
    if (content.length === 0 && turn.parts.some((part) => part.type === "text" && part.text !== "")) {
      content.push({ type: "text", text: EMPTY_TEXT });
    }
    if (content.length === 0) return;
    if (this.messages.length === 0) this.#add("user", [{ type: "text", text: CONTINUE_TEXT }]);
    this.#add("assistant", content);
  }

  #call(part: Extract<Part, { type: "tool-call" }>): Block {
    const id = this.#ids.take(part.id);
    this.#waiting.add(part.id, id);
    return { type: "tool_use", id, name: part.name, input: toInput(part.arguments), ...markField(part) };
  }

  /** Thinking is bound to its model: another one refuses it (dialects.md 2.9). */
  #isMadeHere({ maker }: { maker?: string }): boolean {
    return maker === undefined || maker === makerOf(this.model);
  }

  #assistantPart(part: Part): Block[] {
    if (part.type === "text") return encodeText(part);
    // Reasoning without its vendor's proof is refused, and none can be made up for it (dialects.md 4.8 #6).
    if (part.type === "reasoning") {
      const { signature } = part;
      const isOwn = signature && !isPacked(signature) && this.#isMadeHere(part);
      return isOwn ? [{ type: "thinking", thinking: part.text, signature }] : [];
    }
    if (part.type === "redacted-reasoning") {
      return this.#isMadeHere(part) ? [{ type: "redacted_thinking", data: part.data }] : [];
    }
    if (part.type === "opaque") return encodeOpaque(part, this.dropped);
    this.dropped.push(("place" in part && part.place) || `assistant ${part.type}`);
    return [];
  }
}

/** A final assistant turn is a prefill: it must not end in white space (dialects.md 2.1). Whether one may stand there is for `amend`. */
function finishPrefill(messages: Message[]): void {
  const last = messages.at(-1);
  const block = last?.role === "assistant" ? last.content.at(-1) : undefined;
  if (block?.["type"] === "text") block["text"] = String(block["text"]).trimEnd();
}

/**
 * Turns as `messages`, so that the strictest server of this dialect takes them (dialects.md 2.2, 4.3, 4.8 #1, #2, #4, #5): user
 * first, roles alternating, every call answered in the very next turn with the results at its head, no empty text, no proof that is
 * known to be another model's than `model`.
 * Throws GatewayError (invalid_request, with the part's place) for media this dialect cannot carry.
 */
export function encodeTurns(turns: readonly Turn[], dropped: string[], model = ""): Message[] {
  const writer = new TurnWriter(dropped, model);
  for (const turn of mergeTurns(turns)) {
    if (turn.role === "assistant") writer.assistant(turn);
    else writer.user(turn);
  }
  const orphans = writer.takeOrphans();
  if (orphans.length > 0) writer.messages.push({ role: "user", content: orphans });
  if (writer.messages.length === 0)
    writer.messages.push({ role: "user", content: [{ type: "text", text: EMPTY_TEXT }] });
  finishPrefill(writer.messages);
  return writer.messages;
}
