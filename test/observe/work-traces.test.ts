import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toKey } from "../../src/accounts/tokens.ts";
import { createApp } from "../../src/app.ts";
import type { Config } from "../../src/config/load.ts";
import { openStore, type Store } from "../../src/db/open.ts";
import { type Clock, systemClock } from "../../src/lib/clock.ts";
import { silentLog } from "../../src/observe/log.ts";
import type { Span } from "../../src/observe/spans.ts";
import type { TraceSettings } from "../../src/observe/traces.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { endHanging, hang, Painter, paintVendor } from "../jobs/lab.ts";
import { PLAIN_CONFIG, startApp, type TestApp, type TestAppOptions, vendorAt } from "../support/app.ts";
import { manualClock } from "../support/clock.ts";
import { attributesOf, expectTree, readExport } from "../support/otlp.ts";
import { json, neverAnswer, startUpstream } from "../support/upstream.ts";
import { until } from "../support/wait.ts";

// Spans of what is no generation, and of the tools that are run inside of one.

const TRACES = "/v1/traces";
const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";
const INSIDE = { traceparent: `00-${TRACE}-${PARENT}-01` };
const upstream = startUpstream();
const collector = startUpstream();
const apps: TestApp[] = [];

async function traced(
  more: Partial<TraceSettings> = {},
  config: Partial<Config> = {},
  vendors: readonly Vendor[] = [vendorAt(upstream, "chat", "lab")],
  options: Pick<TestAppOptions, "clock" | "store"> = {},
): Promise<TestApp> {
  const traces = { url: `${collector.url}${TRACES}`, headers: {}, serviceName: "gate", ...more };
  const search: Config["search"] = [{ engine: "fixture" }];
  const app = await startApp({
    ...options,
    vendors,
    config: {
      ...PLAIN_CONFIG,
      search,
      web: { fetch: { allow_hosts: [new URL(upstream.url).host] } },
      ...config,
      traces,
    },
  });
  apps.push(app);
  return app;
}

/** All that a gateway has sent, once it has sent all. */
async function spansOf({ app }: Pick<TestApp, "app">): Promise<Span[]> {
  await app.observation.close();
  const spans = collector.calls.flatMap((call) => readExport(call.json));
  expectTree(spans);
  return spans;
}
const said = () => collector.calls.map(({ text }) => text).join("");

beforeEach(() => {
  upstream.reset();
  collector.reset();
  collector.always(TRACES, json({}));
});
afterAll(async () => {
  endHanging();
  for (const app of apps) await app.stop();
  upstream.close();
  collector.close();
});

describe("web tools", () => {
  test("a search is one span inside its client's trace, without query and results", async () => {
    const app = await traced();
    const answer = await app.post("/v1/web/search", { query: "a canary of a query" }, { headers: INSIDE });
    expect(answer.status).toBe(200);
    const [span, ...more] = await spansOf(app);
    expect(more).toEqual([]);
    expect(span).toMatchObject({
      ...{ name: "execute_tool web_search", kind: 2, traceId: TRACE, parentSpanId: PARENT, status: { code: 0 } },
    });
    expect(attributesOf(span)).toEqual({
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "web_search",
      "gen_ai.tool.type": "extension",
      "sluice.request_id": answer.headers.get("x-request-id"),
      "sluice.account": app.accountId,
      "sluice.key": expect.any(String),
      "sluice.dialect": "web",
      "sluice.outcome": "completed",
      "sluice.vendor": "fixture",
      "sluice.attempts": "1",
      "sluice.units": "1",
    });
    expect(said()).not.toContain("canary");
    expect(said()).not.toContain(app.key);
  });

  test("what is refused says why, where a valid key came with it; an answer that is given again is no work", async () => {
    const app = await traced();
    const headers = { "idempotency-key": "once" };
    expect((await app.post("/v1/web/fetch", { urls: [] }, { headers: INSIDE })).status).toBe(400);
    expect((await app.post("/v1/web/search", "{")).status).toBe(400);
    expect((await app.post("/v1/web/search", { query: "q" }, { headers: { authorization: "Bearer no" } })).status).toBe(
      401,
    );
    for (const query of ["q", "q", "r"]) await app.post("/v1/web/search", { query }, { headers });
    expect((await spansOf(app)).map((span) => [span.name, span.status, attributesOf(span)["error.type"]])).toEqual([
      ["execute_tool web_fetch", { code: 2, message: "invalid_request" }, "invalid_request"],
      ["execute_tool web_search", { code: 2, message: "invalid_request" }, "invalid_request"],
      ["execute_tool web_search", { code: 0 }, undefined],
      ["execute_tool web_search", { code: 2, message: "idempotency_key_reused" }, "idempotency_key_reused"],
    ]);
  });

  test("nothing of a trace that is not sampled, by the client or by the sampler", async () => {
    const app = await traced();
    await app.post("/v1/web/search", { query: "q" }, { headers: { traceparent: `00-${TRACE}-${PARENT}-00` } });
    expect(await spansOf(app)).toEqual([]);
    const none = await traced({ sampling: { byParent: true, ratio: 0 } });
    await none.post("/v1/web/search", { query: "q" });
    expect(await spansOf(none)).toEqual([]);
  });
});

