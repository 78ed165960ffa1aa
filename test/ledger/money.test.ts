import { expect, test } from "bun:test";
import { StoreError } from "../../src/db/store-error.ts";
import { LedgerError } from "../../src/ledger/book.ts";
import type { Settlement } from "../../src/ledger/ledger.ts";
import { ACCOUNT, cameTo, openBooks, PAYMENT, WALLET, wish } from "./books.ts";

const DOLLAR = 1_000_000_000n;
const codeOf = async (call: Promise<unknown>) => {
  const thrown: unknown = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return thrown instanceof LedgerError ? thrown.code : thrown;
};

test("a deposit counts once, however often it is sent, also at the same time", async () => {
  const { book } = openBooks();
  const order = { accountId: ACCOUNT, amountNano: DOLLAR, reference: "payment-1", detail: "by card" };
  const posted = await Promise.all([book.deposit(order), book.deposit(order), book.deposit(order)]);
  expect(posted.map(({ repeated }) => repeated)).toEqual([false, true, true]);
  expect(posted[1]?.entry).toEqual(posted[0]?.entry as never);
  expect(posted[0]?.entry).toMatchObject({
    kind: "deposit",
    amountNano: DOLLAR,
    reference: "payment-1",
    detail: "by card",
  });
  expect(book.balance(ACCOUNT).postedNano).toBe(DOLLAR);
  expect(book.entries(ACCOUNT)).toHaveLength(1);
});

test("a correction that takes counts once, however often it is sent, and its reference gives nothing back", async () => {
  const { book } = openBooks();
  await book.deposit({ accountId: ACCOUNT, amountNano: DOLLAR, reference: "payment-1" });
  const order = { accountId: ACCOUNT, amountNano: -DOLLAR / 4n, reference: "mistake-1" };
  const posted = [await book.correct(order), await book.correct(order)];
  expect(posted.map(({ repeated }) => repeated)).toEqual([false, true]);
  expect(posted[1]?.entry).toEqual(posted[0]?.entry as never);
  expect(await codeOf(book.correct({ ...order, amountNano: DOLLAR / 4n }))).toBe("reference_reused");
  expect(book.balance(ACCOUNT).postedNano).toBe((DOLLAR / 4n) * 3n);
});

test("a remark of any characters, half ones among them, leaves the chain of entries whole", async () => {
  const { book } = openBooks();
  for (const [at, detail] of ["a\u0000b", "\ud800", "x\udfff\ud800y", "\ufeff", "👩‍👩‍👧"].entries()) {
    const { entry } = await book.deposit({ accountId: ACCOUNT, amountNano: DOLLAR, reference: `r${at}`, detail });
    expect(entry.detail).toBe(detail.toWellFormed());
    expect(book.entries(ACCOUNT)[0]?.detail).toBe(detail.toWellFormed());
  }
  expect(book.verify()).toEqual([]);
});

test("a reference stands for one order alone", async () => {
  const { book } = openBooks();
  const order = { accountId: ACCOUNT, amountNano: DOLLAR, reference: "payment-1" };
  await book.deposit(order);
  for (const call of [
    book.deposit({ ...order, amountNano: 1n }),
    book.deposit({ ...order, accountId: "acct_2" }),
    book.promote(order),
    book.correct(order),
  ]) {
    expect(await codeOf(call)).toBe("reference_reused");
  }
  expect(book.balance("acct_2").postedNano).toBe(0n);
});

test.each([
  ["bad_amount", { amountNano: 0n }],
  ["bad_amount", { amountNano: -1n }],
  ["bad_amount", { amountNano: 1_000_000_000_000_001n }],
  ["bad_reference", { reference: "" }],
  ["bad_reference", { reference: "ü" }],
  ["bad_reference", { reference: "a\nb" }],
  ["bad_reference", { reference: "a".repeat(201) }],
  ["bad_reference", { detail: "a".repeat(1_001) }],
  ["no_account", { accountId: "acct_none" }],
])("refused with %s, and nothing is written: %p", async (code, more) => {
  const { book, store } = openBooks();
  expect(await codeOf(book.deposit({ accountId: ACCOUNT, amountNano: DOLLAR, reference: "p", ...more }))).toBe(code);
  expect(store.database.prepare("SELECT count(*) FROM ledger_entry").values()).toEqual([[0n]]);
  expect(store.database.prepare("SELECT count(*) FROM ledger_account WHERE kind <> 'house'").values()).toEqual([[0n]]);
});

test("a correction goes either way, and takes no more than is free", async () => {
  const { book, ledger } = openBooks();
  const correct = (amountNano: bigint, reference: string) =>
    book.correct({ accountId: ACCOUNT, amountNano, reference });
  await correct(DOLLAR, "c1");
  await correct(-DOLLAR / 4n, "c2");
  expect(book.balance(ACCOUNT).postedNano).toBe((DOLLAR * 3n) / 4n);
  const hold = await ledger.hold(wish("req_1"));
  const { availableNano, heldNano } = book.balance(ACCOUNT);
  expect(heldNano).toBeGreaterThan(0n);
  expect(await codeOf(correct(-availableNano - 1n, "c3"))).toBe("insufficient");
  await correct(-availableNano, "c3");
  await hold.release();
  expect(book.balance(ACCOUNT).availableNano).toBe(heldNano);
  expect(await codeOf(correct(0n, "c4"))).toBe("bad_amount");
  // A correction is no deposit.
  expect(book.hasDeposit(ACCOUNT)).toBe(false);
  expect(book.entries(ACCOUNT).map(({ kind, amountNano }) => [kind, amountNano])).toEqual([
    ["correction", availableNano],
    ["correction", DOLLAR / 4n],
    ["correction", DOLLAR],
  ]);
  expect(book.verify()).toEqual([]);
});

