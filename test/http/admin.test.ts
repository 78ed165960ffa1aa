import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readAmount } from "../../src/http/admin/answer.ts";
import { AccountView, PlanView } from "../../src/wire/account.ts";
import { CreatedKeyView, EntryView, KeyView, PageOf, VendorView } from "../../src/wire/admin.ts";
import { checker } from "../../src/wire/open.ts";
import { oneProcessOnly } from "../support/black-box-config.ts";
import { json } from "../support/upstream.ts";
import { type AccountLab, COST, DAY_MS, type Json, PRICED, startAccountLab, type Tenant } from "./account-lab.ts";

/** A gateway that is a process of its own has another clock than the test: an answer is heard so long after it was made at the most. */
const HEARD_MS = 2_000;

let lab: AccountLab;
let team: Tenant;
beforeAll(async () => {
  lab = await startAccountLab();
  team = await lab.tenant("team", "pro");
});
afterAll(() => lab.stop());

const get = (path: string) => lab.ask(lab.admin, path);
const post = (path: string, body: unknown) => lab.ask(lab.admin, path, { body, method: "POST" });
const errorOf = (told: { status: number; body: Json }) => {
  const { code, param } = told.body["error"] as Json;
  return [told.status, code, param];
};
const dataOf = (body: Json) => body["data"] as Json[];

describe("who administers", () => {
  const PATHS = [
    ["GET", "/admin/v1/accounts"],
    ["POST", "/admin/v1/accounts"],
    ["GET", "/admin/v1/accounts/team"],
    ["POST", "/admin/v1/accounts/team/plan"],
    ["POST", "/admin/v1/accounts/team/deposits"],
    ["POST", "/admin/v1/accounts/team/promotions"],
    ["POST", "/admin/v1/accounts/team/corrections"],
    ["GET", "/admin/v1/accounts/team/entries"],
    ["GET", "/admin/v1/plans"],
    ["GET", "/admin/v1/keys"],
    ["POST", "/admin/v1/keys"],
    ["POST", "/admin/v1/keys/key_x"],
    ["DELETE", "/admin/v1/keys/key_x"],
    ["GET", "/admin/v1/tokens"],
    ["POST", "/admin/v1/tokens"],
    ["DELETE", "/admin/v1/tokens/tok_x"],
    ["GET", "/admin/v1/usage"],
    ["GET", "/admin/v1/usage/req_x"],
    ["GET", "/admin/v1/vendors"],
  ] as const;

  test.each(PATHS)("%s %s: an admin key only", async (method, path) => {
    const nobody = await lab.gateway.call(path, { method });
    expect(nobody.status).toBe(401);
    const body = method === "POST" ? {} : undefined;
    expect(errorOf(await lab.ask(team.key, path, { method, body }))).toEqual([403, "permission_denied", null]);
    const stranger = `sk-sluice-admin-${"0".repeat(38)}`;
    expect((await lab.ask(stranger, path, { method, body })).status).toBe(401);
    expect(errorOf(await lab.ask(lab.admin, path, { method: "PUT", body: {} }))[0]).toBe(405);
  });

  test("every path of the operator is in the table above", async () => {
    const routes = (await lab.gateway.app.gateway.routes()).routes.filter(
      (route) => route.path.startsWith("/admin/") && route.method !== "ALL",
    );
    const shape = (method: string, path: string) =>
      `${method} ${path.replace(/:\w+/g, "x").replace(/(team|key_x|tok_x|req_x)/g, "x")}`;
    const known = PATHS.map(([method, path]) => shape(method, path));
    expect(routes.map(({ method, path }) => shape(method, path)).filter((route) => !known.includes(route))).toEqual([]);
    expect(routes.length).toBe(PATHS.length);
  });
});

