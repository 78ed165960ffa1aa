import { afterEach, beforeEach, expect, spyOn, test } from "bun:test";
import type { Socket, TCPSocketListener } from "bun";
import { Abort } from "../../src/lib/abort.ts";
import type { Answer } from "../../src/vendors/answer.ts";
import type { Connection } from "../../src/vendors/http/connection.ts";
import { Pool } from "../../src/vendors/http/pool.ts";
import { addressOf, writeHead } from "../../src/vendors/http/request.ts";
import { countTimeAsleep } from "../../src/vendors/http/time-asleep.ts";
import { until } from "../support/wait.ts";

const REPLY = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const RULES = { accept: <T>(answer: T) => answer, explain: (thrown: unknown) => thrown };

/** Every connection that was made to the server, and those that are open. */
let made = 0;
let requests = 0;
let reply = REPLY;
/** What the server does behind each answer. */
let behind: ((socket: Socket) => void) | undefined;
let open: Set<Socket>;
let server: TCPSocketListener<undefined>;
/** Another server, and the connection to it, on which it says when something is to be done. */
let ringer: TCPSocketListener<undefined>;
let ringing: Socket<undefined> | undefined;
let now = 0;
let pool: Pool;

beforeEach(() => {
  made = 0;
  requests = 0;
  reply = REPLY;
  behind = undefined;
  // It has run for an hour.
  now = 3_600_000;
  open = new Set();
  pool = new Pool(() => now);
  server = Bun.listen<undefined>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open: (socket) => {
        made++;
        open.add(socket);
      },
      data: (socket) => {
        requests++;
        socket.write(reply);
        behind?.(socket);
      },
      close: (socket) => void open.delete(socket),
    },
  });
});
beforeEach(() => {
  ringing = undefined;
  ringer = Bun.listen<undefined>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open: (socket) => {
        ringing = socket;
      },
      data: () => {},
    },
  });
});
afterEach(() => {
  server.stop(true);
  ringer.stop(true);
});

function call(abort = new Abort(), body = "{}"): Promise<Answer> {
  const address = addressOf(`http://127.0.0.1:${server.port}/x`);
  if (!address) throw new Error("no address");
  return pool.call(address.origin, writeHead(address, ""), body, abort, RULES);
}

async function ask(): Promise<void> {
  const answer = await call();
  expect(await answer.text(100)).toBe("ok");
}

/** The server closes what rests, with a last word or without, and the pool has heard of it. */
async function serverCloses(lastWord = ""): Promise<void> {
  for (const socket of open) {
    if (lastWord !== "") socket.write(lastWord);
    socket.end();
  }
  await until(() => pool.figures.open === 0, "the end of every connection");
}

test.each([
  ["", "without a word"],
  ["HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", "with a word"],
])("a server that closes what has rested for five seconds %#", async (lastWord) => {
  await ask();
  now += 4_900;
  await ask();
  expect(made).toBe(1);
  now += 5_000;
  await serverCloses(lastWord);
  // From now on none is used that may be closed while the request is on its way.
  await ask();
  now += 3_900;
  await ask();
  expect(made).toBe(2);
  now += 4_100;
  // Nothing has rested for too long: what was learnt stays.
  pool.sweep();
  await ask();
  expect(made).toBe(3);
});

test("a server that closes each connection when it has rested for a while is not one that keeps none", async () => {
  for (let closed = 0; closed < 5; closed++) {
    await ask();
    now += 5_000;
    await serverCloses();
  }
  await ask();
  await ask();
  expect(made).toBe(6);
});

test("an answer that ends its connection tells nothing of how long another may rest", async () => {
  reply = REPLY.replace("content-length", "connection: close\r\ncontent-length");
  await ask();
  reply = REPLY;
  await ask();
  now += 40_000;
  await ask();
  expect(made).toBe(2);
});

