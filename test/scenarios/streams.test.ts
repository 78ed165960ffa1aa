import { afterEach, beforeEach, describe, expect, setDefaultTimeout, spyOn, test } from "bun:test";
import { connect } from "node:net";
import { StoreError } from "../../src/db/store-error.ts";
import { CLOCK_BY_HAND, insideOnly } from "../support/black-box-config.ts";
import { type ManualClock, manualClock, settle } from "../support/clock.ts";
import { listen } from "../support/listening.ts";
import { json, neverAnswer, type Part, sse } from "../support/upstream.ts";
import { gate, until, within } from "../support/wait.ts";
import {
  ask,
  charged,
  expectBroken,
  expectFinished,
  ONE_ROUTE,
  PATH,
  readFailure,
  type ScenarioLab,
  startScenarioLab,
  TWO_ROUTES,
} from "./lab.ts";
import { estimateOf } from "./paying.ts";
import { readAlong } from "./reading.ts";
import { slowLedger, UNPAID } from "./slow-ledger.ts";
import {
  HIDDEN_MODEL,
  INPUT,
  MODES,
  OUTPUT,
  PIECES,
  readRecords,
  SAID,
  SIDES,
  type Side,
  saidIn,
  soundAnswer,
  soundStream,
  WIRES,
  type Wire,
} from "./wires.ts";

setDefaultTimeout(30_000);

const PING: Record<Side, string> = { chat: ": ping\n\n", messages: "event: ping\n" };
const COMMIT_MS = 5_000;
const SILENCE_MS = 90_000;
/** A client that takes nothing for this long is given up, and the watch looks as often, ms. */
const STALLED_MS = 60_000;

let clock: ManualClock;
let lab: ScenarioLab;
beforeEach(async () => {
  clock = manualClock();
  lab = await startScenarioLab(clock);
});
afterEach(async () => {
  const { unexpected } = lab.vendors.chat;
  await until(() => lab.gateway.app.running.count === 0, "every request to end");
  await lab.stop();
  expect(unexpected).toEqual([]);
});

type Way = { client: Side; upstream: Side };
const WAYS = SIDES.flatMap((client) =>
  SIDES.map((upstream) => ({ client, upstream, name: `${client} from ${upstream}` })),
);

const begun = (wire: Wire) => wire.head() + wire.text(PIECES[0]);
const rest = (wire: Wire) => wire.text(PIECES[1]) + wire.finish() + wire.usage() + wire.terminator;

const post = ({ client, upstream }: Way, more: Record<string, unknown> = {}, init: { signal?: AbortSignal } = {}) =>
  lab.gateway.post(PATH[client], ask(client, ONE_ROUTE[upstream], "stream", more), init);

const play = (upstream: Side, parts: readonly Part[], finish: "end" | "silence" = "end") =>
  lab.vendors[upstream].answer(PATH[upstream], sse(parts, { finish }));

