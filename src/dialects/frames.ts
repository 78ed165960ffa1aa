import { JsonText } from "../lib/json.ts";

/** One SSE record: the text it came as (without its closing blank line), its event name, its data, and the data parsed once, lazily. */
export class Frame {
  #json: JsonText | undefined;

  constructor(
    readonly raw: string,
    readonly event: string | undefined,
    readonly data: string,
  ) {}

  /** The data as JSON. Throws SyntaxError when it is not. */
  get value(): unknown {
    this.#json ??= new JsonText(this.data);
    return this.#json.value;
  }
}

/** One SSE record longer than this ends the stream as an error. Images travel in one record as base64, hence the size. */
export const MAX_FRAME_CHARACTERS = 16 * 1024 * 1024;

/** Thrown when an upstream's record exceeds {@link MAX_FRAME_CHARACTERS}. */
export class FrameTooLong extends Error {}

function parseRecord(raw: string): Frame | undefined {
  // Nearly every record of every vendor is one `data:` line.
  if (raw.startsWith("data:") && !raw.includes("\n") && !raw.includes("\r")) {
    return new Frame(raw, undefined, raw.charCodeAt(5) === 32 ? raw.slice(6) : raw.slice(5));
  }
  let event: string | undefined;
  let data: string | undefined;
  for (const line of raw.split(/\r\n|\n|\r/)) {
    const colon = line.indexOf(":");
    if (colon === 0) continue;
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "event") event = value;
    else if (field === "data") data = data === undefined ? value : `${data}\n${value}`;
  }
  return data === undefined ? undefined : new Frame(raw, event, data);
}

/**
 * Cuts SSE text into frames, whatever the chunk borders: LF, CRLF, CR and mixtures, a BOM at the start, comments, and a last record
 * without its blank line (dialects.md 4.8 #27). Records without data (comments, `retry:`) yield nothing.
 */
export class FrameSplitter {
  #rest = "";
  #started = false;
  #carriageReturns = false;

  /** Adds text and returns the frames it completed. Throws {@link FrameTooLong}. */
  push(text: string): Frame[] {
    if (text === "") return [];
    let buffer = this.#rest + text;
    if (!this.#started) {
      this.#started = true;
      if (buffer.charCodeAt(0) === 0xfeff) buffer = buffer.slice(1);
    }
    this.#carriageReturns ||= text.includes("\r");
    const frames: Frame[] = [];
    // What was kept holds no blank line: only its last character can be the first half of one.
    const scanFrom = Math.max(0, buffer.length - text.length - 1);
    const from = this.#carriageReturns
      ? this.#splitAnyEnding(buffer, frames)
      : this.#splitLineFeeds(buffer, frames, scanFrom);
    this.#rest = from === 0 ? buffer : buffer.slice(from);
    if (this.#rest.length > MAX_FRAME_CHARACTERS) throw new FrameTooLong();
    return frames;
  }

  /** The record left over when the upstream ended without a closing blank line, if any. */
  end(): Frame[] {
    const raw = this.#rest.replace(/[\r\n]+$/, "");
    this.#rest = "";
    const frame = raw === "" ? undefined : parseRecord(raw);
    return frame ? [frame] : [];
  }

  #splitLineFeeds(buffer: string, frames: Frame[], scanFrom: number): number {
    let from = 0;
    for (;;) {
      const at = buffer.indexOf("\n\n", Math.max(from, scanFrom));
      if (at < 0) return from;
      if (at > from) {
        const frame = parseRecord(buffer.slice(from, at));
        if (frame) frames.push(frame);
      }
      from = at + 2;
    }
  }

  #splitAnyEnding(buffer: string, frames: Frame[]): number {
    let from = 0;
    let at = 0;
    let lineAt = 0;
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
        const raw = buffer.slice(from, at).replace(/[\r\n]+$/, "");
        const frame = raw === "" ? undefined : parseRecord(raw);
        if (frame) frames.push(frame);
        from = at + width;
      }
      at += width;
      lineAt = at;
    }
    return from;
  }
}
