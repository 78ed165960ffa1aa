import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { count, eq } from "drizzle-orm";
import fc from "fast-check";
import { idempotency } from "../../src/db/schema-idempotency.ts";
import { KEEP_MS, MAX_KEYS } from "../../src/relay/idempotency-store.ts";
import { sendRaw } from "../http/raw-request.ts";
import { CLOCK_BY_HAND, insideOnly, readMoreFlags } from "../support/black-box-config.ts";
import { manualClock } from "../support/clock.ts";
import { listen } from "../support/listening.ts";
import { type Answer, type Call, html, json, sse } from "../support/upstream.ts";
import { gate, until } from "../support/wait.ts";
import { ask, ONE_ROUTE, PATH, readFailure, type ScenarioLab, startScenarioLab } from "./lab.ts";
import { readAlong } from "./reading.ts";
import type { Side } from "./wires.ts";

const SIDES: Side[] = ["chat", "messages"];
const CHAT = "/v1/chat/completions";

const CHAT_REPLY = {
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "hidden",
  choices: [{ index: 0, message: { role: "assistant", content: "Grüße 🌍" }, logprobs: null, finish_reason: "stop" }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
};

const chunk = (delta: object, finish: string | null = null) =>
  `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model: "hidden", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
const USAGE = `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model: "hidden", choices: [], usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 } })}\n\n`;
const START = chunk({ role: "assistant", content: "" }) + chunk({ content: "Grüße 🌍" });
const STREAM = `${START}${chunk({ content: " und mehr" })}${chunk({}, "stop")}${USAGE}data: [DONE]\n\n`;

const answerOf = (call: Call): Answer =>
  (call.json as { stream?: boolean }).stream === true ? sse(STREAM, { chunk: 7 }) : json(CHAT_REPLY);

const clock = manualClock();
let lab: ScenarioLab;
beforeAll(async () => {
  lab = await startScenarioLab(clock);
});
afterEach(() => {
  const strays = [lab.vendors.chat.unexpected.length, lab.vendors.messages.calls.length];
  lab.reset();
  expect(strays).toEqual([0, 0]);
});
afterAll(() => lab.stop());

let serial = 0;
const freshKey = () => `key-${++serial}`;

/** Both clients ask the chat vendor: one on the diagonal, one across. */
const post = (side: Side, body: unknown, key: string, more: Record<string, string> = {}) =>
  lab.gateway.post(PATH[side], body, { headers: { "idempotency-key": key, ...more } });

const calls = () => lab.vendors.chat.calls.length;

async function read(response: Response) {
  const { status, headers } = response;
  return { status, text: await response.text(), replayed: headers.get("idempotency-replayed"), headers };
}

/** The texts of a body in chunks (RFC 9112, 7.1). */
function chunksOf(body: Buffer): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0; ; ) {
    const line = body.indexOf("\r\n", at);
    const size = Number.parseInt(body.toString("latin1", at, line), 16);
    if (!(size > 0)) return chunks;
    chunks.push(body.subarray(line + 2, line + 2 + size));
    at = line + 2 + size + 2;
  }
}

describe.each(SIDES)("a %s client", (side) => {
  test.each(["blocking", "stream"] as const)(
    "%s: the same key and body: the same bytes, charged once",
    async (mode) => {
      lab.vendors.chat.always(CHAT, answerOf);
      const key = freshKey();
      const body = ask(side, ONE_ROUTE.chat, mode, { logit_bias: { a: 1 } });
      const first = await read(await post(side, body, key));
      expect([first.status, first.replayed]).toEqual([200, null]);
      const again = await read(await post(side, body, key));
      expect([again.status, again.replayed, again.text]).toEqual([200, "true", first.text]);
      expect(again.text).toContain("Grüße 🌍");
      for (const name of ["content-type", "x-sluice-dropped", "x-sluice-cost-usd"]) {
        expect([name, again.headers.get(name)]).toEqual([name, first.headers.get(name)]);
      }
      expect(again.headers.get("x-request-id")).toMatch(/^req_\w+$/);
      expect(again.headers.get("x-request-id")).not.toBe(first.headers.get("x-request-id"));
      expect([calls(), lab.rows().length]).toEqual([1, 1]);
    },
  );

  test("another body under the key: 422, nothing asked, nothing charged; the first answer stays", async () => {
    lab.vendors.chat.always(CHAT, answerOf);
    const key = freshKey();
    const first = await read(await post(side, ask(side, ONE_ROUTE.chat, "blocking"), key));
    const other = await readFailure(side, await post(side, ask(side, ONE_ROUTE.chat, "stream"), key));
    expect(other).toMatchObject({ status: 422, code: "idempotency_key_reused", retry: null });
    const again = await read(await post(side, ask(side, ONE_ROUTE.chat, "blocking"), key));
    expect(again.text).toBe(first.text);
    expect([calls(), lab.rows().length]).toEqual([1, 1]);
  });

  test.each(["blocking", "stream"] as const)(
    "%s: two at the same time: one runs, the other hears 409",
    async (mode) => {
      const held = gate();
      lab.vendors.chat.always(CHAT, (call) => ({ ...answerOf(call), headersAfter: held.opened }));
      const key = freshKey();
      const body = ask(side, ONE_ROUTE.chat, mode);
      const both = [post(side, body, key), post(side, body, key)];
      const told = await readFailure(side, await Promise.race(both));
      expect(told).toMatchObject({ status: 409, code: "idempotency_in_progress", retry: "true", retryAfter: "1" });
      held.open();
      const answers = await Promise.all(both);
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
      const first = await answers.find(({ status }) => status === 200)?.text();
      const again = await read(await post(side, body, key));
      expect([again.status, again.replayed, again.text]).toEqual([200, "true", first ?? ""]);
      expect([calls(), lab.rows().length]).toEqual([1, 1]);
    },
  );

  test("an answer is not given to another key of the account that is for other models", async () => {
    lab.vendors.chat.always(CHAT, answerOf);
    const { accountId, app } = lab.gateway;
    const wish = { accountId, name: "narrow", kind: "api" } as const;
    const other = await app.keys.create({ ...wish, models: ["sluice/echo"] });
    const same = await app.keys.create({ ...wish, models: [ONE_ROUTE.chat] });
    const key = freshKey();
    const body = ask(side, ONE_ROUTE.chat, "blocking");
    const first = await read(await post(side, body, key));
    const refused = await readFailure(side, await post(side, body, key, { authorization: `Bearer ${other.key}` }));
    expect(refused).toMatchObject({ status: 403, code: "permission_denied" });
    const again = await read(await post(side, body, key, { authorization: `Bearer ${same.key}` }));
    expect([again.status, again.replayed, again.text]).toEqual([200, "true", first.text]);
    expect(calls()).toBe(1);
  });
});

describe("what is kept", () => {
  test.each([
    ["a body that is no request", { model: ONE_ROUTE.chat, messages: 7 }, 400],
    ["an unknown model", { model: "lab/none", messages: [{ role: "user", content: "x" }] }, 404],
    ["no JSON", "{", 400],
  ])("not %s: the key stays free", async (_what, body, status) => {
    lab.vendors.chat.always(CHAT, answerOf);
    const key = freshKey();
    expect((await post("chat", body, key)).status).toBe(status);
    const second = await read(await post("chat", ask("chat", ONE_ROUTE.chat, "blocking"), key));
    expect([second.status, second.replayed]).toEqual([200, null]);
  });

  test("not a failure that cost nothing: the next try runs", async () => {
    // An overloaded vendor is asked once more before its failure is the request's.
    const overloaded = json({ error: { message: "overloaded" } }, { status: 503 });
    lab.vendors.chat.answer(CHAT, overloaded, overloaded);
    lab.vendors.chat.always(CHAT, answerOf);
    const key = freshKey();
    const body = ask("chat", ONE_ROUTE.chat, "stream");
    expect((await read(await post("chat", body, key))).status).toBe(503);
    const second = await read(await post("chat", body, key));
    expect([second.status, second.replayed, lab.rows().length]).toEqual([200, null, 1]);
  });

  test("a stream that its vendor broke off after output, charged: the same broken stream", async () => {
    const held = gate();
    lab.vendors.chat.answer(CHAT, sse([START, held.opened], { finish: "cut" }));
    const key = freshKey();
    const body = ask("chat", ONE_ROUTE.chat, "stream");
    const reading = readAlong(await post("chat", body, key));
    await reading.has("Grüße");
    held.open();
    const first = await reading.end();
    expect(first).toContain("stream_truncated");
    const again = await read(await post("chat", body, key));
    expect([again.replayed, again.text]).toEqual(["true", first]);
    expect([calls(), lab.rows().length]).toEqual([1, 1]);
  });

  test("a stream whose headers went out before its vendor answered: without the pings", async () => {
    const held = gate();
    lab.vendors.chat.always(CHAT, (call) => ({ ...answerOf(call), headersAfter: held.opened }));
    const [key, body] = [freshKey(), ask("chat", ONE_ROUTE.chat, "stream")];
    const asked = post("chat", body, key);
    await clock.armed(5_000);
    await clock.advance(5_000);
    const reading = readAlong(await asked);
    await reading.has(": ping");
    held.open();
    const first = await reading.end();
    expect(first).toContain("[DONE]");
    const again = await read(await post("chat", body, key));
    expect([again.replayed, again.text]).toEqual(["true", first.replace(": ping\n\n", "")]);
    expect([calls(), lab.rows().length]).toEqual([1, 1]);
  });

  test("not the failure of such a stream that cost nothing: the next try runs", async () => {
    const held = gate();
    lab.vendors.chat.answer(CHAT, {
      ...json({ error: { message: "No." } }, { status: 400 }),
      headersAfter: held.opened,
    });
    lab.vendors.chat.always(CHAT, answerOf);
    const [key, body] = [freshKey(), ask("chat", ONE_ROUTE.chat, "stream")];
    const asked = post("chat", body, key);
    await clock.armed(5_000);
    await clock.advance(5_000);
    const reading = readAlong(await asked);
    held.open();
    expect(await reading.end()).toContain("invalid_request");
    const second = await read(await post("chat", body, key));
    expect([second.status, second.replayed, lab.rows().length]).toEqual([200, null, 1]);
  });

  test("a blocking request that was cut off after 95 s: its 504, and no second run", async () => {
    lab.vendors.chat.answer(CHAT, { ...json(CHAT_REPLY), headersAfter: gate().opened });
    const key = freshKey();
    const body = ask("messages", ONE_ROUTE.chat, "blocking");
    const answer = post("messages", body, key);
    await lab.vendors.chat.called();
    await clock.advance(95_000);
    expect((await read(await answer)).status).toBe(504);
    const again = await readFailure("messages", await post("messages", body, key));
    expect(again).toMatchObject({ status: 504, code: "request_timeout", retry: "false" });
    expect([calls(), lab.rows().length]).toEqual([1, 1]);
  });

  test("a client that leaves in the middle of a stream: what it was sent, with an error at its end", async () => {
    const held = gate();
    lab.vendors.chat.answer(CHAT, sse([START, held.opened, STREAM]));
    const key = freshKey();
    const body = ask("chat", ONE_ROUTE.chat, "stream");
    const leave = new AbortController();
    const init = { headers: { "idempotency-key": key }, signal: leave.signal };
    const reading = readAlong(await lab.gateway.post(PATH.chat, body, init));
    await reading.has("Grüße");
    leave.abort();
    await until(() => lab.rows().length === 1, "the settle");
    await until(() => keptRows(key)[0]?.state === "done", "the keeping");
    held.open();
    const again = await read(await post("chat", body, key));
    expect([again.status, again.replayed]).toEqual([200, "true"]);
    expect(again.text).toStartWith(reading.text);
    expect(again.text).toContain('"code":"stream_truncated"');
    expect(again.text).not.toContain("[DONE]");
    expect([calls(), lab.rows()[0]?.outcome]).toEqual([1, "client-left"]);
  });

  test("a client that leaves before a whole answer: no second run, and a word where the receipt is", async () => {
    const held = gate();
    lab.vendors.chat.answer(CHAT, { ...json(CHAT_REPLY), headersAfter: held.opened });
    const key = freshKey();
    const body = ask("chat", ONE_ROUTE.chat, "blocking");
    const leave = new AbortController();
    const init = { headers: { "idempotency-key": key }, signal: leave.signal };
    const answer = lab.gateway.post(PATH.chat, body, init).catch(() => undefined);
    await lab.vendors.chat.called();
    leave.abort();
    await answer;
    await until(() => keptRows(key)[0]?.state === "done", "the keeping");
    const again = await post("chat", body, key);
    const { error } = (await again.json()) as { error: Record<string, unknown> };
    expect(again.status).toBe(409);
    expect(again.headers.get("x-should-retry")).toBe("false");
    expect(error).toMatchObject({ code: "idempotency_in_progress", request_id: lab.rows()[0]?.requestId });
    expect(calls()).toBe(1);
  });

  test("an answer that cannot be compressed to 256 KiB is remembered, not kept, and never run again; a smaller one is", async () => {
    let bytes = 50_000;
    const noise = () => Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("base64");
    const small = { role: "assistant", content: Array.from({ length: 5 }, noise).join("") };
    bytes = 65_536;
    const message = { role: "assistant", content: Array.from({ length: 5 }, noise).join("") };
    for (const said of [small, message]) {
      const choice = { index: 0, message: said, finish_reason: "stop" };
      lab.vendors.chat.answer(CHAT, json({ ...CHAT_REPLY, choices: [choice] }));
    }
    const [other, key] = [freshKey(), freshKey()];
    const body = ask("chat", ONE_ROUTE.chat, "blocking");
    const first = await read(await post("chat", body, other));
    expect(await read(await post("chat", body, other))).toMatchObject({ replayed: "true", text: first.text });
    expect((await read(await post("chat", body, key))).status).toBe(200);
    const again = await post("chat", body, key);
    expect([again.status, again.headers.get("x-should-retry")]).toEqual([409, "false"]);
    expect(await again.json()).toMatchObject({ error: { outcome: "unknown", request_id: lab.rows()[1]?.requestId } });
    expect([calls(), keptRows(key)[0]?.body]).toEqual([2, null]);
  });

  test("a stream of more than 16 MiB reaches its client whole, is remembered, not kept, and never run again, however small it packs", async () => {
    const piece = chunk({ content: "a".repeat(60_000) });
    for (const pieces of [30, 290]) {
      const text = `${START}${piece.repeat(pieces)}${chunk({}, "stop")}${USAGE}data: [DONE]\n\n`;
      lab.vendors.chat.answer(CHAT, sse(text));
    }
    const [other, key] = [freshKey(), freshKey()];
    const body = ask("chat", ONE_ROUTE.chat, "stream");
    const first = await read(await post("chat", body, other));
    const again = await read(await post("chat", body, other));
    expect([again.replayed, again.text === first.text]).toEqual(["true", true]);
    const { status, text } = await read(await post("chat", body, key));
    expect([status, text.length > 16 * 1024 * 1024, text.endsWith("data: [DONE]\n\n")]).toEqual([200, true, true]);
    const refused = await post("chat", body, key);
    expect([refused.status, refused.headers.get("x-should-retry")]).toEqual([409, "false"]);
    expect(await refused.json()).toMatchObject({ error: { outcome: "unknown", request_id: lab.rows()[1]?.requestId } });
    expect([calls(), lab.rows().length, keptRows(key)[0]?.body]).toEqual([2, 2, null]);
  });

  test("a large stream is given again some records at a time: of clients that read slowly nobody holds all of it", async () => {
    const text = `${START}${chunk({ content: "ü".repeat(500) }).repeat(2_000)}${chunk({}, "stop")}${USAGE}data: [DONE]\n\n`;
    lab.vendors.chat.answer(CHAT, sse(text));
    const key = freshKey();
    const body = JSON.stringify(ask("chat", ONE_ROUTE.chat, "stream"));
    const first = await read(await post("chat", JSON.parse(body), key));
    const listening = listen(lab.gateway);
    const lines = `Host: localhost\r\nX-Api-Key: ${lab.gateway.key}\r\nIdempotency-Key: ${key}\r\nContent-Type: application/json\r\n`;
    const length = `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
    const again = await sendRaw(listening.port, `POST ${CHAT} HTTP/1.1\r\n${lines}${length}${body}`);
    await listening.stop();
    const pieces = chunksOf(Buffer.from(again.body, "latin1"));
    expect(Buffer.concat(pieces).toString() === first.text).toBe(true);
    // A worker hands on bytes as they come from the one process, wherever they are cut.
    if (readMoreFlags().includes("--workers")) return;
    expect(pieces.filter((piece) => piece.toString("latin1", piece.length - 2) !== "\n\n")).toEqual([]);
    expect(Math.max(...pieces.map((piece) => piece.length))).toBeLessThan(first.text.length / 10);
  });

  test("a record larger than what is unpacked at once is given again whole", async () => {
    const large = chunk({ content: "Grüße 🌍 ".repeat(100_000) });
    lab.vendors.chat.always(CHAT, () => sse(`${START}${large}${chunk({}, "stop")}${USAGE}data: [DONE]\n\n`));
    const key = freshKey();
    const body = ask("chat", ONE_ROUTE.chat, "stream");
    const first = await read(await post("chat", body, key));
    const again = await read(await post("chat", body, key));
    expect([again.status, again.replayed, again.text === first.text]).toEqual([200, "true", true]);
    expect(first.text.length).toBeGreaterThan(900_000);
    expect(calls()).toBe(1);
  });

  test("for a day, and then the key is new; its row is swept with its bytes", async () => {
    lab.vendors.chat.always(CHAT, answerOf);
    const key = freshKey();
    const body = ask("chat", ONE_ROUTE.chat, "blocking");
    await read(await post("chat", body, key));
    const startedAt = clock.now();
    clock.setWall(startedAt + KEEP_MS - 1);
    expect((await read(await post("chat", body, key))).replayed).toBe("true");
    clock.setWall(startedAt + KEEP_MS);
    expect((await read(await post("chat", body, key))).replayed).toBe(null);
    expect([calls(), lab.rows().length]).toEqual([2, 2]);
    clock.setWall(startedAt + 3 * KEEP_MS);
    await clock.advance(10 * 60_000);
    await until(() => keptRows(key).length === 0, "the sweep");
  });
});

