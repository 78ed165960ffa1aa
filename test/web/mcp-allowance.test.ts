import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { openStore } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { KeySpend } from "../../src/limits/key-spend.ts";
import { givenExecutable } from "../support/binary.ts";
import { insideOnly } from "../support/black-box-config.ts";
import { neverAnswer, startUpstream } from "../support/upstream.ts";
import { until } from "../support/wait.ts";
import { DAY_END, type Json, type McpLab, request, startMcpLab, type Tenant } from "./mcp-lab.ts";

const CENT = 10_000_000n;

let lab: McpLab;
beforeEach(async () => {
  lab = await startMcpLab();
});
afterEach(() => lab.stop());

/** Searches, each for something else, at a pace that no plan minds. */
async function searchOften(tenant: Tenant, times: number): Promise<void> {
  for (let at = 0; at < times; at++) {
    const { isError, content } = await lab.call(
      "web_search",
      { query: `${tenant.id} ${at}`, max_results: 1 },
      tenant.key,
    );
    expect([isError, isError ? content[0]?.text : ""]).toEqual([false, ""]);
    await lab.clock.advance(15_000);
  }
}

const urlsOf = (...names: string[]) => names.map((name) => `${lab.page}/${name}`);
const rowsOf = ({ id }: Tenant) => lab.gateway.rows().filter(({ accountId }) => accountId === id);
const usedOf = ({ id }: Tenant) => lab.gateway.app.book.allowance(id, "web", 20).used;
const balanceOf = ({ id }: Tenant) => lab.gateway.app.book.balance(id);

async function account({ key }: Tenant): Promise<Json> {
  const response = await lab.gateway.call("/v1/account", { headers: { authorization: `Bearer ${key}` } });
  return (await response.json()) as Json;
}

/** Asks a standalone tool. */
async function rest(key: string, path: string, body: unknown, headers: Record<string, string> = {}) {
  const response = await lab.gateway.post(path, body, { headers: { authorization: `Bearer ${key}`, ...headers } });
  return { status: response.status, headers: response.headers, body: (await response.json()) as Json };
}