test("entries come newest first, in pages, without the charges that usage rows tell", async () => {
  const { book, ledger, fund } = openBooks();
  for (let at = 1; at <= 5; at++) await fund(BigInt(at));
  await fund(DOLLAR);
  await (await ledger.hold(wish("req_1"))).settle(cameTo(1, 1));
  const first = book.entries(ACCOUNT, { limit: 2 });
  expect(first.map(({ amountNano }) => amountNano)).toEqual([DOLLAR, 5n]);
  const second = book.entries(ACCOUNT, { limit: 10, before: first[1]?.seq ?? 0 });
  expect(second.map(({ amountNano }) => amountNano)).toEqual([4n, 3n, 2n, 1n]);
  expect(book.entries("acct_2")).toEqual([]);
});

test("a window: opened at its first use, spent first, filled up by a better plan, expired into the next", async () => {
  const { book, ledger, clock } = openBooks();
  const payment = { ...PAYMENT, windowNano: 100_000_000n };
  const spend = async (id: string, grant = payment.windowNano) =>
    (await ledger.hold(wish(id, { payment: { ...payment, windowNano: grant } }))).settle(cameTo(0, 1_000));
  expect(book.window(ACCOUNT, payment.windowNano)).toEqual({
    ...{
      grantNano: 100_000_000n,
      availableNano: 100_000_000n,
      heldNano: 0n,
      startedAtMs: undefined,
      endsAtMs: undefined,
    },
  });
  const opened = clock.now();
  await spend("req_1");
  expect(book.window(ACCOUNT, payment.windowNano)).toMatchObject({
    availableNano: 85_000_000n,
    startedAtMs: opened,
    endsAtMs: opened + 18_000_000,
  });
  await spend("req_2", 300_000_000n);
  expect(book.window(ACCOUNT, payment.windowNano)).toMatchObject({
    grantNano: 300_000_000n,
    availableNano: 270_000_000n,
  });
  // A lesser plan takes nothing away before the window's end.
  await spend("req_3");
  // One without a window is not paid from what an earlier plan gave, and tells none.
  expect(book.window(ACCOUNT, 0n)).toBeUndefined();
  expect(book.window(ACCOUNT, payment.windowNano)).toMatchObject({ availableNano: 255_000_000n });
  const running = await ledger.hold(wish("req_4", { payment }));
  await clock.advance(18_000_000);
  expect(book.window(ACCOUNT, payment.windowNano)).toMatchObject({
    startedAtMs: undefined,
    availableNano: 100_000_000n,
  });
  await spend("req_5");
  // A request belongs to the window in which it was held: the new one does not pay for it.
  await running.settle(cameTo(0, 1_000));
  expect(book.window(ACCOUNT, payment.windowNano)).toMatchObject({ availableNano: 85_000_000n });
  expect(book.balance(ACCOUNT).postedNano).toBe(0n);
  await clock.advance(18_000_000);
  await spend("req_6");
  const moves = book.entries(ACCOUNT).map(({ kind, amountNano }) => [kind, amountNano]);
  expect(moves).toEqual([
    ["grant", 100_000_000n],
    ["expire", 85_000_000n],
    ["expire", 240_000_000n],
    ["grant", 100_000_000n],
    ["grant", 200_000_000n],
    ["grant", 100_000_000n],
  ]);
  expect(book.verify()).toEqual([]);
});

test.each([
  ["all of it where the other one has let go", true, 0, 0n, 54_740_000n],
  ["what it holds of it where the other one still holds the rest", false, 0, 10_000_000n, 0n],
  ["what it holds of it once its time is over", true, 5 * 60 * 60_000, 10_000_000n, 69_740_000n],
])(
  "of a window that another request held when it came, a request takes %s",
  async (_what, letsGo, ms, wallet, left) => {
    const { book, ledger, clock, fund } = openBooks();
    await fund(DOLLAR);
    // The first one sets 64,740,000 aside, so that 5,000,000 are left for the second; it comes to 15,000,000.
    const payment = { ...PAYMENT, windowNano: 69_740_000n };
    const other = await ledger.hold(wish("req_1", { payment }));
    const hold = await ledger.hold(wish("req_2", { payment }));
    if (letsGo) await other.release();
    await clock.advance(ms);
    await hold.settle(cameTo(0, 1_000));
    expect(DOLLAR - book.balance(ACCOUNT).postedNano).toBe(wallet);
    expect(book.window(ACCOUNT, payment.windowNano)?.availableNano).toBe(left);
    expect(book.verify()).toEqual([]);
  },
);

