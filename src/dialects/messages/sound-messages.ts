import { isObject, listOf } from "../../lib/json.ts";
import { Lines } from "../lines.ts";
import { mediaTypeOf, sniffMediaType } from "../media/type.ts";
import { EMPTY_TEXT, NO_RESULT_TEXT, strayHead } from "../refusals/own-words.ts";
import { isVisible } from "../text.ts";
import { isLegalId, ToolIds } from "../tools/tool-ids.ts";
import { isThinking } from "./tool-loop.ts";
import { setsOutput } from "./turn-settings.ts";

type Block = Record<string, unknown>;
type Message = Record<string, unknown>;

/** Words of an error result for a call that nobody answered: without one the whole request is refused (dialects.md 2.2). */
export const unansweredResult = (id: string): Block => ({
  type: "tool_result",
  tool_use_id: id,
  content: NO_RESULT_TEXT,
  is_error: true,
});

const isType = (block: unknown, type: string): block is Block => isObject(block) && block["type"] === type;

/** Text that is there and cannot be seen: its own vendor refuses the whole request for it. */
export const isEmptyText = (block: unknown): boolean =>
  isType(block, "text") && typeof block["text"] === "string" && !isVisible(block["text"]);

/** An image whose bytes are of another format than it says (dialects.md 4.8 #46). */
function isMislabelled(block: unknown): boolean {
  if (!isType(block, "image")) return false;
  const { source } = block;
  if (!isObject(source) || source["type"] !== "base64" || typeof source["data"] !== "string") return false;
  const seen = sniffMediaType(source["data"]);
  return seen?.startsWith("image/") === true && seen !== source["media_type"];
}

const isFaulty = (block: unknown): boolean => isEmptyText(block) || isMislabelled(block);

/** Blocks as its own vendor takes them: no text that cannot be seen, images under their real format. The same array where all are so. */
function soundBlocks(blocks: readonly unknown[]): readonly unknown[] {
  if (!blocks.some(isFaultyInside)) return blocks;
  return blocks.flatMap((block) => (isEmptyText(block) ? [] : [soundBlock(block as Block)]));
}

function endsInSpace(block: unknown): boolean {
  if (!isType(block, "text")) return false;
  const text = String(block["text"]);
  return text.trimEnd() !== text;
}

const hasFaultyContent = (block: unknown): boolean =>
  isType(block, "tool_result") && Array.isArray(block["content"]) && block["content"].some(isFaulty);

const isFaultyInside = (block: unknown): boolean => isFaulty(block) || hasFaultyContent(block);

function soundBlock(block: Block): Block {
  if (hasFaultyContent(block)) return { ...block, content: soundBlocks(block["content"] as unknown[]) };
  if (!isMislabelled(block)) return block;
  const source = block["source"] as Block;
  return { ...block, source: { ...source, media_type: mediaTypeOf("", String(source["data"])) } };
}

/** Reads along the calls and results of a conversation and says whether each stands where it must. */
class Auditor {
  /** Both made for the first call: most conversations have none. */
  #used: Set<unknown> | undefined;
  #waiting: Set<unknown> | undefined;
  #lastRole: unknown;

  /** Whether this message is sound behind the ones before it. */
  accepts(message: unknown, isLast: boolean): boolean {
    if (!isObject(message)) return true;
    const { role, content } = message;
    if (role !== "user" && role !== "assistant") return !isMute(message);
    if (role === "assistant" && this.#lastRole === "user" && !this.isDone) return false;
    this.#lastRole = role;
    if (!Array.isArray(content)) return this.#acceptsText(content, role, isLast);
    if (content.length === 0) return false;
    for (const block of content) {
      if (isFaultyInside(block)) return false;
      if (!(role === "assistant" ? this.#acceptsCall(block) : this.#acceptsResult(block))) return false;
    }
    // A turn that ends in reasoning is refused: the answer's limit leaves such ones.
    const end: unknown = content.at(-1);
    return role !== "assistant" || !(isThinking(end) || (isLast && endsInSpace(end)));
  }

  /** Nothing waits for an answer. */
  get isDone(): boolean {
    return this.#waiting === undefined || this.#waiting.size === 0;
  }

  #acceptsText(content: unknown, role: string, isLast: boolean): boolean {
    if (role === "user" && !this.isDone) return false;
    if (typeof content !== "string") return true;
    return isVisible(content) && (!isLast || role !== "assistant" || content.trimEnd() === content);
  }

  #acceptsCall(block: unknown): boolean {
    if (!isType(block, "tool_use")) return true;
    const { id } = block;
    if (typeof id !== "string" || !isLegalId(id) || this.#used?.has(id)) return false;
    this.#used ??= new Set();
    this.#waiting ??= new Set();
    this.#used.add(id);
    this.#waiting.add(id);
    return true;
  }

  #acceptsResult(block: unknown): boolean {
    // What stands before a result, stands before one that still waits.
    return isType(block, "tool_result") ? this.#waiting?.delete(block["tool_use_id"]) === true : this.isDone;
  }
}

function isSound(messages: readonly unknown[]): boolean {
  const auditor = new Auditor();
  for (let at = 0; at < messages.length; at++) {
    if (!auditor.accepts(messages[at], at === messages.length - 1)) return false;
  }
  return auditor.isDone;
}

const blocksOf = (content: unknown): readonly unknown[] =>
  typeof content === "string" ? [{ type: "text", text: content }] : listOf(content);

/** Nothing that can be seen: of the user and the assistant more is asked than that. A turn of no content may set how the model answers. */
const isMute = (message: Message): boolean =>
  message["content"] !== undefined && !setsOutput(message) && blocksOf(message["content"]).every(isEmptyText);

/** A turn being written: the client's own message, and what goes into it; nothing into one of no side, which goes out as it is. */
type Turn = { message: Message; isSpoken: boolean; results: unknown[]; blocks: unknown[] };

/** Writes the conversation anew, its blocks untouched but where they stand in the way. Linear, whatever a client sends. */
class Rebuilder {
  readonly #turns: Turn[] = [];
  readonly #ids = new ToolIds();
  /** The client's call id → ids written for it, of the assistant's turn just before. */
  readonly #waiting = new Lines<unknown, string>();
  /** The user's first turn behind the assistant's last one: the results go there, whatever system text came in between. */
  #answer: Turn | undefined;

