import { describe, expect, test } from "bun:test";
import { Abort } from "../../src/lib/abort.ts";

/** Notes the reasons it is told. */
const listener = () => {
  const told: unknown[] = [];
  return { told, onAbort: (reason: unknown) => void told.push(reason) };
};

describe("an abort", () => {
  test("tells everybody who is there once, and its signal, with the first reason", () => {
    const abort = new Abort();
    const [first, second, gone] = [listener(), listener(), listener()];
    for (const one of [first, gone, second]) abort.add(one);
    abort.delete(gone);
    const { signal } = abort;
    abort.abort("because");
    abort.abort("again");
    expect([first.told, second.told, gone.told]).toEqual([["because"], ["because"], []]);
    expect([abort.aborted, abort.reason, signal.aborted, signal.reason]).toEqual([true, "because", true, "because"]);
    expect(() => abort.throwIfAborted()).toThrow("because");
  });

  test("the first listener may leave and another take its place", () => {
    const abort = new Abort();
    const [first, second, third] = [listener(), listener(), listener()];
    abort.add(first);
    abort.add(second);
    abort.delete(first);
    abort.add(third);
    abort.abort(1);
    expect([first.told, second.told, third.told]).toEqual([[], [1], [1]]);
  });

  test("a signal asked for afterwards is aborted already; one that is followed passes its reason on", () => {
    const abort = new Abort();
    abort.abort("late");
    expect([abort.signal.aborted, abort.signal.reason]).toEqual([true, "late"]);
    const controller = new AbortController();
    const following = Abort.of(controller.signal);
    expect(following.aborted).toBe(false);
    controller.abort("theirs");
    expect([following.aborted, following.reason]).toEqual([true, "theirs"]);
    expect(Abort.of(AbortSignal.abort("before")).reason).toBe("before");
  });
});
