import fc from "fast-check";
import type { Event, FinishReason } from "../../src/canon/events.ts";
import { asJson } from "../support/as-json.ts";
import { callBlock, reasoningBlock, redactedBlock, text, textBlock, usage } from "./event-blocks.ts";

/** Reasoning says something or proves something: what does neither is left out. */
const saidReasoning = reasoningBlock.filter((block) => block.length > 2);
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
    return callBlock(`call_${id}`, name, JSON.stringify(input), cut);
  });

/** Sound replies of any kind as events, their finish such as the calls in them demand. */
export function eventsOf(): fc.Arbitrary<Event[]> {
  const block = fc.oneof(textBlock, saidReasoning, redactedBlock, opaqueBlock, toolBlock);
  return fc
    .tuple(fc.array(block, { maxLength: 6 }), usage, fc.constantFrom("stop", "length", "content-filter"))
    .map(([blocks, counts, said]) => {
      const body = blocks.flat();
      const called = body.some((event) => event.type === "block-start" && event.block.kind === "tool-call");
      const reason = (said === "stop" && called ? "tool-calls" : said) as FinishReason;
      return [{ type: "start" }, ...body, counts, { type: "finish", finish: { reason } }];
    });
}