  rebuild(messages: readonly unknown[]): Message[] {
    for (const message of messages) {
      if (!isObject(message)) continue;
      if (message["role"] === "assistant") {
        this.#assistant(message);
        continue;
      }
      this.#takeBackThought();
      if (message["role"] === "user") this.#user(message);
      else if (!isMute(message)) this.#turns.push({ message, isSpoken: false, results: [], blocks: [] });
    }
    this.#takeBackThought();
    this.#answerRest();
    // Nobody takes a conversation in which nothing is said.
    if (this.#turns.length === 0) this.#turnOf({ role: "user" });
    return this.#turns.map((turn, at) => finished(turn, at === this.#turns.length - 1));
  }

  /** An assistant's turn that has come to its end and only reasons is none. */
  #takeBackThought(): void {
    const last = this.#turns.at(-1);
    if (last?.message["role"] === "assistant" && last.blocks.every(isThinking)) this.#turns.pop();
  }

  /** The last turn where it is of this role, else a new one. */
  #turnOf(message: Message): Turn {
    const last = this.#turns.at(-1);
    if (last?.isSpoken && last.message["role"] === message["role"]) return last;
    const turn: Turn = { message, isSpoken: true, results: [], blocks: [] };
    this.#turns.push(turn);
    return turn;
  }

  #answerRest(): void {
    const ids = this.#waiting.takeAll();
    if (ids.length === 0) return;
    const turn = this.#answer ?? this.#turnOf({ role: "user" });
    for (const id of ids) turn.results.push(unansweredResult(id));
  }

  #assistant(message: Message): void {
    const blocks = soundBlocks(blocksOf(message["content"]));
    // A turn that says nothing is none.
    if (blocks.length === 0) return;
    if (this.#answer) this.#answerRest();
    this.#answer = undefined;
    const turn = this.#turnOf(message);
    for (const block of blocks) turn.blocks.push(this.#call(block));
  }

  #call(block: unknown): unknown {
    if (!isType(block, "tool_use")) return block;
    const { id: given } = block;
    const id = this.#ids.take(typeof given === "string" ? given : "");
    this.#waiting.add(given, id);
    return id === given ? block : { ...block, id };
  }

  #user(message: Message): void {
    const results: unknown[] = [];
    const others: unknown[] = [];
    for (const block of soundBlocks(blocksOf(message["content"]))) {
      const given = isType(block, "tool_result") ? block["tool_use_id"] : undefined;
      const id = given === undefined ? undefined : this.#waiting.take(given);
      if (id !== undefined) results.push(id === given ? block : { ...(block as Block), tool_use_id: id });
      else if (isType(block, "tool_result")) others.push(...strayResult(block));
      else others.push(block);
    }
    if (results.length > 0) {
      this.#answer ??= this.#turnOf(message);
      for (const result of results) this.#answer.results.push(result);
    }
    // A turn that says nothing says it only where the user has no other.
    if (others.length === 0 && this.#answer) return;
    const turn = this.#turnOf(message);
    this.#answer ??= turn;
    for (const block of others) turn.blocks.push(block);
  }
}

/** A result whose call is not in the turn before it: the user says it (dialects.md 4.3). */
function strayResult(block: Block): unknown[] {
  const head = { type: "text", text: strayHead(String(block["tool_use_id"])) };
  return [head, ...soundBlocks(blocksOf(block["content"]))];
}

/** A rebuilt turn; a user's that says nothing says so, a prefill has no white space at its end (dialects.md 2.1). */
function finished({ message, isSpoken, results, blocks }: Turn, isLast: boolean): Message {
  if (!isSpoken) return message;
  const content = [...results, ...blocks];
  while (message["role"] === "assistant" && isThinking(content.at(-1))) content.pop();
  const last = content.at(-1);
  if (last === undefined) content.push({ type: "text", text: EMPTY_TEXT });
  else if (isLast && message["role"] === "assistant" && isType(last, "text")) {
    content[content.length - 1] = { ...last, text: String(last["text"]).trimEnd() };
  }
  return { ...message, content };
}

/**
 * A client's own messages as their vendor takes them (dialects.md 2.2, 4.8 #1, #2, #4, #46): every call answered in the very next turn
 * with the results at its head, no id twice or of strange letters, no empty text, images under their real format. The same array where
 * that is so already: nothing is touched that need not change.
 */
export function soundMessages(messages: unknown): unknown {
  if (!Array.isArray(messages) || isSound(messages)) return messages;
  return new Rebuilder().rebuild(messages);
}