test("an answer without a length is whole when its connection is closed, and broken when that is torn down", async () => {
  reply = "HTTP/1.1 200 OK\r\n\r\nok";
  const closed = await call();
  for (const socket of open) socket.end();
  expect(await closed.text(100)).toBe("ok");
  const torn = await call();
  for (const socket of open) socket.terminate();
  await expect(Promise.resolve(torn.text(100))).rejects.toThrow("torn down");
  // What says how long it is, or has not come as far as that, is broken either way.
  reply = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok";
  const short = await call();
  for (const socket of open) socket.end();
  await expect(Promise.resolve(short.text(100))).rejects.toThrow("closed");
  reply = "HTTP/1.1 200 OK\r\n";
  behind = (socket) => void socket.end();
  await expect(call()).rejects.toThrow("closed");
});

test("what comes on a connection that rests answers nothing: it ends that connection, also where its server leaves it open", async () => {
  await ask();
  for (const socket of open) socket.write(REPLY);
  await until(() => pool.open === 0, "the end of the connection");
  await ask();
  expect(made).toBe(2);
});

test("a connection that ends takes no other along, whether it rested or not", async () => {
  await Promise.all([ask(), ask(), ask(), ask()]);
  for (const socket of [...open].slice(0, 1)) socket.end();
  await until(() => pool.open === 3, "the end of one that rests");
  expect(pool.figures).toEqual({ open: 3, idle: 3 });
  reply = REPLY.replace("content-length", "connection: close\r\ncontent-length");
  await ask();
  expect(pool.figures).toEqual({ open: 2, idle: 2 });
});

test("a connection that the system refuses at once, as it does where there is no network, is not counted for ever", async () => {
  // Nobody connects to all: it is refused in the very call, on any machine.
  const address = addressOf("http://255.255.255.255:9/x");
  if (!address) throw new Error("no address");
  const asked = pool.call(address.origin, writeHead(address, ""), "{}", new Abort(), RULES);
  await expect(asked).rejects.toThrow("No connection could be made");
  expect([pool.counts.opened, pool.figures]).toEqual([1, { open: 0, idle: 0 }]);
});

test("what was used at the same time is kept, all of it, and closed when it has rested for too long", async () => {
  await Promise.all([ask(), ask(), ask()]);
  await Promise.all([ask(), ask(), ask()]);
  expect([made, pool.figures]).toEqual([3, { open: 3, idle: 3 }]);
  expect(pool.counts).toEqual({ opened: 3, reused: 3 });
  now += 49_000;
  pool.sweep();
  expect(pool.figures).toEqual({ open: 3, idle: 3 });
  now += 2_000;
  pool.sweep();
  expect(pool.figures).toEqual({ open: 0, idle: 0 });
  await until(() => open.size === 0, "the server to see it");
});

test("of those that rest at the same time no more are kept than a thousand and a few", () => {
  let closed = 0;
  const used = { origin: { name: "lab" }, answers: 1, idleSince: 0, close: () => closed++ };
  for (let count = 0; count < 1_025; count++) pool.freed({ ...used } as unknown as Connection);
  expect([pool.figures.idle, closed]).toEqual([1_024, 1]);
  now += 51_000;
  pool.sweep();
  expect(closed).toBe(1_025);
});

test("a connection on which an answer came before its request had gone out whole takes no other request", async () => {
  reply = "HTTP/1.1 413 Payload Too Large\r\ncontent-length: 2\r\n\r\nno";
  // More than sender and receiver keep between them, of which no more is read.
  behind = (socket) => void socket.pause();
  const refused = await call(undefined, "x".repeat(16 * 1024 * 1024));
  expect([refused.status, await refused.text(100)]).toEqual([413, "no"]);
  [reply, behind] = [REPLY, undefined];
  await ask();
  expect(made).toBe(2);
});