describe("silence", () => {
  test.each(WAYS)("is filled with pings, and the answer goes on: $name", async (way) => {
    const wire = WIRES[way.upstream];
    const more = gate();
    play(way.upstream, [begun(wire), more.opened, rest(wire)]);
    const reading = readAlong(await post(way));
    await reading.has(PIECES[0]);
    expect(reading.text).not.toContain(PING[way.client]);
    for (let round = 1; round <= 3; round++) {
      await clock.advance(15_000);
      expect(reading.text.split(PING[way.client]).length - 1).toBeGreaterThanOrEqual(round);
    }
    more.open();
    const records = readRecords(await reading.end());
    expectFinished(way.client, records);
    expect(saidIn(way.client, records)).toBe(SAID);
    expect(charged(lab.rows())).toMatchObject([{ outcome: "completed", input: INPUT, output: OUTPUT }]);
  });

  test.each([
    ["/v1/chat/completions", ask("chat", ONE_ROUTE.chat, "stream")],
    ["/v1/responses", { model: ONE_ROUTE.chat, input: "Hi", stream: true, store: false }],
  ])("is filled with single lines for SDKs that take a blank line for a record: %s", async (path, body) => {
    const wire = WIRES.chat;
    const more = gate();
    play("chat", [begun(wire), more.opened, rest(wire)]);
    const reading = readAlong(await lab.gateway.post(path, body, { headers: { "x-stainless-lang": "go" } }));
    await reading.has(PIECES[0]);
    await clock.advance(30_000);
    more.open();
    const text = await reading.end();
    expect(text.match(/^:.*$/gm)).toHaveLength(2);
    expect(text).not.toMatch(/^:.*\n\n/m);
  });

  test.each(WAYS)("before the first byte the headers go out after 5 s, then pings: $name", async (way) => {
    insideOnly(CLOCK_BY_HAND);
    const wire = WIRES[way.upstream];
    const answer = gate();
    const sent = soundAnswer(wire, "stream");
    lab.vendors[way.upstream].answer(PATH[way.upstream], { ...sent, headersAfter: answer.opened });
    let told = false;
    const asked = post(way).finally(() => {
      told = true;
    });
    await within(clock.armed(COMMIT_MS), "the request to be sent");
    await clock.advance(COMMIT_MS - 1);
    expect(told).toBe(false);
    await clock.advance(1);
    const response = await within(asked, "the headers");
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/event-stream; charset=utf-8"]);
    const reading = readAlong(response);
    await clock.advance(15_000);
    expect(reading.text).toContain(PING[way.client]);
    answer.open();
    const records = readRecords(await reading.end());
    expectFinished(way.client, records);
    expect(saidIn(way.client, records)).toBe(SAID);
  });

  test.each(WAYS)("of 90 s ends the stream as an error, pings or not: $name", async (way) => {
    play(way.upstream, [begun(WIRES[way.upstream])], "silence");
    const reading = readAlong(await post(way));
    await reading.has(PIECES[0]);
    await clock.advance(SILENCE_MS - 1);
    expect([reading.ended, lab.rows()]).toEqual([false, []]);
    await clock.advance(1);
    const records = readRecords(await reading.end());
    expect(expectBroken(way.client, records).code).toBe("upstream_error");
    expect(saidIn(way.client, records)).toBe(PIECES[0]);
    expect(charged(lab.rows())).toMatchObject([{ outcome: "upstream-failed", output: 4, estimated: true }]);
    const [call] = lab.vendors[way.upstream].calls;
    await within(call?.whenAborted ?? Promise.reject(), "the abort");
    expect(lab.vendors[way.upstream].calls).toHaveLength(1);
  });

  test("of 90 s keeps nothing back that may have begun a stop sequence: it is paid for", async () => {
    play("chat", [begun(WIRES.chat) + WIRES.chat.text(" EN")], "silence");
    const stops = { stop_sequences: ["1", "2", "3", "4", "END"] };
    const reading = readAlong(await post({ client: "messages", upstream: "chat" }, stops));
    await reading.has(PIECES[0]);
    await clock.advance(SILENCE_MS);
    const records = readRecords(await reading.end());
    expect(expectBroken("messages", records).code).toBe("upstream_error");
    expect(saidIn("messages", records)).toBe(`${PIECES[0]} EN`);
  });

  test.each(WAYS)("of 90 s without a byte is an error and costs nothing: $name", async (way) => {
    lab.vendors[way.upstream].answer(PATH[way.upstream], neverAnswer());
    const asked = post(way);
    await within(clock.armed(STALLED_MS), "the watch");
    // On the way to the vendor nothing is silent yet.
    const call = await within(lab.vendors[way.upstream].called(), "the call");
    await clock.advance(SILENCE_MS);
    const records = readRecords(await readAlong(await asked).end());
    expect(expectBroken(way.client, records).code).toBe("upstream_error");
    expect(lab.rows()).toEqual([]);
    await within(call.whenAborted, "the abort");
  });

  test("records that come slowly are no silence", async () => {
    const wire = WIRES.chat;
    const gates = Array.from({ length: 4 }, () => gate());
    play("chat", [begun(wire), ...gates.flatMap(({ opened }, at) => [opened, wire.text(`(${at})`)]), rest(wire)]);
    const reading = readAlong(await post({ client: "messages", upstream: "chat" }));
    await reading.has(PIECES[0]);
    for (const [at, { open }] of gates.entries()) {
      await clock.advance(SILENCE_MS - 1);
      open();
      await reading.has(`(${at})`);
    }
    expectFinished("messages", readRecords(await reading.end()));
  });
});

describe("much that comes before any words", () => {
  const record = `data: ${JSON.stringify({ pad: "x".repeat(1024 * 1024) })}\n\n`;

  test("is not collected without end: another may be asked until then, and all of it would be held", async () => {
    play("chat", Array<string>(80).fill(record), "silence");
    const response = await post({ client: "chat", upstream: "chat" });
    expect([response.status, (await readFailure("chat", response)).code]).toEqual([502, "upstream_error"]);
    await within(lab.vendors.chat.calls[0]?.whenAborted ?? Promise.reject(), "the abort");
    expect(lab.rows()).toEqual([]);
  });

  test("is passed on with the first of them", async () => {
    const wire = WIRES.chat;
    play("chat", [...Array<string>(8).fill(record), begun(wire), rest(wire)]);
    const text = await (await post({ client: "chat", upstream: "chat" })).text();
    expect(text.length).toBeGreaterThan(8 * record.length);
    expectFinished("chat", readRecords(text));
  });
});

