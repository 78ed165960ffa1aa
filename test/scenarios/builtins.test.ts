import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { manualClock } from "../support/clock.ts";
import { countWork, within } from "../support/wait.ts";
import {
  ask,
  charged,
  expectBroken,
  expectFinished,
  PATH,
  readFailure,
  type ScenarioLab,
  startScenarioLab,
} from "./lab.ts";
import { readAlong } from "./reading.ts";
import { MODES, type Mode, readRecords, SIDES, type Side, saidIn } from "./wires.ts";

setDefaultTimeout(30_000);

let lab: ScenarioLab;
beforeAll(async () => {
  lab = await startScenarioLab();
});
afterAll(() => lab.stop());
afterEach(() => {
  const running = lab.gateway.app.running.count;
  lab.reset();
  expect(running).toBe(0);
});

const WAYS = SIDES.flatMap((side) => MODES.map((mode) => ({ side, mode, name: `${side}, ${mode}` })));

type Block = { type: "text" | "thinking" | "tool_use"; text: string; name?: string };
type Answer = { blocks: Block[]; finish: string; input: number; output: number };

type ChatMessage = {
  content?: string | null;
  reasoning_content?: string;
  tool_calls?: { index?: number; function: { name?: string; arguments?: string } }[];
};

function fromChatMessages(messages: readonly ChatMessage[], finish: string, usage: Record<string, number>): Answer {
  const thinking = messages.map((message) => message.reasoning_content ?? "").join("");
  const text = messages.map((message) => message.content ?? "").join("");
  const calls: Block[] = [];
  for (const { tool_calls: fragments = [] } of messages) {
    for (const [at, { index = at, function: called }] of fragments.entries()) {
      const call: Block = calls[index] ?? { type: "tool_use", text: "" };
      calls[index] = call;
      if (called.name) call.name = called.name;
      call.text += called.arguments ?? "";
    }
  }
  const blocks: Block[] = [];
  if (thinking) blocks.push({ type: "thinking", text: thinking });
  if (text) blocks.push({ type: "text", text });
  return {
    blocks: [...blocks, ...calls],
    finish,
    input: usage["prompt_tokens"] ?? -1,
    output: usage["completion_tokens"] ?? -1,
  };
}

type WireBlock = { type: Block["type"]; text?: string; thinking?: string; name?: string; input?: unknown };

const fromBlock = ({ type, text, thinking, name, input }: WireBlock): Block => ({
  type,
  text: type === "tool_use" ? JSON.stringify(input) : (text ?? thinking ?? ""),
  ...(name && { name }),
});

/** Reads an answer of either dialect, streamed or not, into one form. */
async function readAnswer(side: Side, mode: Mode, response: Response): Promise<Answer> {
  expect(response.status).toBe(200);
  if (mode === "blocking") {
    const body = (await response.json()) as Record<string, unknown>;
    const usage = body["usage"] as Record<string, number>;
    if (side === "chat") {
      const [choice] = body["choices"] as { message: ChatMessage; finish_reason: string }[];
      return fromChatMessages([choice?.message ?? {}], choice?.finish_reason ?? "", usage);
    }
    const blocks = (body["content"] as WireBlock[]).map(fromBlock);
    const { input_tokens: input = -1, output_tokens: output = -1 } = usage;
    return { blocks, finish: String(body["stop_reason"]), input, output };
  }
  const records = readRecords(await response.text());
  expectFinished(side, records);
  if (side === "chat") {
    const choices = records.flatMap(
      ({ value }) => (value?.["choices"] ?? []) as { delta: ChatMessage; finish_reason: string | null }[],
    );
    const usage = (records.at(-2)?.value?.["usage"] ?? {}) as Record<string, number>;
    const finish = choices.find(({ finish_reason }) => finish_reason)?.finish_reason ?? "";
    return fromChatMessages(
      choices.map(({ delta }) => delta),
      finish,
      usage,
    );
  }
  const blocks: Block[] = [];
  for (const { value } of records) {
    if (value?.["type"] === "content_block_start") {
      blocks.push({ ...fromBlock(value["content_block"] as WireBlock), text: "" });
    }
    const delta = value?.["delta"] as { text?: string; thinking?: string; partial_json?: string } | undefined;
    const block = blocks.at(-1);
    if (block) block.text += delta?.text ?? delta?.thinking ?? delta?.partial_json ?? "";
  }
  type Last = { usage: Record<string, number>; delta: { stop_reason: string } };
  const last = records.find(({ event }) => event === "message_delta");
  if (!last) throw new Error("no message_delta");
  const { usage, delta } = last.value as unknown as Last;
  const { input_tokens: input = -1, output_tokens: output = -1 } = usage;
  return { blocks, finish: delta.stop_reason, input, output };
}

