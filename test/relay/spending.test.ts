import { describe, expect, test } from "bun:test";
import type { Event } from "../../src/canon/events.ts";
import type { Hold, Reading } from "../../src/ledger/ledger.ts";
import { Spending } from "../../src/relay/spending.ts";

const SERVER = { vendor: "lab", upstreamModel: "m" };
const told = (output: number): Event => ({
  type: "usage",
  usage: { input: 1, cacheRead: 0, cacheWrite: 0, output, reasoning: 0 },
});
/** That there is text goes before what was counted of it. */
const text = (output: number): Event[] => [{ type: "block-delta", text: "a" }, told(output), { type: "block-end" }];
/** A hundred letters, which are counted as 25 tokens, with no word of the vendor's. */
const words = (times: number): Event[] =>
  Array.from({ length: times }, () => ({ type: "block-delta", text: "word ".repeat(20) }));

/** A hold that grows by 100 tokens each time it is granted more; `grants` says whether, in turn, the last one from then on. */
function watch(...grants: (boolean | Promise<boolean>)[]) {
  const asked: Reading[] = [];
  const hold = {
    growAt: 100,
    extend(reading: Reading) {
      asked.push(reading);
      const granted = grants[Math.min(asked.length, grants.length) - 1] ?? true;
      const grow = (more: boolean) => {
        if (more) hold.growAt += 100;
        return more;
      };
      return granted instanceof Promise ? granted.then(grow) : grow(granted);
    },
  };
  const spending = new Spending(hold as unknown as Hold, "lab/m", SERVER);
  return { spending, asked: () => asked.map(({ output }) => output), readings: asked };
}

describe("what a reply under way costs", () => {
  test("is asked for once it is beyond what is paid, and with the next slice not again", () => {
    const { spending, asked, readings } = watch();
    spending.take(text(100));
    expect(asked()).toEqual([]);
    spending.take(text(100.5));
    expect(readings).toEqual([{ ...SERVER, output: 101 }]);
    spending.take(text(200));
    spending.take(text(150));
    expect([asked(), spending.exhausted]).toEqual([[101], false]);
  });

  test("is the larger of the gateway's own estimates where its vendor tells nothing, of all its text", () => {
    const { spending, asked } = watch();
    spending.take(words(4));
    expect(asked()).toEqual([]);
    spending.take(words(1));
    expect(asked()).toEqual([125]);
    const other = watch();
    other.spending.take([{ type: "block-delta", text: "7;{".repeat(100) }]);
    expect(Math.max(...other.asked())).toBeGreaterThan(100);
  });

  test("one step that brought several slices asks for all of them", () => {
    const { spending, asked } = watch();
    spending.take(text(300));
    expect(asked()).toEqual([300, 300]);
  });

  test("where there is no more money the reply is to be ended, and nothing more is asked", () => {
    const { spending, asked } = watch(true, false);
    spending.take(text(350));
    expect([spending.exhausted, asked()]).toEqual([true, [350, 350]]);
    spending.take(text(400));
    expect(asked()).toEqual([350, 350]);
  });

  test("counts that come at the end, without text, end nothing", () => {
    const { spending, readings } = watch(false);
    spending.take([told(350)]);
    expect([spending.exhausted, readings]).toEqual([false, [{ ...SERVER, output: 350, ended: true }]]);
  });

  test.each([
    ["here", true],
    ["in another process", Promise.resolve(true)],
  ])("they ask once for all they come to, %s; what comes behind them is watched", async (_where, granted) => {
    const { spending, asked, readings } = watch(granted, true);
    spending.take([told(350)]);
    await spending.asked;
    expect(asked()).toEqual([350]);
    spending.take(text(360));
    expect(readings.slice(1)).toEqual([
      { ...SERVER, output: 360 },
      { ...SERVER, output: 360 },
    ]);
  });

  test("goes on with the next round, of which all is counted anew", () => {
    const { spending, asked } = watch();
    spending.take(words(3));
    spending.nextRound();
    spending.take(words(1));
    expect(asked()).toEqual([]);
    spending.take(text(26));
    expect(asked()).toEqual([101]);
  });

  test("is never less than it was, whatever the vendor tells later", () => {
    const { spending, asked } = watch();
    spending.take(text(90));
    spending.take(text(10));
    spending.nextRound();
    spending.take(text(11));
    expect(asked()).toEqual([101]);
  });

  test("begins anew after an attempt that failed, and so do the rounds after it", () => {
    const { spending, asked } = watch();
    spending.take(words(3));
    spending.nextRound();
    spending.forget();
    spending.nextRound();
    spending.take(words(4));
    expect(asked()).toEqual([]);
    spending.nextRound();
    spending.forget();
    spending.take(words(4));
    expect(asked()).toEqual([]);
    spending.take(text(101));
    expect(asked()).toEqual([101]);
  });

  test.each([true, false])("asked for in another process, which says %p: nothing is asked beside it", async (more) => {
    const answer = Promise.withResolvers<boolean>();
    const { spending, asked } = watch(answer.promise, Promise.resolve(true), true);
    spending.take(text(150));
    const { asked: waiting } = spending;
    expect(waiting).toBeInstanceOf(Promise);
    // What comes meanwhile needs two slices more.
    spending.take(text(350));
    expect([asked(), spending.exhausted]).toEqual([[150], false]);
    answer.resolve(more);
    // All of it: what came meanwhile is asked for too.
    await waiting;
    expect([spending.asked, spending.exhausted]).toEqual([undefined, !more]);
    expect(asked()).toEqual(more ? [150, 350, 350] : [150]);
  });
});
