import { expect, test } from "bun:test";
import { Alarms } from "../../src/lib/alarms.ts";
import { until } from "../support/wait.ts";

/** Alarms on a clock that can be turned on, as one goes on while the process stands still. */
function setUp() {
  let stoodMs = 0;
  const alarms = new Alarms(() => performance.now() + stoodMs);
  return {
    alarms,
    standStill: (ms: number) => {
      stoodMs += ms;
    },
  };
}

test("after the process stood still, what came meanwhile takes its waits back before anybody is woken", async () => {
  const { alarms, standStill } = setUp();
  const woken: string[] = [];
  const silence = alarms.after(20, () => woken.push("silence"));
  alarms.after(25, () => woken.push("nothing came"));
  standStill(100_000);
  await Bun.sleep(100);
  expect(woken).toEqual([]);
  // Read from a socket in the first turn of the event loop.
  silence();
  // What is set now is not told before the grace is over either, and is not lost.
  alarms.after(1, () => woken.push("new"));
  await until(() => woken.length === 2, "the others");
  expect(woken).toEqual(["nothing came", "new"]);
  // And so the next time.
  alarms.after(20, () => woken.push("later"));
  standStill(100_000);
  await Bun.sleep(100);
  expect(woken).toHaveLength(2);
  await until(() => woken.length === 3, "the last one");
});

test("a timer that is a little late is only late", async () => {
  let now = 0;
  const alarms = new Alarms(() => now);
  const { promise, resolve } = Promise.withResolvers<string>();
  alarms.after(20, () => resolve("only late"));
  now = 2_000;
  // Timers ring in their order, however busy the machine is.
  setTimeout(() => resolve("granted a grace"), 400);
  expect(await promise).toBe("only late");
});