const COUNTED = { stream_options: { include_usage: true } };

function say(side: Side, mode: Mode, model: string, text: string, more: Record<string, unknown> = {}) {
  const messages = [{ role: "user", content: text }];
  return lab.gateway.post(PATH[side], ask(side, model, mode, { messages, ...(side === "chat" && COUNTED), ...more }));
}

const echo = async (side: Side, mode: Mode, text: string, more: Record<string, unknown> = {}) =>
  readAnswer(side, mode, await say(side, mode, "sluice/echo", text, more));

const WORDS: Record<Side, Record<"stop" | "length" | "tool", string>> = {
  chat: { stop: "stop", length: "length", tool: "tool_calls" },
  messages: { stop: "end_turn", length: "max_tokens", tool: "tool_use" },
};

describe("echo", () => {
  test.each(WAYS)("says the last user text again and is counted: $name", async ({ side, mode }) => {
    const answer = await echo(side, mode, "Grüße aus 日本 😀");
    expect(answer).toEqual({
      blocks: [{ type: "text", text: "Grüße aus 日本 😀" }],
      finish: WORDS[side].stop,
      input: 4,
      output: 4,
    });
    expect(charged(lab.rows())).toMatchObject([
      { outcome: "completed", input: 4, output: 4, estimated: false, vendor: "sluice", attempts: 1 },
    ]);
  });

  test.each(WAYS)("stops at the ceiling: $name", async ({ side, mode }) => {
    const answer = await echo(side, mode, "one two three four five", { max_tokens: 2 });
    expect(answer).toMatchObject({ blocks: [{ text: "one two" }], finish: WORDS[side].length, output: 2 });
  });

  test.each(WAYS)("stops at a stop sequence: $name", async ({ side, mode }) => {
    const stop = side === "chat" ? { stop: ["three"] } : { stop_sequences: ["three"] };
    const answer = await echo(side, mode, "one two three four", stop);
    expect(answer.blocks).toEqual([{ type: "text", text: "one two " }]);
    expect(answer.finish).toBe(side === "chat" ? "stop" : "stop_sequence");
  });

  test.each(["STOP", "end_turn", "length", "eos"])(
    "a stop sequence that reads as a finish reason: %s",
    async (word) => {
      const answer = await echo("messages", "blocking", `one ${word} two`, { stop_sequences: [word] });
      expect(answer).toMatchObject({ blocks: [{ text: "one " }], finish: "stop_sequence" });
    },
  );

  const levels = ["none", "low", "medium", "high", "max"] as const;
  const thoughts = WAYS.flatMap((way) => levels.map((level) => ({ ...way, level, name: `${way.name}, ${level}` })));
  test.each(thoughts)("thinks as deep as it is asked to: $name", async ({ side, mode, level }) => {
    const wish =
      side === "chat"
        ? { reasoning_effort: level }
        : level === "none"
          ? { thinking: { type: "disabled" } }
          : { thinking: { type: "adaptive" }, output_config: { effort: level } };
    const { blocks } = await echo(side, mode, "Hi", wish);
    if (level === "none") return expect(blocks).toEqual([{ type: "text", text: "Hi" }]);
    const nearest = level === "max" ? "high" : level;
    expect(blocks.map(({ type }) => type)).toEqual(["thinking", "text"]);
    expect(blocks[0]?.text).toContain(`effort ${nearest}.`);
  });

  test.each(WAYS)("calls the tool that is forced: $name", async ({ side, mode }) => {
    const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
    const tools =
      side === "chat"
        ? ["other", "weather"].map((name) => ({ type: "function", function: { name, parameters: schema } }))
        : ["other", "weather"].map((name) => ({ name, input_schema: schema }));
    const named =
      side === "chat" ? { type: "function", function: { name: "weather" } } : { type: "tool", name: "weather" };
    const forced = await echo(side, mode, "Oslo", { tools, tool_choice: named });
    expect(forced.blocks).toMatchObject([{ type: "tool_use", name: "weather" }]);
    expect(Object.keys(JSON.parse(forced.blocks[0]?.text ?? "") as object)).toEqual(["city"]);
    expect(forced.finish).toBe(WORDS[side].tool);
    const any = await echo(side, mode, "Oslo", { tools, tool_choice: side === "chat" ? "required" : { type: "any" } });
    expect(any.blocks).toMatchObject([{ type: "tool_use", name: "other" }]);
    const free = await echo(side, mode, "Oslo", { tools });
    expect(free.blocks).toEqual([{ type: "text", text: "Oslo" }]);
  });
});

