import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { insideOnly } from "../support/black-box-config.ts";
import { settle } from "../support/clock.ts";
import { type Listening, listen } from "../support/listening.ts";
import { sse } from "../support/upstream.ts";
import { gate, until, within } from "../support/wait.ts";
import { ask, ONE_ROUTE, PATH, type ScenarioLab, startScenarioLab } from "./lab.ts";
import { slowLedger } from "./slow-ledger.ts";
import { PIECES, readRecords, saidIn, WIRES } from "./wires.ts";

const wire = WIRES.chat;

let lab: ScenarioLab;
beforeEach(async () => {
  insideOnly("a ledger that waits for the test");
  lab = await startScenarioLab();
});
afterEach(() => lab?.stop());

/** Who listens: the gateway's own server, or Bun's. */
async function start(server: "own" | "bun"): Promise<Listening> {
  if (server === "own") return listen(lab.gateway);
  const elysia = await lab.gateway.app.gateway.routes();
  elysia.listen({ hostname: "127.0.0.1", port: 0 });
  const { port = 0 } = elysia.server ?? {};
  return { port, stop: async () => elysia.server?.stop(true) };
}

/** A client that has asked for a stream, and what it has heard. */
function askOver(port: number, keyed: boolean): { socket: Socket; heard(): string } {
  const body = JSON.stringify(ask("chat", ONE_ROUTE.chat, "stream"));
  const key = keyed ? "Idempotency-Key: once\r\n" : "";
  const lines = `Host: localhost\r\nX-Api-Key: ${lab.gateway.key}\r\nContent-Type: application/json\r\n${key}`;
  let text = "";
  const socket = connect(port, "127.0.0.1", () =>
    socket.write(`POST ${PATH.chat} HTTP/1.1\r\n${lines}Content-Length: ${body.length}\r\n\r\n${body}`),
  );
  socket.on("data", (bytes) => {
    text += bytes.toString();
  });
  socket.on("error", () => {});
  return { socket, heard: () => text };
}

const isIdle = () => lab.gateway.app.running.count === 0;

const WAYS = (["own", "bun"] as const).flatMap((server) =>
  (["destroy", "end"] as const).flatMap((how) => [false, true].map((keyed) => ({ server, how, keyed }))),
);

describe("a client that leaves", () => {
  test.each(WAYS)("while the books are closed: they are closed once, and it is waited for: %p", async (way) => {
    const { written, settlements } = slowLedger(lab);
    const ending = PIECES.map(wire.text).join("") + wire.finish() + wire.usage() + wire.terminator;
    lab.vendors.chat.answer(PATH.chat, sse([wire.head() + wire.text(PIECES[0]), settle(20), ending]));
    const listening = await start(way.server);
    const { socket, heard } = askOver(listening.port, way.keyed);
    await until(() => settlements.length > 0, "the settle");
    socket[way.how]();
    await settle(30);
    // A server that stops waits for what is under way: the books must not be shut meanwhile.
    expect([isIdle(), heard().includes("[DONE]")]).toEqual([false, false]);
    written.open();
    await until(isIdle, "the end of the request");
    expect(settlements.map(({ outcome }) => outcome)).toEqual(["completed"]);
    await listening.stop();
  });

  test("while a piece waits for it: the books are closed, and that is waited for", async () => {
    const { written, settlements } = slowLedger(lab);
    const begun = [wire.head() + wire.text(PIECES[0]), settle(20), wire.text(PIECES[1])];
    lab.vendors.chat.answer(PATH.chat, sse(begun, { finish: "silence" }));
    const { body } = await lab.gateway.post(PATH.chat, ask("chat", ONE_ROUTE.chat, "stream"));
    // Nobody has asked for what follows.
    await settle(60);
    const left = body?.cancel();
    await until(() => settlements.length > 0, "the settle");
    await settle(30);
    expect(isIdle()).toBe(false);
    written.open();
    await left;
    await until(isIdle, "the end of the request");
    expect(settlements).toMatchObject([{ outcome: "client-left" }]);
  });

  const asking = WAYS.flatMap((way) => [true, false].map((granted) => ({ ...way, granted })));
  test.each(asking)("while money is asked for: one row, and the vendor is let go: %p", async (way) => {
    const answered = gate();
    let asked = 0;
    const terms = {
      growAt: 0,
      async extend() {
        asked++;
        await answered.opened;
        terms.growAt = Number.POSITIVE_INFINITY;
        return way.granted;
      },
    };
    const { written, settlements, released } = slowLedger(lab, terms);
    written.open();
    const begun = wire.head() + PIECES.map(wire.text).join("");
    lab.vendors.chat.answer(PATH.chat, sse([begun], { finish: "silence" }));
    const listening = await start(way.server);
    const { socket } = askOver(listening.port, way.keyed);
    await until(() => asked > 0, "the asking");
    socket[way.how]();
    await within((await lab.vendors.chat.called()).whenAborted, "the abort");
    await settle(10);
    answered.open();
    await until(isIdle, "the end of the request");
    expect(settlements.map(({ outcome }) => outcome)).toEqual([way.granted ? "client-left" : "completed"]);
    expect(released).toEqual([]);
    await listening.stop();
  });
});