test.each([
  ["nothing, where that is paid by now", 4_000, 4_096],
  ["that, and not another slice", 5_000, 5_000],
])("a reply that has ended has set aside for all it came to: %s", async (_what, output, held) => {
  const { book, ledger, fund } = openBooks();
  await fund(DOLLAR);
  const hold = await ledger.hold(wish("req_1"));
  await hold.extend({ vendor: "lab", upstreamModel: "m", output, ended: true });
  // 1,100 tokens of input.
  expect(book.balance(ACCOUNT).heldNano).toBe(3_300_000n + BigInt(held) * 15_000n);
  // A round that follows grows by slices, as before.
  expect(await hold.extend({ vendor: "lab", upstreamModel: "m", output: held + 1 })).toBe(true);
  expect(book.balance(ACCOUNT).heldNano).toBe(3_300_000n + BigInt(held + 8_192) * 15_000n);
});

test("of requests that are settled in one commit, the later one takes of the window, and beyond what it holds of the wallet, what the earlier one has left", async () => {
  const { book, ledger, fund, store } = openBooks();
  await fund(DOLLAR);
  const payment = { ...PAYMENT, windowNano: 69_740_000n };
  const settle = async (settlements: Settlement[], windowed: boolean) => {
    const ids = settlements.map((_, at) => wish(`req_${windowed}_${at}`, windowed ? { payment } : {}));
    const holds = await Promise.all(ids.map((one) => ledger.hold(one)));
    await Promise.all(holds.map((hold, at) => hold.settle(settlements[at] as Settlement)));
  };
  // The first one sets 64,740,000 of the window aside, so that 5,000,000 are left for the second. Each comes to 15,000,000.
  await settle([cameTo(0, 1_000), cameTo(0, 1_000)], true);
  expect(book.balance(ACCOUNT).postedNano).toBe(DOLLAR);
  expect(book.window(ACCOUNT, payment.windowNano)?.availableNano).toBe(39_740_000n);
  // Of the wallet alone, the second one comes to 915,000,000, which is all that the first one leaves but 70,000,000.
  await settle([cameTo(0, 1_000), cameTo(300_000, 1_000)], false);
  expect(book.balance(ACCOUNT).postedNano).toBe(70_000_000n);
  expect(store.database.prepare("SELECT count(*) FROM ledger_entry WHERE kind = 'writeoff'").values()).toEqual([[0n]]);
  expect(book.verify()).toEqual([]);
});

test.each([
  ["what else is free of the window", 4_000, 0n, ["grant"]],
  ["a wallet that was never there, below zero", 8_000, -19_000_000n, ["grant"]],
  ["no more of it than the ledger lets, the rest is a loss", 18_000, -20_000_000n, ["writeoff", "grant"]],
])("a cost beyond what was held takes %s", async (_what, input, postedNano, kinds) => {
  const { book, ledger } = openBooks();
  const payment = { ...PAYMENT, windowNano: 20_000_000n + (input === 4_000 ? 10_000_000n : 0n) };
  const hold = await ledger.hold(wish("req_1", { payment, maxOutputTokens: 1_000 }));
  const costNano = BigInt(input) * 3_000n + 15_000_000n;
  const loss = kinds.includes("writeoff") ? costNano - 40_000_000n : 0n;
  expect(await hold.settle(cameTo(input, 1_000))).toEqual({
    ...{ costNano, chargedNano: costNano - loss, metered: true, flags: ["overrun"] },
  });
  expect(book.balance(ACCOUNT).postedNano).toBe(postedNano);
  expect(book.window(ACCOUNT, payment.windowNano)?.availableNano).toBe(
    payment.windowNano - (costNano - loss) - postedNano,
  );
  expect(book.entries(ACCOUNT).map(({ kind }) => kind)).toEqual(kinds as never);
  expect(book.verify()).toEqual([]);
});

test.each([
  ["a year", 365 * 86_400_000, 0, 85_000_000n],
  ["a little more than a minute", 60_001, 0, 85_000_000n],
  ["a minute, which is no matter", 60_000, 60_000, 70_000_000n],
])(
  "a clock that stood %s ahead leaves no window that lasts as long",
  async (_what, aheadMs, startsMs, availableNano) => {
    const { book, ledger, clock } = openBooks();
    const payment = { ...PAYMENT, windowNano: 100_000_000n };
    const now = clock.now();
    clock.setWall(now + aheadMs);
    await (await ledger.hold(wish("req_1", { payment }))).settle(cameTo(0, 1_000));
    clock.setWall(now);
    await (await ledger.hold(wish("req_2", { payment }))).settle(cameTo(0, 1_000));
    expect(book.window(ACCOUNT, payment.windowNano)).toMatchObject({ startedAtMs: now + startsMs, availableNano });
    expect(book.verify()).toEqual([]);
  },
);

