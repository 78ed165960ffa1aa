import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { chooseTelemetry } from "../../src/config/telemetry.ts";
import { readTraceparent, type Span, toSpans } from "../../src/observe/spans.ts";
import { PLAIN_CONFIG, startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, neverAnswer, startUpstream } from "../support/upstream.ts";

const PATH = "/v1/chat/completions";
const TRACES = "/v1/traces";
const upstream = startUpstream();
const collector = startUpstream();
const apps: TestApp[] = [];

async function traced(): Promise<TestApp> {
  const traces = { url: `${collector.url}${TRACES}`, headers: { "x-token": "trace-token" }, serviceName: "gate" };
  const app = await startApp({ vendors: [vendorAt(upstream, "chat", "lab")], config: { ...PLAIN_CONFIG, traces } });
  app.app.services.pause = () => Promise.resolve();
  apps.push(app);
  return app;
}
const REPLY = {
  choices: [{ index: 0, message: { role: "assistant", content: "a canary of an answer" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 },
};
const say = async (app: TestApp, headers: Record<string, string> = {}) =>
  (
    await app.post(PATH, { model: "lab/m", messages: [{ role: "user", content: "a canary of a prompt" }] }, { headers })
  ).text();

type Sent = { resourceSpans: { resource: { attributes: unknown[] }; scopeSpans: { spans: Span[] }[] }[] };
const spansOf = () =>
  collector.calls.flatMap((call) =>
    (call.json as Sent).resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)),
  );
const attributesOf = (span: Span | undefined) =>
  Object.fromEntries((span?.attributes ?? []).map(({ key, value }) => [key, Object.values(value)[0] as unknown]));

beforeEach(() => {
  upstream.reset();
  collector.reset();
  collector.always(TRACES, json({}));
});
afterAll(async () => {
  for (const app of apps) await app.stop();
  upstream.close();
  collector.close();
});

describe("traces", () => {
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
    expect([own?.status.code, first?.status, second?.status.code]).toEqual([
      1,
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
    // Of a stream only (GenAI conventions).
    expect(attributesOf(own)).not.toHaveProperty(["gen_ai.response.time_to_first_chunk"]);
    for (const span of spans) {
      expect(span.spanId).toMatch(/^[0-9a-f]{16}$/);
      expect(BigInt(span.endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(span.startTimeUnixNano));
    }
    expect(collector.calls[0]?.headers["x-token"]).toBe("trace-token");
    expect(collector.calls.map(({ text }) => text).join("")).not.toContain("canary");
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
    expect(spansOf().map(({ status }) => status)).toEqual([{ code: 1 }, { code: 0 }]);
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

test("vendors go by the names that the conventions have for them", () => {
  const facts = {
    ...{
      requestId: "req_1",
      accountId: "acc",
      keyId: "key",
      dialect: "chat",
      stream: true,
      model: "m",
      finish: "stop",
    },
    ...{ upstreamModel: "u", outcome: "completed", error: undefined, tried: 1, attempts: [], lastAttemptMs: 0 },
    ...{
      startedAt: 0,
      durationMs: 5,
      firstTokenMs: 250,
      usage: undefined,
      costNano: undefined,
      traceparent: undefined,
    },
  } as const;
  const [own, call] = toSpans({ ...facts, vendor: "xai" });
  for (const span of [own, call]) expect(attributesOf(span)["gen_ai.provider.name"]).toBe("x_ai");
  expect(attributesOf(call)["sluice.vendor"]).toBe("xai");
  expect(attributesOf(own)["gen_ai.response.time_to_first_chunk"]).toBe(0.25);
  for (const vendor of ["lab", "constructor", "openai"]) {
    expect(attributesOf(toSpans({ ...facts, vendor })[0])["gen_ai.provider.name"]).toBe(vendor);
  }
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
    `00-${trace.toUpperCase()}-${span}-01`,
  ]) {
    expect(readTraceparent(bad)).toBeUndefined();
  }
});

describe("where traces go", () => {
  const warnings: string[] = [];
  test("the variables of OpenTelemetry, and the file above them", () => {
    const base = {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://otel.test:4318/",
      OTEL_EXPORTER_OTLP_HEADERS: "api-key=a%20b, bad, x=1",
    };
    expect(chooseTelemetry(undefined, base, warnings)).toEqual({
      url: "http://otel.test:4318/v1/traces",
      headers: { "api-key": "a b", x: "1" },
      serviceName: "sluice",
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
  });

  test("nowhere without an endpoint, or when they are switched off", () => {
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://otel.test" };
    expect(chooseTelemetry(undefined, {}, warnings)).toBeUndefined();
    expect(chooseTelemetry(undefined, { ...endpoint, OTEL_SDK_DISABLED: "true" }, warnings)).toBeUndefined();
    expect(chooseTelemetry(undefined, { ...endpoint, OTEL_TRACES_EXPORTER: "none" }, warnings)).toBeUndefined();
    expect(warnings).toEqual([]);
    expect(chooseTelemetry(undefined, { OTEL_EXPORTER_OTLP_ENDPOINT: "otel:4317" }, warnings)).toBeUndefined();
    expect(warnings).toEqual([expect.stringContaining("OTEL_EXPORTER_OTLP_ENDPOINT expected a URL")]);
    expect(() => chooseTelemetry({ otlp_endpoint: "http://a b" }, {}, warnings)).toThrow("telemetry.otlp_endpoint");
  });
});
