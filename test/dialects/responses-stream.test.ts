import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { GatewayError } from "../../src/canon/errors.ts";
import { FrameSplitter } from "../../src/dialects/frames.ts";
import { responses } from "../../src/dialects/responses/index.ts";
import { streamWriter } from "../../src/dialects/translate.ts";
import { editInside, JsonText } from "../../src/lib/json-text.ts";
import { recordsOf, reply, stream, typedStream, type Wire } from "./crossing.ts";
import { context, grammarFault, isFinished, plain } from "./diagonal.ts";
import { fixturesOf, testEncoder, testFixtures } from "./diagonal-fixtures.ts";
import { eventsOf } from "./responses-events.ts";
import { accumulate, clientOf, encode, run } from "./responses-run.ts";

const fixtures = fixturesOf("responses");
const { cases, read, streamOf } = fixtures;
const TERMINATOR = /response\.(?:completed|incomplete|failed)/;

/** Streams that leave out what the SDK insists on, or say what it does not know, and that are read all the same. */
const TOO_POOR_FOR_THE_SDK = new Set(["no-item-done", "own-search"]);

describe("every fixture", () => {
  testFixtures(fixtures, run, TERMINATOR);

  for (const name of cases) {
    test(`${name}: the diagonal changes the model, and nothing else`, async () => {
      const text = await streamOf(name);
      const { events, relabeled } = run([text]);
      const forwarded = text.replaceAll('"model":"vendor-model-1"', '"model":"some/model-id"');
      if (await read(name, "relabeled.sse").exists()) expect(relabeled).toBe(await read(name, "relabeled.sse").text());
      else if (isFinished(events)) expect(relabeled).toBe(forwarded);
      else expect(forwarded).toStartWith(relabeled);
    });

    test(`${name}: the SDK takes both the forwarded and the encoded stream, and one that breaks off for no answer`, async () => {
      const { events, relabeled } = run([await streamOf(name)]);
      const last = events.at(-1);
      if (last?.type === "error") return expect(accumulate(encode(events))).rejects.toThrow(last.error.message);
      const texts = events.filter((event) => event.type === "block-start" && event.block.kind !== "opaque").length;
      for (const sse of TOO_POOR_FOR_THE_SDK.has(name) ? [encode(events)] : [relabeled, encode(events)]) {
        const response = await accumulate(sse);
        expect(response.model).toBe("some/model-id");
        expect(response.status).toBeOneOf(["completed", "incomplete"]);
        expect(response.output.length).toBeGreaterThanOrEqual(texts);
        expect(response.usage?.total_tokens).toBeGreaterThan(0);
      }
    });
  }
});