test.each([false, true])(
  "a window that a clock ahead took for over, and emptied, has what it had once the clock is right; restarted: %p",
  async (restarts) => {
    const { book, ledger, clock, restart } = openBooks();
    const payment = { ...PAYMENT, windowNano: 100_000_000n };
    const spend = async (by: typeof ledger, id: string) =>
      (await by.hold(wish(id, { payment }))).settle(cameTo(0, 1_000));
    await spend(ledger, "req_1");
    const now = clock.now();
    for (const round of [1, 2]) {
      clock.setWall(now + round * 86_400_000);
      await spend(ledger, `req_ahead_${round}`);
      clock.setWall(now);
      await spend(restarts ? restart().ledger : ledger, `req_back_${round}`);
      const availableNano = 85_000_000n - BigInt(round) * 15_000_000n;
      expect(book.window(ACCOUNT, payment.windowNano)).toMatchObject({ startedAtMs: now, availableNano });
      expect(book.balance(ACCOUNT).postedNano).toBe(0n);
    }
    expect(book.verify()).toEqual([]);
  },
);

test("a lesser plan takes nothing away of a window that was opened before a restart", async () => {
  const { book, ledger, restart } = openBooks();
  const spend = async (by: typeof ledger, id: string, windowNano: bigint) =>
    (await by.hold(wish(id, { payment: { ...PAYMENT, windowNano } }))).settle(cameTo(0, 1_000));
  await spend(ledger, "req_1", 100_000_000n);
  await spend(restart().ledger, "req_2", 50_000_000n);
  expect(book.window(ACCOUNT, 50_000_000n)).toMatchObject({ grantNano: 100_000_000n, availableNano: 70_000_000n });
  expect(book.entries(ACCOUNT).map(({ kind }) => kind)).toEqual(["grant"]);
});

test("a better plan's window is shown as its next request finds it", async () => {
  const { book, ledger } = openBooks();
  const spend = async (id: string, windowNano: bigint) =>
    (await ledger.hold(wish(id, { payment: { ...PAYMENT, windowNano } }))).settle(cameTo(0, 1_000));
  await spend("req_1", 50_000_000n);
  const shown = { grantNano: 100_000_000n, availableNano: 85_000_000n, heldNano: 0n };
  expect(book.window(ACCOUNT, 100_000_000n)).toMatchObject(shown);
  expect(book.entries(ACCOUNT).map(({ kind }) => kind)).toEqual(["grant"]);
  await spend("req_2", 100_000_000n);
  expect(book.window(ACCOUNT, 100_000_000n)).toMatchObject({ ...shown, availableNano: 70_000_000n });
});

test("a window that is spent to the last leaves nothing that expires", async () => {
  const { book, ledger, clock, fund } = openBooks();
  await fund(DOLLAR);
  const payment = { ...PAYMENT, windowNano: 15_000_000n };
  await (await ledger.hold(wish("req_1", { payment }))).settle(cameTo(0, 1_000));
  expect(book.window(ACCOUNT, payment.windowNano)?.availableNano).toBe(0n);
  await clock.advance(18_000_000);
  await (await ledger.hold(wish("req_2", { payment }))).release();
  expect(book.entries(ACCOUNT).map(({ kind }) => kind)).toEqual(["grant", "grant", "deposit"]);
  expect(book.balance(ACCOUNT).postedNano).toBe(DOLLAR);
});

test.each([
  ["while its window is open is the window's", 0, 0n],
  ["once its window is over is the wallet's, whatever the window has left", 18_000_000, 8_700_000n],
])("what a request needs beyond its hold %s", async (_what, ms, paidNano) => {
  const { book, ledger, clock, fund } = openBooks();
  await fund(DOLLAR);
  const payment = { ...PAYMENT, windowNano: 100_000_000n };
  // Held: 1,100 tokens of input and all of the output.
  const hold = await ledger.hold(wish("req_1", { payment, maxOutputTokens: 1_000 }));
  await clock.advance(ms);
  await hold.settle(cameTo(4_000, 1_000));
  expect(DOLLAR - book.balance(ACCOUNT).postedNano).toBe(paidNano);
  expect(book.verify()).toEqual([]);
});

test("what one hold takes over of another stays held beside its own, which grows by its own, of the window first", async () => {
  const { book, ledger } = openBooks();
  const payment = { ...PAYMENT, windowNano: 100_000_000n };
  await book.deposit({ accountId: ACCOUNT, amountNano: DOLLAR, reference: "p" });
  const held = () => [book.window(ACCOUNT, payment.windowNano)?.heldNano, book.balance(ACCOUNT).heldNano];
  // 1,100 tokens of input and so many of output.
  const cost = (output: bigint) => 1_100n * 3_000n + output * 15_000n;
  const main = await ledger.hold(wish("req_1", { payment, maxOutputTokens: 8_000 }));
  const beside = await ledger.hold(wish("req_2", { payment, maxOutputTokens: 1 }));
  expect(held()).toEqual([cost(4_096n) + cost(1n), 0n]);
  await main.absorb?.(beside);
  expect(held()).toEqual([cost(4_096n) + cost(1n), 0n]);
  expect(await main.extend({ vendor: "lab", upstreamModel: "m", output: 3_600 })).toBe(true);
  expect(held()).toEqual([100_000_000n, cost(8_000n) + cost(1n) - 100_000_000n]);
  // What is held of both pays for both.
  await main.settle(cameTo(1_100, 8_000));
  expect(held()).toEqual([0n, 0n]);
  expect(book.balance(ACCOUNT).postedNano).toBe(DOLLAR - (cost(8_000n) - 100_000_000n));
});