test("those that have rested for too long are looked for as long as any rest, by one timer", async () => {
  const begun = spyOn(globalThis, "setInterval");
  const ended = spyOn(globalThis, "clearInterval");
  try {
    const looks = () => begun.mock.calls.filter(([, ms]) => ms === 5_000).map(([look]) => look as () => void);
    await Promise.all([ask(), ask()]);
    await ask();
    expect(looks()).toHaveLength(1);
    now += 49_000;
    looks()[0]!();
    expect([pool.figures.idle, ended.mock.calls.length]).toEqual([2, 0]);
    now += 2_000;
    looks()[0]!();
    expect([pool.figures.idle, ended.mock.calls.length]).toEqual([0, 1]);
    await ask();
    expect(looks()).toHaveLength(2);
  } finally {
    begun.mockRestore();
    ended.mockRestore();
  }
});

test("what was given up before it is asked, or while its connection is made, is never sent, and that connection serves the next", async () => {
  const given = new Abort();
  given.abort(new Error("given up"));
  await expect(call(given)).rejects.toThrow("given up");
  expect(made).toBe(0);
  const leaving = new Abort();
  const called = call(leaving);
  leaving.abort(new Error("left"));
  await expect(called).rejects.toThrow("left");
  await until(() => pool.figures.idle === 1, "the connection");
  await ask();
  expect([made, requests]).toEqual([1, 1]);
});

test("a server that starts anew closes what has just been used: connections are kept for a moment all the same", async () => {
  await ask();
  now += 2;
  await serverCloses();
  await ask();
  now += 900;
  await ask();
  expect(made).toBe(2);
  now += 1_100;
  await ask();
  expect(made).toBe(3);
});

test.each([
  ["slept for an hour, in which its monotonic clock stood still", 3_600_000, 2],
  ["slept for half a minute", 30_000, 1],
  ["was told the time anew, a moment later", 900, 1],
  ["was told the time anew, an hour earlier", -3_600_000, 1],
])("what rests on a machine that %s", async (_name, wallMs, connections) => {
  let wall = 1_767_323_045_000;
  pool = new Pool(
    countTimeAsleep(
      () => now,
      () => wall,
    ),
  );
  await ask();
  now += 30_000;
  wall += 30_000;
  await ask();
  // Those whom it was connected to have hung up long ago, and it has not heard of it.
  wall += wallMs;
  await ask();
  expect([made, requests]).toEqual([connections, 3]);
  pool.sweep();
  expect(pool.figures.idle).toBe(1);
});

test("who closes what has rested while the machine slept tells nothing of a longer rest than any", async () => {
  await ask();
  now += 3_600_000;
  await serverCloses();
  await ask();
  now += 50_000;
  await ask();
  expect(made).toBe(3);
});

test("who closes none for as long as they are kept is trusted again", async () => {
  await ask();
  await serverCloses();
  await ask();
  now += 51_000;
  pool.sweep();
  await ask();
  now += 40_000;
  await ask();
  expect(made).toBe(3);
});

test.each([
  ["without a word", ""],
  ["with a word", "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"],
])(
  "a server that closes what rests, %s, in the turn in which it is used again is asked on a new connection",
  async (_name, lastWord) => {
    await ask();
    // Both come in one turn of the event loop: what has the pool called, and behind it the end of the connection that it takes.
    const asked = Promise.withResolvers<void>();
    const bell = await Bun.connect({
      hostname: "127.0.0.1",
      port: ringer.port,
      socket: { data: () => asked.resolve(ask()) },
    });
    await until(() => ringing !== undefined, "the other connection");
    ringing?.write("now");
    for (const socket of open) {
      if (lastWord !== "") socket.write(lastWord);
      socket.end();
    }
    await asked.promise;
    expect([made, requests]).toEqual([2, 2]);
    bell.end();
  },
);

const WAITED = "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

