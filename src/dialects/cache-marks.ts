import { isObject } from "../lib/json.ts";

type Wire = Record<string, unknown>;

/** Most breakpoints in one request (dialects.md 2.1). */
const MAX_MARKS = 4;
/** Ends of turns that are marked: what the next request shares, and what the last one stored. */
const MARKED_TURNS = 2;
const MARK = { type: "ephemeral" } as const;
const HOUR = "1h";
const HOUR_MARK = { ...MARK, ttl: HOUR } as const;

const isMarked = (wire: Wire): boolean => wire["cache_control"] != null;
/** A list of a body that an encoder wrote: there it holds objects alone. */
const listOf = (value: unknown): readonly Wire[] => (Array.isArray(value) ? (value as Wire[]) : NONE);
const NONE: readonly Wire[] = [];

/**
 * Sees to the cache breakpoints of a request: those that the client set stay, the latest four of them; where it set none, the end of
 * `tools`, of the system text and of the last turns get one while there is room (field.md 11). Without them such a vendor caches
 * nothing, and an agent pays for its whole past in every turn. A request that begins a conversation without tools is left alone: to
 * write a cache costs more than to read a prompt once, and nothing says that there will be a second time.
 */
class Marker {
  /** Whatever carries a mark already, in the order of the prompt. */
  readonly #marked: Wire[] = [];

  get count(): number {
    return this.#marked.length;
  }

  /** Takes note of the marks in `list`, of whosever body, and of those inside its objects. */
  note(list: readonly unknown[]): void {
    for (const wire of list) {
      if (!isObject(wire)) continue;
      this.note(listOf(wire["content"]));
      if (isMarked(wire)) this.#marked.push(wire);
    }
  }

