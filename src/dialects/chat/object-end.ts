import { isJson } from "../../lib/json.ts";

const [QUOTE, BACKSLASH, OPENING, CLOSING] = [0x22, 0x5c, 0x7b, 0x7d];
const [OPENING_LIST, CLOSING_LIST] = [0x5b, 0x5d];

/** Anything up to it is white space in JSON, or cannot stand there at all. */
const SPACE = 0x20;

/**
 * Says of a text that comes in pieces whether it is one whole JSON object by now. Every piece is looked at once, however often somebody asks: fragments
 * of calls that interleave ask at each (dialects.md 4.8 #12).
 */
export class ObjectEnd {
  /** Pieces nobody has asked about yet. */
  #unseen = "";
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  /** The outermost brace is closed; what comes behind it can only spoil that. */
  #isClosed = false;
  #isNone = false;
  /** Whether what was closed is JSON: its braces may be even, and it none all the same. */
  #isJson: boolean | undefined;

  /** Adds the next piece, which may be empty. */
  add(piece: string): void {
    this.#unseen += piece;
  }

  /** Whether the object is whole. `text`: all pieces so far, which are read as JSON once at the most. */
  isReached(text: string): boolean {
    if (this.#unseen !== "") {
      this.#look(this.#unseen);
      this.#unseen = "";
    }
    if (!this.#isClosed || this.#isNone) return false;
    this.#isJson ??= isJson(text.trimEnd());
    return this.#isJson;
  }

  #look(piece: string): void {
    for (let at = 0; at < piece.length && !this.#isNone; at++) {
      const unit = piece.charCodeAt(at);
      if (this.#isInString) this.#lookInString(unit);
      else if (this.#depth === 0) this.#lookOutside(unit);
      else if (unit === QUOTE) this.#isInString = true;
      else if (unit === OPENING || unit === OPENING_LIST) this.#depth++;
      else if (unit === CLOSING || unit === CLOSING_LIST) this.#isClosed = --this.#depth === 0;
    }
  }

  #lookInString(unit: number): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (unit === BACKSLASH) this.#isEscaped = true;
    else if (unit === QUOTE) this.#isInString = false;
  }

  #lookOutside(unit: number): void {
    if (unit <= SPACE) return;
    if (unit === OPENING && !this.#isClosed) this.#depth = 1;
    else this.#isNone = true;
  }
}
