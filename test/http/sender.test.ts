import { afterEach, expect, setSystemTime, test } from "bun:test";
import type { Socket } from "bun";
import { Sender } from "../../src/http/server/sender.ts";
import { manualClock } from "../support/clock.ts";

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
      const owner = { answered() {}, close() {} };
      const sender = new Sender(socket as unknown as Socket<unknown>, clock, owner);
      sender.sendWhole({ status: 200, headers: {}, ends: false, chunks: true }, letter.repeat(size));
      return { socket, sender, letter };
    });
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
  const owner = { answered() {}, close() {} };
  const sender = new Sender(socket as unknown as Socket<unknown>, manualClock(), owner);
  const dates = ["2026-01-01T12:00:00Z", "2026-01-02T12:00:00Z", "2026-01-01T12:00:01Z", "2026-01-01T12:00:00.999Z"];
  for (const date of dates) {
    setSystemTime(new Date(date));
    sender.sendWhole({ status: 200, headers: {}, ends: false, chunks: true }, "");
  }
  const told = Buffer.concat(socket.taken)
    .toString()
    .matchAll(/^date: (.*)\r$/gm);
  expect([...told].map(([, date]) => date)).toEqual(dates.map((date) => new Date(date).toUTCString()));
});
