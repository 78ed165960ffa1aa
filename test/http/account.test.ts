import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Writer } from "../../src/db/writer.ts";
import { openapiDocument } from "../../src/http/openapi/openapi.ts";
import { EXPORT_PAGE, type ExportRecord, exportResponse, toCell } from "../../src/http/usage/export.ts";
import { toBalance } from "../../src/http/usage/shape.ts";
import { AccountView, OwnAccountView } from "../../src/wire/account.ts";
import { checker } from "../../src/wire/open.ts";
import { UsageList, UsageReceipt } from "../../src/wire/usage.ts";
import { usageWriter } from "../ledger/usage-rows.ts";
import { insideOnly } from "../support/black-box-config.ts";
import {
  type AccountLab,
  COST,
  DAY_MS,
  type Json,
  PRICED,
  startAccountLab,
  type Tenant,
  UNPRICED,
} from "./account-lab.ts";

let lab: AccountLab;
let team: Tenant;
let other: Tenant;
beforeAll(async () => {
  lab = await startAccountLab();
  team = await lab.tenant("team", "pro", "10.50");
  other = await lab.tenant("other", "local");
});
afterAll(() => lab.stop());

const get = (path: string, key = team.key) => lab.ask(key, path);
const dataOf = (body: Json) => body["data"] as Json[];
/** The wall clock so long from now, or at the beginning of tomorrow, as the gateway writes it. */
const inHours = (hours: number) => new Date(lab.clock.now() + hours * 3_600_000).toISOString();
const tomorrow = () => `${inHours(24).slice(0, 10)}T00:00:00.000Z`;

/** All of the account's requests, newest first: where the machine is busy a page may end before it is full. */
async function listAll(): Promise<Json[]> {
  const all: Json[] = [];
  for (let path = "/v1/usage?limit=1000"; ; ) {
    const { body } = await get(path);
    all.push(...dataOf(body));
    if (body["next_cursor"] === null) return all;
    path = `/v1/usage?limit=1000&cursor=${body["next_cursor"]}`;
  }
}

