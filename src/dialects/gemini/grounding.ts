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

/** An answer's text as far as it has come. It converts places in it: the vendor counts bytes of UTF-8 (Segment of its API), events UTF-16 units. */
export class AnswerText {
  /** UTF-16 units. */
  length = 0;
  /** The length of its beginning that is ASCII, where bytes and units are the same. */
  #plain = 0;
  /** All behind that, which is kept to find places in it. */
  #rest = "";
  /** The last place found in `#rest`, as the bytes and units before it: places mostly come in order, so the next one is looked for from there. */
  #found = START;

  add(text: string): void {
    this.length += text.length;
    if (this.#rest === "" && isAscii(text)) this.#plain += text.length;
    else {
      this.#rest += text;
      // The text before may have ended in half a surrogate pair, which is whole now.
      this.#found = START;
    }
  }

  /** The place of a byte, in UTF-16 units; undefined where `byte` is no place in the text. */
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

/** The pages as sources of the part of the text that `segment` names. The vendor leaves numbers out that are 0. */
function citedBy(pages: readonly unknown[], segment: unknown, text: AnswerText): Cited[] {
  const named = pages.filter(isObject).flatMap(({ uri, title }) => citedPage(uri, title, ""));
  const { startIndex = 0, endIndex, partIndex = 0 } = isObject(segment) ? segment : ({} as Wire);
  // Places in further parts cannot be converted: in a stream parts are pieces of one, and where another begins is not known.
  if (named.length === 0 || endIndex === undefined || partIndex !== 0) return named;
  const [start, end] = [text.placeOf(startIndex), text.placeOf(endIndex)];
  return named.map((cited) => citedAt(cited, start, end));
}

const pageOf = (chunk: unknown): unknown =>
  isObject(chunk) ? (chunk["web"] ?? chunk["retrievedContext"] ?? chunk["maps"]) : undefined;

/** The pages that the vendor's own search found, each at the text that it supports; without places where the vendor gives none. */
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

/** Whether a candidate names sources of its text. */
export const isCiting = (candidate: Wire): boolean =>
  isObject(candidate["groundingMetadata"]) || isObject(candidate["citationMetadata"]);

/** The pages that a candidate's text rests on, and those that it quotes (CitationMetadata, whose list has two names), with their places in all of the text. */
export function citedIn({ groundingMetadata: grounds, citationMetadata: repeats }: Wire, text: AnswerText): Cited[] {
  const sources = isObject(repeats) ? [...listOf(repeats["citationSources"]), ...listOf(repeats["citations"])] : [];
  return [
    ...groundsIn(grounds, text),
    ...sources.slice(0, MAX_CITED).flatMap((source) => citedBy([source], source, text)),
  ];
}
