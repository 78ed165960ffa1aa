import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chooseTelemetry } from "../../src/config/telemetry.ts";
import type { Clock } from "../../src/lib/clock.ts";
import { retryAfterSeconds } from "../../src/lib/http1/retry-after.ts";
import { errorFields } from "../../src/observe/log.ts";
import { readTraceparent, type Span, toSpans } from "../../src/observe/spans.ts";
import { TraceExporter, type TraceSettings } from "../../src/observe/traces.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { PLAIN_CONFIG, startApp, type TestApp, vendorAt } from "../support/app.ts";
import { CLOCK_BY_HAND, insideOnly } from "../support/black-box-config.ts";
import { manualClock } from "../support/clock.ts";
import { attributesOf, readExport } from "../support/otlp.ts";
import { json, neverAnswer, startUpstream } from "../support/upstream.ts";

const PATH = "/v1/chat/completions";
const TRACES = "/v1/traces";
const upstream = startUpstream();
const collector = startUpstream();
const apps: TestApp[] = [];

async function traced(
  more: Partial<TraceSettings> = {},
  vendor: Partial<Vendor> = {},
  clock?: Clock,
): Promise<TestApp> {
  const address = { url: `${collector.url}${TRACES}`, headers: { "x-token": "trace-token" }, serviceName: "gate" };
  const traces = { ...address, ...more };
  const app = await startApp({
    vendors: [{ ...vendorAt(upstream, "chat", "lab"), ...vendor }],
    config: { ...PLAIN_CONFIG, traces },
    ...(clock && { clock }),
  });
  app.app.services.pause = () => Promise.resolve();
  apps.push(app);
  return app;
}
const REPLY = {
  choices: [{ index: 0, message: { role: "assistant", content: "a canary of an answer" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 },
};
const say = async (app: TestApp, headers: Record<string, string> = {}, content = "a canary of a prompt") =>
  (await app.post(PATH, { model: "lab/m", messages: [{ role: "user", content }] }, { headers })).text();

const FACTS = {
  ...{ requestId: "req_1", accountId: "acc", keyId: "key", dialect: "chat", stream: true, model: "m", finish: "stop" },
  ...{ vendor: "lab", upstreamModel: "u", outcome: "completed", error: undefined, tried: 1, attempts: [] },
  ...{ lastAttemptMs: 0, lastKey: 0, startedAt: 1_800_000_000_000, durationMs: 5, firstTokenMs: 250 },
  ...{ usage: undefined, costNano: undefined, traceparent: undefined },
} as const;

type Sent = { resourceSpans: { resource: { attributes: unknown[] }; scopeSpans: { spans: Span[] }[] }[] };
const spansOf = () => collector.calls.flatMap((call) => readExport(call.json));

beforeEach(() => {
  upstream.reset();
  collector.reset();
  collector.always(TRACES, json({}));
});
// What one of them still has to tell would be taken for what the next test's exporter says.
afterEach(async () => {
  for (const app of apps.splice(0)) await app.stop();
});
afterAll(() => {
  upstream.close();
  collector.close();
});

describe("traces", () => {
  test("a model in this process has no address", async () => {
    const app = await traced();
    await (await app.post(PATH, { model: "sluice/echo", messages: [{ role: "user", content: "hi" }] })).text();
    await app.app.observation.close();
    const spans = spansOf();
    expect(spans.map(({ name }) => name)).toEqual(["chat sluice/echo", "chat echo"]);
    for (const span of spans) {
      expect(attributesOf(span)).not.toHaveProperty(["server.address"]);
      expect(attributesOf(span)).not.toHaveProperty(["server.port"]);
    }
  });

  test.each([
    [
      "chat",
      "/v1/chat/completions",
      { max_tokens: 50, n: 2, seed: 7, presence_penalty: 0.1, frequency_penalty: -0.2, reasoning_effort: "low" },
      {
        "gen_ai.request.max_tokens": "50",
        "gen_ai.request.choice.count": "2",
        "gen_ai.request.seed": "7",
        "gen_ai.request.presence_penalty": 0.1,
        "gen_ai.request.frequency_penalty": -0.2,
        "gen_ai.request.reasoning.level": "low",
      },
    ],
    [
      "messages",
      "/v1/messages",
      { max_tokens: 50, temperature: 0.5, top_k: 4, thinking: { type: "disabled" }, stop_sequences: ["secret"] },
      {
        "gen_ai.request.max_tokens": "50",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_k": "4",
        "gen_ai.request.reasoning.level": "none",
      },
    ],
    [
      "responses",
      "/v1/responses",
      { max_output_tokens: 50, top_p: 0.9, input: "hi" },
      { "gen_ai.request.max_tokens": "50", "gen_ai.request.top_p": 0.9 },
    ],
    // A collector reads these as numbers of 64 bits, and refuses the whole batch for one that is none.
    ["chat", "/v1/chat/completions", { n: 1, seed: 1e30, top_k: 0.5 }, {}],
  ])(
    "say how a %s client wanted its reply made, in the words of the conventions",
    async (_dialect, path, wish, told) => {
      const app = await traced();
      const messages = [{ role: "user", content: "hi" }];
      const reply = await app.post(path, { model: "sluice/echo", ...("input" in wish ? {} : { messages }), ...wish });
      expect([reply.status, (await reply.text()) !== ""]).toEqual([200, true]);
      await app.app.observation.close();
      const [own] = spansOf();
      const { "gen_ai.request.model": model, "gen_ai.request.stream": stream, ...attributes } = attributesOf(own);
      expect([model, stream]).toEqual(["sluice/echo", false]);
      const wished = Object.entries(attributes).filter(([key]) => key.startsWith("gen_ai.request."));
      expect(Object.fromEntries(wished)).toEqual(told);
      expect(JSON.stringify(own)).not.toContain("secret");
    },
  );

  test("a span for the request and one for each call, inside the client's trace, without prompt and answer", async () => {
    const app = await traced();
    upstream.answer(PATH, json({ error: { message: "No" } }, { status: 503 }), json(REPLY));
    const trace = "0af7651916cd43dd8448eb211c80319c";
    await say(app, { traceparent: `00-${trace}-b7ad6b7169203331-01` });
    await app.app.observation.close();
    const spans = spansOf();
    expect(spans.map(({ name, kind }) => [name, kind])).toEqual([
      ["chat lab/m", 2],
      ["chat m", 3],
      ["chat m", 3],
    ]);
    const [own, first, second] = spans;
    expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([trace]));
    expect(own?.parentSpanId).toBe("b7ad6b7169203331");
    expect([first?.parentSpanId, second?.parentSpanId]).toEqual([own?.spanId, own?.spanId]);
    // What went well has no status of its own (conventions on errors).
    expect([own?.status.code, first?.status, second?.status.code]).toEqual([
      0,
      { code: 2, message: "upstream_overloaded" },
      0,
    ]);
    expect(attributesOf(own)).toMatchObject({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "lab",
      "gen_ai.request.model": "lab/m",
      "gen_ai.response.model": "m",
      "gen_ai.usage.input_tokens": "11",
      "gen_ai.usage.output_tokens": "7",
      "gen_ai.usage.cache_write.input_tokens": "0",
      "sluice.attempts": "2",
    });
    // Who was called; the request itself was not sent there.
    const { hostname, port } = new URL(upstream.url);
    expect(spans.map((span) => attributesOf(span)["server.address"])).toEqual([undefined, hostname, hostname]);
    expect(spans.map((span) => attributesOf(span)["server.port"])).toEqual([undefined, port, port]);
    // Of a stream only (GenAI conventions).
    expect(attributesOf(own)).not.toHaveProperty(["gen_ai.response.time_to_first_chunk"]);
    for (const span of spans) {
      expect(span.spanId).toMatch(/^[0-9a-f]{16}$/);
      expect(BigInt(span.endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(span.startTimeUnixNano));
    }
    expect(collector.calls[0]?.headers["x-token"]).toBe("trace-token");
    expect(collector.calls.map(({ text }) => text).join("")).not.toContain("canary");
  });

  test("no call ends after its request, whatever was left of a millisecond", async () => {
    insideOnly(CLOCK_BY_HAND);
    const clock = manualClock();
    const app = await traced({}, {}, clock);
    app.app.services.pause = () => clock.advance(36.6);
    upstream.answer(PATH, json({ error: { message: "No" } }, { status: 503 }), async () => {
      await clock.advance(7.6);
      return json(REPLY);
    });
    await say(app);
    await app.app.observation.close();
    const [own, , second] = spansOf();
    expect(second?.endTimeUnixNano).toBe(own?.endTimeUnixNano ?? "");
  });

  test("the key that was used is told, also where the first call was served", async () => {
    const app = await traced({}, { apiKey: "key-a1", apiKeys: ["key-a1", "key-b2"] });
    upstream.always(PATH, json(REPLY));
    for (let count = 0; count < 32; count++) await say(app, {}, `talk ${count}`);
    await app.app.observation.close();
    const told = spansOf().filter(({ kind }) => kind === 3);
    const used = upstream.calls.map(({ headers }) => (headers["authorization"] === "Bearer key-b2" ? "2" : "1"));
    expect(new Set(used).size).toBe(2);
    expect(told.map((span) => attributesOf(span)["sluice.vendor_key"])).toEqual(used);
  });

  test("a request that fails says why; a trace that is not sampled is not sent", async () => {
    const app = await traced();
    upstream.answer(PATH, json({ error: { message: "No" } }, { status: 500 }), json(REPLY));
    await say(app);
    await say(app, { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00" });
    await app.app.observation.close();
    const spans = spansOf();
    expect(spans).toHaveLength(2);
    expect(spans[0]?.status).toEqual({ code: 2, message: "upstream_error" });
    expect(attributesOf(spans[0])["error.type"]).toBe("upstream_error");
    // No model answered.
    for (const span of spans) expect(attributesOf(span)).not.toHaveProperty(["gen_ai.response.model"]);
  });

  test("a client that leaves is no failure", async () => {
    const app = await traced();
    upstream.answer(PATH, neverAnswer());
    const leaving = new AbortController();
    const body = { model: "lab/m", messages: [{ role: "user", content: "Hi" }] };
    const asked = app.post(PATH, body, { signal: leaving.signal });
    await upstream.called();
    leaving.abort();
    await asked.catch(() => undefined);
    await app.app.running.idle();
    await app.app.observation.close();
    expect(spansOf().map(({ status }) => status)).toEqual([{ code: 0 }, { code: 0 }]);
    expect(attributesOf(spansOf()[0])["sluice.outcome"]).toBe("client-left");
  });

  test("a collector that refuses is told of once, and costs no request", async () => {
    const app = await traced();
    collector.always(TRACES, json({}, { status: 500 }));
    upstream.always(PATH, json(REPLY));
    for (let count = 0; count < 2; count++) {
      await say(app);
      await app.app.observation.close();
    }
    expect(app.log.filter(({ event }) => event === "observe")).toHaveLength(1);
    const text = await (await app.call("/metrics")).text();
    expect(text).toContain("sluice_trace_spans_lost_total 4\n");
    expect(JSON.stringify(app.log)).not.toContain("trace-token");
  });

  test("a collector that takes and never answers holds up no request, and no end for longer than two seconds", async () => {
    const app = await traced();
    collector.always(TRACES, neverAnswer());
    upstream.always(PATH, json(REPLY));
    for (let count = 0; count < 600; count++) await say(app);
    const closing = performance.now();
    await app.app.observation.close();
    expect(performance.now() - closing).toBeLessThan(4_000);
    expect(collector.calls).toHaveLength(1);
    const text = await (await app.call("/metrics")).text();
    expect(text).toContain("sluice_trace_spans_sent_total 0\n");
    expect(text).toContain("sluice_trace_spans_lost_total 1200\n");
    // It is asked again as soon as it is back.
    collector.always(TRACES, json({}));
    await say(app);
    await app.app.observation.close();
    expect(collector.calls).toHaveLength(2);
    // Six hundred requests one by one, on a machine that may be busy.
  }, 30_000);

  test("a request that is refused before any book is begun is one span, where a valid key came with it", async () => {
    const app = await traced();
    const trace = "0af7651916cd43dd8448eb211c80319c";
    const headers = { traceparent: `00-${trace}-b7ad6b7169203331-01` };
    const messages = [{ role: "user", content: "a canary of a prompt" }];
    expect((await app.post(PATH, { model: "nobody/x", messages }, { headers })).status).toBe(404);
    expect((await app.post(PATH, "{", { headers })).status).toBe(400);
    expect(
      (await app.post(PATH, { model: "lab/m", messages }, { headers: { authorization: "Bearer no" } })).status,
    ).toBe(401);
    await app.app.observation.close();
    expect(spansOf().map(({ name, kind, traceId, status }) => [name, kind, traceId, status])).toEqual([
      ["chat nobody/x", 2, trace, { code: 2, message: "model_not_found" }],
      ["chat", 2, trace, { code: 2, message: "invalid_request" }],
    ]);
    for (const span of spansOf()) expect(attributesOf(span)["error.type"]).toBe(span.status.message);
    expect(collector.calls.map(({ text }) => text).join("")).not.toContain("canary");
  });

  test("a key that somebody gives as a model is in none of them, nor in the figures", async () => {
    const app = await traced();
    const key = "sk-canary-0123456789";
    upstream.answer(PATH, json({ error: { message: "No" } }, { status: 503 }), json(REPLY), json(REPLY));
    for (const model of [`lab/${key}`, `lab/${key}0`]) {
      const body = { model, messages: [{ role: "user", content: "Hi" }] };
      expect((await app.post(PATH, body)).status).toBe(200);
    }
    await app.app.observation.close();
    expect(spansOf()).toHaveLength(5);
    expect(collector.calls.map(({ text }) => text).join("")).not.toContain("canary");
    const text = await (await app.call("/metrics")).text();
    expect(text).not.toContain("canary");
    expect(text).toContain(
      'sluice_requests_total{dialect="chat",vendor="lab",model="lab/[removed]",outcome="completed"} 2\n',
    );
  });

  test("half of a character in a name spoils no batch: a collector would refuse the other requests' spans with it", async () => {
    const app = await traced();
    upstream.answer(PATH, json(REPLY));
    await say(app);
    // A name of the client's own, one that is cut within a character, a message's ID, and a tool that there is not.
    const messages = [{ role: "user", content: "Hi" }];
    await app.post(PATH, { model: "lab\ud800", messages });
    await app.post(PATH, { model: `nobody/${"x".repeat(120)}${"\u{1f600}".repeat(200)}`, messages });
    await app.post(PATH, { model: `nobody/${"x".repeat(121)}${"\u{1f600}".repeat(200)}`, messages });
    const call = { jsonrpc: "2.0", id: "\ud800", method: "tools/call", params: { name: "\udc00", arguments: {} } };
    await app.post("/mcp/web", call);
    await app.app.observation.close();
    const sent = collector.calls.map(({ text }) => text).join("");
    expect(spansOf().length).toBeGreaterThanOrEqual(5);
    expect(sent).toContain("lab\ufffd");
    expect(sent).not.toMatch(/\\ud[89a-f]/i);
  });

  test("what they come from is named, and a collector is waited for as long as is set", async () => {
    const app = await traced({ resource: { "deployment.environment.name": "test" }, timeoutMs: 50 });
    collector.always(TRACES, neverAnswer());
    upstream.always(PATH, json(REPLY));
    await say(app);
    await app.app.observation.close();
    const sent = collector.calls[0]?.json as Sent | undefined;
    expect(sent?.resourceSpans[0]?.resource.attributes).toEqual([
      { key: "service.name", value: { stringValue: "gate" } },
      { key: "service.version", value: { stringValue: expect.any(String) } },
      { key: "deployment.environment.name", value: { stringValue: "test" } },
    ]);
    expect(app.log.filter(({ event }) => event === "observe")).toMatchObject([
      { cause: expect.stringMatching(/timed out/i) },
    ]);
  });

  test("of those that a client has not decided on so many are sent as the sampler says", async () => {
    upstream.always(PATH, json(REPLY));
    const trace = (sampled: boolean) => ({ traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-0${sampled ? 1 : 0}` });
    for (const [sampling, expected] of [
      [{ byParent: true, ratio: 0 }, [false, true, false]],
      [{ byParent: false, ratio: 1 }, [true, true, true]],
    ] as const) {
      const app = await traced({ sampling });
      const sent: boolean[] = [];
      for (const headers of [{}, trace(true), trace(false)]) {
        collector.reset();
        collector.always(TRACES, json({}));
        await say(app, headers);
        await app.app.observation.close();
        sent.push(collector.calls.length > 0);
      }
      expect([...sent]).toEqual([...expected]);
    }
  });

  test("a collector with a certificate of its own is spoken to, packed, by who shows one too; no other is", async () => {
    const got: { encoding: string | null; sent: Sent }[] = [];
    const certificate = (name: string) =>
      readFileSync(new URL(`../fixtures/certificates/${name}.txt`, import.meta.url));
    const [ca, cert, caller, key] = ["authority", "sound", "stranger", "key"].map((name) => String(certificate(name)));
    const secure = Bun.serve({
      ...{ hostname: "127.0.0.1", port: 0 },
      tls: { cert, key, ca: caller, requestCert: true, rejectUnauthorized: true },
      async fetch(request) {
        const sent = JSON.parse(new TextDecoder().decode(Bun.gunzipSync(await request.arrayBuffer()))) as Sent;
        got.push({ encoding: request.headers.get("content-encoding"), sent });
        return Response.json({});
      },
    });
    upstream.always(PATH, json(REPLY));
    const url = `https://localhost:${secure.port}${TRACES}`;
    for (const tls of [undefined, { ca }, { ca, cert: caller, key }] as TraceSettings["tls"][]) {
      const app = await traced({ url, tls, packed: true });
      await say(app);
      await app.app.observation.close();
      const taken = tls?.key !== undefined;
      expect(got.map(({ encoding }) => encoding)).toEqual(taken ? ["gzip"] : []);
      expect(app.log.filter(({ event }) => event === "observe")).toHaveLength(taken ? 0 : 1);
    }
    expect(got[0]?.sent.resourceSpans[0]?.scopeSpans[0]?.spans).toHaveLength(2);
    await secure.stop(true);
  });

  test("are off unless somebody says where they go", async () => {
    const app = await startApp({ vendors: [vendorAt(upstream, "chat", "lab")] });
    apps.push(app);
    expect(app.app.observation.observer.traces).toBe(false);
    upstream.always(PATH, json(REPLY));
    await say(app);
    await app.app.observation.close();
    expect(collector.calls).toEqual([]);
  });
});

describe("a collector that cannot take them now", () => {
  /** An exporter whose timers are run by hand. */
  function startExporter(url = `${collector.url}${TRACES}`, more: Partial<TraceSettings> = {}) {
    const timers: { ms: number; run: () => void }[] = [];
    const faults: unknown[] = [];
    const exporter = new TraceExporter({
      ...{ url, headers: {}, serviceName: "gate", version: "1", scrub: (text: string) => text },
      baseUrlOf: () => undefined,
      after(ms, run) {
        const timer = { ms, run };
        timers.push(timer);
        return () => void timers.splice(timers.indexOf(timer), timers.includes(timer) ? 1 : 0);
      },
      retryAfter: (headers) => retryAfterSeconds(headers, Date.UTC(2026, 0, 31)),
      onFault: (thrown) => faults.push(thrown),
      ...more,
    });
    return { exporter, timers, faults };
  }

  test("is offered them again when it says, once and in batches; what comes meanwhile waits with them", async () => {
    const { exporter, timers, faults } = startExporter();
    collector.answer(
      TRACES,
      json({}, { status: 429, headers: { "retry-after": "7" } }),
      json({}, { status: 503, headers: { "retry-after": "99999" } }),
      json({}, { status: 502, headers: { "retry-after": "soon" } }),
      json({}, { status: 503, headers: { "retry-after": "Sat, 31 Jan 2026 00:00:09 GMT" } }),
      json({}),
    );
    exporter.ended(FACTS);
    for (const ms of [7_000, 60_000, 5_000, 9_000]) {
      await exporter.flush();
      expect(timers.map((timer) => timer.ms)).toEqual([ms]);
      // Many do not make it any sooner.
      for (let count = 0; count < 100; count++) exporter.ended(FACTS);
    }
    expect(collector.calls).toHaveLength(4);
    expect(exporter.counts).toEqual({ sent: 0, lost: 0 });
    await exporter.flush();
    expect(exporter.counts).toEqual({ sent: 802, lost: 0 });
    expect(
      new Set(
        spansOf()
          .slice(-802)
          .map(({ spanId }) => spanId),
      ).size,
    ).toBe(802);
    expect(faults).toHaveLength(1);
    expect(timers).toEqual([]);
  });

  test("has only so many kept for it, and none after the end", async () => {
    const { exporter, timers, faults } = startExporter("http://127.0.0.1:1/v1/traces");
    for (let count = 0; count < 3_000; count++) exporter.ended(FACTS);
    await exporter.flush();
    expect(exporter.counts).toEqual({ sent: 0, lost: 6_000 - 4_096 });
    // Who it was that the network could not reach stands in the line.
    expect(faults.map((fault) => errorFields(fault))).toMatchObject([
      {
        error: "Error: The traces could not be given to their collector.",
        cause: expect.stringContaining("ECONNREFUSED"),
      },
    ]);
    await exporter.close();
    expect(exporter.counts).toEqual({ sent: 0, lost: 6_000 });
    expect(timers).toEqual([]);
  });

  test("or fewer, where that is set; of a request that does not fit its own span is kept", async () => {
    const { exporter } = startExporter(undefined, { maxWaiting: 5, maxBatch: 2 });
    collector.always(TRACES, json({}, { status: 503 }));
    for (let count = 0; count < 10; count++) exporter.ended(FACTS);
    expect(exporter.counts).toEqual({ sent: 0, lost: 15 });
    await exporter.flush();
    // Offered as soon as there were two, and again.
    expect(new Set(spansOf().map(({ spanId }) => spanId)).size).toBe(2);
    collector.reset();
    collector.always(TRACES, json({}));
    await exporter.flush();
    expect(
      collector.calls.map(({ json: sent }) => (sent as Sent).resourceSpans[0]?.scopeSpans[0]?.spans.length),
    ).toEqual([2, 2, 1]);
    expect(spansOf().map(({ kind }) => kind)).toEqual([2, 3, 2, 3, 2]);
    // More at once than are kept there cannot be.
    const narrow = startExporter(undefined, { maxWaiting: 1 }).exporter;
    narrow.ended(FACTS);
    await narrow.flush();
    expect(narrow.counts).toEqual({ sent: 1, lost: 1 });
  });

  test("of those that it has not taken of a batch it is told once, and they count as lost", async () => {
    const { exporter, faults } = startExporter();
    const partly = (partialSuccess: object) => json({ partialSuccess });
    collector.answer(
      TRACES,
      partly({ rejectedSpans: "1", errorMessage: "too old" }),
      partly({ errorMessage: "a warning" }),
      { ...json({}), parts: ['{"partialSuccess":'] },
      { ...json({}), parts: [`{"partialSuccess":{}}${" ".repeat(100_000)}`] },
      partly({ rejectedSpans: 99 }),
    );
    const seen = [];
    for (let count = 0; count < 5; count++) {
      exporter.ended(FACTS);
      await exporter.flush();
      seen.push({ ...exporter.counts });
    }
    expect(seen).toEqual([
      { sent: 1, lost: 1 },
      { sent: 3, lost: 1 },
      { sent: 5, lost: 1 },
      { sent: 7, lost: 1 },
      { sent: 7, lost: 3 },
    ]);
    expect(faults.map(String)).toEqual([
      "Error: The collector of traces left out 1 of 2 spans.",
      "Error: The collector of traces left out 2 of 2 spans.",
    ]);
    expect(collector.calls).toHaveLength(5);
  });

  test.each([
    ["and one that does not want them is not asked again", 400, {}],
    ["and where another one is to be asked, that gets neither them nor the key", 307, { location: "/elsewhere" }],
  ])("%s", async (_what, status, headers) => {
    const { exporter } = startExporter();
    collector.always(TRACES, json({}, { status, headers }));
    collector.always("/elsewhere", json({}));
    exporter.ended(FACTS);
    await exporter.flush();
    await exporter.flush();
    expect(collector.calls).toHaveLength(1);
    expect(exporter.counts).toEqual({ sent: 0, lost: 2 });
  });
});

test("vendors go by the names that the conventions have for them", () => {
  const [own, call] = toSpans({ ...FACTS, vendor: "xai" });
  for (const span of [own, call]) expect(attributesOf(span)["gen_ai.provider.name"]).toBe("x_ai");
  expect(attributesOf(call)["sluice.vendor"]).toBe("xai");
  expect(attributesOf(own)["gen_ai.response.time_to_first_chunk"]).toBe(0.25);
  for (const [baseUrl, address, port] of [
    ["https://api.test/v1", "api.test", "443"],
    ["http://[::1]:8000", "::1", "8000"],
    ["builtin:", undefined, undefined],
    [undefined, undefined, undefined],
  ]) {
    const [, called] = toSpans(FACTS, { baseUrlOf: () => baseUrl });
    const { "server.address": host, "server.port": at } = attributesOf(called);
    expect([host, at]).toEqual([address, port]);
  }
  for (const vendor of ["lab", "constructor", "openai"]) {
    expect(attributesOf(toSpans({ ...FACTS, vendor })[0])["gen_ai.provider.name"]).toBe(vendor);
  }
});

test.each([
  ["completed", undefined, "u"],
  ["client-left", 250, "u"],
  ["client-left", undefined, undefined],
] as const)(
  "the model that answered is told where one did: %s, first token after %p ms",
  (outcome, firstTokenMs, model) => {
    const [own] = toSpans({ ...FACTS, outcome, firstTokenMs });
    expect(attributesOf(own)["gen_ai.response.finish_reasons"]).toEqual({ values: [{ stringValue: "stop" }] });
    expect(attributesOf(own)["gen_ai.response.model"]).toBe(model);
  },
);

test("counts of tokens: all of the input, and its parts by the cache", () => {
  const usage = { input: 5, cacheRead: 3, cacheWrite: 2, output: 7, reasoning: 4 };
  const told = Object.entries(attributesOf(toSpans({ ...FACTS, usage })[0])).filter(([name]) => name.includes("usage"));
  expect(Object.fromEntries(told.map(([name, value]) => [name.replace("gen_ai.usage.", ""), value]))).toEqual({
    ...{ input_tokens: "10", "cache_read.input_tokens": "3", "cache_write.input_tokens": "2" },
    ...{ "cache_creation.input_tokens": "2", output_tokens: "7", "reasoning.output_tokens": "4" },
  });
});

test("a part of all traces is chosen by their IDs, the same by whoever chooses", () => {
  const sampled = (traceId: string, ratio: number) =>
    toSpans({ ...FACTS, traceparent: `00-${traceId}-${"b".repeat(16)}-01` }, { sampling: { byParent: false, ratio } })
      .length > 0;
  const half = "f".repeat(16);
  for (const [id, ratio, expected] of [
    [`${half}${"0".repeat(15)}1`, 0.001, true],
    [`${half}7${"f".repeat(15)}`, 0.5, true],
    [`${half}8${"0".repeat(15)}`, 0.5, false],
    [`${"0".repeat(15)}1${half}`, 0.999, false],
    [`${"0".repeat(15)}1${half}`, 1, true],
  ] as const) {
    expect([id, sampled(id, ratio)]).toEqual([id, expected]);
  }
  const own = Array.from(
    { length: 2_000 },
    () => toSpans(FACTS, { sampling: { byParent: true, ratio: 0.25 } }).length > 0,
  );
  const share = own.filter(Boolean).length / own.length;
  expect(share).toBeGreaterThan(0.15);
  expect(share).toBeLessThan(0.35);
});

test("a trace context is taken only when it is well formed", () => {
  const trace = "0af7651916cd43dd8448eb211c80319c";
  const span = "b7ad6b7169203331";
  expect(readTraceparent(`00-${trace}-${span}-01`)).toEqual({ traceId: trace, spanId: span, sampled: true });
  expect(readTraceparent(`01-${trace}-${span}-00-more`)).toMatchObject({ sampled: false });
  for (const bad of [
    "",
    `ff-${trace}-${span}-01`,
    `00-${"0".repeat(32)}-${span}-01`,
    `00-${trace}-${"0".repeat(16)}-01`,
    `00-${trace}-${span}`,
    `00-${trace}-${span}-01-more`,
    `00-${trace.toUpperCase()}-${span}-01`,
  ]) {
    expect(readTraceparent(bad)).toBeUndefined();
  }
});

describe("where traces go", () => {
  const warnings: string[] = [];
  beforeEach(() => {
    warnings.length = 0;
  });

  test("the variables of OpenTelemetry, and the file above them", () => {
    const base = {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://otel.test:4318/",
      OTEL_EXPORTER_OTLP_HEADERS: "api-key=a%20b, bad, x=1",
    };
    expect(chooseTelemetry(undefined, base, warnings)).toEqual({
      url: "http://otel.test:4318/v1/traces",
      headers: { "api-key": "a b", x: "1" },
      serviceName: "sluice",
      resource: {},
    });
    const exact = { ...base, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://otel.test/t", OTEL_SERVICE_NAME: "gate" };
    expect(chooseTelemetry(undefined, exact, warnings)).toMatchObject({
      url: "http://otel.test/t",
      serviceName: "gate",
    });
    expect(chooseTelemetry({ otlp_endpoint: "http://file.test", headers: { x: "2" } }, exact, warnings)).toMatchObject({
      url: "http://file.test/v1/traces",
      headers: { x: "2" },
    });
    // However it is written there: two of one name would go out as one header with both values.
    expect(
      chooseTelemetry({ otlp_endpoint: "http://file.test", headers: { "Api-Key": "2" } }, base, warnings),
    ).toMatchObject({
      headers: { "api-key": "2", x: "1" },
    });
    // Every time, and without the words, which may be a key that was written as no header is.
    const told = "what is not name=value, with commas between and values percent-encoded, is left aside.";
    expect(warnings.splice(0)).toEqual(Array(4).fill(`OTEL_EXPORTER_OTLP_HEADERS: ${told}`));
  });

  test("an address that is whole already is not made longer", () => {
    const whole = "http://otel.test:4318/v1/traces";
    expect(chooseTelemetry({ otlp_endpoint: `${whole}/` }, {}, warnings)?.url).toBe(whole);
    expect(chooseTelemetry(undefined, { OTEL_EXPORTER_OTLP_ENDPOINT: whole }, warnings)?.url).toBe(whole);
    expect(warnings).toEqual([]);
  });

  test("a header whose name or value no header can have is left aside, and told: every batch would fail for it", () => {
    const variables = {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://otel.test:4318",
      OTEL_EXPORTER_OTLP_HEADERS:
        "x-price=5%E2%82%AC,x-lines=a%0Ab,authorization=Basic%20YWJj%0A,x-city=M%C3%BCnchen,x name=1",
    };
    expect(chooseTelemetry(undefined, variables, warnings)?.headers).toEqual({
      authorization: "Basic YWJj",
      "x-city": "München",
    });
    expect(warnings.splice(0)).toEqual([expect.stringMatching(/^OTEL_EXPORTER_OTLP_HEADERS: .* is left aside\.$/)]);
  });

  test("nowhere without an endpoint, or when they are switched off", () => {
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://otel.test" };
    expect(chooseTelemetry(undefined, {}, warnings)).toBeUndefined();
    expect(chooseTelemetry(undefined, { ...endpoint, OTEL_SDK_DISABLED: "true" }, warnings)).toBeUndefined();
    expect(chooseTelemetry(undefined, { ...endpoint, OTEL_TRACES_EXPORTER: "none" }, warnings)).toBeUndefined();
    expect(warnings).toEqual([]);
    expect(chooseTelemetry(undefined, { OTEL_EXPORTER_OTLP_ENDPOINT: "otel:4317" }, warnings)).toBeUndefined();
    expect(warnings.splice(0)).toEqual([expect.stringContaining("OTEL_EXPORTER_OTLP_ENDPOINT expected a URL")]);
    const traces = { ...endpoint, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "otel:4317" };
    expect(chooseTelemetry(undefined, traces, warnings)).toBeUndefined();
    expect(warnings.splice(0)).toEqual([expect.stringContaining("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT expected a URL")]);
    // What says neither yes nor no changes nothing, and is told, but to who sends no traces.
    const odd = { OTEL_SDK_DISABLED: "1", OTEL_TRACES_EXPORTER: "console" };
    expect(chooseTelemetry(undefined, { ...endpoint, ...odd }, warnings)).toBeDefined();
    expect(warnings.splice(0)).toEqual(
      Object.keys(odd).map((name) => expect.stringContaining(`${name} is left aside`)),
    );
    expect(chooseTelemetry(undefined, odd, warnings)).toBeUndefined();
    expect(chooseTelemetry(undefined, { ...endpoint, OTEL_TRACES_EXPORTER: "console, OTLP" }, warnings)).toBeDefined();
    expect(chooseTelemetry(undefined, { ...endpoint, OTEL_SDK_DISABLED: "True" }, warnings)).toBeUndefined();
    expect(warnings).toEqual([]);
  });

  test("a sampler, what the traces come from, and the times that are set", () => {
    const base = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://otel.test" };
    const chosen = (more: Record<string, string>) => chooseTelemetry(undefined, { ...base, ...more }, warnings);
    warnings.length = 0;
    expect(
      chosen({
        OTEL_RESOURCE_ATTRIBUTES: "service.name=team,deployment.environment.name=a%2Cb, =x,y",
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
        OTEL_EXPORTER_OTLP_TIMEOUT: "500",
        OTEL_BSP_SCHEDULE_DELAY: "250",
      }),
    ).toMatchObject({
      ...{ serviceName: "team", resource: { "deployment.environment.name": "a,b" } },
      ...{ timeoutMs: 500, everyMs: 250, sampling: undefined },
    });
    expect(warnings.splice(0)).toEqual([expect.stringContaining("OTEL_RESOURCE_ATTRIBUTES: what is not name=value")]);
    expect(chosen({ OTEL_RESOURCE_ATTRIBUTES: "service.name=team", OTEL_SERVICE_NAME: "gate" })?.serviceName).toBe(
      "gate",
    );
    const sampling = (name: string, ratio?: string) =>
      chosen({ OTEL_TRACES_SAMPLER: name, ...(ratio !== undefined && { OTEL_TRACES_SAMPLER_ARG: ratio }) });
    expect(sampling("always_on")?.sampling).toEqual({ byParent: false, ratio: 1 });
    expect(sampling("parentbased_always_on")?.sampling).toEqual({ byParent: true, ratio: 1 });
    expect(sampling("ParentBased_always_off")?.sampling).toEqual({ byParent: true, ratio: 0 });
    expect(sampling("parentbased_traceidratio", "0.25")?.sampling).toEqual({ byParent: true, ratio: 0.25 });
    expect(sampling("traceidratio", "1E-2")?.sampling).toEqual({ byParent: false, ratio: 0.01 });
    for (const all of [sampling("traceidratio"), sampling("traceidratio", "1")])
      expect(all?.sampling).toEqual({ byParent: false, ratio: 1 });
    for (const none of [sampling("always_off"), sampling("traceidratio", "0")]) expect(none).toBeUndefined();
    expect(warnings).toEqual([]);
    // What is wrong with a variable is said, and is as if it were not set.
    for (const name of ["jaeger_remote", "constructor"]) expect(sampling(name)?.sampling).toBeUndefined();
    const ratios = ["1.5", "-0.5", "0.5x"];
    for (const ratio of ratios)
      expect(sampling("traceidratio", ratio)?.sampling).toEqual({ byParent: false, ratio: 1 });
    expect(chosen({ OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: "5s" })?.timeoutMs).toBeUndefined();
    chosen({ OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" });
    expect(warnings.map((sentence) => sentence.split(" ")[0])).toEqual([
      ...["OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER"],
      ...ratios.map(() => "OTEL_TRACES_SAMPLER_ARG"),
      "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
      "OTEL_EXPORTER_OTLP_PROTOCOL",
    ]);
  });

  test("how many are kept and sent at once, packed or not, and the collector's certificates", () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-traces-"));
    const file = (name: string, text: string) => {
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    };
    const fixture = (name: string) =>
      readFileSync(new URL(`../fixtures/certificates/${name}.txt`, import.meta.url), "utf8");
    const ca = file("ca.pem", fixture("authority"));
    const cert = file("cert.pem", fixture("sound"));
    const key = file("key.pem", fixture("key"));
    const chosen = (more: Record<string, string>) =>
      chooseTelemetry(undefined, { OTEL_EXPORTER_OTLP_ENDPOINT: "https://otel.test", ...more }, warnings);
    warnings.length = 0;
    const none = { maxWaiting: undefined, maxBatch: undefined, packed: undefined, tls: undefined };
    expect(chosen({})).toMatchObject(none);
    expect(
      chosen({
        OTEL_BSP_MAX_QUEUE_SIZE: "2048",
        OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "100",
        OTEL_EXPORTER_OTLP_COMPRESSION: "none",
        OTEL_EXPORTER_OTLP_TRACES_COMPRESSION: "gzip",
        OTEL_EXPORTER_OTLP_CERTIFICATE: "/nowhere",
        OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: ca,
        OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: cert,
        OTEL_EXPORTER_OTLP_CLIENT_KEY: key,
      }),
    ).toMatchObject({
      ...{ maxWaiting: 2048, maxBatch: 100, packed: true },
      tls: { ca: fixture("authority"), cert: fixture("sound"), key: fixture("key") },
    });
    expect(chosen({ OTEL_EXPORTER_OTLP_CERTIFICATE: ca })?.tls).toEqual({ ca: fixture("authority") });
    // A collector with a certificate that everybody knows may ask for one all the same.
    const own = { OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: cert, OTEL_EXPORTER_OTLP_CLIENT_KEY: key };
    expect(chosen(own)?.tls).toEqual({ cert: fixture("sound"), key: fixture("key") });
    expect(warnings).toEqual([]);
    for (const [name, path] of Object.entries(own)) {
      expect(chosen({ [name]: path, OTEL_EXPORTER_OTLP_CERTIFICATE: ca })?.tls).toEqual({ ca: fixture("authority") });
      expect(warnings.splice(0)).toEqual([expect.stringContaining("each needs the other")]);
    }
    const wrong = {
      OTEL_BSP_MAX_QUEUE_SIZE: "0",
      OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "many",
      OTEL_EXPORTER_OTLP_COMPRESSION: "zstd",
      OTEL_EXPORTER_OTLP_CERTIFICATE: join(folder, "nothing.pem"),
      OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: key,
      OTEL_EXPORTER_OTLP_CLIENT_KEY: cert,
    };
    expect(chosen(wrong)).toMatchObject(none);
    expect(warnings.map((sentence) => sentence.split(" ")[0])).toEqual(Object.keys(wrong));
    // One half of what shows who calls shows nothing.
    warnings.length = 0;
    expect(chosen({ OTEL_EXPORTER_OTLP_CLIENT_KEY: key })?.tls).toBeUndefined();
    expect(warnings).toEqual([expect.stringContaining("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE")]);
    rmSync(folder, { recursive: true });
  });
});
