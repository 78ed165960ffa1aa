import { expect, test } from "bun:test";
import fc from "fast-check";
import { Abort } from "../../src/lib/abort.ts";
import type { ReadTaker } from "../../src/vendors/answer.ts";
import { Call } from "../../src/vendors/http/call.ts";
import { nextTurn } from "../support/wait.ts";

/** Bytes in which every place is known by its neighbours. */
const bytesFrom = (start: number, length: number) =>
  Buffer.from(Uint8Array.from({ length }, (_, at) => ((start + at) * 31 + ((start + at) >> 8)) & 255));

function callOf(length: number) {
  const abort = new Abort();
  const call = new Call("", "", abort, { accept: (answer) => answer, explain: (thrown) => thrown });
  call.answered().catch(() => {});
  call.attach({ pause() {}, resume() {}, abandon() {}, ended() {}, missed: () => false });
  call.take(Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\nx-more: 1\r\n\r\n`));
  return { call, abort };
}

/** Asks again whenever it is told of a piece, and knows how it was told. */
class Asker implements ReadTaker {
  readonly pieces: Buffer[] = [];
  readonly ends: unknown[] = [];
  depth = 0;
  deepest = 0;
  toldWithin = 0;
  isAsking = false;

  constructor(readonly call: Call) {}

  ask(): void {
    this.isAsking = true;
    this.call.readTo(this);
    this.isAsking = false;
  }

  onBytes(bytes: Uint8Array, from: number, to: number): void {
    if (this.isAsking) this.toldWithin++;
    this.deepest = Math.max(this.deepest, ++this.depth);
    this.pieces.push(Buffer.from(bytes.subarray(from, to)));
    this.ask();
    this.depth--;
  }

  onEnd(): void {
    if (this.isAsking) this.toldWithin++;
    this.ends.push("done");
  }

  onBroken(reason: unknown): void {
    if (this.isAsking) this.toldWithin++;
    this.ends.push(reason);
  }
}

test("however many pieces wait, one is not told of within another", async () => {
  const { call } = callOf(20_000);
  for (let at = 0; at < 20_000; at++) call.take(bytesFrom(at, 1));
  const asker = new Asker(call);
  asker.ask();
  while (asker.ends.length === 0) await nextTurn();
  expect([asker.deepest, asker.toldWithin, asker.ends]).toEqual([1, 0, ["done"]]);
  expect(Buffer.concat(asker.pieces).equals(bytesFrom(0, 20_000))).toBe(true);
});

test("of many that get much at the same moment the later ones keep it packed until their turn comes, and each is told all of it", async () => {
  const LENGTH = 300_000;
  const all = Array.from({ length: 40 }, (_, at) => {
    const { call } = callOf(LENGTH);
    const asker = new Asker(call);
    asker.ask();
    const came = new Uint8Array(bytesFrom(at, LENGTH));
    return { call, asker, came: Buffer.from(came.buffer) };
  });
  for (const { call, came } of all) call.take(came);
  const isKept = all.map(({ came }) => came.length > 0);
  expect([isKept.slice(0, 32), isKept.slice(32)]).toEqual([Array(32).fill(true), Array(8).fill(false)]);
  while (all.some(({ asker }) => asker.ends.length === 0)) await nextTurn();
  const wrong = all.filter(({ asker }, at) => !Buffer.concat(asker.pieces).equals(bytesFrom(at, LENGTH)));
  expect([wrong.length, new Set(all.map(({ asker }) => asker.ends.join()))]).toEqual([0, new Set(["done"])]);
});

type Happening = "ask" | "turn" | "abort" | "cancel" | "lost" | number;

const happenings = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom<Happening[]>(1, 7, 500, 70_000) },
    { weight: 4, arbitrary: fc.constantFrom<Happening[]>("ask", "turn") },
    { weight: 1, arbitrary: fc.constantFrom<Happening[]>("abort", "cancel", "lost") },
  ),
  { maxLength: 20 },
);

test("who asks is told of all that came in its order, and of one end, whatever happens", async () => {
  await fc.assert(
    fc.asyncProperty(happenings, async (happened) => {
      const length = 150_000;
      const { call, abort } = callOf(length);
      const asker = new Asker(call);
      let came = 0;
      let asked = false;
      let broken = false;
      for (const what of happened) {
        if (what === "turn") await nextTurn();
        else if (what === "ask") {
          if (!asked) asker.ask();
          asked = true;
        } else if (typeof what === "number") {
          const size = Math.min(what, length - came);
          if (size > 0 && !call.over) call.take(bytesFrom(came, size));
          came += size;
        } else {
          broken ||= !call.over;
          if (what === "abort") abort.abort("ended");
          else if (what === "cancel") call.cancel();
          else call.lost(new Error("closed"));
        }
      }
      if (!asked) asker.ask();
      if (!call.over) call.take(bytesFrom(came, length - came));
      for (let turn = 0; turn < 100 && asker.ends.length === 0; turn++) await nextTurn();
      await nextTurn();
      expect([asker.ends.length, asker.toldWithin, asker.deepest <= 1]).toEqual([1, 0, true]);
      const got = Buffer.concat(asker.pieces);
      expect(got.equals(bytesFrom(0, got.length))).toBe(true);
      expect(asker.ends[0] === "done").toBe(!broken);
      if (!broken) expect(got.length).toBe(length);
    }),
    { numRuns: 150 },
  );
});