describe("GET /v1/account", () => {
  test("plan, wallet, window and allowances, before and after a request", async () => {
    insideOnly("dates of a clock that stands still");
    const fresh = await lab.tenant("fresh", "pro", "10.50");
    const before = await get("/v1/account", fresh.key);
    expect(before.status).toBe(200);
    expect(checker(AccountView)(before.body)).toBeUndefined();
    expect(before.body).toMatchObject({
      ...{ object: "account", id: fresh.id, name: "fresh", created: Math.floor(lab.clock.now() / 1000) },
      plan: { id: "pro", metered: true, requests_per_minute: 60, concurrent_generations: 10, spending_window_usd: 2 },
      balance: { usd: 10.5, held_usd: 0, available_usd: 10.5, has_deposit: true },
      window: { usd: 2, available_usd: 2, held_usd: 0, starts_at: null, ends_at: null },
      allowances: {
        images: { limit: 20, used: 0, remaining: 20 },
        web: { limit: 100, used: 0, remaining: 100 },
      },
    });
    await lab.generate(fresh.key);
    const after = await get("/v1/account", fresh.key);
    expect(after.body).toMatchObject({
      balance: { usd: 10.5, held_usd: 0 },
      // 2 − 0.009507, six decimals, rounded down.
      window: { available_usd: 1.990493, starts_at: inHours(0), ends_at: inHours(5) },
    });
    expect(after.headers.get("cache-control")).toBe("no-store");
  });

  test("what is left of the caps of the key that asks", async () => {
    insideOnly("dates of a clock that stands still");
    expect((await get("/v1/account")).body["key"]).toEqual({
      ...{ id: team.keyId, cap_day_usd: null, cap_total_usd: null, cap_requests_day: null },
    });
    const body = { account: "team", name: "capped", cap_day_usd: "1", cap_requests_day: 3 };
    const made = (await lab.ask(lab.admin, "/admin/v1/keys", { method: "POST", body })).body;
    const key = String(made["key"]);
    const id = String(made["id"]);
    await lab.generate(key);
    const told = await get("/v1/account", key);
    expect(checker(OwnAccountView)(told.body)).toBeUndefined();
    const day = { resets_at: tomorrow() };
    expect(told.body["key"]).toEqual({
      ...{ id, cap_total_usd: null },
      cap_day_usd: { limit: 1, used: 0.009507, remaining: 0.990493, ...day },
      cap_requests_day: { limit: 3, used: 1, remaining: 2, ...day },
    });
    await lab.ask(lab.admin, `/admin/v1/keys/${id}`, {
      method: "POST",
      body: { cap_day_usd: null, cap_requests_day: null, cap_total_usd: "0.005" },
    });
    // It counts what was spent while another cap was there.
    expect((await get("/v1/account", key)).body["key"]).toMatchObject({
      cap_total_usd: { limit: 0.005, used: 0.009507, remaining: 0, resets_at: null },
      cap_requests_day: null,
    });
  });

  test("on a plan without a window, what an earlier one gave is neither shown nor told of in a refusal: it pays for nothing", async () => {
    const moved = await lab.tenant("moved", "pro");
    await lab.generate(moved.key);
    expect((await get("/v1/account", moved.key)).body["window"]).toMatchObject({ usd: 2, available_usd: 1.990493 });
    const put = await lab.ask(lab.admin, "/admin/v1/accounts/moved/plan", { body: { plan: "free" }, method: "POST" });
    expect(put.body).toMatchObject({ plan: { id: "free" }, window: null });
    expect((await get("/v1/account", moved.key)).body["window"]).toBeNull();
    const body = { model: PRICED, messages: [{ role: "user", content: "Hi" }] };
    const refused = await lab.ask(moved.key, "/v1/chat/completions", { body, method: "POST" });
    expect(refused.status).toBe(402);
    expect((refused.body["error"] as Json)["message"]).not.toContain("window");
  });

  test("plan local: no limits, nothing charged", async () => {
    const { body } = await get("/v1/account", other.key);
    expect(body).toMatchObject({
      plan: { id: "local", metered: false, requests_per_minute: null, web_calls_per_day: null },
      balance: { usd: 0, has_deposit: false },
      window: null,
      allowances: { images: { limit: null, used: 0, remaining: null }, web: { limit: null, remaining: null } },
    });
  });
});

describe("GET /v1/usage/{request_id}", () => {
  test("tokens by bucket × price = cost, the model that served it, and who paid", async () => {
    const id = await lab.generate(team.key);
    const { status, body } = await get(`/v1/usage/${id}`);
    expect(status).toBe(200);
    expect(checker(UsageReceipt)(body)).toBeUndefined();
    expect(body).toMatchObject({
      ...{ object: "usage.receipt", request_id: id, account: team.id, key: team.keyId },
      ...{ model: PRICED, vendor: "lab", upstream_model: "hidden", attempts: 1, outcome: "completed" },
      ...{ input_tokens: 234, cache_read_tokens: 1000, output_tokens: 567, reasoning_tokens: 200 },
      ...{ cost_usd: 0.009507, charged_usd: 0.009507, cost: COST, charged: COST, flags: [], estimated: false },
      price: { input: 3, output: 15, cache_read: 0.3, currency: "USD", unit: "per_1m_tokens" },
      lines: [
        { bucket: "input", count: 234, usd_per_1m: 3, usd: "0.000702000000" },
        { bucket: "cache_read", count: 1000, usd_per_1m: 0.3, usd: "0.000300000000" },
        { bucket: "cache_write", count: 0, usd_per_1m: 3, usd: "0.000000000000" },
        { bucket: "output", count: 567, usd_per_1m: 15, usd: "0.008505000000" },
      ],
      paid_from: [{ from: "window", usd: COST }],
    });
  });

  test("a model without a price: counts, and no cost", async () => {
    const id = await lab.generate(other.key, UNPRICED);
    const { body } = await get(`/v1/usage/${id}`, other.key);
    expect(body).toMatchObject({ cost: null, cost_usd: null, charged: "0.000000000", price: null, paid_from: [] });
    expect((body["lines"] as Json[])[0]).toEqual({ bucket: "input", count: 234, usd_per_1m: null, usd: null });
  });

  test("another account's request and one that never was are both not found", async () => {
    const id = await lab.generate(team.key);
    const theirs = await get(`/v1/usage/${id}`, other.key);
    const never = await get("/v1/usage/req_never", other.key);
    for (const { status, body } of [theirs, never]) {
      expect([status, (body["error"] as Json)["code"]]).toEqual([404, "not_found"]);
    }
    expect(JSON.stringify(theirs.body)).toBe(JSON.stringify(never.body));
  });
});

