import { isObject, listOf } from "../../lib/json.ts";
import { type Cited, citedAt, citedPage, MAX_CITED } from "../cited.ts";

type Wire = Record<string, unknown>;

const isAscii = (text: string): boolean => /^[\0-\x7f]*$/.test(text);

/** Bytes of UTF-8 that a character takes. */
function bytesOf(point: number): number {
  if (point < 0x80) return 1;
  if (point < 0x800) return 2;
  return point < 0x10000 ? 3 : 4;
}

const START = { bytes: 0, units: 0 };

/** An answer's text as far as it has come, whose vendor tells places in it by bytes of UTF-8 (Segment of its API). */
export class AnswerText {
  /** UTF-16 units. */
  length = 0;
  /** How much at the beginning is ASCII, where bytes and units are the same. */
  #plain = 0;
  /** All behind that, without which no place in it could be found. */
  #rest = "";
  /** Where in that the last place was found: bytes and units before it. Vendors tell places in their order, and each is looked for from there. */
  #found = START;

  add(text: string): void {
    this.length += text.length;
    if (this.#rest === "" && isAscii(text)) this.#plain += text.length;
    else {
      this.#rest += text;
      // Half a character at the end may be whole now.
      this.#found = START;
    }
  }

  /** The place of a byte, in UTF-16 units; undefined for what is no place in the text. */
  placeOf(byte: unknown): number | undefined {
    if (typeof byte !== "number" || !Number.isInteger(byte) || byte < 0) return undefined;
    if (byte <= this.#plain) return byte;
    const wanted = byte - this.#plain;
    let { bytes, units } = wanted < this.#found.bytes ? START : this.#found;
    while (bytes < wanted && units < this.#rest.length) {
      const point = this.#rest.codePointAt(units) ?? 0;
      bytes += bytesOf(point);
      units += point < 0x10000 ? 1 : 2;
    }
    this.#found = { bytes, units };
    return bytes >= wanted ? this.#plain + units : undefined;
  }
}

/** The pages that are named, at the part of the text that a segment tells; the default of a number is not written. */
function citedBy(pages: readonly unknown[], segment: unknown, text: AnswerText): Cited[] {
  const named = pages.filter(isObject).flatMap(({ uri, title }) => citedPage(uri, title, ""));
  const { startIndex = 0, endIndex, partIndex = 0 } = isObject(segment) ? segment : ({} as Wire);
  // Where another part begins is not known in a stream, whose parts are pieces of one.
  if (named.length === 0 || endIndex === undefined || partIndex !== 0) return named;
  const [start, end] = [text.placeOf(startIndex), text.placeOf(endIndex)];
  return named.map((cited) => citedAt(cited, start, end));
}

const pageOf = (chunk: unknown): unknown =>
  isObject(chunk) ? (chunk["web"] ?? chunk["retrievedContext"] ?? chunk["maps"]) : undefined;

/** The pages that a search of the vendor's found, where the text rests on them; all of them, where it does not say on which. */
function groundsIn(metadata: unknown, text: AnswerText): Cited[] {
  if (!isObject(metadata)) return [];
  const chunks = listOf(metadata["groundingChunks"]).slice(0, MAX_CITED);
  const supports = listOf(metadata["groundingSupports"]).slice(0, MAX_CITED).filter(isObject);
  if (supports.length === 0) return citedBy(chunks.map(pageOf), undefined, text);
  return supports.flatMap(({ segment, groundingChunkIndices: indices }) => {
    const pages = listOf(indices)
      .slice(0, MAX_CITED)
      .map((index) => (typeof index === "number" ? pageOf(chunks[index]) : undefined));
    return citedBy(pages, segment, text);
  });
}

/** Whether a candidate says where its text stands elsewhere. */
export const isCiting = (candidate: Wire): boolean =>
  isObject(candidate["groundingMetadata"]) || isObject(candidate["citationMetadata"]);

/** The pages that a candidate's text rests on, and those that it repeats (its API: CitationMetadata, by two names), with their places in all of the text. */
export function citedIn({ groundingMetadata: grounds, citationMetadata: repeats }: Wire, text: AnswerText): Cited[] {
  const sources = isObject(repeats) ? [...listOf(repeats["citationSources"]), ...listOf(repeats["citations"])] : [];
  return [
    ...groundsIn(grounds, text),
    ...sources.slice(0, MAX_CITED).flatMap((source) => citedBy([source], source, text)),
  ];
}