describe("the day's allowance (interface 8)", () => {
  test("free: 20 calls over both ways, then none without money; the next UTC day they begin anew", async () => {
    const tenant = await lab.tenant("free");
    await searchOften(tenant, 18);
    expect((await rest(tenant.key, "/v1/web/search", { query: "rest" })).status).toBe(200);
    await lab.clock.advance(15_000);
    const last = await lab.call("web_search", { query: "last" }, tenant.key);
    const usage = last._meta["sluice/usage"];
    expect(usage).toMatchObject({
      plan: "free",
      day: { limit: 20, used: 20, remaining: 0, resets_at: DAY_END },
      concurrent: { limit: 2 },
      overage: { usd_per_call: 0.01 },
    });
    expect((await account(tenant))["allowances"]).toMatchObject({ web: usage.day });
    await lab.clock.advance(60_000);
    const { content, isError, structuredContent } = await lab.call("web_search", { query: "over" }, tenant.key);
    expect(isError).toBe(true);
    expect(content).toHaveLength(1);
    const { text } = content[0]!;
    expect(text).toBe(
      `The 20 web calls that plan free includes a day are used up, and the wallet does not pay 0.01 USD a call for more; they begin anew at ${DAY_END}.`,
    );
    expect(structuredContent).toMatchObject({ error: { code: "insufficient_quota", reset_at: DAY_END } });
    const refused = await rest(tenant.key, "/v1/web/search", { query: "over" });
    expect([refused.status, refused.headers.get("x-should-retry")]).toEqual([402, "false"]);
    expect(refused.body).toMatchObject({ error: { code: "insufficient_quota", message: text } });
    expect(rowsOf(tenant)).toHaveLength(20);
    expect(rowsOf(tenant).filter(({ dialect }) => dialect === "web")).toHaveLength(1);
    lab.clock.setWall(Date.parse(DAY_END));
    expect((await lab.call("web_search", { query: "anew" }, tenant.key)).isError).toBe(false);
    expect(usedOf(tenant)).toBe(1);
  });

  test("a refusal says how it stood when it was refused, whatever others give back a moment later", async () => {
    insideOnly("the moment behind a refusal");
    const { id: accountId, key } = await lab.tenant("free");
    const { app, store } = lab.gateway;
    const { book } = app;
    const order = {
      accountId,
      keyId: "key_other",
      kind: "web",
      units: 20,
      freeUnits: 20,
      unitNano: undefined,
    } as const;
    await new Writer(store, lab.clock).run(() => book.claimUnits({ ...order, claimId: "others" }));
    const claim = book.claimUnits.bind(book);
    book.claimUnits = (wanted) => {
      // Behind the refusal, and before whoever asked hears of it.
      queueMicrotask(() => book.giveBackUnits("others"));
      return claim(wanted);
    };
    const { content, isError } = await lab.call("web_search", { query: "over" }, key);
    expect([isError, content[0]?.text]).toEqual([
      true,
      `The 20 web calls that plan free includes a day are used up, and the wallet does not pay 0.01 USD a call for more; they begin anew at ${DAY_END}.`,
    ]);
    expect(book.allowance(accountId, "web", 20).used).toBe(0);
  });

  test("calls that could not be written down are given back once the store takes writes again, and not only with the next start", async () => {
    const tenant = await lab.tenant("free", "0.05");
    await searchOften(tenant, 19);
    const { database } = lab.gateway.store;
    const { claimUnits } = lab.gateway.app.book;
    lab.gateway.app.book.claimUnits = (order) => {
      // Its claim is written, and nothing behind it.
      queueMicrotask(() => database.run("PRAGMA query_only = ON"));
      return claimUnits.call(lab.gateway.app.book, order);
    };
    // One that brought something and could not be counted, one free and one paid; nobody is told that it did.
    expect((await rest(tenant.key, "/v1/web/fetch", { urls: urlsOf("a", "b") })).status).toBe(503);
    expect([usedOf(tenant), balanceOf(tenant).heldNano]).toEqual([20, CENT]);
    await lab.clock.advance(2_000);
    expect([usedOf(tenant), balanceOf(tenant).heldNano]).toEqual([20, CENT]);
    database.run("PRAGMA query_only = OFF");
    await lab.clock.advance(2_000);
    expect([usedOf(tenant), balanceOf(tenant)]).toEqual([
      19,
      { postedNano: 5n * CENT, heldNano: 0n, availableNano: 5n * CENT },
    ]);
    expect(rowsOf(tenant)).toHaveLength(19);
  });

  test("a call whose claim cannot be written down is told as a fault of the gateway, not as an allowance that is used up", async () => {
    const tenant = await lab.tenant("free");
    const { database } = lab.gateway.store;
    database.run("CREATE TRIGGER full BEFORE INSERT ON unit_claim BEGIN SELECT RAISE(ABORT, 'no room'); END");
    const ask = () => rest(tenant.key, "/v1/web/search", { query: "claim" });
    expect(await ask()).toMatchObject({ status: 500, body: { error: { code: "internal_error" } } });
    database.run("DROP TRIGGER full");
    expect((await ask()).status).toBe(200);
    expect(usedOf(tenant)).toBe(1);
  });

  test("a plan that does not pay as it goes: 429 allowance_exhausted, never the wallet", async () => {
    const tenant = await lab.tenant("pro", "5");
    for (let at = 0; at < 10; at++) {
      const urls = urlsOf(...Array.from({ length: 10 }, (_, page) => `${at}-${page}`));
      expect((await rest(tenant.key, "/v1/web/fetch", { urls })).status).toBe(200);
      await lab.clock.advance(60_000);
    }
    const { content, isError } = await lab.call("web_search", { query: "over" }, tenant.key);
    expect([isError, content[0]?.text]).toEqual([
      true,
      `The 100 web calls that plan pro includes a day are used up; they begin anew at ${DAY_END}.`,
    ]);
    const refused = await rest(tenant.key, "/v1/web/fetch", { urls: urlsOf("x") });
    expect([refused.status, refused.headers.get("x-should-retry")]).toEqual([429, "false"]);
    expect(refused.body).toMatchObject({ error: { code: "allowance_exhausted", reset_at: DAY_END } });
    expect(lab.fetched).toBe(100);
    expect(balanceOf(tenant)).toMatchObject({ postedNano: 500n * CENT, heldNano: 0n });
  });

  test("a plan that charges nothing has no calls beyond the day's, and says so; what its account has stays untouched", async () => {
    const counted = await startMcpLab({ plans: { counted: { metered: false, web_calls_per_day: 1 } } });
    try {
      const { id, key } = await counted.tenant("counted", "1");
      const { isError, _meta } = await counted.call("web_search", { query: "first" }, key);
      expect([isError, _meta["sluice/usage"].overage]).toEqual([false, { usd_per_call: null }]);
      const over = await counted.call("web_search", { query: "over" }, key);
      expect([over.isError, over.content[0]?.text]).toEqual([
        true,
        `The 1 web calls that plan counted includes a day are used up; they begin anew at ${DAY_END}.`,
      ]);
      expect(counted.gateway.app.book.balance(id)).toMatchObject({ postedNano: 100n * CENT, heldNano: 0n });
    } finally {
      await counted.stop();
    }
  });

  test("free with money, the example of reliability 3.4: 3 of the allowance, 5 from the wallet, 2 given back", async () => {
    const tenant = await lab.tenant("free", "0.07");
    await searchOften(tenant, 17);
    await lab.clock.advance(60_000);
    const urls = [...urlsOf("1", "2", "3", "4", "5", "6", "7", "8"), "http://127.0.0.1:1/", "file:///etc/passwd"];
    expect((await lab.call("web_fetch", { urls }, tenant.key)).isError).toBe(false);
    expect(usedOf(tenant)).toBe(20);
    expect(balanceOf(tenant)).toEqual({ postedNano: 2n * CENT, heldNano: 0n, availableNano: 2n * CENT });
    expect(rowsOf(tenant).find(({ model }) => model === "web_fetch")).toMatchObject({
      units: 8,
      costNano: 5n * CENT,
      chargedNano: 5n * CENT,
    });
    await lab.clock.advance(60_000);
    const before = lab.fetched;
    const refused = await lab.call("web_fetch", { urls: urlsOf("a", "b", "c") }, tenant.key);
    expect(refused.isError).toBe(true);
    expect(lab.fetched).toBe(before);
    await lab.clock.advance(60_000);
    expect((await lab.call("web_fetch", { urls: urlsOf("a", "b") }, tenant.key)).isError).toBe(false);
    expect(balanceOf(tenant)).toEqual({ postedNano: 0n, heldNano: 0n, availableNano: 0n });
    expect(lab.gateway.app.book.verify()).toEqual([]);
  });

  test("a call that asks for more than is left is refused whole, and says so", async () => {
    const tenant = await lab.tenant("free");
    await searchOften(tenant, 18);
    await lab.clock.advance(60_000);
    const { content, isError } = await lab.call("web_fetch", { urls: urlsOf("a", "b", "c") }, tenant.key);
    expect(isError).toBe(true);
    expect(content[0]!.text).toStartWith(
      "Of the 20 web calls that plan free includes a day 2 are left, and this asks for 3",
    );
    expect([lab.fetched, usedOf(tenant)]).toEqual([0, 18]);
  });

  test("what comes to nothing costs nothing", async () => {
    const tenant = await lab.tenant("free", "1");
    const { isError } = await lab.call("web_fetch", { urls: [`${lab.page}/missing`, "http://10.0.0.1/"] }, tenant.key);
    expect(isError).toBe(true);
    expect([usedOf(tenant), rowsOf(tenant), balanceOf(tenant).heldNano]).toEqual([0, [], 0n]);
    expect(lab.gateway.app.book.openClaims("web")).toEqual([]);
  });
});

