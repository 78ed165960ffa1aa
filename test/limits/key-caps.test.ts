import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Accounts } from "../../src/accounts/accounts.ts";
import { type KeyChange, Keys } from "../../src/accounts/keys.ts";
import { GatewayError } from "../../src/canon/errors.ts";
import { openStore, type Store } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { KeyHolds } from "../../src/jobs/key-holds.ts";
import type { HoldRequest, Settlement } from "../../src/ledger/ledger.ts";
import { openLedger } from "../../src/ledger/open-ledger.ts";
import { CappedLedger } from "../../src/limits/capped-ledger.ts";
import { KeyAccount, KeySpend } from "../../src/limits/key-spend.ts";
import { manualClock } from "../support/clock.ts";
import { rejectionOf } from "../support/fault.ts";

/** 1 USD for a million tokens of input, 10 USD for a million of output: 1,000 and 10,000 nano-USD a token. */
const PRICES = { model: "lab/priced", prices: { input: 1_000_000n, output: 10_000_000n } };

/** A gateway's books with one key on plan `local`; `of` opens them again on the same store, as a restart does. */
async function open(caps: KeyChange, store: Store = openStore(":memory:"), keyId?: string) {
  const clock = manualClock(Date.UTC(2026, 2, 1, 23, 0));
  const writer = new Writer(store);
  const keys = new Keys(store, writer, { clock });
  let id = keyId;
  if (id === undefined) {
    const made = await new Accounts(store, writer, keys, clock).ensureLocal();
    id = (await keys.create({ accountId: made?.account.id ?? "", name: "capped", kind: "api", ...caps })).id;
  }
  const spend = new KeySpend(store, writer, (key) => keys.capsOf(key), clock);
  const { book, ledger: inner } = openLedger(store, writer, { clock });
  const ledger = new CappedLedger(inner, spend);
  let requests = 0;
  const hold = async (more: Partial<HoldRequest> = {}) =>
    ledger.hold({
      requestId: `req_${keyId ?? ""}${requests++}`,
      accountId: "acct_1",
      keyId: id,
      model: "lab/priced",
      dialect: "chat",
      stream: false,
      estimateInput: () => 100,
      maxOutputTokens: 1_000,
      prices: PRICES,
      ...more,
    });
  const rows = () => store.database.query("SELECT day, requests, nano FROM key_spend ORDER BY day").values();
  return { clock, store, writer, keys, spend, keyId: id, book, hold, rows };
}

const used = (input: number, output: number): Settlement => ({
  outcome: "completed",
  vendor: "lab",
  upstreamModel: "priced",
  usage: { input, cacheRead: 0, cacheWrite: 0, output, reasoning: 0 },
  estimated: false,
  attempts: 1,
  durationMs: 1,
});

