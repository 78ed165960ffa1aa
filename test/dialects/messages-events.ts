import fc from "fast-check";
import type { Event, Finish } from "../../src/canon/events.ts";
import { asJson } from "../support/as-json.ts";

const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 });
const deltas = (pieces: readonly string[]): Event[] => pieces.map((piece) => ({ type: "block-delta", text: piece }));

const textBlock = fc
  .array(text, { minLength: 1, maxLength: 4 })
  .map((pieces): Event[] => [
    { type: "block-start", block: { kind: "text" } },
    ...deltas(pieces),
    { type: "block-end" },
  ]);
const reasoningBlock = fc
  .tuple(fc.array(text, { maxLength: 3 }), fc.option(text))
  .map(([pieces, signature]): Event[] => [
    { type: "block-start", block: { kind: "reasoning" } },
    ...deltas(pieces),
    ...(signature === null ? [] : [{ type: "block-signature", signature } as const]),
    { type: "block-end" },
  ]);
const redactedBlock = text.map((data): Event[] => [
  { type: "block-start", block: { kind: "redacted-reasoning", data } },
  { type: "block-end" },
]);
const opaqueBlock = fc.dictionary(text, fc.jsonValue({ maxDepth: 1 })).map((fields): Event[] => [
  {
    type: "block-start",
    block: { kind: "opaque", dialect: "messages", value: asJson({ ...fields, type: "something_new" }) },
  },
  { type: "block-end" },
]);
const toolBlock = fc
  .tuple(
    fc.stringMatching(/^toolu_[a-z0-9]{1,8}$/),
    fc.stringMatching(/^[a-z]{1,8}$/),
    fc.dictionary(text, text),
    fc.nat(9),
  )
  .map(([id, name, input, cut]): Event[] => {
    const json = Object.keys(input).length === 0 ? "" : JSON.stringify(input);
    const pieces = [json.slice(0, cut), json.slice(cut)].filter((piece) => piece !== "");
    return [{ type: "block-start", block: { kind: "tool-call", id, name } }, ...deltas(pieces), { type: "block-end" }];
  });

const count = fc.nat(1_000_000);
const usage = fc
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

function finishOf(
  events: readonly Event[],
  reason: "stop" | "length" | "content-filter" | "stop-sequence",
  stop: string,
): Finish {
  const called = events.some((event) => event.type === "block-start" && event.block.kind === "tool-call");
  if (called && (reason === "stop" || reason === "stop-sequence")) return { reason: "tool-calls" };
  return reason === "stop-sequence" ? { reason, stopSequence: stop } : { reason };
}

/** Sound replies of any kind as events, their finish such as the calls in them demand. */
export function eventsOf(): fc.Arbitrary<Event[]> {
  const block = fc.oneof(textBlock, reasoningBlock, redactedBlock, opaqueBlock, toolBlock);
  return fc
    .tuple(
      fc.array(block, { maxLength: 6 }),
      usage,
      fc.constantFrom("stop", "length", "content-filter", "stop-sequence" as const),
      text,
    )
    .map(([blocks, counts, reason, stop]) => {
      const body = blocks.flat();
      return [{ type: "start" }, ...body, counts, { type: "finish", finish: finishOf(body, reason, stop) }];
    });
}
