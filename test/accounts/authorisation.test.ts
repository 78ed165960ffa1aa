import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Accounts } from "../../src/accounts/accounts.ts";
import { hashKey, makeKey } from "../../src/accounts/key-form.ts";
import type { Keys } from "../../src/accounts/keys.ts";
import { scopesOf } from "../../src/accounts/scopes.ts";
import { type NewToken, toKey } from "../../src/accounts/tokens.ts";
import { Writer } from "../../src/db/writer.ts";
import { isObject } from "../../src/lib/json.ts";
import { startApp, type TestApp } from "../support/app.ts";
import { type ManualClock, manualClock } from "../support/clock.ts";

/** Whom a route is for. `other-methods`: the handler that says which methods a path has. */
type Audience = "public" | "caller" | "admin" | "path-token" | "other-methods";
type Route = { method: string; path: string; audience: Audience };

/** Every path that answers without a key (contract 3). A path that is not here and not an admin's needs a caller's key: a new one is closed until it is named. */
const PUBLIC = [
  /^\/$/,
  /^\/v1\/models(\/\*|\/:id)?$/,
  /^\/(healthz|readyz|metrics)$/,
  /^\/openapi(\/[a-z.]+)?$/,
  /^\/assets\/[a-z.]+$/,
  /^\/favicon\.(svg|ico)$/,
  // Image files are links meant for other pages; their names cannot be guessed (contract 3, reliability 5.5).
  /^\/v1\/images\/files\/:\w+$/,
];

function audienceOf(method: string, path: string): Audience {
  if (method === "ALL") return "other-methods";
  if (PUBLIC.some((form) => form.test(path))) return "public";
  if (path.startsWith("/admin/v1/")) return "admin";
  return path.includes(":token") ? "path-token" : "caller";
}

function readRoutes(app: unknown): Route[] {
  const routes =
    isObject(app) || typeof app === "object" ? (app as { routes: { method: string; path: string }[] }).routes : [];
  return routes.map(({ method, path }) => ({ method, path, audience: audienceOf(method, path) }));
}

/** A path to call: what stands for something that exists, or that exists nowhere. */
const fill = (path: string) => path.replaceAll("*", "sluice/echo").replace(/:\w+/g, () => "nothing_of_this_name");

let lab: TestApp;
let clock: ManualClock;
let routes: Route[];
let keys: Record<string, string>;
/** Requests that the tests so far were allowed: each is a row of usage. */
let allowed = 0;

async function makeKeys(): Promise<Record<string, string>> {
  const writer = new Writer(lab.store, clock);
  const { keys: store } = lab.app;
  const accounts = new Accounts(lab.store, writer, store, clock);
  const other = await accounts.create({ name: "other", plan: "local" });
  await writer.close();
  const makeToken = (wish: Partial<NewToken> = {}) =>
    store.create({ accountId: lab.accountId, ...toKey({ name: "t", ...wish }, clock.now()) });
  const soon = clock.now() + 1_000;
  const make = async (wanted: Omit<Parameters<Keys["create"]>[0], "name" | "accountId"> & { accountId?: string }) =>
    store.create({ accountId: lab.accountId, name: "k", ...wanted });
  const revoked = await make({ kind: "api" });
  const revokedAdmin = await make({ kind: "admin" });
  await store.revoke(revoked.id);
  await store.revoke(revokedAdmin.id);
  const expired = await make({ kind: "api", expiresAt: soon });
  const expiredAdmin = await make({ kind: "admin", expiresAt: soon });
  const expiredToken = await makeToken({ days: 1_000 / 86_400_000 });
  const revokedToken = await makeToken();
  await store.revoke(revokedToken.id);
  const made = {
    valid: lab.key,
    second: (await make({ kind: "api" })).key,
    other: (await make({ kind: "api", accountId: other.id })).key,
    admin: (await make({ kind: "admin" })).key,
    webToken: (await makeToken()).key,
    imagesToken: (await makeToken({ scopes: ["images:read"] })).key,
    onlyAccount: (await make({ kind: "api", endpoints: ["account"] })).key,
    onlyChat: (await make({ kind: "api", endpoints: ["chat"] })).key,
    revoked: revoked.key,
    revokedAdmin: revokedAdmin.key,
    expired: expired.key,
    expiredAdmin: expiredAdmin.key,
    expiredToken: expiredToken.key,
    revokedToken: revokedToken.key,
    unknown: makeKey("api"),
    unknownAdmin: makeKey("admin"),
    unknownToken: makeKey("token"),
  };
  await clock.advance(2_000);
  return made;
}

