import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { connect } from "node:net";
import type { Socket } from "bun";
import { UPLOAD_STALL_MS } from "../../src/http/body/upload.ts";
import { ClientConnection, type Door } from "../../src/http/server/connection.ts";
import { Incoming } from "../../src/http/server/incoming.ts";
import { type ConnectionBound, connectionBound, HttpServer } from "../../src/http/server/listen.ts";
import { parseRequestHead } from "../../src/http/server/request-head.ts";
import { Sender } from "../../src/http/server/sender.ts";
import { stopListening } from "../../src/http/server/stop-listening.ts";
import { release } from "../../src/lib/http1/memory.ts";
import { IDLE_SECONDS } from "../../src/server.ts";
import { type ManualClock, manualClock, settle } from "../support/clock.ts";
import { json, neverAnswer } from "../support/upstream.ts";
import { gate, until, within } from "../support/wait.ts";
import { RawClient } from "./http-wire-client.ts";
import { startWireLab, type WireLab } from "./http-wire-lab.ts";
import { CHUNKED, chat, HOST, JSON_TYPE, KEY, lengthOf, lines, PROBE, sound } from "./http-wire-requests.ts";
import { WIRES } from "./wires.ts";

setDefaultTimeout(30_000);

const VENDOR_PATH = "/v1/chat/completions";
const MIB = 1024 * 1024;
/** How long streams and whole answers may go on behind a stop, and then be told of it, ms (interface 8, reliability 6.5). */
const DRAIN_MS = 30_000;
const WHOLE_MS = 95_000;
const TELL_MS = 1_000;

/** A server without a gateway, which answers as a test says. */
class Bare {
  readonly clock = manualClock();
  readonly faults: unknown[] = [];
  readonly server: HttpServer;

  /** Connections to others than its clients. */
  elsewhere = 0;

  constructor(answer: Door["answer"], bound?: () => ConnectionBound) {
    this.server = new HttpServer({
      ...{ hostname: "127.0.0.1", port: 0, sharesPort: false, clock: this.clock, elsewhere: () => this.elsewhere },
      ...(bound && { bound }),
      door: {
        answer,
        refuse: (text) => ({ status: 400, headers: {}, body: text }),
        broke: (thrown) => this.faults.push(thrown),
      },
    });
  }

  connect(): Promise<RawClient> {
    return RawClient.open(this.server.port, (text) => text);
  }

  /** Waits until no connection is left. */
  empty(): Promise<void> {
    return until(() => this.server.connections === 0, "every connection to be gone");
  }
}

const bares: Bare[] = [];
function bare(answer: Door["answer"], bound?: () => ConnectionBound): Bare {
  const made = new Bare(answer, bound);
  bares.push(made);
  return made;
}
afterEach(async () => {
  for (const { server } of bares.splice(0)) await server.stop(true);
});

const GET = lines("GET / HTTP/1.1", "Host: a");

/** Pieces of an answer that end when they are returned; counts what is asked of it. */
class Pieces implements AsyncIterator<string, undefined> {
  asked = 0;
  returned = 0;
  #waiting: PromiseWithResolvers<IteratorResult<string, undefined>> | undefined;

  next(): Promise<IteratorResult<string, undefined>> {
    this.asked++;
    this.#waiting = Promise.withResolvers();
    return this.#waiting.promise;
  }

  give(value: string): void {
    this.#waiting?.resolve({ done: false, value });
  }

  return(): Promise<IteratorResult<string, undefined>> {
    this.returned++;
    this.#waiting?.resolve({ done: true, value: undefined });
    return Promise.resolve({ done: true, value: undefined });
  }
}

/** Gives these pieces in the place of what is written to it. */
const toPieces = (pieces: readonly string[]) =>
  new TransformStream<Uint8Array, Uint8Array>({
    transform(_chunk, controller) {
      for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece));
    },
  });