test("calls at the same time never pass the allowance and the wallet together", async () => {
  const figures = {
    web_calls_per_day: 20,
    web_calls_per_minute: 10_000,
    web_calls_concurrent: 1_000,
    web_call_usd: 0.01,
  };
  const race = await startMcpLab({ plans: { race: figures } });
  try {
    const tenant = await race.tenant("race", "0.055");
    const calls = Array.from({ length: 60 }, (_, at) =>
      at % 3 === 0
        ? race.call("web_fetch", { urls: [`${race.page}/${at}-a`, `${race.page}/${at}-b`] }, tenant.key)
        : race.call("web_search", { query: `number ${at}` }, tenant.key),
    );
    const results = await Promise.all(calls);
    const counted = race.gateway.rows().reduce((sum, { units }) => sum + units, 0);
    expect(counted).toBe(25);
    expect(results.filter(({ isError }) => !isError)).toHaveLength(race.gateway.rows().length);
    const { book } = race.gateway.app;
    expect(book.allowance(tenant.id, "web", 20).used).toBe(20);
    expect(book.balance(tenant.id)).toEqual({ postedNano: CENT / 2n, heldNano: 0n, availableNano: CENT / 2n });
    expect([book.openClaims("web"), book.verify()]).toEqual([[], []]);
  } finally {
    await race.stop();
  }
});

