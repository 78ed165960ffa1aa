import { expect, test } from "bun:test";
import { type Sink, SseFlow } from "../../src/http/sse.ts";
import { manualClock } from "../support/clock.ts";

test("a ping that finds the client gone is the last thing that is done for it", async () => {
  const clock = manualClock();
  const told: string[] = [];
  const chunks = {
    next: () => new Promise<never>(() => {}),
    return() {
      told.push("return");
      return Promise.resolve({ done: true as const, value: undefined });
    },
  };
  const sink: Sink = {
    send() {},
    ping() {
      told.push("ping");
      void flow.cancel();
    },
    end() {},
    fail() {},
    isFree: true,
  };
  const flow = new SseFlow({ headers: {}, chunks, ping: ": ping\n\n", clock, client: { close() {} } }, sink);
  flow.pull();
  await clock.advance(120_000);
  expect([told, clock.pending]).toEqual([["ping", "return"], 0]);
});
