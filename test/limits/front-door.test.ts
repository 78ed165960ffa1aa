import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Accounts } from "../../src/accounts/accounts.ts";
import { makeKey } from "../../src/accounts/key-form.ts";
import type { KeyChange } from "../../src/accounts/keys.ts";
import { openStore, type Store } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { silentLog } from "../../src/observe/log.ts";
import { type RunningServer, startServer } from "../../src/server.ts";
import { PLAIN_CONFIG } from "../support/app.ts";
import { type ManualClock, manualClock } from "../support/clock.ts";
import { until } from "../support/wait.ts";

/** A server that listens, behind a proxy that is believed: each test is a client at an address of its own. */
type Lab = { server: RunningServer; store: Store; clock: ManualClock; stop(): Promise<void> };

async function start(store: Store = openStore(":memory:"), clock = manualClock()): Promise<Lab> {
  const config = {
    ...PLAIN_CONFIG,
    server: { ...PLAIN_CONFIG.server, trustedProxies: ["127.0.0.1"], corsOrigins: ["https://page.example"] },
    plans: {
      quick: { requests_per_minute: 60, concurrent_generations: 1, metered: false },
      paying: { spending_window_usd: 5 },
    },
    models: [{ id: "sluice/script", pricing: { input: 1, output: 10 } }],
  };
  const parts = { config, vendors: [], store, clock, log: silentLog, version: "0.0.0-test" };
  const server = await startServer({ ...parts, host: "127.0.0.1", port: 0 });
  return {
    server,
    store,
    clock,
    async stop() {
      await server.stop();
    },
  };
}

async function makeKeyOn({ server, store, clock }: Lab, plan: string, change: KeyChange = {}) {
  const writer = new Writer(store, clock);
  const accounts = new Accounts(store, writer, server.app.keys, clock);
  const account = await accounts.create({ name: `on ${plan} ${Math.random()}`, plan });
  await writer.close();
  return server.app.keys.create({ accountId: account.id, name: "k", kind: "api", ...change });
}

type Call = { from?: string; key?: string; method?: string; body?: unknown; headers?: Record<string, string> };

