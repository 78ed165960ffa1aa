import { expect, test } from "bun:test";
import fc from "fast-check";
import { ObjectEnd, ObjectScanner } from "../../src/dialects/tools/object-end.ts";

/** What is meant, found by reading all of it again. */
function isObjectText(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

/** Texts that are an object, nearly one, or none: JSON of any value, cut and spoilt. */
const texts = fc
  .tuple(
    fc.oneof(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })), fc.jsonValue({ maxDepth: 3 })),
    fc.constantFrom("", " ", "\n", "}", "{}", '"', "\\", "]", "x"),
    fc.constantFrom("", " ", "\t{", "[", '"'),
    fc.nat(),
  )
  .map(([value, behind, before, cut]) => {
    const text = before + JSON.stringify(value) + behind;
    return cut % 3 === 0 ? text.slice(0, cut % (text.length + 1)) : text;
  });

test("a text in pieces is whole exactly when it is one JSON object, whenever somebody asks", () => {
  fc.assert(
    fc.property(texts, fc.array(fc.tuple(fc.integer({ min: 1, max: 9 }), fc.boolean())), (text, steps) => {
      const end = new ObjectEnd();
      let at = 0;
      for (const [length, asks] of steps) {
        end.add(text.slice(at, at + length));
        at += length;
        if (asks) expect(end.isReached(text.slice(0, at))).toBe(isObjectText(text.slice(0, at)));
      }
      end.add(text.slice(at));
      expect(end.isReached(text)).toBe(isObjectText(text));
      expect(end.isReached(text)).toBe(isObjectText(text));
    }),
    { numRuns: 2_000 },
  );
});

test.each(['{"a":"}"}', '{"a":"\\\\"}', '{"a":"\\""}', "{}", ' {"a":[{}]} \n'])(
  "%s is whole at its end and not before",
  (text) => {
    const end = new ObjectEnd();
    const whole: string[] = [];
    for (let at = 1; at <= text.length; at++) {
      end.add(text.charAt(at - 1));
      if (end.isReached(text.slice(0, at))) whole.push(text.slice(0, at).trim());
    }
    expect(new Set(whole)).toEqual(new Set([text.trim()]));
  },
);

test.each(["{a}", "{]", '{"a":1}}', '{"a":1}{', "[{}]", '"{}"'])("%s is never whole", (text) => {
  const end = new ObjectEnd();
  for (const unit of text) end.add(unit);
  expect(end.isReached(text)).toBe(false);
});

const objects = fc.dictionary(fc.string({ unit: "grapheme" }), fc.jsonValue({ maxDepth: 3 }));
/** Cuts a text into pieces of these lengths, over and over. */
function cut(text: string, lengths: readonly number[]): string[] {
  const pieces: string[] = [];
  for (let at = 0, turn = 0; at < text.length; turn++) {
    const length = lengths[turn % lengths.length] ?? 1;
    pieces.push(text.slice(at, at + length));
    at += length;
  }
  return pieces;
}

/** What is taken of a text that comes in these pieces. */
function takenOf(pieces: readonly string[]): string {
  const scanner = new ObjectScanner();
  return pieces.map((piece) => scanner.take(piece)).join("") + scanner.takeRest();
}

test("an object is taken as it is, however it is cut and spread over lines, and nothing that stands behind it", () => {
  const lengths = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 });
  fc.assert(
    fc.property(objects, lengths, fc.boolean(), fc.string(), (value, steps, isSpread, behind) => {
      const text = JSON.stringify(value, undefined, isSpread ? 2 : undefined);
      expect(takenOf(cut(text + behind, steps))).toBe(text);
    }),
  );
});

test("what is taken of a spoiled object is the same, however it is cut", () => {
  const spoiled = fc
    .array(fc.constantFrom("{", "}", '"', "\\", "u", "00e9", "n", "\n", " ", "[", "]", ":", "x", "é"), {
      maxLength: 16,
    })
    .map((tokens) => tokens.join(""));
  const lengths = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1 });
  fc.assert(
    fc.property(spoiled, lengths, (text, steps) => {
      expect(takenOf(cut(text, steps))).toBe(takenOf([text]));
    }),
    { numRuns: 2_000 },
  );
});
