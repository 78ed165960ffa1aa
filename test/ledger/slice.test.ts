import { describe, expect, test } from "bun:test";
import { createPlans, planOf } from "../../src/accounts/plans.ts";
import { toEntry } from "../../src/catalog/rows.ts";
import { clampUsage } from "../../src/ledger/settler.ts";
import {
  ceilingOf,
  firstSlice,
  growAt,
  loosen,
  nextSlice,
  type SliceWish,
  sliceCost,
  withCall,
} from "../../src/ledger/slice.ts";
import { JsonText } from "../../src/lib/json-text.ts";
import { paymentOf, pricesOf } from "../../src/relay/payment.ts";
import { PAYMENT, PRICES } from "./books.ts";

const RICH = 10_000_000_000_000n;
const base: SliceWish = { prices: PRICES.prices, payment: PAYMENT, estimatedInput: 2_000, maxOutputTokens: undefined };
const first = (wish: SliceWish, money = RICH) => {
  const slice = firstSlice(wish, money);
  if ("affordableOutput" in slice) throw new Error(`refused: ${slice.affordableOutput}`);
  return slice;
};

describe("slices (contract 5, reliability 3.5)", () => {
  test("a large ceiling does not lock a small wallet out", () => {
    const slice = first({ ...base, maxOutputTokens: 64_000 });
    // 2,200 tokens of input and 4,096 of output.
    expect(slice).toEqual({ output: 4_096, nano: 2_200n * 3_000n + 4_096n * 15_000n });
    expect(growAt({ ...base, maxOutputTokens: 64_000 }, slice)).toBe(4_096 - 512);
  });

  test("a prompt that may be written to the cache for an hour is held at that price, any other at the usual one", () => {
    const prices = { ...PRICES.prices, cacheWrite: 3_750_000n, cacheWriteLong: 6_000_000n };
    const wish = { ...base, prices, maxOutputTokens: 1_000 };
    expect(first(wish).nano).toBe(2_200n * 3_750n + 1_000n * 15_000n);
    expect(first({ ...wish, payment: { ...PAYMENT, cachesLong: true } }).nano).toBe(2_200n * 6_000n + 1_000n * 15_000n);
  });

  test("a prompt that may be beyond a tier's edge is held at the tier's price, one that is well below it is not", () => {
    const prices = { ...PRICES.prices, tiers: [{ above: 2_100, input: 6_000_000n, output: 30_000_000n }] };
    const wish = { ...base, prices, maxOutputTokens: 1_000 };
    expect(first(wish).nano).toBe(2_200n * 6_000n + 1_000n * 30_000n);
    expect(firstSlice(wish, first(wish).nano - 1n)).toMatchObject({ output: 999 });
    expect(first({ ...wish, estimatedInput: 1_900 }).nano).toBe(2_090n * 3_000n + 1_000n * 15_000n);
  });

  test("a 64,000-token answer grows five times", () => {
    const wish = { ...base, maxOutputTokens: 64_000 };
    let slice = first(wish);
    let grown = slice.output;
    const reached: number[] = [];
    while (growAt(wish, slice) < Number.POSITIVE_INFINITY) {
      const next = nextSlice(wish, slice, grown, RICH);
      if (!next) throw new Error("refused");
      grown = next.output - slice.output;
      slice = next;
      reached.push(slice.output);
    }
    expect(reached).toEqual([12_288, 28_672, 45_056, 61_440, 64_000]);
    expect(slice.nano).toBe(sliceCost(wish, 64_000));
  });

  test("what is left is granted where it is worth beginning; the last of it is used up too", () => {
    const wish = { ...base, maxOutputTokens: 64_000 };
    expect(first(wish, sliceCost(wish, 256)).output).toBe(256);
    expect(firstSlice(wish, sliceCost(wish, 256) - 1n)).toEqual({ affordableOutput: 255 });
    expect(firstSlice(wish, 0n)).toEqual({ affordableOutput: 0 });
    const slice = first(wish, sliceCost(wish, 300));
    expect(growAt(wish, slice)).toBe(300 - 37);
    expect(nextSlice(wish, slice, 300, sliceCost(wish, 350) - slice.nano)?.output).toBe(350);
    expect(nextSlice(wish, slice, 300, 0n)).toBeUndefined();
    // What has ended wants what it came to, and nothing where that is paid by now.
    expect(nextSlice(wish, slice, 300, RICH, 310)?.output).toBe(310);
    expect(nextSlice(wish, slice, 300, RICH, 300)).toBeUndefined();
    // Nobody asked for 256.
    const short = { ...base, maxOutputTokens: 10 };
    expect(first(short, sliceCost(short, 10)).output).toBe(10);
    expect(firstSlice(short, sliceCost(short, 10) - 1n)).toEqual({ affordableOutput: 9 });
  });

  test("where output costs nothing the input alone decides", () => {
    const free = { ...base, prices: { ...PRICES.prices, output: 0n }, maxOutputTokens: 64_000 };
    expect(first(free, 2_200n * 3_000n)).toEqual({ output: 4_096, nano: 2_200n * 3_000n });
    expect(firstSlice(free, 2_200n * 3_000n - 1n)).toEqual({ affordableOutput: 0 });
  });

  test("the next slice is asked for 512 tokens before the end of one, however large, and may go as far as all calls together", () => {
    const payment = { ...PAYMENT, maxOutputTokens: 8_192 };
    const thrice = withCall(withCall({ ...base, payment }));
    expect(growAt(thrice, { output: 20_480, nano: 0n })).toBe(20_480 - 512);
    expect(growAt(thrice, { output: 3 * 8_192, nano: 0n })).toBe(Number.POSITIVE_INFINITY);
  });

  test("a reply that cannot be ended is held whole, and its vendor is told", () => {
    const blocking = { ...base, payment: { ...PAYMENT, sliced: false } };
    expect(first({ ...blocking, maxOutputTokens: 64_000 }).output).toBe(64_000);
    expect(ceilingOf({ ...blocking, maxOutputTokens: 64_000 }, { output: 64_000, nano: 0n })).toBeUndefined();
    expect(ceilingOf({ ...blocking, maxOutputTokens: 64_000 }, { output: 900, nano: 0n })).toBe(900);
    expect(first(blocking).output).toBe(16_384);
    expect(ceilingOf(blocking, first(blocking))).toBe(16_384);
    expect(growAt(blocking, first(blocking))).toBe(Number.POSITIVE_INFINITY);
    expect(first({ ...blocking, payment: { ...blocking.payment, maxOutputTokens: 8_192 } }).output).toBe(8_192);
  });

  test("hidden reasoning is held by its effort beside a slice, within what was asked for", () => {
    const hidden = { ...base, payment: { ...PAYMENT, unseenOutput: 16_384 } };
    expect(first(hidden).output).toBe(16_384 + 4_096);
    expect(ceilingOf(hidden, first(hidden))).toBe(20_480);
    expect(first({ ...hidden, maxOutputTokens: 5_000 }).output).toBe(5_000);
    expect(growAt(hidden, first(hidden))).toBe(Number.POSITIVE_INFINITY);
  });

  test("long prompts are held at their own price, and all input at its dearest", () => {
    const tiers = [{ above: 1_000, input: 6_000_000n, output: 30_000_000n }];
    const wish = { ...base, prices: { ...PRICES.prices, cacheWrite: 3_750_000n, tiers } };
    expect(sliceCost(wish, 10)).toBe(2_200n * 6_000n + 10n * 30_000n);
    expect(sliceCost({ ...wish, estimatedInput: 900 }, 10)).toBe(990n * 3_750n + 10n * 15_000n);
  });
});