describe("nothing stays open", () => {
  test("of a connection on which something threw", async () => {
    const at = bare(() => {
      throw new RangeError("out of order");
    });
    const client = await at.connect();
    await client.send(GET);
    await client.over();
    await at.empty();
    expect([client.rest, at.faults.map(String)]).toEqual(["", ["RangeError: out of order"]]);
  });

  test("of a connection whose end somebody cannot bear", async () => {
    const at: Bare = bare((incoming) => {
      incoming.left.add({
        onAbort() {
          throw new RangeError("not now");
        },
      });
      return new Promise(() => undefined);
    });
    const client = await at.connect();
    await client.send(GET);
    await until(() => at.server.connections === 1, "the connection");
    await settle();
    client.reset();
    await at.empty();
    await until(() => at.faults.length === 1, "the fault to be told");
    expect(at.faults.map(String)).toEqual(["RangeError: not now"]);
  });

  test.each(["at once", "later"])("of a stream whose head cannot be written, told %s", async (when) => {
    const chunks = new Pieces();
    const streamed = () => ({
      headers: { "x-odd": "a\nb: c" },
      chunks,
      ping: "",
      clock: at.clock,
      client: { close() {}, broke() {} },
    });
    const at: Bare = bare(() => (when === "later" ? Promise.resolve(streamed()) : streamed()));
    const client = await at.connect();
    await client.send(GET);
    await client.over();
    await at.empty();
    expect([client.rest, chunks.asked, chunks.returned, at.faults.length]).toEqual(["", 0, 1, 1]);
  });

  test("of a stream whose client has left before it was there", async () => {
    const late = gate();
    const chunks = new Pieces();
    // What closing its books comes to is in its own log: it must not end the process.
    chunks.return = () => {
      chunks.returned++;
      return Promise.reject(new Error("the books"));
    };
    const at: Bare = bare(async () => {
      await late.opened;
      return { headers: {}, chunks, ping: "", clock: at.clock, client: { close() {}, broke() {} } };
    });
    const client = await at.connect();
    await client.send(GET);
    await until(() => at.server.connections === 1, "the connection");
    client.reset();
    await at.empty();
    late.open();
    await until(() => chunks.returned === 1, "the stream to be closed up");
    expect([chunks.asked, at.faults]).toEqual([0, []]);
  });

  test("of the pieces of an answer whose client has left while they are awaited", async () => {
    let cancelled: unknown;
    const body = new ReadableStream<Uint8Array>({
      pull: () => new Promise(() => undefined),
      cancel(reason) {
        cancelled = reason;
      },
    });
    const at = bare(() => new Response(body));
    const client = await at.connect();
    await client.send(GET);
    await until(() => body.locked, "the answer to be read");
    client.reset();
    await until(() => cancelled !== undefined, "the pieces to be cancelled");
    await at.empty();
    expect(at.faults).toEqual([]);
  });

  test("of a body that HEAD does not get", async () => {
    let cancelled = 0;
    const at = bare(
      () =>
        new Response(
          new ReadableStream({
            pull: () => new Promise(() => undefined),
            cancel() {
              cancelled++;
            },
          }),
        ),
    );
    const client = await at.connect();
    await client.send(lines("HEAD / HTTP/1.1", "Host: a"));
    expect((await client.answer({ head: true })).status).toBe(200);
    await until(() => cancelled === 1, "the body to be cancelled");
    client.leave();
  });

  test("of a connection whose Response says that it closes", async () => {
    const at = bare(() => new Response("no", { headers: { connection: "close" } }));
    const client = await at.connect();
    await client.send(GET + GET);
    expect([(await client.answer()).body, await client.over(), client.rest]).toEqual(["no", "closed", ""]);
  });

  test.each([202, 200, 416])(
    "of an answer of %d without a body, whose Response says so: it is said once",
    async (status) => {
      const at = bare(() => new Response(new Blob([]).stream(), { status, headers: { "content-length": "0" } }));
      const client = await at.connect();
      await client.send(GET + GET);
      for (let answers = 0; answers < 2; answers++) {
        expect(await client.answer()).toMatchObject({ status, headers: { "content-length": "0" }, body: "" });
      }
      client.leave();
    },
  );

  test("of an answer of which one piece is empty, as chunks end with one", async () => {
    const pieces = ["one", "", "two", "", ""];
    const at = bare(() => new Response(new Blob(["x"]).stream().pipeThrough(toPieces(pieces))));
    const client = await at.connect();
    await client.send(GET + GET);
    for (let asked = 0; asked < 2; asked++) {
      const { body, framing } = await client.answer();
      expect([body, framing]).toEqual(["onetwo", "chunked"]);
    }
    client.leave();
    await at.empty();
    expect(client.rest).toBe("");
  });

  test("behind an answer in pieces whose request turns out to be garbled", async () => {
    let give: (text: string) => void = () => undefined;
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        give = (text) => controller.enqueue(new TextEncoder().encode(text));
      },
    });
    const at = bare(() => new Response(body));
    const client = await at.connect();
    await client.send(lines("GET / HTTP/1.1", "Host: a", CHUNKED));
    await until(() => body.locked, "the answer to be read");
    give("begun");
    await client.has("begun");
    await client.send("no chunk\r\n");
    await client.over();
    expect(client.rest).not.toContain("400");
    await at.empty();
  });
});

test("an answer whose pieces come late is sent as they come", async () => {
  const given: ((text: string | undefined) => void)[] = [];
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      given.push((text) => {
        if (text === undefined) controller.close();
        else controller.enqueue(new TextEncoder().encode(text));
      });
    },
  });
  const at = bare(() => new Response(body));
  const client = await at.connect();
  await client.send(GET);
  await until(() => body.locked, "the answer to be read");
  for (const piece of ["one", "two", "three"]) {
    await settle();
    given[0]?.(piece);
    await client.has(piece);
  }
  given[0]?.(undefined);
  expect(await client.answer()).toMatchObject({ body: "onetwothree", framing: "chunked", chunks: [3, 3, 5] });
});

test("an answer in pieces that are all there at once is made by turns of the event loop", async () => {
  const pieces = 100;
  let turn = 0;
  const madeIn: number[] = [];
  const body = () =>
    new ReadableStream<Uint8Array>({
      pull(controller) {
        madeIn.push(turn);
        if (madeIn.length > pieces) controller.close();
        else controller.enqueue(new Uint8Array(100));
      },
    });
  const { server } = bare(() => new Response(body()));
  let ticking = setImmediate(function tick() {
    turn++;
    ticking = setImmediate(tick);
  });
  const answer = await fetch(`http://127.0.0.1:${server.port}/`);
  expect((await answer.bytes()).length).toBe(pieces * 100);
  clearImmediate(ticking);
  const inOneTurn = Math.max(...madeIn.map((of) => madeIn.filter((other) => other === of).length));
  expect(inOneTurn).toBeLessThan(5);
});