test("a hold that is closed meanwhile neither grows nor takes anything over: what was set aside beside it is free again", async () => {
  const { book, ledger, fund } = openBooks();
  await fund(DOLLAR);
  const main = await ledger.hold(wish("req_1"));
  const beside = await ledger.hold(wish("req_2"));
  await main.settle(cameTo(100, 100));
  expect(main.extend({ vendor: "lab", upstreamModel: "m", output: 3_600 })).toBe(false);
  await main.absorb?.(beside);
  expect(book.balance(ACCOUNT).heldNano).toBe(0n);
});

test("of a hold of a later window no more is taken over than its wallet's part: the earlier one pays from its own", async () => {
  const { book, ledger, clock } = openBooks();
  const payment = { ...PAYMENT, windowNano: 50_000_000n };
  await book.deposit({ accountId: ACCOUNT, amountNano: DOLLAR, reference: "p" });
  const held = () => [book.window(ACCOUNT, payment.windowNano)?.heldNano, book.balance(ACCOUNT).heldNano];
  const slice = 1_100n * 3_000n + 4_096n * 15_000n;
  const whole = 1_100n * 3_000n + 8_000n * 15_000n;
  const main = await ledger.hold(wish("req_1", { payment, maxOutputTokens: 8_000 }));
  await clock.advance(18_000_000);
  const beside = await ledger.hold(wish("req_2", { payment, maxOutputTokens: 4_096 }));
  expect(held()).toEqual([50_000_000n, 2n * (slice - 50_000_000n)]);
  await main.absorb?.(beside);
  expect(held()).toEqual([0n, 2n * (slice - 50_000_000n)]);
  // Its window is over: what it needs more is the wallet's.
  expect(await main.extend({ vendor: "lab", upstreamModel: "m", output: 3_600 })).toBe(true);
  expect(held()).toEqual([0n, whole + slice - 100_000_000n]);
  await main.settle(cameTo(1_100, 8_000));
  expect(held()).toEqual([0n, 0n]);
  expect(book.balance(ACCOUNT).postedNano).toBe(DOLLAR - (whole - 50_000_000n));
  expect(book.window(ACCOUNT, payment.windowNano)?.availableNano).toBe(50_000_000n);
});

test("windows open once for requests that come together", async () => {
  const { book, ledger } = openBooks();
  const payment = { ...PAYMENT, windowNano: 2n * DOLLAR };
  const holds = await Promise.all(Array.from({ length: 20 }, (_, at) => ledger.hold(wish(`req_${at}`, { payment }))));
  expect(book.entries(ACCOUNT).map(({ kind }) => kind)).toEqual(["grant"]);
  await Promise.all(holds.map((hold) => hold.release()));
  expect(book.window(ACCOUNT, payment.windowNano)).toMatchObject({ availableNano: 2n * DOLLAR, heldNano: 0n });
});

test("a full disk: what cannot be charged is not charged, nothing more is begun, reads go on, and it heals by itself", async () => {
  const { book, ledger, fund, store } = openBooks();
  await fund(DOLLAR);
  const running = await ledger.hold(wish("req_running"));
  const pages = store.database.prepare<{ page_count: bigint }, []>("PRAGMA page_count").get()?.page_count;
  store.database.run(`PRAGMA max_page_count = ${pages}`);
  let charged = 0;
  for (;;) {
    const hold = await ledger.hold(wish(`req_${charged}`));
    const failed = await hold.settle(cameTo(1, 1)).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    if (failed) {
      expect(failed).toMatchObject({ fault: "disk-full" });
      break;
    }
    charged++;
  }
  const { heldNano, postedNano } = book.balance(ACCOUNT);
  expect(postedNano).toBe(DOLLAR - BigInt(charged) * 18_000n);
  expect(book.verify()).toEqual([]);
  await expect(running.settle(cameTo(1, 1))).rejects.toMatchObject({ fault: "disk-full" });
  expect(book.balance(ACCOUNT).heldNano).toBeLessThan(heldNano);
  store.database.run("PRAGMA max_page_count = 1073741823");
  await (await ledger.hold(wish("req_after"))).settle(cameTo(1, 1));
  expect(book.balance(ACCOUNT)).toEqual({
    postedNano: postedNano - 18_000n,
    heldNano: 0n,
    availableNano: postedNano - 18_000n,
  });
  expect(book.receipt("req_running")).toBeUndefined();
  expect(book.verify()).toEqual([]);
});

