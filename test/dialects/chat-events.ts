import fc from "fast-check";
import type { Event, FinishReason } from "../../src/canon/events.ts";
import { deltas } from "./event-blocks.ts";

const text = fc.string({ minLength: 1, maxLength: 12, unit: "binary" }).map((raw) => raw.toWellFormed());
const textDeltas = fc.array(text, { maxLength: 4 });
const count = fc.integer({ min: 0, max: 100_000 });

/** A JSON object cut into deltas anywhere, or no argument at all. */
const argumentDeltas = fc
  .tuple(
    fc.dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 3 }),
    fc.boolean(),
    fc.nat(5),
  )
  .map(([value, isEmpty, cut]) => {
    const raw = JSON.stringify(value);
    if (isEmpty) return [];
    return [raw.slice(0, cut), raw.slice(cut)].filter((piece) => piece !== "");
  });

const textBlock = textDeltas.map((pieces): Event[] => [
  { type: "block-start", block: { kind: "text" } },
  ...deltas(pieces),
  { type: "block-end" },
]);

const reasoningBlock = fc
  .tuple(textDeltas, fc.boolean())
  .map(([pieces, signed]): Event[] => [
    { type: "block-start", block: { kind: "reasoning" } },
    ...deltas(pieces),
    ...(signed ? [{ type: "block-signature", signature: "c2ln" } as const] : []),
    { type: "block-end" },
  ]);

const callBlock = fc
  .tuple(fc.stringMatching(/^[a-z]{1,6}$/), argumentDeltas)
  .map(([name, pieces]): Event[] => [
    { type: "block-start", block: { kind: "tool-call", id: "", name } },
    ...deltas(pieces),
    { type: "block-end" },
  ]);

const skippedBlock = fc.boolean().map((isOpaque): Event[] => [
  {
    type: "block-start",
    block: isOpaque
      ? { kind: "opaque", dialect: "messages", value: { type: "server_tool_use" } }
      : { kind: "redacted-reasoning", data: "data" },
  },
  { type: "block-end" },
]);

const usage = fc.record({ input: count, cacheRead: count, cacheWrite: count, output: count }).chain((counts) =>
  fc.integer({ min: 0, max: counts.output }).map((reasoning): Event[] => {
    const isNothing = counts.input + counts.cacheRead + counts.cacheWrite + counts.output === 0;
    return [{ type: "usage", usage: { ...counts, input: isNothing ? 1 : counts.input, reasoning } }];
  }),
);

const reasons: FinishReason[] = ["stop", "length", "stop-sequence", "tool-calls", "content-filter"];

/** Finished replies of every make; calls get ids of their own, and usage is always there. */
export const eventList: fc.Arbitrary<Event[]> = fc
  .tuple(
    fc.array(fc.oneof(textBlock, reasoningBlock, callBlock, skippedBlock), { maxLength: 6 }),
    usage,
    fc.constantFrom(...reasons),
  )
  .map(([blocks, counts, reason]) => {
    let calls = 0;
    const body = blocks.flat().map((event): Event => {
      if (event.type !== "block-start" || event.block.kind !== "tool-call") return event;
      return { type: "block-start", block: { ...event.block, id: `call_${calls++}` } };
    });
    return [{ type: "start" }, ...body, ...counts, { type: "finish", finish: { reason } }];
  });