describe("MCP", () => {
  const send = (app: TestApp, method: string, params: unknown, headers: Record<string, string> = {}, id: unknown = 7) =>
    app.post("/mcp/web", { jsonrpc: "2.0", id, method, params }, { headers });
  const search = { name: "web_search", arguments: { query: "a canary of a query" } };

  test("a call of a tool is a span by the MCP conventions, below what its message names", async () => {
    const app = await traced();
    const meta = { traceparent: `00-${"c".repeat(32)}-${"d".repeat(16)}-01` };
    const spoken = { "mcp-protocol-version": "2025-06-18" };
    await send(app, "tools/call", { ...search, _meta: meta }, { ...INSIDE, ...spoken });
    await send(app, "tools/call", { ...search, _meta: { traceparent: "none" } }, INSIDE, "text");
    for (const method of ["tools/list", "ping"]) await send(app, method, undefined, INSIDE);
    const [first, second, ...more] = await spansOf(app);
    expect(more).toEqual([]);
    expect(first).toMatchObject({ name: "tools/call web_search", kind: 2, status: { code: 0 } });
    expect([first?.traceId, first?.parentSpanId]).toEqual(["c".repeat(32), "d".repeat(16)]);
    expect(first?.links).toEqual([{ traceId: TRACE, spanId: PARENT }]);
    expect(attributesOf(first)).toMatchObject({
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "web_search",
      "mcp.method.name": "tools/call",
      "mcp.protocol.version": "2025-06-18",
      "jsonrpc.request.id": "7",
      "network.transport": "tcp",
      "sluice.dialect": "mcp",
    });
    expect(second).toMatchObject({ traceId: TRACE, parentSpanId: PARENT });
    expect(second?.links).toBeUndefined();
    expect(attributesOf(second)).not.toHaveProperty(["mcp.protocol.version"]);
    expect(said()).not.toContain("canary");
  });

  test("errors of the protocol by their codes, results that say so as tool_error; what a client makes up is not told", async () => {
    const app = await traced({}, { search: [] });
    await send(app, "tools/call", { name: "a canary of a name", arguments: {} });
    await send(app, "tools/call", { name: "web_search", arguments: { query: 7 } }, {}, "sk-canary-0123456789");
    await send(app, "tools/call", search);
    await send(app, "tools/call", search, { "mcp-protocol-version": "1999-01-01" });
    await send(app, "tools/call", search, { "idempotency-key": "x".repeat(300) });
    await send(app, "tools/call", search, { authorization: "Bearer no" });
    const told = (await spansOf(app)).map((span) => {
      const { "error.type": error, "rpc.response.status_code": code } = attributesOf(span);
      return [span.name, span.status.code, error, code];
    });
    expect(told).toEqual([
      ["tools/call", 2, "-32602", "-32602"],
      ["tools/call web_search", 2, "-32602", "-32602"],
      ["tools/call web_search", 2, "tool_error", undefined],
      ["tools/call web_search", 2, "-32000", "-32000"],
      ["tools/call web_search", 2, "invalid_request", undefined],
    ]);
    expect(said()).not.toContain("canary");
  });

  test("its token in the path is in none", async () => {
    const app = await traced();
    const wish = toKey({ name: "narrow", scopes: ["web"] }, Date.now());
    const { key: token } = await app.app.keys.create({ accountId: app.accountId, ...wish });
    const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: search };
    expect((await app.post(`/mcp/web/t/${token}`, body, { headers: { authorization: "" } })).status).toBe(200);
    expect(await spansOf(app)).toHaveLength(1);
    expect(said()).not.toContain(token);
  });
});