/** Reads a stream that goes on and on, until a quarter of a minute before half an hour is over. */
async function readTillCutOff(way: Way) {
  const wire = WIRES[way.upstream];
  const gates = Array.from({ length: 21 }, () => gate());
  play(way.upstream, [begun(wire), ...gates.flatMap(({ opened }, at) => [opened, wire.text(`(${at})`)])], "silence");
  const reading = readAlong(await post(way));
  await reading.has(PIECES[0]);
  for (const [at, { open }] of gates.entries()) {
    await clock.advance(85_000);
    open();
    await reading.has(`(${at})`);
  }
  return reading;
}

describe("half an hour", () => {
  test.each(WAYS)("is the most a stream goes on, whatever comes: $name", async (way) => {
    const reading = await readTillCutOff(way);
    await clock.advance(15 * 1_000 - 1);
    expect([reading.ended, lab.rows()]).toEqual([false, []]);
    await clock.advance(1);
    const told = expectBroken(way.client, readRecords(await reading.end()));
    expect(told).toMatchObject({ code: "request_timeout", message: "The stream was cut off after 30 minutes." });
    expect(charged(lab.rows())).toMatchObject([{ outcome: "timed-out", estimated: true, error: "request_timeout" }]);
    await within((await lab.vendors[way.upstream].called()).whenAborted, "the abort");
  });
});

describe("the end", () => {
  test.each(SIDES)("a finish without a terminator waits 2 s and counts as terminated: %s", async (client) => {
    const wire = WIRES.chat;
    play("chat", [begun(wire) + wire.text(PIECES[1]) + wire.finish()], "silence");
    const reading = readAlong(await post({ client, upstream: "chat" }));
    await reading.has(PIECES[1]);
    await within(clock.armed(2_000), "the wait for the usage");
    await clock.advance(1_999);
    expect([reading.ended, lab.rows()]).toEqual([false, []]);
    await clock.advance(1);
    const records = readRecords(await reading.end());
    expectFinished(client, records);
    expect(saidIn(client, records)).toBe(SAID);
    expect(charged(lab.rows())).toMatchObject([{ outcome: "completed", output: 5, estimated: true }]);
  });

  test.each(SIDES)("usage that comes in those 2 s is taken: %s", async (client) => {
    const wire = WIRES.chat;
    const late = gate();
    play("chat", [begun(wire) + wire.text(PIECES[1]) + wire.finish(), late.opened, wire.usage()], "silence");
    const reading = readAlong(await post({ client, upstream: "chat" }));
    await reading.has(PIECES[1]);
    await within(clock.armed(2_000), "the wait for the usage");
    await clock.advance(1_500);
    // Usage is held back, so its arrival shows in one thing only: the watch over the silence looks at the clock.
    const looks = spyOn(clock, "monotonic");
    late.open();
    await until(() => looks.mock.calls.length > 0, "the usage to arrive");
    looks.mockRestore();
    await clock.advance(2_000);
    expectFinished(client, readRecords(await reading.end()));
    expect(charged(lab.rows())).toMatchObject([{ input: INPUT, output: OUTPUT, estimated: false }]);
  });

  test.each(SIDES)("a finish and then the end of the body counts as terminated: %s", async (client) => {
    const wire = WIRES.chat;
    play("chat", [begun(wire) + wire.text(PIECES[1]) + wire.finish() + wire.usage()]);
    const records = readRecords(await (await post({ client, upstream: "chat" })).text());
    expectFinished(client, records);
    expect(charged(lab.rows())).toMatchObject([{ outcome: "completed", input: INPUT, output: OUTPUT }]);
  });

  test.each(SIDES)(
    "a body that stays open behind its terminator is given up, and is nobody's failure: %s",
    async (client) => {
      play("chat", [soundStream(WIRES.chat)], "silence");
      expectFinished(client, readRecords(await (await post({ client, upstream: "chat" })).text()));
      await within(lab.vendors.chat.calls[0]?.whenAborted ?? Promise.reject(), "the end of its connection");
      expect(charged(lab.rows())).toMatchObject([{ outcome: "completed", input: INPUT, output: OUTPUT }]);
    },
  );

  test.each(SIDES)("messages without message_stop are truncated, whatever their stop reason: %s", async (client) => {
    const wire = WIRES.messages;
    play("messages", [begun(wire) + wire.text(PIECES[1]) + wire.finish()]);
    const records = readRecords(await (await post({ client, upstream: "messages" })).text());
    expect(expectBroken(client, records).code).toBe("stream_truncated");
    expect(charged(lab.rows())).toMatchObject([{ outcome: "upstream-failed", error: "stream_truncated" }]);
  });

  const wishes = SIDES.flatMap((upstream) =>
    [undefined, {}, { include_usage: false }, { include_usage: true }].map((options) => ({
      upstream,
      options,
      name: `${JSON.stringify(options)} from ${upstream}`,
    })),
  );
  test.each(wishes)("chat's usage record comes when it is asked for, and then last: $name", async (wish) => {
    const { upstream, options } = wish;
    const wire = WIRES[upstream];
    play(upstream, [soundStream(wire)]);
    const way = { client: "chat", upstream } as const;
    const records = readRecords(await (await post(way, options && { stream_options: options })).text());
    expectFinished("chat", records);
    const counted = records.filter(({ value }) => value?.["usage"] != null);
    if (options?.include_usage !== true) return expect(counted).toEqual([]);
    expect(counted).toHaveLength(1);
    expect(records.at(-2)).toBe(counted[0] as (typeof records)[number]);
    const { value } = counted[0] as (typeof records)[number];
    expect(value).toMatchObject({ choices: [], usage: { prompt_tokens: INPUT, completion_tokens: OUTPUT } });
    expect(value?.["id"]).toBe(records[0]?.value?.["id"]);
  });

  test.each(SIDES)("messages carry an estimate first and the exact counts last: from %s", async (upstream) => {
    play(upstream, [soundStream(WIRES[upstream])]);
    const records = readRecords(await (await post({ client: "messages", upstream })).text());
    const message = records[0]?.value?.["message"] as { usage: { input_tokens: number } };
    expect(message.usage.input_tokens).toBeGreaterThan(0);
    const delta = records.find(({ event }) => event === "message_delta");
    expect(delta?.value?.["usage"]).toMatchObject({ input_tokens: INPUT, output_tokens: OUTPUT });
  });
});

