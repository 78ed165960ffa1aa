import { type Steps, valueAt } from "./faults.ts";

/** Most that is parsed for the sake of lines, characters: some 50 ms of a server that reads a faulty file again. */
const MAX_PARSED = 2_000_000;

/** Where in a file's text something is. Lines count from 1; undefined where it cannot be known for certain. */
export type Lines = {
  /** The line in which the place begins, or what it lies in when it is not there itself. */
  of(steps: Steps): number | undefined;
  /** The line before which all can be parsed: a fault that keeps the whole from being parsed is in it, or below. */
  ofSyntax(): number | undefined;
};

/**
 * The lines of a text. Bun's parsers tell none, so they are asked: a place is in the line with which it appears, when both the text
 * up to that line and the text before it can be parsed. In what spans lines between brackets, such as JSON, no line is known.
 */
export function linesOf(text: string, parse: (text: string) => unknown): Lines {
  const lines = text.split("\n");
  const parsed: ({ document: unknown } | undefined)[] = [];
  /** The first `count` lines as a value; undefined when they cannot be parsed. */
  const upTo = (count: number): { document: unknown } | undefined => {
    if (!(count in parsed)) {
      try {
        parsed[count] = { document: parse(lines.slice(0, count).join("\n")) };
      } catch {
        parsed[count] = undefined;
      }
    }
    return parsed[count];
  };
  const tooMuch = lines.length * text.length > MAX_PARSED;
  const has = (count: number, steps: Steps) => valueAt(upTo(count)?.document, steps) !== undefined;
  return {
    of(steps) {
      if (tooMuch) return undefined;
      let known = steps;
      while (known.length > 0 && !has(lines.length, known)) known = known.slice(0, -1);
      if (known.length === 0) return undefined;
      const count = lines.findIndex((_, index) => has(index + 1, known));
      return count >= 0 && upTo(count) ? count + 1 : undefined;
    },
    ofSyntax() {
      if (tooMuch) return undefined;
      for (let count = lines.length - 1; count > 0; count--) if (upTo(count)) return count + 1;
      return undefined;
    },
  };
}