beforeAll(async () => {
  clock = manualClock();
  lab = await startApp({ clock });
  routes = readRoutes(await lab.app.gateway.routes());
  keys = await makeKeys();
});
afterAll(() => lab.stop());

function call({ method, path }: Route, headers: [string, string][], query = ""): Promise<Response> {
  const all = new Headers(headers);
  const writes = method !== "GET";
  if (writes) all.set("content-type", "application/json");
  return lab.call(`${fill(path)}${query}`, { method, headers: all, ...(writes && { body: "{}" }) });
}

const bearer = (key: string): [string, string][] => [["authorization", `Bearer ${key}`]];
const apiKey = (key: string): [string, string][] => [["x-api-key", key]];

/** What nobody may come in with, at any door: name, and headers or query. */
function strangers(): [string, [string, string][], string?][] {
  const k = keys as Record<string, string>;
  const hash = hashKey(k["valid"] as string);
  return [
    ["no key", []],
    ["an unknown key", bearer(k["unknown"]!)],
    ["an unknown key by x-api-key", apiKey(k["unknown"]!)],
    ["an unknown admin key", bearer(k["unknownAdmin"]!)],
    ["an unknown token", bearer(k["unknownToken"]!)],
    ["a revoked key", bearer(k["revoked"]!)],
    ["a revoked key by x-api-key", apiKey(k["revoked"]!)],
    ["an expired key", bearer(k["expired"]!)],
    ["an expired key by x-api-key", apiKey(k["expired"]!)],
    ["a revoked admin key", bearer(k["revokedAdmin"]!)],
    ["an expired admin key", bearer(k["expiredAdmin"]!)],
    ["a revoked token", bearer(k["revokedToken"]!)],
    ["an expired token", bearer(k["expiredToken"]!)],
    ["the hash of a key", bearer(hash)],
    ["the hash of a key by x-api-key", apiKey(hash)],
    ["the hash in a key's clothes", bearer(`sk-sluice-${hash.slice(0, 38)}`)],
    ["two different keys", [...bearer(k["valid"]!), ...apiKey(k["second"]!)]],
    ["a key and an admin key", [...bearer(k["valid"]!), ...apiKey(k["admin"]!)]],
    ["a key in the query", [], `?key=${k["valid"]}&api_key=${k["valid"]}&x-api-key=${k["valid"]}`],
    ["an admin key in the query", [], `?key=${k["admin"]}`],
    [
      "a key with its last character changed",
      bearer(`${k["valid"]!.slice(0, -1)}${k["valid"]!.endsWith("0") ? "1" : "0"}`),
    ],
  ];
}

async function expectRefused(response: Response, statuses: readonly number[], what: string): Promise<void> {
  const text = await response.text();
  expect(`${what}: ${response.status}`).toBe(
    `${what}: ${statuses.find((status) => status === response.status) ?? statuses.join(" or ")}`,
  );
  for (const key of Object.values(keys)) expect(text.includes(key) || text.includes(hashKey(key))).toBe(false);
  const body: unknown = JSON.parse(text);
  const error = isObject(body) && isObject(body["error"]) ? body["error"] : {};
  // The MCP server tells its refusals as JSON-RPC, under the same statuses (interface 5 rule 3).
  const rpc = isObject(body) && body["jsonrpc"] === "2.0";
  expect(`${what}: ${rpc ? "JSON-RPC" : "plain"}`).toBe(
    `${what}: ${what.includes(" /mcp/web") ? "JSON-RPC" : "plain"}`,
  );
  const codes = rpc
    ? { denied: -32_000, stranger: -32_001 }
    : { denied: "permission_denied", stranger: "invalid_api_key" };
  const code = response.status === 401 ? codes.stranger : codes.denied;
  expect(`${what}: ${String(error["code"])}`).toBe(`${what}: ${code}`);
  const challenge = response.headers.get("www-authenticate");
  if (response.status === 401) expect(challenge).toStartWith(rpc ? 'Bearer realm="mcp"' : "Bearer");
  else expect(challenge).toBeNull();
  expect(response.headers.get("x-should-retry")).not.toBe("true");
}

