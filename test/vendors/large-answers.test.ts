import { afterAll, expect, test } from "bun:test";
import { Abort } from "../../src/lib/abort.ts";
import { poolFigures, send } from "../../src/vendors/send.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";

const LENGTH = 200_000;
const ANSWER = Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${LENGTH}\r\n\r\n${"a".repeat(LENGTH)}`);

/** A vendor whose answers come at once. */
const vendorServer = Bun.listen<{ unsent: Uint8Array }>({
  hostname: "127.0.0.1",
  port: 0,
  socket: {
    data(socket) {
      socket.data = { unsent: ANSWER.subarray(socket.write(ANSWER)) };
    },
    drain(socket) {
      socket.data.unsent = socket.data.unsent.subarray(socket.write(socket.data.unsent));
    },
  },
});
afterAll(() => vendorServer.stop(true));

const vendor: Vendor = {
  ...{ id: "lab", name: "lab", dialect: "chat", baseUrl: `http://127.0.0.1:${vendorServer.port}`, auth: "none" },
  ...{ models: "any", quirks: {} },
};
const ask = () => send(vendor, { path: "/", body: "x", headers: {}, abort: new Abort(), userAgent: "test" });
/** Until all of an answer has come, and lies there unread. */
const untilHere = () => Bun.sleep(50);

test("a large answer that nobody reads keeps no other waiting on its connection", async () => {
  const before = poolFigures().reused;
  const unread = [];
  for (let count = 0; count < 5; count++) {
    unread.push(await ask());
    await untilHere();
    const answer = await ask();
    await untilHere();
    expect(await answer.text(1_000_000)).toHaveLength(LENGTH);
  }
  expect(poolFigures().reused).toBeGreaterThan(before);
  for (const answer of unread) expect(await answer.text(1_000_000)).toHaveLength(LENGTH);
});

test("an answer of which nothing is read waits at its vendor, and comes whole once it is", async () => {
  const MIB = 1024 * 1024;
  const length = 64 * MIB;
  const piece = Buffer.alloc(MIB, "a");
  let sent = 0;
  const sendOn = (socket: { write(bytes: Uint8Array): number }) => {
    while (sent < length) {
      const rest = piece.subarray(sent % MIB);
      const written = socket.write(rest);
      sent += Math.max(0, written);
      if (written < rest.length) return;
    }
  };
  using endless = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data(socket) {
        socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\n`);
        sendOn(socket);
      },
      drain: sendOn,
    },
  });
  const answer = await send(
    { ...vendor, baseUrl: `http://127.0.0.1:${endless.port}` },
    { path: "/", body: "x", headers: {}, abort: new Abort(), userAgent: "test" },
  );
  let before = -1;
  while (before !== sent) {
    before = sent;
    await Bun.sleep(100);
  }
  expect(sent).toBeLessThan(length / 2);
  let read = 0;
  for (let next = await answer.read(); !next.done; next = await answer.read()) read += next.value?.length ?? 0;
  expect(read).toBe(length);
});

test("a large answer out of few packed bytes is unpacked in several turns of the event loop, and no further than is read", async () => {
  const MIB = 1024 * 1024;
  const packed = Bun.zstdCompressSync(Buffer.alloc(8 * MIB, "a"));
  using packing = Bun.serve({
    ...{ hostname: "127.0.0.1", port: 0 },
    fetch: () => new Response(packed, { headers: { "content-encoding": "zstd" } }),
  });
  const answer = await send(
    { ...vendor, baseUrl: packing.url.href },
    { path: "/", body: "x", headers: {}, abort: new Abort(), userAgent: "test" },
  );
  let turns = 0;
  const count = () => {
    turns++;
    counting = setImmediate(count);
  };
  let counting = setImmediate(count);
  const text = await answer.text(6 * MIB);
  clearImmediate(counting);
  expect(text).toHaveLength(6 * MIB);
  expect(turns).toBeGreaterThanOrEqual(5);
});

test("of an answer out of few packed bytes that came through a proxy no more is taken than may be", async () => {
  const packed = Bun.gzipSync(Buffer.alloc(1024 * 1024, "a"));
  using proxy = Bun.serve({
    ...{ hostname: "127.0.0.1", port: 0 },
    fetch: () => new Response(packed, { headers: { "content-encoding": "gzip" } }),
  });
  const answer = await send(
    { ...vendor, baseUrl: "http://vendor.test", proxy: proxy.url.href },
    { path: "/", body: "x", headers: {}, abort: new Abort(), userAgent: "test" },
  );
  expect(await answer.text(10_000)).toHaveLength(10_000);
});
