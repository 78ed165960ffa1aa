import { afterAll, afterEach, describe, expect, test } from "bun:test";
import type { App } from "../../src/app.ts";
import { isFromHere } from "../../src/http/caller/address.ts";
import type { HoldRequest, Payment } from "../../src/ledger/ledger.ts";
import type { Clock } from "../../src/lib/clock.ts";
import { silentLog } from "../../src/observe/log.ts";
import type { WebToolCall } from "../../src/relay/run-web-tool.ts";
import type { HoldForm, HoldOrder } from "../../src/workers/messages.ts";
import { RemoteLedger } from "../../src/workers/remote-ledger.ts";
import { createRemoteTools } from "../../src/workers/remote-tools.ts";
import { Session } from "../../src/workers/session.ts";
import { type PLAIN_CONFIG, startApp, type TestApp, vendorAt } from "../support/app.ts";
import { manualClock, settle } from "../support/clock.ts";
import { json, neverAnswer, startUpstream } from "../support/upstream.ts";
import { gate, until } from "../support/wait.ts";
import { type Pair, startPair, viewOf } from "./pair.ts";

const PATH = "/v1/chat/completions";
const upstream = startUpstream();
const vendor = { ...vendorAt(upstream, "chat", "lab"), models: "catalog" as const };
const MODELS = [
  { id: "lab/paid", pricing: { input: 3, output: 15 }, routes: [{ vendor: "lab", model: "paid" }] },
] as unknown as (typeof PLAIN_CONFIG)["models"];
const CALLER = { accountId: "acct_1", plan: "local", keyId: "key_1" };
const REPLY = {
  choices: [{ index: 0, message: { role: "assistant", content: "Yes" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 5, completion_tokens: 5 },
};

let gateway: TestApp;
let pair: Pair;

async function start(clock?: Clock): Promise<App> {
  upstream.reset();
  gateway = await startApp({ vendors: [vendor], models: MODELS, ...(clock && { clock }) });
  pair = startPair(gateway.app, ":memory:", gateway.clock);
  return gateway.app;
}

afterEach(async () => {
  await pair.worker.close();
  await gateway.stop();
});
afterAll(() => upstream.close());

const ask = (fields: object = {}, init: RequestInit = {}) =>
  pair.call(PATH, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify({ model: "lab/paid", messages: [{ role: "user", content: "Hi" }], ...fields }),
    ...init,
  });

/** What a session calls a paid request's hold with. */
const order = (requestId: string, accountId: string) => ({
  ...{ requestId, accountId, keyId: "key_1", model: "lab/paid", dialect: "chat", stream: true, estimate: 1_000 },
  prices: JSON.stringify({ model: "lab/paid", rates: { input: "3000000", output: "15000000" }, tiers: [] }),
  payment: { windowNano: "0", premium: false, sliced: true, unseenOutput: 0 },
  terms: null,
});

/** What the session answers to a worker that asks for a hold. */
async function holdFor(wanted: HoldOrder): Promise<HoldForm> {
  const form = await pair.link.call("hold", wanted);
  if (!form) throw new Error("nothing is held");
  return form;
}

describe("what a worker asks of the gateway", () => {
  test("a request through a worker is answered, limited, settled and told as one of the gateway's own", async () => {
    const app = await start();
    upstream.always(PATH, () => json(REPLY));
    const response = await ask();
    expect(await response.json()).toMatchObject({ model: "lab/paid", usage: { completion_tokens: 5 } });
    expect(gateway.rows()).toMatchObject([{ model: "lab/paid", output: 5, outcome: "completed" }]);
    await until(() => pair.session.open.permits === 0, "the place is free");
    expect(pair.session.open).toEqual({ permits: 0, holds: 0 });
    expect(app.running.count).toBe(0);
    const counted = pair.worker.figures().find(({ name }) => name === "sluice_requests_total");
    expect(counted?.samples.map(({ value }) => value)).toEqual([1]);
  });

  test("a model of a vendor's own list is one of the worker's too", async () => {
    upstream.reset();
    upstream.always("/v1/models", json({ data: [{ id: "listed" }] }));
    gateway = await startApp({ vendors: [{ ...vendor, models: "discover" }] });
    await gateway.app.discovery.askAll();
    pair = startPair(gateway.app, ":memory:", gateway.clock);
    upstream.always(PATH, () => json(REPLY));
    expect((await ask({ model: "lab/listed" })).status).toBe(200);
    expect((await ask({ model: "lab/other" })).status).toBe(404);
  });

  test("a refusal before the way began leaves no place taken: no key, a body that is none, a model that is none", async () => {
    await start();
    const refused = await Promise.all([
      pair.call(PATH, { method: "POST" }),
      ask({ model: "lab/none" }),
      ask({}, { body: "{" }),
      pair.call(PATH, { method: "POST", headers: { authorization: "Bearer sk-sluice-wrong" } }),
    ]);
    expect(refused.map(({ status }) => status)).toEqual([401, 404, 400, 401]);
    await until(() => pair.session.open.permits === 0, "the place is free");
    expect(pair.session.open).toEqual({ permits: 0, holds: 0 });
    expect(upstream.calls).toEqual([]);
    expect(gateway.rows()).toEqual([]);
  });

  test("a key lets in by either header, and what is left of its limit is told", async () => {
    const { services } = await start();
    const { limiter } = services;
    const take = limiter.take.bind(limiter);
    const state = { limit: 60, remaining: 7, resetMs: 1_000, resetAt: gateway.clock.now() + 1_000 };
    limiter.take = (...asked) => ({ ...take(...asked), state });
    upstream.always(PATH, () => json(REPLY));
    for (const header of ["authorization", "x-api-key"]) {
      const value = header === "authorization" ? `Bearer ${gateway.key}` : gateway.key;
      const response = await ask({}, { headers: { "content-type": "application/json", [header]: value } });
      const { headers, status } = response;
      const told = ["limit", "remaining"].map((name) => headers.get(`x-ratelimit-${name}-requests`));
      expect([status, ...told]).toEqual([200, "60", "7"]);
    }
  });

  test("who came to a worker through a proxy on this machine counts as coming from elsewhere here too", async () => {
    const app = await start();
    const seen: boolean[] = [];
    const desk = { keys: app.keys, services: app.services, requests: undefined, log: silentLog };
    const tellPeer = (request: Request, peer: string) => seen.push(isFromHere(request, peer));
    const session = new Session({ ...desk, tellPeer }, { listening() {}, proof() {} }, () => {});
    const knock = { path: PATH, authorization: null, apiKey: "sk-wrong", peer: "127.0.0.1", forwardedFor: null };
    for (const fromHere of [true, false])
      session.channel.receive([["?", 1, "enter", { ...knock, isFromHere: fromHere }]]);
    expect(seen).toEqual([true, false]);
    await session.close();
  });

  test("a client that leaves leaves nothing held", async () => {
    await start();
    const held = gate();
    upstream.always(PATH, async () => {
      await held.opened;
      return json(REPLY);
    });
    const leaving = new AbortController();
    const asked = ask({}, { signal: leaving.signal });
    await until(() => upstream.calls.length === 1, "the vendor is asked");
    expect(pair.session.open).toEqual({ permits: 1, holds: 1 });
    leaving.abort();
    await asked;
    await until(() => pair.session.open.holds === 0, "the hold is ended");
    expect(pair.session.open.permits).toBe(0);
    held.open();
  });

  test("a key that is revoked in the moment in which a request is let in ends that request", async () => {
    const { keys } = await start();
    upstream.always(PATH, () => json(REPLY));
    const find = keys.find.bind(keys);
    keys.find = (...presented) => {
      const caller = find(...presented);
      // It crosses with the answer, in one batch.
      if (caller) pair.session.channel.note("revoked", caller.keyId);
      return caller;
    };
    const response = await ask();
    expect([response.status, await response.json()]).toMatchObject([401, { error: { code: "invalid_api_key" } }]);
    await until(() => pair.session.open.permits === 0, "the place is free");
    expect([upstream.calls.length, gateway.rows().length]).toEqual([0, 0]);
  });
});

describe("money for a further call of a vendor", () => {
  test("is the request's own from then on: one hold, settled as one", async () => {
    const app = await start();
    const { accountId } = gateway;
    await app.book.deposit({ accountId, amountNano: 1_000_000_000n, reference: "payment" });
    const main = await holdFor({ ...order("req_main", accountId), maxOutputTokens: 10 });
    const beside = await holdFor({ ...order("req_beside", accountId), maxOutputTokens: 1 });
    const held = 1_100n * 3_000n + 10n * 15_000n + (1_100n * 3_000n + 15_000n);
    expect(app.book.balance(accountId).heldNano).toBe(held);
    await pair.link.call("absorb", { hold: main.hold, beside: beside.hold });
    expect([app.book.balance(accountId).heldNano, pair.session.open.holds]).toEqual([held, 1]);
    await expect(pair.link.call("release", beside.hold)).rejects.toThrow();
    const usage = { input: 2_100, cacheRead: 0, cacheWrite: 0, output: 10, reasoning: 0 };
    const settlement = { outcome: "completed", vendor: "lab", upstreamModel: "paid", usage, estimated: false } as const;
    const rest = { attempts: 1, durationMs: 1 };
    const charge = await pair.link.call("settle", { hold: main.hold, settlement: { ...settlement, ...rest } });
    expect(charge).toMatchObject({ chargedNano: String(2_100n * 3_000n + 10n * 15_000n) });
    expect(charge.flags).toBeUndefined();
    expect(app.book.balance(accountId).heldNano).toBe(0n);
    // What comes for a request that has ended is let go.
    const late = await holdFor({ ...order("req_late", accountId), maxOutputTokens: 1 });
    await pair.link.call("absorb", { hold: main.hold, beside: late.hold });
    expect([app.book.balance(accountId).heldNano, pair.session.open.holds]).toEqual([0n, 0]);
    expect(app.book.verify()).toEqual([]);
  });

  test("the model may make as much in it as in the first one: the worker is told from where on that needs more money", async () => {
    const app = await start();
    const { accountId } = gateway;
    await app.book.deposit({ accountId, amountNano: 1_000_000_000n, reference: "payment" });
    const asked = order("req_main", accountId);
    const ledger = new RemoteLedger(pair.link);
    const wish = (requestId: string) => ({
      ...{ ...asked, requestId, estimateInput: () => asked.estimate, terms: undefined },
      prices: { model: asked.model, prices: { input: 3_000_000n, output: 15_000_000n } },
      payment: { ...asked.payment, windowNano: 0n, maxOutputTokens: 1_000 },
    });
    const main = await ledger.hold(wish("req_main"));
    expect(main.growAt).toBe(Number.POSITIVE_INFINITY);
    await main.absorb?.(await ledger.hold({ ...wish("req_beside"), maxOutputTokens: 1 }));
    expect(main.growAt).toBe(875);
    await main.release();
    expect(app.book.balance(accountId).heldNano).toBe(0n);
  });
});

describe("what a hold says of its money", () => {
  /** 1,100 tokens of input and so many of output. */
  const cost = (output: bigint) => 1_100n * 3_000n + output * 15_000n;
  const wish = (fields: Partial<Payment>, maxOutputTokens: number): HoldRequest => ({
    ...{ requestId: "req_1", accountId: gateway.accountId, keyId: "key_1", model: "lab/paid", dialect: "chat" },
    ...{ stream: false, estimateInput: () => 1_000, maxOutputTokens },
    prices: { model: "lab/paid", prices: { input: 3_000_000n, output: 15_000_000n } },
    payment: { windowNano: 0n, premium: false, sliced: false, unseenOutput: 0, ...fields },
  });

  test.each([
    ["a ceiling that its vendor is told", cost(300n), {}, 1_000, [300, false, true, Number.POSITIVE_INFINITY]],
    ["that it is watched in a stream", cost(5_000n), { collectable: true }, 8_000, [undefined, true, false, 3_584]],
    ["nothing", cost(50_000n), {}, 1_000, [undefined, false, false, Number.POSITIVE_INFINITY]],
  ])("the worker hears: %s", async (_what, amountNano, fields, most, told) => {
    const app = await start();
    await app.book.deposit({ accountId: gateway.accountId, amountNano, reference: "payment" });
    const hold = await new RemoteLedger(pair.link).hold(wish(fields, most));
    expect<unknown[]>([hold.ceiling, hold.asStream, hold.short, hold.growAt]).toEqual(told);
    await hold.release();
  });

  test("a key that was capped since its request was let in is held by the input's estimate, which is made then", async () => {
    const app = await start();
    const [key] = app.keys.list();
    const keyId = key?.id ?? "";
    let estimates = 0;
    const late = (requestId: string): HoldRequest => ({
      ...{ requestId, accountId: gateway.accountId, keyId, model: "lab/paid", dialect: "chat", stream: false },
      prices: { model: "lab/paid", prices: { input: 3_000_000n, output: 15_000_000n } },
      estimateInput() {
        estimates++;
        return 1_000;
      },
    });
    const ledger = new RemoteLedger(pair.link);
    await (await ledger.hold(late("req_before"))).release();
    expect(estimates).toBe(0);
    // Less than the input alone costs.
    await app.keys.change(keyId, { capTotalNano: 2_000_000n });
    await expect(ledger.hold(late("req_after"))).rejects.toMatchObject({ code: "insufficient_quota" });
    await app.keys.change(keyId, { capTotalNano: 2_000_000_000n });
    const hold = await ledger.hold(late("req_more"));
    await hold.release();
    expect([estimates, pair.session.open.holds]).toEqual([2, 0]);
  });

  test("it hears how far a hold has grown, and a hold that has ended takes nothing over", async () => {
    const app = await start();
    const { accountId } = gateway;
    await app.book.deposit({ accountId, amountNano: 1_000_000_000n, reference: "payment" });
    const ledger = new RemoteLedger(pair.link);
    const main = await ledger.hold(wish({ sliced: true }, 50_000));
    expect(await main.extend({ vendor: "lab", upstreamModel: "paid", output: 3_600 })).toBe(true);
    expect(main.growAt).toBe(12_288 - 512);
    await main.release();
    // Whoever ends it once more is told that nothing is charged.
    const usage = { input: 1, cacheRead: 0, cacheWrite: 0, output: 1, reasoning: 0 };
    const settlement = { outcome: "completed", vendor: "lab", upstreamModel: "paid", usage, estimated: false } as const;
    await main.release();
    expect(await main.settle({ ...settlement, attempts: 1, durationMs: 1 })).toMatchObject({ chargedNano: 0n });
    await main.absorb?.(await ledger.hold({ ...wish({}, 1), requestId: "req_2" }));
    expect([app.book.balance(accountId).heldNano, pair.session.open.holds]).toEqual([0n, 0]);
  });
});

describe("a worker that dies", () => {
  test("whoever was sent output that was told of pays for it, nobody else pays, and no money stays held", async () => {
    const app = await start();
    const { accountId } = gateway;
    await app.book.deposit({ accountId, amountNano: 1_000_000_000n, reference: "payment" });
    const delivered = await holdFor(order("req_delivered", accountId));
    await holdFor(order("req_silent", accountId));
    const reading = { vendor: "lab", upstreamModel: "paid", output: 3_600 };
    expect(await pair.link.call("extend", { hold: delivered.hold, reading })).toMatchObject({ granted: true });
    // Long enough to be written down: only then is it known that something may have been lost.
    const written = () =>
      gateway.store.database.query("SELECT count(*) FROM ledger_hold WHERE seen_output > 0").values();
    await until(() => written()[0]?.[0] === 1n, "the hold is written down");
    await pair.die();
    const lines = gateway.log.filter(({ event }) => event === "generate");
    expect(lines.map(({ request_id: id, account, model, outcome }) => [id, account, model, outcome])).toEqual(
      ["req_delivered", "req_silent"].map((id) => [id, accountId, "lab/paid", "interrupted"]),
    );
    expect(gateway.rows()).toMatchObject([
      { requestId: "req_delivered", outcome: "interrupted", input: 1_000, output: 3_600, estimated: true },
    ]);
    const cost = 1_000n * 3_000n + 3_600n * 15_000n;
    expect(app.book.balance(accountId)).toMatchObject({ postedNano: 1_000_000_000n - cost, heldNano: 0n });
    expect(gateway.store.database.query("SELECT count(*) FROM ledger_hold").values()).toEqual([[0n]]);
    const lost = gateway.store.database.query("SELECT request_id, amount FROM ledger_entry WHERE kind = 'writeoff'");
    expect(lost.values()).toEqual([["req_silent", 3_000_000n]]);
    expect(app.book.verify()).toEqual([]);
  });

  test("its places are free again, and so is the place of a request that ended before", async () => {
    const app = await start();
    const { limiter } = app.services;
    const places: boolean[] = [];
    const take = limiter.take.bind(limiter);
    limiter.take = (...asked) => {
      const permit = take(...asked);
      const at = places.push(true) - 1;
      const release = () => {
        places[at] = false;
        permit.release();
      };
      return { ...permit, release };
    };
    upstream.always(PATH, () => json(REPLY));
    expect((await ask()).status).toBe(200);
    await until(() => pair.session.open.permits === 0, "the place is free");
    expect(places).toEqual([false]);
    upstream.always(PATH, () => gate().opened.then(() => json(REPLY)));
    void ask().catch(() => undefined);
    await until(() => upstream.calls.length === 2, "the vendor is asked");
    expect(places).toEqual([false, true]);
    await pair.die();
    expect(places).toEqual([false, false]);
  });

  test("the tools that run for its models end", async () => {
    const app = await start();
    const signals: AbortSignal[] = [];
    app.services.runWebTool = ({ signal }) => {
      signals.push(signal);
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    };
    const asked = { name: "web_search", dialect: "chat" } as const;
    const tool = { ...asked, arguments: { query: "x" }, caller: CALLER, requestId: "req_1" };
    void createRemoteTools(pair.link)({ ...tool, signal: new AbortController().signal }).catch(() => undefined);
    await until(() => signals.length === 1, "it runs");
    await pair.die();
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
  });

  test("a hold that comes when its worker is gone already is let go", async () => {
    const app = await start();
    const { accountId } = gateway;
    await app.book.deposit({ accountId, amountNano: 1_000_000_000n, reference: "payment" });
    const { ledger } = app.services;
    const turn = gate();
    app.services.ledger = { hold: (request) => turn.opened.then(() => ledger.hold(request)) };
    const asked = pair.link.call("hold", order("req_late", accountId)).catch(() => "refused");
    await settle();
    await pair.die();
    turn.open();
    await settle();
    pair.link.close(new Error("gone"));
    expect(await asked).toBe("refused");
    expect(app.book.balance(accountId)).toMatchObject({ postedNano: 1_000_000_000n, heldNano: 0n });
    expect(pair.session.open.holds).toBe(0);
    expect(gateway.rows()).toEqual([]);
  });

  test("a request that waits to be let in when its worker goes takes no place: nobody would give it back", async () => {
    const app = await start();
    const turn = gate();
    const admission = { enter: () => turn.opened } as object as NonNullable<App["services"]["admission"]>;
    const desk = { keys: app.keys, services: { ...app.services, admission }, requests: undefined, log: silentLog };
    const told = { listening() {}, proof() {} };
    const session = new Session({ ...desk, tellPeer() {} }, told, () => {});
    const knock = { path: PATH, authorization: `Bearer ${gateway.key}`, apiKey: null, peer: "", forwardedFor: null };
    session.channel.receive([["?", 1, "enter", { ...knock, isFromHere: true }]]);
    await session.close();
    turn.open();
    await settle();
    expect(session.open.permits).toBe(0);
  });
});

describe("what a worker takes over of a reload", () => {
  test("plans, and how long a whole answer may take", async () => {
    const app = await start();
    const { accountId } = gateway;
    await app.book.deposit({ accountId, amountNano: 1_000_000_000n, reference: "first" });
    upstream.always(PATH, () => json(REPLY));
    const view = { ...viewOf(app, ":memory:"), reloads: 1 };
    for (const metered of [false, true]) {
      pair.worker.take({ ...view, plans: { local: { metered } } });
      expect((await ask()).status).toBe(200);
    }
    expect(gateway.rows().map(({ chargedNano }) => chargedNano > 0n)).toEqual([false, true]);
    pair.worker.take({ ...view, blockingMs: 20 });
    upstream.always(PATH, neverAnswer());
    expect((await ask()).status).toBe(504);
  });

  test("trouble is forgotten once with each, and with nothing else that is told", async () => {
    const app = await start(manualClock());
    upstream.always(PATH, json({ error: { message: "broken" } }, { status: 500 }));
    const fail = async () => {
      const before = upstream.calls.length;
      for (let count = 0; count < 8; count++) expect((await ask()).status).toBeGreaterThanOrEqual(500);
      return upstream.calls.length - before;
    };
    const most = await fail();
    expect(most).toBeLessThan(8);
    const view = { ...viewOf(app, ":memory:"), reloads: 1 };
    pair.worker.take(view);
    expect(await fail()).toBe(most);
    pair.worker.take(view);
    // One finds out.
    expect(await fail()).toBeLessThanOrEqual(1);
  });
});

describe("web tools for a worker's models", () => {
  const call = (signal: AbortSignal): WebToolCall => ({
    ...{ name: "web_search", arguments: { query: "x" }, caller: CALLER, requestId: "req_1", dialect: "chat", signal },
  });

  test("run in the gateway, and end there when the request does", async () => {
    const app = await start();
    const signals: AbortSignal[] = [];
    app.services.runWebTool = ({ signal, name }) => {
      signals.push(signal);
      if (signals.length === 1)
        return Promise.resolve({ kind: "fault", fault: "too_many", message: `${name} is too many` });
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    };
    const run = createRemoteTools(pair.link);
    expect(await run(call(new AbortController().signal))).toEqual({
      ...{ kind: "fault", fault: "too_many", message: "web_search is too many" },
    });
    const abort = new AbortController();
    const reason = new Error("the client left");
    const running = run(call(abort.signal)).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    await until(() => signals.length === 2, "it runs");
    abort.abort(reason);
    expect(await running).toBe(reason);
    // For a request that is over by then none is run.
    await expect(run(call(abort.signal))).rejects.toBe(reason);
    await settle();
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, true]);
  });
});
