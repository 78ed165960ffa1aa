import { cutText } from "../../lib/cut-text.ts";

/** Kinds of characters that make a token in runs of different lengths. */
const SPACE = 0;
const LETTER = 1;
const DIGIT = 2;
const MARK = 3;
const WIDE = 4;
const FAR = 5;

/** Characters of a kind in one token, about (web-and-mcp.md E: estimates against the o200k vocabulary). */
const PER_TOKEN = [32, 8, 3, 3, 1.2, 3] as const;
/** Tokens of a sign that stands alone: it often makes one with the word beside it. */
const LONE_MARK = 0.75;

function kindOf(code: number): number {
  if (code <= 32 || code === 0xa0) return SPACE;
  if (code < 128) {
    if ((code >= 65 && code <= 90) || (code >= 97 && code <= 122)) return LETTER;
    return code >= 48 && code <= 57 ? DIGIT : MARK;
  }
  if (code < 0x250) return LETTER;
  // Chinese, Japanese, Korean and what lies beyond the basic plane.
  return code >= 0x2e80 ? WIDE : FAR;
}

/** Tokens of a text, estimated within a tenth or so of the o200k vocabulary for prose; linear in its length. Zero for none. */
export function estimateTokens(text: string): number {
  let tokens = 0;
  let kind = SPACE;
  let run = 0;
  for (let at = 0; at <= text.length; at++) {
    const next = at < text.length ? kindOf(text.charCodeAt(at)) : -1;
    if (next === kind) {
      run++;
      continue;
    }
    // A blank belongs to the word behind it.
    if (kind === MARK) tokens += Math.max(LONE_MARK, run / PER_TOKEN[MARK]);
    else if (kind !== SPACE || run > 1) tokens += Math.ceil(run / (PER_TOKEN[kind] ?? 1));
    kind = next;
    run = 1;
  }
  return Math.ceil(tokens);
}

/** A text made of blocks, and what became of it. */
export type Cut = { markdown: string; tokens: number; totalTokens: number; truncated: boolean };

/** Where less than this share of the room is filled, the beginning of the next block is worth having. */
const WORTH_MORE = 0.5;

/** Where a block may be cut inside so that at most `most` characters stay: behind a line, a sentence or a word. */
function cutInside(block: string, most: number): string {
  const part = block.slice(0, most);
  for (const end of ["\n", ". ", "。", " "]) {
    const at = part.lastIndexOf(end);
    if (at > most / 2) return part.slice(0, end === "\n" ? at : at + end.length).trimEnd();
  }
  return cutText(part, most);
}

/** A line that begins a program, also in an item of a list or in a quotation. */
const OPENS = /^((?:[> ]|[-*] |\w{1,9}\. )*)(`{3,}|~{3,})/;

/** A link whose label or address is cut off at a text's end: half an address leads elsewhere. */
const HALF_LINK = /!?\[[^[\]]{0,300}(?:\]\([^()\s]{0,2000})?$|\]\([^()\s]{0,2000}$/;

/** The beginning of a block, mended where it was cut: an open fence is closed, or taken away with nothing in it yet, and so is half a link. */
function closeCut(part: string): string {
  let open: { at: number; end: string } | undefined;
  let at = 0;
  for (const line of part.split("\n")) {
    const [, before = "", run = ""] = OPENS.exec(line) ?? [];
    if (open) {
      if (line.startsWith(open.end) && /^[`~]*\s*$/.test(line.slice(open.end.length))) open = undefined;
    } else if (run !== "") open = { at, end: before.replace(/[^>\s]/g, " ") + run };
    at += line.length + 1;
  }
  if (!open) return part.replace(HALF_LINK, "").trimEnd();
  return part.includes("\n", open.at) ? `${part}\n${open.end}` : part.slice(0, open.at).trimEnd();
}

/** What is kept of a beginning that is still too long, before it is measured again. */
const LESS = 0.8;

/** As much of a block as `room` tokens hold, its fence closed; "" where that is next to nothing. */
function shorten(block: string, room: number): string {
  const share = room / Math.max(1, estimateTokens(block));
  let part = cutInside(block, Math.floor(block.length * share));
  while (part !== "" && estimateTokens(closeCut(part)) > room) part = cutInside(part, Math.floor(part.length * LESS));
  return closeCut(part);
}

/**
 * As many blocks as `room` tokens hold, joined by empty lines; the text ends with a block, and a line says how much of it this is. Where
 * the block that does not fit would leave more than half the room empty, its beginning is kept. `whole`: false where the text went on
 * but was not read.
 */
export function cutBlocks(blocks: readonly string[], room: number, whole = true): Cut {
  const sizes = blocks.map(estimateTokens);
  const totalTokens = sizes.reduce((sum, size) => sum + size, 0);
  const kept: string[] = [];
  let tokens = 0;
  for (const [at, block] of blocks.entries()) {
    const size = sizes[at] ?? 0;
    if (tokens + size <= room) {
      kept.push(block);
      tokens += size;
      continue;
    }
    const part = tokens < room * WORTH_MORE ? shorten(block, room - tokens) : "";
    if (part !== "") {
      kept.push(part);
      tokens += estimateTokens(part);
    }
    break;
  }
  const truncated = !whole || tokens < totalTokens;
  if (truncated)
    kept.push(`[Cut here: about ${tokens} of ${whole ? "" : "more than "}${totalTokens} tokens are shown.]`);
  return { markdown: kept.join("\n\n"), tokens, totalTokens, truncated };
}
