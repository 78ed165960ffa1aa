import { afterAll, beforeEach, describe, expect, setSystemTime, spyOn, test } from "bun:test";
import { Accounts } from "../../src/accounts/accounts.ts";
import { openStore } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { systemClock } from "../../src/lib/clock.ts";
import { Histogram, writeFigures } from "../../src/observe/figures.ts";
import { silentLog } from "../../src/observe/log.ts";
import { LOOK_EVERY_MS, LoopLag } from "../../src/observe/loop-lag.ts";
import { collectProcess } from "../../src/observe/process-figures.ts";
import type { RequestFacts } from "../../src/observe/request-facts.ts";
import { MAX_SERIES, MAX_UNPROVEN, RequestFigures } from "../../src/observe/request-figures.ts";
import { type RunningServer, startServer } from "../../src/server.ts";
import { PLAIN_CONFIG, startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, neverAnswer, sse, startUpstream } from "../support/upstream.ts";

const PATH = "/v1/chat/completions";
const upstream = startUpstream();
const apps: TestApp[] = [];

async function appWith(...options: Parameters<typeof startApp>): Promise<TestApp> {
  const app = await startApp(...options);
  app.app.services.pause = () => Promise.resolve();
  apps.push(app);
  return app;
}
const read = async (app: TestApp) => (await app.call("/metrics")).text();
/** The value of one line. */
const figureOf = (text: string, line: string) => {
  const found = text.split("\n").find((one) => one.startsWith(`${line} `));
  return found === undefined ? undefined : Number(found.slice(line.length + 1));
};
const REPLY = {
  choices: [{ index: 0, message: { role: "assistant", content: "Yes" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18, prompt_tokens_details: { cached_tokens: 4 } },
};
const say = (app: TestApp, more: object = {}) =>
  app.post(PATH, { model: "lab/m", messages: [{ role: "user", content: "Hi" }], ...more });

beforeEach(() => upstream.reset());
afterAll(async () => {
  for (const app of apps) await app.stop();
  upstream.close();
});

/** What every line of the text format must look like. */
const LINE =
  /^(?:# HELP [a-z_]+ .+|# TYPE [a-z_]+ (?:counter|gauge|summary|histogram)|[a-z_]+(?:\{[a-z_0-9]+="(?:[^"\\\n]|\\.)*"(?:,[a-z_0-9]+="(?:[^"\\\n]|\\.)*")*\})? (?:[-+.\de]+|\+Inf|NaN))$/;

describe("GET /metrics", () => {
  test("is Prometheus text, every figure announced once and every name in its unit", async () => {
    const app = await appWith({ vendors: [vendorAt(upstream, "chat", "lab")] });
    upstream.always(PATH, json(REPLY));
    await say(app);
    const response = await app.call("/metrics");
    expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    const text = await response.text();
    const lines = text.trimEnd().split("\n");
    expect(lines.filter((line) => !LINE.test(line))).toEqual([]);
    const types = lines.filter((line) => line.startsWith("# TYPE"));
    expect(new Set(types).size).toBe(types.length);
    for (const line of types) if (line.endsWith(" counter")) expect(line).toContain("_total ");
    expect(text).not.toContain("vendor-key-of");
    expect(text).not.toContain(app.accountId);
  });

  test("counts requests, tokens, cost, attempts, errors; nothing stays in flight", async () => {
    const app = await appWith({
      vendors: [vendorAt(upstream, "chat", "lab")],
      models: [{ id: "lab/m", pricing: { input: 1, output: 2 } }],
    });
    upstream.answer(PATH, json({ error: { message: "No" } }, { status: 503 }), json(REPLY), json(REPLY));
    expect((await say(app)).status).toBe(200);
    await (await say(app)).text();
    upstream.answer(PATH, json({ error: { message: "No" } }, { status: 400 }));
    expect((await say(app)).status).toBe(400);
    expect((await say(app, { model: "nobody/x" })).status).toBe(404);
    // Of generations alone, as their texts say.
    expect((await app.post("/v1/images/generations", {})).status).toBe(400);
    expect((await app.post("/v1/web/search", {})).status).toBe(400);
    const text = await read(app);
    for (const name of ["sluice_requests_total", "sluice_errors_total", "sluice_upstream_attempts_total"]) {
      expect(text).toMatch(new RegExp(`# HELP ${name} .*\\b[Gg]enerations\\b`));
    }
    const of = 'dialect="chat",vendor="lab",model="lab/m"';
    expect(figureOf(text, `sluice_requests_total{${of},outcome="completed"}`)).toBe(2);
    expect(figureOf(text, `sluice_requests_total{${of},outcome="refused"}`)).toBe(1);
    expect(figureOf(text, `sluice_tokens_total{${of},kind="input"}`)).toBe(14);
    expect(figureOf(text, `sluice_tokens_total{${of},kind="cache_read"}`)).toBe(8);
    expect(figureOf(text, `sluice_tokens_total{${of},kind="output"}`)).toBe(14);
    expect(figureOf(text, `sluice_cost_usd_total{${of}}`)).toBeCloseTo(2 * (11 * 1e-6 + 7 * 2e-6), 9);
    expect(figureOf(text, 'sluice_upstream_attempts_total{vendor="lab",outcome="served"}')).toBe(2);
    expect(figureOf(text, 'sluice_upstream_attempts_total{vendor="lab",outcome="upstream_overloaded"}')).toBe(1);
    expect(figureOf(text, 'sluice_errors_total{code="invalid_request"}')).toBe(1);
    expect(figureOf(text, 'sluice_errors_total{code="model_not_found"}')).toBe(1);
    expect(figureOf(text, `sluice_request_duration_seconds_count{${of}}`)).toBe(3);
    expect(figureOf(text, "sluice_upstream_in_flight")).toBe(0);
    expect(figureOf(text, "sluice_requests_running")).toBe(0);
    expect(figureOf(text, "sluice_store_commits_total")).toBeGreaterThan(0);
    expect(figureOf(text, "sluice_store_commit_seconds_total")).toBeGreaterThanOrEqual(0);
    expect(figureOf(text, 'sluice_upstream_connections{state="busy"}')).toBe(0);
    expect(figureOf(text, "sluice_upstream_connections_opened_total")).toBeGreaterThan(0);
    expect(figureOf(text, 'sluice_event_loop_lag_seconds{quantile="0.99"}')).toBeGreaterThanOrEqual(0);
    expect(figureOf(text, 'sluice_event_loop_delay_seconds_bucket{le="0.02"}')).toBeGreaterThanOrEqual(0);
  });

  test("a call that the gateway breaks off as it stops is not one that its vendor failed", async () => {
    const app = await appWith({ vendors: [vendorAt(upstream, "chat", "lab")] });
    upstream.answer(PATH, neverAnswer());
    const asked = say(app);
    await upstream.called();
    app.app.hurry();
    expect((await asked).status).toBe(503);
    const text = await read(app);
    expect(figureOf(text, 'sluice_upstream_attempts_total{vendor="lab",outcome="interrupted"}')).toBe(1);
    expect(
      figureOf(text, 'sluice_upstream_attempts_total{vendor="lab",outcome="upstream_overloaded"}'),
    ).toBeUndefined();
  });

  test("counts that a vendor cannot mean are in the figures as they are in the usage", async () => {
    const app = await appWith({
      vendors: [vendorAt(upstream, "chat", "lab")],
      models: [{ id: "lab/m", context_length: 1_000, pricing: { input: 1, output: 2 } }],
    });
    const usage = { prompt_tokens: 70_000_000, completion_tokens: 7, total_tokens: 70_000_007 };
    upstream.answer(PATH, json({ ...REPLY, usage }));
    await (await say(app)).text();
    const text = await read(app);
    const of = 'dialect="chat",vendor="lab",model="lab/m"';
    expect(app.rows()).toMatchObject([{ input: 2_000, output: 7, costNano: 2_014_000n }]);
    expect(figureOf(text, `sluice_tokens_total{${of},kind="input"}`)).toBe(2_000);
    expect(figureOf(text, `sluice_cost_usd_total{${of}}`)).toBeCloseTo(0.002014, 9);
  });

  test("a call whose stream broke off was not served, though its request had no other", async () => {
    const app = await appWith({ vendors: [vendorAt(upstream, "chat", "lab")] });
    const chunk = { choices: [{ index: 0, delta: { role: "assistant", content: "Ye" } }] };
    upstream.answer(PATH, sse(`data: ${JSON.stringify(chunk)}\n\n`));
    expect(await (await say(app, { stream: true })).text()).toContain("stream_truncated");
    await app.app.running.idle();
    const text = await read(app);
    expect(figureOf(text, 'sluice_upstream_attempts_total{vendor="lab",outcome="stream_truncated"}')).toBe(1);
    expect(figureOf(text, 'sluice_upstream_attempts_total{vendor="lab",outcome="served"}')).toBeUndefined();
  });

  test("a call that ends with its client's key is no failure of the vendor's", async () => {
    const app = await appWith({ vendors: [vendorAt(upstream, "chat", "lab")] });
    const chunk = { choices: [{ index: 0, delta: { role: "assistant", content: "Ye" } }] };
    upstream.answer(PATH, sse([`data: ${JSON.stringify(chunk)}\n\n`], { finish: "silence" }));
    const response = await say(app, { stream: true });
    await app.app.keys.revoke(app.app.keys.list()[0]?.id ?? "");
    expect(await response.text()).toContain("invalid_api_key");
    await app.app.running.idle();
    const attempts = (await read(app)).split("\n").filter((line) => line.startsWith("sluice_upstream_attempts_total"));
    expect(attempts).toEqual(['sluice_upstream_attempts_total{vendor="lab",outcome="client-left"} 1']);
  });

  test("a vendor that a reload has taken out keeps its counts, and fails no more", async () => {
    const vendor = vendorAt(upstream, "chat", "lab");
    const app = await appWith({ vendors: [vendor] });
    upstream.always(PATH, json({ error: { message: "no" } }, { status: 500 }));
    await (await say(app)).text();
    const text = await read(app);
    const failed = figureOf(text, 'sluice_vendor_calls_total{vendor="lab",result="failed"}');
    expect(failed).toBeGreaterThan(0);
    expect(figureOf(text, 'sluice_vendor_failing{vendor="lab"}')).toBe(1);
    app.app.reload({ config: PLAIN_CONFIG, vendors: [] });
    const later = await read(app);
    expect(figureOf(later, 'sluice_vendor_calls_total{vendor="lab",result="failed"}')).toBe(failed);
    expect(figureOf(later, 'sluice_vendor_failing{vendor="lab"}')).toBeUndefined();
  });

  test("names breakers that are open", async () => {
    const app = await appWith({ vendors: [vendorAt(upstream, "chat", "lab")] });
    upstream.always(PATH, json({ error: { message: "No" } }, { status: 500 }));
    for (let count = 0; count < 5; count++) await say(app);
    // A key that somebody gives as a model is not shown, and names that look the same without it are one.
    for (let count = 0; count < 5; count++) {
      for (const end of ["a", "b"]) await say(app, { model: `lab/sk-canary-0123456789${end}` });
    }
    const text = await read(app);
    expect(text).not.toContain("canary");
    expect(text.split('sluice_breaker_open{way="lab#1/[removed]"} 1\n')).toHaveLength(2);
    expect(figureOf(text, "sluice_breakers_open")).toBe(3);
    expect(figureOf(text, 'sluice_breaker_open{way="lab#1/m"}')).toBe(1);
    expect(figureOf(text, 'sluice_vendor_calls_total{vendor="lab",result="failed"}')).toBe(15);
  });
});

describe("who may read them", () => {
  test("this machine without a key; through a proxy, or from elsewhere, an admin key only", async () => {
    const store = openStore(":memory:");
    const config = { ...PLAIN_CONFIG, server: { ...PLAIN_CONFIG.server, allowedHosts: ["gateway.example.com"] } };
    const settings = { config, vendors: [], store, clock: systemClock, log: silentLog, version: "0" };
    const server: RunningServer = await startServer({ ...settings, host: "127.0.0.1", port: 0 });
    const writer = new Writer(store);
    const made = await new Accounts(store, writer, server.app.keys).ensureLocal();
    const admin = await server.app.keys.create({ accountId: made?.account.id ?? "", kind: "admin", name: "operator" });
    const statusOf = async (headers: Record<string, string>) => {
      const response = await fetch(`${server.url}/metrics`, { headers });
      await response.text();
      return response.status;
    };
    const proxied = { "x-forwarded-for": "203.0.113.9" };
    expect(await statusOf({})).toBe(200);
    expect(await statusOf(proxied)).toBe(401);
    // A proxy on this machine that writes no header of its own: HAProxy without `option forwardfor`, Envoy as it comes.
    expect(await statusOf({ host: "gateway.example.com" })).toBe(401);
    expect(await statusOf({ host: "localhost:9090" })).toBe(200);
    // Whoever asks for this machine's own name through Envoy, which writes this alone.
    expect(await statusOf({ host: "localhost", "x-forwarded-proto": "http" })).toBe(401);
    expect(await statusOf({ ...proxied, authorization: `Bearer ${made?.key.key}` })).toBe(403);
    expect(await statusOf({ ...proxied, authorization: `Bearer ${admin.key}` })).toBe(200);
    expect((await fetch(`${server.url}/metrics`, { method: "POST" })).status).toBe(405);
    await writer.close();
    await server.stop();
    store.close();
  });
});

const FACTS: RequestFacts = {
  ...{ requestId: "req_1", accountId: "acc", keyId: "key", dialect: "chat", stream: false, model: "m", vendor: "v" },
  ...{ upstreamModel: "u", outcome: "completed", error: undefined, finish: "stop", tried: 1, attempts: [] },
  ...{ lastAttemptMs: 0, lastKey: 0 },
  ...{ startedAt: 0, durationMs: 5, firstTokenMs: 1, costNano: undefined, traceparent: undefined },
  usage: { input: 1, cacheRead: 0, cacheWrite: 0, output: 1, reasoning: 0 },
};

describe("figures", () => {
  test("are bounded, whatever models are called", () => {
    const figures = new RequestFigures();
    for (let count = 0; count < 3 * MAX_SERIES; count++) {
      figures.began();
      figures.ended({ ...FACTS, model: `model "${count}"\n` });
    }
    const samples = figures.collect().find(({ name }) => name === "sluice_requests_total")?.samples ?? [];
    expect(samples).toHaveLength(MAX_SERIES + 1);
    expect(samples.at(-1)).toEqual({
      labels: { dialect: "chat", vendor: "other", model: "other", outcome: "completed" },
      value: 2 * MAX_SERIES,
    });
    expect(figures.upstream).toBe(0);
    const lines = writeFigures(figures.collect()).trimEnd().split("\n");
    expect(lines.filter((line) => !LINE.test(line))).toEqual([]);
  });

  test("names that no vendor answered for do not use up the room of those that are called", () => {
    const figures = new RequestFigures();
    for (let count = 0; count < 3 * MAX_SERIES; count++) {
      figures.began();
      figures.ended({ ...FACTS, model: `guessed/${count}`, outcome: "refused", error: "upstream_error" });
    }
    figures.began();
    figures.ended({ ...FACTS, model: "lab/real" });
    const samples = figures.collect().find(({ name }) => name === "sluice_requests_total")?.samples ?? [];
    expect(samples).toHaveLength(MAX_UNPROVEN + 2);
    expect(samples.find(({ labels }) => labels?.["model"] === "lab/real")?.value).toBe(1);
    expect(samples.reduce((sum, { value }) => sum + value, 0)).toBe(3 * MAX_SERIES + 1);
  });

  test("a histogram is cumulative", () => {
    const histogram = new Histogram([1, 2]);
    for (const value of [0.5, 1, 1.5, 9]) histogram.observe(value);
    expect(histogram.samples({}).map(({ suffix, labels, value }) => [suffix, labels?.["le"], value])).toEqual([
      ["_bucket", 1, 2],
      ["_bucket", 2, 3],
      ["_bucket", "+Inf", 4],
      ["_sum", undefined, 12],
      ["_count", undefined, 4],
    ]);
  });

  test("a process that may open no further file tells its memory as it was last known, and all else as it is", () => {
    const figures = () =>
      new Map(collectProcess("1", new LoopLag(() => 0)).map(({ name, samples }) => [name, samples]));
    const before = figures();
    const fail = () => {
      throw new Error("Failed to get memory usage");
    };
    const broken = spyOn(process, "memoryUsage").mockImplementation(Object.assign(fail, { rss: fail }));
    try {
      const after = figures();
      expect([...after.keys()]).toEqual([...before.keys()]);
      for (const name of ["process_resident_memory_bytes", "sluice_heap_used_bytes"]) {
        expect(after.get(name)).toEqual(before.get(name) ?? []);
        expect(after.get(name)?.[0]?.value).toBeGreaterThan(0);
      }
    } finally {
      broken.mockRestore();
    }
  });

  test("a process has started once, whatever the clock is set to", () => {
    const started = () =>
      collectProcess("1", new LoopLag(() => 0)).find(({ name }) => name === "process_start_time_seconds")?.samples[0]
        ?.value;
    const before = started();
    expect(before).toBeCloseTo(Date.now() / 1_000 - process.uptime(), -1);
    setSystemTime(new Date(Date.now() + 3_600_000));
    expect(started()).toBe(before);
    setSystemTime();
  });

  test("the loop's lag is how late a look comes", () => {
    let now = 0;
    const lag = new LoopLag(() => now);
    lag.start();
    for (let count = 0; count < 100; count++) {
      now += LOOK_EVERY_MS + (count === 50 ? 80 : 1);
      lag.look();
    }
    lag.stop();
    expect(lag.read()).toEqual({ median: 1, p99: 80, worst: 80 });
  });
});
