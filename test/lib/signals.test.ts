import { describe, expect, test } from "bun:test";
import { deadline, follow, sleep, until } from "../../src/lib/signals.ts";
import { manualClock } from "../support/clock.ts";

const never = () => new Promise<never>(() => {});
const reason = new Error("left");

describe("work until its signal is aborted", () => {
  test("comes to what it comes to", async () => {
    const { signal } = new AbortController();
    expect(await until(signal, async () => 7)).toBe(7);
    await expect(until(signal, () => Promise.reject(reason))).rejects.toBe(reason);
  });

  test("ends with the signal's reason, though it goes on unseen", async () => {
    const controller = new AbortController();
    const waiting = until(controller.signal, never);
    controller.abort(reason);
    await expect(waiting).rejects.toBe(reason);
  });

  test("is not begun when the signal was aborted before", async () => {
    let begun = false;
    const work = async () => {
      begun = true;
    };
    await expect(until(AbortSignal.abort(reason), work)).rejects.toBe(reason);
    expect(begun).toBe(false);
  });

  test("what it fails with later is nobody's unhandled rejection", async () => {
    const controller = new AbortController();
    const late = Promise.withResolvers<never>();
    const waiting = until(controller.signal, () => late.promise);
    controller.abort(reason);
    late.reject(new Error("too late"));
    await expect(waiting).rejects.toBe(reason);
  });
});

describe("a sleep", () => {
  test("lasts its time", async () => {
    const clock = manualClock();
    let over = false;
    void sleep(clock, 100, new AbortController().signal).then(() => {
      over = true;
    });
    await clock.advance(99);
    expect(over).toBe(false);
    await clock.advance(1);
    expect(over).toBe(true);
  });

  test.each(["before", "meanwhile"])("ends at once where its signal was aborted %s", async (when) => {
    const controller = new AbortController();
    if (when === "before") controller.abort(reason);
    const sleeping = sleep(manualClock(), 100, controller.signal);
    controller.abort(reason);
    await sleeping;
  });
});

describe("a signal of one's own", () => {
  test.each(["before", "later"])("ends with the outer one that is aborted %s", (when) => {
    const outer = new AbortController();
    if (when === "before") outer.abort(reason);
    const { controller } = follow(outer.signal);
    outer.abort(reason);
    expect(controller.signal.reason).toBe(reason);
  });

  test("does not end with an outer one that was let go of, nor end it", () => {
    const outer = new AbortController();
    const { controller, leave } = follow(outer.signal);
    leave();
    outer.abort(reason);
    expect(controller.signal.aborted).toBe(false);
    controller.abort();
    expect(outer.signal.reason).toBe(reason);
  });

  test("ends by itself after its time, unless it was ended before", async () => {
    const clock = manualClock();
    const kept = deadline(clock, 100, () => reason);
    const ended = deadline(clock, 100, () => reason);
    ended.end();
    await clock.advance(100);
    expect(kept.signal.reason).toBe(reason);
    expect(ended.signal.aborted).toBe(false);
  });
});