test("an answer in pieces is made no faster than its client takes it, and no further once that has left", async () => {
  let made = 0;
  let cancelled = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      controller.enqueue(new Uint8Array(MIB / 4));
      if (++made === 1_000) controller.close();
    },
    cancel() {
      cancelled++;
    },
  });
  const at = bare(() => new Response(body));
  const client = await at.connect();
  client.holdReading();
  await client.send(GET);
  await until(() => made > 1, "the answer to begin");
  await settle(1_500);
  expect(made).toBeLessThan(200);
  client.reset();
  await at.empty();
  await until(() => cancelled === 1, "the body to be cancelled");
  // That its client has left is no fault of an answer.
  expect(at.faults).toEqual([]);
});

describe("a client that sends nothing more", () => {
  test("has the whole of an answer that was given to it before, however late it reads", async () => {
    const body = "w".repeat(12 * MIB);
    const lab = bare(() => ({ status: 200, headers: {}, body }));
    const client = await lab.connect();
    client.holdReading();
    await client.send(lines("POST / HTTP/1.1", "Host: a", "Content-Length: 0"));
    await until(() => lab.server.isBusy, "the answer to be given");
    client.endSending();
    await settle(50);
    client.readOn();
    expect((await client.answer()).body === body).toBe(true);
    expect(await client.over()).toBe("closed");
    await lab.empty();
  });
});

describe("where as many are connected as may be", () => {
  const MOST = 120;

  test("one that never asked anything makes room, the oldest first, then one that rests, and none that waits for its answer", async () => {
    const held = gate();
    const answer = { status: 200, headers: {}, body: "done" };
    const at = bare(
      (incoming) => (incoming.headers.path === "/slow" ? held.opened.then(() => answer) : answer),
      () => ({ most: MOST, withCrowd: MOST + 10 }),
    );
    const connect = async (asks: string | undefined) => {
      const client = await at.connect();
      if (asks) await client.send(lines(`GET ${asks} HTTP/1.1`, "Host: a"));
      if (asks === "/") await client.answer();
      return client;
    };
    const busy = await connect("/slow");
    const rested = await connect("/");
    const silent = [await connect(undefined), await connect(undefined)];
    const others: RawClient[] = [];
    while (others.length < MOST - 4) others.push(await connect("/slow"));
    await until(() => at.server.connections === MOST, "all to be there");
    await at.clock.advance(1_000);
    const newcomers: RawClient[] = [];
    for (const [index, leaving] of [...silent, rested].entries()) {
      newcomers.push(await connect("/slow"));
      await leaving.over();
      expect([...silent, rested].map(({ ending }) => ending === undefined)).toEqual(
        [0, 1, 2].map((each) => each > index),
      );
      expect(at.server.connections).toBe(MOST);
    }
    // There is still some room for those who come when all are at work.
    newcomers.push(await connect("/slow"));
    await until(() => at.server.connections === MOST + 1, "one more");
    held.open();
    for (const client of [busy, ...others, ...newcomers]) expect((await client.answer()).body).toBe("done");
  });

  test("who makes room has the whole of its answer, however late it reads", async () => {
    const body = "w".repeat(MIB);
    const at = bare(
      ({ headers }) => ({ status: 200, headers: {}, body: headers.path === "/large" ? body : "done" }),
      () => ({ most: MOST, withCrowd: MOST }),
    );
    const late = await at.connect();
    late.holdReading();
    await late.send(lines("GET /large HTTP/1.1", "Host: a"));
    await settle(50);
    const others: RawClient[] = [];
    while (others.length < MOST) {
      const client = await at.connect();
      await client.send(GET);
      await client.answer();
      others.push(client);
    }
    expect(at.server.connections).toBe(MOST);
    late.readOn();
    expect((await late.answer()).body === body).toBe(true);
    expect(await late.over()).toBe("closed");
  });

  test("who has only just come is given the time to ask: one that rests makes room, and only a crowd beyond all bounds loses its first", async () => {
    const at = bare(
      () => ({ status: 200, headers: {}, body: "done" }),
      () => ({ most: MOST, withCrowd: MOST + 2 }),
    );
    const rested = await at.connect();
    await rested.send(lines("GET / HTTP/1.1", "Host: a"));
    await rested.answer();
    const others: RawClient[] = [];
    while (others.length < MOST) others.push(await at.connect());
    await rested.over();
    while (others.length < MOST + 2) others.push(await at.connect());
    await until(() => at.server.connections === MOST + 2, "the crowd to be there");
    expect(others.filter(({ ending }) => ending !== undefined)).toEqual([]);
    others.push(await at.connect());
    await others[0]?.over();
    expect(at.server.connections).toBe(MOST + 2);
    // The crowd is no crowd any more: each newcomer takes the place of two, until there are as many as may be.
    await at.clock.advance(1_000);
    for (const left of [MOST + 1, MOST, MOST]) {
      others.push(await at.connect());
      await until(() => at.server.connections === left, "room to be made");
    }
    expect(others.map(({ ending }) => ending !== undefined).lastIndexOf(true)).toBeLessThan(6);
  });

  test("connections to vendors count along: who comes, and who asks what may want another one, has one end that rests", async () => {
    const at = bare(
      () => ({ status: 200, headers: {}, body: "done" }),
      () => ({ most: MOST, withCrowd: MOST + 10 }),
    );
    const clients: RawClient[] = [];
    const gone = () => clients.filter(({ ending }) => ending !== undefined).length;
    const have = (count: number) => until(() => at.server.connections === count, `${count} connections`);
    while (clients.length < 110) clients.push(await at.connect());
    await have(110);
    await at.clock.advance(1_000);
    at.elsewhere = 10;
    clients.push(await at.connect());
    await clients[0]?.over();
    await have(110);
    const [last] = clients.slice(-1);
    const ask = async () => {
      await last?.send(lines("GET / HTTP/1.1", "Host: a"));
      await last?.answer();
    };
    await ask();
    expect([at.server.connections, gone()]).toEqual([110, 1]);
    at.elsewhere = 12;
    await ask();
    await clients[2]?.over();
    expect([at.server.connections, gone()]).toEqual([108, 3]);
  });

  test("an eighth of the files that may be open is left to the rest of the gateway, and 64 at the least", () => {
    expect([256, 1_024, 20_000].map(connectionBound)).toEqual([
      { most: 192, withCrowd: 224 },
      { most: 896, withCrowd: 960 },
      { most: 17_500, withCrowd: 18_750 },
    ]);
    expect(connectionBound(Number.POSITIVE_INFINITY).most).toBe(Number.POSITIVE_INFINITY);
  });
});

