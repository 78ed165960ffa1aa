import { afterEach, beforeEach, expect, test } from "bun:test";
import { StoreError } from "../../src/db/store-error.ts";
import { insideOnly } from "../support/black-box-config.ts";
import { type ManualClock, manualClock } from "../support/clock.ts";
import { sse } from "../support/upstream.ts";
import { gate, until } from "../support/wait.ts";
import { type PayingLab, startPayingLab } from "./paying.ts";
import { readAlong } from "./reading.ts";
import { PIECES, soundAnswer, soundStream, WIRES } from "./wires.ts";

/** What a client is told while nothing can be written (contract 6). */
const TOLD = { code: "upstream_overloaded" };
const ASKED = { messages: [{ role: "user", content: "Hello" }], max_tokens: 20 };
const CHAT = "/v1/chat/completions";

let lab: PayingLab;
let clock: ManualClock;

beforeEach(async () => {
  clock = manualClock(Date.now());
  lab = await startPayingLab(clock);
  await lab.fund(1_000_000_000n);
});
afterEach(() => lab.stop());

const limitTo = (pages: bigint | number) => {
  insideOnly("a full store: the limit is the connection's own");
  lab.gateway.store.database.run(`PRAGMA max_page_count = ${pages}`);
};
const readiness = async () => (await lab.gateway.call("/readyz")).status;
const errorOf = async (response: Response) => ((await response.json()) as { error: Record<string, unknown> }).error;
const ask = () => lab.gateway.post(CHAT, { model: "lab/priced-chat", ...ASKED });

/** Lets the store grow by no page more, and writes until it is full. */
async function fillUp(): Promise<void> {
  limitTo(lab.gateway.store.database.prepare("PRAGMA page_count").values()[0]?.[0] as bigint);
  for (let at = 0; at < 500; at++) {
    const written = await lab.fund(1n).then(
      () => true,
      () => false,
    );
    if (!written) return;
  }
  throw new Error("the store did not become full");
}

test("a store that takes no writes: what costs is refused in the caller's dialect before a vendor is asked, reads go on", async () => {
  const { gateway, vendors, rows } = lab;
  expect(await readiness()).toBe(200);
  await fillUp();
  expect(await readiness()).toBe(503);
  expect((await gateway.call("/healthz")).status).toBe(200);
  const before = rows().length;
  const chat = await ask();
  expect(chat.status).toBe(503);
  expect(chat.headers.get("retry-after")).toBe("1");
  expect(chat.headers.get("x-should-retry")).toBe("true");
  expect(await errorOf(chat)).toMatchObject({ ...TOLD, type: "server_error" });
  const messages = await gateway.post("/v1/messages", { model: "lab/priced-messages", ...ASKED });
  expect(messages.status).toBe(529);
  expect(await errorOf(messages)).toMatchObject({ ...TOLD, type: "overloaded_error" });
  const image = await gateway.post("/v1/images/generations", { model: "sluice/sketch", prompt: "a lighthouse" });
  expect(image.status).toBe(503);
  expect(await errorOf(image)).toMatchObject(TOLD);
  expect(vendors.chat.calls).toEqual([]);
  expect(vendors.messages.calls).toEqual([]);
  for (const path of ["/v1/models", "/v1/account", "/v1/usage", "/v1/images/generations"]) {
    const read = await gateway.call(path, { headers: { authorization: `Bearer ${gateway.key}` } });
    expect([path, read.status]).toEqual([path, 200]);
  }
  expect(rows().length).toBe(before);
  expect(lab.wallet().held).toBe(0n);
  const told = gateway.log.filter(({ event }) => String(event).startsWith("store-"));
  expect(told).toMatchObject([{ event: "store-failing", fault: "disk-full" }]);
});

test("it serves again by itself as soon as there is room, without anybody asking", async () => {
  const { gateway, vendors, rows } = lab;
  await fillUp();
  await clock.advance(100);
  expect((await ask()).status).toBe(503);
  limitTo(1_000_000);
  expect(await readiness()).toBe(503);
  await clock.advance(1_000);
  expect(await readiness()).toBe(200);
  vendors.chat.answer(CHAT, soundAnswer(WIRES.chat, "stream"));
  const answer = await gateway.post(CHAT, { model: "lab/priced-chat", stream: true, ...ASKED });
  expect(answer.status).toBe(200);
  expect(await answer.text()).toContain("[DONE]");
  expect(rows().map(({ outcome }) => outcome)).toEqual(["completed"]);
  expect(gateway.app.book.verify()).toEqual([]);
  const told = gateway.log.map(({ event }) => String(event)).filter((event) => event.startsWith("store-"));
  expect(told).toEqual(["store-failing", "store-writable"]);
});

