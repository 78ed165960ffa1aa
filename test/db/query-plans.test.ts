import { afterAll, beforeAll, expect, test } from "bun:test";
import { openStore } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { ReasoningStore } from "../../src/relay/reasoning/store.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { planOf, slowStatements } from "../support/query-plans.ts";
import { statementsSeen } from "../support/statements.ts";
import { json, startUpstream } from "../support/upstream.ts";
import { until } from "../support/wait.ts";

// The whole suite's statements are looked at when it ends (test/support/preload.ts); here every path is gone once by itself.

const upstream = startUpstream();
let gateway: TestApp;
let admin: string;
beforeAll(async () => {
  gateway = await startApp({ vendors: [vendorAt(upstream, "chat", "lab")], models: [{ id: "lab/m", pricing: PRICE }] });
  const wish = { accountId: gateway.accountId, name: "admin", kind: "admin" } as const;
  admin = (await gateway.app.keys.create(wish)).key;
  upstream.always("/v1/chat/completions", json(REPLY));
});
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});

const PRICE = { input: 1, output: 2 };
const REPLY = {
  choices: [{ index: 0, message: { role: "assistant", content: "Hi." }, finish_reason: "stop" }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
};

async function ask(method: "GET" | "POST", path: string, key: string, body?: unknown, more?: Record<string, string>) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json", ...more };
  const response = await gateway.call(path, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text) as { id: string; key: string; status: string };
}

/** A paying account that asks, draws, is capped, and has its usage read in every way. */
async function goEveryWay(): Promise<void> {
  const account = await ask("POST", "/admin/v1/accounts", admin, { name: "payer", plan: "pro" });
  const money = { amount_usd: "5", reference: "first" };
  await ask("POST", `/admin/v1/accounts/${account.id}/deposits`, admin, money);
  const { key } = await ask("POST", "/admin/v1/keys", admin, { account: "payer", name: "k", cap_total_usd: 3 });
  const body = { model: "lab/m", messages: [{ role: "user", content: "Hi" }] };
  await ask("POST", "/v1/chat/completions", key, body);
  await ask("POST", "/v1/chat/completions", key, body, { "idempotency-key": "once" });
  await ask("POST", "/v1/chat/completions", key, body, { "idempotency-key": "once" });
  const picture = { model: "sluice/sketch", prompt: "a fox", size: "64x64" };
  const { id } = await ask("POST", "/v1/images/generations", key, picture);
  await ask("GET", `/v1/images/generations/${id}`, key, undefined, { prefer: "wait=10" });
  await ask("GET", "/v1/images/generations?limit=3", key);
  await ask("GET", "/v1/account", key);
  for (const path of ["/v1/usage?limit=1", "/v1/usage?group_by=day", "/v1/usage?group_by=key"])
    await ask("GET", path, key);
  for (const path of ["usage", "usage?group_by=account", "keys", "tokens", "accounts"]) {
    await ask("GET", `/admin/v1/${path}`, admin);
  }
  await ask("GET", `/admin/v1/accounts/${account.id}/entries`, admin);
  const { app, store, clock } = gateway;
  const writer = new Writer(store, clock);
  const kept = new ReasoningStore(store, writer, clock, app.services.log);
  await kept.put(account.id, ["call"], [{ kind: "reasoning", text: "so" }]);
  expect(kept.find(account.id, ["call", "other"]).size).toBe(1);
  kept.keepMaker(1n, "claude-1", 2n);
  expect(kept.makers(3)).toEqual([]);
  await kept.sweep();
  expect(kept.makers(3)).toEqual([[1n, "claude-1"]]);
  await writer.close();
}

test("no statement of the product walks through a table that grows, or sorts it", async () => {
  await goEveryWay();
  await until(() => gateway.rows().length >= 3, "the rows of both answers and of the picture");
  const seen = statementsSeen();
  const about = (table: string) => seen.filter(({ sql }) => sql.includes(table)).length;
  const tables = ["api_key", "ledger_entry", "usage", "usage_rollup", "image_job", "idempotency", "unit_claim"];
  for (const table of [...tables, "key_spend", "reasoning_state", "reasoning_maker", "ledger_hold"])
    expect([table, about(table) > 0]).toEqual([table, true]);
  expect(slowStatements(gateway.store.database, seen)).toEqual([]);
});

test("a statement that walks, sorts, or looks for a list from the wrong end is told", () => {
  const store = openStore(":memory:");
  const told = (sql: string) => slowStatements(store.database, [{ sql, file: "src/jobs/new.ts" }]).length;
  expect(told("SELECT * FROM usage WHERE model = ?")).toBe(1);
  expect(told("SELECT count(*) FROM usage")).toBe(1);
  expect(told("SELECT * FROM usage WHERE at_ms > ? ORDER BY model")).toBe(1);
  expect(told("DELETE FROM image_job WHERE prompt = ?")).toBe(1);
  expect(told("UPDATE ledger_entry SET kind = ? WHERE detail = ?")).toBe(1);
  const joined =
    "SELECT s.id FROM json_each(?) AS w JOIN reasoning_key AS k ON k.key = w.value JOIN reasoning_state AS s";
  expect(told(`${joined} ON s.id = k.state_id WHERE s.account_id = ?`)).toBe(1);
  expect(told(`${joined.replaceAll("JOIN", "CROSS JOIN")} ON s.id = k.state_id WHERE s.account_id = ?`)).toBe(0);
  expect(told("SELECT * FROM usage WHERE request_id = ?")).toBe(0);
  expect(planOf(store.database, "SELECT * FROM usage WHERE request_id = ?").join()).toContain("SEARCH");
  store.close();
});