describe("speed (contract 4)", () => {
  test("calls a minute, one sentence with the time to wait; bad parameters take nothing", async () => {
    const tenant = await lab.tenant("free");
    for (let at = 0; at < 20; at++) {
      await lab.send(request("tools/call", { name: "web_search", arguments: {} }), { key: tenant.key });
    }
    await lab.call("web_fetch", { urls: urlsOf("a", "b", "c", "d", "e") }, tenant.key);
    const { content, isError, _meta } = await lab.call("web_search", { query: "fast" }, tenant.key);
    expect([isError, content.map(({ text }) => text)]).toEqual([
      true,
      ["Plan free allows 5 web calls a minute, each page being one. Try again in 12 seconds."],
    ]);
    expect(_meta["sluice/usage"].minute).toEqual({ limit: 5, remaining: 0 });
    const refused = await rest(tenant.key, "/v1/web/search", { query: "fast" });
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "12"]);
    expect(refused.headers.get("x-ratelimit-remaining-requests")).toBe("0");
    // To the millisecond: whoever waits as told is served, and nobody waits longer.
    await lab.clock.advance(11_750);
    const soon = await rest(tenant.key, "/v1/web/search", { query: "fast" });
    expect(["retry-after", "retry-after-ms"].map((name) => soon.headers.get(name))).toEqual(["1", "250"]);
    await lab.clock.advance(250);
    const served = await rest(tenant.key, "/v1/web/search", { query: "fast" });
    expect([served.status, served.headers.get("x-ratelimit-limit-requests")]).toEqual([200, "5"]);
    expect(usedOf(tenant)).toBe(6);
  });

  test("each answer of the endpoints says what is left when it goes out, also one that is given again", async () => {
    const tenant = await lab.tenant("free");
    const once = async (body: Json, headers = {}) => {
      const answer = await rest(tenant.key, "/v1/web/search", body, headers);
      return [answer.status, answer.headers.get("x-ratelimit-remaining-requests")];
    };
    const keyed = { "idempotency-key": "k" };
    expect(await once({ query: "a" }, keyed)).toEqual([200, "4"]);
    expect(await once({ query: "b" })).toEqual([200, "3"]);
    expect(await once({ query: "a" }, keyed)).toEqual([200, "3"]);
    expect(await once({ query: "c" }, keyed)).toEqual([422, "3"]);
    expect(await once({})).toEqual([400, "3"]);
    await lab.clock.advance(60_000);
    expect(await once({ query: "a" }, keyed)).toEqual([200, "5"]);
  });

  test("at the same time: two on free, and the third is told; a place comes free", async () => {
    const tenant = await lab.tenant("free");
    const letGo = lab.hold();
    const running = ["a", "b"].map((name) => lab.call("web_fetch", { urls: urlsOf(name) }, tenant.key));
    while (lab.fetched < 2) await new Promise<void>((resolve) => setImmediate(resolve));
    const third = await lab.call("web_search", { query: "x" }, tenant.key);
    expect([third.isError, third.content[0]?.text]).toEqual([
      true,
      "Plan free lets 2 web calls run at the same time. Try again when one has ended.",
    ]);
    letGo();
    for (const { isError } of await Promise.all(running)) expect(isError).toBe(false);
    expect((await lab.call("web_search", { query: "x" }, tenant.key)).isError).toBe(false);
    expect(usedOf(tenant)).toBe(3);
  });

  test("messages without a tool are bounded by HTTP, far above what a client needs", async () => {
    const tenant = await lab.tenant("free");
    const ping = () => lab.send(request("ping"), { key: tenant.key });
    // An executable's clock goes on while it is asked.
    const most = givenExecutable() ? 1_000 : 110;
    const answers = [await ping()];
    while (answers.at(-1)?.status === 200 && answers.length < most) answers.push(await ping());
    expect(answers.length).toBeGreaterThan(100);
    const refused = answers.at(-1)!;
    expect(refused.status).toBe(429);
    expect(refused.json).toMatchObject({ jsonrpc: "2.0", id: null, error: { code: -32000 } });
    expect(refused.headers.get("retry-after")).toBe("1");
  });
});

