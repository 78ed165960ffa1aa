import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { NO_USAGE } from "../../src/canon/usage.ts";
import { costNano, costPico, dearestInput, isFree, type Prices, toMicroPrice } from "../../src/ledger/price.ts";

const sonnet = { input: 3_000_000n, cacheRead: 300_000n, cacheWrite: 3_750_000n, output: 15_000_000n };

describe("the worked numbers of reliability 3.1", () => {
  test("A: a normal request; reasoning is inside the output", () => {
    const usage = { input: 234, cacheRead: 1_000, cacheWrite: 0, output: 567, reasoning: 200 };
    expect(costPico(usage, sonnet)).toBe(9_507_000_000n);
    expect(costNano(usage, sonnet)).toBe(9_507_000n);
    expect(costNano({ ...usage, reasoning: 0 }, sonnet)).toBe(9_507_000n);
  });

  test("B: small enough that micro-USD would bill 72 % too much", () => {
    const prices = { input: 50_000n, output: 80_000n };
    expect(costPico({ ...NO_USAGE, input: 10, output: 1 }, prices)).toBe(580_000n);
    expect(costNano({ ...NO_USAGE, input: 10, output: 1 }, prices)).toBe(580n);
  });

  test("C: the one rounding, up", () => {
    expect(costPico({ ...NO_USAGE, input: 3 }, { input: 12_500n, output: 0n })).toBe(37_500n);
    expect(costNano({ ...NO_USAGE, input: 3 }, { input: 12_500n, output: 0n })).toBe(38n);
  });

  test("D: the worst case of a request, and its first slice", () => {
    expect(costNano({ ...NO_USAGE, input: 2_000, output: 64_000 }, sonnet)).toBe(966_000_000n);
    expect(costNano({ ...NO_USAGE, input: 2_000, output: 4_096 }, sonnet)).toBe(67_440_000n);
  });

  test("E: a million tokens at 0.3 are exactly 0.3 USD, where the sum of floats is not", () => {
    let float = 0;
    for (let token = 0; token < 1_000_000; token++) float += 0.0000003;
    expect(float).not.toBe(0.3);
    expect(costNano({ ...NO_USAGE, output: 1_000_000 }, { input: 0n, output: toMicroPrice(0.3) })).toBe(300_000_000n);
  });

  test("F: two million tokens at 600 USD", () => {
    const prices = { input: toMicroPrice(600), output: 0n };
    expect(costPico({ ...NO_USAGE, input: 2_000_000 }, prices)).toBe(1_200_000_000_000_000n);
    expect(costNano({ ...NO_USAGE, input: 2_000_000 }, prices)).toBe(1_200_000_000_000n);
  });

  test("the worked abort of reliability 3.6", () => {
    expect(costNano({ input: 234, cacheRead: 1_000, cacheWrite: 0, output: 1_200, reasoning: 0 }, sonnet)).toBe(
      19_002_000n,
    );
  });
});