describe("a stream is asked for one piece at a time", () => {
  /** A socket that takes so many bytes. */
  class Narrow {
    room = Number.POSITIVE_INFINITY;
    taken = "";
    write(bytes: Uint8Array): number {
      const part = bytes.subarray(0, Math.min(bytes.length, this.room));
      this.room -= part.length;
      this.taken += Buffer.from(part).toString("latin1");
      return part.length;
    }
  }

  test("also when a ping is taken late", async () => {
    const clock = manualClock();
    const socket = new Narrow();
    const chunks = new Pieces();
    const owner = { answered() {}, close() {}, broke() {} };
    const sender = new Sender(socket as object as ConstructorParameters<typeof Sender>[0], clock, owner);
    sender.sendStream({ ends: false, chunks: true }, { headers: {}, chunks, ping: ": ping\n\n", clock, client: owner });
    chunks.give("one");
    await settle();
    expect([chunks.asked, socket.taken.endsWith("3\r\none\r\n")]).toEqual([2, true]);
    socket.room = 4;
    await clock.advance(15_000);
    expect([chunks.asked, socket.room]).toEqual([2, 0]);
    socket.room = Number.POSITIVE_INFINITY;
    sender.drain();
    expect([chunks.asked, socket.taken.endsWith("8\r\n: ping\n\n\r\n")]).toEqual([2, true]);
    chunks.give("two");
    await settle();
    expect([chunks.asked, socket.taken.endsWith("3\r\ntwo\r\n")]).toEqual([3, true]);
    socket.room = 2;
    chunks.give("three");
    await settle();
    expect(chunks.asked).toBe(3);
    socket.room = Number.POSITIVE_INFINITY;
    sender.drain();
    expect([chunks.asked, socket.taken.endsWith("5\r\nthree\r\n")]).toEqual([4, true]);
    sender.leave();
    expect(chunks.returned).toBe(1);
  });
});

