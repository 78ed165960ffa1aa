/** For all bodies: nothing is kept from one piece to the next. */
const whole = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * The text of UTF-8 bytes from index `from` to before `to`. A byte order mark stays; what is not UTF-8 becomes U+FFFD. A Buffer is read in place: for a
 * view of a small one the runtime would copy it first.
 */
export function decodeBytes(bytes: Uint8Array, from: number, to: number): string {
  return bytes instanceof Buffer ? bytes.toString("utf8", from, to) : whole.decode(bytes.subarray(from, to));
}

/**
 * Decodes UTF-8 piece by piece. A byte order mark stays; what is not UTF-8 becomes U+FFFD. A TextDecoder of its own, which keeps half a character between
 * pieces, is made only once a piece may have ended within one: hardly any of thousands of streams needs it.
 */
export class PieceDecoder {
  #own: TextDecoder | undefined;
  /** The last piece may have ended within a character. */
  #isCut = false;

  decode(bytes: Uint8Array, from = 0, to = bytes.length): string {
    if (from >= to) return "";
    const wasCut = this.#isCut;
    this.#isCut = (bytes[to - 1] as number) >= 0x80;
    if (!wasCut && !this.#isCut) return decodeBytes(bytes, from, to);
    this.#own ??= new TextDecoder("utf-8", { ignoreBOM: true });
    return this.#own.decode(bytes.subarray(from, to), { stream: true });
  }

  /** The text of what is left at the end of the body: U+FFFD for a character that was cut off, "" otherwise. */
  end(): string {
    return this.#own?.decode() ?? "";
  }
}
