import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import Anthropic from "@anthropic-ai/sdk";
import fc from "fast-check";
import OpenAI from "openai";
import { chat } from "../../src/dialects/chat/index.ts";
import { FrameSplitter } from "../../src/dialects/frames.ts";
import { gemini } from "../../src/dialects/gemini/index.ts";
import { packProof } from "../../src/dialects/gemini/proof.ts";
import { messages } from "../../src/dialects/messages/index.ts";
import { countWork } from "../support/wait.ts";
import { encodeIn, grammarFault } from "./diagonal.ts";
import { plain, run } from "./gemini-run.ts";

const ROOT = `${import.meta.dir}/../fixtures/gemini`;
const cases = readdirSync(ROOT).sort();
const streamOf = (name: string) => Bun.file(`${ROOT}/${name}/stream.sse`).text();
const wantedOf = (name: string) => Bun.file(`${ROOT}/${name}/events.json`).json();

const answering = (sse: string) => async () => new Response(sse, { headers: { "content-type": "text/event-stream" } });
const ask = [{ role: "user" as const, content: "x" }];

/** What Anthropic's SDK makes of a stream. */
const readByAnthropic = (sse: string) =>
  new Anthropic({ apiKey: "none", maxRetries: 0, fetch: answering(sse) }).messages
    .stream({ model: "any", max_tokens: 10, messages: ask })
    .finalMessage();

/** What OpenAI's SDK makes of a stream. */
const readByOpenAi = (sse: string) =>
  new OpenAI({ apiKey: "none", maxRetries: 0, fetch: answering(sse) }).chat.completions
    .stream({ model: "any", messages: ask })
    .finalChatCompletion();

describe("every fixture", () => {
  test("there are some, with carriage returns as the vendor sends them", async () => {
    const texts = await Promise.all(cases.map(streamOf));
    expect(texts.filter((text) => text.includes("\r\n\r\n")).length).toBeGreaterThan(15);
  });

  for (const name of cases) {
    test(`${name}: events`, async () => {
      const events = run([await streamOf(name)]);
      expect(plain(events)).toEqual(await wantedOf(name));
      expect(grammarFault(events)).toBeUndefined();
    });

    test(`${name}: any split of the bytes gives the same`, async () => {
      const bytes = new TextEncoder().encode(await streamOf(name));
      const wanted = await wantedOf(name);
      const cutAt = (cuts: readonly number[]) => {
        const decoder = new TextDecoder();
        const places = [0, ...cuts, bytes.length];
        const chunks = places
          .slice(1)
          .map((place, at) => decoder.decode(bytes.subarray(places[at], place), { stream: true }));
        return plain(run([...chunks, decoder.decode()]));
      };
      fc.assert(
        fc.property(fc.array(fc.nat(bytes.length), { maxLength: 20 }), (cuts) => {
          expect(cutAt(cuts.sort((one, other) => one - other))).toEqual(wanted);
        }),
        { numRuns: 15 },
      );
      expect(cutAt(Array.from(bytes.keys()))).toEqual(wanted);
    });

    test(`${name}: both SDKs take what is made of it, and one that breaks off for no answer`, async () => {
      const events = run([await streamOf(name)]);
      const last = events.at(-1);
      if (last?.type === "error") {
        await expect(readByAnthropic(encodeIn(messages, events))).rejects.toThrow(last.error.message);
        await expect(readByOpenAi(encodeIn(chat, events))).rejects.toThrow(last.error.message);
        return;
      }
      const calls = events.filter((event) => event.type === "block-start" && event.block.kind === "tool-call").length;
      const message = await readByAnthropic(encodeIn(messages, events));
      expect(message.content.filter((block) => block.type === "tool_use")).toHaveLength(calls);
      expect(message.stop_reason === "tool_use").toBe(calls > 0);
      const completion = await readByOpenAi(encodeIn(chat, events));
      const [choice] = completion.choices;
      expect(choice?.message.tool_calls ?? []).toHaveLength(calls);
      for (const call of choice?.message.tool_calls ?? []) {
        if (call.type === "function") expect(() => JSON.parse(call.function.arguments)).not.toThrow();
      }
      expect(JSON.stringify(completion)).not.toContain("gm:");
    });
  }

  test("every piece of a call for chat clients begins it or carries on its arguments, one with the call's proof too", async () => {
    let proofs = 0;
    for (const name of cases) {
      for (const line of encodeIn(chat, run([await streamOf(name)])).split("\n\n")) {
        if (!line.startsWith("data: {")) continue;
        for (const call of JSON.parse(line.slice(6)).choices?.[0]?.delta.tool_calls ?? []) {
          expect([name, Boolean(call.id) || call.function.arguments !== ""]).toEqual([name, true]);
          if (call.extra_content) proofs++;
        }
      }
    }
    expect(proofs).toBeGreaterThan(0);
  });

  test("a call without arguments shows its proof beside the empty object that stands for them", () => {
    const signature = packProof({ place: "call", signature: "s" });
    const call = { kind: "tool-call", id: "call_1", name: "now" } as const;
    const events = [
      { type: "block-start", block: call },
      { type: "block-signature", signature },
      { type: "block-end" },
    ] as const;
    expect(encodeIn(chat, events)).toContain(
      '{"index":0,"function":{"arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}}',
    );
  });

  test("cut behind any record before the one that ends it, a stream is an error and never a finish", async () => {
    let cut = 0;
    for (const name of cases) {
      const text = await streamOf(name);
      const records = text.split(/\r?\n\r?\n/).filter((record) => record !== "");
      const end = records.findIndex((record) => /"finishReason"|"blockReason"/.test(record));
      for (let count = 0; count < (end < 0 ? records.length + 1 : end + 1); count++) {
        const events = run([
          records
            .slice(0, count)
            .map((record) => `${record}\r\n\r\n`)
            .join(""),
        ]);
        expect(events.at(-1)?.type).toBe("error");
        expect(events.some((event) => event.type === "finish")).toBe(false);
        cut++;
      }
    }
    expect(cut).toBeGreaterThan(40);
  });
});

