import { describe, expect, test } from "bun:test";
import { setImmediate as turn } from "node:timers/promises";
import { MAX_PLAY_MS } from "../../src/vendors/builtin/script.ts";
import { manualClock, settle } from "../support/clock.ts";
import { within } from "../support/wait.ts";
import { ask, askStream, call, deltasOf, type Loose, readerOf, user } from "./builtin.ts";

const say = (text: string, more: object = {}) => ({ type: "text", text, ...more });
const scripted = (script: unknown) => ({
  model: "script",
  messages: [user(typeof script === "string" ? script : JSON.stringify(script))],
});
const parsed = (records: string[]): Loose[] =>
  records.filter((record) => record !== "[DONE]").map((record) => JSON.parse(record));

/** A script with everything in it. */
const FULL = {
  blocks: [
    { type: "reasoning", text: "let me think" },
    say("Hello world", { chunk: 4 }),
    { type: "tool_call", id: "call_1", name: "first", arguments: { a: [1, "x"] } },
    { type: "tool_call", name: "second", arguments: '{"broken":', chunk: 3 },
  ],
  usage: { input: 10, cache_read: 20, cache_write: 5, output: 7, reasoning: 3 },
};

describe("where the script is found", () => {
  const script = '{"blocks":[{"type":"text","text":"a } b"}]}';
  test.each([
    ["the whole text", script],
    ["a json fence", `Play this: {not this}\n\`\`\`json\n${script}\n\`\`\`\nthanks`],
    ["a bare fence", `\`\`\`\n${script}\n\`\`\``],
    ["somewhere in prose", `please {play} ${script} now {"blocks": 1}`],
  ])("%s", async (_name, text) => {
    expect((await ask(scripted(text))).body.choices[0].message.content).toBe("a } b");
  });

  test("only in the last user message", async () => {
    const messages = [user(script), user('{"blocks":[]}')];
    expect((await ask({ model: "script", messages })).body.choices[0].message.content).toBe("");
  });
});

describe("a wrong script is a 400 that names the fault", () => {
  test.each([
    ["no script", "hello", "no JSON script"],
    ["no blocks", {}, "blocks is required"],
    ["an unknown field", { blocks: [], delay: 5 }, "delay: unexpected property"],
    ["an unknown field of a block", { blocks: [say("a", { size: 5 })] }, "blocks[0]"],
    ["an unknown block", { blocks: [say("a"), { type: "image" }] }, "blocks[1]"],
    ["a call without a name", { blocks: [{ type: "tool_call", arguments: {} }] }, "blocks[0].name is required"],
    ["chunks of nothing", { blocks: [say("a", { chunk: 0 })] }, "blocks[0].chunk"],
    ["a wrong finish", { blocks: [], finish: "end_turn" }, 'finish must be "stop"'],
    ["a status that is no error", { blocks: [], error: { status: 200, message: "x" } }, "error.status"],
    ["too long a pause", { blocks: [], delay_ms: MAX_PLAY_MS + 1 }, "delay_ms"],
    ["a negative pause", { blocks: [], silence_ms: -1 }, "silence_ms"],
    ["pauses too long together", { blocks: [say("a b c")], chunk_delay_ms: MAX_PLAY_MS / 2, delay_ms: 1 }, "600001 ms"],
    ["too many chunks", { blocks: [say("a".repeat(200_001), { chunk: 1 })] }, "200001 chunks"],
  ])("%s", async (_name, script, words) => {
    const { status, body } = await ask(scripted(script));
    expect([status, body.error.type]).toEqual([400, "invalid_request_error"]);
    expect(body.error.message).toContain(words);
  });
});