describe("a client that stays while money is asked for in another process", () => {
  // Some tokens each.
  const words = ["first", "second", "third", "fourth", "fifth"].map((word) => `${word.padEnd(39, ".")} `);
  const begin = wire.head() + wire.text(words[0]!);
  const rest = words.slice(1).map(wire.text).join("") + wire.finish() + wire.usage() + wire.terminator;
  test.each([
    ["all comes at once", [begin + rest], 5, words, "stop"],
    ["the rest comes at once", [begin, settle(20), rest], 5, words, "stop"],
    ["all comes at once, and the second time there is none", [begin + rest], 1, words.slice(0, 2), "length"],
    [
      "the rest comes at once, and the second time there is none",
      [begin, settle(20), rest],
      1,
      words.slice(0, 2),
      "length",
    ],
  ])("is told all that is paid for, once: %s", async (_what, pieces, granted, told, finish) => {
    let asked = 0;
    const terms = {
      growAt: 0,
      async extend() {
        await settle(2);
        // The first words are paid for, and with the second ones more is asked for again.
        terms.growAt = asked === 0 ? 12 : Number.POSITIVE_INFINITY;
        return asked++ < granted;
      },
    };
    const { written, settlements } = slowLedger(lab, terms);
    written.open();
    lab.vendors.chat.answer(PATH.chat, sse(pieces));
    const response = await lab.gateway.post(PATH.chat, ask("chat", ONE_ROUTE.chat, "stream"));
    const records = readRecords(await response.text());
    expect([asked, saidIn("chat", records)]).toEqual([2, told.join("")]);
    expect<unknown[]>(settlements.map((settlement) => settlement.finish)).toEqual([finish]);
  });
});

test("a stream that cannot be begun lets its vendor go", async () => {
  slowLedger(lab, { growAt: 0, extend: () => Promise.reject(new Error("nobody is there to be asked")) }).written.open();
  const begun = wire.head() + wire.text(PIECES[0]);
  lab.vendors.chat.answer(PATH.chat, sse([begun], { finish: "silence" }));
  const response = await lab.gateway.post(PATH.chat, ask("chat", ONE_ROUTE.chat, "stream"));
  expect(response.status).toBe(500);
  const call = await lab.vendors.chat.called();
  await within(call.whenAborted, "the abort");
  await until(isIdle, "the end of the request");
});

test("a client that leaves before its request has come is noted as one that left, and nobody is told of an error", async () => {
  const listening = await start("own");
  const lines = `Host: localhost\r\nX-Api-Key: ${lab.gateway.key}\r\nContent-Type: application/json\r\n`;
  const socket = connect(listening.port, "127.0.0.1", () =>
    socket.write(`POST ${PATH.chat} HTTP/1.1\r\n${lines}Content-Length: 100\r\n\r\n{"model":`),
  );
  await until(() => !isIdle(), "the request");
  socket.destroy();
  await until(isIdle, "its end");
  const line = lab.gateway.log.find(({ event }) => event === "generate");
  expect(line).toMatchObject({ outcome: "client-left", status: 499, dialect: "chat" });
  expect(line?.["error"]).toBeUndefined();
  const figures = await (await lab.gateway.call("/metrics")).text();
  expect(figures).not.toContain('code="invalid_request"');
  await listening.stop();
});