test("while nothing can be written, nothing that costs is begun", async () => {
  const { book, ledger, fund, writer } = openBooks();
  await fund(DOLLAR);
  const hold = await ledger.hold(wish("req_1"));
  const broken = () => Promise.reject(new StoreError("disk-full", "The disk is full."));
  const sound = writer.run;
  writer.run = broken;
  await expect(hold.settle(cameTo(1, 1))).rejects.toMatchObject({ fault: "disk-full" });
  await expect(ledger.hold(wish("req_2"))).rejects.toMatchObject({ fault: "disk-full" });
  expect(book.balance(ACCOUNT)).toEqual({ postedNano: DOLLAR, heldNano: 0n, availableNano: DOLLAR });
  writer.run = sound;
  await (await ledger.hold(wish("req_3"))).settle(cameTo(1, 1));
  // One charge that is wrong in itself does not stop the others.
  await expect((await ledger.hold(wish("req_3"))).settle(cameTo(1, 1))).rejects.toThrow("UNIQUE");
  writer.run = broken;
  expect(await ledger.hold(wish("req_4"))).toBeDefined();
});

test("a disk with room for a page and not for a charge is full: nothing that costs is begun, until there is room again", async () => {
  const { ledger, fund, store } = openBooks();
  await fund(DOLLAR);
  const limitTo = (pages: number) => store.database.run(`PRAGMA max_page_count = ${pages}`);
  await (await ledger.hold(wish("req_0"))).settle(cameTo(1, 1));
  const [size = [0n]] = store.database.prepare("PRAGMA page_count").values() as bigint[][];
  limitTo(Number(size[0]));
  const charge = async (at: number) => (await ledger.hold(wish(`req_${at}`))).settle(cameTo(1, 1));
  let at = 1;
  for (let written = true; written && at < 1_000; at++) written = await charge(at).then(Boolean, () => false);
  expect(at).toBeLessThan(1_000);
  for (const more of [0, 1, 2]) {
    limitTo(Number(size[0]) + more);
    await expect(ledger.hold(wish(`req_${at}`))).rejects.toMatchObject({ fault: "disk-full" });
  }
  limitTo(Number(size[0]) + 1_000);
  await charge(at);
  const [left = []] = store.database.prepare("SELECT count(*) FROM idempotency").values();
  expect(left).toEqual([0n]);
});

test("holds of one moment are written down together 50 ms after the first began, those that ended before are not, and after the stop none is", async () => {
  const { clock, ledger, fund, opened, store, writer } = openBooks();
  await fund(DOLLAR);
  const journal = async () => {
    await writer.run(() => undefined);
    return store.database.prepare("SELECT request_id FROM ledger_hold ORDER BY 1").values().flat();
  };
  const { pending } = clock;
  await ledger.hold(wish("req_1"));
  await clock.advance(30);
  await ledger.hold(wish("req_2"));
  await (await ledger.hold(wish("req_3"))).release();
  expect(clock.pending).toBe(pending + 1);
  await clock.advance(19);
  expect(await journal()).toEqual([]);
  await clock.advance(1);
  expect(await journal()).toEqual(["req_1", "req_2"]);
  expect(clock.pending).toBe(pending);
  await ledger.hold(wish("req_4"));
  opened.stop();
  await ledger.hold(wish("req_5"));
  expect(clock.pending).toBe(pending);
  await clock.advance(1_000);
  expect(await journal()).toEqual(["req_1", "req_2"]);
});

test("a request whose process died pays for the output that was told of; without any, what was written down is the operator's loss", async () => {
  const { book, clock, ledger, fund, store } = openBooks();
  await fund(DOLLAR);
  const rows = () =>
    store.database.query("SELECT request_id, outcome, estimated, output, cost_nano FROM usage").values();
  const losses = () =>
    book.entries(ACCOUNT).flatMap(({ kind, amountNano }) => (kind === "writeoff" ? [amountNano] : []));
  await (await ledger.hold(wish("req_1", { estimateInput: () => 999.5 }))).abandon?.();
  expect([rows(), losses()]).toEqual([[], []]);
  const unseen = await ledger.hold(wish("req_2", { estimateInput: () => 999.5 }));
  const seen = await ledger.hold(wish("req_3", { estimateInput: () => 999.5 }));
  await clock.advance(50);
  await unseen.abandon?.();
  expect([rows(), losses()]).toEqual([[], [3_000_000n]]);
  expect(await seen.extend({ vendor: "lab", upstreamModel: "m", output: 3_600 })).toBe(true);
  await seen.abandon?.();
  const costNano = 1_000n * 3_000n + 3_600n * 15_000n;
  expect(rows()).toEqual([["req_3", "interrupted", 1n, 3_600n, costNano]]);
  expect(store.database.query("SELECT duration_ms, attempts FROM usage").values()).toEqual([[50n, 1n]]);
  expect(losses()).toEqual([3_000_000n]);
  expect(book.balance(ACCOUNT)).toEqual({
    postedNano: DOLLAR - costNano,
    heldNano: 0n,
    availableNano: DOLLAR - costNano,
  });
  expect(store.database.query("SELECT count(*) FROM ledger_hold").values()).toEqual([[0n]]);
});

