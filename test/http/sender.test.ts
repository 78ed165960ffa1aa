import { afterEach, describe, expect, setSystemTime, test } from "bun:test";
import type { Socket } from "bun";
import { ERRORS } from "../../src/canon/errors.ts";
import { Sender } from "../../src/http/server/sender.ts";
import { outbox } from "../../src/lib/outbox.ts";
import { manualClock, settle } from "../support/clock.ts";
import { until } from "../support/wait.ts";

/** A socket that takes a little at first, and everything once it is `open`. */
class NarrowSocket {
  readonly taken: Buffer[] = [];
  open = false;

  write(bytes: Uint8Array): number {
    const some = this.open ? bytes : bytes.subarray(0, 100);
    this.taken.push(Buffer.from(some));
    return some.length;
  }
}

test.each([1_000, 100_000, 900_000, 2_000_000])(
  "two answers of %d bytes that nobody takes at once do not mix",
  (size) => {
    const clock = manualClock();
    const answers = ["a", "b"].map((letter) => {
      const socket = new NarrowSocket();
      const owner = { answered() {}, close() {}, broke() {} };
      const sender = new Sender(socket as unknown as Socket<unknown>, clock, owner);
      sender.sendWhole({ status: 200, headers: {}, ends: false, chunks: true }, letter.repeat(size));
      return { socket, sender, letter };
    });
    outbox.send();
    for (const { socket, sender, letter } of answers) {
      socket.open = true;
      sender.drain();
      const [, body] = Buffer.concat(socket.taken).toString().split("\r\n\r\n");
      expect(body === letter.repeat(size)).toBe(true);
    }
  },
);

afterEach(() => {
  setSystemTime();
});

test("the date of an answer is the clock's, also after that was set forward and back", () => {
  const socket = new NarrowSocket();
  socket.open = true;
  const owner = { answered() {}, close() {}, broke() {} };
  const sender = new Sender(socket as unknown as Socket<unknown>, manualClock(), owner);
  const dates = ["2026-01-01T12:00:00Z", "2026-01-02T12:00:00Z", "2026-01-01T12:00:01Z", "2026-01-01T12:00:00.999Z"];
  for (const date of dates) {
    setSystemTime(new Date(date));
    sender.sendWhole({ status: 200, headers: {}, ends: false, chunks: true }, "");
    outbox.send();
  }
  const told = Buffer.concat(socket.taken)
    .toString()
    .matchAll(/^date: (.*)\r$/gm);
  expect([...told].map(([, date]) => date)).toEqual(dates.map((date) => new Date(date).toUTCString()));
});

test("every status of an error has its name, and that of a handshake which is not for here", () => {
  const socket = new NarrowSocket();
  socket.open = true;
  const owner = { answered() {}, close() {}, broke() {} };
  const sender = new Sender(socket as unknown as Socket<unknown>, manualClock(), owner);
  const statuses = Object.values(ERRORS).flatMap(({ status, messagesStatus }) => [status, messagesStatus]);
  for (const status of [...statuses, 426]) {
    sender.sendWhole({ status, headers: {}, ends: false, chunks: true }, "");
    outbox.send();
  }
  const told = Buffer.concat(socket.taken).toString();
  expect(told.match(/^HTTP\/1\.1 \d+ /gm)).toHaveLength(statuses.length + 1);
  expect(told).not.toContain("Unnamed");
});

test("another protocol is named for the connection alone", () => {
  const socket = new NarrowSocket();
  socket.open = true;
  const owner = { answered() {}, close() {}, broke() {} };
  const sender = new Sender(socket as unknown as Socket<unknown>, manualClock(), owner);
  sender.sendWhole({ status: 426, headers: { upgrade: "HTTP/1.1" }, ends: false, chunks: true }, "");
  outbox.send();
  expect(Buffer.concat(socket.taken).toString().toLowerCase()).toContain("\r\nconnection: upgrade\r\n");
});

test("an answer without a body tells that by its length where its status does not", () => {
  const socket = new NarrowSocket();
  socket.open = true;
  const owner = { answered() {}, close() {}, broke() {} };
  const sender = new Sender(socket as unknown as Socket<unknown>, manualClock(), owner);
  const lengthOf = (status: number, headers: Record<string, string> = {}) => {
    sender.sendWhole({ status, headers, ends: false, chunks: true }, null);
    return /^content-length: .*$/m.exec(socket.taken.splice(0).toString())?.[0].trim();
  };
  expect([lengthOf(204), lengthOf(304)]).toEqual([undefined, undefined]);
  expect([lengthOf(200), lengthOf(200, { "content-length": "7" })]).toEqual(["content-length: 0", "content-length: 7"]);
});