describe("accounts and plans", () => {
  test("made, listed by pages, shown by id and by name, put on another plan", async () => {
    const made = await post("/admin/v1/accounts", { name: "lab one", plan: "free" });
    expect(made.status).toBe(201);
    expect(checker(AccountView)(made.body)).toBeUndefined();
    await post("/admin/v1/accounts", { name: "lab two", plan: "free" });
    const { id, name, created } = made.body as Record<string, unknown>;
    const seen: unknown[] = [];
    for (let path = "/admin/v1/accounts?limit=1"; ; ) {
      const { body } = await get(path);
      for (const row of dataOf(body)) if (row["id"] === id) expect(row).toMatchObject({ name, plan: "free", created });
      seen.push(...dataOf(body).map((row) => row["name"]));
      if (body["next_cursor"] === null) break;
      path = `/admin/v1/accounts?limit=1&cursor=${body["next_cursor"]}`;
    }
    const named = seen.filter((name) => ["local", "team", "lab one", "lab two"].includes(String(name)));
    // The last two were made in one millisecond: which of them comes first is chance.
    expect([...named.slice(0, 2), ...named.slice(2).sort()]).toEqual(["local", "team", "lab one", "lab two"]);
    const moved = await post("/admin/v1/accounts/lab%20one/plan", { plan: "ultra" });
    expect(moved.body).toMatchObject({ name: "lab one", plan: { id: "ultra", requests_per_minute: 600 } });
    const shown = await get(`/admin/v1/accounts/${made.body["id"]}`);
    expect(shown.body).toEqual(moved.body);
    const plans = await get("/admin/v1/plans");
    expect(checker(PageOf(PlanView, "x"))(plans.body)).toBeUndefined();
    expect(dataOf(plans.body).map((plan) => plan["id"])).toEqual([
      "local",
      "free",
      "pro",
      "pro_plus",
      "max",
      "ultra",
      "power",
    ]);
  });

  test("a name is as long as its characters are many, as the published schema counts", async () => {
    const make = (name: string) => post("/admin/v1/accounts", { name, plan: "free" });
    const longest = "\u{1f6b0}".repeat(100);
    const made = await make(longest);
    expect([made.status, made.body["name"]]).toEqual([201, longest]);
    const over = await make(`${longest}x`);
    expect(over.status).toBe(400);
    expect(over.body["error"]).toMatchObject({
      param: "name",
      message: expect.stringContaining("1 to 100 characters"),
    });
    // What else is wrong beside such a name is told.
    const other = await post("/admin/v1/accounts", { name: longest, plan: 5 });
    expect(errorOf(other)[2]).toBe("plan");
  });

  test.each([
    ["a plan that is none", "/admin/v1/accounts", { name: "x", plan: "gold" }, 400, "plan"],
    ["no plan", "/admin/v1/accounts", { name: "x" }, 400, "plan"],
    ["no name", "/admin/v1/accounts", { plan: "free" }, 400, "name"],
    ["an empty name", "/admin/v1/accounts", { name: "", plan: "free" }, 400, "name"],
    ["a name that is taken", "/admin/v1/accounts", { name: "team", plan: "free" }, 400, "name"],
    ["a name with a sign that nobody sees", "/admin/v1/accounts", { name: "te\u0007am", plan: "free" }, 400, "name"],
    ["nobody's plan", "/admin/v1/accounts/nobody/plan", { plan: "free" }, 404, null],
    ["another plan that is none", "/admin/v1/accounts/team/plan", { plan: "gold" }, 400, "plan"],
  ])("%s: refused, nothing written", async (_what, path, body, status, param) => {
    const before = (await get("/admin/v1/accounts?limit=1000")).body;
    const told = errorOf(await post(path, body));
    expect([told[0], told[2]]).toEqual([status, param]);
    expect((await get("/admin/v1/accounts?limit=1000")).body).toEqual(before);
  });
});