test("a stream whose end cannot be written down ends with an error and no terminator, uncharged", async () => {
  const { gateway, vendors, rows } = lab;
  const hold = gate();
  const whole = soundStream(WIRES.chat);
  const begun = WIRES.chat.head() + WIRES.chat.text(PIECES[0]);
  vendors.chat.answer(CHAT, sse([begun, hold.opened, whole.slice(begun.length)]));
  const answer = await gateway.post(CHAT, { model: "lab/priced-chat", stream: true, ...ASKED });
  expect(answer.status).toBe(200);
  const reading = readAlong(answer);
  await fillUp();
  const { posted } = lab.wallet();
  hold.open();
  const text = await reading.end();
  expect(text).not.toContain("[DONE]");
  expect(text).toContain(TOLD.code);
  await until(() => gateway.app.running.count === 0, "the end of the stream");
  expect(lab.wallet()).toEqual({ posted, held: 0n });
  expect(rows()).toEqual([]);
  expect(gateway.app.book.verify()).toEqual([]);
});

test("an answer that could not be written down is told and counted as what its client was told", async () => {
  const { gateway, vendors } = lab;
  const body = { model: "lab/priced-chat", ...ASKED };
  const hold = gate();
  vendors.chat.answer(CHAT, { ...soundAnswer(WIRES.chat, "blocking"), headersAfter: hold.opened });
  const answer = gateway.post(CHAT, body);
  await vendors.chat.called();
  await fillUp();
  hold.open();
  expect((await answer).status).toBe(503);
  expect(gateway.log.filter(({ event }) => event === "generate")).toMatchObject([
    { status: 503, outcome: "refused", error: TOLD.code, tries: expect.stringMatching(/^vendor-chat#1:served:\d+ms$/) },
  ]);
  const figures = await (await gateway.call("/metrics")).text();
  expect(figures).toContain(`sluice_errors_total{code="${TOLD.code}"} 1`);
  expect(figures).toContain('sluice_upstream_attempts_total{vendor="vendor-chat",outcome="served"} 1');
  expect(figures).not.toMatch(/sluice_requests_total.*outcome="completed"/);
});

test.each(["blocking", "stream"] as const)(
  "an answer that could not be written down (%s) leaves its Idempotency-Key free, also where there is room again at once",
  async (mode) => {
    insideOnly("a ledger that fails once");
    const { gateway, vendors } = lab;
    const { services } = gateway.app;
    const { ledger } = services;
    const settle = () => Promise.reject(new StoreError("disk-full", "The store cannot grow: the disk is full."));
    services.ledger = { hold: async (wish) => Object.assign(await ledger.hold(wish), { settle }) };
    vendors.chat.always(CHAT, soundAnswer(WIRES.chat, mode));
    const body = { model: "lab/priced-chat", stream: mode === "stream", ...ASKED };
    const key = { headers: { "idempotency-key": "written-down" } };
    expect(await (await gateway.post(CHAT, body, key)).text()).toContain(TOLD.code);
    services.ledger = ledger;
    const again = await gateway.post(CHAT, body, key);
    expect([again.status, again.headers.get("idempotency-replayed")]).toEqual([200, null]);
    expect(await again.text()).not.toContain(TOLD.code);
  },
);

test("streams whose end cannot be written down say nothing against their vendor: once there is room, it is asked as before", async () => {
  const { gateway, vendors } = lab;
  const hold = gate();
  const whole = soundStream(WIRES.chat);
  const begun = WIRES.chat.head() + WIRES.chat.text(PIECES[0]);
  const body = { model: "lab/priced-chat", stream: true, ...ASKED };
  const streams: ReturnType<typeof readAlong>[] = [];
  // More than a breaker bears.
  for (let at = 0; at < 8; at++) {
    vendors.chat.answer(CHAT, sse([begun, hold.opened, whole.slice(begun.length)]));
    streams.push(readAlong(await gateway.post(CHAT, body)));
  }
  await fillUp();
  hold.open();
  for (const stream of streams) expect(await stream.end()).toContain(TOLD.code);
  await until(() => gateway.app.running.count === 0, "the end of the streams");
  limitTo(1_000_000);
  await clock.advance(1_100);
  vendors.chat.answer(CHAT, soundAnswer(WIRES.chat, "stream"));
  const answer = await gateway.post(CHAT, body);
  expect(answer.status).toBe(200);
  expect(await answer.text()).toContain("[DONE]");
  expect(gateway.log.filter(({ event }) => event === "route-opened")).toEqual([]);
});