describe("what is played", () => {
  test("blocks, finish and usage as one reply", async () => {
    const { status, body } = await ask(scripted(FULL));
    expect(status).toBe(200);
    expect(body.choices[0].finish_reason).toBe("tool_calls");
    const { message } = body.choices[0];
    expect([message.reasoning_content, message.content]).toEqual(["let me think", "Hello world"]);
    expect(message.tool_calls[0]).toEqual({
      id: "call_1",
      type: "function",
      function: { name: "first", arguments: '{"a":[1,"x"]}' },
    });
    expect(message.tool_calls[1].function).toEqual({ name: "second", arguments: '{"broken":' });
    expect(body.usage).toEqual({
      prompt_tokens: 35,
      completion_tokens: 7,
      total_tokens: 42,
      prompt_tokens_details: { cached_tokens: 20, cache_write_tokens: 5 },
      completion_tokens_details: { reasoning_tokens: 3 },
    });
  });

  test("the same as a stream, in its chunks", async () => {
    const { records } = await askStream({ ...scripted(FULL), stream_options: { include_usage: true } });
    expect(records.at(-1)).toBe("[DONE]");
    const chunks = parsed(records);
    const deltas = deltasOf(chunks);
    expect(deltas.flatMap((delta) => delta.reasoning_content ?? [])).toEqual(["let", " me", " think"]);
    expect(deltas.flatMap((delta) => delta.content || [])).toEqual(["Hell", "o wo", "rld"]);
    const calls = deltas.flatMap((delta) => delta.tool_calls ?? []);
    const second = calls.filter((entry) => entry.index === 1);
    expect(second.map((entry) => entry.function.arguments)).toEqual(["", '{"b', "rok", 'en"', ":"]);
    expect(calls.map((entry) => entry.index)).toEqual(calls.map((entry) => entry.index).toSorted());
    expect(calls.filter((entry) => entry.id).map((entry) => entry.function.name)).toEqual(["first", "second"]);
    expect(chunks.at(-2).choices[0].finish_reason).toBe("tool_calls");
    expect(chunks.at(-1).usage.total_tokens).toBe(42);
  });

  test.each(["stop", "length", "tool_calls", "content_filter"])("finish %s", async (finish) => {
    const script = { blocks: [say("a b")], finish };
    expect((await ask(scripted(script))).body.choices[0].finish_reason).toBe(finish);
    expect(parsed((await askStream(scripted(script))).records).at(-1).choices[0].finish_reason).toBe(finish);
  });

  test("counts of its own where the script gives none", async () => {
    const { body } = await ask(scripted({ blocks: [{ type: "reasoning", text: "a b" }, say("c d e")] }));
    expect(body.usage).toMatchObject({ completion_tokens: 5, completion_tokens_details: { reasoning_tokens: 2 } });
    expect((await ask(scripted({ blocks: [], finish: "stop" }))).body.usage.completion_tokens).toBe(1);
  });
});

describe("what goes wrong on purpose", () => {
  const error = { status: 429, message: "slow down", code: "rate_limit_exceeded", retry_after: 3 };

  test("an error before the first byte is an HTTP status, streamed or not", async () => {
    for (const stream of [true, false]) {
      const response = await call({ ...scripted({ blocks: [say("a")], error }), stream });
      expect([response.status, response.headers.get("retry-after")]).toEqual([429, "3"]);
      expect(await response.json()).toEqual({
        error: { message: "slow down", type: "rate_limit_error", param: null, code: "rate_limit_exceeded" },
      });
    }
    expect((await ask(scripted({ blocks: [], error: { ...error, after: 1 } }))).status).toBe(429);
  });

  test.each([0, 1, 3, 99])("an error after %d chunks is the last record, without a terminator", async (after) => {
    const { records } = await askStream(scripted({ blocks: [say("a b c d")], error: { ...error, after } }));
    const chunks = parsed(records);
    expect(deltasOf(chunks).flatMap((delta) => delta.content || []).length).toBe(Math.min(after, 4));
    expect(chunks.at(-1).error.message).toBe("slow down");
    expect(records).not.toContain("[DONE]");
    expect(chunks.some((chunk) => chunk.choices?.[0]?.finish_reason)).toBe(false);
  });

  test.each([0, 2, 99])("a cut after %d chunks has neither finish nor terminator", async (cut) => {
    const { records } = await askStream({
      ...scripted({ blocks: [say("a b c d")], cut }),
      stream_options: { include_usage: true },
    });
    const chunks = parsed(records);
    expect(deltasOf(chunks).flatMap((delta) => delta.content || []).length).toBe(Math.min(cut, 4));
    expect(records).not.toContain("[DONE]");
    expect(chunks.some((chunk) => chunk.error || chunk.choices?.[0]?.finish_reason || chunk.usage)).toBe(false);
  });

  test("a cut whole reply is half a JSON document", async () => {
    const response = await call(scripted({ blocks: [say("hello")], cut: 0 }));
    const text = await response.text();
    expect(text).toStartWith('{"id":"chatcmpl-');
    expect(() => JSON.parse(text)).toThrow();
  });
});