describe("caps of a key (contract 4)", () => {
  test("requests of a day: as many as said, those under way counted, those let go given back", async () => {
    const { hold, clock, rows } = await open({ capRequestsDay: 2 });
    const first = await hold();
    const second = await hold();
    const refused = await rejectionOf(hold());
    expect(refused).toMatchObject({ code: "allowance_exhausted", retry: false });
    expect(refused.extra["reset_at"]).toBe("2026-03-02T00:00:00.000Z");
    await second.release();
    const third = await hold();
    await first.settle(used(1, 1));
    await third.settle(used(1, 1));
    expect((await rejectionOf(hold())).code).toBe("allowance_exhausted");
    await clock.advance(3_600_000);
    // A new UTC day.
    await (await hold()).settle(used(1, 1));
    expect(rows()).toEqual([
      [20513n, 2n, 22_000n],
      [20514n, 1n, 11_000n],
    ]);
  });

  test("what could not be written down counts against no cap, now or after a restart", async () => {
    const { hold, store, spend, keyId, rows } = await open({ capRequestsDay: 2, capTotalNano: 50_000_000n });
    await (await hold()).settle(used(1, 1));
    const unwritten = await hold();
    store.database.run("PRAGMA query_only = ON");
    await expect(unwritten.settle(used(1, 1))).rejects.toThrow();
    store.database.run("PRAGMA query_only = OFF");
    expect(spend.of(keyId)?.states).toMatchObject({
      requestsDay: { used: 1n, left: 1n },
      totalNano: { used: 11_000n, left: 49_989_000n },
    });
    await (await hold()).settle(used(1, 1));
    expect(rows()).toEqual([[20513n, 2n, 22_000n]]);
    expect((await rejectionOf(hold())).code).toBe("allowance_exhausted");
  });

  test("a count and the row of its request are one write: who dies between two commits leaves both or neither", async () => {
    const payment = { windowNano: 10_000_000_000n, premium: false, sliced: false, unseenOutput: 0 };
    for (const more of [{}, { payment }]) {
      const { hold, store, writer, rows } = await open({ capRequestsDay: 2 });
      const held = await hold(more);
      const usage = () => store.database.query("SELECT cost_nano FROM usage").values();
      // All but one of the operations that one commit takes.
      const others = Array.from({ length: 63 }, () => writer.run(() => {}));
      const settled = held.settle(used(1, 1));
      const together = [[usage(), rows()]];
      await Promise.all([settled, ...others]);
      together.push([usage(), rows()]);
      expect(together).toEqual(together.map(() => [[[11_000n]], [[20513n, 1n, 11_000n]]]));
    }
  });

  test("a request whose key's count cannot be written is in no sum of usage either", async () => {
    const payment = { windowNano: 10_000_000_000n, premium: false, sliced: false, unseenOutput: 0 };
    for (const more of [{}, { payment }]) {
      const { hold, store, writer } = await open({ capRequestsDay: 2 });
      store.database.run("CREATE TRIGGER odd BEFORE INSERT ON key_spend BEGIN SELECT RAISE(ABORT, 'No.'); END");
      const held = await hold(more);
      await Promise.all([expect(held.settle(used(1, 1))).rejects.toThrow(), writer.run(() => {})]);
      const written = ["usage", "usage_rollup"].map((table) => store.database.query(`SELECT 1 FROM ${table}`).values());
      expect(written).toEqual([[], []]);
    }
  });

  test("what could not be written down before midnight is taken from no cap of the day after it", async () => {
    let now = Date.UTC(2026, 2, 1, 23);
    const written = Promise.withResolvers<void>();
    const tally = { day: 20_513, requests: 0, dayNano: 0n, totalNano: 5n };
    const account = new KeyAccount(tally, {
      now: () => now,
      read: (day) => ({ day, requests: 0, dayNano: 0n }),
      put() {},
      write: () => written.promise,
    });
    const posted = account.under({ capDayNano: 10n, capTotalNano: 10n, capRequestsDay: 2 }).post(1, 3n);
    expect(account.states).toMatchObject({ requestsDay: { used: 1n }, dayNano: { used: 3n }, totalNano: { used: 8n } });
    now = Date.UTC(2026, 2, 2);
    written.reject(new Error("The disk is full."));
    await expect(posted).rejects.toThrow("The disk is full.");
    expect(account.states).toMatchObject({ requestsDay: { used: 0n }, dayNano: { used: 0n }, totalNano: { used: 5n } });
  });

  test("a day that a clock set back comes to again has what it had", async () => {
    const { hold, clock, rows } = await open({ capRequestsDay: 2, capDayNano: 5_000_000n });
    const midnight = Date.UTC(2026, 2, 2);
    const made = async () => (await hold({ maxOutputTokens: 1 })).settle(used(1, 0));
    for (const now of [midnight - 1, midnight, midnight - 1]) {
      clock.setWall(now);
      await made();
    }
    expect((await rejectionOf(hold())).code).toBe("allowance_exhausted");
    clock.setWall(midnight);
    await made();
    expect((await rejectionOf(hold())).code).toBe("allowance_exhausted");
    expect(rows()).toEqual([
      [20513n, 2n, 2_000n],
      [20514n, 2n, 2_000n],
    ]);
  });

  test("a request that began yesterday and ends today counts today", async () => {
    const { hold, clock, rows } = await open({ capRequestsDay: 1 });
    const late = await hold();
    await clock.advance(3_600_000);
    await late.settle(used(1, 0));
    expect(rows()).toEqual([[20514n, 1n, 1_000n]]);
    expect((await rejectionOf(hold())).code).toBe("allowance_exhausted");
  });

  test("money of a day and in all: exact to the nano, over a restart", async () => {
    // One request of 100 in and 200 out costs 2,100,000 nano.
    const caps = { capDayNano: 30_000_000n, capTotalNano: 45_000_000n };
    const { hold, clock, rows, store, keyId } = await open(caps);
    for (let request = 0; request < 9; request++) await (await hold()).settle(used(100, 200));
    expect(rows()).toEqual([[20513n, 9n, 18_900_000n]]);
    const whole = await hold();
    expect([whole.short, whole.ceiling]).toEqual([false, undefined]);
    await whole.settle(used(100, 800));
    // 3,000,000 are left: not 1,000 tokens of output any more, but enough to begin; the vendor is told how many.
    const short = await hold();
    expect([short.short, short.ceiling]).toEqual([true, 289]);
    expect((await rejectionOf(hold())).code).toBe("allowance_exhausted");
    await short.release();
    await clock.advance(3_600_000);
    for (let request = 0; request < 8; request++) await (await hold()).settle(used(100, 200));
    expect(rows()).toEqual([
      [20513n, 10n, 27_000_000n],
      [20514n, 8n, 16_800_000n],
    ]);
    const again = await open(caps, store, keyId);
    await again.clock.advance(3_600_000);
    expect(await rejectionOf(again.hold({ maxOutputTokens: 900 }))).toMatchObject({
      code: "insufficient_quota",
      retry: false,
    });
  });

  test("what came to a key before a restart counts after it, of the day until that ends", async () => {
    const caps = { capRequestsDay: 3, capDayNano: 60_000n, capTotalNano: 90_000n };
    const { hold, store, keyId } = await open(caps);
    for (const output of [1, 2])
      await (await hold({ maxOutputTokens: 1, estimateInput: () => 1 })).settle(used(1, output));
    const { spend, clock } = await open(caps, store, keyId);
    expect(spend.of(keyId)?.states).toEqual({
      requestsDay: { cap: 3n, used: 2n, left: 1n },
      dayNano: { cap: 60_000n, used: 32_000n, left: 28_000n },
      totalNano: { cap: 90_000n, used: 32_000n, left: 58_000n },
      dayEndsAt: Date.UTC(2026, 2, 2),
    });
    await clock.advance(3_600_000);
    expect(spend.of(keyId)?.states).toEqual({
      requestsDay: { cap: 3n, used: 0n, left: 3n },
      dayNano: { cap: 60_000n, used: 0n, left: 60_000n },
      totalNano: { cap: 90_000n, used: 32_000n, left: 58_000n },
      dayEndsAt: Date.UTC(2026, 2, 3),
    });
  });

  test("requests at the same time never pass a cap together (random)", async () => {
    const sizes = fc.array(fc.record({ output: fc.integer({ min: 1, max: 1_000 }), ends: fc.boolean() }), {
      minLength: 1,
      maxLength: 60,
    });
    await fc.assert(
      fc.asyncProperty(sizes, fc.integer({ min: 3_000_000, max: 60_000_000 }), async (requests, cap) => {
        const { hold, rows, store } = await open({ capTotalNano: BigInt(cap) });
        const running: { settle(): Promise<unknown> }[] = [];
        for (const { output, ends } of requests) {
          const held = await hold({ maxOutputTokens: output }).catch((thrown: unknown) => {
            expect((thrown as GatewayError).code).toBe("insufficient_quota");
            return undefined;
          });
          if (held) running.push({ settle: () => held.settle(used(100, Math.min(output, held.ceiling ?? output))) });
          if (ends) await running.shift()?.settle();
        }
        for (const each of running) await each.settle();
        const spent = rows().reduce((sum, row) => sum + (row[2] as bigint), 0n);
        expect(spent).toBeLessThanOrEqual(BigInt(cap));
        store.close();
      }),
      { numRuns: 25 },
    );
  });

  test("a stream grows slice by slice, and is ended when the cap is reached", async () => {
    // 4,096 tokens and what comes to them at first; 60,000,000 nano pay for some 6,000.
    const { hold, rows } = await open({ capTotalNano: 60_000_000n });
    const held = await hold({ stream: true, maxOutputTokens: 50_000 });
    expect(held.growAt).toBeLessThan(4_096);
    let output = 0;
    while (output < 50_000) {
      output += 50;
      if (output <= held.growAt) continue;
      if (!held.extend({ vendor: "lab", upstreamModel: "priced", output })) break;
    }
    expect(output).toBeGreaterThan(5_000);
    expect(output).toBeLessThan(6_000);
    expect(held.extend({ vendor: "lab", upstreamModel: "priced", output: output + 1 })).toBe(false);
    await held.settle(used(100, output));
    expect((rows()[0]?.[2] as bigint) <= 60_000_000n).toBe(true);
  });

  // What 100 tokens of input and so many of output are held at.
  const cost = (output: bigint) => 110_000n + output * 10_000n;
  test.each([
    ["nobody has less", cost(1_000n), cost(1_000n), undefined, false],
    ["the account has less", cost(300n), cost(1_000n), 300, true],
    ["the key has less", cost(1_000n), cost(300n), 300, true],
    ["both have less, the account least", cost(280n), cost(300n), 280, true],
    ["both have less, the key least", cost(300n), cost(280n), 280, true],
  ])(
    "of an account that pays and a key with a cap whichever has less decides: %s",
    async (_what, windowNano, capTotalNano, ceiling, short) => {
      const { hold } = await open({ capTotalNano });
      const held = await hold({ payment: { windowNano, premium: false, sliced: false, unseenOutput: 0 } });
      expect([held.ceiling, held.short, held.asStream]).toEqual([ceiling, short, false]);
    },
  );

  test.each([
    ["the account has less", cost(3_000n), cost(50_000n), 2_625],
    ["the key has less", cost(50_000n), cost(3_000n), 2_625],
  ])("so it does while a stream grows: %s", async (_what, windowNano, capTotalNano, growAt) => {
    const { hold } = await open({ capTotalNano });
    const payment = { windowNano, premium: false, sliced: true, unseenOutput: 0 };
    const held = await hold({ stream: true, maxOutputTokens: 50_000, payment });
    expect(held.growAt).toBe(growAt);
    expect(await held.extend({ vendor: "lab", upstreamModel: "priced", output: growAt + 1 })).toBe(false);
  });

  test("a key whose slice is the shorter one asks its account for no more than that has paid for", async () => {
    const { hold } = await open({ capTotalNano: cost(6_000n) });
    const other = await hold({ maxOutputTokens: 2_900 });
    // Of the account's money there is one slice, and no second one.
    const payment = { windowNano: cost(4_096n), premium: false, sliced: true, unseenOutput: 0 };
    const held = await hold({ stream: true, maxOutputTokens: 50_000, payment });
    const own = held.growAt;
    expect(own < 3_584).toBe(true);
    await other.release();
    const reading = { vendor: "lab", upstreamModel: "priced" };
    expect(await held.extend({ ...reading, output: own + 1 })).toBe(true);
    expect(held.growAt).toBe(3_584);
    expect(await held.extend({ ...reading, output: 3_585 })).toBe(false);
  });

  test("an account whose slice is the shorter one asks its key for no more than that has paid for", async () => {
    const { hold } = await open({ capTotalNano: cost(4_096n) });
    const payment = { windowNano: cost(6_000n), premium: false, sliced: true, unseenOutput: 0 };
    const other = await hold({ keyId: "uncapped", maxOutputTokens: 2_900, payment: { ...payment, sliced: false } });
    const held = await hold({ stream: true, maxOutputTokens: 50_000, payment });
    const { growAt } = held;
    expect(growAt < 3_584).toBe(true);
    await other.release();
    const reading = { vendor: "lab", upstreamModel: "priced" };
    expect(await held.extend({ ...reading, output: growAt + 1 })).toBe(true);
    expect(held.growAt).toBe(3_584);
    expect(await held.extend({ ...reading, output: 3_585 })).toBe(false);
  });

  test("a stream that both have money for grows in the account's slices", async () => {
    const { hold, spend, keyId } = await open({ capTotalNano: cost(60_000n) });
    const payment = { windowNano: cost(60_000n), premium: false, sliced: true, unseenOutput: 0 };
    const held = await hold({ stream: true, maxOutputTokens: 50_000, payment });
    for (const slice of [4_096, 12_288, 28_672, 45_056]) {
      expect([held.growAt, spend.of(keyId)?.freeNano]).toEqual([slice - 512, BigInt(60_000 - slice) * 10_000n]);
      expect(await held.extend({ vendor: "lab", upstreamModel: "priced", output: slice - 511 })).toBe(true);
    }
    expect([held.growAt, spend.of(keyId)?.freeNano]).toEqual([Number.POSITIVE_INFINITY, 100_000_000n]);
  });

  test("of a stream that has ended key and account set aside what it came to, each where that is not paid by now", async () => {
    const { hold, spend, keyId } = await open({ capTotalNano: cost(4_800n) });
    const payment = { windowNano: cost(60_000n), premium: false, sliced: true, unseenOutput: 0 };
    const held = await hold({ stream: true, maxOutputTokens: 50_000, payment });
    const reading = { vendor: "lab", upstreamModel: "priced", ended: true } as const;
    await held.extend({ ...reading, output: 4_000 });
    expect(spend.of(keyId)?.freeNano).toBe(cost(4_800n) - cost(4_096n));
    // Beyond the key's money too: the account pays for it all the same, as far as it can.
    await held.extend({ ...reading, output: 5_000 });
    expect(spend.of(keyId)?.freeNano).toBe(0n);
    await held.extend({ ...reading, output: 5_200 });
    expect((await held.settle(used(100, 5_200))).flags).toBeUndefined();
  });

  test.each([
    ["that leaves no more", cost(8_000n)],
    ["that leaves plenty", cost(80_000n)],
  ])(
    "what an account can only pay in slices is collected from a stream, under a key's cap too %s",
    async (_what, cap) => {
      const { hold } = await open({ capTotalNano: cap });
      const terms = { premium: false, sliced: false, collectable: true, unseenOutput: 0 };
      const held = await hold({ maxOutputTokens: 8_000, payment: { windowNano: cost(4_096n), ...terms } });
      expect([held.ceiling, held.short, held.asStream]).toEqual([undefined, false, true]);
    },
  );

  test("what a key can only pay in slices is collected from a stream, where its account pays nothing", async () => {
    const { hold } = await open({ capTotalNano: cost(8_000n) });
    const terms = { windowNano: 0n, premium: false, sliced: false, collectable: true, unseenOutput: 0 };
    const held = await hold({ maxOutputTokens: 8_000, terms });
    expect([held.ceiling, held.short, held.asStream]).toEqual([undefined, false, true]);
  });

  test.each(["terms", "payment"] as const)(
    "what cannot be watched of a stream is set aside whole, by its %s",
    async (by) => {
      const { hold, spend, keyId } = await open({ capTotalNano: 100_000_000n });
      const terms = { windowNano: 10_000_000_000n, premium: false, sliced: true, unseenOutput: 1 };
      await hold({ stream: true, maxOutputTokens: 5_000, [by]: terms });
      expect(spend.of(keyId)?.freeNano).toBe(100_000_000n - cost(5_000n));
    },
  );

  test("a model without a price is refused to a key capped in money, and free ones never are", async () => {
    const { hold, keys, keyId, rows, spend } = await open({ capTotalNano: 1n });
    expect((await rejectionOf(hold({ prices: undefined }))).code).toBe("model_unpriced");
    expect((await rejectionOf(hold())).code).toBe("insufficient_quota");
    const free = { model: "lab/free", prices: { input: 0n, output: 0n } };
    const held = await hold({ prices: free });
    expect(spend.of(keyId)?.freeNano).toBe(1n);
    await held.settle(used(1_000, 1_000));
    expect(rows()).toEqual([[20513n, 1n, 0n]]);
    // Nor are they where the key has come to more than it may, nor any model where its cap is in requests alone.
    spend.of(keyId)?.claim(0, 2n);
    await (await hold({ prices: free })).release();
    await keys.change(keyId, { capTotalNano: null, capRequestsDay: 5 });
    await (await hold({ prices: undefined })).settle(used(1_000, 1_000));
    expect(rows()).toEqual([[20513n, 2n, 0n]]);
  });

  test("a cap set later counts from then on; a cap taken away is none", async () => {
    const { hold, keys, keyId, rows } = await open({});
    await (await hold()).settle(used(100, 500));
    expect(rows()).toEqual([]);
    await keys.change(keyId, { capRequestsDay: 1 });
    await (await hold()).settle(used(100, 500));
    expect((await rejectionOf(hold())).code).toBe("allowance_exhausted");
    await keys.change(keyId, { capRequestsDay: null });
    await (await hold()).settle(used(100, 500));
    expect(rows()).toEqual([[20513n, 1n, 5_100_000n]]);
  });

  test("caps that are taken away and set again count from nothing; caps that are changed go on, whoever changes them", async () => {
    const { hold, keys, keyId, rows, spend, store } = await open({ capTotalNano: 6_000_000n });
    const used6 = async () => (await hold()).settle(used(100, 590));
    const left = () => spend.of(keyId)?.states.totalNano?.left;
    await used6();
    expect((await rejectionOf(hold())).code).toBe("insufficient_quota");
    await keys.change(keyId, { capTotalNano: 13_000_000n });
    expect(left()).toBe(7_000_000n);
    // Nothing is asked of the key in between, by whom it might be seen that it has none.
    await keys.change(keyId, { capTotalNano: null });
    await keys.change(keyId, { capTotalNano: 6_000_000n });
    expect([left(), rows()]).toEqual([6_000_000n, []]);
    // Another process does the same, and the next request of this one counts from nothing too, once what is under way has ended.
    const running = await hold();
    const elsewhere = new Keys(store, new Writer(store));
    await elsewhere.change(keyId, { capTotalNano: null });
    await elsewhere.change(keyId, { capTotalNano: 7_000_000n });
    keys.reload();
    expect(left()).toBe(1_000_000n);
    await running.settle(used(100, 500));
    expect(left()).toBe(1_900_000n);
    expect(rows()).toEqual([[20513n, 1n, 5_100_000n]]);
    expect((await open({}, store, keyId)).spend.of(keyId)?.states.totalNano?.left).toBe(1_900_000n);
  });

  test("a settle that is repeated counts once; a release after it gives nothing back", async () => {
    const { hold, rows } = await open({ capRequestsDay: 5 });
    const held = await hold();
    await Promise.all([held.settle(used(1, 0)), held.settle(used(1, 0))]);
    await held.release();
    expect(rows()).toEqual([[20513n, 1n, 1_000n]]);
  });

  test("counts that a vendor cannot mean come to as much of a cap as the usage row says, on plans that pay and on those that do not", async () => {
    const terms = { windowNano: 10_000_000_000n, premium: false, sliced: false, unseenOutput: 0 };
    for (const payment of [undefined, { ...terms, contextLength: 1_000 }]) {
      const { hold, store, rows } = await open({ capTotalNano: 100_000_000n });
      const held = await hold({ contextLength: 1_000, payment });
      const { costNano, flags } = await held.settle(used(50_000_000, 10));
      // Twice the window is what is believed of the input.
      expect([costNano, flags]).toEqual([2_100_000n, ["usage_suspect"]]);
      expect(rows()).toEqual([[20513n, 1n, 2_100_000n]]);
      expect(store.database.query("SELECT cost_nano FROM usage").values()).toEqual([[2_100_000n]]);
      // What is left of the cap is there for what comes next.
      await (await hold({ contextLength: 1_000, payment })).release();
    }
  });

  test("of a vendor that makes more than a key's money lets it be told, an account that pays is charged for that and a twentieth", async () => {
    const { hold, store, rows } = await open({ capTotalNano: cost(1_000n) });
    const payment = { windowNano: 10_000_000_000n, premium: false, sliced: false, unseenOutput: 0 };
    const held = await hold({ maxOutputTokens: 8_000, payment });
    expect([held.ceiling, held.short]).toEqual([1_000, true]);
    const { chargedNano, flags } = await held.settle(used(0, 5_000));
    expect([chargedNano, flags]).toEqual([10_500_000n, ["overrun", "usage_suspect"]]);
    expect(rows()).toEqual([[20513n, 1n, 10_500_000n]]);
    expect(store.database.query("SELECT output FROM usage").values()).toEqual([[1_050n]]);
  });

  test("calls of tools: claimed before, counted after, given back where nothing came of them", async () => {
    const { spend, keyId, rows } = await open({ capRequestsDay: 10, capTotalNano: 100n });
    const fetch = spend.claim(keyId, 8);
    expect(() => spend.claim(keyId, 3)).toThrow("10 requests a day");
    await fetch?.count(5, 0n);
    spend.claim(keyId, 5)?.release();
    const whole = spend.claim(keyId, 5);
    await whole?.count(5, 0n);
    // One that has ended sets nothing aside any more.
    whole?.reach(7n);
    expect(spend.of(keyId)?.states.totalNano).toMatchObject({ used: 0n, left: 100n });
    expect(() => spend.claim(keyId, 1)).toThrow(GatewayError);
    expect(rows()).toEqual([[20513n, 10n, 0n]]);
    expect(spend.claim("key_without_caps", 1_000)).toBeUndefined();
  });

  test("how the caps stand, with what is under way, and what a refusal says of it", async () => {
    const { hold, spend, keys, keyId } = await open({ capRequestsDay: 3, capDayNano: 20_200_000n });
    const account = () => spend.of(keyId);
    // 110 tokens of input and 1,000 of output.
    await hold();
    const second = await hold({ maxOutputTokens: 999 });
    expect(account()?.states).toMatchObject({
      requestsDay: { cap: 3n, used: 0n, left: 1n },
      dayNano: { cap: 20_200_000n, used: 0n, left: 0n },
    });
    expect(() => account()?.claim(2, 0n)).toThrow("3 requests a day: 1 are left, and this asks for 2. The day ends at");
    expect((await rejectionOf(hold())).message).toStartWith(
      "This key has come to what it may cost in a day. The day ends",
    );
    await second.settle(used(100, 900));
    expect((await rejectionOf(hold())).message).toStartWith(
      "This may cost more than is left of what this key may cost in",
    );
    account()?.claim(1, 0n);
    expect(() => account()?.claim(1, 0n)).toThrow("3 requests a day, and has made them. The day ends at");
    await keys.change(keyId, { capRequestsDay: 1, capDayNano: 1n });
    expect(account()?.states).toMatchObject({ requestsDay: { used: 1n, left: 0n }, dayNano: { left: 0n } });
    expect((await rejectionOf(hold({ prices: undefined }))).code).toBe("model_unpriced");
  });

  test("a refusal for the cap for all time says how much could be paid for, also where its day has as little left", async () => {
    // 110 tokens of input and 189 of output.
    const { hold } = await open({ capTotalNano: 2_000_000n, capDayNano: 2_000_000n });
    const code = "insufficient_quota";
    const extra = { affordable_output_tokens: 189 };
    expect(await rejectionOf(hold())).toMatchObject({ code, retry: false, extra });
  });

  test("calls of tools of a key that has come to what it may cost are refused, and with a nano left they are not", async () => {
    const { hold, spend, keys, keyId } = await open({ capRequestsDay: 5 });
    await (await hold()).settle(used(1, 1));
    await keys.change(keyId, { capTotalNano: 11_001n });
    spend.claim(keyId, 1)?.release();
    for (const capTotalNano of [11_000n, 10_999n]) {
      await keys.change(keyId, { capTotalNano });
      expect(() => spend.claim(keyId, 1)).toThrow("This key has come to what it may cost.");
    }
    await keys.change(keyId, { capTotalNano: null, capDayNano: 11_000n });
    expect(() => spend.claim(keyId, 1)).toThrow("This key has come to what it may cost in a day.");
  });

  test("an inner ledger that refuses leaves no trace in the key's book", async () => {
    const { hold, spend, keyId } = await open({ capRequestsDay: 1 });
    const paying = { windowNano: 0n, premium: false, sliced: false, unseenOutput: 0 };
    expect((await rejectionOf(hold({ payment: paying }))).code).toBe("insufficient_quota");
    expect(spend.of(keyId)?.claim(1, 0n)).toBeDefined();
  });
});

