import { isObject } from "../../lib/json.ts";
import { mediaTypeOf, sniffMediaType } from "./media.ts";
import { isVisible } from "./text.ts";
import { isLegalId, ToolIds } from "./tool-ids.ts";

type Block = Record<string, unknown>;
type Message = Record<string, unknown>;

/** Stands for a turn that says nothing, which this dialect refuses (dialects.md 4.8 #4). */
export const EMPTY_TEXT = "(empty)";
export const NO_RESULT_TEXT = "No result was given for this tool call.";

/** Words of an error result for a call that nobody answered: without one the whole request is refused (dialects.md 2.2). */
export const unansweredResult = (id: string): Block => ({
  type: "tool_result",
  tool_use_id: id,
  content: NO_RESULT_TEXT,
  is_error: true,
});

const isType = (block: unknown, type: string): block is Block => isObject(block) && block["type"] === type;

/** Text that is there and cannot be seen: its own vendor refuses the whole request for it. */
const isEmptyText = (block: unknown): boolean =>
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
  if (!blocks.some((block) => isFaulty(block) || hasFaultyContent(block))) return blocks;
  return blocks.flatMap((block) => (isEmptyText(block) ? [] : [soundBlock(block as Block)]));
}

const endsInSpace = (block: unknown): boolean => isType(block, "text") && /\s$/.test(String(block["text"]));

const hasFaultyContent = (block: unknown): boolean =>
  isType(block, "tool_result") && Array.isArray(block["content"]) && block["content"].some(isFaulty);

function soundBlock(block: Block): Block {
  if (hasFaultyContent(block)) return { ...block, content: soundBlocks(block["content"] as unknown[]) };
  if (!isMislabelled(block)) return block;
  const source = block["source"] as Block;
  return { ...block, source: { ...source, media_type: mediaTypeOf("", String(source["data"])) } };
}

/** Reads along the calls and results of a conversation and says whether each stands where it must. */
class Auditor {
  readonly #used = new Set<unknown>();
  readonly #waiting = new Set<unknown>();
  #lastRole: unknown;

