import type { DocumentPart, OpaquePart, Part, TextPart, ToolResultPart, Turn } from "../../canon/prompt.ts";
import { put } from "../../lib/json.ts";
import { Lines } from "../lines.ts";
import { NO_AUDIO, nameLostDetail, unsayable } from "../loss/unsayable.ts";
import { nameLostReasoning } from "../reasoning/lost-reasoning.ts";
import { isPacked, makerOf } from "../reasoning/proof.ts";
import { CONTINUE_TEXT, EMPTY_TEXT, strayHead } from "../refusals/own-words.ts";
import { cleanText, isVisible } from "../text.ts";
import { ToolIds } from "../tools/tool-ids.ts";
import { toInput } from "../tools/tool-input.ts";
import { mergeAroundSystem, mergeTurns } from "../turns.ts";
import { isCall } from "./blocks.ts";
import { encodeDocumentSource, encodeImageSource } from "./media.ts";
import { unansweredResult } from "./sound-messages.ts";
import { isThinking } from "./tool-loop.ts";

export type Block = Record<string, unknown>;
export type Message = { role: Turn["role"]; content: Block[] };

const NO_OUTPUT_TEXT = "(no output)";

/** The block of a part, or of a tool, with the cache mark that this has. */
export function withMark(block: Block, part: { cache?: unknown }): Block {
  if (part.cache !== undefined) block["cache_control"] = part.cache;
  return block;
}

/** Adds a text block to `blocks`; nothing for text that cannot be seen. */
export function addText(part: TextPart, blocks: Block[]): void {
  const text = cleanText(part.text);
  if (isVisible(text)) blocks.push(withMark({ type: "text", text }, part));
}

function encodeDocument(part: DocumentPart): Block {
  const { source } = part;
  if (source.kind === "base64" && source.mediaType.startsWith("image/")) {
    return { type: "image", source: encodeImageSource(part) };
  }
  const block: Block = { type: "document", source: encodeDocumentSource(part) };
  if (part.title) block["title"] = part.title;
  if (part.context) block["context"] = part.context;
  return block;
}

/** Adds a part that users may send, also inside a tool result, to `blocks`; nothing for those that only assistants have. */
function addUserPart(part: Part, blocks: Block[], dropped: string[]): void {
  if (part.type === "text") addText(part, blocks);
  else if (part.type === "image") {
    nameLostDetail(part, dropped);
    blocks.push(withMark({ type: "image", source: encodeImageSource(part) }, part));
  } else if (part.type === "document") blocks.push(withMark(encodeDocument(part), part));
  else if (part.type === "audio") throw unsayable(part, NO_AUDIO);
  else if (part.type === "opaque") addOpaque(part, blocks, dropped);
}

function addOpaque(part: OpaquePart, blocks: Block[], dropped: string[]): void {
  if (part.dialect === "messages") blocks.push(part.value as Block);
  else dropped.push(part.name);
}

/** What a tool gave back, as the smallest form that says it. An error must not be empty. */
function encodeResultContent(part: ToolResultPart, dropped: string[]): unknown {
  const blocks: Block[] = [];
  for (const inner of part.parts) addUserPart(inner, blocks, dropped);
  if (blocks.length === 0) return part.isError ? NO_OUTPUT_TEXT : undefined;
  const only = blocks.length === 1 ? blocks[0] : undefined;
  return only?.["type"] === "text" ? only["text"] : blocks;
}

const cacheOf = (part: Part): unknown => ("cache" in part ? part.cache : undefined);

/** A cache mark inside a result is one behind it: only blocks that stand in a turn themselves are marked (langchain-ai/langchain #34920). */
function encodeResult(part: ToolResultPart, id: string, dropped: string[]): Block {
  const block: Block = { type: "tool_result", tool_use_id: id };
  const cache = part.cache ?? part.parts.map(cacheOf).findLast((mark) => mark !== undefined);
  const parts = part.parts.map((inner) => (cacheOf(inner) === undefined ? inner : { ...inner, cache: undefined }));
  put(block, "content", encodeResultContent({ ...part, parts }, dropped));
  if (part.isError) block["is_error"] = true;
  return withMark(block, { cache });
}

/** A result whose call is not in the turn before it: this dialect refuses it as such, so the user says it (dialects.md 4.3). */
function addStrayResult(part: ToolResultPart, blocks: Block[], dropped: string[]): void {
  blocks.push({ type: "text", text: strayHead(cleanText(part.callId)) });
  for (const inner of part.parts) addUserPart(inner, blocks, dropped);
}

/**
 * An assistant's blocks with the calls last, so that what follows a call is its result. A turn with thinking stays as its model gave it: that refuses
 * thinking before which something else stands than did (UKGovernmentBEIS/inspect_ai #4922), and takes what stands behind a call.
 */