  /** Takes the marks that are too many away, those of the prompt's beginning first. */
  trim(most = MAX_MARKS): void {
    if (this.#marked.length <= most) return;
    for (const wire of this.#marked.splice(0, this.#marked.length - most)) delete wire["cache_control"];
  }

  /**
   * Marks `wire`, unless one of `group` is marked already or there is no room left. `later`: what stands behind it in the prompt. What is kept for
   * an hour must not come behind what is kept for less: Anthropic refuses the request ("must not come after"). It costs no more, since all that
   * stands before a mark for an hour is written for an hour.
   */
  mark(wire: Wire | undefined, group: readonly Wire[], later: readonly Wire[]): void {
    if (!wire || this.#marked.length >= MAX_MARKS || group.some(holdsMark)) return;
    wire["cache_control"] = later.some(asksForHour) ? HOUR_MARK : MARK;
    this.#marked.push(wire);
  }
}

const asksForHour = (wire: Wire): boolean => {
  const { cache_control: mark, content } = wire;
  return (isObject(mark) && mark["ttl"] === HOUR) || listOf(content).some(asksForHour);
};

/** A mark in the text of a body; in a text that a body quotes its quotation marks are escaped. */
const MARKS = /"cache_control"\s*:\s*\{[^{}]*\}/g;

/** Whether all that this body has its vendor write to a cache is to be kept for an hour: some vendors do not say how much of it was. */
export function marksForHour(body: string): boolean {
  const marks = body.match(MARKS);
  return marks?.every((mark) => /"ttl"\s*:\s*"1h"/.test(mark)) === true;
}

const isMarkedObject = (wire: unknown): boolean => isObject(wire) && isMarked(wire);
const holdsMark = (wire: unknown): boolean =>
  isMarkedObject(wire) || (isObject(wire) && listOf(wire["content"]).some(isMarkedObject));

/** The last {@link MARKED_TURNS} that fit, last first. */
function lastOf(messages: readonly Wire[], fits: (message: Wire) => boolean): Wire[] {
  const found: Wire[] = [];
  for (let at = messages.length - 1; at >= 0 && found.length < MARKED_TURNS; at--) {
    const message = messages[at];
    if (message && fits(message)) found.push(message);
  }
  return found;
}

const isUser = (message: Wire): boolean => message["role"] === "user";
const isAssistant = (message: Wire): boolean => message["role"] === "assistant";

const goesOn = (body: Wire, messages: readonly Wire[]): boolean =>
  listOf(body["tools"]).length > 0 || messages.some(isAssistant);

/** What stands behind one of a list. */
const behind = (wire: Wire, list: readonly Wire[]): readonly Wire[] => list.slice(list.indexOf(wire) + 1);

/** What can carry a mark: not reasoning, whose bytes are its vendor's. */
const carriesMark = (block: Wire): boolean => block["type"] !== "thinking" && block["type"] !== "redacted_thinking";

/** Claude 3.5 Haiku, 3.7, 4 and all that came later (docs.aws.amazon.com, "Prompt caching for faster model inference"). */
const TAKING_MODELS = /claude-(?:3-5-haiku|3-7-sonnet|[a-z]+-(?:[4-9]|[1-9]\d)(?!\d))/;
/** Whether a model is known by its name to take marks, wherever it is served. */
export const takesMarks = (upstreamModel: string): boolean => TAKING_MODELS.test(upstreamModel);

/** Breakpoints of a body of the messages dialect that the gateway wrote itself; changes it in place (dialects.md 2.1, 2.2). */
export function markMessagesBody(body: Wire): void {
  const messages = listOf(body["messages"]);
  if (!goesOn(body, messages)) return;
  const tools = listOf(body["tools"]);
  if (typeof body["system"] === "string") body["system"] = [{ type: "text", text: body["system"] }];
  const system = listOf(body["system"]);
  const marker = new Marker();
  marker.note(tools);
  marker.note(system);
  marker.note(messages);
  marker.trim();
  for (const turn of lastOf(messages, isUser)) {
    const blocks = listOf(turn["content"]);
    marker.mark(blocks.findLast(carriesMark), blocks, behind(turn, messages));
  }
  marker.mark(system.at(-1), system, messages);
  marker.mark(tools.at(-1), tools, [...system, ...messages]);
}

/** A copy as deep as marks are set. */
function copyOf(wire: unknown): unknown {
  if (!isObject(wire)) return wire;
  const { content } = wire;
  return { ...wire, ...(Array.isArray(content) && { content: content.map(copyOf) }) };
}

/** The fields whose marks count, in the order of the prompt. */
const MARKED_FIELDS = ["tools", "system", "messages"] as const;

/**
 * Those fields of a client's own messages body, copied, with as many marks as its vendor takes: the latest; undefined where they are not
 * too many. The mark that stands for the whole body is one of them (dialects.md 2.1).
 */
export function withFewerMarks(body: Wire): Wire | undefined {
  const most = isMarked(body) ? MAX_MARKS - 1 : MAX_MARKS;
  const given = new Marker();
  for (const field of MARKED_FIELDS) given.note(listOf(body[field]));
  if (given.count <= most) return undefined;
  const fewer: Wire = {};
  const marker = new Marker();
  for (const field of MARKED_FIELDS) {
    if (!Array.isArray(body[field])) continue;
    const copy = body[field].map(copyOf) as Wire[];
    fewer[field] = copy;
    marker.note(copy);
  }
  marker.trim(most);
  return fewer;
}

/**
 * A client's own messages with the mark that stands for its whole body where that one means it, at the last block that can carry it (dialects.md 2.1): for
 * vendors that know no such mark. The very same where that block has a mark already; undefined where none can carry one.
 */
export function withMarkAtEnd(messages: unknown, mark: unknown): unknown {
  const last = Array.isArray(messages) ? messages.at(-1) : undefined;
  if (!isObject(last)) return undefined;
  const copy = copyOf(last) as Wire;
  const block = partsOf(copy).findLast((one) => isObject(one) && carriesMark(one) && one["text"] !== "");
  if (!block) return undefined;
  if (isMarked(block)) return messages;
  block["cache_control"] = mark;
  return (messages as unknown[]).with(-1, copy);
}

/** The messages of a client's body; the mark that stands for all of it is that of their end, which is where other vendors know marks. */
export const markedMessages = ({ messages, cache_control: mark }: Wire): unknown =>
  isObject(mark) ? (withMarkAtEnd(messages, mark) ?? messages) : messages;

/** Models behind an aggregator that cache only what is marked: Anthropic's and Alibaba's (openrouter.ai, "Prompt Caching"), its names that go on ("~") too. */
const MARKED_MODELS = /^~?(?:anthropic|qwen)\//;

/** Whether an upstream model caches only what is marked. */
export const cachesMarked = (upstreamModel: string): boolean => MARKED_MODELS.test(upstreamModel);

/** A chat message as the parts that can carry a mark: a string becomes one (dialects.md 4.1, 4.2). */
function partsOf(message: Wire): readonly Wire[] {
  if (typeof message["content"] === "string") message["content"] = [{ type: "text", text: message["content"] }];
  return listOf(message["content"]);
}

const isSaid = ({ role, content }: Wire): boolean => (role === "tool" || role === "user") && content !== "";

/**
 * {@link markMessagesBody} for a chat vendor that hands marks on to the model's own vendor. Models that cache by themselves are left
 * alone.
 */
export function markChatBody(body: Wire, upstreamModel: string): void {
  const messages = listOf(body["messages"]);
  if (!cachesMarked(upstreamModel) || !goesOn(body, messages)) return;
  const marker = new Marker();
  marker.note(messages);
  marker.trim();
  for (const turn of lastOf(messages, isSaid)) {
    const parts = partsOf(turn);
    marker.mark(parts.at(-1), parts, behind(turn, messages));
  }
  const system = messages.filter((message) => message["role"] === "system");
  const last = system.at(-1);
  if (last) marker.mark(partsOf(last).at(-1), system, behind(last, messages));
}

/** Whether the message ends in something that can carry a mark. */
const endsSound = ({ content }: Wire): boolean =>
  typeof content === "string" ? content !== "" : isObject(listOf(content).at(-1));

/**
 * {@link markChatBody} for a client's own messages: what is marked is copied, the rest are the client's. Undefined where nothing is to
 * be done, above all when the client sets marks itself, be it one for its whole body (openrouter.ai, "AnthropicCacheControlDirective").
 */
export function withChatMarks(body: Wire, messages: readonly unknown[], upstreamModel: string): unknown[] | undefined {
  if (!cachesMarked(upstreamModel) || isMarked(body) || messages.some(holdsMark)) return undefined;
  const wires = messages.filter(isObject);
  if (!goesOn(body, wires)) return undefined;
  const system = wires.findLast((message) => message["role"] === "system" && endsSound(message));
  const chosen = new Set([
    ...lastOf(wires, (message) => isSaid(message) && endsSound(message)),
    ...(system ? [system] : []),
  ]);
  const copies = messages.map((message) => (isObject(message) && chosen.has(message) ? copyOf(message) : message));
  for (const copy of copies.filter((message, at) => message !== messages[at])) {
    const last = partsOf(copy as Wire).at(-1);
    if (last) last["cache_control"] = MARK;
  }
  return copies;
}