describe("decoder", () => {
  const record = (value: unknown) => `data: ${JSON.stringify(value)}\r\n\r\n`;
  const parts = (list: unknown[], more: object = {}) => ({ candidates: [{ content: { parts: list }, ...more }] });
  const lastOf = (...values: unknown[]) => plain(run([values.map(record).join("")])).at(-1);

  test("nothing comes after the end, end is idempotent, and finishing is told by the reason alone", async () => {
    const decoder = gemini.decoder({ quirks: {} });
    const states = new FrameSplitter().push(await streamOf("text")).map((frame) => {
      decoder.push(frame);
      return [decoder.finishing, decoder.done];
    });
    expect(states).toEqual([
      [false, false],
      [false, false],
      [true, false],
    ]);
    expect(decoder.end().at(-1)?.type).toBe("finish");
    expect(decoder.done).toBe(true);
    expect(decoder.end()).toEqual([]);
    expect(new FrameSplitter().push(await streamOf("text")).flatMap((frame) => decoder.push(frame))).toEqual([]);
  });

  test("a record behind the finish reason still counts: usage may come there", () => {
    const events = plain(
      run([
        record(parts([{ text: "a" }], { finishReason: "STOP" })) + record({ usageMetadata: { promptTokenCount: 7 } }),
      ]),
    );
    expect(events.at(-2)).toEqual({
      type: "usage",
      usage: { input: 7, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0 },
    });
    expect(events.at(-1)).toEqual({ type: "finish", finish: { reason: "stop", raw: "STOP" } });
  });

  test.each([
    ["STOP", "stop"],
    ["MAX_TOKENS", "length"],
    ["CONTINUATION", "length"],
    ...["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "ESCALATION"].map((word) => [
      word,
      "content-filter",
    ]),
    ...["IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"].map((word) => [word, "content-filter"]),
  ])("%s is %s", (word, reason) => {
    expect(lastOf(parts([{ text: "a" }], { finishReason: word }))).toEqual({
      type: "finish",
      finish: { reason, raw: word },
    });
  });

  test.each([
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "MALFORMED_RESPONSE",
    "LANGUAGE",
    "OTHER",
    "NO_IMAGE",
    "IMAGE_OTHER",
    "PUP_LIMITED_DISABLED",
  ])("%s is the vendor's failure", (word) => {
    expect(lastOf(parts([], { finishReason: word }))).toEqual({ type: "error", code: "upstream_error" });
  });

  test("a call that was made is to be answered, but a cut or filtered reply stays one", () => {
    const call = [{ functionCall: { name: "f" } }];
    expect(lastOf(parts(call, { finishReason: "STOP" }))).toMatchObject({ finish: { reason: "tool-calls" } });
    expect(lastOf(parts(call, { finishReason: "MAX_TOKENS" }))).toMatchObject({ finish: { reason: "length" } });
    expect(lastOf(parts(call, { finishReason: "SAFETY" }))).toMatchObject({ finish: { reason: "content-filter" } });
  });

  test("ids that are made up are new in every reply", () => {
    const text = record(
      parts([{ functionCall: { name: "f" } }, { functionCall: { name: "f" } }], { finishReason: "STOP" }),
    );
    const ids = [run([text]), run([text])].flatMap((events) =>
      events.flatMap((event) =>
        event.type === "block-start" && event.block.kind === "tool-call" ? [event.block.id] : [],
      ),
    );
    for (const id of ids) expect(id).toMatch(/^call_[0-9A-Za-z]{24}$/);
    expect(new Set(ids).size).toBe(4);
  });

  test("records in a list, as they come without alt=sse, are read one by one", () => {
    const list = [parts([{ text: "a" }]), parts([{ text: "b" }], { finishReason: "STOP" })];
    expect(plain(run([record(list)]))).toEqual(plain(run([list.map(record).join("")])));
  });

  test("arguments at a place that is none, or out of all measure, end the stream", () => {
    const call = (path: string) =>
      parts([{ functionCall: { name: "f", partialArgs: [{ jsonPath: path, stringValue: "x" }] } }]);
    for (const path of ["", "title", "$", "$.a[100000]", "$.a[b]", `$${".a".repeat(65)}`]) {
      expect(lastOf(call(path))).toEqual({ type: "error", code: "upstream_error" });
    }
  });

  test("a place of backslashes that never ends is refused at once", () => {
    const call = { name: "f", partialArgs: [{ jsonPath: `$['${"\\".repeat(60)}`, stringValue: "x" }] };
    const work = countWork();
    expect(lastOf(parts([{ functionCall: call }]))).toEqual({ type: "error", code: "upstream_error" });
    expect(work()).toBeLessThan(500);
  });

  test("keys of arguments are words, whatever they say", () => {
    const fragments = ["__proto__", "constructor", "toString", "a.__proto__"].map((key) => ({
      jsonPath: `$.${key}.polluted`,
      stringValue: "x",
    }));
    const call = { functionCall: { name: "f", partialArgs: fragments } };
    const events = run([record(parts([call], { finishReason: "STOP" }))]);
    const text = events.flatMap((event) => (event.type === "block-delta" ? [event.text] : [])).join("");
    expect(text).toBe(
      '{"__proto__":{"polluted":"x"},"constructor":{"polluted":"x"},"toString":{"polluted":"x"},"a":{"__proto__":{"polluted":"x"}}}',
    );
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  test("a place that is told again is told anew, unless its string was to be continued", () => {
    const fragment = (stringValue: string, willContinue: boolean) => ({ jsonPath: "$.a", stringValue, willContinue });
    const partialArgs = [fragment("x", true), fragment("y", false), fragment("z", true), fragment("!", false)];
    const events = run([record(parts([{ functionCall: { name: "f", partialArgs } }], { finishReason: "STOP" }))]);
    expect(events).toContainEqual({ type: "block-delta", text: '{"a":"z!"}' });
  });

  test("a call that came whole is over: what stands behind it is not", () => {
    const decoder = gemini.decoder({ quirks: {} });
    const call = { ...parts([{ functionCall: { name: "f" } }]), usageMetadata: { promptTokenCount: 7 } };
    const events = new FrameSplitter().push(record(call)).flatMap((frame) => decoder.push(frame));
    expect(events.slice(-2).map((event) => event.type)).toEqual(["block-end", "usage"]);
  });

  test("a block reason beside a candidate ends nothing: the candidate's own reason does", () => {
    const record = { ...parts([{ text: "a" }]), promptFeedback: { blockReason: "SAFETY" } };
    expect(lastOf(record)).toEqual({ type: "error", code: "stream_truncated" });
    expect(lastOf({ promptFeedback: {} })).toEqual({ type: "error", code: "stream_truncated" });
  });

  test("the vendor's counts are strangers' input", () => {
    const usage = {
      promptTokenCount: 5,
      cachedContentTokenCount: 9,
      candidatesTokenCount: -3,
      thoughtsTokenCount: "x",
    };
    const events = plain(run([record({ ...parts([], { finishReason: "STOP" }), usageMetadata: usage })]));
    expect(events[1]).toEqual({
      type: "usage",
      usage: { input: 0, cacheRead: 5, cacheWrite: 0, output: 0, reasoning: 0 },
    });
  });

  test("whatever comes, it does not throw, keeps the grammar, and ends with one finish or error", () => {
    const key = fc.constantFrom(
      ..."candidates content parts text thought thoughtSignature functionCall name args partialArgs jsonPath stringValue willContinue finishReason usageMetadata promptTokenCount promptFeedback blockReason error code status index".split(
        " ",
      ),
    );
    const value = fc.letrec((tie) => ({
      any: fc.oneof(
        { maxDepth: 6 },
        fc.constantFrom("STOP", "$.a", "$.a[0]", "", true, 0, null),
        fc.dictionary(key, tie("any"), { maxKeys: 4 }),
        fc.array(tie("any"), { maxLength: 3 }),
      ),
    })).any;
    const part = fc.dictionary(key, value, { maxKeys: 4 });
    const shaped = fc
      .tuple(fc.array(part, { maxLength: 4 }), fc.dictionary(key, value))
      .map(([list, more]) => ({ ...more, candidates: [{ content: { parts: list }, ...more }] }));
    fc.assert(
      fc.property(fc.array(fc.oneof(shaped, value), { maxLength: 8 }), (records) => {
        const events = run([records.map(record).join("")]);
        expect(grammarFault(events)).toBeUndefined();
        expect(["finish", "error"]).toContain(events.at(-1)?.type ?? "");
      }),
      { numRuns: 300 },
    );
  });
});