test("images under way are set aside, those of before a start too, until they end; what is free or of a key without caps is not", async () => {
  const { spend, keyId } = await open({ capTotalNano: 100n });
  const holds = new KeyHolds(spend);
  const job = (claimId: string, unitNano: bigint, paid = 1) => ({ claimId, keyId, paid, unitNano });
  const free = () => spend.of(keyId)?.freeNano;
  holds.restore(job("before", 70n));
  expect(free()).toBe(30n);
  expect(() => holds.take(job("a", 31n))).toThrow("more than is left of what this key may cost");
  expect(free()).toBe(30n);
  holds.take(job("b", 30n));
  // An operation that is run again sets nothing aside a second time.
  holds.take(job("b", 30n));
  holds.take(job("free", 30n, 0));
  holds.take({ ...job("other", 1_000n), keyId: "key_without_caps" });
  expect(free()).toBe(0n);
  holds.end("before");
  holds.end("before");
  holds.end("nobody");
  expect(free()).toBe(70n);
  // More than is left, from before: what was let in is let in.
  holds.restore(job("large", 90n));
  expect(free()).toBe(-20n);
});

test("money that one hold takes over from another is used or given back with it, and its own still grows by its own", async () => {
  const { hold, spend, keyId } = await open({ capRequestsDay: 2, capTotalNano: 100_000_000n });
  const free = () => spend.of(keyId)?.freeNano;
  const terms = { windowNano: 0n, premium: false, sliced: true, unseenOutput: 0 };
  const main = await hold({ maxOutputTokens: 8_000, stream: true, terms });
  const own = 110n * 1_000n + 4_096n * 10_000n;
  const beside = await hold({ requests: 0, maxOutputTokens: 1, terms });
  const more = 110n * 1_000n + 10_000n;
  expect(free()).toBe(100_000_000n - own - more);
  await main.absorb?.(beside);
  await beside.release();
  expect(free()).toBe(100_000_000n - own - more);
  expect(await main.extend({ vendor: "lab", upstreamModel: "m", output: 3_600 })).toBe(true);
  expect(free()).toBe(100_000_000n - (110n * 1_000n + 8_000n * 10_000n) - more);
  await main.settle(used(200, 5_000));
  expect(free()).toBe(100_000_000n - 200n * 1_000n - 5_000n * 10_000n);
  // What is taken over by a hold that has ended is let go.
  const late = await hold({ requests: 0, maxOutputTokens: 1, terms });
  await main.absorb?.(late);
  expect(free()).toBe(100_000_000n - 200n * 1_000n - 5_000n * 10_000n);
});