describe("a body", () => {
  const line = { peer: undefined, pause() {}, resume() {}, sendContinue() {}, close() {} };
  const incoming = (framing: string) =>
    new Incoming(parseRequestHead(`POST / HTTP/1.1\r\nHost: a\r\n${framing}`), line);

  test("that is given up while more of it is awaited may come to its end", async () => {
    const request = incoming("Content-Length: 4");
    const reader = request.body?.getReader();
    const read = reader?.read();
    await reader?.cancel();
    request.take(Buffer.from("ab"));
    request.take(Buffer.from("cd"));
    request.leave(undefined);
    expect([await read, request.isWhole]).toEqual([{ done: true, value: undefined }, true]);
  });

  test("that is lent when it has come whole is used once, though its client leaves afterwards", async () => {
    const request = incoming("Content-Length: 4");
    const used: string[] = [];
    const lent = request.lend((bytes) => used.push(Buffer.from(bytes).toString()));
    request.take(Buffer.from("ab"));
    request.take(Buffer.from("cd"));
    await lent;
    request.leave(undefined);
    expect(used).toEqual(["abcd"]);
  });

  test("that is read piece by piece is asked for once, of a client that waits for that", async () => {
    let asked = 0;
    const head = parseRequestHead("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue");
    const request = new Incoming(head, { ...line, sendContinue: () => asked++ });
    const reader = request.body?.getReader();
    const first = reader?.read();
    await settle();
    expect(asked).toBe(1);
    request.take(Buffer.from("ab"));
    expect(Buffer.from((await first)?.value as Uint8Array).toString()).toBe("ab");
    const second = reader?.read();
    request.take(Buffer.from("cd"));
    expect([Buffer.from((await second)?.value as Uint8Array).toString(), asked]).toEqual(["cd", 1]);
  });

  test("and whoever takes its request for another kind hears of the client that leaves", () => {
    const request = incoming("Content-Length: 4");
    const { signal } = request.toRequest();
    expect(signal.aborted).toBe(false);
    request.leave(new Error("It has left."));
    expect([signal.aborted, String(signal.reason)]).toEqual([true, "Error: It has left."]);
  });

  test.each([CHUNKED, "Content-Length: 10000"])("in tiny pieces is kept as one, with %s", async (framing) => {
    const request = incoming(framing);
    const sent = (letter: string) => Buffer.from(framing === CHUNKED ? `1\r\n${letter}\r\n` : letter);
    const text = Array.from({ length: 10_000 }, (_, at) => String.fromCharCode(97 + (at % 26))).join("");
    for (const letter of text) request.take(sent(letter));
    const pieces: string[] = [];
    const reader = request.body?.getReader();
    for (let length = 0; length < text.length; ) {
      const piece = Buffer.from((await reader?.read())?.value as Uint8Array).toString();
      pieces.push(piece);
      length += piece.length;
    }
    expect([pieces.join("") === text, pieces.length]).toEqual([true, 3]);
    await reader?.cancel();
  });

  test("that came at once and is taken whole does not keep its connection waiting", async () => {
    const calls: string[] = [];
    const watched = { ...line, pause: () => calls.push("pause"), resume: () => calls.push("resume") };
    const head = parseRequestHead("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000");
    const request = new Incoming(head, watched);
    request.take(Buffer.alloc(300_000, 97));
    expect(calls).toEqual(["pause"]);
    expect((await request.toRequest().text()).length).toBe(300_000);
    expect(calls).toEqual(["pause", "resume"]);
  });

  test("that turns out to be garbled is over for who reads it", async () => {
    const lost: unknown[] = [];
    let isRead = false;
    const at = bare(async (incoming) => {
      isRead = true;
      await incoming.bytes().catch((thrown: unknown) => lost.push(thrown));
      return { status: 200, headers: {}, body: "read" };
    });
    const client = await at.connect();
    await client.send(`${lines("POST / HTTP/1.1", "Host: a", CHUNKED)}1\r\na\r\n`);
    await until(() => isRead, "the body to be read");
    await client.send("no chunk\r\n");
    expect((await client.answer()).status).toBe(400);
    await until(() => lost.length === 1, "the reader to be told");
    await client.over();
    expect([client.rest, at.faults]).toEqual(["", []]);
  });

  test("keeps no memory beside its own", async () => {
    const request = incoming(CHUNKED);
    const coated = () => Buffer.from(`1;${"x".repeat(10_000)}\r\na\r\n`.repeat(6));
    for (let count = 0; count < 20; count++) request.take(coated());
    const reader = request.body?.getReader();
    const piece = (await reader?.read())?.value as Uint8Array;
    expect([Buffer.from(piece).toString(), piece.buffer.byteLength]).toEqual(["a".repeat(120), 120]);
    await reader?.cancel();
  });
});

test.each([
  ["", "the first one of a connection"],
  [GET, "a later one"],
])("a head is to come whole within twelve seconds, however it drips %#", async (before) => {
  const at = bare(() => ({ status: 200, headers: {}, body: "yes" }));
  const client = await at.connect();
  if (before !== "") {
    await client.send(before);
    await client.answer();
  }
  for (const part of ["GET / HT", "TP/1.1\r\n", "Host: a\r\n", "X-More: 1\r\n"]) {
    await client.send(part);
    await settle(20);
    await at.clock.advance(2_900);
  }
  expect(client.ending).toBeUndefined();
  await at.clock.advance(1_400);
  await client.over();
  expect(client.rest).toBe("");
  await at.empty();
});

test("who is refused for his head has the answer, though he sends megabytes behind it", async () => {
  const at = bare(() => ({ status: 200, headers: {}, body: "yes" }));
  const client = await at.connect();
  const sending = client.send(`POST / HTTP/1.1\r\nHost: a\r\nX-Broken: \u0000\r\n\r\n${"x".repeat(3 * MIB)}`);
  await settle();
  const more = client.send("x".repeat(3 * MIB));
  expect((await client.answer()).status).toBe(400);
  await Promise.all([sending, more]);
  expect(await client.over()).toBe("closed");
  await at.empty();
});

