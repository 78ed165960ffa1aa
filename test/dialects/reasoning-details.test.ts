import { describe, expect, test } from "bun:test";
import { DetailsJoiner } from "../../src/dialects/reasoning/details.ts";

const text = (said: string | null, more: object = {}) => ({ type: "reasoning.text", text: said, ...more });
const sealed = (data: string, more: object = {}) => ({ type: "reasoning.encrypted", data, ...more });

/** The items that come of pieces, each of which stands in a delta of its own. */
function joined(...pieces: unknown[]): readonly unknown[] {
  const joiner = new DetailsJoiner();
  for (const piece of pieces) joiner.add([piece]);
  return joiner.items;
}

describe("details that come in pieces", () => {
  test.each([
    ["a text", [text("Let", { index: 0 }), text(" me", { index: 0 })], [text("Let me", { index: 0 })]],
    [
      "a signature alone, behind the text",
      [text("So", { index: 0, signature: null }), { type: "reasoning.text", signature: "sig", index: 0 }],
      [text("So", { index: 0, signature: "sig" })],
    ],
    [
      "a text behind one that is signed",
      [text("a", { index: 0, signature: "s" }), text("b", { index: 0 })],
      [text("a", { index: 0, signature: "s" }), text("b", { index: 0 })],
    ],
    [
      "summaries in turns, each with its index",
      [0, 1, 0, 1].map((index) => ({ type: "reasoning.summary", summary: `s${index}`, index })),
      [0, 1].map((index) => ({ type: "reasoning.summary", summary: `s${index}s${index}`, index })),
    ],
    [
      "what is encrypted, beside a text of the same index",
      [text("a", { index: 0 }), sealed("x", { index: 0 }), text("b", { index: 0 })],
      [text("ab", { index: 0 }), sealed("x", { index: 0 })],
    ],
    [
      "two that are encrypted, with one index",
      [sealed("x", { index: 0 }), sealed("y", { index: 0 })],
      [sealed("x", { index: 0 }), sealed("y", { index: 0 })],
    ],
    [
      "texts of two ids",
      [text("a", { index: 0, id: "1" }), text("b", { index: 0, id: "2" }), text("c", { index: 0, id: null })],
      [text("a", { index: 0, id: "1" }), text("bc", { index: 0, id: "2" })],
    ],
    ["texts without an index", [text("a"), text("b"), sealed("x"), text("c")], [text("ab"), sealed("x"), text("c")]],
    [
      "a format that is told late",
      [text("a", { index: 0 }), text(null, { index: 0, format: "f" })],
      [text("a", { index: 0, format: "f" })],
    ],
    [
      "a type that nobody knows",
      [
        { type: "new", text: "a" },
        { type: "new", text: "b" },
      ],
      [
        { type: "new", text: "a" },
        { type: "new", text: "b" },
      ],
    ],
    ["junk", [1, "a", null, [], text("a")], [text("a")]],
  ])("%s", (_what, pieces, items) => {
    expect(joined(...pieces)).toEqual(items as unknown[]);
  });

  test("are none at all where they are too many, or too long", () => {
    expect(joined(...Array.from({ length: 513 }, (_, index) => sealed("x", { index })))).toEqual([]);
    expect(joined(sealed("x".repeat(1024 * 1024)), text("a"))).toEqual([]);
    const long = "x".repeat(1_000);
    const pieces = (count: number) => Array.from({ length: count }, () => text(long, { index: 0, format: "f" }));
    expect(joined(...pieces(1_000))).toEqual([text("x".repeat(1_000_000), { index: 0, format: "f" })]);
    expect(joined(...pieces(1_100))).toEqual([]);
  });
});
