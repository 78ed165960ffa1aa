import fc from "fast-check";
import type { Event, FinishReason } from "../../src/canon/events.ts";
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
/** Reasoning says something or proves something: what does neither is left out. */
const reasoningBlock = fc
  .tuple(fc.array(text, { maxLength: 3 }), fc.option(text))
  .filter(([pieces, signature]) => pieces.length > 0 || signature !== null)
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
const opaqueBlock = fc
  .tuple(fc.uuid(), fc.dictionary(fc.stringMatching(/^[a-z]{1,6}$/), fc.jsonValue({ maxDepth: 1 })))
  .map(([id, fields]): Event[] => [
    {
      type: "block-start",
      block: { kind: "opaque", dialect: "responses", value: asJson({ ...fields, id, type: "something_new" }) },
    },
    { type: "block-end" },
  ]);
const toolBlock = fc
  .tuple(fc.uuid(), fc.stringMatching(/^[a-z]{1,8}$/), fc.dictionary(text, text), fc.nat(9))
  .map(([id, name, input, cut]): Event[] => {
    const json = JSON.stringify(input);
    const pieces = [json.slice(0, cut), json.slice(cut)].filter((piece) => piece !== "");
    return [
      { type: "block-start", block: { kind: "tool-call", id: `call_${id}`, name } },
      ...deltas(pieces),
      { type: "block-end" },
    ];
  });

const usage = fc
  .record({
    input: fc.nat(1_000_000),
    cacheRead: fc.nat(1_000_000),
    cacheWrite: fc.nat(1_000_000),
    output: fc.integer({ min: 1, max: 9999 }),
    share: fc.nat(100),
  })
  .map(
    ({ share, ...counts }): Event => ({
      type: "usage",
      usage: { ...counts, reasoning: Math.floor((counts.output * share) / 100) },
    }),
  );

/** Sound replies of any kind as events, their finish such as the calls in them demand. */
export function eventsOf(): fc.Arbitrary<Event[]> {
  const block = fc.oneof(textBlock, reasoningBlock, redactedBlock, opaqueBlock, toolBlock);
  return fc
    .tuple(fc.array(block, { maxLength: 6 }), usage, fc.constantFrom("stop", "length", "content-filter"))
    .map(([blocks, counts, said]) => {
      const body = blocks.flat();
      const called = body.some((event) => event.type === "block-start" && event.block.kind === "tool-call");
      const reason = (said === "stop" && called ? "tool-calls" : said) as FinishReason;
      return [{ type: "start" }, ...body, counts, { type: "finish", finish: { reason } }];
    });
}
