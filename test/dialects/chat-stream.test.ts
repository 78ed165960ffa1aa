import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import fc from "fast-check";
import OpenAI from "openai";
import type { Event } from "../../src/canon/events.ts";
import { chat } from "../../src/dialects/chat/index.ts";
import { relabelReply } from "../../src/dialects/chat/reply.ts";
import { mayBePreopened, ThinkSplitter } from "../../src/dialects/chat/think-tags.ts";
import type { Quirks } from "../../src/dialects/dialect.ts";
import { JsonText } from "../../src/lib/json-text.ts";
import { eventList } from "./chat-events.ts";
import { CONTEXT, decodeText, encodeText, framesOf, outcomeOf, recordsOf, relabelText, summarize } from "./chat-run.ts";
import { grammarFault } from "./diagonal.ts";

const FOLDER = new URL("../fixtures/chat/", import.meta.url);
const DONE = "data: [DONE]\n\n";

type Wire = Record<string, unknown>;

/** A chunk with this choice, as the stream has it. */
const dataOf = (choice: Wire) => `data: ${JSON.stringify({ id: "c1", created: 1, model: "m", choices: [choice] })}\n\n`;
/** The text of a reply's blocks. */
function textOf(events: readonly Event[]): string {
  let isText = false;
  let text = "";
  for (const event of events) {
    if (event.type === "block-start") isText = event.block.kind === "text";
    if (event.type === "block-delta" && isText) text += event.text;
  }
  return text;
}
type Called = { index: number; function: { arguments: string } };

const read = (name: string, file: string) => readFileSync(new URL(`${name}/${file}`, FOLDER), "utf8");
const cases = readdirSync(FOLDER).map((name) => ({
  name,
  text: read(name, "upstream.sse"),
  expected: JSON.parse(read(name, "events.json")) as string[],
  quirks: (existsSync(new URL(`${name}/quirks.json`, FOLDER)) ? JSON.parse(read(name, "quirks.json")) : {}) as Quirks,
}));
const finished = cases.filter((one) => one.expected.at(-1)?.startsWith("finish"));

/** The official SDK's own reading of SSE text: its accumulated completion. Throws what the SDK throws. */
async function readWithSdk(text: string) {
  const client = new OpenAI({
    apiKey: "any",
    baseURL: "http://upstream.invalid/v1",
    maxRetries: 0,
    fetch: async () => new Response(text, { headers: { "content-type": "text/event-stream" } }),
  });
  const stream = client.chat.completions.stream({ model: "any", messages: [] });
  return stream.finalChatCompletion();
}

describe("an upstream's stream", () => {
  test.each(cases)("$name means what it should", ({ text, expected, quirks }) => {
    const events = decodeText(text, quirks);
    expect(summarize(events)).toEqual(expected);
    expect(grammarFault(events)).toBeUndefined();
  });

  test.each(cases)("$name means the same however it is cut", ({ text, expected, quirks }) => {
    const place = fc.integer({ min: 0, max: text.length });
    fc.assert(
      fc.property(fc.array(place, { maxLength: 12 }), (cuts) => {
        expect(summarize(decodeText(text, quirks, cuts))).toEqual(expected);
      }),
      { numRuns: 25 },
    );
  });

  test.each(cases)("$name cut off anywhere is an error, unless its finish was seen", ({ text, quirks }) => {
    const frames = framesOf(text);
    for (let length = 0; length < frames.length; length++) {
      const decoder = chat.decoder({ quirks });
      const events = frames.slice(0, length).flatMap((frame) => decoder.push(frame));
      const wasDone = decoder.done;
      const isWhole = decoder.finishing || (wasDone && events.at(-1)?.type === "finish");
      events.push(...decoder.end());
      expect(events.at(-1)?.type).toBe(isWhole ? "finish" : "error");
      expect(grammarFault(events)).toBeUndefined();
      expect(decoder.end()).toEqual([]);
      expect(decoder.done).toBe(true);
    }
  });

  test("nothing is read behind the terminator", () => {
    const decoder = chat.decoder({ quirks: {} });
    const [frame] = framesOf('data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n');
    expect(decoder.push(frame!).length).toBeGreaterThan(0);
    expect(decoder.push(framesOf(DONE)[0]!).at(-1)).toEqual({ type: "finish", finish: { reason: "stop" } });
    expect(decoder.push(frame!)).toEqual([]);
    expect(decoder.end()).toEqual([]);
  });

  test("a terminator without any chunk is no reply", () => {
    expect(summarize(decodeText(DONE))).toEqual(["error stream_truncated"]);
    expect(summarize(decodeText(""))).toEqual(["error stream_truncated"]);
  });

  test("an error inside a choice ends the reply", () => {
    const error = { message: "overloaded", code: 503 };
    const text = dataOf({ index: 0, delta: { content: "a" } }) + dataOf({ index: 0, error });
    expect(summarize(decodeText(text))).toEqual(["start", 'text "a"', "error upstream_overloaded"]);
  });

  test.each([
    [['{"a"', ":1}"], ['{"a":1}']],
    [
      ['{"a":1}', '{"a":2}'],
      ['{"a":1}', '{"a":2}'],
    ],
  ])(
    "pieces of calls without id and place, each with its name, are one call until its arguments are whole: %j",
    (pieces, calls) => {
      const texts = pieces.map((piece) =>
        dataOf({ index: 0, delta: { tool_calls: [{ function: { name: "f", arguments: piece } }] } }),
      );
      const end = dataOf({ index: 0, delta: {}, finish_reason: "tool_calls" });
      const events = decodeText([...texts, end, DONE].join(""));
      const told = events.flatMap((event) => (event.type === "block-delta" ? [event.text] : []));
      expect(events.filter(({ type }) => type === "block-start")).toHaveLength(calls.length);
      expect(told.join("")).toBe(calls.join(""));
    },
  );

  test("a finish is known before the terminator, and only when every choice has one", () => {
    const two = cases.find((one) => one.name === "two-choices")!;
    const decoder = chat.decoder({ quirks: {} });
    const seen = framesOf(two.text).map((frame) => {
      decoder.push(frame);
      return decoder.finishing;
    });
    expect(seen).toEqual([false, false, false, false, false, false, true, true, true]);
  });

  test("an open call streams on while nothing waits behind it", () => {
    const decoder = chat.decoder({ quirks: {} });
    const chunk = (call: string) =>
      framesOf(`data: {"id":"a","choices":[{"index":0,"delta":{"tool_calls":[${call}]}}]}\n\n`)[0]!;
    expect(summarize(decoder.push(chunk('{"index":0,"id":"x","function":{"name":"f","arguments":""}}')))).toEqual([
      "start",
    ]);
    expect(decoder.push(chunk('{"index":0,"function":{"arguments":"{\\"a"}}'))).toEqual([
      { type: "block-start", block: { kind: "tool-call", id: "x", name: "f" } },
      { type: "block-delta", text: '{"a' },
    ]);
    expect(decoder.push(chunk('{"index":0,"function":{"arguments":"\\":1}"}}'))).toEqual([
      { type: "block-delta", text: '":1}' },
    ]);
  });
});