describe("what waits for the end of the turn", () => {
  function makeSender() {
    const socket = new NarrowSocket();
    socket.open = true;
    const told: string[] = [];
    const owner = {
      answered: () => void told.push("answered"),
      close: () => void told.push("closed"),
      broke: (thrown: unknown) => void told.push(String(thrown)),
    };
    const sender = new Sender(socket as unknown as Socket<unknown>, manualClock(), owner);
    const text = () => Buffer.concat(socket.taken).toString();
    return { socket, sender, told, text };
  }
  const head = { status: 200, headers: {}, ends: false, chunks: true };

  test("is an answer on its way, and answered when it has gone out", () => {
    const { sender, told, text } = makeSender();
    sender.sendWhole(head, "all of it");
    expect([text(), told, sender.hasBegun, sender.isWritten]).toEqual(["", [], true, true]);
    outbox.send();
    expect([text().endsWith("\r\n\r\nall of it"), told]).toEqual([true, ["answered"]]);
    expect([sender.hasBegun, sender.isWritten]).toEqual([false, false]);
    outbox.send();
    expect(told).toEqual(["answered"]);
  });

  test("goes out before its connection is closed, and is not answered then", () => {
    const { sender, told, text } = makeSender();
    sender.sendWhole(head, "all of it");
    sender.flush();
    expect([text().endsWith("\r\n\r\nall of it"), told]).toEqual([true, []]);
    sender.leave();
    outbox.send();
    expect([text().split("all of it").length, told]).toEqual([2, []]);
  });

  test("is forgotten when the client is gone", () => {
    const { sender, told, text } = makeSender();
    sender.sendWhole(head, "all of it");
    sender.leave();
    outbox.send();
    expect([text(), told]).toEqual(["", []]);
  });

  test("is not all that streams have whose pieces are all there at once, however many they are", async () => {
    async function* pieces(): AsyncGenerator<string, undefined> {
      for (let at = 0; at < 1_000; at++) yield "a";
    }
    const senders = Array.from({ length: 40 }, makeSender);
    const streamed = { headers: {}, ping: "", clock: manualClock(), client: { close() {} } };
    for (const { sender } of senders) sender.sendStream(head, { ...streamed, chunks: pieces() });
    await new Promise((resolve) => setImmediate(resolve));
    expect(Math.max(...senders.map(({ socket }) => socket.taken.length))).toBeLessThan(5);
    for (const { sender } of senders) sender.leave();
  });

  test("is framed as its own answer is, whatever went before it on its connection", async () => {
    async function* pieces(): AsyncGenerator<string, undefined> {
      yield "piece";
    }
    const { sender, text } = makeSender();
    const streamed = { headers: {}, ping: "", clock: manualClock(), client: { close() {} }, chunks: pieces() };
    sender.sendStream(head, streamed);
    await until(() => text().endsWith("\r\n5\r\npiece\r\n0\r\n\r\n"), "the stream ends");
    expect(sender.hasBegun).toBe(false);
    sender.sendWhole(head, "all of it");
    outbox.send();
    expect(text().split("\r\n\r\n").at(-1)).toBe("all of it");
  });

  test("ends where its connection does, or its length or chunks tell, by what the client reads", () => {
    const end = (chunks: boolean, headers: Record<string, string>) => {
      const { sender, text } = makeSender();
      sender.begin({ ...head, headers, chunks });
      sender.end();
      return [sender.isEndless, ...text().matchAll(/^(?:connection|transfer-encoding): (.*)\r$/gm)].map(String);
    };
    const length = { "content-length": "0" };
    expect([end(true, {}), end(true, length), end(false, {}), end(false, length)]).toEqual([
      ["false", "transfer-encoding: chunked\r,chunked"],
      ["false"],
      ["true", "connection: close\r,close"],
      ["false", "connection: keep-alive\r,keep-alive"],
    ]);
  });

  test("is a stream's piece as it is where its client reads no chunks, and what fails behind it ends the connection", async () => {
    async function* pieces(): AsyncGenerator<string, undefined> {
      yield "piece";
      throw new Error("broken");
    }
    for (const chunks of [true, false]) {
      const { sender, text, told } = makeSender();
      const streamed = { headers: {}, ping: "", clock: manualClock(), client: { close() {} }, chunks: pieces() };
      sender.sendStream({ ...head, chunks }, streamed);
      await until(() => told.length > 0, "it has failed");
      expect([text().split("\r\n\r\n")[1], told]).toEqual([chunks ? "5\r\npiece\r\n" : "piece", ["closed"]]);
    }
  });

  test("ends the connection where it cannot be written", () => {
    const { socket, sender, told } = makeSender();
    socket.write = () => {
      throw new RangeError("no memory");
    };
    sender.sendWhole(head, "all of it");
    outbox.send();
    expect(told).toEqual(["RangeError: no memory"]);
  });

  test("stands before the end of its stream: a ping that came in the same turn as that", async () => {
    const { sender, text } = makeSender();
    let give: (end: IteratorResult<string, undefined>) => void = () => {};
    const chunks = {
      isLast: false,
      next: () => new Promise<IteratorResult<string, undefined>>((resolve) => (give = resolve)),
      return: () => Promise.resolve({ done: true as const, value: undefined }),
    };
    const clock = manualClock();
    const client = { close() {} };
    sender.sendStream({ ends: false, chunks: true }, { headers: {}, chunks, ping: ": ping\n\n", clock, client });
    sender.ping(": ping\n\n");
    expect([sender.hasBegun, sender.isWritten]).toEqual([true, false]);
    give({ done: true, value: undefined });
    await Bun.sleep(0);
    outbox.send();
    expect(text().endsWith("\r\n\r\n8\r\n: ping\n\n\r\n0\r\n\r\n")).toBe(true);
  });
});

