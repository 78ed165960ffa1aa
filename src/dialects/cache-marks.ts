import { isObject } from "../lib/json.ts";

type Wire = Record<string, unknown>;

/** Most breakpoints in one request (dialects.md 2.1). */
const MAX_MARKS = 4;
/** Ends of turns that are marked: what the next request shares, and what the last one stored. */
const MARKED_TURNS = 2;
const MARK = { type: "ephemeral" } as const;

const listOf = (value: unknown): Wire[] => (Array.isArray(value) ? value.filter(isObject) : []);
const isMarked = (wire: Wire): boolean => wire["cache_control"] != null;

/**
 * Sees to the cache breakpoints of a request: those that the client set stay, the latest four of them; where it set none, the end of
 * `tools`, of the system text and of the last turns get one while there is room (field.md 11). Without them such a vendor caches
 * nothing, and an agent pays for its whole past in every turn. A request that begins a conversation without tools is left alone: to
 * write a cache costs more than to read a prompt once, and nothing says that there will be a second time.
 */
class Marker {
  #room: number;

  /** `marked`: whatever carries a mark already, in the order of the prompt. */
  constructor(marked: readonly Wire[]) {
    for (const wire of marked.slice(0, Math.max(0, marked.length - MAX_MARKS))) delete wire["cache_control"];
    this.#room = MAX_MARKS - Math.min(MAX_MARKS, marked.length);
  }

  /** Marks `wire`, unless one of `group` is marked already or there is no room left. */
  mark(wire: Wire | undefined, group: readonly Wire[]): void {
    if (!wire || this.#room === 0 || group.some(isMarked)) return;
    wire["cache_control"] = MARK;
    this.#room--;
  }
}

/** The last `count` of those that fit, last first. */
function lastOf(messages: readonly Wire[], fits: (message: Wire) => boolean, count: number): Wire[] {
  const found: Wire[] = [];
  for (let at = messages.length - 1; at >= 0 && found.length < count; at--) {
    const message = messages[at];
    if (message && fits(message)) found.push(message);
  }
  return found;
}

const goesOn = (body: Wire, messages: readonly Wire[]): boolean =>
  listOf(body["tools"]).length > 0 || messages.some((message) => message["role"] === "assistant");

/** What can carry a mark: not reasoning, whose bytes are its vendor's. */
const carriesMark = (block: Wire): boolean => block["type"] !== "thinking" && block["type"] !== "redacted_thinking";

/** Blocks of a message and, inside them, those of tool results. */
const blocksOf = (message: Wire): Wire[] =>
  listOf(message["content"]).flatMap((block) => [...listOf(block["content"]), block]);

/** Breakpoints of a body of the messages dialect that the gateway wrote itself; changes it in place (dialects.md 2.1, 2.2). */
export function markMessagesBody(body: Wire): void {
  const messages = listOf(body["messages"]);
  if (!goesOn(body, messages)) return;
  const tools = listOf(body["tools"]);
  if (typeof body["system"] === "string") body["system"] = [{ type: "text", text: body["system"] }];
  const system = listOf(body["system"]);
  const marker = new Marker([...tools, ...system, ...messages.flatMap(blocksOf)].filter(isMarked));
  const turns = lastOf(messages, (message) => message["role"] === "user", MARKED_TURNS);
  for (const turn of turns) marker.mark(listOf(turn["content"]).findLast(carriesMark), blocksOf(turn));
  marker.mark(system.at(-1), system);
  marker.mark(tools.at(-1), tools);
}

/** Models behind an aggregator that cache only what is marked. */
const MARKED_MODELS = /^anthropic\//;

/** A chat message as the parts that can carry a mark: a string becomes one (dialects.md 4.1, 4.2). */
function partsOf(message: Wire): Wire[] {
  if (typeof message["content"] === "string") message["content"] = [{ type: "text", text: message["content"] }];
  return listOf(message["content"]);
}

const marksOf = (message: Wire): Wire[] => listOf(message["content"]).filter(isMarked);

/**
 * {@link markMessagesBody} for a chat vendor that hands marks on to the model's own vendor. Models that cache by themselves are left
 * alone.
 */
export function markChatBody(body: Wire, upstreamModel: string): void {
  const messages = listOf(body["messages"]);
  if (!MARKED_MODELS.test(upstreamModel) || !goesOn(body, messages)) return;
  const marker = new Marker(messages.flatMap(marksOf));
  const isSaid = ({ role, content }: Wire) => (role === "tool" || role === "user") && content !== "";
  for (const turn of lastOf(messages, isSaid, MARKED_TURNS)) marker.mark(partsOf(turn).at(-1), marksOf(turn));
  const system = messages.filter((message) => message["role"] === "system");
  const last = system.at(-1);
  if (last) marker.mark(partsOf(last).at(-1), system.flatMap(marksOf));
}
