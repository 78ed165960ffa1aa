import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Event } from "../../src/canon/events.ts";
import { ChatDecoder } from "../../src/dialects/chat/decode-stream.ts";
import { FrameSplitter } from "../../src/dialects/frames.ts";
import { call, user } from "./builtin.ts";

/** What a gateway's decoder reads of a streamed answer, its text handed over in pieces of `size` characters. */
async function decode(body: object, size: number): Promise<Event[]> {
  const response = await call({ ...body, stream: true, stream_options: { include_usage: true } });
  const text = await response.text();
  const splitter = new FrameSplitter();
  const decoder = new ChatDecoder({ quirks: {} });
  const events: Event[] = [];
  const push = (frames: ReturnType<FrameSplitter["push"]>) => {
    for (const frame of frames) events.push(...decoder.push(frame));
  };
  for (let at = 0; at < text.length; at += size) push(splitter.push(text.slice(at, at + size)));
  push(splitter.end());
  events.push(...decoder.end());
  return events;
}

const scripted = (script: object) => ({ model: "script", messages: [user(JSON.stringify(script))] });
const joined = (events: Event[]) => events.map((event) => (event.type === "block-delta" ? event.text : "")).join("");
const BLOCKS = [
  { type: "reasoning", text: "hm" },
  { type: "text", text: "a b" },
  { type: "tool_call", id: "call_1", name: "find", arguments: { q: "é" } },
];

describe("the chat decoder reads the built-in models", () => {
  test("a script's blocks, usage and finish, whatever the chunk borders", async () => {
    const usage = { input: 10, cache_read: 20, cache_write: 5, output: 7, reasoning: 3 };
    for (const size of [1, 7, 100_000]) {
      const events = await decode(scripted({ blocks: BLOCKS, usage }), size);
      expect(events.flatMap((event) => (event.type === "block-start" ? [event.block] : []))).toEqual([
        { kind: "reasoning" },
        { kind: "text" },
        { kind: "tool-call", id: "call_1", name: "find" },
      ]);
      expect(joined(events)).toBe('hma b{"q":"é"}');
      expect(events.findLast((event) => event.type === "usage")?.usage).toEqual({
        input: 10,
        cacheRead: 20,
        cacheWrite: 5,
        output: 7,
        reasoning: 3,
      });
      expect(events.at(-1)).toMatchObject({ type: "finish", finish: { reason: "tool-calls" } });
    }
  });

  test("an echo's stop sequence comes with its evidence, a ceiling as length", async () => {
    const request = { model: "echo", messages: [user("one two three")] };
    expect((await decode({ ...request, stop: "three" }, 50)).at(-1)).toMatchObject({
      finish: { reason: "stop-sequence", stopSequence: "three" },
    });
    expect((await decode({ ...request, max_tokens: 1 }, 50)).at(-1)).toMatchObject({ finish: { reason: "length" } });
    expect((await decode(request, 50)).at(-1)).toMatchObject({ finish: { reason: "stop" } });
  });

  test("a cut and an error at any chunk end in an error event and never in a finish", async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(8), fc.boolean(), fc.integer({ min: 1, max: 400 }), async (after, cut, size) => {
        const fault = cut ? { cut: after } : { error: { status: 529, message: "overloaded", after } };
        const events = await decode(scripted({ blocks: BLOCKS, ...fault }), size);
        expect(events.at(-1)?.type).toBe("error");
        expect(events.some((event) => event.type === "finish")).toBe(false);
        expect('hma b{"q":"é"}').toStartWith(joined(events));
      }),
      { numRuns: 40 },
    );
  });
});