describe("GET /v1/usage", () => {
  test("pages until the last one: every request once, newest first, of this account alone", async () => {
    const made: string[] = [];
    for (let at = 0; at < 7; at++) {
      lab.clock.setWall(lab.clock.now() + (at % 2 === 0 ? 1 : 3_600_000));
      made.unshift(await lab.generate(team.key));
    }
    await lab.generate(other.key);
    const seen: string[] = [];
    let path = "/v1/usage?limit=2";
    for (;;) {
      const { body } = await get(path);
      expect(checker(UsageList)(body)).toBeUndefined();
      expect(dataOf(body).every((row) => row["account"] === team.id)).toBe(true);
      seen.push(...dataOf(body).map((row) => String(row["request_id"])));
      expect(body["has_more"]).toBe(body["next_cursor"] !== null);
      if (body["next_cursor"] === null) break;
      path = `/v1/usage?limit=2&cursor=${body["next_cursor"]}`;
      expect(seen.length).toBeLessThan(100);
    }
    expect(seen.slice(0, 7)).toEqual(made);
    expect(new Set(seen).size).toBe(seen.length);
  });

  test("narrowed by key, model and time", async () => {
    const second = String(
      (await lab.ask(lab.admin, "/admin/v1/keys", { body: { account: "team", name: "second" } })).body["key"],
    );
    await lab.generate(team.key);
    const earlier = (await listAll()).length;
    lab.clock.setWall(lab.clock.now() + DAY_MS);
    const since = inHours(0);
    const id = await lab.generate(second);
    const list = async (query: string) =>
      dataOf((await get(`/v1/usage?${query}`)).body).map((row) => row["request_id"]);
    const [row] = dataOf((await get("/v1/usage?limit=1")).body);
    expect(row?.["request_id"]).toBe(id);
    expect(await list(`key=${row?.["key"]}`)).toEqual([id]);
    expect(await list(`since=${since}`)).toEqual([id]);
    expect(await list(`since=${Math.floor(lab.clock.now() / 1000)}`)).toEqual([id]);
    // The plus sign of a time zone is a blank where it is not encoded.
    const zoned = new Date(Date.parse(since) + 2 * 3_600_000).toISOString().replace("Z", "+02:00");
    expect(await list(`since=${zoned}`)).toEqual([id]);
    expect(await list(`since=${since}&until=${since}`)).toEqual([]);
    expect(await list(`since=${since}&model=${encodeURIComponent("lab/other")}`)).toEqual([]);
    expect((await list(`until=${since}&model=${encodeURIComponent(PRICED)}&limit=1000`)).length).toBe(earlier);
    expect(await list("key=key_of_nobody")).toEqual([]);
  });

  test("by day, model and key, with the sum of all", async () => {
    insideOnly("two days");
    await lab.generate(team.key);
    lab.clock.setWall(lab.clock.now() + DAY_MS);
    await lab.generate(team.key);
    const all = await listAll();
    for (const [by, of] of [
      ["day", (row: Json) => String(row["at"]).slice(0, 10)],
      ["model", (row: Json) => String(row["model"])],
      ["key", (row: Json) => String(row["key"])],
    ] as const) {
      const { body } = await get(`/v1/usage?group_by=${by}`);
      expect(checker(UsageList)(body)).toBeUndefined();
      const expected = Object.entries(Object.groupBy(all, of)).sort(([a], [b]) => (a < b ? -1 : 1));
      expect(dataOf(body).map((row) => [row["group"], row["requests"], row["output_tokens"]])).toEqual(
        expected.map(([group, rows = []]) => [group, rows.length, rows.length * 567]),
      );
      expect(body["total"]).toMatchObject({ requests: all.length, units: 0, unpriced_requests: 0 });
    }
    const days = dataOf((await get("/v1/usage?group_by=day")).body).map((row) => row["group"]);
    const first = await get(`/v1/usage?group_by=day&limit=${days.length - 1}`);
    expect(first.body["has_more"]).toBe(true);
    expect(dataOf(first.body).map((row) => row["group"])).toEqual(days.slice(0, -1));
    const second = await get(`/v1/usage?group_by=day&limit=1&cursor=${first.body["next_cursor"]}`);
    expect(dataOf(second.body).map((row) => row["group"])).toEqual(days.slice(-1));
    expect(second.body).toMatchObject({ has_more: false, next_cursor: null, total: { requests: all.length } });
    const [named] = dataOf((await get("/v1/usage?group_by=key")).body);
    expect([String(named?.["name"]).length > 0, named?.["name"] !== named?.["group"]]).toEqual([true, true]);
  });

  test.each([
    ["limit=0", "limit"],
    ["limit=1001", "limit"],
    ["limit=2.5", "limit"],
    ["since=yesterday", "since"],
    ["since=20260131", "since"],
    ["until=20260131", "until"],
    ["until=2026-13-01", "until"],
    ["group_by=account", "group_by"],
    ["group_by=moon", "group_by"],
    ["cursor=%21", "cursor"],
    ["cursor=AAAA", "cursor"],
    ["group_by=day&cursor=MS5h", "cursor"],
    ["model=", "model"],
    ["format=xml", "format"],
  ])("%s: 400 that names %s", async (query, param) => {
    const { status, body } = await get(`/v1/usage?${query}`);
    expect([status, (body["error"] as Json)["param"]]).toEqual([400, param]);
  });

  test("an unknown parameter is ignored, and an account cannot be asked for here", async () => {
    const { status, body } = await get(`/v1/usage?account=${other.id}&beta=true&limit=1000`);
    expect(status).toBe(200);
    expect(dataOf(body).some((row) => row["account"] !== team.id)).toBe(false);
  });
});