describe("a client that takes little at a time", () => {
  const head = { status: 200, headers: {}, ends: false, chunks: true };
  const STALLED_MS = 95_000;

  /** One that takes so many bytes whenever it takes any. */
  function makeSlow(most: number) {
    const clock = manualClock();
    const taken: Buffer[] = [];
    const client = { most };
    const write = (bytes: Uint8Array) => {
      taken.push(Buffer.from(bytes.subarray(0, client.most)));
      return Math.min(bytes.length, client.most);
    };
    const told: string[] = [];
    const owner = {
      answered: () => void told.push("answered"),
      close: () => void told.push("closed"),
      broke: (thrown: unknown) => void told.push(String(thrown)),
    };
    const sender = new Sender({ write } as unknown as Socket<unknown>, clock, owner);
    const text = () => Buffer.concat(taken).toString();
    return { clock, client, told, sender, text };
  }

  test("is waited for with every piece, until it has taken all of it", async () => {
    const { client, told, sender, text } = makeSlow(100);
    const steps: string[] = [];
    sender.begin(head);
    const sent = sender.sendPiece(Buffer.from("a".repeat(1_000)))?.then(() => void steps.push("taken"));
    sender.drain();
    await Bun.sleep(0);
    expect([steps, sender.isFree]).toEqual([[], false]);
    client.most = Number.POSITIVE_INFINITY;
    sender.drain();
    await sent;
    expect([steps, sender.isFree]).toEqual([["taken"], true]);
    expect(sender.sendPiece(Buffer.from("b"))).toBeUndefined();
    sender.end();
    expect(text().endsWith(`\r\n\r\n3e8\r\n${"a".repeat(1_000)}\r\n1\r\nb\r\n0\r\n\r\n`)).toBe(true);
    expect(told).toEqual(["answered"]);
  });

  test("has its answer on its way until it has taken all of it, also of one that was written at once", () => {
    const { client, told, sender } = makeSlow(100);
    sender.sendBytes(head, Buffer.alloc(1_000));
    expect([sender.hasBegun, sender.isWritten, told]).toEqual([true, true, []]);
    client.most = Number.POSITIVE_INFINITY;
    sender.drain();
    expect([sender.hasBegun, sender.isWritten, told]).toEqual([false, false, ["answered"]]);
  });

  test("is asked whether it takes more of a stream too, behind an answer of which it took each piece", async () => {
    const { client, sender, text } = makeSlow(100);
    sender.begin(head);
    const sent = sender.sendPiece(Buffer.from("a".repeat(1_000)));
    client.most = Number.POSITIVE_INFINITY;
    sender.drain();
    await sent;
    sender.end();
    async function* pieces(): AsyncGenerator<string, undefined> {
      yield "b".repeat(1_000);
      yield "the last";
    }
    client.most = 100;
    const streamed = { headers: {}, ping: "", clock: manualClock(), client: { close() {} }, chunks: pieces() };
    sender.sendStream(head, streamed);
    await until(() => !sender.isFree, "it takes no more");
    await settle();
    client.most = Number.POSITIVE_INFINITY;
    sender.drain();
    await until(() => text().endsWith("\r\nthe last\r\n0\r\n\r\n"), "the rest is sent");
  });

  test.each<{ name: string; fields: Record<string, string>; chunks: boolean; sent: string }>([
    { name: "chunks", fields: {}, chunks: true, sent: `3e8\r\n${"a".repeat(1_000)}\r\n0\r\n\r\n` },
    { name: "a length", fields: { "content-length": "1000" }, chunks: true, sent: "a".repeat(1_000) },
    { name: "the connection's end", fields: {}, chunks: false, sent: "a".repeat(1_000) },
  ])(
    "gets the end of an answer behind what waits, once, and as its kind has one: $name",
    ({ fields, chunks, sent }) => {
      const { client, told, sender, text } = makeSlow(100);
      sender.begin({ ...head, headers: fields, chunks });
      void sender.sendPiece(Buffer.from("a".repeat(1_000)));
      sender.end();
      expect(told).toEqual([]);
      client.most = Number.POSITIVE_INFINITY;
      sender.drain();
      expect(text().slice(text().indexOf("\r\n\r\n") + 4)).toBe(sent);
      expect(told).toEqual(["answered"]);
    },
  );

  test("and leaves in the middle: nobody waits for it, nothing is read for it, and what follows is refused", async () => {
    const { sender, clock, told } = makeSlow(100);
    const cancelled: unknown[] = [];
    const source = { cancel: async (reason: unknown) => void cancelled.push(reason) };
    sender.begin(head);
    sender.follow(source);
    const sent = sender.sendPiece(Buffer.alloc(1_000));
    sender.leave();
    await expect(sent).rejects.toThrow("The client has left.");
    expect(() => sender.sendPiece(Buffer.alloc(1))).toThrow("The client has left.");
    sender.follow(source);
    expect(cancelled).toHaveLength(2);
    // Nor is it waited for.
    await clock.advance(STALLED_MS);
    expect(told).toEqual([]);
  });

  test("and has taken all of a piece is watched anew with the next", async () => {
    const { sender, client, clock, told } = makeSlow(100);
    sender.begin(head);
    const first = sender.sendPiece(Buffer.alloc(1_000));
    client.most = Number.POSITIVE_INFINITY;
    sender.drain();
    await first;
    client.most = 100;
    sender.sendPiece(Buffer.alloc(1_000))?.catch(() => undefined);
    await clock.advance(STALLED_MS);
    expect(told).toEqual(["closed"]);
  });

  test.each([
    { name: "nothing", takes: [] as number[], until: STALLED_MS, told: ["closed"] },
    { name: "less than 16 KiB in all", takes: [8_000, 8_000], until: STALLED_MS, told: ["closed"] },
    { name: "as much, then nothing", takes: [8_000, 9_000], until: 2 * STALLED_MS, told: ["closed"] },
    { name: "as much, and the time is not over", takes: [8_000, 9_000], until: STALLED_MS, told: [] },
    {
      ...{ name: "as much, then next to nothing now and then", takes: [8_000, 9_000, ...Array<number>(10).fill(1)] },
      ...{ until: 120_000, told: ["closed"] },
    },
    { name: "all of it in the end", takes: [8_000, 1e9], until: 3 * STALLED_MS, told: ["answered"] },
  ])("is cut off after 95 s in which it took too little: $name", async ({ takes, until, told: expected }) => {
    const { clock, client, told, sender } = makeSlow(100);
    sender.sendWhole(head, "a".repeat(1_000_000));
    outbox.send();
    for (const most of takes) {
      await clock.advance(10_000);
      client.most = most;
      sender.drain();
    }
    await clock.advance(until - takes.length * 10_000);
    expect(told).toEqual([...expected]);
  });
});