describe("a key that is capped in money", () => {
  test("pays for no page beyond its cap: what a call may come to is set aside before it runs", async () => {
    const tenant = await lab.tenant("free", "1");
    await searchOften(tenant, 20);
    const { key } = await lab.gateway.app.keys.create({
      ...{ accountId: tenant.id, name: "capped", kind: "api" },
      capTotalNano: (CENT * 5n) / 2n,
    });
    const ask = (...names: string[]) => lab.call("web_fetch", { urls: urlsOf(...names) }, key);
    const wide = await ask("a", "b", "c");
    expect([wide.isError, wide.content[0]?.text]).toEqual([
      true,
      "This may cost more than is left of what this key may cost.",
    ]);
    expect([usedOf(tenant), balanceOf(tenant).availableNano]).toEqual([20, CENT * 100n]);
    const both = await Promise.all([ask("a", "b"), ask("a")]);
    expect(both.map(({ isError }) => isError)).toEqual([false, true]);
    expect(balanceOf(tenant)).toMatchObject({ availableNano: CENT * 98n, heldNano: 0n });
    await lab.clock.advance(60_000);
    expect((await ask("a")).isError).toBe(true);
    expect(rowsOf(tenant)).toHaveLength(21);
  });

  test("is charged for a page and has it counted in one: a page whose count cannot be written down is not charged; a free one is told of", async () => {
    const tenant = await lab.tenant("free", "1");
    await searchOften(tenant, 19);
    const { key } = await lab.gateway.app.keys.create({
      ...{ accountId: tenant.id, name: "capped", kind: "api" },
      capTotalNano: CENT * 2n,
    });
    const { database } = lab.gateway.store;
    database.run("CREATE TRIGGER full BEFORE INSERT ON key_spend BEGIN SELECT RAISE(ABORT, 'no room'); END");
    const ask = (name: string) => lab.call("web_fetch", { urls: urlsOf(name) }, key);
    expect((await ask("a")).isError).toBe(false);
    expect(lab.gateway.log.filter(({ event }) => event === "web-key-cap")).toHaveLength(1);
    expect((await ask("b")).isError).toBe(true);
    await lab.clock.advance(60_000);
    expect(balanceOf(tenant)).toMatchObject({ availableNano: CENT * 100n, heldNano: 0n });
    database.run("DROP TRIGGER full");
    expect((await ask("b")).isError).toBe(false);
    expect(balanceOf(tenant)).toMatchObject({ availableNano: CENT * 99n, heldNano: 0n });
    expect(database.query("SELECT requests, nano FROM key_spend").values()).toEqual([[1n, CENT]]);
    expect(lab.gateway.app.book.verify()).toEqual([]);
  });

  test("counts what is charged: a page that others' failures have made free takes nothing of its cap", async () => {
    const tenant = await lab.tenant("free", "1");
    await searchOften(tenant, 18);
    const { key } = await lab.gateway.app.keys.create({
      ...{ accountId: tenant.id, name: "capped", kind: "api" },
      capTotalNano: CENT,
    });
    // Two pages that are not there take the last free calls, until they turn out to be none.
    const letGo = lab.hold();
    const failing = lab.call("web_fetch", { urls: urlsOf("missing?a", "missing?b") }, tenant.key);
    await until(() => lab.fetched === 2, "the pages that are not there are asked for");
    const letLateGo = lab.hold();
    const paying = lab.call("web_fetch", { urls: urlsOf("late/a") }, key);
    await until(() => balanceOf(tenant).heldNano === CENT, "the third is to be paid");
    letGo();
    expect((await failing).isError).toBe(true);
    await until(() => usedOf(tenant) === 18, "their calls are given back");
    letLateGo();
    expect((await paying).isError).toBe(false);
    expect([usedOf(tenant), balanceOf(tenant).availableNano]).toEqual([19, CENT * 100n]);
    const cap = async () => ((await account({ ...tenant, key }))["key"] as Json)["cap_total_usd"];
    expect(await cap()).toMatchObject({ used: 0, remaining: 0.01 });
    // What the wallet pays counts.
    await lab.clock.advance(60_000);
    for (const name of ["b", "c"])
      expect((await lab.call("web_fetch", { urls: urlsOf(name) }, key)).isError).toBe(false);
    expect(await cap()).toMatchObject({ used: 0.01, remaining: 0 });
  });
});

describe("narrow tokens in the path (contract 3, 4)", () => {
  test("call tools, within their own cap, and nothing else", async () => {
    const token = await lab.token(2);
    const path = `/mcp/web/t/${token}`;
    const call = async (query: string) =>
      (await lab.send(request("tools/call", { name: "web_search", arguments: { query } }), { key: "", path })).json;
    const list = await lab.send(request("tools/list"), { key: "", path });
    expect([list.status, list.headers.get("referrer-policy")]).toEqual([200, "no-referrer"]);
    expect(await call("a")).toMatchObject({ result: { isError: false } });
    // What comes to nothing takes nothing of it.
    const missing = { name: "web_fetch", arguments: { urls: urlsOf("missing") } };
    expect((await lab.send(request("tools/call", missing), { key: "", path })).json).toMatchObject({
      result: { isError: true },
    });
    const wide = { name: "web_fetch", arguments: { urls: urlsOf("a", "b") } };
    expect((await lab.send(request("tools/call", wide), { key: "", path })).json).toMatchObject({
      result: {
        isError: true,
        content: [
          { text: `This key may make 2 requests a day: 1 are left, and this asks for 2. The day ends at ${DAY_END}.` },
        ],
      },
    });
    expect(await call("b")).toMatchObject({ result: { isError: false } });
    const over = ((await call("c"))["result"] as { content: { text: string }[]; isError: boolean }) ?? {};
    expect([over.isError, over.content[0]?.text]).toEqual([
      true,
      `This key may make 2 requests a day, and has made them. The day ends at ${DAY_END}.`,
    ]);
    expect(lab.gateway.rows()).toHaveLength(2);
    const elsewhere = await lab.gateway.call("/v1/models?modality=all", {
      headers: { authorization: `Bearer ${token}` },
    });
    expect(elsewhere.status).toBe(200);
    const chat = await rest(token, "/v1/chat/completions", { model: "sluice/echo", messages: [] });
    expect(chat.status).toBe(403);
    expect(JSON.stringify(lab.gateway.log)).not.toContain(token);
  });

  test("of another scope: 403; wrong, revoked, or a key where a token belongs: 401", async () => {
    const list = request("tools/list");
    const at = async (token: string) => {
      const { status, json } = await lab.send(list, { key: "", path: `/mcp/web/t/${token}` });
      return [status, json["jsonrpc"], json["id"]];
    };
    expect(await at(await lab.token(5, ["images:read"]))).toEqual([403, "2.0", null]);
    const another = await lab.token();
    const token = await lab.token();
    expect(await at(token)).toEqual([200, "2.0", 1]);
    expect(await at(lab.gateway.key)).toEqual([401, "2.0", null]);
    // Two different keys in one request (contract 4); the same one twice is one.
    for (const key of [lab.gateway.key, another, "nonsense"]) {
      expect((await lab.send(list, { key, path: `/mcp/web/t/${token}` })).status).toBe(401);
    }
    expect((await lab.send(list, { key: token, path: `/mcp/web/t/${token}` })).status).toBe(200);
    expect(await at(`${token.slice(0, -1)}${token.endsWith("x") ? "y" : "x"}`)).toEqual([401, "2.0", null]);
    await lab.gateway.app.keys.revoke(token);
    expect(await at(token)).toEqual([401, "2.0", null]);
    const wrong = await lab.send(list, { key: "", path: "/mcp/web/t/slt-x" });
    expect(wrong.headers.get("www-authenticate")).toBe('Bearer realm="mcp", error="invalid_token"');
  });
});

