/** What a piece of text turned out to be. */
export type Split = { reasoning: string; text: string };

const OPEN = "<think>";
const CLOSE = "</think>";
/** Text held back while the closing tag of a reply without an opening tag may still come, characters. */
const MAX_HELD = 65_536;
const NOTHING: Split = { reasoning: "", text: "" };

/** Length of the longest end of `text` that could be the beginning of `tag`. */
function partialTag(text: string, tag: string): number {
  for (let length = Math.min(tag.length - 1, text.length); length > 0; length--) {
    if (text.endsWith(tag.slice(0, length))) return length;
  }
  return 0;
}

/** Models whose prompt ends with the opening tag, so that a server which does not take reasoning apart never sends it. */
const PREOPENED =
  /(?:^|[^a-z0-9])(?<!non[-_])(?:r1|z1|qwq|minimax-m2(?:\.1)?(?!\.\d)|think(?:ing|er)?|reason(?:ing|er)?)(?![a-z0-9])/i;

/** Whether the replies of a model of this name may begin with reasoning that no tag opens. */
export const mayBePreopened = (model: unknown): boolean => typeof model === "string" && PREOPENED.test(model);

/**
 * Takes reasoning that a vendor writes into its text, at its very start, out again (dialects.md 4.8 #25). Tags may be cut anywhere. Where the
 * opening tag may be missing, text is held until the closing tag shows, at most {@link MAX_HELD} characters: anywhere else that would make one
 * piece of the whole stream.
 */
export class ThinkSplitter {
  /** `held`: it began without a tag, and the closing one may still come. `opened`: nothing has come behind the opening tag. */
  #state: "start" | "held" | "opened" | "reasoning" | "after" | "text" = "start";
  /** Copied as a whole each time somebody looks into it: what may grow long is looked at piece by piece. */
  #held = "";
  /** Nothing but white space has come. */
  #isBlank = true;
  /** The end of what is held, in which the closing tag may have begun. */
  #tail = "";

  constructor(private readonly preopened: boolean) {}

  push(piece: string): Split {
    if (this.#state === "text") return { reasoning: "", text: piece };
    this.#held += piece;
    if (this.#state === "start") return this.#start(piece);
    if (this.#state === "held") return this.#hold(piece);
    if (this.#state === "opened") return this.#open();
    return this.#state === "reasoning" ? this.#reason() : this.#afterTag();
  }

  /** What is still held, once nothing more will come. */
  end(): Split {
    const rest = this.#held;
    this.#held = "";
    const isReasoning = this.#state === "reasoning";
    this.#state = "text";
    return isReasoning ? { reasoning: rest, text: "" } : { reasoning: "", text: rest };
  }

  #start(piece: string): Split {
    if (this.#isBlank && piece.trimStart() === "") return NOTHING;
    this.#isBlank = false;
    const trimmed = this.#held.trimStart();
    if (trimmed.startsWith(OPEN)) {
      this.#held = trimmed.slice(OPEN.length);
      this.#state = "opened";
      return this.#open();
    }
    if (OPEN.startsWith(trimmed)) return NOTHING;
    this.#state = "held";
    return this.#hold(this.#held);
  }

  /** The end of the tag's line is no reasoning, also where it is a piece of its own, as models make it. */
  #open(): Split {
    if (this.#held === "") return NOTHING;
    if (this.#held.startsWith("\n")) this.#held = this.#held.slice(1);
    this.#state = "reasoning";
    return this.#reason();
  }

  #hold(piece: string): Split {
    const seen = this.#tail + piece;
    if (seen.includes(CLOSE)) return this.#close(this.#held.indexOf(CLOSE));
    if (!this.preopened || this.#held.length > MAX_HELD) return this.end();
    this.#tail = seen.slice(1 - CLOSE.length);
    return NOTHING;
  }

  #reason(): Split {
    const at = this.#held.indexOf(CLOSE);
    if (at >= 0) return this.#close(at);
    const keep = partialTag(this.#held, CLOSE);
    const reasoning = this.#held.slice(0, this.#held.length - keep);
    this.#held = this.#held.slice(this.#held.length - keep);
    return { reasoning, text: "" };
  }

  #close(at: number): Split {
    const reasoning = this.#held.slice(0, at);
    this.#held = this.#held.slice(at + CLOSE.length);
    this.#state = "after";
    return { reasoning, text: this.#afterTag().text };
  }

  /** The blank lines between the tag and the answer belong to neither. */
  #afterTag(): Split {
    const text = this.#held.trimStart();
    this.#held = "";
    if (text !== "") this.#state = "text";
    return { reasoning: "", text };
  }
}