test("a further call of a reply may make as much again as its model: the key's money is asked for it", async () => {
  const { hold } = await open({ capTotalNano: 45_000_000n });
  const terms = { windowNano: 0n, premium: false, sliced: true, unseenOutput: 0, maxOutputTokens: 4_000 };
  const main = await hold({ maxOutputTokens: 50_000, stream: true, terms });
  // One call cannot become longer than what is set aside.
  expect(main.growAt).toBe(Number.POSITIVE_INFINITY);
  await main.absorb?.(await hold({ requests: 0, maxOutputTokens: 1, terms: { ...terms, maxOutputTokens: 1 } }));
  expect(main.growAt).toBe(3_500);
  const reading = { vendor: "lab", upstreamModel: "priced" };
  expect(await main.extend({ ...reading, output: 3_501 })).toBe(true);
  // Until the cap ends it.
  expect(await main.extend({ ...reading, output: main.growAt + 1 })).toBe(false);
});

test("what a key's hold takes over, its account's hold does too, and gives it back with its own", async () => {
  const { hold, book } = await open({ capTotalNano: 200_000_000n });
  const windowNano = 200_000_000n;
  const payment = { windowNano, premium: false, sliced: true, unseenOutput: 0 };
  const heldNano = () => book.window("acct_1", windowNano)?.heldNano;
  const main = await hold({ stream: true, payment });
  const beside = await hold({ maxOutputTokens: 1, requests: 0, payment });
  const both = heldNano();
  await main.absorb?.(beside);
  expect(heldNano()).toBe(both);
  await main.release();
  expect(heldNano()).toBe(0n);
});

