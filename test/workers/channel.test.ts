import { describe, expect, test } from "bun:test";
import { GatewayError } from "../../src/canon/errors.ts";
import { RateLimited } from "../../src/limits/limiter.ts";
import { Channel, type Message } from "../../src/workers/channel.ts";
import { until } from "../support/wait.ts";

type Calls = {
  double(count: number): number;
  wait(told: null): string;
  fail(kind: string): null;
  nobody(told: null): null;
};
type Notes = { heard(text: string): void; broken(told: null): void };

const LIMITED = { limit: 60, remaining: 0, resetMs: 900, resetAt: 1_700_000_000_900 };

function refuse(kind: string): never {
  if (kind === "limited") throw new RateLimited("rate_limit_exceeded", "Too fast.", 0.9, LIMITED);
  if (kind === "vendor") throw new GatewayError("upstream_error", "It failed.", { cause: { type: "its_own_fault" } });
  if (kind === "quota") {
    throw new GatewayError("insufficient_quota", "No money.", {
      retry: false,
      extra: { affordable_output_tokens: 7 },
      param: "x",
    });
  }
  throw new TypeError("an inner thing with a secret path");
}

/** Two ends in one process; what crosses is JSON, as between two. */
function openPair() {
  const heard: string[] = [];
  const faults: unknown[] = [];
  const batches: number[] = [];
  const held = Promise.withResolvers<string>();
  const cross = (to: () => { receive(batch: readonly Message[]): void }) => (batch: readonly Message[]) => {
    batches.push(batch.length);
    to().receive(JSON.parse(JSON.stringify(batch)) as Message[]);
  };
  const answering = new Channel<Record<string, never>, Record<string, never>, Omit<Calls, "nobody">, Notes>({
    post: cross(() => asking),
    onFault: (thrown) => faults.push(thrown),
    answers: {
      double: (count) => count * 2,
      wait: () => held.promise,
      fail: (kind) => refuse(kind),
    },
    heard: {
      heard: (text) => void heard.push(text),
      broken: () => {
        throw new Error("a handler's own fault");
      },
    },
  });
  const asking: Channel<Calls, Notes, unknown, unknown> = new Channel<Calls, Notes, unknown, unknown>({
    post: cross(() => answering),
    onFault: (thrown) => faults.push(thrown),
    answers: {},
    heard: {},
  });
  return { asking, answering, heard, faults, batches, held };
}

const caught = (promise: Promise<unknown>) =>
  promise.then(
    () => {
      throw new Error("it was answered");
    },
    (thrown: unknown) => thrown,
  );

describe("calls and notes between two processes", () => {
  test("everything of one turn crosses at once, in its order, and every call gets its own answer", async () => {
    const { asking, heard, batches } = openPair();
    asking.note("heard", "first");
    const answers = Promise.all([3, 1, 2].map((count) => asking.call("double", count)));
    asking.note("heard", "second");
    expect(await answers).toEqual([6, 2, 4]);
    expect(heard).toEqual(["first", "second"]);
    // One batch of five there, and one of three back.
    expect(batches).toEqual([5, 3]);
  });

  test("a slow answer holds up nobody", async () => {
    const { asking, held } = openPair();
    const slow = asking.call("wait", null);
    expect(await asking.call("double", 4)).toBe(8);
    held.resolve("at last");
    expect(await slow).toBe("at last");
  });

  test("errors cross as what a client is told, and nothing more of what lies behind", async () => {
    const { asking } = openPair();
    const limited = await caught(asking.call("fail", "limited"));
    expect(limited).toBeInstanceOf(RateLimited);
    expect(limited).toMatchObject({
      code: "rate_limit_exceeded",
      message: "Too fast.",
      retryAfterSeconds: 0.9,
      state: LIMITED,
    });
    const quota = await caught(asking.call("fail", "quota"));
    expect(quota).toBeInstanceOf(GatewayError);
    expect(quota).toMatchObject({
      code: "insufficient_quota",
      retry: false,
      param: "x",
      extra: { affordable_output_tokens: 7 },
    });
    const inner = (await caught(asking.call("fail", "other"))) as GatewayError;
    expect(inner.code).toBe("internal_error");
    expect(inner.message).not.toContain("secret");
    expect(String(inner.cause)).toContain("an inner thing");
    const vendors = (await caught(asking.call("fail", "vendor"))) as GatewayError;
    expect(String(vendors.cause)).toContain("its_own_fault");
    expect(await caught(asking.call("nobody", null))).toMatchObject({ code: "internal_error" });
  });

  test("a note whose handler throws is told to its own side, and the next one is heard", async () => {
    const { asking, heard, faults } = openPair();
    asking.note("broken", null);
    asking.note("heard", "after");
    await until(() => heard.length === 1, "the second note");
    expect(faults.map(String)).toEqual(["Error: a handler's own fault"]);
  });

  test("when the other side is gone whoever waits is told, and nothing is sent any more", async () => {
    const { asking, heard, batches, held } = openPair();
    const waiting = asking.call("wait", null);
    expect(await asking.call("double", 1)).toBe(2);
    asking.close(new Error("gone"));
    expect(String(await caught(waiting))).toBe("Error: gone");
    expect(String(await caught(asking.call("double", 1)))).toBe("Error: gone");
    const before = batches.length;
    asking.note("heard", "never");
    held.resolve("too late");
    await new Promise((resolve) => setImmediate(resolve));
    expect(heard).toEqual([]);
    // The late answer alone.
    expect(batches.length - before).toBeLessThanOrEqual(1);
  });
});