describe("decoder", () => {
  test("an answer that turns into a refusal within its item is two blocks", () => {
    const at = { item_id: "m1", output_index: 0 };
    const text = typedStream(
      { type: "response.created", response: { id: "r", status: "in_progress", model: "m" } },
      { type: "response.output_item.added", output_index: 0, item: { type: "message", id: "m1", role: "assistant" } },
      { type: "response.output_text.delta", ...at, content_index: 0, delta: "I " },
      { type: "response.refusal.delta", ...at, content_index: 1, delta: "cannot." },
      { type: "response.completed", response: { id: "r", status: "completed", model: "m", output: [] } },
    );
    const events = (plain(run([text]).events) as Wire[]).filter(({ type }) => String(type).startsWith("block"));
    expect(events).toEqual([
      { type: "block-start", block: { kind: "text" } },
      { type: "block-delta", text: "I " },
      { type: "block-end" },
      { type: "block-start", block: { kind: "text", refusal: true } },
      { type: "block-delta", text: "cannot." },
      { type: "block-end" },
    ]);
  });

  test("nothing comes after the end, and end is idempotent", () => {
    const decoder = responses.decoder({ quirks: {} });
    expect(plain(decoder.end())).toEqual([{ type: "error", code: "stream_truncated" }]);
    expect(decoder.end()).toEqual([]);
    expect(decoder.done).toBe(true);
  });

  test("an error's own words are scrubbed and its class kept", async () => {
    const last = run([await streamOf("failed")]).events.at(-1);
    if (last?.type !== "error") throw new Error("no error event");
    expect(last.error.code).toBe("upstream_error");
    expect(last.error.message).not.toContain("internal.example");
    const limited = run([await streamOf("error-first")]).events.at(-1);
    expect(limited?.type === "error" && limited.error.code).toBe("rate_limit_exceeded");
  });

  test("a prompt that is too long is recognised inside a 200", () => {
    const error = {
      code: "context_length_exceeded",
      message: "Your input exceeds the context window of this model. 210000 tokens > 200000",
    };
    const response = { id: "r", status: "failed", error, output: [] };
    const last = run([`data: ${JSON.stringify({ type: "response.failed", response })}\n\n`]).events.at(-1);
    if (last?.type !== "error") throw new Error("no error event");
    expect(last.error.code).toBe("context_length_exceeded");
    expect(last.error.message).toStartWith("prompt is too long: 210000 tokens > 200000 maximum");
  });

  test.each([
    ["a text (xAI)", { error: "Rate limit exceeded", code: "429" }],
    ["fields that stand flat (vLLM)", { object: "error", message: "slow", type: "rate_limit_error", code: 429 }],
  ])("an error is one in every shape: %s", (_name, said) => {
    const { events } = run([`data: ${JSON.stringify(said)}\n\n`]);
    expect(plain(events)).toEqual([{ type: "error", code: "rate_limit_exceeded" }]);
  });

  test.each([
    ["one that streams the text alone", false],
    ["not again by another id", true],
  ])("calls of a last response, of which no record told: %s", (_name, isTold) => {
    const text = { type: "message", id: "msg_1", content: [{ type: "output_text", text: "I look." }] };
    const call = { type: "function_call", id: "fc_1", call_id: "call_1", name: "f", arguments: '{"a":1}' };
    const again = { ...call, id: "fc_2", call_id: "call_2" };
    const told = isTold ? [text, call] : [text];
    const records = [
      ...told.map((item, at) => ({ type: "response.output_item.done", output_index: at, item })),
      { type: "response.completed", response: { id: "r", status: "completed", output: [text, again] } },
    ];
    const { events } = run([records.map((one) => `data: ${JSON.stringify(one)}\n\n`).join("")]);
    expect(plain(events)).toEqual([
      { type: "start" },
      { type: "block-start", block: { kind: "text" } },
      { type: "block-delta", text: "I look." },
      { type: "block-end" },
      { type: "block-start", block: { kind: "tool-call", id: isTold ? "call_1" : "call_2", name: "f" } },
      { type: "block-delta", text: '{"a":1}' },
      { type: "block-end" },
      { type: "finish", finish: { reason: "tool-calls", raw: "completed" } },
    ]);
  });

  test("a call that is whole as it is announced is told once, however it ends", () => {
    const call = {
      id: "fc_1",
      type: "function_call",
      call_id: "c1",
      name: "f",
      arguments: '{"a":1}',
      status: "completed",
    };
    const added = { type: "response.output_item.added", output_index: 0, item: call };
    const delta = { type: "response.function_call_arguments.delta", output_index: 0, delta: call.arguments };
    const done = { type: "response.output_item.done", output_index: 0, item: call };
    const last = { type: "response.completed", response: { status: "completed", output: [call] } };
    for (const records of [[delta, done], [done], [delta], []]) {
      const { events } = run([typedStream(added, ...records, last)]);
      expect(plain(events.slice(1))).toEqual([
        { type: "block-start", block: { kind: "tool-call", id: "c1", name: "f" } },
        { type: "block-delta", text: call.arguments },
        { type: "block-end" },
        { type: "finish", finish: { reason: "tool-calls", raw: "completed" } },
      ]);
    }
  });

  test("too many open items end the stream", () => {
    let sse = "";
    for (let index = 0; index < 300; index++) {
      const item = { type: "message", id: `m${index}` };
      sse += `data: ${JSON.stringify({ type: "response.output_item.added", output_index: index, item })}\n\n`;
    }
    expect(plain(run([sse]).events).at(-1)).toEqual({ type: "error", code: "upstream_error" });
  });

  test("items that come by turns wait for each other by their length, however many pieces they are", () => {
    const record = (value: Record<string, unknown>) => `data: ${JSON.stringify(value)}\n\n`;
    const callOf = (at: number) => ({ type: "function_call", id: `fc_${at}`, call_id: `call_${at}`, name: "f" });
    const begin = (at: number) =>
      record({ type: "response.output_item.added", output_index: at, item: { ...callOf(at), arguments: "" } });
    const piece = (at: number, delta: string) =>
      record({ type: "response.function_call_arguments.delta", output_index: at, delta });
    const calls = Array.from({ length: 200 }, (_, at) => at);
    const turn = calls.map((at) => piece(at, "1")).join("");
    const end = (at: number) => record({ type: "response.output_item.done", output_index: at, item: callOf(at) });
    const stop = record({ type: "response.completed", response: { status: "completed", output: [] } });
    const { events } = run([calls.map(begin).join("") + turn.repeat(520) + calls.map(end).join("") + stop]);
    expect(events.at(-1)).toMatchObject({ type: "finish" });
    expect(events.filter((event) => event.type === "block-delta")).toHaveLength(200 * 520);
    const waiting = run([begin(0) + begin(1) + piece(1, "1".repeat(1 << 20)).repeat(33)]);
    expect(plain(waiting.events).at(-1)).toEqual({ type: "error", code: "upstream_error" });
  });

  test("whatever comes, it does not throw, and ends with one finish or error", () => {
    const word = fc.constantFrom(
      "response.created",
      "response.output_item.added",
      "response.output_item.done",
      "response.output_text.delta",
      "response.reasoning_summary_text.delta",
      "response.reasoning_text.delta",
      "response.function_call_arguments.delta",
      "response.completed",
      "response.incomplete",
      "x",
    );
    const item = fc.record({
      type: fc.constantFrom("message", "reasoning", "function_call", "other"),
      id: fc.jsonValue(),
      name: fc.constantFrom("f", ""),
      content: fc.jsonValue(),
      summary: fc.jsonValue(),
      arguments: fc.jsonValue(),
    });
    const record = fc.record({
      type: word,
      output_index: fc.constantFrom(0, 1, "x", undefined),
      delta: fc.constantFrom("a", "", 3, undefined),
      summary_index: fc.nat(2),
      item: fc.oneof(item, fc.jsonValue()),
      response: fc.oneof(
        fc.record({ output: fc.oneof(fc.array(item), fc.jsonValue()), usage: fc.jsonValue() }),
        fc.jsonValue(),
      ),
    });
    fc.assert(
      fc.property(fc.array(record, { maxLength: 12 }), (records) => {
        const sse = records.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join("");
        const { events, relabeled } = run([sse]);
        expect(events.filter((event) => event.type === "finish" || event.type === "error")).toHaveLength(1);
        expect(["finish", "error"]).toContain(events.at(-1)?.type ?? "");
        expect(grammarFault(events)).toBeUndefined();
        if (isFinished(events)) expect(run([relabeled]).events.at(-1)?.type).toBe("finish");
      }),
    );
  });
});