describe("a record that is torn off", () => {
  const chunk = (choices: unknown[], fields: Record<string, unknown> = {}) =>
    `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model: "up", choices, ...fields })}\n\n`;
  const begun = chunk([{ index: 0, delta: { role: "assistant", content: "Hi" }, finish_reason: null }]);
  const finished = chunk([{ index: 0, delta: {}, finish_reason: "stop" }]);
  const usage = chunk([], { usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } });
  const torn = ["data: [DO", usage.slice(0, 40), `${usage.slice(0, 40)}\n\n`];

  test.each(torn)("behind the finish reason takes nothing from a whole reply: %j", (rest) => {
    const text = begun + finished + rest;
    expect(decodeText(text).at(-1)).toEqual({ type: "finish", finish: { reason: "stop", raw: "stop" } });
    const relabelled = relabelText(text);
    expect(relabelled).toEndWith("data: [DONE]\n\n");
    expect(recordsOf(relabelled).map((record) => Object.keys(record)[0])).toEqual(["id", "id", "id"]);
  });

  test.each(torn)("before it breaks the reply: %j", (rest) => {
    expect(decodeText(begun + rest).at(-1)?.type).toBe("error");
    expect(relabelText(begun + rest)).not.toContain("[DONE]");
  });
});

describe("a relabelled stream", () => {
  test("a message where a delta should be goes out as a delta", () => {
    const message = { role: "assistant", content: "Hi" };
    const [first] = recordsOf(relabelText(dataOf({ index: 0, message, finish_reason: "stop" }) + DONE));
    expect(first).toMatchObject({ choices: [{ index: 0, delta: message }] });
    expect(JSON.stringify(first)).not.toContain('message":');
  });

  test.each(finished)("$name is accepted by the official SDK, with role, finish, model and usage", async (one) => {
    const completion = await readWithSdk(relabelText(one.text, one.quirks));
    expect(completion.model).toBe(CONTEXT.model);
    expect(completion.choices[0]!.message.role).toBe("assistant");
    expect(completion.choices[0]!.finish_reason).toBeTruthy();
    expect(completion.usage?.total_tokens).toBeGreaterThanOrEqual(0);
    const calls = completion.choices[0]!.message.tool_calls ?? [];
    expect(calls.length).toBe(
      one.name === "legacy-function-call" ? 0 : one.expected.filter((line) => line.startsWith("tool-call")).length,
    );
    for (const call of calls) expect(call.id).not.toBe("");
  });

  test.each(finished)("$name keeps its meaning", ({ text, quirks }) => {
    // No arguments and an empty object of them mean the same.
    const meaning = (from: string) =>
      outcomeOf(decodeText(from, quirks))
        .filter((line) => !line.startsWith("usage 0 "))
        .map((line) => line.replace(/^(tool-call .*) ""$/, '$1 "{}"'));
    // Whether a reply may begin with reasoning that no tag opens hangs on the model's name: it is read under one for which it may.
    const told = relabelText(text, quirks, { ...CONTEXT, model: "lab/tiny-r1" });
    expect(meaning(told)).toEqual(meaning(text));
  });

  test("arguments that never came are an empty object, also of the second call and where the finish is missing", () => {
    const chunk = (delta: object, finish_reason: string | null = null) =>
      `data: ${JSON.stringify({ id: "c1", model: "up", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
    const call = (index: number, args: string) => ({
      tool_calls: [{ index, id: `call_${index}`, type: "function", function: { name: `f${index}`, arguments: args } }],
    });
    const begun = chunk({ role: "assistant", ...call(0, '{"a":1}') }) + chunk(call(1, ""));
    for (const end of [chunk({}, "tool_calls") + DONE, DONE]) {
      const argumentsOf = new Map<number, string>();
      for (const record of recordsOf(relabelText(begun + end))) {
        const [choice] = record["choices"] as { delta: { tool_calls?: Called[] } }[];
        for (const { index, function: called } of choice?.delta.tool_calls ?? []) {
          argumentsOf.set(index, (argumentsOf.get(index) ?? "") + called.arguments);
        }
      }
      expect([...argumentsOf.values()]).toEqual(['{"a":1}', "{}"]);
    }
  });

  test("reasoning that a vendor counts beside its output is shown inside it, as its totals say", () => {
    const counts = {
      prompt_tokens: 10,
      completion_tokens: 20,
      completion_tokens_details: { reasoning_tokens: 5 },
      extra: 1,
    };
    const cases = [
      [
        { ...counts, total_tokens: 35 },
        { ...counts, completion_tokens: 25, total_tokens: 35 },
      ],
      [
        { ...counts, total_tokens: 30 },
        { ...counts, total_tokens: 30 },
      ],
    ];
    for (const [usage, shown] of cases) {
      const message = { role: "assistant", content: "x" };
      const whole = { id: "1", choices: [{ index: 0, message, finish_reason: "stop" }], usage };
      expect(JSON.parse(relabelReply(new JsonText(JSON.stringify(whole)), CONTEXT))["usage"]).toEqual(shown);
      const end = { id: "c1", model: "up", choices: [{ index: 0, delta: message, finish_reason: "stop" }] };
      const own = { id: "c1", model: "up", choices: [], usage };
      for (const records of [[end, own], [{ ...end, usage }]]) {
        const text = records.map((record) => `data: ${JSON.stringify(record)}\n\n`).join("") + DONE;
        expect(recordsOf(relabelText(text)).at(-1)?.["usage"]).toEqual(shown);
      }
    }
  });

  const counts = { prompt_tokens: 11, completion_tokens: 5, total_tokens: 16 };
  test.each([
    ["without their sum", { prompt_tokens: 11, completion_tokens: 5 }, counts],
    [
      "without what was made",
      { prompt_tokens: 11, total_tokens: 11 },
      { prompt_tokens: 11, completion_tokens: 0, total_tokens: 11 },
    ],
    ["under the newer dialect's names", { input_tokens: 11, output_tokens: 5, total_tokens: 16 }, counts],
    ["whole", { ...counts, extra: 1 }, { ...counts, extra: 1 }],
  ])("counts that came %s are all three there", (_how, usage, shown) => {
    const message = { role: "assistant", content: "x" };
    const choices = [{ index: 0, message, finish_reason: "stop" }];
    expect(
      JSON.parse(relabelReply(new JsonText(JSON.stringify({ id: "1", choices, usage })), CONTEXT))["usage"],
    ).toMatchObject(shown);
    const chunk = { id: "c1", model: "up", choices: [{ index: 0, delta: message, finish_reason: "stop" }], usage };
    const records = recordsOf(relabelText(`data: ${JSON.stringify(chunk)}\n\n${DONE}`));
    expect(records.map((record) => record["usage"])).toEqual([null, expect.objectContaining(shown)]);
  });

  // vLLM with continuous_usage_stats counts in every record, and says only in its last one what came from its cache.
  test.each([
    ["a record without choices", []],
    ["a record whose choice says nothing more", [{ index: 0, delta: { content: "" }, finish_reason: null }]],
  ])("where every record counts, what was counted last is shown: behind the end, in %s", (_where, choices) => {
    const last = { ...counts, prompt_tokens_details: { cached_tokens: 7 } };
    const end = { index: 0, delta: { role: "assistant", content: "x" }, finish_reason: "stop" };
    const chunk = (said: readonly object[], usage: object) =>
      `data: ${JSON.stringify({ id: "c1", model: "up", choices: said, usage })}\n\n`;
    const records = recordsOf(
      relabelText(chunk([end], { ...counts, completion_tokens: 4, total_tokens: 15 }) + chunk(choices, last) + DONE),
    );
    expect(records.filter((record) => record["usage"]).map((record) => record["usage"])).toEqual([last]);
  });

  test.each([{}, { total_tokens: 0, total_characters: 0 }, { prompt_tokens_details: { cached_tokens: 0 } }])(
    "usage that tells nothing yet, %j, is none",
    (none) => {
      const chunk = (choices: readonly object[], usage: object) =>
        `data: ${JSON.stringify({ id: "c1", model: "up", choices, usage })}\n\n`;
      const said = (finish_reason: string | null) => [
        { index: 0, delta: { role: "assistant", content: "x" }, finish_reason },
      ];
      const text = chunk(said(null), none) + chunk([], none) + chunk(said("stop"), none) + chunk([], counts) + DONE;
      const records = recordsOf(relabelText(text));
      expect(records.map((record) => record["usage"])).toEqual([null, null, counts]);
      const quiet = recordsOf(relabelText(text, undefined, { ...CONTEXT, wantsUsage: false }));
      expect(quiet.map((record) => [(record["choices"] as unknown[]).length, "usage" in record])).toEqual([
        [1, false],
        [1, false],
      ]);
    },
  );

  test.each([
    ["with parts of a second", 1_700_000_000.75],
    ["in milliseconds", 1_700_000_000_750],
  ])("a time %s is told in whole seconds, on every chunk and of a whole reply", (_, created) => {
    const head = { id: "c1", object: "chat.completion.chunk", created, model: "up" };
    const said = ["a", "b", "c", "d"].map((content) => ({ ...head, choices: [{ index: 0, delta: { content } }] }));
    const end = { ...head, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] };
    const text = [...said, end].map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("") + DONE;
    expect(new Set(recordsOf(relabelText(text)).map(({ created }) => created))).toEqual(new Set([1_700_000_000]));
    const whole = {
      ...head,
      choices: [{ index: 0, message: { role: "assistant", content: "x" }, finish_reason: "stop" }],
    };
    expect(JSON.parse(relabelReply(new JsonText(JSON.stringify(whole)), CONTEXT))["created"]).toBe(1_700_000_000);
  });

  test.each([
    ["with the word for the end", [], "stop"],
    ["behind that", [{ delta: {}, finish_reason: "stop" }], "stop"],
    ["without one", [], null],
  ])("a whole message behind its pieces is told once, %s", async (_where, between, finish) => {
    const message = { role: "assistant", content: "Hello there", reasoning_content: "Hm." };
    const said = [{ role: "assistant", reasoning_content: "Hm." }, { content: "Hello" }, { content: " there" }];
    const text =
      said.map((delta) => dataOf({ index: 0, delta, finish_reason: null })).join("") +
      between.map((choice) => dataOf({ index: 0, ...choice })).join("") +
      dataOf({ index: 0, message, finish_reason: finish }) +
      (finish === null ? dataOf({ index: 0, delta: {}, finish_reason: "stop" }) : "") +
      DONE;
    expect(textOf(decodeText(text))).toBe("Hello there");
    expect((await readWithSdk(relabelText(text))).choices[0]?.message.content).toBe("Hello there");
    // The only one is told, also behind the role.
    const alone =
      dataOf({ index: 0, delta: { role: "assistant", content: "" } }) +
      dataOf({ index: 0, message, finish_reason: "stop" }) +
      DONE;
    expect(textOf(decodeText(alone))).toBe("Hello there");
    expect((await readWithSdk(relabelText(alone))).choices[0]?.message.content).toBe("Hello there");
  });

  test("a call and a recording of nothing, which servers of OpenAI's type for Go write with every chunk, are left out; a call in the older form stays", async () => {
    const empty = {
      function_call: { arguments: "", name: "" },
      audio: { id: "", data: "", expires_at: 0, transcript: "" },
    };
    const said = [{ ...empty, role: "assistant", content: "Fo" }, { ...empty, content: "ur" }, empty];
    const text = said.map((delta, at) => dataOf({ index: 0, delta, finish_reason: at === 2 ? "stop" : null })).join("");
    expect(relabelText(text + DONE)).not.toMatch(/function_call|"audio":/);
    const { message } = (await readWithSdk(relabelText(text + DONE))).choices[0]!;
    expect(message).toMatchObject({ content: "Four" });
    expect(message).not.toHaveProperty("function_call");
    const call = (more: Wire) => dataOf({ index: 0, delta: { function_call: more }, finish_reason: null });
    const called = call({ name: "f", arguments: "" }) + call({ arguments: "{}" });
    const end = dataOf({ index: 0, delta: {}, finish_reason: "function_call" });
    const kept = recordsOf(relabelText(called + end + DONE)).map(({ choices }) => (choices as Wire[])[0]);
    expect(kept.slice(0, 3)).toMatchObject([
      { delta: { function_call: { name: "f", arguments: "" } } },
      { delta: { function_call: { arguments: "{}" } } },
      { finish_reason: "function_call" },
    ]);
  });

  test.each(["", "assistant"])("a role of %j behind the first chunk is left out", (role) => {
    const chunk = (delta: object, finish_reason: string | null = null) =>
      `data: ${JSON.stringify({ id: "c1", model: "up", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
    const pieces = ["a", "b", "c"].map((content) => chunk({ role, content }));
    const records = recordsOf(relabelText(pieces.join("") + chunk({ role, content: "" }, "stop") + DONE));
    const deltas = records.flatMap((record) => (record["choices"] as { delta: object }[]).map(({ delta }) => delta));
    expect(deltas).toEqual([{ role: "assistant", content: "a" }, { content: "b" }, { content: "c" }, { content: "" }]);
  });

  test("calls that are none beside what is said are left out", () => {
    const chunk = (delta: object, finish_reason: string | null = null) =>
      `data: ${JSON.stringify({ id: "c1", model: "up", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
    const pieces = [{ reasoning_content: "a" }, { content: "b" }].map((said) => chunk({ ...said, tool_calls: [] }));
    const records = recordsOf(relabelText(pieces.join("") + chunk({ tool_calls: [] }, "stop") + DONE));
    const deltas = records.flatMap((record) => (record["choices"] as { delta: object }[]).map(({ delta }) => delta));
    expect(deltas).toEqual([{ role: "assistant", reasoning_content: "a" }, { content: "b" }, {}]);
  });

  test.each([
    ["model_length", "length"],
    ["sensitive", "content_filter"],
    ["eos", "stop"],
    ["STOP", "stop"],
    ["length", "length"],
  ])("a vendor's own word for the end, %s, is told as %s", (word, told) => {
    const chunk = {
      id: "c1",
      model: "up",
      choices: [{ index: 0, delta: { role: "assistant", content: "x" }, finish_reason: word }],
    };
    expect(relabelText(`data: ${JSON.stringify(chunk)}\n\n${DONE}`)).toContain(`"finish_reason":"${told}"`);
    const message = { role: "assistant", content: "x" };
    const body = new JsonText(JSON.stringify({ id: "1", choices: [{ index: 0, message, finish_reason: word }] }));
    expect(relabelReply(body, CONTEXT)).toContain(`"finish_reason":"${told}"`);
  });

  test.each(finished)("$name has one finish a choice, one terminator and its usage last", ({ text, quirks }) => {
    const out = relabelText(text, quirks);
    expect(out.endsWith(DONE)).toBe(true);
    expect(out.split("[DONE]").length).toBe(2);
    const records = recordsOf(out);
    const choices = records.flatMap((record) => record["choices"] as { index: number; finish_reason?: string }[]);
    const ends = choices.filter((choice) => choice.finish_reason).map((choice) => choice.index);
    expect(ends.length).toBe(new Set(ends).size);
    expect(ends).toContain(0);
    expect(records.filter((record) => record["usage"])).toEqual([records.at(-1)!]);
    expect(records.at(-1)!["choices"]).toEqual([]);
    expect(new Set(records.map((record) => record["id"]).filter((id) => id !== "")).size).toBe(1);
  });

  test.each(cases.filter((one) => !finished.includes(one)))("$name never looks whole", ({ text, quirks }) => {
    const out = relabelText(text, quirks);
    expect(out).not.toContain("[DONE]");
    expect(decodeText(out, quirks).at(-1)?.type).toBe("error");
  });

  test.each(finished)("$name shows no usage to who did not ask for it, beside choices neither", ({ text, quirks }) => {
    const records = recordsOf(relabelText(text, quirks, { ...CONTEXT, wantsUsage: false }));
    expect(records.filter((record) => record["usage"])).toEqual([]);
    expect(records.flatMap((record) => record["choices"])).not.toEqual([]);
  });

  test("usage that was not asked for is held back", () => {
    const text = read("text", "upstream.sse");
    const out = relabelText(text, {}, { ...CONTEXT, wantsUsage: false });
    expect(out).not.toContain("usage");
    expect(out).toBe(text.replaceAll("tiny-1", "lab/tiny").replace(/data: \{[^\n]*"usage"[^\n]*\n\n/, ""));
  });

  test("sound frames keep every byte but the model", () => {
    const frames = [
      '{"id":"c1","object":"chat.completion.chunk","created":1,"model":"tiny-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"obfuscation":"xY"}',
      '{ "id": "c1", "object": "chat.completion.chunk", "created": 1, "big": 12345678901234567890, "model": "tiny-1", "choices":[{"index":0,"delta":{"content":"\\u00e9 \\"model\\":\\"tiny-1\\""}}] }',
      '{"choices":[{"index":0,"delta":{"content":"a"},"meta":{"model":"tiny-1"}}],"id":"c1","object":"chat.completion.chunk","created":1,"model":"tiny-1","x":1.0}',
      '{"id":"c1","object":"chat.completion.chunk","created":1,"model":"tiny-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"f","arguments":""}}]}}]}',
      '{"id":"c1","object":"chat.completion.chunk","created":1,"model":"tiny-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"a\\":1}"}}]}}]}',
      '{"id":"c1","object":"chat.completion.chunk","created":1,"model":"tiny-1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}',
    ];
    const text = `${frames.map((frame) => `data: ${frame}\n\n`).join("")}${DONE}`;
    const exchange = (frame: string) => frame.replace(/("model": ?)"tiny-1"(?!\})/, '$1"lab/tiny"');
    const wanted = `${frames.map((frame) => `data: ${exchange(frame)}\n\n`).join("")}${DONE}`;
    expect(relabelText(text, {}, { ...CONTEXT, wantsUsage: false })).toBe(wanted);
    expect(wanted).toContain('"meta":{"model":"tiny-1"}');
  });

  test("unknown fields survive, in sound and in repaired frames", () => {
    const name = fc.stringMatching(/^x_[a-z]{1,8}$/);
    const value = fc.jsonValue({ maxDepth: 2 });
    fc.assert(
      fc.property(fc.dictionary(name, value), fc.dictionary(name, value), fc.boolean(), (top, inner, sound) => {
        const extra = JSON.parse(JSON.stringify(top)) as Record<string, unknown>;
        const delta = { ...(JSON.parse(JSON.stringify(inner)) as object), content: "a" };
        const role = sound ? { role: "assistant" } : {};
        const head = { id: "c1", object: "chat.completion.chunk", created: 1, model: "tiny-1" };
        const chunk = { ...extra, ...head, choices: [{ index: 0, delta: { ...delta, ...role } }] };
        const [first] = recordsOf(relabelText(`data: ${JSON.stringify(chunk)}\n\n${DONE}`));
        expect(first).toEqual({
          ...chunk,
          model: "lab/tiny",
          choices: [{ index: 0, delta: { ...delta, role: "assistant" } }],
        });
      }),
    );
  });

  test("every chunk says what it is and when: also Azure's first one, which says neither id nor object", () => {
    const filters = { prompt_filter_results: [{ prompt_index: 0 }] };
    const azure = { choices: [], created: 0, id: "", model: "", object: "", ...filters };
    const chunk = { id: "c1", model: "tiny-1", choices: [{ index: 0, delta: { content: "a" } }] };
    const text = [azure, chunk, { ...chunk, object: "chat.completion.chunk", created: 1 }]
      .map((value) => `data: ${JSON.stringify(value)}\n\n`)
      .join("");
    const records = recordsOf(relabelText(text + DONE));
    expect(records.map(({ object, created }) => [object, created]).slice(0, 3)).toEqual([
      ["chat.completion.chunk", 0],
      ["chat.completion.chunk", CONTEXT.created],
      ["chat.completion.chunk", 1],
    ]);
    expect(records[0]).toMatchObject(filters);
  });

  test("the chunks that are put to a reply are as old as the others: counts that came with the finish, none, and a missing finish", () => {
    const head = { id: "c1", object: "chat.completion.chunk", created: 7, model: "tiny-1" };
    const said = { ...head, choices: [{ index: 0, delta: { role: "assistant", content: "a" } }] };
    const finish = { ...head, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] };
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    for (const chunks of [[said, { ...finish, usage }], [said, finish], [said]]) {
      const records = recordsOf(
        relabelText(chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("") + DONE),
      );
      expect(records.map(({ created }) => created)).toEqual([7, 7, 7]);
      expect(records.at(-1)).toMatchObject({
        id: "c1",
        choices: [],
        usage: { prompt_tokens: chunks[1] === finish || !chunks[1] ? 0 : 1 },
      });
    }
  });

  test("no chunk speaks of an error, not even of none: a client that looks for the field ends there", () => {
    const chunk = { id: "c1", object: "chat.completion.chunk", created: 1, model: "tiny-1", error: null };
    const said = (content: string) => ({ ...chunk, choices: [{ index: 0, delta: { role: "assistant", content } }] });
    const text = ["a", "b", "c"].map((content) => `data: ${JSON.stringify(said(content))}\n\n`).join("");
    const out = relabelText(text + DONE);
    expect(out).not.toContain('"error"');
    expect(out).toContain('"content":"c"');
  });

  test("reasoning under another name is shown where clients look, beside the vendor's own", () => {
    const records = recordsOf(relabelText(read("reasoning-twice", "upstream.sse")));
    const deltas = records.flatMap((record) => record["choices"] as { delta: Record<string, unknown> }[]);
    expect(deltas[1]!.delta).toMatchObject({ reasoning: "Hm", reasoning_content: "Hm" });
    for (const name of ["content-array", "content-array-summed-up"]) {
      const array = recordsOf(relabelText(read(name, "upstream.sse")));
      expect((array[0]!["choices"] as unknown[])[0]).toMatchObject({
        delta: { content: "", reasoning_content: "Hmm." },
      });
    }
  });

  test("a finish on every chunk takes nothing away, and is told once, at the end", async () => {
    const text = relabelText(read("finish-on-every-chunk", "upstream.sse"));
    type Choice = { delta: { content?: string }; finish_reason: string | null };
    const choices = recordsOf(text).flatMap((record) => record["choices"] as Choice[]);
    expect(choices.map(({ delta }) => delta.content ?? "").join("")).toBe("I look.");
    expect(choices.flatMap(({ finish_reason: word }) => word ?? [])).toEqual(["tool_calls"]);
    const { message } = (await readWithSdk(text)).choices[0]!;
    expect(message.tool_calls?.[0]).toMatchObject({ function: { name: "look", arguments: '{"at":"x"}' } });
    // Without a terminator nothing tells its end from any other.
    expect(relabelText(read("finish-on-every-chunk", "upstream.sse").replace(DONE, ""))).not.toContain(DONE);
  });

  test("of choices that share their records each keeps its own end, while others go on", async () => {
    const chunk = (...choices: object[]) =>
      `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model: "up", choices })}\n\n`;
    const says = (index: number, content: string, finish_reason: string | null = null) => ({
      index,
      delta: { role: "assistant", content },
      finish_reason,
    });
    const text = relabelText(
      chunk(says(0, "a"), says(1, "b"), says(2, "c")) +
        chunk(says(0, "", "length"), says(1, "b"), says(2, "c", "content_filter")) +
        chunk(says(1, "b")) +
        chunk(says(1, "", "length")) +
        DONE,
    );
    const { choices } = await readWithSdk(text);
    expect(choices.map(({ message, finish_reason: word }) => [message.content, word])).toEqual([
      ["a", "length"],
      ["bbb", "length"],
      ["cc", "content_filter"],
    ]);
  });

  // The place of a call without a word of one, which some write where there is none.
  test.each([{}, { index: 0, id: "", type: "function", function: { name: "", arguments: "" } }])(
    "a call that is none, %j, is not waited for at the end",
    (call) => {
      const chunk = (delta: object, finish_reason: string | null) =>
        `data: ${JSON.stringify({ id: "c1", model: "up", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
      for (const word of ["stop", "tool_calls"]) {
        const text = chunk({ role: "assistant", content: "x", tool_calls: [call] }, null) + chunk({}, word) + DONE;
        expect(decodeText(text).at(-1)).toMatchObject({ finish: { reason: "stop" } });
        const [first, last] = recordsOf(relabelText(text)).map(({ choices }) => (choices as object[])[0]);
        expect([first, last]).toEqual([
          { index: 0, delta: { role: "assistant", content: "x" }, finish_reason: null },
          { index: 0, delta: {}, finish_reason: "stop" },
        ]);
      }
    },
  );

  test("a missing finish says what the reply came to, whether the terminator or the end closed it", () => {
    const call = '{"index":0,"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}';
    const chunk = `{"id":"c1","model":"tiny-1","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[${call}]}}]}`;
    const records = recordsOf(relabelText(`data: ${chunk}\n\n${DONE}`));
    expect(records.map((record) => (record["choices"] as { finish_reason?: string }[])[0]?.finish_reason)).toEqual([
      undefined,
      "tool_calls",
      undefined,
    ]);
    expect(records.map((record) => record["id"])).toEqual(["c1", "c1", "c1"]);
  });

  test("an empty finish becomes none, and a missing id is filled with one and the same", () => {
    const chunk = (delta: string, finish: string) =>
      `data: {"choices":[{"index":0,"delta":${delta},"finish_reason":"${finish}"}]}\n\n`;
    const records = recordsOf(relabelText(chunk('{"role":"assistant"}', "") + chunk("{}", "stop") + DONE));
    const choices = records.flatMap((record) => record["choices"] as { finish_reason: unknown }[]);
    expect(choices.map((choice) => choice.finish_reason)).toEqual([null, "stop"]);
    expect(records.map((record) => record["id"])).toEqual(Array(3).fill("chatcmpl-Reply1"));
    expect(records.map((record) => record["model"])).toEqual(Array(3).fill("lab/tiny"));
  });

  test("an id repeated alone is taken out, and nothing else of the fragment", () => {
    const chunk = (call: string) =>
      `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[${call}]}}]}\n\n`;
    const first = '{"index":0,"id":"t","type":"function","function":{"name":"f","arguments":""}}';
    const next = '{"index":0,"id":"","type":"function","x":1,"function":{"arguments":"{}"}}';
    const records = recordsOf(relabelText(`${chunk(first)}${chunk(next)}${DONE}`));
    const [choice] = records[1]!["choices"] as { delta: { tool_calls: unknown } }[];
    expect(choice!.delta.tool_calls).toStrictEqual([{ index: 0, x: 1, function: { arguments: "{}" } }]);
  });

  test.each<[string, [name: string, text: string][]]>([
    [
      "in pieces",
      [
        ["get_", ""],
        ["wea", ""],
        ["ther", ""],
        ["", "{}"],
      ],
    ],
    [
      "in pieces, the last beside the arguments",
      [
        ["get_", ""],
        ["weather", "{"],
        ["", "}"],
      ],
    ],
    [
      "growing",
      [
        ["get_", ""],
        ["get_weather", ""],
        ["get_weather", "{}"],
      ],
    ],
    [
      "whole on every fragment",
      [
        ["get_weather", ""],
        ["get_weather", "{"],
        ["get_weather", "}"],
      ],
    ],
  ])("a name that comes %s is one to clients, which join what they are sent", (_form, pieces) => {
    const chunks = pieces.map(([name, text]) => {
      const call = { index: 0, id: "t", type: "function", function: { name, arguments: text } };
      return `data: ${JSON.stringify({ id: "c1", model: "m", choices: [{ index: 0, delta: { tool_calls: [call] } }] })}\n\n`;
    });
    const text = chunks.join("") + DONE;
    const called = recordsOf(relabelText(text))
      .flatMap((record) => record["choices"] as { delta: { tool_calls?: Wire[] } }[])
      .flatMap(({ delta }) => delta.tool_calls ?? [])
      .map((call) => call["function"] as { name?: string; arguments?: string });
    expect(called.map(({ name = "" }) => name).join("")).toBe("get_weather");
    expect(called.map((one) => one.arguments ?? "").join("")).toBe("{}");
    expect(JSON.stringify(decodeText(text))).toContain('"name":"get_weather"');
  });

  test("the model is exchanged at the top, not where another field happens to hold it", () => {
    const chunk =
      '{"meta":{"model":"tiny-1"},"id":"c1","model": "tiny-1","choices":[{"index":0,"delta":{"role":"assistant"}}]}';
    const out = relabelText(`data: ${chunk}\n\ndata: ${chunk}\n\n${DONE}`);
    const [first, second] = recordsOf(out);
    expect(second).toMatchObject({ meta: { model: "tiny-1" }, model: "lab/tiny", choices: [{ index: 0, delta: {} }] });
    expect(first).toEqual({ ...second, choices: [{ index: 0, delta: { role: "assistant" } }] });
  });

  test("an event name beside the data survives", () => {
    const chunk = '{"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":"stop"}]}';
    expect(relabelText(`event: extra\nid: 4\ndata: ${chunk}\n\n`)).toStartWith("event: extra\nid: 4\ndata: {");
  });

  test("calls go out with contiguous indices, and with id and name once", () => {
    for (const name of [
      "sparse-index",
      "slipped-index",
      "repeated-name-and-id",
      "reused-index",
      "missing-index",
      "null-id",
    ]) {
      const calls = recordsOf(relabelText(read(name, "upstream.sse")))
        .flatMap((record) => record["choices"] as { delta: { tool_calls?: Record<string, unknown>[] } }[])
        .flatMap((choice) => choice.delta.tool_calls ?? []);
      const seen = new Set<unknown>();
      for (const call of calls) {
        const isFirst = !seen.has(call["index"]);
        if (isFirst) expect(call["index"]).toBe(seen.size);
        seen.add(call["index"]);
        expect("id" in call).toBe(isFirst);
        expect("name" in (call["function"] as object)).toBe(isFirst);
      }
    }
  });
});

describe("an encoded stream", () => {
  test("reads back as the same events", () => {
    fc.assert(
      fc.property(eventList, (events) => {
        const back = decodeText(encodeText(events));
        expect(grammarFault(back)).toBeUndefined();
        expect(outcomeOf(back)).toEqual(expectedBack(events));
      }),
    );
  });

  test("is accepted by the official SDK and adds up to the same", async () => {
    await fc.assert(
      fc.asyncProperty(eventList, async (events) => {
        const completion = await readWithSdk(encodeText(events));
        const lines = expectedBack(events);
        const message = completion.choices[0]!.message;
        const calls = (message.tool_calls ?? []).map((call) =>
          call.type === "function"
            ? `tool-call ${call.id} ${call.function.name} ${JSON.stringify(call.function.arguments)}`
            : "",
        );
        expect(calls).toEqual(lines.filter((line) => line.startsWith("tool-call")));
        expect(completion.usage?.prompt_tokens).toBeGreaterThanOrEqual(0);
      }),
      { numRuns: 30 },
    );
  });

  test("has the canonical order, and usage only when it was asked for", () => {
    const events: Event[] = [
      { type: "start" },
      { type: "block-start", block: { kind: "reasoning" } },
      { type: "block-delta", text: "Hm" },
      { type: "block-signature", signature: "s" },
      { type: "block-end" },
      { type: "block-start", block: { kind: "redacted-reasoning", data: "secret" } },
      { type: "block-end" },
      { type: "block-start", block: { kind: "tool-call", id: "t1", name: "now" } },
      { type: "block-end" },
      { type: "usage", usage: { input: 7, cacheRead: 8, cacheWrite: 5, output: 42, reasoning: 40 } },
      { type: "finish", finish: { reason: "tool-calls" } },
    ];
    const records = recordsOf(encodeText(events));
    const deltas = records.flatMap((record) => record["choices"] as { delta: unknown; finish_reason: unknown }[]);
    expect(deltas.map((choice) => choice.delta)).toEqual([
      { role: "assistant", content: "", refusal: null },
      { reasoning_content: "Hm" },
      { tool_calls: [{ index: 0, id: "t1", type: "function", function: { name: "now", arguments: "" } }] },
      { tool_calls: [{ index: 0, function: { arguments: "{}" } }] },
      {},
    ]);
    expect(deltas.map((choice) => choice.finish_reason)).toEqual([null, null, null, null, "tool_calls"]);
    expect(records.slice(0, -1).map((record) => record["usage"])).toEqual([null, null, null, null, null]);
    expect(records.at(-1)).toEqual({
      id: "chatcmpl-Reply1",
      object: "chat.completion.chunk",
      created: CONTEXT.created,
      model: "lab/tiny",
      choices: [],
      usage: {
        prompt_tokens: 20,
        completion_tokens: 42,
        total_tokens: 62,
        prompt_tokens_details: { cached_tokens: 8, cache_write_tokens: 5, audio_tokens: 0 },
        completion_tokens_details: {
          reasoning_tokens: 40,
          audio_tokens: 0,
          accepted_prediction_tokens: 0,
          rejected_prediction_tokens: 0,
        },
      },
    });
    const quiet = encodeText(events, { ...CONTEXT, wantsUsage: false });
    expect(quiet).not.toContain("usage");
    expect(quiet).not.toContain("secret");
    expect(quiet.endsWith(`"tool_calls"}]}\n\n${DONE}`)).toBe(true);
  });
});

/** What a chat client can still see of events: signatures, stop texts and blocks of other dialects are not on this wire. */
function expectedBack(events: readonly Event[]): string[] {
  const seen: Event[] = [];
  let skipping = false;
  for (const event of events) {
    if (event.type === "block-start")
      skipping = event.block.kind === "opaque" || event.block.kind === "redacted-reasoning";
    if (!skipping && event.type !== "block-signature") seen.push(event);
    if (event.type === "block-end") skipping = false;
  }
  const lines = mergeNeighbours(outcomeOf(seen).filter((line) => line !== 'text ""' && line !== 'reasoning ""'));
  const calls = lines.some((line) => line.startsWith("tool-call"));
  return lines.map((line) => {
    if (line.startsWith("tool-call") && line.endsWith(' ""')) return line.replace(/""$/, '"{}"');
    if (!line.startsWith("finish") || /length|content-filter/.test(line)) return line;
    return calls ? "finish tool-calls" : "finish stop";
  });
}

/** Two blocks of text in a row are one on this wire. */
function mergeNeighbours(lines: readonly string[]): string[] {
  const merged: string[] = [];
  for (const line of lines) {
    const kind = /^(text|reasoning) /.exec(line)?.[1];
    const last = merged.at(-1);
    if (kind !== undefined && last?.startsWith(`${kind} `)) {
      const joined = JSON.parse(last.slice(kind.length + 1)) + JSON.parse(line.slice(kind.length + 1));
      merged[merged.length - 1] = `${kind} ${JSON.stringify(joined)}`;
    } else merged.push(line);
  }
  return merged;
}

test.each([
  ["deepseek-ai/DeepSeek-R1", true],
  ["qwq-32b", true],
  ["Qwen3-235B-A22B-Thinking-2507", true],
  ["deepseek-reasoner", true],
  ["MiniMaxAI/MiniMax-M2", true],
  ["minimax-m2.1-8bit", true],
  // It opens the tag itself.
  ["MiniMaxAI/MiniMax-M2.5", false],
  ["grok-4-fast-non-reasoning", false],
  ["llama-3.3-70b-versatile", false],
  ["gpt-oss-120b", false],
  ["r10-chat", false],
  [undefined, false],
])("whether a model's prompt may have opened its reasoning is told by its name: %p, %p", (model, expected) => {
  expect(mayBePreopened(model)).toBe(expected);
});

test.each([
  [["<think>\nHm</think>\n\nFour"]],
  // A tag is a token of its own, and so is the end of its line.
  [["<think>", "\n", "Hm", "</think>", "\n\n", "Four"]],
  [[..."<think>\nHm</think>\n\nFour"]],
])("reasoning in tags is the same in whatever pieces it comes: %j", (pieces) => {
  const splitter = new ThinkSplitter(false);
  const split = [...pieces.map((piece) => splitter.push(piece)), splitter.end()];
  expect([split.map(({ reasoning }) => reasoning).join(""), split.map(({ text }) => text).join("")]).toEqual([
    "Hm",
    "Four",
  ]);
});