test("a stream whose headers go out after five seconds, just as its end is written down: all of it", async () => {
  insideOnly(CLOCK_BY_HAND);
  const turned = manualClock();
  let commit: (() => void) | undefined;
  let isAnswered = false;
  const own = await startScenarioLab({
    ...turned,
    after(ms, callback) {
      if (ms === 5_000) commit = callback;
      return turned.after(ms, callback);
    },
    // The row of a request that has ended is given its time: by then the books are closing, and they are closed once it is on the disk.
    now() {
      if (isAnswered) commit?.();
      return turned.now();
    },
  });
  try {
    own.vendors.chat.answer(CHAT, () => {
      isAnswered = true;
      return sse(STREAM);
    });
    const body = ask("chat", ONE_ROUTE.chat, "stream");
    const headers = { "idempotency-key": "k" };
    const first = await read(await own.gateway.post(CHAT, body, { headers }));
    expect(first.text).toStartWith(": ping\n\n");
    expect(first.text).toContain("[DONE]");
    const again = await read(await own.gateway.post(CHAT, body, { headers }));
    expect([again.replayed, again.text]).toEqual(["true", first.text.replace(": ping\n\n", "")]);
    expect([own.vendors.chat.calls.length, own.rows().length]).toEqual([1, 1]);
  } finally {
    await own.stop();
  }
});