describe("relabeler", () => {
  test("big integers, spelling and a model elsewhere survive where the model is exchanged", () => {
    const data = `{"type": "response.created" ,"sequence_number":0, "response" : {"a":[{"model":"vendor-model-1"}], "big":12345678901234567890,"e":1.0E2,"model" : "vendor-model-1", "z":"\\u00e9"},"model":"top"}`;
    const { relabeled } = run([`id: 7\nevent: response.created\ndata: ${data}\n\n`]);
    expect(relabeled).toBe(
      `id: 7\nevent: response.created\ndata: ${data.replace('"model" : "vendor-model-1"', '"model" : "some/model-id"')}\n\n`,
    );
  });

  test("whatever stands in a response, only its model changes", () => {
    const key = fc.oneof(fc.constantFrom("model", "response", 'a"b\\', ""), fc.string());
    const fields = fc.dictionary(key, fc.jsonValue());
    fc.assert(
      fc.property(fields, fields, fc.constantFrom(0, 1, 2), (response, others, space) => {
        const value = { ...others, response: { ...response, model: "vendor-model-1" }, z: 1 };
        const edited = editInside(JSON.stringify(value, null, space), "response", { model: "new", gone: undefined });
        const { gone: _gone, ...kept }: Record<string, unknown> = value.response;
        expect(edited).toBe(JSON.stringify({ ...value, response: { ...kept, model: "new" } }, null, space));
      }),
    );
    expect(editInside('{"a":1}', "response", { model: "x" })).toBe('{"a":1}');
    expect(editInside('{"response":[1]}', "response", { model: "x" })).toBe('{"response":[1]}');
  });

  test.each([
    ["by a name of its own", "vendor-model-1"],
    ["by the client's name", context.model],
  ])(
    "a time that is written with a point is told in whole seconds, in every record that tells it and of a whole reply, and a state that is none in none: %s",
    (_name, model) => {
      const response = (status: string) =>
        `{"id":"r1","created_at":1786588600.0,"model":"${model}","status":"${status}","output":[{"type":"reasoning","status":null}]}`;
      const record = (type: string, status: string) => `data: {"type":"${type}","response":${response(status)}}\n\n`;
      const { relabeled } = run([
        record("response.created", "in_progress") + record("response.completed", "completed"),
      ]);
      expect(relabeled.match(/(?<="created_at":)[^,]*/g)?.join()).toBe("1786588600,1786588600");
      expect(relabeled).not.toContain("null");
      const parts = response("completed").replace("600.0", "600.75");
      for (const body of [response("completed"), parts]) {
        expect(responses.relabel(new JsonText(body), context)).toContain('"created_at":1786588600,');
      }
    },
  );

  test("the terminal record is held back until the end", async () => {
    const text = await streamOf("text");
    const { relabeled } = run([text]);
    const decoder = responses.decoder({ quirks: {} });
    const relabeler = responses.relabeler(context);
    let sent = "";
    for (const frame of new FrameSplitter().push(text)) sent += relabeler.push(frame, decoder.push(frame));
    expect(sent).not.toMatch(TERMINATOR);
    expect(sent + relabeler.end([])).toBe(relabeled);
  });
});

