import { afterEach, beforeEach, expect, test } from "bun:test";
import { DrawingThread } from "../../src/vendors/builtin/canvas-thread.ts";
import { manualClock } from "../support/clock.ts";

/** A thread whose picture is finished, and which ends, when the test says so. */
class Puppet extends EventTarget {
  static readonly made: Puppet[] = [];
  ended = false;
  constructor() {
    super();
    Puppet.made.push(this);
  }
  postMessage(): void {}
  terminate(): void {
    this.ended = true;
  }
  finish(): void {
    if (!this.ended) this.dispatchEvent(new MessageEvent("message", { data: { png: new Uint8Array(1) } }));
  }
}

const { Worker: kept } = globalThis;
beforeEach(() => {
  Puppet.made.length = 0;
  globalThis.Worker = Puppet as unknown as typeof Worker;
});
afterEach(() => {
  globalThis.Worker = kept;
});

const at = (index: number) => Puppet.made[index] as Puppet;

test("a drawing thread that dies at rest leaves nothing behind that ends the next one in the middle of a picture", async () => {
  const clock = manualClock();
  const thread = new DrawingThread(clock);
  const draw = () => thread.draw({ kind: "sketch", prompt: "a gate", ratio: "1:1" }, new AbortController().signal);
  const first = draw();
  at(0).finish();
  await first;
  await clock.advance(10_000);
  at(0).dispatchEvent(new Event("close"));
  await clock.advance(19_000);
  const second = draw();
  // The time at which the first thread would have been ended.
  await clock.advance(2_000);
  expect([Puppet.made.length, at(1).ended]).toEqual([2, false]);
  at(1).finish();
  expect(await second).toEqual({ png: new Uint8Array(1) });
  await clock.advance(30_000);
  expect(at(1).ended).toBe(true);
  expect(clock.pending).toBe(0);
});
