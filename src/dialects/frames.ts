import { JsonText } from "../lib/json-text.ts";
import { ownText } from "../lib/own-text.ts";

/**
 * What the records of a run share. A model's words arrive in hundreds of records that differ in one JSON string only: `head` ends with its
 * opening quote, `tail` begins with its closing one; `last` is the tail of one that is whole, and `link` that with the head of another behind it. A
 * decoder learns the pattern from a record it has read in full.
 */
export type TextPattern = {
  readonly head: string;
  readonly tail: string;
  readonly last: string;
  readonly link: string;
};

/**
 * A run ends with the record that brings it to so many characters: a fast vendor sends thousands of tokens at a time, and a reply whose money
 * ends among them is cut behind a frame (contract 5).
 */
const MAX_RUN_CHARACTERS = 1_024;

/** Records of one pattern, in a row. Their strings hold no quote, so nothing of head or tail can stand inside them. */
export class TextRun {
  #text: string | undefined;

  constructor(
    readonly pattern: TextPattern,
    private readonly literals: readonly string[],
    /** Whether a backslash stands in any of them. */
    private readonly hasEscapes: boolean,
  ) {}

  /** The strings, joined. Throws SyntaxError when one of them is no JSON: a broken escape. */
  get text(): string {
    if (this.#text === undefined) {
      const joined = this.literals.length === 1 ? (this.literals[0] as string) : this.literals.join("");
      this.#text = this.hasEscapes ? (JSON.parse(`"${joined}"`) as string) : joined;
    }
    return this.#text;
  }

  /** Whether its first record has no words. */
  get beginsBlank(): boolean {
    return this.literals[0] === "";
  }

  /** The first of its records alone. */
  get first(): TextRun {
    return new TextRun(this.pattern, this.literals.slice(0, 1), this.hasEscapes);
  }

  /** The records with other words around their strings: `link` stands between two of them. */
  write({ head, link, last }: Pick<TextPattern, "head" | "link" | "last">): string {
    return head + (this.literals.length === 1 ? (this.literals[0] as string) : this.literals.join(link)) + last;
  }

  /** The records as single frames, for who cannot use the run as a whole. */
  *frames(): Generator<Frame> {
    const { head, tail } = this.pattern;
    for (const literal of this.literals) {
      const frame = parseRecord(head + literal + tail);
      if (frame) yield frame;
    }
  }
}

/** Names of fields that hold a model's words, in any dialect. */
const TEXT_FIELD = /"(?:content|reasoning_content|reasoning|text|thinking|delta)": ?$/;

/** The pattern of a record in which `text` stands as one JSON string of a text field, spelled as JSON.stringify does; else undefined. */
export function learnPattern(frame: Frame, text: string): TextPattern | undefined {
  const { raw } = frame;
  const literal = JSON.stringify(text);
  const at = raw.indexOf(literal);
  if (at < 0 || raw.indexOf(literal, at + literal.length) >= 0 || raw.includes("\r")) return undefined;
  if (!TEXT_FIELD.test(raw.slice(Math.max(0, at - 24), at))) return undefined;
  const head = ownText(raw.slice(0, at + 1));
  const tail = ownText(raw.slice(at + literal.length - 1));
  const last = `${tail}\n\n`;
  return { head, tail, last, link: last + head };
}

/** One SSE record: the text it came as (without its closing blank line), its event name, its data, and the data parsed once, lazily. */
export class Frame {
  #json: JsonText | undefined;

  /** `run`: this frame stands for several records, `raw` is all of them with the blank line of the last, and only `run` says what they hold. */
  constructor(
    readonly raw: string,
    readonly event: string | undefined,
    readonly data: string,
    readonly run?: TextRun,
  ) {}

  /** The data as JSON. Throws SyntaxError when it is not. */
  get value(): unknown {
    this.#json ??= new JsonText(this.data);
    return this.#json.value;
  }
}

/** JSON on the one line that a record's data must stand on: line breaks outside strings are mere white space, and inside none stands unescaped. */
export const oneLine = (json: string): string =>
  json.includes("\n") || json.includes("\r") ? json.replaceAll(/[\r\n]+/g, " ") : json;