describe("what a vendor's own stream leaves out and its clients demand", () => {
  const message = (id: string) => ({ id, type: "message", role: "assistant", content: [] });
  const done = (at: number) => ({ type: "response.output_item.done", output_index: at, item: message(`msg_${at}`) });
  const told = (...records: (Wire & { type: string })[]) =>
    recordsOf(stream({ from: "responses", to: "responses" }, typedStream(...records)));
  const counts = { input_tokens: 4, output_tokens: 2 };

  test.each([
    ["none", {}],
    ["null", { output: null }],
    ["an empty list", { output: [] }],
  ])("the items of a last response: with %s it has those that were done, in their places", (_name, output) => {
    const records = told(done(1), done(0), { type: "response.completed", response: { id: "r", ...output } });
    expect(records.at(-1)).toMatchObject({ response: { id: "r", output: [message("msg_0"), message("msg_1")] } });
  });

  test("items that a last response does have stay as they are, and one without any has an empty list", () => {
    const own = told(done(0), { type: "response.completed", response: { output: [message("own")], usage: counts } });
    expect(own.at(-1)).toMatchObject({ response: { output: [message("own")] } });
    const none = told({ type: "response.completed", sequence_number: 0, response: { id: "r" } });
    expect(none.at(-1)).toMatchObject({ response: { output: [] } });
  });

  test("the numbers of records go on from the last one that has one", () => {
    const records = told({ ...done(0), sequence_number: 7 }, done(1), { type: "response.completed", response: {} });
    expect(records.map((record) => record["sequence_number"])).toEqual([7, 8, 9]);
  });

  test("the total and the details of its counts, which stay as they are where it tells them", () => {
    const whole = {
      ...{ ...counts, total_tokens: 6 },
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    };
    const usageOf = (usage: Wire) =>
      (told({ type: "response.completed", sequence_number: 0, response: { usage } }).at(-1) as Wire)["response"];
    expect(usageOf(counts)).toMatchObject({ usage: whole });
    const chats = { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6, reasoning_tokens: 1 };
    expect(usageOf(chats)).toMatchObject({ usage: { ...whole, output_tokens_details: { reasoning_tokens: 1 } } });
    const own = { ...whole, input_tokens_details: { cached_tokens: 1 }, total_tokens: 6 };
    expect(usageOf(own)).toMatchObject({ usage: own });
    expect(reply({ from: "responses", to: "responses" }, { status: "completed", output: [], usage: counts })).toEqual({
      ...{ status: "completed", output: [], model: "a/b" },
      usage: whole,
    });
  });
});