test("what is still running when the clock jumps by a day does not run a second time", async () => {
  const held = gate();
  lab.vendors.chat.always(CHAT, (call) => ({ ...answerOf(call), headersAfter: held.opened }));
  const [key, body] = [freshKey(), ask("chat", ONE_ROUTE.chat, "stream")];
  const first = post("chat", body, key);
  await lab.vendors.chat.called();
  clock.setWall(clock.now() + KEEP_MS + 1);
  expect(await readFailure("chat", await post("chat", body, key))).toMatchObject({ status: 409, retry: "true" });
  held.open();
  expect([(await read(await first)).status, calls(), lab.rows().length]).toEqual([200, 1, 1]);
});

const keptRows = (key: string) =>
  lab.gateway.store.query.select().from(idempotency).where(eq(idempotency.key, key)).all();

describe("keys", () => {
  const total = () => lab.gateway.store.query.select({ rows: count() }).from(idempotency).get()?.rows;

  test.each([
    ["empty", ""],
    ["too long", "k".repeat(256)],
    ["not ASCII", "schl\u00fcssel"],
  ])("%s: 400 that names the header, nothing asked", async (_what, key) => {
    const told = await readFailure("chat", await post("chat", ask("chat", ONE_ROUTE.chat, "blocking"), key));
    expect(told).toMatchObject({ status: 400, code: "invalid_request", param: "Idempotency-Key" });
    expect([calls(), keptRows(key)]).toEqual([0, []]);
  });

  test("1 to 255 printable characters, whatever they are", async () => {
    lab.vendors.chat.always(CHAT, answerOf);
    const printable = fc
      .string({ minLength: 1, maxLength: 255, unit: "grapheme-ascii" })
      .filter((key) => key === key.trim());
    await fc.assert(
      fc.asyncProperty(printable, async (text) => {
        const key = `${text}${freshKey()}`.slice(-255).trim();
        const body = ask("chat", ONE_ROUTE.chat, "blocking");
        expect((await read(await post("chat", body, key))).replayed).toBe(null);
        expect((await read(await post("chat", body, key))).replayed).toBe("true");
      }),
      { numRuns: 20 },
    );
  });

  test("belong to one account and one endpoint", async () => {
    lab.vendors.chat.always(CHAT, answerOf);
    const key = freshKey();
    const body = ask("chat", ONE_ROUTE.chat, "blocking");
    await read(await post("chat", body, key));
    expect((await read(await post("messages", ask("messages", ONE_ROUTE.chat, "blocking"), key))).replayed).toBe(null);
    lab.gateway.store.database.run(
      "INSERT INTO account (id, name, plan, created_at) VALUES ('acct_x', 'x', 'local', 1)",
    );
    const other = await lab.gateway.app.keys.create({ accountId: "acct_x", name: "x", kind: "api" });
    const theirs = await read(await post("chat", body, key, { authorization: `Bearer ${other.key}` }));
    expect([theirs.status, theirs.replayed, calls()]).toEqual([200, null, 3]);
  });

  test("without a key nothing is kept", async () => {
    lab.vendors.chat.always(CHAT, answerOf);
    const before = total();
    await read(await lab.gateway.post(PATH.chat, ask("chat", ONE_ROUTE.chat, "stream")));
    expect(total()).toBe(before ?? 0);
  });

  test(`${MAX_KEYS} an account: the oldest answer makes room, what runs does not`, async () => {
    lab.vendors.chat.always(CHAT, answerOf);
    const { store, accountId } = lab.gateway;
    store.query.delete(idempotency).run();
    const row = { accountId, route: CHAT, boot: "b", requestId: "r" };
    const fingerprint = Buffer.alloc(32);
    const [running, done] = [{ state: "running" as const }, { state: "done" as const, status: 200 }];
    for (let at = 0; at < MAX_KEYS; at++) {
      const createdAt = clock.now() - 1000 + at;
      store.query
        .insert(idempotency)
        .values({ ...row, ...(at === 0 ? running : done), key: `old-${at}`, fingerprint, createdAt })
        .run();
    }
    const key = freshKey();
    await read(await post("chat", ask("chat", ONE_ROUTE.chat, "blocking"), key));
    expect([0, 1, 2].map((at) => keptRows(`old-${at}`).length)).toEqual([1, 0, 1]);
    expect([keptRows(key).length, total()]).toEqual([1, MAX_KEYS]);
    store.query
      .update(idempotency)
      .set({ ...running, status: null })
      .run();
    const full = await readFailure("chat", await post("chat", ask("chat", ONE_ROUTE.chat, "blocking"), freshKey()));
    expect(full).toMatchObject({ status: 429, code: "rate_limit_exceeded", retryAfter: "1" });
    expect([calls(), total()]).toEqual([1, MAX_KEYS]);
    store.query.delete(idempotency).run();
  });
});