describe("money", () => {
  const balance = async (name = "team") => ((await get(`/admin/v1/accounts/${name}`)).body["balance"] as Json)["usd"];
  beforeAll(() => post("/admin/v1/accounts/team/deposits", { amount_usd: 2, reference: "known" }));

  test("a deposit, a promotion and a correction; the same reference is booked once", async () => {
    await lab.tenant("payer", "pro");
    const entries = async (query = "") => (await get(`/admin/v1/accounts/payer/entries${query}`)).body;
    expect(await entries()).toEqual({ object: "list", data: [], has_more: false, next_cursor: null });
    const deposit = { amount_usd: "25.000000001", reference: "invoice-1", detail: "June" };
    const first = await post("/admin/v1/accounts/payer/deposits", deposit);
    expect(checker(EntryView)(first.body)).toBeUndefined();
    expect(first).toMatchObject({ status: 201, body: { kind: "deposit", amount: "25.000000001", repeated: false } });
    const again = await post("/admin/v1/accounts/payer/deposits", { ...deposit, detail: "again" });
    expect(again).toMatchObject({ status: 200, body: { seq: first.body["seq"], repeated: true, detail: "June" } });
    expect(await post("/admin/v1/accounts/payer/promotions", { amount_usd: 0.1, reference: "gift" })).toMatchObject({
      body: { kind: "promotion", amount: "0.100000000" },
    });
    expect(await post("/admin/v1/accounts/payer/corrections", { amount_usd: "-5", reference: "oops" })).toMatchObject({
      status: 201,
      body: { kind: "correction", amount: "5.000000000" },
    });
    expect(await balance("payer")).toBe(20.1);
    const page = await entries("?limit=2");
    expect(dataOf(page).map((entry) => entry["reference"])).toEqual(["oops", "gift"]);
    const rest = await entries(`?limit=2&cursor=${page["next_cursor"]}`);
    expect(rest).toMatchObject({ has_more: false, next_cursor: null, data: [{ reference: "invoice-1" }] });
    expect(await entries("?limit=3")).toMatchObject({ has_more: false, next_cursor: null });
  });

  test.each([
    ["nothing", { amount_usd: 0, reference: "r" }, 400, "amount_usd"],
    ["less than nothing", { amount_usd: "-1", reference: "r" }, 400, "amount_usd"],
    ["a fraction of a nano-dollar", { amount_usd: "0.0000000001", reference: "r" }, 400, "amount_usd"],
    ["a number too small to be written out", { amount_usd: 1e-10, reference: "r" }, 400, "amount_usd"],
    ["more than a million", { amount_usd: "1000000.000000001", reference: "r" }, 400, "amount_usd"],
    ["no amount", { amount_usd: "1e3", reference: "r" }, 400, "amount_usd"],
    ["an object", { amount_usd: {}, reference: "r" }, 400, "amount_usd"],
    ["no reference", { amount_usd: 1 }, 400, "reference"],
    ["a reference that is no ASCII", { amount_usd: 1, reference: "ü" }, 400, "reference"],
    ["another amount under a known reference", { amount_usd: 1, reference: "known" }, 400, "reference"],
  ])("a deposit of %s is refused", async (_what, body, status, param) => {
    const before = await balance();
    const told = errorOf(await post("/admin/v1/accounts/team/deposits", body));
    expect([told[0], told[2]]).toEqual([status, param]);
    expect(await balance()).toBe(before);
  });

  test("what a reference may be is told in words", async () => {
    const { body } = await post("/admin/v1/accounts/team/deposits", { amount_usd: 1, reference: "" });
    expect((body["error"] as Json)["message"]).toStartWith(
      "reference must be a name of your own for this payment, 1 to 200 printable ASCII characters",
    );
  });

  test("a remark is as long as its characters are many", async () => {
    const detail = "\u{1f6b0}".repeat(1_000);
    const book = (reference: string, remark: string) =>
      post("/admin/v1/accounts/team/deposits", { amount_usd: 1, reference, detail: remark });
    expect(await book("long", detail)).toMatchObject({ status: 201, body: { detail } });
    expect(errorOf(await book("longer", `${detail}x`))).toEqual([400, "invalid_request", "detail"]);
  });

  test("a correction takes no more than there is; nobody gets nothing", async () => {
    const much = await post("/admin/v1/accounts/team/corrections", { amount_usd: "-1000", reference: "too much" });
    expect(errorOf(much)).toEqual([402, "insufficient_quota", null]);
    const nobody = await post("/admin/v1/accounts/nobody/deposits", { amount_usd: 1, reference: "x" });
    expect(errorOf(nobody)).toEqual([404, "not_found", null]);
  });

  test("amounts as they are written", () => {
    const read = (amount: string | number) => readAmount(amount, "a");
    expect(["12.5", 0.1, 3, "-0.000000001", "0000000001"].map(read)).toEqual([
      ...[12_500_000_000n, 100_000_000n, 3_000_000_000n, -1n, 1_000_000_000n],
    ]);
    // Written as 0.0000005 or -0.000000001, and 1e-9 once it has been read: what an exact charge is corrected by.
    expect([0.0000005, -0.000000001, 0.000000068].map(read)).toEqual([500n, -1n, 68n]);
    for (const bad of [
      1e-10,
      1.5e-9,
      "",
      " 1",
      "1.",
      ".5",
      "+1",
      "1,5",
      "0x10",
      "Infinity",
      NaN,
      "1.0000000000",
      "12345678901",
    ]) {
      expect(() => read(bad)).toThrow("nine decimals");
    }
  });
});