/** As llama.cpp tells a stream: no record has a number, no item a place. */
const UNPLACED = [
  { type: "response.created", response: { id: "resp_x", object: "response", status: "in_progress" } },
  { type: "response.in_progress", response: { id: "resp_x", object: "response", status: "in_progress" } },
  { type: "response.output_item.added", item: { id: "rs_1", type: "reasoning", summary: [], content: [] } },
  { type: "response.reasoning_text.delta", item_id: "rs_1", delta: "Let me" },
  { type: "response.output_item.added", item: { id: "msg_1", type: "message", role: "assistant", content: [] } },
  { type: "response.content_part.added", item_id: "msg_1", part: { type: "output_text", text: "" } },
  { type: "response.output_text.delta", item_id: "msg_1", delta: "Hel" },
  { type: "response.output_text.delta", item_id: "msg_1", delta: "lo" },
  { type: "response.output_item.added", item: { type: "function_call", call_id: "fc_a", name: "up_f", arguments: "" } },
  { type: "response.function_call_arguments.delta", item_id: "fc_a", delta: '{"a":1}' },
  {
    type: "response.completed",
    response: { id: "resp_x", status: "completed", output: [], usage: { input_tokens: 4, output_tokens: 2 } },
  },
];

describe("a vendor's stream that clients of its own dialect cannot follow", () => {
  const diagonal = { from: "responses", to: "responses" } as const;
  const changes = { toolNames: new Map([["up_f", "own.f"]]) };

  test("is written anew, its tools under the client's names, its reasoning as it may be sent back", async () => {
    const sse = stream(diagonal, typedStream(...UNPLACED), changes);
    expect(recordsOf(sse).map((record) => record["sequence_number"])).toEqual([...recordsOf(sse).keys()]);
    const { output, output_text: text, usage } = await accumulate(sse);
    expect([output.map((item) => item.type), text]).toEqual([["reasoning", "message", "function_call"], "Hello"]);
    expect(output[0]).toMatchObject({ content: [{ type: "reasoning_text", text: "Let me" }] });
    expect(output[2]).toMatchObject({ name: "own.f", arguments: '{"a":1}', call_id: "fc_a" });
    expect(usage).toMatchObject({ input_tokens: 4, output_tokens: 2, total_tokens: 6 });
  });

  test("is so from its first record on, and ends in an error under the name that it began with", () => {
    const records = recordsOf(stream(diagonal, typedStream(UNPLACED[0]!, UNPLACED.at(-1)!)));
    expect(records.map((record) => record["type"])).toEqual([
      ...["response.created", "response.in_progress", "response.completed"],
    ]);
    const writer = streamWriter({ upstream: responses, client: responses, context });
    const decoder = responses.decoder({ quirks: {} });
    let sse = "";
    for (const frame of new FrameSplitter().push(typedStream(...UNPLACED.slice(0, 7))))
      sse += writer.push(frame, decoder.push(frame));
    sse += writer.fail?.(new GatewayError("upstream_overloaded", "The vendor is overloaded."));
    const ids = recordsOf(sse).flatMap((record) => (record["response"] as { id: string } | undefined)?.id ?? []);
    expect(new Set(ids).size).toBe(1);
    expect(recordsOf(sse).at(-1)).toMatchObject({ type: "response.failed", response: { status: "failed" } });
  });

  test("is written anew where its messages have no parts and its search is an item of its own (Perplexity)", async () => {
    const sse = stream(diagonal, await streamOf("own-search"));
    expect(sse).not.toContain("search_web");
    const { output, output_text: text } = await accumulate(sse);
    expect([output.map((item): string => item.type), text]).toEqual([["search_results", "message"], "At five [2]."]);
    const cited = ["https://a.example/sun", "https://b.example/dawn"].map((url) => ({ type: "url_citation", url }));
    expect(output[1]).toMatchObject({ content: [{ annotations: cited }] });
  });

  test("is forwarded where its items have places, and where nothing else comes than an error", () => {
    const placed = UNPLACED.map((record) => ("item" in record ? { ...record, output_index: 0 } : record));
    expect(stream(diagonal, typedStream(...placed))).toContain('"id":"msg_1"');
    const writer = streamWriter({ upstream: responses, client: responses, context });
    const decoder = responses.decoder({ quirks: {} });
    const begun = new FrameSplitter().push(typedStream(UNPLACED[0]!, { type: "error", message: "no" }));
    expect(begun.map((frame) => writer.push(frame, decoder.push(frame))).join("")).toContain("response.created");
  });
});

