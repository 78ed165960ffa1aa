import { describe, expect, test } from "bun:test";
import { GatewayError } from "../../src/canon/errors.ts";
import type { BlockStart, Event, FinishReason } from "../../src/canon/events.ts";
import { dialects } from "../../src/dialects/index.ts";
import { isObject } from "../../src/lib/json.ts";
import { contextOf, recordsOf, type Wire, write } from "./crossing.ts";

const call = (id: string): BlockStart => ({ kind: "tool-call", id, name: "run" });
const TEXT: BlockStart = { kind: "text" };
const CUSTOM: BlockStart = { kind: "tool-call", id: "c", name: "patch", custom: true };
const SEARCH: BlockStart = { kind: "tool-call", id: "s", name: "tool_search", form: "tool_search" };

type Block = [block: BlockStart, text: string];

const eventsOf = (blocks: readonly Block[], reason: FinishReason): Event[] => [
  { type: "start" },
  ...blocks.flatMap(([block, text]): Event[] => [
    { type: "block-start", block },
    ...(text === "" ? [] : [{ type: "block-delta", text } as const]),
    { type: "block-end" },
  ]),
  { type: "usage", usage: { input: 1, cacheRead: 0, cacheWrite: 0, output: 1, reasoning: 0 } },
  { type: "finish", finish: { reason } },
];

const CHANGES = { customTools: new Set(["patch"]), toolForms: new Map([["tool_search", "tool_search"]]) };

const statusesOf = (items: unknown): unknown[] => (items as Wire[]).map(({ status }) => status);

/** What the items of a reply are said to be: whole, in the records that end them, and in the last record of a stream. */
function statuses(blocks: readonly Block[], reason: FinishReason): unknown[][] {
  const events = eventsOf(blocks, reason);
  const whole = dialects.responses.encodeReply(events, contextOf(CHANGES));
  const records = recordsOf(write("responses", events, CHANGES));
  const done = records.flatMap(({ type, item }) => (type === "response.output_item.done" ? [item] : []));
  const last = records.at(-1)?.["response"];
  return [whole["output"], done, isObject(last) ? last["output"] : []].map(statusesOf);
}

const CASES: [what: string, blocks: Block[], reason: FinishReason, expected: string[]][] = [
  ["text", [[TEXT, "The ans"]], "length", ["incomplete"]],
  ["text that is filtered", [[TEXT, "The ans"]], "content-filter", ["incomplete"]],
  ["a call without all of its arguments", [[call("1"), '{"a":']], "length", ["incomplete"]],
  ["a call without any", [[call("1"), ""]], "length", ["incomplete"]],
  ["a call that is whole", [[call("1"), '{"a":1}']], "length", ["completed"]],
  ["free text of a tool", [[CUSTOM, "*** Begin"]], "length", ["incomplete"]],
  ["a search for tools", [[SEARCH, '{"query":"a']], "length", ["incomplete"]],
  [
    "a reply of two",
    [
      [TEXT, "I run"],
      [call("1"), '{"a":'],
    ],
    "length",
    ["completed", "incomplete"],
  ],
  [
    "a natural end",
    [
      [TEXT, "Done"],
      [call("1"), ""],
    ],
    "tool-calls",
    ["completed", "completed"],
  ],
];

describe("items of a reply that its ceiling or its vendor cut off (responses dialect)", () => {
  test.each(CASES)("%s", (_what, blocks, reason, expected) => {
    expect(statuses(blocks, reason)).toEqual([expected, expected, expected]);
  });

  test("a stream that fails behind an item ends that item first", () => {
    const encoder = dialects.responses.encoder(contextOf());
    const begun = eventsOf([[TEXT, "Hi"]], "stop").slice(0, 4);
    const sent = begun.map((event) => encoder.push(event)).join("");
    const failed = encoder.fail?.(new GatewayError("upstream_overloaded", "x")) ?? "";
    const records = recordsOf(sent + failed);
    const types = records.map(({ type }) => type);
    expect(types.filter((type) => type === "response.output_item.done")).toHaveLength(1);
    expect(types.at(-1)).toBe("response.failed");
    expect(records.find(({ type }) => type === "response.output_item.done")).toMatchObject({
      item: { status: "completed" },
    });
  });
});