describe("the settle comes before the end", () => {
  /** A stream that its vendor has ended, read along until its settle is asked for. */
  async function readToSettle(way: (typeof WAYS)[number], { settlements }: ReturnType<typeof slowLedger>) {
    const wire = WIRES[way.upstream];
    const open = gate();
    play(way.upstream, [begun(wire), open.opened, rest(wire)]);
    const reading = readAlong(await post(way));
    await reading.has(PIECES[0]);
    open.open();
    await until(() => settlements.length > 0, "the settle");
    return reading;
  }

  test.each(WAYS)("of a whole stream: $name", async (way) => {
    const ledger = slowLedger(lab);
    const { settlements, written } = ledger;
    const reading = await readToSettle(way, ledger);
    await settle(20);
    expect(reading.ended).toBe(false);
    for (const end of ["[DONE]", "message_stop"]) expect(reading.text).not.toContain(end);
    written.open();
    expectFinished(way.client, readRecords(await reading.end()));
    expect(settlements).toHaveLength(1);
  });

  test.each(WAYS)(
    "of one that could not be written down after a while: the stream tells that, and no end: $name",
    async (way) => {
      const ledger = slowLedger(lab, {}, new StoreError("locked", "Another program has the store."));
      const reading = await readToSettle(way, ledger);
      // Longer than a vendor may be quiet behind its finish reason.
      await clock.advance(5_000);
      ledger.written.open();
      expect(expectBroken(way.client, readRecords(await reading.end())).code).toBe("upstream_overloaded");
    },
  );

  test.each(WAYS)("of a broken stream: $name", async (way) => {
    const { settlements, written } = slowLedger(lab);
    play(way.upstream, [begun(WIRES[way.upstream])]);
    const reading = readAlong(await post(way));
    await until(() => settlements.length > 0, "the settle");
    await settle(20);
    expect([reading.ended, reading.text.includes('"error"')]).toEqual([false, false]);
    written.open();
    expectBroken(way.client, readRecords(await reading.end()));
    expect(settlements).toMatchObject([{ outcome: "upstream-failed" }]);
  });

  test.each(WAYS)("of a stream that is cut off after half an hour: $name", async (way) => {
    const { settlements, written } = slowLedger(lab);
    const reading = await readTillCutOff(way);
    await clock.advance(15_000);
    await until(() => settlements.length > 0, "the settle");
    await settle(20);
    expect([reading.ended, reading.text.includes('"error"')]).toEqual([false, false]);
    written.open();
    expect(expectBroken(way.client, readRecords(await reading.end())).code).toBe("request_timeout");
    expect(settlements).toMatchObject([{ outcome: "timed-out" }]);
  });

  test.each(WAYS)("of a whole answer: $name", async (way) => {
    const { settlements, written } = slowLedger(lab);
    lab.vendors[way.upstream].answer(PATH[way.upstream], soundAnswer(WIRES[way.upstream], "blocking"));
    let told = false;
    const asked = lab.gateway
      .post(PATH[way.client], ask(way.client, ONE_ROUTE[way.upstream], "blocking"))
      .finally(() => {
        told = true;
      });
    await until(() => settlements.length > 0, "the settle");
    await settle(20);
    expect(told).toBe(false);
    written.open();
    expect((await asked).status).toBe(200);
    expect(settlements).toHaveLength(1);
  });

  test.each(WAYS)("a settle that fails ends the stream without a terminator: $name", async (way) => {
    lab.gateway.app.services.ledger = {
      hold: async () => ({
        ...UNPAID,
        settle: () => Promise.reject(new Error("disk full at /var/lib/x")),
        release: async () => {},
      }),
    };
    const wire = WIRES[way.upstream];
    const more = gate();
    play(way.upstream, [begun(wire), more.opened, rest(wire)]);
    const reading = readAlong(await post(way));
    await reading.has(PIECES[0]);
    more.open();
    const records = readRecords(await reading.end());
    const told = expectBroken(way.client, records);
    expect(told.code).toBe("internal_error");
    expect(told.message).not.toContain("disk");
  });
});