/** A page without what changes from one look to the next: the figures of the metrics. */
const readStill = ({ path }: Route, text: string) => (path === "/metrics" ? text.replace(/ [-+.\w]+$/gm, "") : text);

const of = (audience: Audience) => routes.filter((route) => route.audience === audience);
const named = ({ method, path }: Route, who: string) => `${method} ${path} with ${who}`;
const doorsOf = (audience: Audience) =>
  of(audience).flatMap((route) => strangers().map((who) => [route, who] as const));

describe("the routes of the app", () => {
  test("there are all of contract 3 that are built, each for somebody", () => {
    const counts = ["/v1/messages/count_tokens", "/v1/responses/input_tokens"];
    for (const path of ["/v1/chat/completions", "/v1/messages", "/v1/responses", ...counts]) {
      expect(of("caller").map((route) => route.path)).toContain(path);
    }
    expect(of("caller").length).toBeGreaterThanOrEqual(8);
    expect(of("admin").length).toBeGreaterThanOrEqual(15);
    expect(of("public").length).toBeGreaterThanOrEqual(10);
  });

  test("a route that narrowed keys should reach has a scope; those of the operator have none", () => {
    for (const { method, path } of of("caller")) {
      expect(`${method} ${path}: ${scopesOf(method, path).length > 0}`).toBe(`${method} ${path}: true`);
    }
    for (const { method, path } of of("admin")) expect(scopesOf(method, path)).toEqual([]);
  });
});

describe("strangers", () => {
  test("get 401 at every route of callers, whatever they bring", async () => {
    for (const [route, [who, headers, query]] of doorsOf("caller")) {
      await expectRefused(await call(route, headers, query), [401], named(route, who));
    }
  });

  test("get 401 at every route of the operator", async () => {
    for (const [route, [who, headers, query]] of doorsOf("admin")) {
      await expectRefused(await call(route, headers, query), [401], named(route, who));
    }
  });

  test("see the public pages as everybody does", async () => {
    for (const route of of("public")) {
      const plain = await call(route, []);
      expect(plain.status).not.toBe(401);
      expect(plain.status).not.toBe(403);
      const body = readStill(route, await plain.text());
      for (const [who, headers] of [...strangers(), ["a key", bearer(keys["valid"]!)] as const]) {
        // The catalog's shape goes by the presence of this header, not by whose it is (interface 4.4 rule 3).
        if (headers.some(([name]) => name === "x-api-key")) continue;
        const response = await call(route, [...headers]);
        expect(`${named(route, who)}: ${response.status}`).toBe(`${named(route, who)}: ${plain.status}`);
        expect(readStill(route, await response.text())).toBe(
          body.replace(/req_\w+/g, () => response.headers.get("x-request-id") ?? ""),
        );
      }
    }
  });

  test("get nothing done by other methods either", async () => {
    for (const route of of("other-methods")) {
      for (const method of ["PUT", "PATCH"]) {
        const response = await lab.call(fill(route.path), { method, headers: bearer(keys["admin"]!), body: "{}" });
        expect(`${method} ${route.path}: ${response.status}`).toBe(`${method} ${route.path}: 405`);
      }
    }
  });
});