describe("encoder", () => {
  testEncoder(eventsOf(), encode, run);

  test("its stream passes the relabeler byte for byte, and the SDK reads every item of it", async () => {
    await fc.assert(
      fc.asyncProperty(eventsOf(), async (events) => {
        const sse = encode(events);
        expect(run([sse]).relabeled).toBe(sse);
        const { output, output_text: text } = await accumulate(sse);
        expect(output).toHaveLength(events.filter((event) => event.type === "block-start").length);
        let kind = "";
        let wanted = "";
        for (const event of events) {
          if (event.type === "block-start") kind = event.block.kind;
          else if (event.type === "block-delta" && kind === "text") wanted += event.text;
        }
        expect(text).toBe(wanted);
      }),
      { numRuns: 30 },
    );
  });

  test("every record is numbered without gaps and says its type twice; ids and places are stable", () => {
    fc.assert(
      fc.property(eventsOf(), (events) => {
        const records = encode(events).trimEnd().split("\n\n");
        const values = records.map((record) => {
          const [eventLine = "", dataLine = ""] = record.split("\n");
          const value = JSON.parse(dataLine.slice("data: ".length)) as Record<string, unknown>;
          expect(eventLine).toBe(`event: ${String(value["type"])}`);
          return value;
        });
        expect(values.map((value) => value["sequence_number"])).toEqual(values.map((_value, at) => at));
        const ids = new Map<unknown, unknown>();
        for (const { type, output_index: at, item, item_id: itemId } of values) {
          const id = itemId ?? (item as { id?: unknown } | undefined)?.id;
          if (at === undefined) continue;
          if (type === "response.output_item.added") ids.set(at, id);
          expect(ids.get(at)).toBe(id);
        }
        expect([...ids.keys()]).toEqual([...ids.keys()].map((_key, at) => at));
      }),
      { numRuns: 30 },
    );
  });

  test("blocks of other dialects are left out whole", () => {
    const sse = encode([
      { type: "start" },
      { type: "block-start", block: { kind: "opaque", dialect: "messages", value: { type: "audio" } } },
      { type: "block-delta", text: "not for this client" },
      { type: "block-end" },
      { type: "block-start", block: { kind: "text" } },
      { type: "block-delta", text: "hi" },
      { type: "block-end" },
      { type: "finish", finish: { reason: "stop" } },
    ]);
    expect(sse).not.toContain("not for this client");
    expect(new Set([...sse.matchAll(/"output_index":(\d+)/g)].map((match) => match[1]))).toEqual(new Set(["0"]));
  });

  test("a call without arguments says {} in every record that tells them", () => {
    const sse = encode([
      { type: "start" },
      { type: "block-start", block: { kind: "tool-call", id: "call_1", name: "f" } },
      { type: "block-end" },
      { type: "finish", finish: { reason: "tool-calls" } },
    ]);
    const told = [...sse.matchAll(/"(?:delta|arguments)":"([^"]*)"/g)].map((match) => match[1]);
    // Announced empty; then the delta, its done record, the item's done record, and the whole response.
    expect(told).toEqual(["", "{}", "{}", "{}", "{}"]);
  });

  test("only end() terminates; a cut answer is incomplete and says why; counts are whole", () => {
    const encoder = responses.encoder({ ...context, estimatedInputTokens: 42 });
    const usage = { input: 3, cacheRead: 5, cacheWrite: 7, output: 11, reasoning: 2 };
    let sent = encoder.push({ type: "start" });
    sent += encoder.push({ type: "usage", usage });
    sent += encoder.push({ type: "finish", finish: { reason: "length" } });
    expect(sent).not.toMatch(TERMINATOR);
    const [eventLine, dataLine = ""] = encoder.end().trimEnd().split("\n");
    expect(eventLine).toBe("event: response.incomplete");
    const { response } = JSON.parse(dataLine.slice("data: ".length)) as { response: Record<string, unknown> };
    expect(response["incomplete_details"]).toEqual({ reason: "max_output_tokens" });
    expect(response["status"]).toBe("incomplete");
    expect(response["usage"]).toEqual({
      input_tokens: 15,
      input_tokens_details: { cached_tokens: 5, cache_write_tokens: 7 },
      output_tokens: 11,
      output_tokens_details: { reasoning_tokens: 2 },
      total_tokens: 26,
    });
  });
});

describe("errors in a stream", () => {
  const error = new GatewayError("upstream_overloaded", "The vendor is overloaded.");
  const frame = responses.encodeErrorFrame(error, "req_1");

  test("the SDK throws, in both of its readers, with message and code", async () => {
    const sse =
      encode([{ type: "start" }, { type: "finish", finish: { reason: "stop" } }]).split(
        "event: response.completed",
      )[0] + frame;
    await expect(accumulate(sse)).rejects.toMatchObject({ code: "upstream_overloaded" });
    const stream = await clientOf(sse, "text/event-stream").responses.create({
      model: "any",
      input: "x",
      stream: true,
    });
    const types: string[] = [];
    const reading = (async () => {
      for await (const event of stream) types.push(event.type);
    })();
    await expect(reading).rejects.toMatchObject({ code: "upstream_overloaded", type: "server_error" });
    expect(types).toEqual(["response.created", "response.in_progress"]);
  });

  test("the decoder reads it back as an error, and no record of it completes", () => {
    expect(plain(run([frame]).events)).toEqual([{ type: "error", code: "upstream_overloaded" }]);
    expect(frame).not.toContain("response.completed");
    expect(frame).toStartWith("event: error\n");
  });
});