describe("exports", () => {
  const text = async (path: string, headers: Record<string, string> = {}) => {
    const response = await lab.gateway.call(path, { headers: { authorization: `Bearer ${team.key}`, ...headers } });
    return { response, text: await response.text() };
  };

  test.each([
    ["?format=csv", {}],
    ["?", { accept: "text/html;q=0.1, text/csv" }],
  ])("CSV by %s: all requests, amounts with nine decimals", async (query, headers) => {
    const { response, text: csv } = await text(`/v1/usage${query}`, headers);
    expect(response.headers.get("content-type")).toBe("text/csv; charset=utf-8");
    expect(response.headers.get("content-disposition")).toBe('attachment; filename="usage.csv"');
    const lines = csv.trimEnd().split("\r\n");
    expect(lines[0]).toStartWith("request_id,at,account,key,dialect,stream,model,");
    const all = await listAll();
    expect(lines.slice(1).map((line) => line.split(",")[0])).toEqual(all.map((row) => String(row["request_id"])));
    expect(lines.slice(1).every((line) => line.includes(`,${COST},${COST},`))).toBe(true);
  });

  test("JSON, and groups as CSV", async () => {
    await lab.generate(team.key);
    const { response, text: json } = await text("/v1/usage?format=json");
    expect(response.headers.get("content-disposition")).toBe('attachment; filename="usage.json"');
    const rows = JSON.parse(json) as Json[];
    expect(rows.length).toBe((await listAll()).length);
    expect(rows[0]?.["cost_usd"]).toBe(COST);
    const { text: csv } = await text("/v1/usage?group_by=model&format=csv");
    expect(csv.split("\r\n")[0]).toStartWith("group,name,requests,");
    expect(csv.split("\r\n")[1]).toStartWith(`${PRICED},${PRICED},${rows.length},`);
    expect((await text("/v1/usage?format=json&since=2030-01-01")).text).toBe("[]\n");
  });

  test("more requests than are read at once: all of them, each once, in both forms", async () => {
    insideOnly("rows that nobody asked for");
    const many = await lab.tenant("many", "pro");
    const { store } = lab.gateway;
    const writer = new Writer(store);
    const write = usageWriter(store, writer);
    const ids = Array.from({ length: 2 * EXPORT_PAGE + 1 }, (_, at) => `req_${String(at).padStart(5, "0")}`);
    const row = { accountId: many.id, keyId: many.keyId, model: PRICED };
    await Promise.all(ids.map((requestId, at) => write({ ...row, requestId, atMs: lab.clock.now() + at })));
    await writer.close();
    const ask = async (format: string) => {
      const headers = { authorization: `Bearer ${many.key}` };
      return (await lab.gateway.call(`/v1/usage?format=${format}`, { headers })).text();
    };
    const newest = ids.toReversed();
    const lines = (await ask("csv")).trimEnd().split("\r\n").slice(1);
    expect(lines.map((line) => line.split(",")[0])).toEqual(newest);
    expect((JSON.parse(await ask("json")) as Json[]).map((entry) => entry["request_id"])).toEqual(newest);
  });

  test("a client that leaves ends the reading", async () => {
    let read = 0;
    function* pages(): Generator<ExportRecord[]> {
      for (; read < 50; read++) yield [{ at: read }];
    }
    const reader = exportResponse("json", "left", [], pages(), {}).body?.getReader();
    await reader?.read();
    const next = reader?.read();
    await reader?.cancel();
    await next;
    for (let more = 0; more < 5; more++) await new Promise((resolve) => setImmediate(resolve));
    expect(read).toBeLessThan(4);
  });

  test("a cell is quoted where it must be, and is no formula", () => {
    const cells = ["a,b", 'say "x"', "line\nend", "=1+1", "@x", "-5.25", "-x", 7, null, true];
    expect(cells.map(toCell)).toEqual([
      ...['"a,b"', '"say ""x"""', '"line\nend"', "'=1+1", "'@x", "-5.25", "'-x", "7", "", "true"],
    ]);
    expect(["+1", "\t=1", "\r=1", "line\rend"].map(toCell)).toEqual(["'+1", "'\t=1", '"\'\r=1"', '"line\rend"']);
  });
});