describe("what is sent ahead of an answer", () => {
  const told = { status: 200, headers: {}, body: "yes" };

  test("is read up to 64 KiB, each time anew, and answered in its order when the answer has gone out", async () => {
    const flow: string[] = [];
    const written: Buffer[] = [];
    const socket = {
      setNoDelay() {},
      terminate() {},
      pause: () => void flow.push("pause"),
      resume: () => void flow.push("resume"),
      write: (bytes: Uint8Array) => written.push(Buffer.from(bytes)) && bytes.length,
    };
    const held = [gate(), gate()];
    const answer: Door["answer"] = ({ headers: { path } }) =>
      path.startsWith("/held")
        ? held[Number(path.at(-1))]!.opened.then(() => ({ ...told, body: path }))
        : { ...told, body: path };
    const connection = new ClientConnection({
      ...{ clock: manualClock(), door: { answer, refuse: () => told, broke() {} } },
      ...{ gone() {}, asked() {}, isStopping: false },
    });
    connection.onOpen(socket as unknown as Socket<ClientConnection>);
    const ask = (path: string, size = 0) =>
      connection.onData(Buffer.from(lines(`GET ${path} HTTP/1.1`, "Host: a", `x-long: ${"x".repeat(size)}`)));
    const bodies = () =>
      Buffer.concat(written)
        .toString()
        .match(/(?<=\r\n\r\n)\/[a-z0-9]+/g);
    const expected: string[] = [];
    for (const round of [0, 1]) {
      ask(`/held${round}`);
      for (let at = 0; at < 9; at++) ask(`/round${round}at${at}`, 7_000);
      expect(flow).toEqual([...Array(round).fill(["pause", "resume"]).flat()]);
      ask(`/round${round}at9`, 7_000);
      expect(flow).toEqual([...Array(round).fill(["pause", "resume"]).flat(), "pause"]);
      held[round]!.open();
      expected.push(`/held${round}`, ...Array.from({ length: 10 }, (_, at) => `/round${round}at${at}`));
      await until(() => bodies()?.length === expected.length, "all answers");
      expect([...(bodies() ?? [])]).toEqual(expected);
      expect(flow.at(-1)).toBe("resume");
    }
    connection.close();
  });

  test("is not taken in faster than it is answered, however much of it comes", async () => {
    const request = lines("GET / HTTP/1.1", "Host: a");
    /** As much as the system hands over in one turn of the event loop, while it is let. */
    const chunk = Buffer.from(request.repeat(Math.floor((512 * 1024) / request.length)));
    let [isPaused, given, answered, mostAhead] = [false, 0, 0, 0];
    const socket = {
      setNoDelay() {},
      terminate() {},
      pause() {
        isPaused = true;
      },
      resume() {
        isPaused = false;
      },
      write: (bytes: Uint8Array) => bytes.length,
    };
    const answer: Door["answer"] = () => {
      answered++;
      return told;
    };
    const connection = new ClientConnection({
      ...{ clock: manualClock(), door: { answer, refuse: () => told, broke() {} } },
      ...{ gone() {}, asked() {}, isStopping: false },
    });
    connection.onOpen(socket as unknown as Socket<ClientConnection>);
    let coming = setImmediate(function come() {
      if (!isPaused) {
        given += chunk.length;
        connection.onData(Buffer.from(chunk));
        mostAhead = Math.max(mostAhead, given - answered * request.length);
      }
      coming = setImmediate(come);
    });
    const perChunk = chunk.length / request.length;
    await until(() => answered > 2 * perChunk || mostAhead > 8 * chunk.length, "more answers than one piece asks for");
    clearImmediate(coming);
    connection.close();
    expect(mostAhead).toBeLessThan(chunk.length + 2 * 64 * 1024);
  });

  test.each(["GET", "HEAD"])(
    "is answered by turns of the event loop, of whoever sends much of it: %s",
    async (method) => {
      const [clients, requests] = [40, 50];
      let turn = 0;
      const answeredIn: number[] = [];
      const { promise: all, resolve } = Promise.withResolvers<void>();
      const { server } = bare(() => {
        answeredIn.push(turn);
        if (answeredIn.length === clients * requests) resolve();
        return { status: 200, headers: {}, body: "a" };
      });
      let ticking = setImmediate(function tick() {
        turn++;
        ticking = setImmediate(tick);
      });
      const each = lines(`${method} / HTTP/1.1`, "Host: a").repeat(requests);
      const sockets = await Promise.all(
        Array.from({ length: clients }, () => RawClient.open(server.port, (text) => text)),
      );
      await Promise.all(sockets.map((client) => client.send(each)));
      await within(all, "every answer");
      clearImmediate(ticking);
      const inOneTurn = Math.max(...answeredIn.map((of) => answeredIn.filter((other) => other === of).length));
      expect(inOneTurn).toBeLessThanOrEqual(2 * clients);
    },
  );

  test("and the rest of a body that was answered before it came whole is no request, whatever it says", async () => {
    const asked: string[] = [];
    const at = bare(({ headers: { path } }) => {
      asked.push(path);
      return told;
    });
    const client = await at.connect();
    const inside = lines("GET /inside HTTP/1.1", "Host: a");
    await client.send(`${lines("POST /first HTTP/1.1", "Host: a", `Content-Length: ${inside.length + 1}`)}x`);
    expect((await client.answer()).body).toBe("yes");
    await client.send(inside + lines("GET /second HTTP/1.1", "Host: a"));
    expect((await client.answer()).body).toBe("yes");
    expect([asked, client.rest]).toEqual([["/first", "/second"], ""]);
    client.leave();
  });

  test("and behind a body that is too long to be waited for no request is taken up, while its client may read on", async () => {
    const asked: string[] = [];
    const at = bare(({ headers: { path } }) => {
      asked.push(path);
      return told;
    });
    // One that goes on sending when it is told that nothing more comes.
    const client = connect({ host: "127.0.0.1", port: at.server.port, allowHalfOpen: true });
    let text = "";
    client.on("data", (bytes) => {
      text += bytes;
    });
    const body = "x".repeat(300 * 1024);
    client.write(`${lines("POST /first HTTP/1.1", "Host: a", `Content-Length: ${body.length}`)}x`);
    await until(() => text.endsWith("\r\n\r\nyes"), "the answer");
    expect(text).toContain("connection: close\r\n");
    client.write(body.slice(1) + lines("GET /second HTTP/1.1", "Host: a"));
    for (let count = 0; count < 20; count++) await settle();
    expect(at.server.connections).toBe(1);
    await at.clock.advance(5_000);
    await at.empty();
    expect([asked, text.split("HTTP/1.1").length]).toEqual([["/first"], 2]);
    client.destroy();
  });

  test("and a body that was answered before it came whole keeps no connection open behind a stop", async () => {
    const at = bare(() => told);
    const client = await at.connect();
    await client.send(`${lines("POST / HTTP/1.1", "Host: a", "Content-Length: 100")}x`);
    expect((await client.answer()).body).toBe("yes");
    await settle();
    const stopped = at.server.stop();
    expect(await client.over()).toBe("closed");
    await stopped;
  });
});