describe("a client that leaves", () => {
  test.each(WAYS)("in the middle of a stream: the vendor is let go and one row is written: $name", async (way) => {
    play(way.upstream, [begun(WIRES[way.upstream])], "silence");
    const leaving = new AbortController();
    const reading = readAlong(await post(way, {}, { signal: leaving.signal }));
    await reading.has(PIECES[0]);
    leaving.abort();
    void reading.cancel();
    const call = await lab.vendors[way.upstream].called();
    await within(call.whenAborted, "the abort");
    await until(() => lab.rows().length > 0, "the row");
    const body = ask(way.client, ONE_ROUTE[way.upstream], "stream");
    // Messages tell it first; else it is estimated, though the request is let go of once its answer has begun.
    const input = way.upstream === "messages" ? INPUT : estimateOf(body);
    // Nothing went wrong: no error, in the row, its receipt and the log.
    expect(charged(lab.rows())).toMatchObject([
      { outcome: "client-left", input, output: 4, estimated: true, attempts: 1, error: null },
    ]);
    const { gateway } = lab;
    const auth = { headers: { authorization: `Bearer ${gateway.key}` } };
    const receipt = await (await gateway.call(`/v1/usage/${lab.rows()[0]?.requestId}`, auth)).json();
    expect(receipt).toMatchObject({ error: null, attempt_list: [{ outcome: "client-left" }] });
    const line = gateway.log.find(({ event }) => event === "generate");
    expect(line).toMatchObject({ level: "info", outcome: "client-left", status: 499 });
    expect(line).not.toHaveProperty("error");
    await clock.advance(SILENCE_MS);
    expect([lab.rows().length, lab.vendors[way.upstream].calls.length]).toEqual([1, 1]);
  });

  test.each(WAYS)("before the first byte: $name", async (way) => {
    lab.vendors[way.upstream].answer(PATH[way.upstream], neverAnswer());
    const leaving = new AbortController();
    const asked = post(way, {}, { signal: leaving.signal });
    const call = await lab.vendors[way.upstream].called();
    leaving.abort();
    await within(call.whenAborted, "the abort");
    await asked;
    await until(() => lab.rows().length > 0, "the row");
    expect(charged(lab.rows())).toMatchObject([{ outcome: "client-left", output: 0, estimated: true }]);
  });

  test.each(WAYS)("a whole answer: $name", async (way) => {
    lab.vendors[way.upstream].answer(PATH[way.upstream], neverAnswer());
    const leaving = new AbortController();
    const body = JSON.stringify(ask(way.client, ONE_ROUTE[way.upstream], "blocking"));
    const asked = lab.gateway.post(PATH[way.client], body, { signal: leaving.signal });
    const call = await lab.vendors[way.upstream].called();
    leaving.abort();
    await within(call.whenAborted, "the abort");
    await asked;
    await until(() => lab.rows().length > 0, "the row");
    expect(charged(lab.rows())).toMatchObject([{ outcome: "client-left", estimated: true, attempts: 1 }]);
  });

  test("is not tried on another route", async () => {
    lab.vendors.chat.answer(PATH.chat, neverAnswer());
    const leaving = new AbortController();
    const body = JSON.stringify(ask("chat", TWO_ROUTES.chat, "stream"));
    const asked = lab.gateway.post(PATH.chat, body, { signal: leaving.signal });
    const call = await lab.vendors.chat.called();
    leaving.abort();
    await within(call.whenAborted, "the abort");
    await asked;
    await until(() => lab.rows().length > 0, "the row");
    expect(lab.spare.calls).toEqual([]);
    expect(charged(lab.rows())).toMatchObject([{ outcome: "client-left", attempts: 1, vendor: "vendor-chat" }]);
  });

  test.each(MODES)("over a socket the vendor is let go within 50 ms: %s", async (mode) => {
    const listening = listen(lab.gateway);
    try {
      play("chat", [begun(WIRES.chat)], "silence");
      const body = JSON.stringify(ask("messages", ONE_ROUTE.chat, mode));
      const lines = `Host: localhost\r\nX-Api-Key: ${lab.gateway.key}\r\nContent-Type: application/json\r\n`;
      let heard = "";
      const socket = connect(listening.port, "127.0.0.1", () =>
        socket.write(`POST ${PATH.messages} HTTP/1.1\r\n${lines}Content-Length: ${body.length}\r\n\r\n${body}`),
      );
      socket.on("data", (bytes) => {
        heard += bytes.toString();
      });
      const call = await lab.vendors.chat.called();
      if (mode === "stream") await until(() => heard.includes(PIECES[0]), "the first text");
      socket.destroy();
      // How soon is measured where nothing else runs (test/prove/disconnects.ts).
      await within(call.whenAborted, "the abort", 1_000);
      await until(() => lab.rows().length > 0, "the row");
      expect(charged(lab.rows())).toMatchObject([{ outcome: "client-left", estimated: true }]);
    } finally {
      await listening.stop();
    }
  });
});

