import { afterEach, beforeEach, expect, test } from "bun:test";
import type { Socket, TCPSocketListener } from "bun";
import { Abort } from "../../src/lib/abort.ts";
import { Pool } from "../../src/vendors/http/pool.ts";
import { addressOf, writeHead } from "../../src/vendors/http/request.ts";
import { until } from "../support/wait.ts";

const REPLY = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const RULES = { accept: <T>(answer: T) => answer, explain: (thrown: unknown) => thrown };

/** Every connection that was made to the server, and those that are open. */
let made = 0;
let open: Set<Socket>;
let server: TCPSocketListener<undefined>;
let now = 0;
let pool: Pool;

beforeEach(() => {
  made = 0;
  now = 0;
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
      data: (socket) => void socket.write(REPLY),
      close: (socket) => void open.delete(socket),
    },
  });
});
afterEach(() => server.stop(true));

async function ask(): Promise<void> {
  const address = addressOf(`http://127.0.0.1:${server.port}/x`);
  if (!address) throw new Error("no address");
  const answer = await pool.call(address.origin, writeHead(address, ""), "{}", new Abort(), RULES);
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
  await ask();
  expect(made).toBe(3);
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
