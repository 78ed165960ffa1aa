import { type Fields, isSpace, JsonText, stringEnd } from "../lib/json.ts";
import { MAX_TOKENS, maySpellProto, Scan } from "./json-scan.ts";
import { KnownPart, type KnownParts } from "./known-parts.ts";

/** A shorter body is read anew sooner than looked up, characters. */
export const LARGE_BODY = 16 * 1024;
/** Shorter values beside the lists are not worth while keeping, and longer parts take too much of what others need: pictures, say; characters. */
const LONG_VALUE = 256;
const LONGEST_PART = 1024 * 1024;
/** Brackets, commas and colons of a body up to which its parts are kept: what consists of more is no conversation. */
const MOST_KEPT_TOKENS = 50_000;
/** A list of more is no conversation. */
const MOST_ITEMS = 4_096;

/** What is known of the bodies that their sender sent before. */
export type Known = { parts: KnownParts; owner: string };

const [QUOTE, COMMA, COLON, OPEN_LIST, CLOSE_LIST, OPEN, CLOSE] = [34, 44, 58, 91, 93, 123, 125] as const;

/** Reads the fields of one object, and the items of the lists in them, each by itself or from what is known. */
class PartReader {
  readonly fields: Fields = { at: [], close: -1 };
  readonly value: Record<string, unknown> = {};
  /** A character in it is spelled by its number. */
  hasEscapes = false;
  #at = 0;
  #tokens = 0;

  constructor(
    private readonly text: string,
    private readonly known: Known,
  ) {}

  /** False for a text that is not plainly an object. Throws SyntaxError for a part that is no JSON, GatewayError on a bomb. */
  read(): boolean {
    if (!this.#pass(OPEN)) return false;
    do {
      if (!this.#readField()) return false;
    } while (this.#pass(COMMA));
    this.fields.close = this.#skipSpace();
    return this.#pass(CLOSE) && this.#skipSpace() === this.text.length && this.#tokens <= MAX_TOKENS;
  }

  #skipSpace(): number {
    while (isSpace(this.text.charCodeAt(this.#at))) this.#at++;
    return this.#at;
  }

  /** Goes behind this character where it comes next. */
  #pass(code: number): boolean {
    if (this.text.charCodeAt(this.#skipSpace()) !== code) return false;
    this.#at++;
    this.#tokens++;
    return true;
  }

  #readField(): boolean {
    const { text } = this;
    const start = this.#skipSpace();
    const end = text.charCodeAt(start) === QUOTE ? stringEnd(text, start) : -1;
    if (end < 0) return false;
    const literal = text.slice(start, end);
    const key = JSON.parse(literal) as string;
    this.hasEscapes ||= literal.includes("\\u");
    this.#at = end;
    if (key === "__proto__" || !this.#pass(COLON)) return false;
    const valueAt = this.#skipSpace();
    const root = this.known.parts.rootOf(this.known.owner, key);
    if (text.charCodeAt(valueAt) === OPEN_LIST) {
      const list = this.#readList(root);
      if (!list) return false;
      this.value[key] = list;
    } else {
      const part = this.#readPart(root, 1, LONG_VALUE);
      if (!part) return false;
      this.value[key] = part.value;
    }
    this.fields.at.push(start, end, valueAt, this.#at);
    return true;
  }

  #readList(root: KnownPart): unknown[] | undefined {
    const list: unknown[] = [];
    this.#pass(OPEN_LIST);
    if (this.#pass(CLOSE_LIST)) return list;
    let before = root;
    do {
      this.#skipSpace();
      const part = this.#readPart(before, 2, 0);
      if (!part || list.length === MOST_ITEMS) return undefined;
      list.push(part.value);
      // What is not kept is followed by none.
      if (part === before.next[0]) before = part;
    } while (this.#pass(COMMA));
    return this.#pass(CLOSE_LIST) ? list : undefined;
  }

  /** The value that begins here, inside of so many brackets; kept where it is of this length at least. Undefined for one that ends nowhere. */
  #readPart(before: KnownPart, depth: number, least: number): KnownPart | undefined {
    const { parts } = this.known;
    const found = parts.find(before, this.text, this.#at);
    const part = found ?? this.#readNew(depth);
    if (!part) return undefined;
    this.#at += part.text.length;
    this.#tokens += part.tokens;
    this.hasEscapes ||= part.hasEscapes;
    return found || !this.#isWorthKeeping(part, least) ? part : parts.add(before, part);
  }

  #readNew(depth: number): KnownPart | undefined {
    const scan = new Scan(this.text, depth);
    const start = this.#at;
    const end = this.#endOf(start, scan);
    const written = this.text.slice(start, end);
    const hasEscapes = written.includes("\\u");
    if (end < 0 || scan.holdsProto || (hasEscapes && maySpellProto(written))) return undefined;
    const value: unknown = JSON.parse(written);
    if (typeof value === "number" && !Number.isFinite(value)) return undefined;
    return new KnownPart(written, value, scan.tokens, hasEscapes);
  }

  /** Of what ends by itself alone none is the beginning of something longer. */
  #isWorthKeeping({ text, value }: KnownPart, least: number): boolean {
    const endsByItself = typeof value === "string" || (typeof value === "object" && value !== null);
    const isOfLength = text.length >= least && text.length <= LONGEST_PART;
    return endsByItself && isOfLength && this.#tokens <= MOST_KEPT_TOKENS;
  }

  /** The index just behind the value at `start`, -1 where it does not end. */
  #endOf(start: number, scan: Scan): number {
    const { text } = this;
    const first = text.charCodeAt(start);
    if (first === QUOTE) return stringEnd(text, start);
    if (first === OPEN || first === OPEN_LIST) return scan.run(start);
    let at = start;
    while (at < text.length && !isEnd(text.charCodeAt(at))) at++;
    return at;
  }
}

const isEnd = (code: number): boolean => code === COMMA || code === CLOSE || code === CLOSE_LIST || isSpace(code);

/**
 * A large body, of which only what is new is read: the same as if all of it were. Undefined for what is not plainly the JSON of an object: whoever
 * reads that whole can tell what is wrong. Throws GatewayError (invalid_request) on a bomb.
 */
export function readInParts(text: string, known: Known): JsonText | undefined {
  const reader = new PartReader(text, known);
  try {
    return reader.read() ? new JsonText(text, reader.fields, reader.value, reader.hasEscapes) : undefined;
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return undefined;
    throw thrown;
  }
}
