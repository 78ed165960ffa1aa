import { expect, test } from "bun:test";
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