describe("the standalone endpoints (contract 3)", () => {
  test("give what the tools give", async () => {
    const { key } = lab.gateway;
    const found = await rest(key, "/v1/web/search", {
      query: "solar",
      max_results: 2,
      country: null,
      unknown_field: 1,
    });
    expect(found.status).toBe(200);
    expect(found.body).toMatchObject({ object: "web.search", query: "solar", notes: [], cached: false });
    expect(found.body["results"]).toHaveLength(2);
    expect(found.body["usage"]).toMatchObject({ plan: "local", day: { used: 1, limit: null, remaining: null } });
    // As many characters as the schema allows, of two units each.
    expect((await rest(key, "/v1/web/search", { query: "\u{1f6b0}".repeat(400) })).status).toBe(200);
    const urls = [...urlsOf("a"), "file:///x"];
    const read = await rest(key, "/v1/web/fetch", { urls, max_content_tokens: 50 });
    expect(read.body).toMatchObject({ object: "web.fetch", usage: { day: { used: 3 } } });
    const [page, lost] = read.body["results"] as Json[];
    expect(page).toMatchObject({ url: urls[0], status: "ok", http_status: 200, content: "# Page /a\n\nText of /a." });
    expect(lost).toEqual({
      url: "file:///x",
      status: "error",
      error: { code: "invalid_url", message: expect.any(String) },
    });
    expect(lab.gateway.rows().map(({ requestId }) => requestId)).toContain(read.headers.get("x-request-id") as string);
    const receipt = await lab.gateway.call(`/v1/usage/${read.headers.get("x-request-id")}`, {
      headers: { authorization: `Bearer ${key}` },
    });
    expect(await receipt.json()).toMatchObject({ model: "web_fetch", dialect: "web", units: 1 });
  });

  test.each([
    ["/v1/web/search", {}, "query"],
    ["/v1/web/search", { query: 5 }, "query"],
    ["/v1/web/search", { query: "x".repeat(401) }, "query"],
    ["/v1/web/search", { query: "\u{1f6b0}".repeat(401) }, "query"],
    ["/v1/web/search", { query: "x", max_results: 50 }, "max_results"],
    ["/v1/web/search", { query: "x", search_domain_filter: ["a.example", "-b.example"] }, "search_domain_filter"],
    ["/v1/web/search", { query: "x", search_recency_filter: "decade" }, "search_recency_filter"],
    ["/v1/web/search", { query: "x", country: "Germany" }, "country"],
    ["/v1/web/fetch", {}, "urls"],
    ["/v1/web/fetch", { urls: [] }, "urls"],
    ["/v1/web/fetch", { urls: [5] }, "urls[0]"],
    ["/v1/web/fetch", { urls: Array.from({ length: 11 }, () => "https://a.example/") }, "urls"],
  ])("%s %j: 400 with the field", async (path, body, param) => {
    const refused = await rest(lab.gateway.key, path, body);
    expect([refused.status, (refused.body["error"] as Json)["param"]]).toEqual([400, param]);
    expect([lab.gateway.rows(), lab.fetched]).toEqual([[], 0]);
  });

  test("without a key 401, by GET 405, and other text than JSON 415, in REST form", async () => {
    for (const path of ["/v1/web/search", "/v1/web/fetch"]) {
      const none = await lab.gateway.call(path, { method: "POST", body: "{}" });
      expect([none.status, await none.json()]).toMatchObject([401, { error: { code: "invalid_api_key" } }]);
      const read = await lab.gateway.call(path);
      expect([read.status, read.headers.get("allow")]).toEqual([405, "POST"]);
      const typed = await lab.gateway.post(path, "{}", { headers: { "content-type": "text/plain" } });
      expect(typed.status).toBe(415);
    }
  });

  test("under an Idempotency-Key a call runs once and is charged once; another body is refused", async () => {
    const tenant = await lab.tenant("free");
    const headers = { "idempotency-key": "once" };
    const body = { urls: urlsOf("a") };
    const one = await rest(tenant.key, "/v1/web/fetch", body, headers);
    const again = await rest(tenant.key, "/v1/web/fetch", body, headers);
    expect(again.body).toEqual(one.body);
    expect(again.headers.get("idempotency-replayed")).toBe("true");
    expect([lab.fetched, usedOf(tenant)]).toEqual([1, 1]);
    expect((await rest(tenant.key, "/v1/web/fetch", { urls: urlsOf("b") }, headers)).status).toBe(422);
  });

  test("pages of which none was read cost nothing, and leave their key free", async () => {
    const ask = async (urls: string[]) => {
      const { body, headers } = await rest(lab.gateway.key, "/v1/web/fetch", { urls }, { "idempotency-key": "lost" });
      const results = body["results"] as Json[] | undefined;
      return [results?.map(({ status }) => status), headers.has("idempotency-replayed")];
    };
    const missing = `${lab.page}/missing`;
    expect([await ask([missing]), await ask([missing])]).toEqual([
      [["error"], false],
      [["error"], false],
    ]);
    const some = [missing, ...urlsOf("a")];
    expect([await ask(some), await ask(some)]).toEqual([
      [["error", "ok"], false],
      [["error", "ok"], true],
    ]);
  });

  test("so it is over MCP, by either way; a result that cost nothing leaves its key free", async () => {
    const token = await lab.token();
    const headers = { "idempotency-key": "over-mcp" };
    const message = request("tools/call", { name: "web_fetch", arguments: { urls: urlsOf("a") } });
    const one = await lab.send(message, { key: "", path: `/mcp/web/t/${token}`, headers });
    const again = await lab.send(message, { headers });
    expect([again.headers.get("idempotency-replayed"), again.text]).toEqual(["true", one.text]);
    expect([lab.fetched, lab.gateway.rows().length]).toEqual([1, 1]);
    const other = await lab.send(request("tools/call", { name: "web_fetch", arguments: { urls: urlsOf("b") } }), {
      headers,
    });
    expect([other.status, other.json]).toMatchObject([422, { jsonrpc: "2.0", id: null }]);
    const failing = request("tools/call", { name: "web_fetch", arguments: { urls: [`${lab.page}/missing`] } });
    for (let at = 0; at < 2; at++) {
      const lost = await lab.send(failing, { headers: { "idempotency-key": "lost" } });
      expect([lost.json, lost.headers.has("idempotency-replayed")]).toMatchObject([
        { result: { isError: true } },
        false,
      ]);
    }
    const written = lab.gateway.store.database.query("SELECT route FROM idempotency").values();
    expect(JSON.stringify(written)).not.toContain("slt-");
  });
});