  /** Whether this message is sound behind the ones before it. */
  accepts(message: unknown, isLast: boolean): boolean {
    if (!isObject(message)) return true;
    const { role, content } = message;
    if (role !== "user" && role !== "assistant") return true;
    if (role === "assistant" && this.#lastRole === "user" && this.#waiting.size > 0) return false;
    this.#lastRole = role;
    if (!Array.isArray(content)) return this.#acceptsText(content, role, isLast);
    if (content.length === 0) return false;
    if (content.some((block) => isFaulty(block) || hasFaultyContent(block))) return false;
    if (isLast && role === "assistant" && endsInSpace(content.at(-1))) return false;
    return content.every((block) => (role === "assistant" ? this.#acceptsCall(block) : this.#acceptsResult(block)));
  }

  /** Nothing waits for an answer at the end. */
  get isDone(): boolean {
    return this.#waiting.size === 0;
  }

  #acceptsText(content: unknown, role: string, isLast: boolean): boolean {
    if (role === "user" && this.#waiting.size > 0) return false;
    if (typeof content !== "string") return true;
    return isVisible(content) && (!isLast || role !== "assistant" || content.trimEnd() === content);
  }

  #acceptsCall(block: unknown): boolean {
    if (!isType(block, "tool_use")) return true;
    const { id } = block;
    if (typeof id !== "string" || !isLegalId(id) || this.#used.has(id)) return false;
    this.#used.add(id);
    this.#waiting.add(id);
    return true;
  }

  #acceptsResult(block: unknown): boolean {
    // What stands before a result, stands before one that still waits.
    return isType(block, "tool_result") ? this.#waiting.delete(block["tool_use_id"]) : this.#waiting.size === 0;
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
  typeof content === "string" ? [{ type: "text", text: content }] : Array.isArray(content) ? content : [];

/** Writes the conversation anew, its blocks untouched but where they stand in the way. */
class Rebuilder {
  readonly #out: Message[] = [];
  readonly #ids = new ToolIds();
  /** The client's call id → ids written for it, of the assistant turn just before. */
  #waiting = new Map<unknown, string[]>();

  rebuild(messages: readonly unknown[]): Message[] {
    for (const message of messages) {
      if (!isObject(message)) continue;
      if (message["role"] === "assistant") this.#assistant(message);
      else if (message["role"] === "user") this.#user(message);
      else this.#out.push(message);
    }
    this.#answerRest();
    return this.#out.map((message, at) => finished(message, at === this.#out.length - 1));
  }

  #add(message: Message, content: readonly unknown[]): void {
    const last = this.#out.at(-1);
    if (last && last["role"] === message["role"]) last["content"] = [...(last["content"] as unknown[]), ...content];
    else this.#out.push({ ...message, content });
  }

  /** The user's first turn behind the assistant's last one, if there is one yet. */
  #answeringTurn(): Message | undefined {
    const spoken = this.#out.findLastIndex((message) => message["role"] === "assistant");
    return this.#out.slice(spoken + 1).find((message) => message["role"] === "user");
  }

  #answerRest(): void {
    const blocks = [...this.#waiting.values()].flat().map(unansweredResult);
    this.#waiting.clear();
    if (blocks.length > 0) this.#addResults(blocks);
  }

  #assistant(message: Message): void {
    const blocks = soundBlocks(blocksOf(message["content"]));
    // A turn that says nothing is none.
    if (blocks.length === 0) return;
    if (this.#answeringTurn()) this.#answerRest();
    const written = blocks.map((block) => this.#call(block));
    this.#add(message, written);
  }

  #call(block: unknown): unknown {
    if (!isType(block, "tool_use")) return block;
    const { id: given } = block;
    const id = this.#ids.take(typeof given === "string" ? given : "");
    const ids = this.#waiting.get(given);
    if (ids) ids.push(id);
    else this.#waiting.set(given, [id]);
    return id === given ? block : { ...block, id };
  }

  #user(message: Message): void {
    const results: unknown[] = [];
    const others: unknown[] = [];
    for (const block of soundBlocks(blocksOf(message["content"]))) {
      if (!isType(block, "tool_result")) {
        others.push(block);
        continue;
      }
      const id = this.#waiting.get(block["tool_use_id"])?.shift();
      if (id === undefined) others.push(...strayResult(block));
      else results.push(id === block["tool_use_id"] ? block : { ...block, tool_use_id: id });
    }
    this.#addResults(results, message);
    // A turn that says nothing says it only where the user has no other.
    if (others.length > 0 || !this.#answeringTurn()) this.#add(message, others);
  }

  /** Results stand at the head of the user's turn, behind those that are there already, whatever system text came in between. */
  #addResults(results: readonly unknown[], message: Message = { role: "user" }): void {
    const turn = this.#answeringTurn();
    if (!turn) {
      if (results.length > 0) this.#out.push({ ...message, content: results });
      return;
    }
    const said = turn["content"] as unknown[];
    const at = said.findLastIndex((block) => isType(block, "tool_result")) + 1;
    turn["content"] = [...said.slice(0, at), ...results, ...said.slice(at)];
  }
}

/** A result whose call is not in the turn before it: the user says it (dialects.md 4.3). */
function strayResult(block: Block): unknown[] {
  const head = { type: "text", text: `Result of tool call ${String(block["tool_use_id"])}:` };
  return [head, ...soundBlocks(blocksOf(block["content"]))];
}

/** A rebuilt turn; a user's that says nothing says so, a prefill has no white space at its end (dialects.md 2.1). */
function finished(message: Message, isLast: boolean): Message {
  const content = message["content"];
  if (!Array.isArray(content)) return message;
  if (content.length === 0) return { ...message, content: [{ type: "text", text: EMPTY_TEXT }] };
  const last: unknown = content.at(-1);
  if (!isLast || message["role"] !== "assistant" || !isType(last, "text")) return message;
  return { ...message, content: [...content.slice(0, -1), { ...last, text: String(last["text"]).trimEnd() }] };
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