test.each([
  ["whole", {}, 1_000, "usage", undefined],
  ["broken off", { outcome: "interrupted" }, 1_000, "usage_partial", undefined],
  ["ended by its money", { ranOut: true }, 1_000, "usage", ["balance"]],
  ["of counts that cannot be", {}, 2_000, "usage", ["overrun", "usage_suspect"]],
] as const)("a reply is booked with what was the matter with it: %s", async (_what, more, output, kind, flags) => {
  const { ledger, fund, store } = openBooks();
  await fund(DOLLAR);
  const hold = await ledger.hold(wish("req_1", { maxOutputTokens: 1_000 }));
  const charge = await hold.settle(cameTo(1_000, output, more));
  // A twentieth beyond what was asked for is believed.
  const believed = Math.min(output, 1_050);
  const costNano = 3_000_000n + BigInt(believed) * 15_000n;
  expect(charge).toMatchObject({ costNano, chargedNano: costNano });
  expect([charge.flags, charge.believed?.output]).toEqual([flags as never, output > believed ? believed : undefined]);
  expect(store.database.query("SELECT output, flags > 0 FROM usage").values()).toEqual([
    [BigInt(believed), flags ? 1n : 0n],
  ]);
  expect(store.database.query("SELECT kind, amount FROM ledger_entry WHERE kind LIKE 'usage%'").values()).toEqual([
    [kind, costNano],
  ]);
});

test("the journal's row of a hold that could not be closed goes as soon as the store takes writes again", async () => {
  const { book, clock, faults, ledger, fund, store, writer } = openBooks();
  await fund(DOLLAR);
  const journal = () => store.database.prepare("SELECT request_id FROM ledger_hold ORDER BY 1").values().flat();
  const settled = await ledger.hold(wish("req_1"));
  const released = await ledger.hold(wish("req_2"));
  await ledger.hold(wish("req_3"));
  await clock.advance(50);
  await writer.run(() => undefined);
  expect(journal()).toEqual(["req_1", "req_2", "req_3"]);
  const full = new StoreError("disk-full", "The disk is full.");
  const { run, runSingle } = writer;
  writer.run = () => Promise.reject(full);
  writer.runSingle = () => Promise.reject(full);
  await expect(settled.settle(cameTo(1, 1))).rejects.toBe(full);
  await expect(released.release()).rejects.toBe(full);
  await clock.advance(2_000);
  expect(faults).toEqual([full]);
  Object.assign(writer, { run, runSingle });
  await clock.advance(2_000);
  await writer.run(() => undefined);
  // The request that still runs keeps its row, and nobody was charged.
  expect(journal()).toEqual(["req_3"]);
  expect(book.balance(ACCOUNT).postedNano).toBe(DOLLAR);
  expect(faults).toEqual([full]);
});

test("what one hold takes over of another is the journal's too: a crash finds it at the one that goes on", async () => {
  const { clock, ledger, fund, store, writer } = openBooks();
  await fund(DOLLAR);
  const main = await ledger.hold(wish("req_1"));
  const beside = await ledger.hold(wish("req_2"));
  const journal = async () => {
    await clock.advance(50);
    await writer.run(() => undefined);
    return store.database.prepare("SELECT request_id, wallet_nano FROM ledger_hold ORDER BY 1").values();
  };
  const each = 1_100n * 3_000n + 4_096n * 15_000n;
  expect(await journal()).toEqual([
    ["req_1", each],
    ["req_2", each],
  ]);
  await main.absorb?.(beside);
  expect(await journal()).toEqual([["req_1", 2n * each]]);
});

test("it goes with the stop of the server too, which would not be there to take it away later", async () => {
  const books = openBooks();
  const { book, clock, ledger, fund, opened, store, writer } = books;
  await fund(DOLLAR);
  const hold = await ledger.hold(wish("req_1"));
  hold.extend({ vendor: "lab", upstreamModel: "m", output: 3_600 });
  await clock.advance(50);
  await writer.run(() => undefined);
  const { run } = writer;
  writer.run = () => Promise.reject(new StoreError("disk-full", "The disk is full."));
  await expect(hold.settle(cameTo(1, 1))).rejects.toMatchObject({ fault: "disk-full" });
  Object.assign(writer, { run });
  opened.stop();
  await writer.close();
  expect(store.database.prepare("SELECT request_id FROM ledger_hold").values()).toEqual([]);
  expect(books.restart().start()).toEqual({ settled: 0, released: 0 });
  expect(book.balance(ACCOUNT).postedNano).toBe(DOLLAR);
});

test("a changed price is a new row, and what was charged keeps its own", async () => {
  const { book, ledger, fund } = openBooks();
  await fund(DOLLAR);
  const prices = (output: bigint) => ({
    model: "lab/usual",
    prices: { input: 1n, output, tiers: [{ above: 9, input: 2n, output: 3n }] },
  });
  for (const [at, output] of [10n, 10n, 20n, 10n].entries()) {
    await (await ledger.hold(wish(`req_${at}`, { prices: prices(output) }))).settle(cameTo(1, 1));
  }
  const ids = [0, 1, 2, 3].map((at) => book.receipt(`req_${at}`)?.price?.id);
  expect(ids[1]).toBe(ids[0] as number);
  expect(new Set(ids).size).toBe(3);
  expect(book.receipt("req_2")?.price).toMatchObject({ model: "lab/usual", prices: prices(20n).prices });
  expect(book.receipt("req_2", "acct_2")).toBeUndefined();
  expect(book.receipt("req_none")).toBeUndefined();
});