test("a request that crosses with a server's word that it has waited long enough was not read, and goes out on a new connection", async () => {
  await ask();
  now += 5_000;
  reply = WAITED;
  behind = (socket) => {
    socket.end();
    [reply, behind] = [REPLY, undefined];
  };
  await ask();
  expect([made, requests]).toEqual([2, 3]);
  // What was learnt by it: how long a connection may rest.
  now += 4_100;
  await ask();
  expect(made).toBe(3);
});

test.each([
  ["on a new connection", 0, WAITED, 0],
  ["later than a word takes on its way", 1, WAITED, 1_001],
  ["on a connection that it keeps", 1, WAITED.replace("connection: close\r\n", ""), 0],
  ["behind a word that it has begun", 1, `HTTP/1.1 102 Processing\r\n\r\n${WAITED}`, 0],
])("a 408 %s is the answer, and nothing is sent again", async (_name, before, answer, lateMs) => {
  for (let time = 0; time < before; time++) await ask();
  reply = answer;
  behind = () => {
    now += lateMs;
  };
  expect((await call()).status).toBe(408);
  expect([made, requests]).toEqual([1, before + 1]);
});

test("what is asked while an answer is read waits until it is known that its server has not closed behind that", async () => {
  behind = (socket) => void socket.end();
  const first = await call();
  // The answer is here whole, and the end of its connection with it, which nobody has been told of.
  const second = await call();
  expect([await first.text(100), await second.text(100)]).toEqual(["ok", "ok"]);
  expect([made, requests]).toEqual([2, 2]);
});

test("what is given up while it waits for that is never sent", async () => {
  await call();
  const left = new Abort();
  const given = call(left);
  left.abort(new Error("left"));
  await expect(given).rejects.toThrow("left");
  await call();
  await call();
  expect([made, requests]).toEqual([2, 3]);
});

/** The server closes a connection a moment after its answer, when another request may be on its way. */
async function askOfOneThatClosesAtOnce(times: number): Promise<void> {
  for (let time = 0; time < times; time++) {
    await ask();
    now += 5;
    await serverCloses();
  }
}

test("a server that closes every connection behind its first answer is asked on a new one each time, until one stays open", async () => {
  await askOfOneThatClosesAtOnce(4);
  await ask();
  now += 1;
  await ask();
  now += 1;
  await ask();
  expect(made).toBe(7);
  now += 1_000;
  await ask();
  // By what was learnt of it those have rested for too long.
  expect(made).toBe(8);
  await ask();
  expect(made).toBe(8);
});

test("a server that fails may close its connection behind that, without a word: what is asked next goes out on another one", async () => {
  await ask();
  reply = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\nno";
  behind = (socket) => void setTimeout(() => socket.end(), 20);
  const failed = await call();
  expect([failed.status, await failed.text(100)]).toEqual([500, "no"]);
  reply = REPLY;
  behind = undefined;
  await ask();
  await ask();
  expect([made, requests]).toEqual([2, 4]);
});

test("one connection on which a second answer came, and it is none that closes behind each", async () => {
  await askOfOneThatClosesAtOnce(3);
  await ask();
  await ask();
  expect(made).toBe(4);
  await serverCloses();
  await askOfOneThatClosesAtOnce(3);
  await ask();
  await ask();
  expect(made).toBe(8);
});

test.each([
  ["localhost", true],
  ["127.0.0.1", false],
])("over TLS a name is asked for, an address not: %s", async (host, isNamed) => {
  const hello = Promise.withResolvers<string>();
  const silent = Bun.listen<undefined>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data: (socket, bytes) => {
        hello.resolve(bytes.toString("latin1"));
        socket.end();
      },
    },
  });
  const address = addressOf(`https://${host}:${silent.port}/x`);
  if (!address) throw new Error("no address");
  const called = pool.call(address.origin, writeHead(address, ""), "{}", new Abort(), RULES);
  await expect(called).rejects.toThrow("No connection could be made");
  expect((await hello.promise).includes(host)).toBe(isNamed);
  silent.stop(true);
});
