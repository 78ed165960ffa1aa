/** Most sequences that are watched for, and the longest, characters: each is looked for in every piece of the text. */
const MAX_WATCHED = 32;
const MAX_LENGTH = 500;

/** The sequences of `stops` that a {@link StopWatch} takes; others are named in `dropped`. An empty one asks for nothing. */
export function watchable(stops: readonly string[], dropped: string[]): readonly string[] {
  if (stops.length === 0) return stops;
  const asked = [...new Set(stops)].filter((stop) => stop !== "");
  const taken = asked.filter((stop) => stop.length <= MAX_LENGTH).slice(0, MAX_WATCHED);
  if (taken.length < asked.length) dropped.push("stop");
  return taken;
}

/** Where a stop sequence was found: the text before it, and the sequence. */
type Stopped = { text: string; stop: string };

/**
 * Looks for stop sequences in a text that arrives in pieces, for upstreams that were not told them. It holds back as many characters as
 * could still begin one (dialects.md 4.8 #30).
 */
export class StopWatch {
  #held = "";
  readonly #longest: number;
  readonly #firsts: ReadonlySet<number>;

  constructor(readonly stops: readonly string[]) {
    this.#longest = Math.max(0, ...stops.map((stop) => stop.length));
    this.#firsts = new Set(stops.map((stop) => stop.charCodeAt(0)));
  }

  /**
   * The text that may go out now, or where it stops. Of several sequences the one that is whole first counts, as where a model stops by itself, then the
   * longest: so it is the same in whatever pieces the text comes.
   */
  push(text: string): string | Stopped {
    const all = this.#held + text;
    let found: { at: number; stop: string } | undefined;
    let first = Number.POSITIVE_INFINITY;
    for (const stop of this.stops) {
      const at = all.indexOf(stop);
      const end = at + stop.length;
      if (at < 0 || end > first || (end === first && found && at > found.at)) continue;
      found = { at, stop };
      first = end;
    }
    if (found) {
      this.#held = "";
      return { text: all.slice(0, found.at), stop: found.stop };
    }
    const from = this.#firstBeginning(all);
    this.#held = all.slice(from);
    return all.slice(0, from);
  }

  /** What is still held back: the text has ended, so nothing of it begins a sequence any more. */
  end(): string {
    const held = this.#held;
    this.#held = "";
    return held;
  }

  /** The first place from which the rest of `text` is the beginning of a sequence. */
  #firstBeginning(text: string): number {
    for (let at = Math.max(0, text.length - this.#longest + 1); at < text.length; at++) {
      if (!this.#firsts.has(text.charCodeAt(at))) continue;
      const rest = text.slice(at);
      if (this.stops.some((stop) => stop.startsWith(rest))) return at;
    }
    return text.length;
  }
}