test("nothing of it is kept or told where no endpoint is set", async () => {
  const app = await startApp({ config: { ...PLAIN_CONFIG, search: [{ engine: "fixture" }] } });
  apps.push(app);
  let told = 0;
  app.app.observation.observer.worked = () => void told++;
  expect((await app.post("/v1/web/search", { query: "q" }, { headers: INSIDE })).status).toBe(200);
  expect(told).toBe(0);
  expect(collector.calls).toEqual([]);
});

describe("tools that are run for a model", () => {
  type Wire = Record<string, unknown>;
  const PATH = "/v1/chat/completions";
  const call = (id: string, name: string, input: Wire) => ({
    ...{ id, type: "function", function: { name, arguments: JSON.stringify(input) } },
  });
  const reply = (message: Wire, finish: string) =>
    json({
      ...{ id: "chatcmpl-1", object: "chat.completion", created: 1, model: "m-1" },
      choices: [{ index: 0, message: { role: "assistant", content: null, ...message }, finish_reason: finish }],
      usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
    });
  const ask = {
    ...{ model: "lab/m", max_tokens: 50, messages: [{ role: "user", content: "a canary of a prompt" }] },
    tools: [
      { type: "web_search_20250305", name: "web_search" },
      { type: "web_fetch_20250910", name: "web_fetch" },
    ],
  };
  /** A vendor that runs no web tools itself. */
  const served = () => traced({}, {}, [{ ...vendorAt(upstream, "chat", "lab"), quirks: { webTools: false } }]);

  test("are spans below the generation's own, beside its calls to the vendor", async () => {
    const app = await served();
    upstream.answer(
      PATH,
      reply(
        {
          tool_calls: [
            call("call_1", "web_search", { query: "a canary of a query" }),
            call("sk-canary-0123456789", "web_fetch", { url: `${upstream.url}/a-canary-of-a-page` }),
          ],
        },
        "tool_calls",
      ),
      reply({ content: "a canary of an answer" }, "stop"),
    );
    expect((await app.post("/v1/messages", ask, { headers: INSIDE })).status).toBe(200);
    const spans = await spansOf(app);
    const [own, ...below] = spans;
    expect(spans.map(({ name, kind }) => [name, kind])).toEqual([
      ["chat lab/m", 2],
      ["chat m", 3],
      ["chat m", 3],
      ["execute_tool web_search", 1],
      ["execute_tool web_fetch", 1],
    ]);
    const [first, last, search, page] = below;
    expect(new Set(below.map(({ parentSpanId }) => parentSpanId))).toEqual(new Set([own?.spanId]));
    expect(attributesOf(search)).toEqual({
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "web_search",
      "gen_ai.tool.type": "extension",
      "gen_ai.tool.call.id": "call_1",
    });
    expect(search?.status).toEqual({ code: 0 });
    // There is no such page.
    expect(page?.status).toEqual({ code: 2, message: "not_accessible" });
    const nanos = (...times: (string | undefined)[]) => times.map((time) => Number(time));
    const inTurn = nanos(
      first?.endTimeUnixNano,
      search?.startTimeUnixNano,
      page?.endTimeUnixNano,
      last?.startTimeUnixNano,
    );
    expect(inTurn).toEqual(inTurn.toSorted((one, other) => one - other));
    for (const { endTimeUnixNano } of below) {
      expect(BigInt(endTimeUnixNano)).toBeLessThanOrEqual(BigInt(own?.endTimeUnixNano ?? 0));
    }
    expect(said()).not.toContain("canary");
  });

  test("a round that fails is a call of its own behind the one that went well", async () => {
    const app = await served();
    const search = call("call_1", "web_search", { query: "a canary of a query" });
    const refusal = json({ error: { message: "No", type: "invalid_request_error" } }, { status: 400 });
    upstream.answer(PATH, reply({ tool_calls: [search] }, "tool_calls"), refusal);
    expect((await app.post("/v1/messages", ask, { headers: INSIDE })).status).toBe(400);
    expect((await spansOf(app)).map(({ name, status }) => [name, status])).toEqual([
      ["chat lab/m", { code: 2, message: "invalid_request" }],
      ["chat m", { code: 0 }],
      ["chat m", { code: 2, message: "invalid_request" }],
      ["execute_tool web_search", { code: 0 }],
    ]);
  });

  test("one that is broken off by its client ends with the request, and is no failure", async () => {
    const app = await served();
    upstream.answer(
      PATH,
      reply({ tool_calls: [call("call_1", "web_fetch", { url: `${upstream.url}/slow` })] }, "tool_calls"),
    );
    upstream.always("/slow", neverAnswer());
    const leaving = new AbortController();
    const asked = app.post("/v1/messages", ask, { signal: leaving.signal });
    await upstream.called(1);
    leaving.abort();
    await asked.catch(() => undefined);
    await app.app.running.idle();
    const [own, , tool] = await spansOf(app);
    expect(tool).toMatchObject({ name: "execute_tool web_fetch", status: { code: 0 } });
    expect(tool?.endTimeUnixNano).toBe(own?.endTimeUnixNano ?? "");
    expect(attributesOf(own)["sluice.outcome"]).toBe("client-left");
  });
});

