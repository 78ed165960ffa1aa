import { ObjectScanner } from "./object-end.ts";
import { toInput } from "./tool-input.ts";

/**
 * A call's arguments, text in pieces, as a JSON object in pieces, for clients that read each piece of one and give the whole stream up at what is none
 * (dialects.md 2.5). Of an object goes on what {@link ObjectScanner.take} takes; what is none is held to the end, and told as {@link toInput} has it. Other
 * faults inside of an object are seen too late.
 */
export class InputStream {
  readonly #scanner = new ObjectScanner();
  /** Pieces that are no object, or of which it is not known yet. */
  #held = "";
  #isObject: boolean | undefined;

  /** Adds a piece. Returns what of it may go out. */
  add(piece: string): string {
    if (this.#isObject === undefined) {
      const first = piece.trimStart().charAt(0);
      if (first !== "") this.#isObject = first === "{";
    }
    if (this.#isObject !== true) {
      this.#held += piece;
      return "";
    }
    const text = this.#held + piece;
    this.#held = "";
    return this.#scanner.take(text);
  }

  /** What is left to go out at the end. */
  end(): string {
    return this.#isObject === false ? JSON.stringify(toInput(this.#held)) : this.#scanner.takeRest();
  }
}