describe("a blocking reply that may be collected from a stream", () => {
  const payment = { ...PAYMENT, sliced: false, collectable: true };
  const blocking: SliceWish = { ...base, payment, maxOutputTokens: 64_000 };
  const unnamed: SliceWish = { ...base, payment };
  const cost = (output: number) => sliceCost(base, output);
  test.each([
    ["a quarter of the money pays for the whole", blocking, 4n * cost(64_000), false],
    ["it would take more than a quarter", blocking, 4n * cost(64_000) - 1n, true],
    ["the money pays for a slice", blocking, cost(4_096), true],
    ["the money pays for less than a slice: the vendor is told", blocking, cost(4_096) - 1n, false],
    ["no more than a slice was asked for", { ...blocking, maxOutputTokens: 4_096 }, cost(4_096), false],
    ["a token more than a slice was asked for", { ...blocking, maxOutputTokens: 4_097 }, cost(4_096), true],
    ["nobody named a ceiling, a quarter pays for the usual one", unnamed, 4n * cost(16_384), false],
    ["nobody named a ceiling, a quarter does not pay for it", unnamed, 4n * cost(16_384) - 1n, true],
    ["its vendor cannot stream it", { ...blocking, payment: { ...payment, collectable: false } }, cost(4_096), false],
    ["it thinks unseen", { ...blocking, payment: { ...payment, unseenOutput: 1 } }, cost(8_192), false],
  ])("%s", (_what, wish, money, sliced) => {
    expect(loosen(wish, money)).toEqual({ ...wish, payment: { ...wish.payment, sliced } });
  });
});

