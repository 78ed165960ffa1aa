import fc from "fast-check";
import type { Event } from "../../src/canon/events.ts";

export const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 });
export const deltas = (pieces: readonly string[]): Event[] =>
  pieces.map((piece) => ({ type: "block-delta", text: piece }));

export const textBlock = fc
  .array(text, { minLength: 1, maxLength: 4 })
  .map((pieces): Event[] => [
    { type: "block-start", block: { kind: "text" } },
    ...deltas(pieces),
    { type: "block-end" },
  ]);

/** Reasoning with and without text, with and without its proof. */
export const reasoningBlock = fc
  .tuple(fc.array(text, { maxLength: 3 }), fc.option(text))
  .map(([pieces, signature]): Event[] => [
    { type: "block-start", block: { kind: "reasoning" } },
    ...deltas(pieces),
    ...(signature === null ? [] : [{ type: "block-signature", signature } as const]),
    { type: "block-end" },
  ]);

export const redactedBlock = text.map((data): Event[] => [
  { type: "block-start", block: { kind: "redacted-reasoning", data } },
  { type: "block-end" },
]);

/** A call whose arguments come in one piece or two; none at all where `json` is "". */
export function callBlock(id: string, name: string, json: string, cut: number): Event[] {
  const pieces = [json.slice(0, cut), json.slice(cut)].filter((piece) => piece !== "");
  return [{ type: "block-start", block: { kind: "tool-call", id, name } }, ...deltas(pieces), { type: "block-end" }];
}

const count = fc.nat(1_000_000);

/** Counts as the vendor's last word on them. */
export const usage = fc
  .record({
    input: count,
    cacheRead: count,
    cacheWrite: count,
    output: fc.integer({ min: 1, max: 9999 }),
    share: fc.nat(100),
  })
  .map(
    ({ share, ...counts }): Event => ({
      type: "usage",
      usage: { ...counts, reasoning: Math.floor((counts.output * share) / 100) },
    }),
  );