describe("memory may be let go of, since", () => {
  test("every piece of a socket has its own, and so has what is put together of them", async () => {
    const pieces: Buffer[] = [];
    const server = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: { data: (_socket, bytes) => void pieces.push(bytes) },
    });
    const client = await RawClient.open(server.port, (text) => text);
    let sent = 0;
    for (const size of [1, 100, 1_000, 4_000, 8_191, 65_536, MIB]) {
      await client.send(Buffer.alloc(size, 97));
      sent += size;
      await until(() => pieces.reduce((sum, { length }) => sum + length, 0) === sent, `${size} bytes`);
    }
    expect(pieces.map(({ byteOffset }) => byteOffset)).toEqual(pieces.map(() => 0));
    expect(pieces.map(({ buffer }) => buffer.byteLength)).toEqual(pieces.map(({ length }) => length));
    expect(new Set(pieces.map(({ buffer }) => buffer)).size).toBe(pieces.length);
    for (const size of [1, 10, 1_000, 4_000]) {
      const both = Buffer.concat([Buffer.alloc(size, 98), Buffer.from("c")]);
      expect([both.byteOffset, both.buffer.byteLength, Buffer.from(both).buffer.byteLength]).toEqual([
        0,
        size + 1,
        size + 1,
      ]);
    }
    client.leave();
    server.stop(true);
  });

  test("a text that was decoded of it is its own", () => {
    for (const text of ["plain", "x".repeat(100_000), "äöü€😀".repeat(20_000), "é".repeat(50_000)]) {
      const bytes = new TextEncoder().encode(text);
      const decoded = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
      const size = bytes.length;
      release(bytes);
      expect(bytes.length).toBe(0);
      for (let count = 0; count < 8; count++) new Uint8Array(size).fill(count);
      expect(decoded === text).toBe(true);
    }
  });

  test("a request that came along with others lets go of none of theirs", async () => {
    const texts: string[] = [];
    const at: Bare = bare(async (incoming) => {
      texts.push(await incoming.lend((bytes) => Buffer.from(bytes).toString()));
      return { status: 200, headers: {}, body: "ok" };
    });
    const post = (text: string) => lines("POST / HTTP/1.1", "Host: a", lengthOf(text)) + text;
    const client = await at.connect();
    await client.send(post("first") + post("second") + post("third"));
    for (let count = 0; count < 3; count++) expect((await client.answer()).body).toBe("ok");
    expect(texts).toEqual(["first", "second", "third"]);
    client.leave();
  });
});