describe("several replies at once", () => {
  const wish = { ...base, choices: 3 };
  test("are held whole, each up to its ceiling, since only the first is read", () => {
    expect(first({ ...wish, maxOutputTokens: 1_000 }).output).toBe(3_000);
    expect(growAt({ ...wish, maxOutputTokens: 64_000 }, { output: 4_096, nano: 0n })).toBe(Number.POSITIVE_INFINITY);
    expect(first(wish).output).toBe(3 * 16_384);
  });

  test("are not begun below 256 tokens of each, and each is told its part", () => {
    const asked = { ...wish, maxOutputTokens: 1_000 };
    expect(firstSlice(asked, sliceCost(asked, 768) - 1n)).toEqual({ affordableOutput: 767 });
    const slice = first(asked, sliceCost(asked, 770));
    expect([slice.output, ceilingOf(asked, slice)]).toEqual([770, 256]);
    expect(ceilingOf(asked, { output: 3_000, nano: 0n })).toBeUndefined();
    expect(ceilingOf(asked, { output: 2_999, nano: 0n })).toBe(999);
  });

  test("are believed as many tokens as were told for all of them, a twentieth or a few of each beyond", () => {
    const settling = { ceiling: 100, wish: { ...wish, maxOutputTokens: 1_000 } };
    const said = { input: 1, cacheRead: 0, cacheWrite: 0, output: 500, reasoning: 0 };
    expect(clampUsage(said, settling)).toEqual({ usage: { ...said, output: 348 }, suspect: true });
    expect(clampUsage(said, { ...settling, ceiling: undefined })).toEqual({ usage: said, suspect: false });
  });
});

describe("counts that cannot be (reliability 3.1 rule 6)", () => {
  const usage = { input: 100, cacheRead: 50, cacheWrite: 20, output: 105, reasoning: 80 };
  test("output up to a twentieth above the ceiling, and a few tokens", () => {
    const wish = { ...base, maxOutputTokens: 1_000 };
    const clamp = (output: number) => clampUsage({ ...usage, output, reasoning: output }, { ceiling: undefined, wish });
    expect(clamp(1_050)).toEqual({ usage: { ...usage, output: 1_050, reasoning: 1_050 }, suspect: false });
    expect(clamp(1_051)).toEqual({ usage: { ...usage, output: 1_050, reasoning: 1_050 }, suspect: true });
    expect(clampUsage({ ...usage, output: 500 }, { ceiling: 100, wish }).usage.output).toBe(116);
  });

  test("of the calls that a vendor made on top, whatever its window allows: they were not asked for", () => {
    const rounds = [usage, { ...usage, output: 3_500, reasoning: 0 }];
    const sum = { input: 200, cacheRead: 100, cacheWrite: 40, output: 3_605, reasoning: 80 };
    const settling = { ceiling: undefined, wish: { ...base, maxOutputTokens: 105 } };
    expect(clampUsage(sum, settling, { rounds, apart: 1 })).toEqual({ usage: sum, rounds, suspect: false });
    expect(clampUsage(sum, settling, { rounds })).toMatchObject({ usage: { output: 121 }, suspect: true });
  });

  test.each([
    ["both within what was asked for", [50, 50], [50, 50], false],
    ["the second beyond what the first has left", [100, 100], [100, 21], true],
    ["the second after one that took all and a few", [121, 16], [121, 16], false],
    ["the first beyond, the second within", [500, 1], [121, 1], true],
  ])("of calls that were asked for together: %s", (_what, said, believed, suspect) => {
    const rounds = (outputs: number[]) => outputs.map((output) => ({ ...usage, output, reasoning: 0 }));
    const settling = { ceiling: undefined, wish: { ...base, maxOutputTokens: 105 } };
    expect(clampUsage(usage, settling, { rounds: rounds(said) })).toMatchObject({ rounds: rounds(believed), suspect });
  });

  test("of several replies, as much as the window holds for each", () => {
    const wish = { ...base, payment: { ...PAYMENT, contextLength: 1_000 }, choices: 3 };
    const clamp = (output: number) => clampUsage({ ...usage, output }, { ceiling: undefined, wish });
    expect(clamp(3_150)).toMatchObject({ usage: { output: 3_150 }, suspect: false });
    expect(clamp(3_151)).toMatchObject({ usage: { output: 3_150 }, suspect: true });
  });

  test("where nobody has told the window, up to twice a million, or twice what the prompt comes to by the gateway's own count", () => {
    const clamp = (input: number, estimatedInput: number) =>
      clampUsage(
        { input, cacheRead: 0, cacheWrite: 0, output: 1, reasoning: 0 },
        { ceiling: undefined, wish: { ...base, estimatedInput } },
      );
    expect(clamp(2_000_000, 60)).toMatchObject({ usage: { input: 2_000_000 }, suspect: false });
    expect(clamp(100_000_000, 60)).toMatchObject({ usage: { input: 2_000_000, output: 1 }, suspect: true });
    expect(clamp(6_000_000, 3_000_000)).toMatchObject({ usage: { input: 6_000_000 }, suspect: false });
    const endless = { ...usage, output: 100_000_000 };
    expect(clampUsage(endless, { ceiling: undefined, wish: base }).usage.output).toBe(1_050_000);
  });

  test.each([
    ["what is fresh is cut last", { cacheRead: 50, cacheWrite: 20, input: 100 }, { input: 30 }],
    [
      "what is read is cut as well",
      { cacheRead: 150, cacheWrite: 20, input: 30 },
      { cacheRead: 100, cacheWrite: 0, input: 0 },
    ],
    ["what is written is cut before that", { cacheRead: 60, cacheWrite: 60, input: 30 }, { cacheWrite: 40, input: 0 }],
  ])("input up to twice the model's window, cached first: %s", (_what, said, believed) => {
    const wish = { ...base, payment: { ...PAYMENT, contextLength: 50 } };
    const counts = { ...said, output: 9, reasoning: 3 };
    expect(clampUsage(counts, { ceiling: undefined, wish })).toEqual({
      usage: { ...counts, ...believed },
      suspect: true,
    });
  });
});

