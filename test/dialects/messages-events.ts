import fc from "fast-check";
import type { Event, Finish } from "../../src/canon/events.ts";
import { asJson } from "../support/as-json.ts";
import { callBlock, reasoningBlock, redactedBlock, text, textBlock, usage } from "./event-blocks.ts";

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
    return callBlock(id, name, Object.keys(input).length === 0 ? "" : JSON.stringify(input), cut);
  });

function finishOf(
  events: readonly Event[],
  reason: "stop" | "length" | "content-filter" | "stop-sequence",
  stop: string,
): Finish {
  const called = events.some((event) => event.type === "block-start" && event.block.kind === "tool-call");
  if (called && (reason === "stop" || reason === "stop-sequence")) return { reason: "tool-calls" };
  return reason === "stop-sequence" ? { reason, stopSequence: stop } : { reason };
}

/** Calls under ids that no other has: those of one reply, and of others with another `tag`. */
function withDistinctIds(events: readonly Event[], tag: string): Event[] {
  let calls = 0;
  return events.map((event) => {
    if (event.type !== "block-start" || event.block.kind !== "tool-call") return event;
    return { ...event, block: { ...event.block, id: `${event.block.id}_${tag}${calls++}` } };
  });
}

/** Sound replies of any kind as events, their finish such as the calls in them demand. `tag`: see {@link withDistinctIds}. */
export function eventsOf(tag = ""): fc.Arbitrary<Event[]> {
  const block = fc.oneof(textBlock, reasoningBlock, redactedBlock, opaqueBlock, toolBlock);
  return fc
    .tuple(
      fc.array(block, { maxLength: 6 }),
      usage,
      fc.constantFrom("stop", "length", "content-filter", "stop-sequence" as const),
      text,
    )
    .map(([blocks, counts, reason, stop]) => {
      const body = withDistinctIds(blocks.flat(), tag);
      return [{ type: "start" }, ...body, counts, { type: "finish", finish: finishOf(body, reason, stop) }];
    });
}
