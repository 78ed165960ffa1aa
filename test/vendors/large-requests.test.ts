import { afterAll, expect, test } from "bun:test";
import { Abort } from "../../src/lib/abort.ts";
import { send } from "../../src/vendors/send.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";

/** Bodies on both sides of what shares its memory with other messages. */
const SIZES = [60_000, 70_000, 300_000, 900_000, 1_040_000, 1_100_000, 3_000_000];
/** Of one request of each size, as they came. */
const arrived = new Map<string, string>();

type Arriving = { text: string; decoder: TextDecoder };

/** A vendor that takes nothing until every connection is there, so that what is sent to one waits while others are written. */
const vendorServer = Bun.listen<Arriving>({
  hostname: "127.0.0.1",
  port: 0,
  socket: {
    open(socket) {
      socket.data = { text: "", decoder: new TextDecoder() };
      socket.pause();
      waiting.push(socket);
      if (waiting.length === SIZES.length) setImmediate(resumeAll);
    },
    data(socket, bytes) {
      socket.data.text += socket.data.decoder.decode(bytes, { stream: true });
      const { text } = socket.data;
      const end = text.indexOf("\r\n\r\n");
      const length = Number(/content-length: (\d+)/.exec(text)?.[1]);
      const body = text.slice(end + 4);
      if (end < 0 || Buffer.byteLength(body) < length) return;
      arrived.set(body.slice(0, 12), body);
      socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    },
  },
});
const waiting: { resume(): void }[] = [];
function resumeAll(): void {
  for (const one of waiting) one.resume();
}
afterAll(() => vendorServer.stop(true));

test("requests of all sizes arrive as they are, though all are sent before any is taken", async () => {
  const vendor: Vendor = {
    ...{ id: "lab", name: "lab", dialect: "chat", baseUrl: `http://127.0.0.1:${vendorServer.port}`, auth: "none" },
    ...{ models: "any", quirks: {} },
  };
  const bodies = SIZES.map((size, at) => `size-${String(size).padStart(7, "0")} ${`${at}é`.repeat(size / 3)}`);
  const sent = bodies.map((body, at) => {
    // In one piece, and in several.
    const pieces = at % 2 === 0 ? body : [body.slice(0, 12), body.slice(12, 1_000), body.slice(1_000)];
    return send(vendor, { path: "/", body: pieces, headers: {}, abort: new Abort(), userAgent: "test" });
  });
  for (const answer of await Promise.all(sent)) expect(await answer.text(100)).toBe("ok");
  for (const body of bodies) expect(arrived.get(body.slice(0, 12)) === body).toBe(true);
});

test("a request that the system does not take at once goes on as its vendor reads", async () => {
  const read = new Bun.CryptoHasher("sha256");
  let left: number | undefined;
  const slow = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        socket.pause();
        setTimeout(() => socket.resume(), 50);
      },
      data(socket, bytes) {
        let body: Uint8Array = bytes;
        if (left === undefined) {
          const end = bytes.indexOf("\r\n\r\n") + 4;
          left = Number(/content-length: (\d+)/.exec(bytes.toString("latin1", 0, end))?.[1]);
          body = bytes.subarray(end);
        }
        read.update(body);
        left -= body.length;
        if (left === 0) socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
      },
    },
  });
  using _stopped = { [Symbol.dispose]: () => slow.stop(true) };
  const vendor: Vendor = {
    ...{ id: "lab", name: "lab", dialect: "chat", baseUrl: `http://127.0.0.1:${slow.port}`, auth: "none" },
    ...{ models: "any", quirks: {} },
  };
  // More than sender and receiver keep between them.
  const body = Array.from({ length: 24 }, (_, at) => String.fromCharCode(97 + at).repeat(1_000_000)).join("");
  const answer = await send(vendor, { path: "/", body, headers: {}, abort: new Abort(), userAgent: "test" });
  expect(await answer.text(100)).toBe("ok");
  expect(read.digest("hex")).toBe(new Bun.CryptoHasher("sha256").update(body).digest("hex"));
});