describe("what would keep the other callers waiting", () => {
  test("half a million stop sequences are not all looked for", async () => {
    const stop = Array.from({ length: 100_000 }, (_, at) => `no${at}`);
    const work = countWork();
    const answer = await echo("chat", "blocking", "a".repeat(2_000_000), { stop: ["aab", ...stop] });
    // Looking for all of them takes a minute.
    expect(work()).toBeLessThan(3_000);
    expect(answer.blocks[0]?.text.length).toBe(2_000_000);
  });

  test.each(WAYS)("a text of 5 MB is refused: $name", async ({ side, mode }) => {
    const response = await say(side, mode, "sluice/echo", "a ".repeat(2_500_000));
    expect(await readFailure(side, response)).toMatchObject({ status: 400, code: "invalid_request" });
    expect(lab.rows()).toEqual([]);
  });
});

const script = (side: Side, mode: Mode, play: Record<string, unknown>) =>
  say(side, mode, "sluice/script", JSON.stringify(play));

describe("script", () => {
  test.each(WAYS)("plays blocks, finish and usage: $name", async ({ side, mode }) => {
    const play = {
      blocks: [
        { type: "reasoning", text: "hmm" },
        { type: "text", text: "a b" },
        { type: "tool_call", name: "f", arguments: { x: 1 } },
        { type: "tool_call", name: "g", arguments: {} },
      ],
      usage: { input: 100, output: 20, reasoning: 5 },
    };
    expect(await readAnswer(side, mode, await script(side, mode, play))).toEqual({
      blocks: [
        { type: "thinking", text: "hmm" },
        { type: "text", text: "a b" },
        { type: "tool_use", name: "f", text: '{"x":1}' },
        { type: "tool_use", name: "g", text: "{}" },
      ],
      finish: WORDS[side].tool,
      input: 100,
      output: 20,
    });
    expect(charged(lab.rows())).toMatchObject([{ outcome: "completed", input: 100, output: 20, estimated: false }]);
  });

  const TEXT = [{ type: "text", text: "one two three four" }];

  test.each(WAYS)("an error before the first byte is a status, uncharged: $name", async ({ side, mode }) => {
    const error = { status: 429, message: "slow down", retry_after: 7 };
    const told = await readFailure(side, await script(side, mode, { blocks: TEXT, error }));
    expect(told).toMatchObject({ status: 429, code: "rate_limit_exceeded", retry: "true", retryAfter: "7" });
    expect(lab.rows()).toEqual([]);
  });

  test.each(SIDES)("a limit that one request asks for is not the next one's: %s", async (side) => {
    const error = { status: 429, message: "slow down", retry_after: 7 };
    expect((await script(side, "blocking", { blocks: TEXT, error })).status).toBe(429);
    expect((await script(side, "blocking", { blocks: TEXT })).status).toBe(200);
  });

  test.each(SIDES)(
    "nor do failures that were asked for, however many, keep the model from the next one: %s",
    async (side) => {
      const error = { status: 500, message: "broken" };
      for (let i = 0; i < 8; i++) {
        const told = await readFailure(side, await script(side, "blocking", { blocks: TEXT, error }));
        expect(told).toMatchObject({ status: 502, code: "upstream_error" });
      }
      expect((await script(side, "blocking", { blocks: TEXT })).status).toBe(200);
    },
  );

  test.each(SIDES)("an error behind output is the stream's last record, and charged: %s", async (side) => {
    const error = { status: 529, message: "no more", type: "overloaded_error", after: 2 };
    const records = readRecords(await (await script(side, "stream", { blocks: TEXT, error })).text());
    expect(expectBroken(side, records).code).toBe("upstream_overloaded");
    expect(saidIn(side, records)).toBe("one two");
    expect(charged(lab.rows())).toMatchObject([{ outcome: "upstream-failed", output: 2, estimated: true }]);
  });

  test.each(SIDES)("a cut stream is truncated: %s", async (side) => {
    const records = readRecords(await (await script(side, "stream", { blocks: TEXT, cut: 3 })).text());
    expect(expectBroken(side, records).code).toBe("stream_truncated");
    expect(saidIn(side, records)).toBe("one two three");
    expect(charged(lab.rows())).toMatchObject([{ outcome: "upstream-failed", estimated: true }]);
  });

  test.each(SIDES)("a whole answer that is cut is no answer: %s", async (side) => {
    const told = await readFailure(side, await script(side, "blocking", { blocks: TEXT, cut: 3 }));
    expect(told).toMatchObject({ status: 502, code: "upstream_error" });
    expect(lab.rows()).toEqual([]);
  });

  test.each(WAYS)("calls its tools once, and then says what they said: $name", async ({ side, mode }) => {
    const play = JSON.stringify({ blocks: [...TEXT, { type: "tool_call", name: "f", arguments: {} }], cut: 1 });
    const called = {
      chat: [
        { role: "assistant", tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: "{}" } }] },
        { role: "tool", tool_call_id: "c1", content: "all is well" },
      ],
      messages: [
        { role: "assistant", content: [{ type: "tool_use", id: "c1", name: "f", input: {} }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "c1", content: "all is well" }] },
      ],
    }[side];
    const messages = [{ role: "user", content: play }, ...called];
    const body = ask(side, "sluice/script", mode, { messages, ...(side === "chat" && COUNTED) });
    const answer = await readAnswer(side, mode, await lab.gateway.post(PATH[side], body));
    expect(answer).toMatchObject({ blocks: [{ type: "text", text: "all is well" }], finish: WORDS[side].stop });
  });

  test.each(WAYS)("what is no script is the client's fault: $name", async ({ side, mode }) => {
    for (const text of ["hello", "{}", '{"blocks":[{"type":"dance"}]}', '{"blocks":[],"x":1}']) {
      const told = await readFailure(side, await say(side, mode, "sluice/script", text));
      expect(told).toMatchObject({ status: 400, code: "invalid_request", retry: null });
    }
    expect(lab.rows()).toEqual([]);
  });

  test.each(SIDES)("its delays are kept, and the 95 s hold for it too: %s", async (side) => {
    const clock = manualClock();
    const slow = await startScenarioLab(clock);
    try {
      const play = JSON.stringify({ blocks: TEXT, delay_ms: 30_000, silence_ms: 30_000 });
      const body = (mode: Mode) => ask(side, "sluice/script", mode, { messages: [{ role: "user", content: play }] });
      const asked = slow.gateway.post(PATH[side], body("stream"));
      await within(clock.armed(30_000), "the delay");
      await clock.advance(30_000);
      const reading = readAlong(await asked);
      await reading.has("one");
      await clock.advance(29_999);
      expect(reading.text).not.toContain("two");
      await clock.advance(1);
      expectFinished(side, readRecords(await reading.end()));
      const long = JSON.stringify({ blocks: TEXT, delay_ms: 100_000 });
      const cut = slow.gateway.post(PATH[side], { ...body("blocking"), messages: [{ role: "user", content: long }] });
      await within(clock.armed(100_000), "the delay");
      await clock.advance(95_000);
      expect(await readFailure(side, await cut)).toMatchObject({
        status: 504,
        code: "request_timeout",
        retry: "false",
      });
      const outcomes = slow.rows().map(({ outcome }) => outcome);
      expect(outcomes.sort()).toEqual(["completed", "timed-out"]);
    } finally {
      await slow.stop();
    }
  });
});