test("balances have six decimals and are rounded down, also below zero", () => {
  const shown = [1_999_999n, 1_000n, 999n, 0n, -1n, -1_000n, -1_001n, 9_007_199_254_740_993n].map(toBalance);
  expect(shown).toEqual([0.001999, 0.000001, 0, 0, -0.000001, -0.000001, -0.000002, 9_007_199.25474]);
});

describe("who may look", () => {
  test.each(["/v1/account", "/v1/usage", "/v1/usage/req_x"])(
    "%s: 401 without a key, and with an admin key",
    async (path) => {
      expect((await lab.gateway.call(path)).status).toBe(401);
      expect((await get(path, lab.admin)).status).toBe(401);
      expect((await lab.ask(team.key, path, { method: "DELETE" })).status).toBe(405);
    },
  );

  test("the endpoints are in the document, with their parameters", async () => {
    const document = (await openapiDocument(await lab.gateway.app.gateway.routes())) as {
      paths: Record<string, Record<string, Json>>;
    };
    for (const path of [
      "/v1/account",
      "/v1/usage",
      "/v1/usage/{request_id}",
      "/admin/v1/accounts/{account}/deposits",
    ]) {
      expect(Object.keys(document.paths)).toContain(path);
    }
    const parameters = document.paths["/v1/usage"]?.["get"]?.["parameters"] as { name: string }[];
    expect(parameters.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["since", "group_by", "cursor", "format"]),
    );
  });
});