describe("time", () => {
  const script = { blocks: [say("a b c")], delay_ms: 1000, chunk_delay_ms: 100, silence_ms: 5000 };
  const contentOf = (record: string | undefined) => JSON.parse(record ?? "{}").choices?.[0]?.delta?.content;

  /** Whether a promise has come to an end, once everything that can run has run. */
  async function isPending(promise: Promise<unknown>): Promise<boolean> {
    let pending = true;
    const note = () => {
      pending = false;
    };
    promise.then(note, note);
    await settle();
    return pending;
  }

  test("every pause runs on the clock: before the first byte, after the first chunk, between chunks", async () => {
    const clock = manualClock();
    const answering = call({ ...scripted(script), stream: true }, { clock });
    await clock.advance(999);
    expect(await isPending(answering)).toBe(true);
    await clock.advance(1);
    const reader = readerOf(await within(answering, "the first byte"));
    expect(contentOf(await reader.next())).toBe("");
    expect(contentOf(await reader.next())).toBe("a");
    const second = reader.next();
    await clock.advance(5099);
    expect(await isPending(second)).toBe(true);
    await clock.advance(1);
    expect(contentOf(await second)).toBe(" b");
    const third = reader.next();
    await clock.advance(99);
    expect(await isPending(third)).toBe(true);
    await clock.advance(1);
    expect(contentOf(await third)).toBe(" c");
    expect(JSON.parse((await reader.next()) ?? "").choices[0].finish_reason).toBe("stop");
    expect(await reader.next()).toBe("[DONE]");
    expect(await reader.next()).toBeUndefined();
    expect(clock.pending).toBe(0);
  });

  test("a whole reply takes the same time", async () => {
    const clock = manualClock();
    const answering = call(scripted(script), { clock });
    await clock.advance(6199);
    expect(await isPending(answering)).toBe(true);
    await clock.advance(1);
    expect((await within(answering, "the reply")).status).toBe(200);
    expect(clock.pending).toBe(0);
  });

  test("an abort ends a waiting call, a waiting read and a stream nobody reads, and takes the timer back", async () => {
    const reason = new Error("the client left");
    const clock = manualClock();
    const early = new AbortController();
    const answering = call({ ...scripted(script), stream: true }, { clock, signal: early.signal });
    await turn();
    expect(clock.pending).toBe(1);
    early.abort(reason);
    await expect(answering).rejects.toBe(reason);
    expect(clock.pending).toBe(0);

    const late = new AbortController();
    const silent = { blocks: [say("a b")], silence_ms: 5000 };
    const reader = readerOf(await call({ ...scripted(silent), stream: true }, { clock, signal: late.signal }));
    await reader.next();
    await reader.next();
    const waiting = reader.next();
    await settle();
    expect(clock.pending).toBe(1);
    late.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    await settle();
    expect(clock.pending).toBe(0);

    const unread = new AbortController();
    const idle = readerOf(await call({ ...scripted(silent), stream: true }, { clock, signal: unread.signal }));
    unread.abort(reason);
    await expect(idle.next()).rejects.toBe(reason);
  });

  test("a reader that gives up takes the timer back", async () => {
    const clock = manualClock();
    const reader = readerOf(
      await call({ ...scripted({ blocks: [say("a b")], silence_ms: 5000 }), stream: true }, { clock }),
    );
    await reader.next();
    await reader.next();
    const waiting = reader.next();
    await settle();
    expect(clock.pending).toBe(1);
    await reader.cancel();
    await waiting;
    await settle();
    expect(clock.pending).toBe(0);
  });

  test("nothing is made ahead of its reader", async () => {
    const clock = manualClock();
    const response = await call(
      { ...scripted({ blocks: [say("a b c")], chunk_delay_ms: 10 }), stream: true },
      { clock },
    );
    await settle();
    // A stream that ran ahead would already be waiting for its second chunk.
    expect(clock.pending).toBe(0);
    const reader = readerOf(response);
    await reader.next();
    await reader.next();
    await settle();
    expect(clock.pending).toBe(0);
    await reader.cancel();
  });
});