describe("a stop", () => {
  let clock: ManualClock;

  /** A gateway on a clock of its own, which is told to stop once `begin` has begun something. */
  async function stopping(begin: (lab: WireLab) => Promise<void>) {
    clock = manualClock();
    const lab = await startWireLab(clock);
    await begin(lab);
    let isOver = false;
    const stopped = lab.stop().then(() => {
      isOver = true;
    });
    await settle();
    return { lab, stopped, isOver: () => isOver };
  }

  /** Drips a body until its connection ends: ten times as fast as an upload must be, since what was sent may be read only some turns of the clock later. */
  async function drip(client: RawClient, forMs: number): Promise<void> {
    for (let ms = 0; ms < forMs && !client.ending; ms += 1_000) {
      await client.send("x".repeat(200_000));
      await clock.advance(1_000);
    }
  }

  test("waits for a whole answer beyond the time of streams, and then for nothing else that goes on without end", async () => {
    clock = manualClock();
    const forced: number[] = [];
    const ended = Promise.withResolvers<void>();
    const stop = async (force = false) => {
      if (!force) return;
      forced.push(clock.monotonic());
      ended.resolve();
    };
    let hasWhole = true;
    const over = stopListening({ stop }, { clock, end: () => ended.promise, hasWhole: () => hasWhole });
    await clock.advance(DRAIN_MS + TELL_MS);
    expect(forced).toEqual([]);
    hasWhole = false;
    await clock.advance(TELL_MS);
    expect(forced[0]).toBe(DRAIN_MS + 2 * TELL_MS);
    await within(over, "the end");
  });

  test("waits no longer for a body that comes and comes than for an answer", async () => {
    let client: RawClient | undefined;
    const { stopped, isOver } = await stopping(async (lab) => {
      client = await lab.connect();
      await client.send(chat(["Content-Length: 30000000"], '{"model":"'));
      await settle();
    });
    await drip(client as RawClient, DRAIN_MS - 1_000);
    expect([isOver(), client?.ending]).toEqual([false, undefined]);
    await drip(client as RawClient, 2 * TELL_MS);
    await clock.advance(TELL_MS);
    await within(stopped, "the stop");
  });

  test("waits no longer for a client that reads nothing than for an answer", async () => {
    const { lab, stopped, isOver } = await stopping(async ({ vendor, connect }) => {
      const record = `data: ${JSON.stringify({ ...WIRES.chat.reply(), object: "chat.completion.chunk", choices: [{ index: 0, delta: { content: "w".repeat(60_000) }, finish_reason: null }] })}\n\n`;
      vendor.answer(VENDOR_PATH, {
        headers: { "content-type": "text/event-stream" },
        parts: Array.from({ length: 400 }, () => record),
        framing: "chunked",
        finish: "end",
      });
      const client = await connect();
      client.holdReading();
      await client.send(sound("Hi", { stream: true }));
      await vendor.called();
      await settle(200);
    });
    await clock.advance(DRAIN_MS - 1_000);
    expect(isOver()).toBe(false);
    await clock.advance(1_000 + 2 * TELL_MS);
    await within(stopped, "the stop");
    expect(lab.vendor.calls.length).toBe(1);
  });

  /** Two clients that their vendor keeps waiting, one for a whole answer and one for a stream, until `goOn`. */
  async function thinking() {
    const thought = gate();
    const clients: RawClient[] = [];
    const begun = await stopping(async ({ vendor, connect }) => {
      for (const stream of [false, true]) {
        vendor.answer(VENDOR_PATH, { ...json(WIRES.chat.reply()), headersAfter: thought.opened });
        const client = await connect();
        await client.send(sound("Hi", { stream }));
        await vendor.called(clients.push(client) - 1);
      }
    });
    return { ...begun, goOn: () => thought.open(), whole: clients[0]!, streamed: clients[1]! };
  }

  test("ends a stream after half a minute, and lets an answer that comes whole take its time", async () => {
    const { stopped, isOver, goOn, whole, streamed } = await thinking();
    await clock.advance(DRAIN_MS);
    expect((await streamed.answer()).body).toContain("shutting down");
    await clock.advance(20_000);
    expect([isOver(), whole.ending]).toEqual([false, undefined]);
    goOn();
    expect((await whole.answer()).status).toBe(200);
    await whole.over();
    await clock.advance(2 * TELL_MS);
    await within(stopped, "the stop");
  });

  test("waits for a whole answer no longer than any may take", async () => {
    const { stopped, goOn, whole } = await thinking();
    await clock.advance(WHOLE_MS);
    expect((await whole.answer()).status).toBe(504);
    await clock.advance(2 * TELL_MS);
    await within(stopped, "the stop");
    goOn();
  });

  test("does not wait for a request that has not come", async () => {
    const { stopped } = await stopping(async ({ connect }) => {
      const client = await connect();
      await client.send(lines("POST /v1/images/generations HTTP/1.1", HOST, KEY, JSON_TYPE, "Content-Length: 1000"));
      await settle();
    });
    await clock.advance(2 * TELL_MS);
    await within(stopped, "the stop");
  });

  /** A stop while a client takes nothing of an answer that has gone out to it. */
  const unread = async (text: string) => {
    let client: RawClient | undefined;
    const stop = await stopping(async ({ vendor, connect, rows }) => {
      // The process has run for a while.
      await clock.advance(60_000);
      const message = { role: "assistant", content: text };
      vendor.answer(
        VENDOR_PATH,
        json({ ...WIRES.chat.reply(), choices: [{ index: 0, message, finish_reason: "stop" }] }),
      );
      client = await connect();
      client.holdReading();
      await client.send(sound("Hi"));
      await until(() => rows().length === 1, "the answer to be settled");
      await settle(50);
    });
    return { ...stop, client: client as RawClient | undefined };
  };

  test("lets a client that reads late have the whole of its answer", async () => {
    const text = "w".repeat(12 * MIB);
    const { stopped, isOver, client } = await unread(text);
    await clock.advance(5 * TELL_MS);
    expect(isOver()).toBe(false);
    client?.readOn();
    const { status, body } = (await client?.answer()) ?? { status: 0, body: "" };
    expect([status, body.includes(text)]).toEqual([200, true]);
    await client?.over();
    await clock.advance(5 * TELL_MS);
    await within(stopped, "the stop");
  });

  test("waits no longer for a client that takes nothing of a whole answer which has gone out", async () => {
    const { stopped, isOver } = await unread("w".repeat(12 * MIB));
    await clock.advance(DRAIN_MS - TELL_MS);
    expect(isOver()).toBe(false);
    await clock.advance(2 * TELL_MS);
    await within(stopped, "the stop");
  });
});

describe("a body that stands still is cut on other endpoints too", () => {
  test.each(["/v1/images/generations", "/mcp/web", "/v1/web/search"])("POST %s", async (path) => {
    const clock = manualClock();
    const lab = await startWireLab(clock);
    lab.vendor.always(VENDOR_PATH, neverAnswer());
    const client = await lab.connect();
    await client.send(`${lines(`POST ${path} HTTP/1.1`, HOST, KEY, JSON_TYPE, "Content-Length: 100")}{"`);
    for (let count = 0; count < 20; count++) await settle();
    await clock.advance(UPLOAD_STALL_MS * 2);
    const answer = await client.answer();
    expect([answer.status, answer.headers["connection"]]).toEqual([400, "close"]);
    expect([await client.over(), client.rest, lab.vendor.calls.length]).toEqual(["closed", "", 0]);
    await lab.end();
  });

  test("and one that nobody reads is waited for no longer than a connection may rest", async () => {
    const clock = manualClock();
    const lab = await startWireLab(clock);
    const client = await lab.connect();
    await client.send(`${lines("POST /nowhere HTTP/1.1", HOST, "Content-Length: 100")}x`);
    expect((await client.answer()).status).toBe(404);
    await clock.advance(IDLE_SECONDS * 500);
    expect(client.ending).toBeUndefined();
    await clock.advance(IDLE_SECONDS * 500);
    await client.over();
    const other = await lab.connect();
    await other.send(PROBE);
    expect((await other.answer()).status).toBe(200);
    await lab.end();
  });
});
