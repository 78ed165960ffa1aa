import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { NO_USAGE } from "../../src/canon/usage.ts";
import { costNano, costPico, toMicroPrice } from "../../src/ledger/price.ts";

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
    expect(costPico(usage, { input: 1_000n, output: 0n, cacheRead: 100n, cacheWrite: 1_250n })).toBe(6_950n);
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
