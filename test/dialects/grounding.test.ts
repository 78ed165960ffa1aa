import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { AnswerText } from "../../src/dialects/gemini/grounding.ts";
import { countWork } from "../support/wait.ts";

describe("places in bytes are places in the text", () => {
  test("in any order, while more of it comes", () => {
    const pieces = fc.array(fc.string({ unit: fc.constantFrom("a", "é", "日", "😀") }), { maxLength: 5 });
    fc.assert(
      fc.property(pieces, fc.array(fc.nat(40), { maxLength: 9 }), (said, asked) => {
        const text = new AnswerText();
        let before = "";
        for (const piece of said) {
          text.add(piece);
          before += piece;
          const characters = [...before];
          for (const at of asked) {
            const part = characters.slice(0, at).join("");
            expect(text.placeOf(Buffer.byteLength(part))).toBe(part.length);
          }
          expect(text.placeOf(Buffer.byteLength(before) + 1)).toBeUndefined();
        }
      }),
      { examples: [[["日"], [1, 0]]] },
    );
  });

  test("half a character that becomes whole moves what follows", () => {
    const text = new AnswerText();
    text.add("é\ud83d");
    expect(text.placeOf(5)).toBe(2);
    text.add("\ude00z");
    expect([text.placeOf(7), text.placeOf(6)]).toEqual([4, 3]);
  });

  test("many of them cost the text's length once", () => {
    const text = new AnswerText();
    text.add("日".repeat(2_000_000));
    const work = countWork();
    for (let at = 1; at <= 1_000; at++) expect(text.placeOf(at * 6_000)).toBe(at * 2_000);
    // A fiftieth of a second; each from the beginning takes more than two.
    expect(work()).toBeLessThan(500);
  });
});
