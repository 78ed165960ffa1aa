/** For all bodies: nothing is kept from one piece to the next. */
const whole = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * Decodes UTF-8 piece by piece, a mark at its beginning left as it is; what is no UTF-8 comes out as U+FFFD. A decoder of its own, which keeps half a
 * character, is made only for a body that may be cut within one: of thousands that wait at the same time that is hardly any.
 */
export class PieceDecoder {
  #own: TextDecoder | undefined;
  /** The last piece may have ended within a character. */
  #isCut = false;

  decode(bytes: Uint8Array): string {
    const last = bytes.at(-1);
    if (last === undefined) return "";
    const wasCut = this.#isCut;
    this.#isCut = last >= 0x80;
    if (!wasCut && !this.#isCut) return whole.decode(bytes);
    this.#own ??= new TextDecoder("utf-8", { ignoreBOM: true });
    return this.#own.decode(bytes, { stream: true });
  }

  /** What is left at the end. */
  end(): string {
    return this.#own?.decode() ?? "";
  }
}