describe("a gateway that stops", () => {
  test("ends a stream after half a minute: what came out is charged, and the end is nobody's failure", async () => {
    const ownClock = manualClock();
    const own = await startScenarioLab(ownClock);
    own.vendors.chat.answer(PATH.chat, sse([begun(WIRES.chat)], { finish: "silence" }));
    const response = await own.gateway.post(PATH.chat, ask("chat", ONE_ROUTE.chat, "stream"));
    const reading = readAlong(response);
    await reading.has(PIECES[0]);
    const stopped = own.stop();
    await ownClock.advance(30_000);
    await reading.has("upstream_overloaded");
    await within(stopped, "the stop");
    const line = own.gateway.log.find(({ event }) => event === "generate");
    expect(line).toMatchObject({ outcome: "interrupted", error: "upstream_overloaded", output_tokens: 4 });
  });

  test("charges nothing for one of which nothing had come", async () => {
    const ownClock = manualClock();
    const own = await startScenarioLab(ownClock);
    own.vendors.chat.answer(PATH.chat, neverAnswer());
    const asked = own.gateway.post(PATH.chat, ask("chat", ONE_ROUTE.chat, "stream"));
    await own.vendors.chat.called();
    const stopped = own.stop();
    await ownClock.advance(30_000);
    expect(await (await asked).text()).toContain("shutting down");
    await within(stopped, "the stop");
    const line = own.gateway.log.find(({ event }) => event === "generate");
    expect(line).toMatchObject({ outcome: "refused", error: "upstream_overloaded" });
  });
});

describe("a slow client", () => {
  test.each(WAYS)("slows the vendor down: $name", async (way) => {
    const wire = WIRES[way.upstream];
    const block = wire.text("x".repeat(64 * 1024));
    const parts = [wire.head(), ...Array<string>(512).fill(block), wire.finish() + wire.usage() + wire.terminator];
    play(way.upstream, parts);
    play(way.upstream, parts);
    const slow = await post(way);
    const { body } = slow;
    if (!body) throw new Error("no body");
    // The other one is read at once: by its end, a vendor that nobody slows down would have come to its end too.
    const quick = await (await post(way)).text();
    expect(quick.length).toBeGreaterThan(32 * 1024 * 1024);
    const [slowCall, quickCall] = lab.vendors[way.upstream].calls;
    await until(() => quickCall?.finished === true, "the quick one's end");
    expect(slowCall?.finished).toBe(false);
    expect(lab.rows()).toHaveLength(1);
    const text = await slow.text();
    expectFinished(way.client, readRecords(text));
    await until(() => lab.rows().length === 2, "the slow one's row");
    expect(charged(lab.rows())).toMatchObject([{ outcome: "completed" }, { outcome: "completed" }]);
  });
});

describe("a client that takes nothing", () => {
  test.each(WAYS)("is given up after a minute, and its books are closed without it: $name", async (way) => {
    play(way.upstream, [begun(WIRES[way.upstream])], "silence");
    const response = await post(way);
    const call = await lab.vendors[way.upstream].called();
    await clock.advance(STALLED_MS - 1);
    expect([lab.rows(), call.aborted]).toEqual([[], false]);
    await clock.advance(1);
    await until(() => lab.rows().length > 0, "the row");
    expect(charged(lab.rows())).toMatchObject([
      { outcome: "client-left", output: 4, estimated: true, error: "request_timeout" },
    ]);
    await within(call.whenAborted, "the abort");
    // Then its connection ends too: what it has not taken is kept no longer.
    await clock.advance(STALLED_MS);
    await expect(response.text()).rejects.toThrow("the client takes nothing");
    expect(lab.rows()).toHaveLength(1);
    expect(lab.gateway.app.running.count).toBe(0);
  });
});