describe("what a request means to a plan that pays", () => {
  const plans = createPlans({ team: { spending_window_usd: 0.25 } });
  const intent = { model: "a/b", stream: true, reasoning: { kind: "omitted" }, wantsUsage: true } as const;
  const levels = { levels: ["low", "medium", "high", "xhigh"], default: "high" };
  const thinker = (form: "effort" | "enable-thinking") =>
    toEntry({ id: "a/b", reasoning_efforts: levels, reasoning: { form, always_reasons: true } }, true);
  const pay = (entry: ReturnType<typeof toEntry>, reasoning: unknown = { kind: "omitted" }, plan = "pro") =>
    paymentOf(planOf(plans, plan), entry, { ...intent, reasoning } as never, new JsonText("{}"));

  test("nothing to plan local", () => {
    expect(pay(thinker("effort"), undefined, "local")).toBeUndefined();
  });

  test.each([
    ["low", 4_096],
    ["medium", 8_192],
    ["high", 16_384],
    ["xhigh", 32_768],
    ["max", 32_768],
  ])("hidden reasoning at %s: %d tokens", (effort, tokens) => {
    expect(pay(thinker("effort"), { kind: "effort", effort })?.unseenOutput).toBe(tokens);
  });

  test("open reasoning, switched-off reasoning and none at all are seen or nothing", () => {
    expect(pay(thinker("enable-thinking"), { kind: "effort", effort: "high" })?.unseenOutput).toBe(0);
    const optional = toEntry({ id: "a/b", reasoning_efforts: levels, reasoning: { form: "budget" } }, true);
    expect(pay(optional, { kind: "off" })?.unseenOutput).toBe(0);
    expect(pay(optional, { kind: "budget", tokens: 9_000 })?.unseenOutput).toBe(9_000);
    expect(pay(toEntry({ id: "a/b" }, true))?.unseenOutput).toBe(0);
  });

  test("its window, its tier and the model's bounds", () => {
    const entry = toEntry({ id: "a/b", access_tier: "premium", max_output_tokens: 8_000, context_length: 9_000 }, true);
    expect(pay(entry)).toEqual({
      ...{ windowNano: 2_000_000_000n, premium: true, sliced: true, collectable: false, unseenOutput: 0 },
      ...{ maxOutputTokens: 8_000, contextLength: 9_000 },
    });
    expect(pay(entry, undefined, "team")?.windowNano).toBe(250_000_000n);
  });

  test("prices of a row, with its tiers; none where they are not by the token or not whole", () => {
    const tiers = [{ input_tokens_above: 5, input: 2, output: 4, cache_read: 0.1 }];
    const priced = toEntry({ id: "a/b", pricing: { input: 1, output: 2, cache_read: 0.05, tiers } }, true);
    expect(pricesOf(priced)).toEqual({
      model: "a/b",
      prices: {
        ...{ input: 1_000_000n, output: 2_000_000n, cacheRead: 50_000n },
        tiers: [{ above: 5, input: 2_000_000n, output: 4_000_000n, cacheRead: 100_000n }],
      },
    });
    expect(pricesOf(priced)).toBe(pricesOf(priced) as never);
    expect(pricesOf(toEntry({ id: "a/b", pricing: "free" }, true))?.prices).toEqual({ input: 0n, output: 0n });
    expect(pricesOf(toEntry({ id: "a/b" }, true))).toBeUndefined();
    expect(pricesOf(toEntry({ id: "a/b", pricing: { input: 1 } }, true))).toBeUndefined();
    expect(
      pricesOf(toEntry({ id: "a/b", pricing: { input: 1, output: 1, unit: "per_audio_hour" } }, true)),
    ).toBeUndefined();
  });
});
