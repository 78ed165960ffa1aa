import { type Steps, valueAt } from "./faults.ts";

/** Most that is parsed to find lines, as lines times characters: some 50 ms in a server that reads a faulty file again. */
const MAX_PARSED = 2_000_000;

/** Finds the lines of places in a file's text. Lines count from 1; undefined where one cannot be known for certain. */
export type Lines = {
  /** The line in which the place begins; for a place that is not in the file, the line of what it would lie in. */
  of(steps: Steps): number | undefined;
  /** The line before which everything can be parsed: a fault of syntax is in it or below. */
  ofSyntax(): number | undefined;
};

/**
 * The lines of a text. Bun's parsers report none, so longer and longer beginnings of the text are parsed: a place is in the line with which it
 * first appears. Between brackets that span lines, as in JSON, beginnings cannot be parsed, and no line is known.
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