describe("95 s", () => {
  test.each(WAYS)("cut a whole answer off: $name", async (way) => {
    insideOnly(CLOCK_BY_HAND);
    lab.vendors[way.upstream].answer(PATH[way.upstream], neverAnswer());
    let told = false;
    const asked = lab.gateway
      .post(PATH[way.client], ask(way.client, ONE_ROUTE[way.upstream], "blocking"))
      .finally(() => {
        told = true;
      });
    const call = await lab.vendors[way.upstream].called();
    await clock.advance(94_999);
    expect([told, call.aborted, lab.rows()]).toEqual([false, false, []]);
    await clock.advance(1);
    const failure = await readFailure(way.client, await within(asked, "the answer"));
    expect(failure).toMatchObject({
      status: 504,
      code: "request_timeout",
      type: "timeout_error",
      retry: "false",
      retryAfter: null,
    });
    await within(call.whenAborted, "the abort");
    expect(charged(lab.rows())).toMatchObject([
      { outcome: "timed-out", output: 0, estimated: true, attempts: 1, error: "request_timeout" },
    ]);
  });

  test.each(WAYS)("an answer just before them wins: $name", async (way) => {
    const late = gate();
    const answer = json(WIRES[way.upstream].reply());
    lab.vendors[way.upstream].answer(PATH[way.upstream], { ...answer, headersAfter: late.opened });
    const asked = lab.gateway.post(PATH[way.client], ask(way.client, ONE_ROUTE[way.upstream], "blocking"));
    await lab.vendors[way.upstream].called();
    await clock.advance(94_900);
    late.open();
    const response = await within(asked, "the answer");
    expect([response.status, (await response.text()).includes(SAID)]).toEqual([200, true]);
    await clock.advance(10_000);
    expect(charged(lab.rows())).toMatchObject([{ outcome: "completed", estimated: false }]);
  });

  test("are for both routes together", async () => {
    const late = gate();
    const refusal = json(WIRES.chat.error("overloaded_error", "no"), { status: 529 });
    lab.vendors.chat.answer(PATH.chat, { ...refusal, headersAfter: late.opened });
    lab.spare.answer(PATH.chat, neverAnswer());
    const asked = lab.gateway.post(PATH.chat, ask("chat", TWO_ROUTES.chat, "blocking"));
    await lab.vendors.chat.called();
    await clock.advance(60_000);
    late.open();
    await lab.spare.called();
    await clock.advance(35_000);
    expect((await within(asked, "the answer")).status).toBe(504);
    expect(charged(lab.rows())).toMatchObject([{ outcome: "timed-out", attempts: 2, vendor: "vendor-spare" }]);
  });

  test("do not hold for streams", async () => {
    const wire = WIRES.chat;
    const gates = [gate(), gate()] as const;
    play("chat", [begun(wire), gates[0].opened, wire.text("still"), gates[1].opened, rest(wire)]);
    const reading = readAlong(await post({ client: "chat", upstream: "chat" }));
    await reading.has(PIECES[0]);
    await clock.advance(80_000);
    gates[0].open();
    await reading.has("still");
    await clock.advance(80_000);
    gates[1].open();
    expectFinished("chat", readRecords(await reading.end()));
  });
});

describe("a revoked key", () => {
  test.each(WAYS)("ends its running streams with an error of the dialect: $name", async (way) => {
    play(way.upstream, [begun(WIRES[way.upstream])], "silence");
    const reading = readAlong(await post(way));
    await reading.has(PIECES[0]);
    const [key] = lab.gateway.app.keys.list();
    await lab.gateway.app.keys.revoke(key?.id ?? "");
    await clock.advance(1_000);
    expect(reading.ended).toBe(true);
    expect(expectBroken(way.client, readRecords(reading.text)).code).toBe("invalid_api_key");
    await within((await lab.vendors[way.upstream].called()).whenAborted, "the abort");
    expect(charged(lab.rows())).toMatchObject([{ output: 4, estimated: true, error: "invalid_api_key" }]);
    expect((await post(way)).status).toBe(401);
    expect([lab.rows().length, lab.vendors[way.upstream].calls.length]).toEqual([1, 1]);
  });
});