describe("keys for something else", () => {
  test("an admin key is no caller's: 401 at every route of callers", async () => {
    for (const route of of("caller")) {
      for (const headers of [bearer(keys["admin"]!), apiKey(keys["admin"]!)]) {
        const refused = await call(route, headers);
        // Who holds one would look for a slip of the pen.
        expect(await refused.clone().text()).toContain("an admin key is for /admin/v1 alone");
        await expectRefused(refused, [401], named(route, "an admin key"));
      }
    }
  });

  test("a caller's key is no admin's: 403 at every route of the operator", async () => {
    for (const route of of("admin")) {
      for (const who of ["valid", "other", "onlyChat", "webToken", "imagesToken"]) {
        await expectRefused(await call(route, bearer(keys[who]!)), [403], named(route, who));
        await expectRefused(await call(route, apiKey(keys[who]!)), [403], named(route, who));
      }
    }
  });

  test("a narrowed key or a token gets 403 outside of its scopes, and in inside of them", async () => {
    const scopes = { onlyChat: "chat", onlyAccount: "account", webToken: "web", imagesToken: "images:read" } as const;
    let inside = 0;
    for (const route of of("caller")) {
      for (const [who, scope] of Object.entries(scopes)) {
        const opens = (scopesOf(route.method, fill(route.path)) as readonly string[]).includes(scope);
        const response = await call(route, bearer(keys[who]!));
        if (!opens) await expectRefused(response, [403], named(route, who));
        else {
          inside++;
          expect([401, 403]).not.toContain(response.status);
        }
      }
    }
    expect(inside).toBeGreaterThanOrEqual(3);
  });
});

describe("who may come in", () => {
  test("a valid key by either header, or by both, at every route of callers", async () => {
    for (const route of of("caller")) {
      for (const headers of [
        bearer(keys["valid"]!),
        apiKey(keys["valid"]!),
        [...bearer(keys["valid"]!), ...apiKey(keys["valid"]!)],
      ]) {
        const response = await call(route, headers as [string, string][]);
        expect([401, 403, 405, 500]).not.toContain(response.status);
      }
    }
  });

  test("an admin key at every route of the operator", async () => {
    for (const route of of("admin")) {
      for (const headers of [bearer(keys["admin"]!), apiKey(keys["admin"]!)]) {
        const response = await call(route, headers);
        expect([401, 403, 405, 500]).not.toContain(response.status);
      }
    }
  });

  test("a token in the path at its routes, and nothing else there", async () => {
    for (const route of of("path-token")) {
      const at = (token: string) => ({ ...route, path: route.path.replace(/:token\w*/, token) });
      for (const who of ["unknownToken", "revokedToken", "expiredToken", "valid", "admin", "unknown"]) {
        expect(`${named(route, who)}: ${(await call(at(keys[who]!), [])).status}`).toBe(`${named(route, who)}: 401`);
      }
      expect([401, 403]).not.toContain((await call(at(keys["webToken"]!), [])).status);
      expect((await call(at(keys["imagesToken"]!), [])).status).toBe(403);
    }
  });

  test("another account's things are not there: the same 404 as for what never was", async () => {
    const asked = await lab.post("/v1/chat/completions", {
      model: "sluice/echo",
      messages: [{ role: "user", content: "mine" }],
    });
    allowed++;
    const id = asked.headers.get("x-request-id") ?? "";
    await asked.text();
    const look = async (request: string, key: string) => {
      const response = await lab.call(`/v1/usage/${request}`, { headers: bearer(key) });
      return [response.status, (await response.text()).replaceAll(/req_\w+/g, "")];
    };
    expect((await look(id, keys["valid"]!))[0]).toBe(200);
    expect(await look(id, keys["other"]!)).toEqual(await look("req_none", keys["other"]!));
    expect((await look(id, keys["other"]!))[0]).toBe(404);
  });
});

test("of all this nothing was kept but the one request that was allowed", () => {
  expect(lab.rows()).toHaveLength(allowed);
  expect(lab.app.keys.list().filter((row) => row.name !== "k" && row.name !== "local")).toEqual([]);
});