test("of a request whose process died the account pays what its client was sent, which counts for the key; the rest of its money is free again", async () => {
  const { hold, book, spend, keyId, rows } = await open({ capTotalNano: 200_000_000n });
  const windowNano = 200_000_000n;
  const payment = { windowNano, premium: false, sliced: true, unseenOutput: 0 };
  const main = await hold({ maxOutputTokens: 8_000, stream: true, payment });
  await main.extend({ vendor: "lab", upstreamModel: "priced", output: 3_600 });
  await main.abandon?.();
  expect(spend.of(keyId)?.freeNano).toBe(200_000_000n - 36_100_000n);
  expect(rows()).toEqual([[20513n, 1n, 36_100_000n]]);
  expect(book.window("acct_1", windowNano)).toMatchObject({ heldNano: 0n, availableNano: windowNano - 36_100_000n });
  // One whose client was sent nothing that is known of counts for nothing.
  const unseen = await hold({ stream: true, payment });
  await unseen.abandon?.();
  // Nor does one that is counted alone: nothing is known of it.
  await (await hold({ stream: true })).abandon?.();
  expect(spend.of(keyId)?.freeNano).toBe(200_000_000n - 36_100_000n);
  expect(spend.of(keyId)?.isAtRest).toBe(true);
  expect(rows()).toHaveLength(1);
});

test("a hold takes over what was set aside after its key's caps were taken away", async () => {
  const { hold, keys, keyId } = await open({ capTotalNano: 100_000_000n });
  const payment = { windowNano: 100_000_000n, premium: false, sliced: true, unseenOutput: 0 };
  const main = await hold({ stream: true, payment });
  await keys.change(keyId, { capTotalNano: null });
  await main.absorb?.(await hold({ maxOutputTokens: 1, payment }));
  expect((await main.settle(used(100, 1_000))).chargedNano).toBe(10_100_000n);
});

test("a cap of requests that was lowered below what was made keeps no job of before from being gone on with", async () => {
  const { hold, spend, keys, keyId } = await open({ capRequestsDay: 2, capDayNano: 100_000_000n });
  for (const request of [await hold(), await hold()]) await request.settle(used(1, 1));
  await keys.change(keyId, { capRequestsDay: 1 });
  new KeyHolds(spend).restore({ claimId: "before", keyId, paid: 1, unitNano: 70n });
  expect(spend.of(keyId)?.freeNano).toBe(100_000_000n - 22_000n - 70n);
  expect((await rejectionOf(hold())).code).toBe("allowance_exhausted");
});