describe("a count of tokens", () => {
  const COUNT = "/v1/messages/count_tokens";
  const body = { model: "claude/m", messages: [{ role: "user", content: "a canary of a prompt" }] };
  const counting = () => traced({}, {}, [vendorAt(upstream, "messages", "claude", { countTokens: true })]);

  test("is a span, and the vendor's own counter another one below it; one that fails is followed by the gateway's", async () => {
    const app = await counting();
    upstream.answer(COUNT, json({ input_tokens: 12 }), json({ error: { message: "No" } }, { status: 500 }));
    for (let asked = 0; asked < 2; asked++) await app.post(COUNT, body, { headers: INSIDE });
    const spans = await spansOf(app);
    expect(spans.map(({ name, kind, status }) => [name, kind, status])).toEqual([
      ["count_tokens claude/m", 2, { code: 0 }],
      ["count_tokens m", 3, { code: 0 }],
      ["count_tokens claude/m", 2, { code: 0 }],
      ["count_tokens m", 3, { code: 2, message: "upstream_error" }],
    ]);
    const [own, call, local, failed] = spans;
    expect([own?.parentSpanId, call?.parentSpanId, failed?.parentSpanId]).toEqual([PARENT, own?.spanId, local?.spanId]);
    expect(attributesOf(own)).toMatchObject({
      "gen_ai.operation.name": "count_tokens",
      "gen_ai.provider.name": "claude",
      "gen_ai.request.model": "claude/m",
      "gen_ai.response.model": "m",
      "gen_ai.usage.input_tokens": "12",
      "sluice.dialect": "messages",
    });
    expect(attributesOf(call)).toMatchObject({ "server.address": "127.0.0.1", "sluice.vendor": "claude" });
    expect(attributesOf(local)).toMatchObject({ "gen_ai.provider.name": "none", "sluice.outcome": "completed" });
    expect(attributesOf(local)).not.toHaveProperty(["gen_ai.response.model"]);
    expect(said()).not.toContain("canary");
  });

  test("is one span where it is refused", async () => {
    const app = await counting();
    await app.post(COUNT, { ...body, model: "nobody/sk-canary-0123456789" });
    await app.post(COUNT, { ...body, messages: [] });
    expect((await spansOf(app)).map(({ name, status: { message } }) => [name, message])).toEqual([
      ["count_tokens nobody/[removed]", "model_not_found"],
      ["count_tokens claude/m", "invalid_request"],
    ]);
    expect(said()).not.toContain("canary");
  });
});

