import { isJson } from "../../lib/json.ts";

const [QUOTE, BACKSLASH, OPENING, CLOSING] = [0x22, 0x5c, 0x7b, 0x7d];
const [OPENING_LIST, CLOSING_LIST] = [0x5b, 0x5d];

/** Anything up to it is white space in JSON, or cannot stand there at all. */
const SPACE = 0x20;

/** What a JSON string may not hold as it is, or not before every letter. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are meant.
const CAREFUL = /([\u0000-\u001f\\])/;
/** What may stand behind a backslash, and a character's number of which more may come. */
const ESCAPED = /^(?:["\\/bfnrt]|u[\da-fA-F]{4})/;
const TORN_NUMBER = /^u[\da-fA-F]{0,3}$/;

/** Follows the brackets of a text that comes in pieces, to where the object that it begins with is closed. */
export class ObjectScanner {
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  /** The outermost brace is closed; what comes behind it can only spoil that. */
  isClosed = false;
  /** The text begins with no object, or goes on behind it. */
  isNone = false;
  /** The beginning of a character's number, behind its backslash. */
  #torn = "";

  /** Looks at the next piece. Returns where the object ends in it, behind its brace; undefined where it does not. */
  look(piece: string): number | undefined {
    let end: number | undefined;
    for (let at = 0; at < piece.length && !this.isNone; at++) {
      const unit = piece.charCodeAt(at);
      if (this.#isInString) this.#lookInString(unit);
      else if (this.#depth === 0) this.#lookOutside(unit);
      else if (unit === QUOTE) this.#isInString = true;
      else if (unit === OPENING || unit === OPENING_LIST) this.#depth++;
      else if ((unit === CLOSING || unit === CLOSING_LIST) && --this.#depth === 0) {
        this.isClosed = true;
        end = at + 1;
      }
    }
    return end;
  }

  /**
   * What of the next piece belongs to the object, as JSON has it. Weaker models write a word or a second object behind it, which is left out, and in its
   * strings bare line ends, and backslashes that escape nothing, as of patterns and of paths of Windows: these are escaped.
   */
  take(text: string): string {
    const piece = this.#torn + text;
    this.#torn = "";
    if (!this.#isEscaped && !CAREFUL.test(piece)) return this.isClosed ? "" : piece.slice(0, this.look(piece));
    let taken = "";
    const parts = piece.split(CAREFUL);
    for (const [place, part] of parts.entries()) {
      if (part === "") continue;
      if (this.isClosed) break;
      if (this.#isEscaped) {
        if (place === parts.length - 1 && TORN_NUMBER.test(part)) {
          this.#torn = part;
          break;
        }
        if (!ESCAPED.test(part)) taken += "\\";
      }
      const isBare = this.#isInString && part < " ";
      const end = this.look(part);
      taken += isBare ? JSON.stringify(part).slice(1, -1) : part.slice(0, end);
    }
    return taken;
  }

  /** What is still held at the end. */
  takeRest(): string {
    const torn = this.#torn;
    this.#torn = "";
    return torn;
  }

  #lookInString(unit: number): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (unit === BACKSLASH) this.#isEscaped = true;
    else if (unit === QUOTE) this.#isInString = false;
  }

  #lookOutside(unit: number): void {
    if (unit <= SPACE) return;
    if (unit === OPENING && !this.isClosed) this.#depth = 1;
    else this.isNone = true;
  }
}

/**
 * Says of a text that comes in pieces whether it is one whole JSON object by now. Every piece is looked at once, however often somebody asks: fragments
 * of calls that interleave ask at each (dialects.md 4.8 #12).
 */
export class ObjectEnd {
  /** Pieces nobody has asked about yet. */
  #unseen = "";
  readonly #scanner = new ObjectScanner();
  /** Whether what was closed is JSON: its braces may be even, and it none all the same. */
  #isJson: boolean | undefined;

  /** Adds the next piece, which may be empty. */
  add(piece: string): void {
    this.#unseen += piece;
  }

  /** Whether the object is whole. `text`: all pieces so far, which are read as JSON once at the most. */
  isReached(text: string): boolean {
    const scanner = this.#scanner;
    if (this.#unseen !== "") {
      scanner.look(this.#unseen);
      this.#unseen = "";
    }
    if (!scanner.isClosed || scanner.isNone) return false;
    this.#isJson ??= isJson(text.trimEnd());
    return this.#isJson;
  }
}