describe("what passes through", () => {
  test.each(WAYS)("the model is the one that was asked for, everywhere: $name", async (way) => {
    const wire = WIRES[way.upstream];
    play(way.upstream, [soundStream(wire)]);
    const text = await (await post(way, { stream_options: { include_usage: true } })).text();
    expect(text).not.toContain(HIDDEN_MODEL);
    expect(text).toContain(`"model":"${ONE_ROUTE[way.upstream]}"`);
    lab.vendors[way.upstream].answer(PATH[way.upstream], json(wire.reply()));
    const response = await lab.gateway.post(PATH[way.client], ask(way.client, ONE_ROUTE[way.upstream], "blocking"));
    const whole = await response.text();
    expect(whole).not.toContain(HIDDEN_MODEL);
    expect((JSON.parse(whole) as { model: string }).model).toBe(ONE_ROUTE[way.upstream]);
    expect(JSON.stringify([...response.headers])).not.toContain(HIDDEN_MODEL);
  });

  test.each(WAYS)("a stream that a proxy before its vendor calls JSON is one: $name", async (way) => {
    const wire = WIRES[way.upstream];
    const more = gate();
    const headers = { "content-type": "application/json" };
    const parts = [`\n${begun(wire)}`, more.opened, rest(wire)];
    lab.vendors[way.upstream].answer(PATH[way.upstream], sse(parts, { headers }));
    const reading = readAlong(await post(way));
    await reading.has(PIECES[0]);
    more.open();
    const records = readRecords(await reading.end());
    expectFinished(way.client, records);
    expect(saidIn(way.client, records)).toBe(SAID);
    expect(charged(lab.rows())).toMatchObject([{ outcome: "completed", input: INPUT, output: OUTPUT }]);
  });

  test("chat: unknown fields survive byte by byte", async () => {
    const odd = '"big":12345678901234567890,"spelling":1.0e2,"future":{"b":1,"a":[2]}';
    // A sum that is missing would be added.
    const whole = soundStream(WIRES.chat).replace('"completion_tokens":7}', '"completion_tokens":7,"total_tokens":18}');
    const [head, ...others] = whole.split("\n\n");
    const wild = [head, ...others].map((record) => record?.replace(',"choices"', `,${odd},"choices"`)).join("\n\n");
    play("chat", [wild]);
    const text = await (
      await post({ client: "chat", upstream: "chat" }, { stream_options: { include_usage: true } })
    ).text();
    expect(text).toBe(wild.replaceAll(HIDDEN_MODEL, ONE_ROUTE.chat));
  });

  test("chat: a role that the vendor repeats with every piece is told once, and the pieces are as they came", async () => {
    const whole = soundStream(WIRES.chat);
    const said = '"role":"assistant"';
    const rest = whole.slice(whole.indexOf(said) + said.length);
    expect(rest).not.toContain(said);
    play("chat", [whole.slice(0, -rest.length) + rest.replaceAll('"delta":{"', `"delta":{${said},"`)]);
    const text = await (
      await post({ client: "chat", upstream: "chat" }, { stream_options: { include_usage: true } })
    ).text();
    const records = readRecords(text);
    expectFinished("chat", records);
    expect(saidIn("chat", records)).toBe(SAID);
    expect(text.split(said)).toHaveLength(2);
  });

  test("messages: unknown fields, events and blocks survive byte by byte", async () => {
    const wire = WIRES.messages;
    const event = 'event: future_event\ndata: {"type":"future_event","big":12345678901234567890, "x" : 1}\n\n';
    const block =
      'event: content_block_start\ndata: {"type":"content_block_start","index":1,"content_block":{"type":"future_block","n":1.0e2}}\n\n' +
      'event: content_block_stop\ndata: {"type":"content_block_stop","index":1}\n\n';
    const [stop, ...ending] = wire.finish().split(/(?<=\n\n)/);
    const said = wire.head() + event + wire.text(SAID) + (stop ?? "") + block + ending.join("") + wire.terminator;
    play("messages", [said]);
    const text = await (await post({ client: "messages", upstream: "messages" })).text();
    expect(text).toBe(said.replaceAll(HIDDEN_MODEL, ONE_ROUTE.messages));
  });

  test("what cannot cross is named, streamed or not; on the diagonal nothing is", async () => {
    const wishes = {
      chat: { logit_bias: { "1": 2 }, "日本\r\nx": 1 },
      messages: { service_tier: "x", "日本\r\nx": 1 },
    };
    const names = { chat: "logit_bias, ?????".replace("?????", "????x"), messages: "service_tier, ????x" };
    for (const way of WAYS) {
      for (const mode of MODES) {
        lab.vendors[way.upstream].answer(PATH[way.upstream], soundAnswer(WIRES[way.upstream], mode));
        const body = ask(way.client, ONE_ROUTE[way.upstream], mode, wishes[way.client]);
        const response = await lab.gateway.post(PATH[way.client], body);
        await response.text();
        const dropped = response.headers.get("x-sluice-dropped");
        expect([way.name, mode, response.status, dropped]).toEqual([
          way.name,
          mode,
          200,
          way.client === way.upstream ? null : names[way.client],
        ]);
      }
    }
    expect(lab.rows()).toHaveLength(8);
  });
});
