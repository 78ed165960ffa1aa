import { expect, test } from "bun:test";
import fc from "fast-check";
import { NO_USAGE } from "../../src/canon/usage.ts";
import { type Charge, type HoldRequest, type ModelPrices, type Payment, USAGE_FLAGS } from "../../src/ledger/ledger.ts";
import {
  PriceReader,
  readCharge,
  readGrowAt,
  readOrder,
  Unestimated,
  writeCharge,
  writeGrowAt,
  writeOrder,
} from "../../src/workers/hold-forms.ts";

const amount = fc.bigInt({ min: 0n, max: 9_000_000_000_000_000_000n });
const tokens = fc.nat({ max: 10_000_000 });
const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });

const rates = fc
  .record({ input: amount, output: amount })
  .chain((both) =>
    fc
      .record({ cacheRead: amount, cacheWrite: amount, cacheWriteLong: amount }, { requiredKeys: [] })
      .map((more) => ({ ...both, ...more })),
  );
const tiers = fc.array(
  fc.tuple(fc.nat(), rates).map(([above, rate]) => ({ above, ...rate })),
  { minLength: 1, maxLength: 3 },
);
const priced: fc.Arbitrary<ModelPrices> = fc
  .tuple(fc.string(), rates, optional(tiers))
  .map(([model, rate, steps]) => ({ model, prices: steps ? { ...rate, tiers: steps } : rate }));

const payment: fc.Arbitrary<Payment> = fc
  .record({ windowNano: amount, premium: fc.boolean(), sliced: fc.boolean(), unseenOutput: tokens })
  .chain((plain) =>
    fc
      .record(
        { collectable: fc.boolean(), cachesLong: fc.boolean(), maxOutputTokens: tokens, contextLength: tokens },
        { requiredKeys: [] },
      )
      .map((more) => ({ ...plain, ...more })),
  );

const order: fc.Arbitrary<HoldRequest> = fc
  .record({
    ...{ requestId: fc.string(), accountId: fc.string(), keyId: fc.string(), model: fc.string() },
    ...{ dialect: fc.constantFrom("chat", "messages", "responses"), stream: fc.boolean() },
  })
  .chain((plain) =>
    fc
      .record(
        { maxOutputTokens: tokens, contextLength: tokens, payment, terms: payment, prices: priced },
        { requiredKeys: [] },
      )
      .map((more) => ({ ...plain, ...more, estimateInput: () => 1_234 })),
  );

const cross = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

test("a hold request is the same on the other side; its input is estimated where money is set aside alone", () => {
  fc.assert(
    fc.property(order, (asked) => {
      const read = readOrder(cross(writeOrder(asked)), new PriceReader());
      const { estimateInput, payment: paid, prices, ...plain } = asked;
      const { estimateInput: estimated, payment: alsoPaid, prices: alsoPriced, ...others } = read;
      expect(others).toEqual(plain);
      expect(alsoPaid).toEqual(paid);
      expect(alsoPriced).toEqual(prices);
      if (paid || asked.terms) expect(estimated()).toBe(estimateInput());
      else expect(estimated).toThrow(Unestimated);
      expect(readOrder(cross(writeOrder(asked, true)), new PriceReader()).estimateInput()).toBe(estimateInput());
    }),
  );
});

test("equal prices are one object, as the price book wants it, and others are another", () => {
  const reader = new PriceReader();
  const of = (input: bigint): HoldRequest => ({
    ...{ requestId: "r", accountId: "a", keyId: "k", model: "m", dialect: "chat", stream: false },
    ...{ estimateInput: () => 0, prices: { model: "m", prices: { input, output: 1n } } },
  });
  const first = readOrder(cross(writeOrder(of(1n))), reader).prices;
  expect(readOrder(cross(writeOrder(of(1n))), reader).prices).toBe(first!);
  expect(readOrder(cross(writeOrder(of(2n))), reader).prices).not.toBe(first!);
});

test("charges are the same on the other side, to the nano", () => {
  const charge: fc.Arbitrary<Charge> = fc
    .record({ costNano: optional(amount), chargedNano: amount, metered: fc.boolean() })
    .chain((plain) =>
      fc
        .record(
          { flags: fc.subarray([...USAGE_FLAGS]), believed: fc.constant({ ...NO_USAGE, input: 7 }) },
          { requiredKeys: [] },
        )
        .map((more) => ({ ...plain, ...more })),
    );
  fc.assert(fc.property(charge, (each) => expect(readCharge(cross(writeCharge(each)))).toEqual(each)));
});

test("a reply that never needs more money never does", () => {
  expect(readGrowAt(cross(writeGrowAt(Number.POSITIVE_INFINITY)))).toBe(Number.POSITIVE_INFINITY);
  expect(readGrowAt(cross(writeGrowAt(3_584)))).toBe(3_584);
});
