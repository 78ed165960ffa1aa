import { GatewayError } from "../../canon/errors.ts";
import {
  CLOSE_LIST,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  isSpace,
  OPEN_LIST,
  OPEN_OBJECT,
  QUOTE,
} from "../../lib/json-codes.ts";
import { skipValue, stringEnd } from "../../lib/json-ends.ts";
import { type FieldPlaces, JsonText } from "../../lib/json-text.ts";
import { MAX_TOKENS, maySpellProto, Scan } from "./json-scan.ts";
import { KnownPart, type KnownParts } from "./known-parts.ts";

/** A shorter body is read anew sooner than looked up, bytes. */
export const LARGE_BODY = 16 * 1024;
/** Shorter values beside the lists are not worth while keeping, and longer parts take too much of what others need: pictures, say; bytes. */
const LONG_VALUE = 256;
const LONGEST_PART = 1024 * 1024;
/** Brackets, commas and colons of a body up to which its parts are kept: what consists of more is no conversation. */
const MOST_KEPT_TOKENS = 50_000;
/** A list of more is no conversation. */
const MOST_ITEMS = 4_096;
/** An object of more fields is no request, and reading each by itself takes ten times as long as reading them all. */
const MOST_FIELDS = 256;

/** What is known of the bodies that their sender sent before. */
export type Known = { parts: KnownParts; owner: string };

/** Numbers that say where a field stands. */
const PLACES = 4;

/** What keys are spelled with everywhere. */
const PLAIN = /^[\x20-\x7e]*$/;

/** A mark before a value is no JSON; the one at the beginning of a body is left out by whoever reads that whole. */
const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Reads the fields of one object, and the items of the lists in them, each by itself or from what is known. */
class PartReader {
  readonly fields: FieldPlaces = { at: [], close: -1 };
  readonly value: Record<string, unknown> = {};
  mayHoldHalves = false;
  #at = 0;
  #tokens = 0;

  constructor(
    private readonly body: Buffer,
    private readonly known: Known,
  ) {}

  /** False for what is not plainly an object. Throws SyntaxError or TypeError for a part that is no JSON or no UTF-8, GatewayError on a bomb. */
  read(): boolean {
    if (!this.#pass(OPEN_OBJECT)) return false;
    do {
      if (this.fields.at.length === MOST_FIELDS * PLACES || !this.#readField()) return false;
    } while (this.#pass(COMMA));
    this.fields.close = this.#skipSpace();
    return this.#pass(CLOSE_OBJECT) && this.#skipSpace() === this.body.length && this.#tokens <= MAX_TOKENS;
  }

  #code(at: number): number {
    return this.body[at] as number;
  }

  #skipSpace(): number {
    while (isSpace(this.#code(this.#at))) this.#at++;
    return this.#at;
  }

  /** Goes behind this character where it comes next. */
  #pass(code: number): boolean {
    if (this.#code(this.#skipSpace()) !== code) return false;
    this.#at++;
    this.#tokens++;
    return true;
  }

  #readField(): boolean {
    const { body } = this;
    const start = this.#skipSpace();
    const end = this.#code(start) === QUOTE ? stringEnd(body, start) : -1;
    if (end < 0) return false;
    const literal = body.toString("latin1", start, end);
    if (!PLAIN.test(literal)) return false;
    const key = JSON.parse(literal) as string;
    this.mayHoldHalves ||= literal.includes("\\u");
    this.#at = end;
    if (key === "__proto__" || !this.#pass(COLON)) return false;
    const valueAt = this.#skipSpace();
    const root = this.known.parts.rootOf(this.known.owner, key);
    if (this.#code(valueAt) === OPEN_LIST) {
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
    const found = parts.find(before, this.body, this.#at);
    const part = found ?? this.#readNew(depth);
    if (!part) return undefined;
    this.#at += part.bytes.length;
    this.#tokens += part.tokens;
    this.mayHoldHalves ||= part.mayHoldHalves;
    return found || !this.#isWorthKeeping(part, least) ? part : parts.add(before, part);
  }

  #readNew(depth: number): KnownPart | undefined {
    const { body } = this;
    const bytes = body.subarray(this.#at, skipValue(body, this.#at));
    const written = strictUtf8.decode(bytes);
    const scan = new Scan(written, depth);
    if (scan.run() !== written.length || scan.holdsProto) return undefined;
    const hasEscapes = written.includes("\\u");
    if (hasEscapes && maySpellProto(written)) return undefined;
    const value: unknown = JSON.parse(written);
    return new KnownPart(bytes, value, scan.tokens, hasEscapes && maySpellHalves(written));
  }

  /** Of what ends by itself alone none is the beginning of something longer. */
  #isWorthKeeping({ bytes, value }: KnownPart, least: number): boolean {
    const endsByItself = typeof value === "string" || (typeof value === "object" && value !== null);
    const isOfLength = bytes.length >= least && bytes.length <= LONGEST_PART;
    return endsByItself && isOfLength && this.#tokens <= MOST_KEPT_TOKENS;
  }
}

/** A character beyond the first 65,536 may be spelled in two halves, by their numbers. */
const maySpellHalves = (text: string): boolean => text.includes("\\ud") || text.includes("\\uD");

/**
 * A large body, of which only what is new is read: the same as if all of it were. Undefined for what is not plainly the JSON of an object, or a bomb:
 * whoever reads that whole can tell what is wrong.
 */
export function readInParts(body: Buffer, known: Known): JsonText | undefined {
  const reader = new PartReader(body, known);
  try {
    return reader.read() ? new JsonText(body, reader.fields, reader.value, reader.mayHoldHalves) : undefined;
  } catch (thrown) {
    if (thrown instanceof SyntaxError || thrown instanceof TypeError || thrown instanceof GatewayError)
      return undefined;
    throw thrown;
  }
}
