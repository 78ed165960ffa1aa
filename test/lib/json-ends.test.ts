import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { stringEnd } from "../../src/lib/json-ends.ts";
import { leastWork } from "../support/wait.ts";

describe("the end of a string literal", () => {
  test("is in bytes where it is in text, however much of it is escaped", () => {
    const piece = fc.constantFrom("\\", '"', '\\"', "\\\\", "a", "some words ", "0123456789abcdef");
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        const text = `"${pieces.join("")}`;
        expect(stringEnd(Buffer.from(text), 0)).toBe(stringEnd(text, 0));
      }),
      { numRuns: 5_000 },
    );
  });

  test("is found as soon in bytes that are all escaped quotes", () => {
    const text = `"${'\\"'.repeat(4_000_000)}`;
    const bytes = Buffer.from(text);
    const timeOf = (where: string | Buffer) => leastWork(() => expect(stringEnd(where, 0)).toBe(-1), 5);
    expect(timeOf(bytes)).toBeLessThan(2 * timeOf(text));
  });
});
