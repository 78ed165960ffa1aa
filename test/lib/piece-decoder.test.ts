import { expect, test } from "bun:test";
import fc from "fast-check";
import { PieceDecoder } from "../../src/lib/piece-decoder.ts";

/** Characters of one to four bytes, halves of them, marks, and bytes that stand in no text. */
const part = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 6 }).map((text) => [...new TextEncoder().encode(text)]),
  fc.constantFrom(
    [0xef, 0xbb, 0xbf],
    [0xe2, 0x82],
    [0xf0, 0x9f, 0x98],
    [0x80],
    [0xff],
    [0xc3],
    [0xed, 0xa0, 0x80],
    [10, 10],
  ),
);
const documents = fc.tuple(
  fc.array(part, { maxLength: 12 }).map((parts) => Uint8Array.from(parts.flat())),
  fc.array(fc.nat(80), { maxLength: 12 }),
);

test("text in pieces is the text of the whole, wherever it is cut and whatever it holds", () => {
  fc.assert(
    fc.property(documents, ([bytes, cuts]) => {
      // Also where the bytes of a piece stand among others, of a Buffer and of any other array.
      const decoder = new PieceDecoder();
      const inBuffer = new PieceDecoder();
      const buffer = Buffer.from(bytes);
      const places = [...cuts.map((cut) => Math.min(cut, bytes.length)).sort((a, b) => a - b), bytes.length];
      let text = "";
      let textOfBuffer = "";
      let from = 0;
      for (const to of places) {
        text += decoder.decode(bytes.subarray(from, to));
        textOfBuffer += inBuffer.decode(buffer, from, to);
        from = to;
      }
      const whole = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
      expect(text + decoder.end()).toBe(whole);
      expect(textOfBuffer + inBuffer.end()).toBe(whole);
    }),
    { numRuns: 5_000 },
  );
});