describe("ends", () => {
  test("a key that is revoked ends its call at once, and nothing is charged", async () => {
    const tenant = await lab.tenant("free", "1");
    const letGo = lab.hold();
    const running = lab.send(request("tools/call", { name: "web_fetch", arguments: { urls: urlsOf("a") } }), {
      key: tenant.key,
    });
    while (lab.fetched < 1) await new Promise<void>((resolve) => setImmediate(resolve));
    const keyId = lab.gateway.app.keys.list().find((row) => row.accountId === tenant.id)!.id;
    await lab.gateway.app.keys.revoke(keyId);
    const { status, json } = await running;
    letGo();
    expect([status, json]).toMatchObject([401, { jsonrpc: "2.0", error: { code: -32001 } }]);
    expect([usedOf(tenant), rowsOf(tenant), balanceOf(tenant).heldNano]).toEqual([0, [], 0n]);
  });

  test("a client that leaves ends the call to the engine, and nothing is charged", async () => {
    const engine = startUpstream();
    engine.answer("/search", neverAnswer());
    const other = await startMcpLab({ sources: [{ engine: "exa", apiKey: "the-key", baseUrl: engine.url }] });
    try {
      const leave = new AbortController();
      const init = { signal: leave.signal };
      const running = other.gateway.post("/v1/web/search", { query: "x" }, init);
      const call = await engine.called();
      leave.abort();
      await call.whenAborted;
      await running;
      await until(() => other.gateway.app.book.openClaims("web").length === 0, "the claim given back");
      expect(other.gateway.rows()).toEqual([]);
    } finally {
      await other.stop();
      engine.close();
    }
  });

  test("a call that its client has given up is ended by its notification, and nothing is charged", async () => {
    const engine = startUpstream();
    engine.always("/search", neverAnswer());
    const other = await startMcpLab({ sources: [{ engine: "exa", apiKey: "the-key", baseUrl: engine.url }] });
    const search = (query: string, id: string | number) =>
      other.send(request("tools/call", { name: "web_search", arguments: { query } }, id));
    const giveUp = async (requestId: unknown, key?: string) => {
      const params = { requestId, reason: "The user wants something else." };
      const note = { jsonrpc: "2.0", method: "notifications/cancelled", params };
      expect((await other.send(note, key ? { key } : {})).status).toBe(202);
    };
    try {
      const stranger = await other.tenant("free");
      const running = search("x", 7);
      const call = await engine.called();
      // Another's, another id, none at all.
      await giveUp(7, stranger.key);
      for (const id of ["7", 8, null, undefined, { id: 7 }]) await giveUp(id);
      expect(call.aborted).toBe(false);
      await giveUp(7);
      await call.whenAborted;
      const { status, json } = await running;
      const error = { code: -32000, message: "The call was cancelled." };
      expect([status, json]).toEqual([200, { jsonrpc: "2.0", id: 7, error }]);
      // Two clients that share a key count their ids alike: nobody knows whose is meant, until one of them is through.
      const leave = new AbortController();
      const body = request("tools/call", { name: "web_search", arguments: { query: "y" } }, 9);
      const gone = other.gateway.post("/mcp/web", body, { signal: leave.signal });
      const theirs = await engine.called(1);
      const left = search("z", 9);
      const ours = await engine.called(2);
      await giveUp(9);
      expect([theirs.aborted, ours.aborted]).toEqual([false, false]);
      leave.abort();
      await theirs.whenAborted;
      await gone;
      await until(async () => {
        await giveUp(9);
        return ours.aborted;
      }, "the end of the one that is left");
      expect((await left).json["error"]).toEqual(error);
      expect(other.gateway.rows()).toEqual([]);
      expect(other.gateway.app.book.openClaims("web")).toEqual([]);
    } finally {
      await other.stop();
      engine.close();
    }
  });

  test("when no engine answers, the result says so, and nothing is charged", async () => {
    const other = await startMcpLab({ sources: [] });
    try {
      const { content, isError } = await other.call("web_search", { query: "x" });
      expect([isError, content[0]?.text]).toEqual([
        true,
        "No search engine is configured on this gateway. Its operator can set a key, such as BRAVE_API_KEY.",
      ]);
      const refused = await other.gateway.post("/v1/web/search", { query: "x" });
      expect([refused.status, await refused.json()]).toMatchObject([503, { error: { code: "vendor_not_configured" } }]);
      expect(other.gateway.rows()).toEqual([]);
    } finally {
      await other.stop();
    }
  });

  test("what the end of the process cut off is given back by the next start", async () => {
    const store = openStore(":memory:");
    const once = await startMcpLab({ store });
    const tenant = await once.tenant("free", "0.05");
    const writer = new Writer(store, once.clock);
    const order = { claimId: "req_cut", accountId: tenant.id, keyId: "key_1", kind: "web", units: 3 } as const;
    await writer.run(() => once.gateway.app.book.claimUnits({ ...order, freeUnits: 0, unitNano: CENT }));
    expect(once.gateway.app.book.balance(tenant.id).heldNano).toBe(3n * CENT);
    const { WebTools } = await import("../../src/web/tools/tools.ts");
    const { app } = once.gateway;
    const again = new WebTools({
      ...{
        clock: once.clock,
        log: app.services.log,
        plans: app.plans,
        book: app.book,
        writer,
        sources: [],
        userAgent: "x",
      },
      ...{
        limiter: { take: app.services.limiter.take, peek: () => undefined },
        keySpend: new KeySpend(store, writer, () => undefined, once.clock),
      },
      safeFetch: () => Promise.reject(new Error("not asked")),
    });
    await again.recover();
    again.stop();
    expect(app.book.balance(tenant.id)).toMatchObject({ heldNano: 0n, availableNano: 5n * CENT });
    expect([app.book.openClaims("web"), app.book.verify()]).toEqual([[], []]);
    await writer.close();
    await once.stop();
  });
});
