/** For all bodies: nothing is kept from one piece to the next. */
const whole = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * The text of bytes that are UTF-8, `from` one place `to` another, a mark at its beginning left as it is; what is no UTF-8 comes out as U+FFFD. A
 * Buffer is read where it lies: a view of a small one would have it moved to other memory first.
 */
export function decodeBytes(bytes: Uint8Array, from: number, to: number): string {
  return bytes instanceof Buffer ? bytes.toString("utf8", from, to) : whole.decode(bytes.subarray(from, to));
}

/**
 * Decodes UTF-8 piece by piece, a mark at its beginning left as it is; what is no UTF-8 comes out as U+FFFD. A decoder of its own, which keeps half a
 * character, is made only for a body that may be cut within one: of thousands that wait at the same time that is hardly any.
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

  /** What is left at the end. */
  end(): string {
    return this.#own?.decode() ?? "";
  }
}