const callsLast = (blocks: Block[]): Block[] =>
  blocks.some(isThinking)
    ? blocks
    : [...blocks.filter((block) => !isCall(block)), ...blocks.filter((block) => isCall(block))];

const NONE: readonly Block[] = [];

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
  takeOrphans(): readonly Block[] {
    const ids = this.#waiting.takeAll();
    return ids.length === 0 ? NONE : ids.map(unansweredResult);
  }

  user(turn: Turn): void {
    let results: Block[] | undefined;
    const others: Block[] = [];
    for (const part of turn.parts) {
      if (part.type !== "tool-result") {
        addUserPart(part, others, this.dropped);
        continue;
      }
      const id = this.#waiting.take(part.callId);
      if (id === undefined) addStrayResult(part, others, this.dropped);
      else {
        results ??= [];
        results.push(encodeResult(part, id, this.dropped));
      }
    }
    const orphans = this.takeOrphans();
    const content = results || orphans.length > 0 ? [...(results ?? NONE), ...orphans, ...others] : others;
    this.#add("user", content.length > 0 ? content : [{ type: "text", text: EMPTY_TEXT }]);
  }

  /** A turn that holds nothing is left out. */
  assistant(turn: Turn): void {
    const orphans = this.takeOrphans();
    if (orphans.length > 0) this.#add("user", [...orphans]);
    const content: Block[] = [];
    for (const part of turn.parts) {
      if (part.type === "tool-call") content.push(this.#call(part));
      else this.#addAssistantPart(part, content);
    }
    if (content.length === 0 && turn.parts.some((part) => part.type === "text" && part.text !== "")) {
      content.push({ type: "text", text: EMPTY_TEXT });
    }
    if (content.length === 0) return;
    if (this.messages.length === 0) this.#add("user", [{ type: "text", text: CONTINUE_TEXT }]);
    this.#add("assistant", callsLast(content));
  }

  /** Where it may stand: behind the user, and before the assistant or at the end ("Mid-conversation system messages", platform.claude.com). */
  system(turn: Turn): void {
    const content: Block[] = [];
    for (const part of turn.parts) if (part.type === "text") addText(part, content);
    if (content.length === 0) return;
    const orphans = this.takeOrphans();
    if (orphans.length > 0) this.#add("user", [...orphans]);
    if (this.messages.at(-1)?.role !== "user") this.#add("user", [{ type: "text", text: CONTINUE_TEXT }]);
    this.#add("system", content);
  }

  #call(part: Extract<Part, { type: "tool-call" }>): Block {
    const id = this.#ids.take(part.id);
    this.#waiting.add(part.id, id);
    return withMark({ type: "tool_use", id, name: part.name, input: toInput(part.arguments) }, part);
  }

  /** Thinking is bound to its model: another one refuses it (dialects.md 2.9). */
  #isMadeHere({ maker }: { maker?: string }): boolean {
    return maker === undefined || maker === makerOf(this.model);
  }

  #addAssistantPart(part: Part, content: Block[]): void {
    if (part.type === "text") addText(part, content);
    else if (part.type === "reasoning") {
      // Reasoning without its vendor's proof is refused, and none can be made up for it (dialects.md 4.8 #6).
      const { signature } = part;
      const isOwn = signature && !isPacked(signature) && this.#isMadeHere(part);
      if (isOwn) content.push({ type: "thinking", thinking: part.text, signature });
      else nameLostReasoning(part, this.dropped);
    } else if (part.type === "redacted-reasoning") {
      if (this.#isMadeHere(part)) content.push({ type: "redacted_thinking", data: part.data });
      else nameLostReasoning(part, this.dropped);
    } else if (part.type === "opaque") addOpaque(part, content, this.dropped);
    else this.dropped.push(("place" in part && part.place) || `assistant ${part.type}`);
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
 * known to be another model's than `model`. `keepsSystem`: the system's turns are among them, else they are left out.
 * Throws GatewayError (invalid_request, with the part's place) for media this dialect cannot carry.
 */
export function encodeTurns(turns: readonly Turn[], dropped: string[], model: string, keepsSystem: boolean): Message[] {
  const writer = new TurnWriter(dropped, model);
  for (const turn of keepsSystem ? mergeAroundSystem(turns) : mergeTurns(turns)) writer[turn.role](turn);
  const orphans = writer.takeOrphans();
  if (orphans.length > 0) writer.messages.push({ role: "user", content: [...orphans] });
  if (writer.messages.length === 0)
    writer.messages.push({ role: "user", content: [{ type: "text", text: EMPTY_TEXT }] });
  finishPrefill(writer.messages);
  return writer.messages;
}