/** A frame's record with other JSON as its data. Lines other than `data:`, such as an event's name, are kept before it. */
export function recordWith(frame: Frame, json: string): string {
  const line = `data: ${oneLine(json)}\n\n`;
  const isData = frame.raw.startsWith("data:") && frame.raw.length - frame.data.length <= 6;
  if (isData) return line;
  const others = frame.raw.split(/\r\n|\n|\r/).filter((other) => other !== "" && !/^data(?::|$)/.test(other));
  return others.map((other) => `${other}\n`).join("") + line;
}

/** A record that says nothing: it stands for what the gateway adds to a reply. */
export const NO_FRAME = new Frame("", undefined, "");

/** One SSE record longer than this ends the stream as an error. An image travels in one record as base64: one of 4K as a PNG has some 30 MiB. */
export const MAX_FRAME_CHARACTERS = 48 * 1024 * 1024;

/** Nor does one of more lines than this go on: every line of a record is kept by itself for a moment, and would take ten times its size. */
export const MAX_FRAME_LINES = 100_000;

/** Thrown when an upstream's record exceeds {@link MAX_FRAME_CHARACTERS} or {@link MAX_FRAME_LINES}. */
export class FrameTooLong extends Error {}

/** An end of a line and another one behind it, whatever ends the lines. */
const BLANK_LINE = /\n[\r\n]|\r\r/;

/**
 * What was read is let go of from so many characters on, as soon as the rest of a record is waited for: a client that takes nothing more would have it held
 * for as long as it is there. Less goes with the next text that comes.
 */
const LEAST_LET_GO = 32 * 1024;

/** The value of a field between two places: one space at its beginning is none of it. */
const valueBetween = (raw: string, from: number, to: number): string =>
  raw.slice(from < to && raw.charCodeAt(from) === 32 ? from + 1 : from, to);

/** Nearly every record of every vendor is one `data:` line, or such a line below an `event:` one. */
function parseUsual(raw: string): Frame | undefined {
  if (raw.includes("\r")) return undefined;
  const line = raw.indexOf("\n");
  if (line < 0)
    return raw.startsWith("data:") ? new Frame(raw, undefined, valueBetween(raw, 5, raw.length)) : undefined;
  if (!raw.startsWith("event:") || !raw.startsWith("data:", line + 1) || raw.includes("\n", line + 1)) return undefined;
  return new Frame(raw, valueBetween(raw, 6, line), valueBetween(raw, line + 6, raw.length));
}

function parseRecord(raw: string): Frame | undefined {
  return parseUsual(raw) ?? parseLines(raw);
}

/**
 * llama.cpp until late in 2025, and servers built from it, tell an error of a stream in a field of this name, and the terminator behind it (coddy-project/coddy-agent
 * #106): passed by, as fields that SSE does not know are, half a reply would be a whole one.
 */
const ERROR = "error";

function parseLines(raw: string): Frame | undefined {
  let event: string | undefined;
  let data: string | undefined;
  const lines = raw.split(/\r\n|\n|\r/, MAX_FRAME_LINES + 1);
  if (lines.length > MAX_FRAME_LINES) throw new FrameTooLong();
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon === 0) continue;
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "event") event = value;
    else if (field === "data") data = data === undefined ? value : `${data}\n${value}`;
    else if (field === ERROR && value.startsWith("{")) [event, data] = [ERROR, value];
  }
  return data === undefined ? bareObject(raw) : new Frame(raw, event, data);
}

/**
 * An object where a record should be, as some servers hand on what the engine behind them refused once they have promised a stream (Lemonade:
 * lemonade-sdk/lemonade #2975, OpenVINO's).
 */
function bareObject(raw: string): Frame | undefined {
  const data = raw.replace(/^[\r\n]+/, "");
  return data.startsWith("{") ? new Frame(`data: ${oneLine(data)}`, undefined, data) : undefined;
}

/**
 * Cuts SSE text into frames, whatever the chunk borders: LF, CRLF, CR and mixtures, a BOM at the start, comments, and a last record
 * without its blank line (dialects.md 4.8 #27). Records without data (comments, `retry:`) yield nothing.
 */