test("prices that are equal are one row, whoever read them, and asking for them again writes nothing", async () => {
  const { ledger, fund, store, writer } = openBooks();
  await fund(DOLLAR);
  const prices = (more: object = {}, tier: object = {}) => ({
    model: "lab/usual",
    prices: { input: 1n, output: 2n, ...more, tiers: [{ above: 9, input: 2n, output: 3n, ...tier }] },
  });
  const ids = async (read: ReturnType<typeof prices>) => {
    await (await ledger.hold(wish("req_1", { prices: read }))).release();
    return store.database.prepare<{ n: bigint }, []>("SELECT count(*) AS n FROM price").get()?.n;
  };
  expect(await ids(prices())).toBe(1n);
  const sound = writer.run;
  writer.run = () => Promise.reject(new Error("something was written"));
  expect(await ids(prices())).toBe(1n);
  writer.run = sound;
  const others = [
    prices({ output: 3n }),
    prices({ cacheRead: 1n }),
    prices({ cacheWrite: 1n }),
    prices({}, { above: 8 }),
  ];
  let rows = 1n;
  for (const other of [...others, prices({}, { input: 9n }), prices()]) expect(await ids(other)).toBe(++rows);
});

test("another process's deposit counts within 10 ms, and a commit that fails takes back what was read of it", async () => {
  const { book, clock, ledger, store, writer, restart } = openBooks();
  const other = restart().book;
  await expect(ledger.hold(wish("req_1"))).rejects.toMatchObject({ code: "insufficient_quota" });
  await other.deposit({ accountId: ACCOUNT, amountNano: DOLLAR, reference: "elsewhere" });
  await clock.advance(10);
  await (await ledger.hold(wish("req_2"))).release();
  // An operation that sees its own entry and is undone.
  const undone = writer.run(() => {
    store.database.run(`UPDATE ledger_account SET posted = 0 WHERE id = '${WALLET}'`);
    expect(book.balance(ACCOUNT).postedNano).toBe(0n);
    throw new Error("undone");
  });
  await expect(undone).rejects.toThrow("undone");
  expect(book.balance(ACCOUNT).postedNano).toBe(DOLLAR);
});

test.each(["settled", "closed by the next start"] as const)(
  "what another process takes from a wallet before a hold of it is written down is the operator's loss, and not a debt that keeps the next start from serving: %s",
  async (how) => {
    const { book, clock, ledger, store, fund, restart } = openBooks();
    await fund(DOLLAR);
    const hold = await ledger.hold(wish("req_1"));
    await restart().book.correct({ accountId: ACCOUNT, amountNano: -DOLLAR, reference: "back" });
    await clock.advance(10);
    expect(hold.extend({ vendor: "lab", upstreamModel: "m", output: 3_900 })).toBe(false);
    await clock.advance(40);
    if (how === "settled") await hold.settle(cameTo(1_000, 3_900));
    const next = restart();
    next.start();
    expect(book.balance(ACCOUNT).postedNano).toBe(-20_000_000n);
    expect(next.book.receipt("req_1")).toMatchObject({ row: { costNano: 61_500_000n, chargedNano: 20_000_000n } });
    const lost = store.database.prepare("SELECT sum(amount) FROM ledger_entry WHERE kind = 'writeoff'").values();
    expect(lost).toEqual([[41_500_000n]]);
    expect(book.verify()).toEqual([]);
  },
);

test("entries stay one chain when some of a batch are undone, when a whole batch is, and when another process writes between two", async () => {
  const { book, store, writer, restart } = openBooks();
  const post = (accountId: string, fails: boolean) =>
    writer.run(() => {
      const claim = { claimId: `${accountId}-${crypto.randomUUID()}`, accountId, keyId: "key_1", kind: "web" as const };
      book.claimUnits({ ...claim, units: 1, freeUnits: 0, unitNano: 1n });
      const usage = { dialect: "web", model: "m", vendor: "v", upstreamModel: "m", attempts: 1, durationMs: 1 };
      book.countUnits({ claimId: claim.claimId, used: 1, usage: { ...usage, outcome: "completed" } });
      if (fails) throw new Error("undone");
    });
  const other = restart().book;
  let payments = 0;
  const pay = (from = book) =>
    from.deposit({ accountId: ACCOUNT, amountNano: DOLLAR, reference: `payment-${payments++}` });
  const work = () => [pay(), post(ACCOUNT, false), post(ACCOUNT, true), post(ACCOUNT, false), pay()];
  const first = await Promise.allSettled(work());
  expect(first.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled", "fulfilled"]);
  await pay(other);
  // A commit that fails takes the whole batch with it.
  const full = writer.run(() => store.database.run("ROLLBACK"));
  expect((await Promise.allSettled([...work(), full])).every(({ status }) => status === "rejected")).toBe(true);
  await Promise.all([pay(), post(ACCOUNT, false)]);
  expect(store.database.query("SELECT count(*) AS n, max(seq) AS last FROM ledger_entry").get()).toEqual({
    n: 7n,
    last: 7n,
  });
  expect(book.verify()).toEqual([]);
});