describe("image jobs", () => {
  const IMAGES = "/v1/images/generations";
  const body = { model: "paint/cat", prompt: "a canary of a prompt" };
  const MODELS: Config["models"] = [
    {
      ...{ id: "paint/cat", modality: "image", pricing: { per_image: 0.02 } },
      routes: [
        { vendor: "paint", model: "cat" },
        { vendor: "paint2", model: "cat-too" },
      ],
    },
  ];
  const painted = (
    painter: Painter,
    second = new Painter(),
    { dataFolder = "", ...more }: { clock?: Clock; store?: Store; dataFolder?: string } = {},
  ) => traced({}, { models: MODELS, dataFolder }, [paintVendor("paint", painter), paintVendor("paint2", second)], more);
  const stateOf = ({ store }: Pick<TestApp, "store">, id: string) =>
    (store.database.query("SELECT state FROM image_job WHERE id = ?").get(id) as { state: string }).state;
  type Made = { id: string; status: string };
  const make = async (app: TestApp, headers: Record<string, string> = {}) =>
    (await (await app.post(IMAGES, body, { headers: { ...INSIDE, prefer: "wait=30", ...headers } })).json()) as Made;

  test("each is one span, from the order to the image, with its calls to vendors below it", async () => {
    const clock = manualClock();
    const painter = new Painter();
    painter.create_ = [{ kind: "failed", message: "a canary of an error", ran: "no", retryAfterSeconds: 1 }];
    const app = await painted(painter, new Painter(), { clock });
    const { id } = await make(app, { prefer: "" });
    for (let turn = 0; turn < 40 && stateOf(app, id) !== "succeeded"; turn++) await clock.advance(1_000);
    expect(stateOf(app, id)).toBe("succeeded");
    const spans = await spansOf(app);
    const [own, busy, call] = spans;
    expect(spans.map(({ name, kind, status }) => [name, kind, status])).toEqual([
      ["image_generation paint/cat", 2, { code: 0 }],
      ["image_generation cat", 3, { code: 2, message: "upstream_error" }],
      ["image_generation cat-too", 3, { code: 0 }],
    ]);
    expect(own).toMatchObject({ traceId: TRACE, parentSpanId: PARENT });
    expect([busy?.parentSpanId, call?.parentSpanId]).toEqual([own?.spanId, own?.spanId]);
    expect(attributesOf(own)).toEqual({
      "gen_ai.operation.name": "image_generation",
      "gen_ai.provider.name": "paint2",
      "gen_ai.request.model": "paint/cat",
      "gen_ai.response.model": "cat-too",
      "gen_ai.output.type": "image",
      "sluice.request_id": expect.stringMatching(/^req_/),
      "sluice.job_id": id,
      "sluice.account": app.accountId,
      "sluice.key": expect.any(String),
      "sluice.dialect": "images",
      "sluice.outcome": "completed",
      "sluice.vendor": "paint2",
      "sluice.attempts": "1",
    });
    expect(attributesOf(call)).toMatchObject({ "server.address": "paint.invalid", "sluice.vendor": "paint2" });
    expect(said()).not.toContain("canary");
  });

  test("one that fails, is blocked or is cancelled is told once, as what it was", async () => {
    const painter = new Painter();
    const hanging = hang();
    painter.create_ = [
      { kind: "blocked", message: "No." },
      { kind: "failed", message: "No.", ran: "maybe" },
      hanging.script,
    ];
    const app = await painted(painter);
    for (const status of ["blocked", "failed"]) expect((await make(app)).status).toBe(status);
    const { id } = await make(app, { prefer: "" });
    await until(() => painter.running === 1, "the third call");
    const authorization = `Bearer ${app.key}`;
    expect((await app.call(`${IMAGES}/${id}`, { method: "DELETE", headers: { authorization } })).status).toBe(200);
    await hanging.aborted;
    const spans = await spansOf(app);
    expect(spans.map((span) => [span.kind, span.status.message, attributesOf(span)["sluice.outcome"]])).toEqual([
      [2, "content_policy", "blocked"],
      [3, "content_policy", undefined],
      [2, "upstream_error", "failed"],
      [3, "upstream_error", undefined],
      [2, undefined, "cancelled"],
      [3, undefined, undefined],
    ]);
    for (const span of spans) expect(attributesOf(span)).not.toHaveProperty(["gen_ai.response.model"]);
  });

  test("an order that is refused is one span; one that is given the same answer again is none", async () => {
    const app = await painted(new Painter());
    for (const more of [{ model: "nobody/sk-canary-0123456789" }, { size: "huge" }]) {
      await app.post(IMAGES, { ...body, ...more }, { headers: INSIDE });
    }
    const first = await make(app, { "idempotency-key": "once" });
    expect((await make(app, { "idempotency-key": "once" })).id).toBe(first.id);
    await app.post(IMAGES, body, { headers: { traceparent: `00-${TRACE}-${PARENT}-00`, prefer: "wait=30" } });
    const spans = await spansOf(app);
    expect(spans.map(({ name, parentSpanId, status }) => [name, parentSpanId === PARENT, status.message])).toEqual([
      ["image_generation nobody/[removed]", true, "model_not_found"],
      ["image_generation paint/cat", true, "invalid_request"],
      ["image_generation paint/cat", true, undefined],
      ["image_generation cat", false, undefined],
    ]);
    expect(said()).not.toContain("canary");
  });

  test("one that goes on after a restart is a trace of its own, from its order on", async () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-traces-"));
    const open = () => openStore(join(folder, "sluice.db"), { waitMs: 2_000 });
    const painter = new Painter("resume");
    painter.create_ = [{ kind: "pending", resumeId: "work-1", pollAfterMs: 60_000 }];
    const before = await painted(painter, undefined, { store: open(), dataFolder: folder });
    const { id } = await make(before, { prefer: "" });
    await until(() => painter.creates.length === 1, "the call");
    apps.splice(apps.indexOf(before), 1);
    await before.stop();
    expect(collector.calls).toEqual([]);
    const traces = { url: `${collector.url}${TRACES}`, headers: {}, serviceName: "gate" };
    const config = { ...PLAIN_CONFIG, dataFolder: folder, models: MODELS, traces };
    const vendors = [paintVendor("paint", painter)];
    const store = open();
    const app = createApp({ config, vendors, store, clock: systemClock, log: silentLog, version: "0.0.0-test" });
    await until(() => stateOf({ store }, id) === "succeeded", "the end");
    const [own, call] = await spansOf({ app });
    expect(own).toMatchObject({ name: "image_generation paint/cat", status: { code: 0 } });
    expect(own?.parentSpanId).toBeUndefined();
    expect(attributesOf(own)).toMatchObject({ "sluice.job_id": id, "sluice.outcome": "completed" });
    expect(attributesOf(own)).not.toHaveProperty(["sluice.request_id"]);
    expect(call).toMatchObject({ name: "image_generation cat", parentSpanId: own?.spanId ?? "" });
    await app.stop();
    store.close();
    rmSync(folder, { recursive: true });
  });
});