describe("keys and tokens", () => {
  test("a limit that is misspelled makes no key without it", async () => {
    const wrong = [
      ["/admin/v1/keys", { account: "team", name: "ci", cap_day: 1 }, "cap_day"],
      ["/admin/v1/tokens", { account: "team", name: "ci", expires_in_days: 1 }, "expires_in_days"],
    ] as const;
    const before = await get("/admin/v1/keys?limit=1000");
    for (const [path, body, field] of wrong) {
      const told = await post(path, body);
      expect([told.status, (told.body["error"] as Json)["param"]]).toEqual([400, field]);
    }
    expect((await get("/admin/v1/keys?limit=1000")).body).toEqual(before.body);
  });

  test("a name with half a character in it is told as it is kept: strict clients refuse JSON with such a half", async () => {
    const name = "half \ud83d";
    const account = await post("/admin/v1/accounts", { name, plan: "free" });
    expect([account.status, account.body["name"]]).toEqual([201, "half \ufffd"]);
    const key = await post("/admin/v1/keys", { account: account.body["id"], name });
    expect(key.body["name"]).toBe("half \ufffd");
    const renamed = await post(`/admin/v1/keys/${key.body["id"]}`, { name: `${name}!` });
    expect(renamed.body["name"]).toBe("half \ufffd!");
    const kept = dataOf((await get(`/admin/v1/keys?account=${account.body["id"]}`)).body);
    expect(kept.map((row) => row["name"])).toEqual(["half \ufffd!"]);
  });

  test("a key is made, shown once, changed, and revoked", async () => {
    const made = await post("/admin/v1/keys", {
      ...{ account: "team", name: "ci", models: ["lab/*"], endpoints: ["chat"], cap_day_usd: "1.5" },
      expires_at: "2027-01-31T00:00:00Z",
    });
    expect(made.status).toBe(201);
    expect(checker(CreatedKeyView)(made.body)).toBeUndefined();
    const key = String(made.body["key"]);
    expect(made.body).toMatchObject({
      object: "key",
      kind: "api",
      account: team.id,
      cap_day_usd: 1.5,
      endpoints: ["chat"],
    });
    await lab.generate(key);
    expect((await lab.ask(key, "/v1/account")).status).toBe(403);
    const path = `/admin/v1/keys/${made.body["id"]}`;
    const limits = { name: "build", endpoints: null, models: ["lab/*"], cap_day_usd: null };
    const changed = await post(path, { name: "build", endpoints: null, cap_day_usd: null });
    expect(changed).toMatchObject({ status: 200, body: { ...limits, expires_at: "2027-01-31T00:00:00.000Z" } });
    expect(await post(path, { expires_at: null })).toMatchObject({
      status: 200,
      body: { ...limits, expires_at: null },
    });
    expect((await lab.ask(key, "/v1/account")).status).toBe(200);
    const list = await get("/admin/v1/keys?account=team&limit=1000");
    expect(checker(PageOf(KeyView, "x"))(list.body)).toBeUndefined();
    expect(JSON.stringify(list.body)).not.toContain(key);
    expect(dataOf(list.body).map((row) => row["name"])).toEqual(["team's key", "build"]);
    // By its whole id in its own list, and by nothing else that a command would take for it.
    const id = String(made.body["id"]);
    for (const other of [`keys/${id.slice(0, -1)}`, `keys/${key}`, `tokens/${id}`]) {
      expect((await lab.ask(lab.admin, `/admin/v1/${other}`, { method: "DELETE" })).status).toBe(404);
    }
    expect((await lab.ask(key, "/v1/account")).status).toBe(200);
    const revoked = await lab.ask(lab.admin, path, { method: "DELETE" });
    expect(Math.abs(Date.parse(String(revoked.body["revoked_at"])) - lab.clock.now())).toBeLessThan(HEARD_MS);
    expect((await lab.ask(key, "/v1/account")).status).toBe(401);
  });

  test("keys are listed by pages; a cursor of another list is none of this one", async () => {
    const whole = (await get("/admin/v1/keys?limit=1000")).body;
    expect(whole).toMatchObject({ has_more: false, next_cursor: null });
    const seen: unknown[] = [];
    let cursor = "";
    for (let path = "/admin/v1/keys?limit=2"; ; ) {
      const { body } = await get(path);
      seen.push(...dataOf(body));
      expect(body["has_more"]).toBe(body["next_cursor"] !== null);
      if (body["next_cursor"] === null) break;
      cursor = String(body["next_cursor"]);
      path = `/admin/v1/keys?limit=2&cursor=${cursor}`;
      expect(seen.length).toBeLessThan(dataOf(whole).length);
    }
    expect(seen).toEqual(dataOf(whole));
    const none = await post("/admin/v1/accounts", { name: "without keys", plan: "free" });
    for (const path of [
      `/admin/v1/tokens?cursor=${cursor}`,
      `/admin/v1/keys?account=${none.body["id"]}&cursor=${cursor}`,
      `/admin/v1/keys?cursor=${Buffer.from("key_none").toString("base64url")}`,
      `/admin/v1/accounts/team/entries?cursor=${cursor}`,
      `/admin/v1/vendors?cursor=${cursor}`,
    ]) {
      const { status, body } = await get(path);
      expect([status, (body["error"] as Json)["param"]]).toEqual([400, "cursor"]);
    }
  });

  test("a narrow token is made for its purposes, and revoked", async () => {
    const made = await post("/admin/v1/tokens", {
      account: "team",
      name: "editor",
      scopes: ["images:read"],
      days: 7,
      calls_per_day: 50,
    });
    expect(made).toMatchObject({
      status: 201,
      body: { object: "token", kind: "token", endpoints: ["images:read"], cap_requests_day: 50 },
    });
    expect(made.body["key"]).toStartWith("slt-");
    const endsAt = Date.parse(String(made.body["expires_at"]));
    expect(Math.abs(endsAt - lab.clock.now() - 7 * DAY_MS)).toBeLessThan(HEARD_MS);
    expect(dataOf((await get("/admin/v1/tokens")).body).map((row) => row["id"])).toEqual([made.body["id"]]);
    const revoked = await lab.ask(lab.admin, `/admin/v1/tokens/${made.body["id"]}`, { method: "DELETE" });
    for (const [path, word] of [
      ["/admin/v1/tokens/key_x", "token"],
      [`/admin/v1/keys/${made.body["id"]}`, "key"],
    ] as const) {
      const missing = await lab.ask(lab.admin, path, { method: "DELETE" });
      expect([missing.status, JSON.stringify(missing.body)]).toEqual([
        404,
        expect.stringContaining(`There is no ${word} of this id.`),
      ]);
    }
    expect(revoked.body["revoked_at"]).not.toBeNull();
  });

  test.each([
    ["/admin/v1/keys", { account: "nobody", name: "x" }, 404, null],
    ["/admin/v1/keys", { account: "team" }, 400, "name"],
    ["/admin/v1/keys", { account: "team", name: "x", kind: "root" }, 400, "kind"],
    ["/admin/v1/keys", { account: "team", name: "x", expires_at: "soon" }, 400, "expires_at"],
    ["/admin/v1/keys", { account: "team", name: "x", expires_at: "2027-02-31T00:00:00Z" }, 400, "expires_at"],
    ["/admin/v1/keys", { account: "team", name: "x", expires_at: "2020-01-01T00:00:00Z" }, 400, "expires_at"],
    ["/admin/v1/keys", { account: "team", name: "x\u0007" }, 400, "name"],
    ["/admin/v1/keys", { account: "team", name: "x", kind: "admin", cap_requests_day: 1 }, 400, "kind"],
    ["/admin/v1/tokens", { account: "team", name: "x\u0007" }, 400, "name"],
    ["/admin/v1/keys", { account: "team", name: "x", endpoints: ["everything"] }, 400, "endpoints[0]"],
    ["/admin/v1/keys", { account: "team", name: "x", cap_day_usd: "0.0000000001" }, 400, "cap_day_usd"],
    ["/admin/v1/keys", { account: "team", name: "x", cap_day_usd: "0" }, 400, "cap_day_usd"],
    ["/admin/v1/keys", { account: "team", name: "x", cap_total_usd: "1000001" }, 400, "cap_total_usd"],
    ["/admin/v1/keys/key_nobody", { name: "x" }, 404, null],
    ["/admin/v1/tokens", { account: "team", name: "x", days: 91 }, 400, "days"],
    ["/admin/v1/tokens", { account: "team", name: "x", scopes: ["chat"] }, 400, "scopes[0]"],
  ])("%s %j is refused", async (path, body, status, param) => {
    const told = errorOf(await post(path, body));
    expect([told[0], told[2]]).toEqual([status, param]);
  });
});