describe("prices", () => {
  test("cache tokens cost as input where the row says nothing else", () => {
    const usage = { ...NO_USAGE, cacheRead: 7, cacheWrite: 5 };
    expect(costPico(usage, { input: 1_000n, output: 0n })).toBe(12_000n);
    const own = { input: 1_000n, output: 0n, cacheRead: 100n, cacheWrite: 1_250n };
    expect(costPico(usage, own)).toBe(6_950n);
    expect(costPico({ ...NO_USAGE, cacheRead: 1, cacheWrite: 1 }, own)).toBe(1_350n);
    const hours = { ...usage, cacheWriteLong: 2 };
    expect(costPico(hours, own)).toBe(6_950n);
    expect(costPico(hours, { ...own, cacheWriteLong: 2_000n })).toBe(700n + 3n * 1_250n + 2n * 2_000n);
  });

  test.each([
    ["as long as the step", { input: 150, cacheRead: 40, cacheWrite: 10 }, 150n + 40n + 10n],
    ["longer by a token from the cache", { input: 150, cacheRead: 41, cacheWrite: 10 }, 2n * (150n + 41n + 10n)],
    ["of the next step's length", { input: 0, cacheRead: 0, cacheWrite: 900 }, 2n * 900n],
    ["longer than both steps", { input: 901, cacheRead: 0, cacheWrite: 0 }, 3n * 901n],
  ])("a prompt %s: what holds for its length holds for all of it", (_name, prompt, units) => {
    const tiers = [2n, 3n].map((times, at) => ({ above: at === 0 ? 200 : 900, input: times * 1_000n, output: 0n }));
    expect(costNano({ ...NO_USAGE, ...prompt }, { input: 1_000n, output: 0n, tiers })).toBe(units);
  });

  test.each<[string, Partial<Prices>, boolean]>([
    ["nothing", {}, true],
    ["the prompt", { input: 1n }, false],
    ["the reply", { output: 1n }, false],
    ["what comes from the cache", { cacheRead: 1n }, false],
    ["what is written to it", { cacheWrite: 1n }, false],
    ["what is written for an hour", { cacheWriteLong: 1n }, false],
    ["long prompts", { tiers: [{ above: 9, input: 1n, output: 0n }] }, false],
    ["replies to long prompts", { tiers: [{ above: 9, input: 0n, output: 1n }] }, false],
    ["nothing of long ones either", { tiers: [{ above: 9, input: 0n, output: 0n }] }, true],
  ])("a model that takes money for %s: whether it is free", (_name, prices, free) => {
    expect(isFree({ input: 0n, output: 0n, ...prices })).toBe(free);
  });

  test("money is set aside for the dearest that a token of the prompt may become, for an hour only where that is asked", () => {
    const rates = { input: 3n, output: 0n, cacheRead: 1n, cacheWrite: 4n, cacheWriteLong: 6n };
    expect([dearestInput(rates, false), dearestInput(rates, true)]).toEqual([4n, 6n]);
    // Odd rows: the cache is dearer to read, or cheaper to write for longer.
    expect(dearestInput({ ...rates, cacheRead: 9n }, true)).toBe(9n);
    expect(dearestInput({ ...rates, cacheWriteLong: 2n }, true)).toBe(4n);
    expect(dearestInput({ input: 5n, output: 0n, cacheRead: 1n, cacheWrite: 2n }, true)).toBe(5n);
  });

  test("a charge is never below the cost and never a whole nano above it; nothing costs nothing", () => {
    const count = fc.nat(100_000_000);
    const price = fc.bigInt({ min: 0n, max: 10n ** 15n });
    fc.assert(
      fc.property(count, count, count, count, price, price, (input, cacheRead, cacheWrite, output, a, b) => {
        const usage = { input, cacheRead, cacheWrite, output, reasoning: 0 };
        const over = costNano(usage, { input: a, output: b }) * 1_000n - costPico(usage, { input: a, output: b });
        expect(over >= 0n && over < 1_000n).toBe(true);
      }),
    );
    expect(costNano(NO_USAGE, sonnet)).toBe(0n);
  });

  test("catalog prices become whole micro-USD, rounded half up in decimal", () => {
    const table: [number, bigint][] = [
      [0, 0n],
      [0.15, 150_000n],
      [3, 3_000_000n],
      [0.0125, 12_500n],
      [1.1, 1_100_000n],
      [0.0000005, 1n],
      [0.0000004, 0n],
      [0.0000015, 2n],
      [0.1234565, 123_457n],
      [0.12345649, 123_456n],
      [600, 600_000_000n],
      [4.99999999, 5_000_000n],
      [1e9, 10n ** 15n],
    ];
    for (const [usd, micro] of table) expect([usd, toMicroPrice(usd)]).toEqual([usd, micro]);
    for (const wrong of [-1, Number.NaN, Number.POSITIVE_INFINITY, 1e10])
      expect(() => toMicroPrice(wrong)).toThrow(RangeError);
  });

  test("every price of whole micro-USD comes back as it went", () => {
    fc.assert(fc.property(fc.nat(2 ** 31 - 1), (micro) => expect(toMicroPrice(micro / 1e6)).toBe(BigInt(micro))));
  });
});