export class FrameSplitter {
  #buffer = "";
  /** Where the next record begins, and up to where no blank line is. */
  #from = 0;
  #scanned = 0;
  /** Where the line begins that `#scanned` stands in; kept only where lines end with carriage returns. */
  #lineAt = 0;
  /** What follows the buffer and completes no record: put to it with the first text that may, since each time all of it would be copied. */
  #endless: string[] = [];
  #endlessLength = 0;
  #started = false;
  #carriageReturns = false;

  /** Adds text and returns the frames it completed. Throws {@link FrameTooLong}. */
  push(text: string): Frame[] {
    this.add(text);
    const frames: Frame[] = [];
    for (let frame = this.next(); frame; frame = this.next()) frames.push(frame);
    return frames;
  }

  /** Adds text; `next` then gives the frames it completed. Throws {@link FrameTooLong}. */
  add(text: string): void {
    if (text === "") return;
    const held = this.#buffer.length - this.#from + this.#endlessLength;
    // What was complete has been given: all that is held is one record.
    if (held > MAX_FRAME_CHARACTERS) throw new FrameTooLong();
    if (held >= LEAST_LET_GO && this.#isEndless(text)) {
      this.#endless.push(text);
      this.#endlessLength += text.length;
      return;
    }
    this.#scanned = Math.max(0, this.#scanned - this.#from);
    this.#lineAt = Math.max(0, this.#lineAt - this.#from);
    const rest = this.#takeRest();
    this.#from = 0;
    this.#buffer = rest + text;
    if (!this.#started) {
      this.#started = true;
      if (this.#buffer.charCodeAt(0) === 0xfeff) this.#buffer = this.#buffer.slice(1);
    }
    if (this.#carriageReturns || !text.includes("\r")) return;
    this.#carriageReturns = true;
    // Lines were not counted so far.
    this.#scanned = 0;
  }

  /** Whether a text completes nothing: no blank line is in it, nor where it begins. */
  #isEndless(text: string): boolean {
    // The first carriage return changes how all that is held is read.
    if (BLANK_LINE.test(text) || (!this.#carriageReturns && text.includes("\r"))) return false;
    // A carriage return at the end of the buffer may be a blank line already, on whose line feed was waited.
    const border = (this.#endless.at(-1) ?? this.#buffer).slice(-2) + text.charAt(0);
    return !BLANK_LINE.test(border);
  }

  /** What has not been read. */
  #takeRest(): string {
    const rest = this.#from === 0 ? this.#buffer : this.#buffer.slice(this.#from);
    if (this.#endlessLength === 0) return rest;
    const whole = rest + this.#endless.join("");
    this.#endless = [];
    this.#endlessLength = 0;
    return whole;
  }

  /** The next complete frame: all records of `pattern` that follow each other are one. Undefined when more text is needed. */
  next(pattern?: TextPattern): Frame | undefined {
    return this.#carriageReturns ? this.#nextAnyEnding() : this.#nextLineFeeds(pattern);
  }

  /** The record left over when the upstream ended without a closing blank line, if any. */
  end(): Frame[] {
    const raw = this.#takeRest().replace(/[\r\n]+$/, "");
    this.#buffer = "";
    this.#from = 0;
    const frame = raw === "" ? undefined : parseRecord(raw);
    return frame ? [frame] : [];
  }

  #nextLineFeeds(pattern: TextPattern | undefined): Frame | undefined {
    const buffer = this.#buffer;
    for (;;) {
      const from = this.#from;
      const at = buffer.indexOf("\n\n", Math.max(from, this.#scanned));
      if (at < 0) {
        // Only its last character can be the first half of a blank line.
        this.#scanned = Math.max(from, buffer.length - 1);
        if (from >= LEAST_LET_GO || from === buffer.length) this.#letGo();
        return undefined;
      }
      const fit = pattern ? fits(pattern, buffer, from, at) : NOT;
      if (pattern && fit !== NOT) return this.#takeRun(pattern, at, fit);
      this.#from = at + 2;
      if (at === from) continue;
      const frame = parseRecord(buffer.slice(from, at));
      if (frame) return frame;
    }
  }

  /** Keeps no more than what has not been read. */
  #letGo(): void {
    this.#buffer = this.#from === this.#buffer.length ? "" : ownText(this.#buffer.slice(this.#from));
    this.#scanned -= this.#from;
    this.#from = 0;
  }

  /** The record that ends at `end` and fits, and all behind it that do: each begins behind a link, and ends with another or with the last tail. */
  #takeRun(pattern: TextPattern, end: number, first: Fit): Frame {
    const { head, tail, last, link } = pattern;
    const buffer = this.#buffer;
    const start = this.#from;
    let close = end - tail.length;
    const literals = [buffer.slice(start + head.length, close)];
    let characters = close - start - head.length;
    let hasEscapes = first === ESCAPED;
    let isLinked = buffer.startsWith(link, close);
    while (isLinked && characters < MAX_RUN_CHARACTERS) {
      const open = close + link.length;
      const found = literalEnd(buffer, open);
      const at = found < 0 ? ~found : found;
      isLinked = buffer.startsWith(link, at);
      if (!isLinked && !buffer.startsWith(last, at)) break;
      literals.push(buffer.slice(open, at));
      hasEscapes ||= found < 0;
      characters += at - open;
      close = at;
    }
    this.#from = close + last.length;
    return new Frame(buffer.slice(start, this.#from), undefined, "", new TextRun(pattern, literals, hasEscapes));
  }

  #nextAnyEnding(): Frame | undefined {
    const buffer = this.#buffer;
    let at = Math.max(this.#from, this.#scanned);
    let lineAt = Math.max(this.#from, this.#lineAt);
    while (at < buffer.length) {
      const code = buffer.charCodeAt(at);
      if (code !== 10 && code !== 13) {
        at++;
        continue;
      }
      // A CR at the very end may be the first half of a CRLF: wait for the next chunk.
      if (code === 13 && at + 1 === buffer.length) break;
      const width = code === 13 && buffer.charCodeAt(at + 1) === 10 ? 2 : 1;
      if (at === lineAt) {
        const raw = buffer.slice(this.#from, at).replace(/[\r\n]+$/, "");
        this.#from = at + width;
        const frame = raw === "" ? undefined : parseRecord(raw);
        if (frame) return frame;
      }
      at += width;
      lineAt = at;
    }
    this.#scanned = at;
    this.#lineAt = lineAt;
    return undefined;
  }
}

/** Whether a record is of a pattern, and then whether a backslash stands in its string. */
type Fit = typeof NOT | typeof PLAIN | typeof ESCAPED;
const NOT = 0;
const PLAIN = 1;
const ESCAPED = 2;

/**
 * Whether the record from `from` to `at` is of the pattern: the string in it ends where the tail begins, and holds neither a quote nor what no JSON
 * string holds unescaped, a line's end among it.
 */
function fits({ head, tail }: TextPattern, buffer: string, from: number, at: number): Fit {
  const close = at - tail.length;
  const open = from + head.length;
  if (close < open || !buffer.startsWith(head, from) || !buffer.startsWith(tail, close)) return NOT;
  const end = literalEnd(buffer, open);
  if (end === close) return PLAIN;
  return end === ~close ? ESCAPED : NOT;
}

/** No place in any text. */
const NOWHERE = 0x7fffffff;

/**
 * Where the JSON string that goes on at `open` ends: at a quote, or at what no JSON string holds unescaped, a line's end and the end of the text among
 * it; the complement of that place where a backslash stands in it. Before the end none may stand: whether that is escaped itself is for a parser.
 */
function literalEnd(buffer: string, open: number): number {
  let isEscaped = false;
  let place = open;
  for (; place < buffer.length; place++) {
    const code = buffer.charCodeAt(place);
    if (code < 32 || code === 34) break;
    if (code === 92) isEscaped = true;
  }
  if (!isEscaped) return place;
  return buffer.charCodeAt(place - 1) === 92 ? NOWHERE : ~place;
}