test("a key that is revoked while the body comes in: nothing runs, and nothing stays under the key", async () => {
  insideOnly("what is under way");
  lab.vendors.chat.always(CHAT, answerOf);
  const { app, accountId } = lab.gateway;
  const revoked = await app.keys.create({ accountId, name: "revoked", kind: "api" });
  const [key, text] = [freshKey(), JSON.stringify(ask("chat", ONE_ROUTE.chat, "stream"))];
  let upload: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      upload = controller;
      controller.enqueue(Buffer.from(text.slice(0, 9)));
    },
  });
  const authorization = `Bearer ${revoked.key}`;
  const headers = { "content-type": "application/json", "idempotency-key": key, authorization };
  const asked = lab.gateway.call(PATH.chat, { method: "POST", headers, body });
  await app.keys.revoke(revoked.id);
  upload?.enqueue(Buffer.from(text.slice(9)));
  upload?.close();
  expect(await readFailure("chat", await asked)).toMatchObject({ status: 401, code: "invalid_api_key" });
  expect([calls(), lab.rows().length, app.running.count]).toEqual([0, 0, 0]);
  // Another key of the account may send it again.
  expect((await read(await post("chat", text, key))).replayed).toBe(null);
});

test("an HTML page in place of an answer costs nothing and is not kept", async () => {
  lab.vendors.chat.answer(CHAT, html());
  lab.vendors.chat.always(CHAT, answerOf);
  const key = freshKey();
  const body = ask("chat", ONE_ROUTE.chat, "blocking");
  expect((await read(await post("chat", body, key))).status).toBe(502);
  expect((await read(await post("chat", body, key))).status).toBe(200);
});
