import { MalformedMessage } from "./fields.ts";

/** How the end of a body is known (RFC 9112, 6.3): by its length, by its chunks, or by the end of the connection; `none`: there is no body. */
export type Framing = { kind: "none" | "chunked" | "close" } | { kind: "length"; bytes: number };

/** The longest line of a chunk's size, and all trailing fields together, bytes. */
const MAX_LINE_BYTES = 16 * 1024;
/** Hexadecimal digits of a chunk's size: below what a number holds exactly. */
const MAX_SIZE_DIGITS = 13;

/** Finds the end of a body in the bytes of its connection. */
export type BodyReader = {
  /**
   * Finds which of these bytes, from `start` on, belong to the body: those from {@link from} to before {@link to}, where the data of several chunks is moved
   * together. Indices and not a view, since for one the runtime would copy each small piece. Throws {@link MalformedMessage}.
   */
  take(bytes: Uint8Array, start?: number): void;
  readonly from: number;
  readonly to: number;
  /** Whether the end of the body was found. */
  readonly complete: boolean;
  /** The bytes that came after the end, if any. */
  readonly surplus: Uint8Array | undefined;
};

/** The reader for a framing. */
export function createBodyReader(framing: Framing): BodyReader {
  if (framing.kind === "chunked") return new Chunks();
  if (framing.kind === "close") return new UntilClose();
  return new Length(framing.kind === "length" ? framing.bytes : 0);
}

/** A view of the bytes that a reader found in `bytes`. */
export function viewOf({ from, to }: Pick<BodyReader, "from" | "to">, bytes: Uint8Array): Uint8Array {
  return from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to);
}

class UntilClose implements BodyReader {
  from = 0;
  to = 0;
  readonly complete = false;
  readonly surplus = undefined;

  take(bytes: Uint8Array, start = 0): void {
    this.from = start;
    this.to = bytes.length;
  }
}

class Length implements BodyReader {
  #left: number;
  from = 0;
  to = 0;
  surplus: Uint8Array | undefined;

  constructor(bytes: number) {
    this.#left = bytes;
  }

  get complete(): boolean {
    return this.#left === 0;
  }

  take(bytes: Uint8Array, start = 0): void {
    const end = start + this.#left;
    if (bytes.length > end) this.surplus = bytes.subarray(end);
    this.from = start;
    this.to = Math.min(bytes.length, end);
    this.#left = end - this.to;
  }
}

const CR = 13;
const LF = 10;

/** What comes next in chunked coding (RFC 9112, 7.1). */
const SIZE = 0;
const EXTENSION = 1;
const SIZE_LF = 2;
const DATA = 3;
const DATA_CR = 4;
const DATA_LF = 5;
const TRAILER = 6;
const TRAILER_REST = 7;
const TRAILER_REST_LF = 8;
const TRAILER_LF = 9;
const END = 10;

function hexDigit(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  const letter = code | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}

class Chunks implements BodyReader {
  #state = SIZE;
  /** Of the chunk being read. */
  #left = 0;
  #digits = 0;
  #lineBytes = 0;
  from = 0;
  to = 0;
  surplus: Uint8Array | undefined;

  get complete(): boolean {
    return this.#state === END;
  }

  take(bytes: Uint8Array, start = 0): void {
    // Where the body's bytes are so far; data of a further chunk is moved right after them.
    let from = 0;
    let to = 0;
    let at = start;
    while (at < bytes.length) {
      if (this.#state !== DATA) {
        if (this.#state === END) {
          this.surplus = bytes.subarray(at);
          break;
        }
        this.#step(bytes[at++] as number);
        continue;
      }
      const end = Math.min(bytes.length, at + this.#left);
      this.#left -= end - at;
      if (this.#left === 0) this.#state = DATA_CR;
      if (to === 0) from = at;
      else bytes.copyWithin(to, at, end);
      to = to === 0 ? end : to + (end - at);
      at = end;
    }
    this.from = from;
    this.to = to;
  }

  /** Takes one byte that is not data of the body. */
  #step(code: number): void {
    const state = this.#state;
    if (state === SIZE) this.#size(code);
    else if (state === EXTENSION) {
      this.#bound();
      if (code === CR) this.#state = SIZE_LF;
      else refuseControl(code);
    } else if (state === SIZE_LF) {
      expect(code, LF);
      this.#lineBytes = 0;
      this.#state = this.#left === 0 ? TRAILER : DATA;
    } else if (state === DATA_CR) {
      expect(code, CR);
      this.#state = DATA_LF;
    } else if (state === DATA_LF) {
      expect(code, LF);
      this.#digits = 0;
      this.#state = SIZE;
    } else this.#trail(code);
  }

  #size(code: number): void {
    const digit = hexDigit(code);
    if (digit >= 0) {
      if (++this.#digits > MAX_SIZE_DIGITS) throw new MalformedMessage("a chunk that is too large");
      this.#left = this.#left * 16 + digit;
      return;
    }
    const ends = code === CR || code === 59 || code === 32 || code === 9;
    if (this.#digits === 0 || !ends) throw new MalformedMessage("a chunk without its size");
    this.#state = code === CR ? SIZE_LF : EXTENSION;
  }

  /** Takes one byte of the trailing fields after the last chunk, which are bounded and otherwise ignored. */
  #trail(code: number): void {
    this.#bound();
    if (this.#state === TRAILER_LF || this.#state === TRAILER_REST_LF) {
      expect(code, LF);
      this.#state = this.#state === TRAILER_LF ? END : TRAILER;
    } else if (code === CR) this.#state = this.#state === TRAILER ? TRAILER_LF : TRAILER_REST_LF;
    else {
      refuseControl(code);
      this.#state = TRAILER_REST;
    }
  }

  #bound(): void {
    if (++this.#lineBytes > MAX_LINE_BYTES) throw new MalformedMessage("a chunk's line that is too long");
  }
}

/** Throws for control characters in a line: a bare line feed ends the line for some readers, which then see another message after it than others do. */
function refuseControl(code: number): void {
  if ((code < 32 && code !== 9) || code === 127) throw new MalformedMessage("a chunk's line with odd characters");
}

function expect(code: number, wanted: number): void {
  if (code !== wanted) throw new MalformedMessage("a chunk that does not end where it says");
}