test("a body has 256 KiB at the most", async () => {
  const padded = (length: number) => {
    const body = { account: "nobody", name: "x", more: "" };
    return { ...body, more: "x".repeat(length - JSON.stringify(body).length) };
  };
  expect(errorOf(await post("/admin/v1/keys", padded(256 * 1024)))).toEqual([400, "invalid_request", "more"]);
  expect(errorOf(await post("/admin/v1/keys", padded(256 * 1024 + 1)))).toEqual([413, "request_too_large", null]);
});

test("a pattern of models that fits none is refused in words", async () => {
  const { body } = await post("/admin/v1/keys", { account: "team", name: "x", models: ["a b"] });
  expect((body["error"] as { message: string }).message).toBe(
    "models[0] must be a model ID such as openai/gpt-5 or a pattern such as openai/*",
  );
});

describe("usage and vendors", () => {
  test("usage of all accounts, of one, and by account; any request's receipt", async () => {
    const local = await lab.generate(lab.gateway.key);
    const theirs = await lab.generate(team.key);
    const all = dataOf((await get("/admin/v1/usage?limit=1000")).body);
    expect(all.map((row) => row["request_id"])).toEqual(expect.arrayContaining([local, theirs]));
    const ofTeam = dataOf((await get(`/admin/v1/usage?account=${team.id}&limit=1000`)).body);
    expect(ofTeam.every((row) => row["account"] === team.id)).toBe(true);
    expect(dataOf((await get("/admin/v1/usage?account=team&limit=1000")).body)).toEqual(ofTeam);
    expect((await get("/admin/v1/usage?account=nobody&group_by=day")).status).toBe(404);
    const { body } = await get("/admin/v1/usage?group_by=account");
    expect(dataOf(body).map((row) => [row["name"], row["requests"]])).toEqual(
      expect.arrayContaining([
        ["team", ofTeam.length],
        ["local", all.length - ofTeam.length],
      ]),
    );
    expect((await get(`/admin/v1/usage/${local}`)).body).toMatchObject({ account: lab.gateway.accountId, cost: COST });
  });

  test("vendors: how they fared, and with probe what they answer now; no key anywhere", async () => {
    oneProcessOnly("what is known of vendors");
    lab.upstream.answer("/v1/chat/completions", json({ error: { message: "down" } }, { status: 500 }));
    const body = { model: PRICED, messages: [{ role: "user", content: "Hi" }] };
    expect((await lab.ask(team.key, "/v1/chat/completions", { body })).status).toBe(502);
    const vendor = async (query = "", wanted = "lab") => {
      const { body } = await get(`/admin/v1/vendors${query}`);
      expect(checker(PageOf(VendorView, "x"))(body)).toBeUndefined();
      expect(JSON.stringify(body)).not.toContain("vendor-key-of");
      return dataOf(body).find((row) => row["id"] === wanted);
    };
    const failing = await vendor();
    expect(failing).toMatchObject({ state: "failing", failed: 1, last_error: "upstream_error" });
    expect(failing?.["host"]).toBe(new URL(lab.upstream.url).host);
    expect(Math.abs(Date.parse(String(failing?.["failing_since"])) - lab.clock.now())).toBeLessThan(HEARD_MS);
    await lab.generate(team.key);
    expect(await vendor()).toMatchObject({ state: "ok", failed: 1, failing_since: null, dialect: "chat" });
    expect(await vendor("", "sluice")).toMatchObject({ state: "unused", served: 0, failed: 0 });
    expect(await vendor("?probe=false")).not.toHaveProperty("probe");
    lab.upstream.always("/v1/models", json({ object: "list", data: [{ id: "hidden", object: "model" }] }));
    expect((await vendor("?probe=true"))?.["probe"]).toEqual({ ok: true, models: 1 });
    lab.upstream.always("/v1/models", json({ error: { message: "no" } }, { status: 401 }));
    expect((await vendor("?probe=true"))?.["probe"]).toEqual({ ok: false, error: "upstream_auth" });
    // A client's own fault is not the vendor's.
    const before = await vendor();
    expect((await lab.ask(team.key, "/v1/chat/completions", { body: { ...body, messages: 7 } })).status).toBe(400);
    expect(await vendor()).toEqual(before);
  });
});