function call({ server }: Lab, path: string, { from, key, method, body, headers }: Call = {}): Promise<Response> {
  return fetch(`${server.url}${path}`, {
    method: method ?? (body === undefined ? "GET" : "POST"),
    headers: {
      ...(from !== undefined && { "x-forwarded-for": from }),
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
}

const ECHO = { model: "sluice/echo", max_tokens: 20, messages: [{ role: "user", content: "hello" }] };
const REQUESTS: Record<string, unknown> = {
  "/v1/chat/completions": ECHO,
  "/v1/messages": ECHO,
  "/v1/messages/count_tokens": ECHO,
  "/v1/responses": { model: "sluice/echo", input: "hello" },
};
/** A reply that says one thing, and is silent for a minute. */
const SLOW = JSON.stringify({ blocks: [{ type: "text", text: "one two three four" }], silence_ms: 60_000 });

const limits = (response: Response) => [...response.headers.keys()].filter((name) => /ratelimit/.test(name)).sort();

let lab: Lab;
beforeAll(async () => {
  lab = await start();
});
afterAll(async () => {
  await lab.stop();
  lab.store.close();
});

describe("headers of both dialects (contract 6)", () => {
  const CHAT = ["limit", "remaining", "reset"].flatMap((part) => [
    `x-ratelimit-${part}-requests`,
    `x-ratelimit-${part}-tokens`,
  ]);
  const MESSAGES = ["requests", "tokens", "input-tokens", "output-tokens"].flatMap((count) =>
    ["limit", "remaining", "reset"].map((part) => `anthropic-ratelimit-${count}-${part}`),
  );

  test.each([
    ["/v1/chat/completions", CHAT],
    ["/v1/responses", CHAT],
    ["/v1/messages", MESSAGES],
  ])("%s: on success, on a refusal, and when it goes too fast", async (path, names) => {
    const { key } = await makeKeyOn(lab, "quick");
    const body = REQUESTS[path];
    for (const stream of [false, true]) {
      const answer = await call(lab, path, { key, body: { ...(body as object), stream } });
      expect(answer.status).toBe(200);
      await answer.text();
      expect(limits(answer)).toEqual([...names].sort());
    }
    const wrong = await call(lab, path, { key, body: { ...(body as object), model: "sluice/none" } });
    expect([wrong.status, limits(wrong)]).toEqual([404, [...names].sort()]);
    const statuses: number[] = [];
    let last = wrong;
    for (let more = 0; more < 13; more++) {
      last = await call(lab, path, { key, body });
      statuses.push(last.status);
    }
    // Fifteen at once on sixty a minute; the one of an unknown model counted too.
    expect(statuses).toEqual([...Array.from({ length: 12 }, () => 200), 429]);
    expect(limits(last)).toEqual([...names].sort());
    expect(last.headers.get("x-should-retry")).toBe("true");
    expect(last.headers.get("retry-after")).toBe("1");
    expect(last.headers.get("retry-after-ms")).toBe("1000");
    const { error } = (await last.json()) as { error: { code: string; type: string } };
    expect([error.code, error.type]).toEqual(["rate_limit_exceeded", "rate_limit_error"]);
    // Whoever waits as told is served.
    await lab.clock.advance(1_000);
    expect((await call(lab, path, { key, body })).status).toBe(200);
  });

  test("their figures", async () => {
    const { key } = await makeKeyOn(lab, "quick");
    await (await call(lab, "/v1/chat/completions", { key, body: ECHO })).text();
    const chat = await call(lab, "/v1/chat/completions", { key, body: ECHO });
    expect(chat.headers.get("x-ratelimit-limit-requests")).toBe("60");
    expect(chat.headers.get("x-ratelimit-remaining-requests")).toBe("13");
    expect(chat.headers.get("x-ratelimit-reset-requests")).toBe("2s");
    expect(Number(chat.headers.get("x-ratelimit-remaining-tokens"))).toBe(13_000_000);
    const messages = await call(lab, "/v1/messages", { key, body: ECHO });
    expect(messages.headers.get("anthropic-ratelimit-requests-remaining")).toBe("12");
    const reset = messages.headers.get("anthropic-ratelimit-requests-reset") ?? "";
    expect(reset).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    expect(Date.parse(reset) - lab.clock.now()).toBeGreaterThanOrEqual(3_000);
    expect(Date.parse(reset) - lab.clock.now()).toBeLessThan(4_000);
    // Counting tokens has a bucket of its own: twice as many a minute.
    const count = await call(lab, "/v1/messages/count_tokens", { key, body: ECHO });
    expect(count.headers.get("anthropic-ratelimit-requests-limit")).toBe("120");
    expect(count.headers.get("anthropic-ratelimit-requests-remaining")).toBe("29");
  });

  test.each([
    ["/v1/chat/completions", "x-ratelimit-remaining-requests", 200, 15],
    ["/v1/responses", "x-ratelimit-remaining-requests", 200, 15],
    ["/v1/messages", "anthropic-ratelimit-requests-remaining", 200, 15],
    ["/v1/images/generations", "x-ratelimit-remaining-requests", 202, 5],
  ])(
    "%s: an answer that is given again, and a refusal of its key, say what is left by then",
    async (path, name, fine, most) => {
      const { key } = await makeKeyOn(lab, "quick");
      const body = REQUESTS[path] ?? { model: "sluice/sketch", prompt: "a hill" };
      const ask = async (more: object, headers: Record<string, string>) => {
        // One image at a time.
        const answer = await call(lab, path, {
          key,
          body: { ...(body as object), ...more },
          headers: { prefer: "wait=10", ...headers },
        });
        await answer.text();
        return [answer.status, answer.headers.get("idempotency-replayed"), Number(answer.headers.get(name))];
      };
      const keyed = { "idempotency-key": "k" };
      expect(await ask({}, keyed)).toEqual([fine, null, most - 1]);
      expect(await ask({}, {})).toEqual([fine, null, most - 2]);
      expect(await ask({}, keyed)).toEqual([fine, "true", most - 2]);
      expect(await ask({ user: "another" }, keyed)).toEqual([422, null, most - 2]);
      await lab.clock.advance(60_000);
      expect(await ask({}, keyed)).toEqual([fine, "true", most]);
    },
  );

  test("plan local has no limits, and so no headers of them", async () => {
    const { key } = await makeKeyOn(lab, "local");
    const answers = await Promise.all(
      Array.from({ length: 60 }, () => call(lab, "/v1/chat/completions", { key, body: ECHO })),
    );
    expect(answers.every((answer) => answer.status === 200 && limits(answer).length === 0)).toBe(true);
  });

  test.each([...Object.entries(REQUESTS), ["/v1/debug/translate", { dialect: "chat", body: ECHO }] as const])(
    "%s: who goes too fast is told so before anything is read of what he sends",
    async (path, body) => {
      const { key } = await makeKeyOn(lab, "quick");
      const noObject = "not looked at";
      expect((await call(lab, path, { key, body: noObject })).status).toBe(400);
      for (let more = 0; more < 30; more++) await (await call(lab, path, { key, body })).text();
      expect((await call(lab, path, { key, body: noObject })).status).toBe(429);
    },
  );

  test("web pages may read them", async () => {
    const { key } = await makeKeyOn(lab, "quick");
    const headers = { origin: "https://page.example" };
    const refused = await call(lab, "/v1/messages", { body: ECHO, headers });
    const none = await call(lab, "/nothing", { headers });
    for (const answer of [refused, none]) {
      expect(answer.headers.get("access-control-allow-origin")).toBe("https://page.example");
    }
    for (const path of ["/v1/chat/completions", "/v1/messages"]) {
      const answer = await call(lab, path, { key, body: ECHO, headers });
      const exposed = answer.headers.get("access-control-expose-headers")?.split(", ") ?? [];
      expect(limits(answer).filter((name) => !exposed.includes(name))).toEqual([]);
      const others = [
        "retry-after",
        "x-sluice-attempts",
        "x-sluice-dropped",
        "x-sluice-token-count",
        "x-sluice-cost-usd",
      ];
      expect(others.filter((name) => !exposed.includes(name))).toEqual([]);
    }
  });

  test("too many at the same time: 429, and the place is given back", async () => {
    const { key } = await makeKeyOn(lab, "quick");
    const slow = { model: "sluice/script", stream: true, messages: [{ role: "user", content: SLOW }] };
    const leave = new AbortController();
    const running = await fetch(`${lab.server.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: JSON.stringify(slow),
      signal: leave.signal,
    });
    expect(running.status).toBe(200);
    const second = await call(lab, "/v1/messages", { key, body: ECHO });
    expect(second.status).toBe(429);
    expect(((await second.json()) as { error: { code: string } }).error.code).toBe("concurrency_exceeded");
    expect(Number(second.headers.get("retry-after"))).toBeLessThanOrEqual(60);
    // The refusal took nothing of the minute: one request has been made.
    expect(second.headers.get("anthropic-ratelimit-requests-remaining")).toBe("14");
    leave.abort();
    await lab.server.app.running.idle();
    expect((await call(lab, "/v1/messages", { key, body: ECHO })).status).toBe(200);
  });
});

describe("addresses (reliability 4)", () => {
  test("ten wrong keys, then 429 for further ones, for that address alone, and never for a right one", async () => {
    const wrong = { from: "192.0.2.1", body: ECHO };
    for (let tries = 0; tries < 10; tries++) {
      expect((await call(lab, "/v1/messages", { ...wrong, key: makeKey("api") })).status).toBe(401);
    }
    const refused = await call(lab, "/v1/messages", { ...wrong, key: makeKey("api") });
    expect(refused.status).toBe(429);
    expect(refused.headers.get("retry-after")).toBe("6");
    expect(((await refused.json()) as { error: { type: string } }).error.type).toBe("rate_limit_error");
    const { key } = await makeKeyOn(lab, "local");
    // Who shares the address is not locked out by another's mistake.
    expect((await call(lab, "/v1/messages", { ...wrong, key })).status).toBe(200);
    expect((await call(lab, "/v1/messages", { from: "192.0.2.2", key, body: ECHO })).status).toBe(200);
    // Nothing shown is nothing guessed.
    expect((await call(lab, "/v1/messages", wrong)).status).toBe(401);
    await lab.clock.advance(5_999);
    expect((await call(lab, "/v1/messages", { ...wrong, key: makeKey("api") })).status).toBe(429);
    await lab.clock.advance(1);
    expect((await call(lab, "/v1/messages", { ...wrong, key: makeKey("api") })).status).toBe(401);
  });

  test("a wrong token in the path is a wrong key as well", async () => {
    const from = "192.0.2.7";
    const ask = async () => (await call(lab, `/mcp/web/t/${makeKey("token")}`, { from, body: {} })).status;
    for (let tries = 0; tries < 10; tries++) expect(await ask()).toBe(401);
    expect(await ask()).toBe(429);
  });

  test("wrong admin keys have a bucket of their own", async () => {
    const from = "192.0.2.3";
    for (let tries = 0; tries < 5; tries++) {
      expect((await call(lab, "/admin/v1/keys", { from, key: makeKey("admin") })).status).toBe(401);
    }
    expect((await call(lab, "/admin/v1/keys", { from, key: makeKey("admin") })).status).toBe(429);
    const { key } = await makeKeyOn(lab, "local");
    expect((await call(lab, "/v1/messages", { from, key, body: ECHO })).status).toBe(200);
  });

  test("the catalog: twenty at once without a key; with one as often as its plan likes", async () => {
    const from = "192.0.2.4";
    const statuses: number[] = [];
    for (let tries = 0; tries < 22; tries++) statuses.push((await call(lab, "/v1/models", { from })).status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(20);
    expect(statuses.slice(20)).toEqual([429, 429]);
    const refused = await call(lab, "/v1/models/sluice/echo", { from, headers: { "anthropic-version": "2023-06-01" } });
    expect(refused.status).toBe(429);
    expect(await refused.json()).toMatchObject({ type: "error", error: { type: "rate_limit_error" } });
    const { key } = await makeKeyOn(lab, "local");
    for (let tries = 0; tries < 30; tries++) {
      expect((await call(lab, "/v1/models", { from, key })).status).toBe(200);
    }
    // A wrong key is nobody's here, and not held against the address.
    expect((await call(lab, "/v1/models", { from, key: makeKey("api") })).status).toBe(429);
    expect((await call(lab, "/v1/models", { from: "192.0.2.5", key: makeKey("api") })).status).toBe(200);
    // Health checks of the same address go on.
    expect((await call(lab, "/healthz", { from })).status).toBe(200);
    await lab.clock.advance(200);
    expect((await call(lab, "/v1/models", { from })).status).toBe(200);
  });

  test("this machine's own programs may ask as often as they like, unless somebody is in between", async () => {
    const ask = async (path: string, headers: Record<string, string> = {}) => {
      const answer = await call(lab, path, { headers });
      await answer.text();
      return answer.status;
    };
    for (let tries = 0; tries < 60; tries++) expect(await ask("/v1/models")).toBe(200);
    for (let tries = 0; tries < 130; tries++) expect(await ask("/healthz")).toBe(200);
    const statuses: number[] = [];
    for (let tries = 0; tries < 22; tries++) statuses.push(await ask("/v1/models", { via: "1.1 proxy" }));
    expect(statuses.slice(19)).toEqual([200, 429, 429]);
  });

  test("this machine's own programs are told of every wrong key that it is wrong, unless somebody is in between", async () => {
    const ask = async (path: string, kind: "api" | "admin", headers: Record<string, string> = {}) => {
      const answer = await call(lab, path, { key: makeKey(kind), headers, ...(kind === "api" && { body: ECHO }) });
      await answer.text();
      return answer.status;
    };
    for (let tries = 0; tries < 25; tries++) {
      expect(await ask(tries % 2 ? "/v1/messages" : "/v1/chat/completions", "api")).toBe(401);
      expect(await ask("/admin/v1/keys", "admin")).toBe(401);
    }
    const statuses: number[] = [];
    for (let tries = 0; tries < 11; tries++) statuses.push(await ask("/v1/messages", "api", { via: "1.1 proxy" }));
    expect(statuses.slice(9)).toEqual([401, 429]);
  });

  test("every other public page is bounded too", async () => {
    const from = "192.0.2.6";
    const pages = ["/healthz", "/readyz", "/", "/openapi/json", "/favicon.svg"];
    let refused = 0;
    for (let tries = 0; tries < 125; tries++) {
      const answer = await call(lab, pages[tries % pages.length]!, { from });
      if (answer.status === 429) refused++;
      await answer.text();
    }
    expect(refused).toBe(25);
  });

  test("a page of pictures is shown whole, has an end too, and takes nothing from the health checks of its address", async () => {
    const from = "192.0.2.7";
    const file = `/v1/images/files/${"0".repeat(32)}.png`;
    const statuses: number[] = [];
    for (let tries = 0; tries < 1_003; tries++) {
      const answer = await call(lab, file, { from });
      statuses.push(answer.status);
      await answer.text();
    }
    expect(statuses.slice(0, 1_000).every((status) => status === 404)).toBe(true);
    expect(statuses.slice(1_000)).toEqual([429, 429, 429]);
    expect((await call(lab, "/healthz", { from })).status).toBe(200);
  });

  test("a client that is no proxy's cannot choose its address", async () => {
    const plain = await start(openStore(":memory:"));
    try {
      const strict = { ...plain, server: plain.server };
      // All hops before the last one are the client's own words.
      for (let tries = 0; tries < 20; tries++) {
        await call(strict, "/v1/models", { from: `203.0.113.${tries}, 192.0.2.9` });
      }
      expect((await call(strict, "/v1/models", { from: "198.51.100.1, 192.0.2.9" })).status).toBe(429);
    } finally {
      await plain.stop();
      plain.store.close();
    }
  });
});

describe("keys at the front door", () => {
  test("a model outside of the key's: 403 with its param, in both dialects, and nothing is counted", async () => {
    const { key, id } = await makeKeyOn(lab, "local", { models: ["other/*"] });
    for (const [path, body] of Object.entries(REQUESTS)) {
      const answer = await call(lab, path, { key, body });
      expect(answer.status).toBe(403);
      expect(await answer.json()).toMatchObject({ error: { code: "permission_denied" } });
    }
    const used = lab.store.database.query("SELECT count(*) FROM usage WHERE key_id = ?").values(id);
    expect(used).toEqual([[0n]]);
  });

  test("the cap of a day: 429 that is not to be repeated, with the time it ends", async () => {
    const { key } = await makeKeyOn(lab, "local", { capRequestsDay: 2 });
    for (let request = 0; request < 2; request++) {
      expect((await call(lab, "/v1/messages", { key, body: ECHO })).status).toBe(200);
    }
    const refused = await call(lab, "/v1/messages", { key, body: ECHO });
    expect(refused.status).toBe(429);
    expect(refused.headers.get("x-should-retry")).toBe("false");
    expect(refused.headers.has("retry-after")).toBe(false);
    const { error } = (await refused.json()) as { error: { code: string; reset_at: string } };
    expect(error.code).toBe("allowance_exhausted");
    expect(Date.parse(error.reset_at)).toBeGreaterThan(lab.clock.now());
  });

  test.each([true, false])(
    "a reply that its cap ends says so, though its account pays nothing: stream %s",
    async (stream) => {
      // At 10 USD a million tokens of output it pays for more than a first slice, and not for the 5,000 that are written.
      const { key } = await makeKeyOn(lab, "local", { capTotalNano: 50_000_000n });
      const content = JSON.stringify({ blocks: [{ type: "text", text: "word ".repeat(4_000), chunk: 500 }] });
      const body = { model: "sluice/script", stream, messages: [{ role: "user", content }] };
      const answer = await call(lab, "/v1/chat/completions", { key, body });
      const text = await answer.text();
      expect(/"finish_reason":"(.*?)"/.exec(text)?.[1]).toBe("length");
      const told = stream ? /^: x-sluice-stop: (.*)$/m.exec(text)?.[1] : answer.headers.get("x-sluice-stop");
      expect(told).toBe("balance");
      const receipt = await call(lab, `/v1/usage/${answer.headers.get("x-request-id")}`, { key });
      expect(await receipt.json()).toMatchObject({ finish_reason: "length", charged_usd: 0, flags: ["balance"] });
      // What nobody pays has no cost to tell.
      expect([text.includes("x-sluice-cost-usd"), answer.headers.has("x-sluice-cost-usd")]).toEqual([false, false]);
    },
  );

  test("a stream ends within a second of its key's end", async () => {
    const { key } = await makeKeyOn(lab, "local", { expiresAt: lab.clock.now() + 5_000 });
    const body = { model: "sluice/script", stream: true, messages: [{ role: "user", content: SLOW }] };
    const answer = await call(lab, "/v1/chat/completions", { key, body });
    const text = answer.text();
    await lab.clock.advance(6_000);
    expect(await text).toContain("invalid_api_key");
    expect(await text).not.toContain("[DONE]");
    expect((await call(lab, "/v1/messages", { key, body: ECHO })).status).toBe(401);
  });
});

describe("a start after another server", () => {
  test("that ended as it should: whole bursts; that did not: half of them", async () => {
    const store = openStore(":memory:");
    const atOnce = async (lab: Lab) => {
      const { key } = await makeKeyOn(lab, "quick");
      const statuses: number[] = [];
      for (let request = 0; request < 16; request++) {
        const answer = await call(lab, "/v1/messages", { key, body: ECHO });
        statuses.push(answer.status);
        await answer.text();
      }
      return statuses.filter((status) => status === 200).length;
    };
    const first = await start(store);
    expect(await atOnce(first)).toBe(15);
    // What a crash leaves behind is the note of the start.
    expect(store.database.query("SELECT clean FROM server_stop").values()).toEqual([[0n]]);
    const second = await start(store);
    expect(await atOnce(second)).toBe(7);
    await first.stop();
    await second.stop();
    expect(store.database.query("SELECT clean FROM server_stop").values()).toEqual([[1n]]);
    const third = await start(store);
    expect(await atOnce(third)).toBe(15);
    await third.stop();
    store.close();
  });

  test("that died in the middle of a paid stream: what its account pays for it counts for its key's caps", async () => {
    const store = openStore(":memory:");
    const clock = manualClock();
    const first = await start(store, clock);
    // More than a first slice at once, and then nothing.
    const blocks = [{ type: "text", text: "one two three four ".repeat(1_500), chunk: 28_000 }];
    const content = JSON.stringify({ blocks, silence_ms: 60_000 });
    const body = { model: "sluice/script", stream: true, messages: [{ role: "user", content }] };
    const capped = await makeKeyOn(first, "paying", { capTotalNano: 1_000_000_000n, capRequestsDay: 9 });
    const free = await makeKeyOn(first, "paying");
    const leave = new AbortController();
    for (const { key } of [capped, free]) {
      const answer = await fetch(`${first.server.url}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(body),
        signal: leave.signal,
      });
      await answer.body?.getReader().read();
    }
    const journal = store.database.query("SELECT count(*) FROM ledger_hold WHERE seen_output > 0");
    await until(async () => {
      await clock.advance(100);
      return journal.values()[0]?.[0] === 2n;
    }, "both streams in the journal");
    const second = await start(store, clock);
    const rows = store.database.query("SELECT key_id, charged_nano FROM usage WHERE outcome = 'interrupted'").values();
    const paidNano = new Map(rows as [string, bigint][]).get(capped.id) ?? 0n;
    expect([rows.length, paidNano > 30_000_000n]).toEqual([2, true]);
    const account = await call(second, "/v1/account", { key: capped.key });
    const { key } = (await account.json()) as { key: Record<string, { used: number; remaining: number }> };
    const paid = Number(paidNano) / 1e9;
    expect(key["cap_total_usd"]).toMatchObject({ used: paid, remaining: 1 - paid });
    expect(key["cap_requests_day"]).toMatchObject({ used: 1, remaining: 8 });
    // A key without caps has no count.
    expect(store.database.query("SELECT DISTINCT key_id FROM key_spend").values()).toEqual([[capped.id]]);
    leave.abort();
    await first.stop();
    await second.stop();
    store.close();
  });
});
