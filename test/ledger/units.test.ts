import { describe, expect, test } from "bun:test";
import { LedgerError } from "../../src/ledger/book.ts";
import { manualClock } from "../support/clock.ts";
import { ACCOUNT, type Books, openBooks, PAYMENT, wish } from "./books.ts";

const DOLLAR = 1_000_000_000n;
const UNIT = 20_000_000n;
const usage = {
  ...{ dialect: "images", model: "sluice/canvas", vendor: "sluice", upstreamModel: "canvas" },
  ...{ outcome: "completed" as const, attempts: 1, durationMs: 1 },
};

function claim(
  books: Books,
  claimId: string,
  more: { kind?: "image" | "web"; units?: number; free?: number | undefined; unit?: bigint | undefined } = {},
) {
  const { kind = "image", units = 1 } = more;
  const freeUnits = "free" in more ? more.free : 3;
  const unitNano = "unit" in more ? more.unit : UNIT;
  const order = { claimId, accountId: ACCOUNT, keyId: "key_1", kind, units, freeUnits, unitNano };
  return books.writer.run(() => books.book.claimUnits(order));
}
const count = (books: Books, claimId: string, used = 1, charge = true) =>
  books.writer.run(() => books.book.countUnits({ claimId, used, charge, usage }));
const giveBack = (books: Books, claimId: string) => books.writer.run(() => books.book.giveBackUnits(claimId));
const used = (books: Books) => books.book.allowance(ACCOUNT, "image", 3).used;

/** The code that a call is refused with. */
async function refused(call: Promise<unknown>): Promise<string> {
  const thrown: unknown = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(thrown).toBeInstanceOf(LedgerError);
  return (thrown as LedgerError).code;
}

test("the worked timeline of reliability 3.4: three images a day, then the wallet", async () => {
  const clock = manualClock(Date.UTC(2026, 4, 1, 10, 0, 0));
  const books = openBooks(clock);
  await books.fund(DOLLAR);
  const at = (hours: number, minutes: number, days = 0) => clock.setWall(Date.UTC(2026, 4, 1 + days, hours, minutes));
  expect((await claim(books, "A")).free).toBe(1);
  await count(books, "A");
  at(10, 5);
  await claim(books, "B");
  await giveBack(books, "B");
  expect(used(books)).toBe(1);
  at(10, 6);
  await claim(books, "C");
  await count(books, "C", 1, false);
  expect(used(books)).toBe(2);
  at(10, 7);
  await claim(books, "D");
  await giveBack(books, "D");
  at(10, 8);
  await claim(books, "E");
  await count(books, "E");
  expect(used(books)).toBe(3);
  at(10, 9);
  expect(await claim(books, "F")).toMatchObject({ free: 0, paid: 1 });
  expect(books.book.balance(ACCOUNT).heldNano).toBe(UNIT);
  expect((await count(books, "F")).chargedNano).toBe(UNIT);
  expect(used(books)).toBe(3);
  at(10, 10);
  await claim(books, "G");
  expect(await count(books, "G", 1, false)).toEqual({ counted: 1, costNano: 0n, chargedNano: 0n, repeated: false });
  expect(used(books)).toBe(4);
  expect(books.book.balance(ACCOUNT)).toEqual({
    postedNano: DOLLAR - UNIT,
    heldNano: 0n,
    availableNano: DOLLAR - UNIT,
  });
  clock.setWall(Date.UTC(2026, 4, 2, 10) - 1);
  expect(used(books)).toBe(4);
  // One more than the limit counts: when the oldest is forgotten, none is free yet.
  const next = (limit: number) => books.book.allowance(ACCOUNT, "image", limit).resetsAtMs;
  expect(next(3)).toBe(Date.UTC(2026, 4, 2, 10, 6));
  expect([next(5), next(1), next(0)]).toEqual([Date.UTC(2026, 4, 2, 10), Date.UTC(2026, 4, 2, 10, 10), undefined]);
  at(10, 0, 1);
  expect(books.book.allowance(ACCOUNT, "image", 3)).toEqual({
    limit: 3,
    used: 3,
    remaining: 0,
    resetsAtMs: Date.UTC(2026, 4, 2, 10, 6),
  });
  at(10, 6, 1);
  expect(books.book.allowance(ACCOUNT, "image", 3).remaining).toBe(1);
  expect(books.book.verify()).toEqual([]);
  const rows = books.store.query.query.usage.findMany().sync();
  expect(rows.map(({ requestId, units, chargedNano }) => [requestId, units, chargedNano])).toEqual([
    ["A", 1, 0n],
    ["C", 1, 0n],
    ["E", 1, 0n],
    ["F", 1, UNIT],
    ["G", 1, 0n],
  ]);
});

test("a web_fetch of ten URLs: three free, seven paid; what is not fetched is given back, the wallet's first", async () => {
  const clock = manualClock(Date.UTC(2026, 4, 1, 23, 0, 0));
  const books = openBooks(clock);
  await books.fund(100_000_000n);
  const web = { kind: "web", free: 20, unit: 10_000_000n } as const;
  await claim(books, "w1", { ...web, units: 17 });
  await count(books, "w1", 17);
  expect(await claim(books, "w2", { ...web, units: 10 })).toMatchObject({ free: 3, paid: 7 });
  expect(books.book.balance(ACCOUNT).heldNano).toBe(70_000_000n);
  expect(await count(books, "w2", 8)).toEqual({
    counted: 3,
    costNano: 50_000_000n,
    chargedNano: 50_000_000n,
    repeated: false,
  });
  expect(books.book.balance(ACCOUNT)).toEqual({ postedNano: 50_000_000n, heldNano: 0n, availableNano: 50_000_000n });
  // All or nothing: six more are not affordable, and nothing of them is taken.
  expect(await refused(claim(books, "w3", { ...web, units: 6 }))).toBe("insufficient");
  expect(books.book.balance(ACCOUNT).heldNano).toBe(0n);
  // The day of web calls is the UTC day.
  expect(books.book.allowance(ACCOUNT, "web", 20)).toMatchObject({ used: 20, resetsAtMs: Date.UTC(2026, 4, 2) });
  clock.setWall(Date.UTC(2026, 4, 2));
  expect(books.book.allowance(ACCOUNT, "web", 20).used).toBe(0);
  expect(books.book.verify()).toEqual([]);
});

describe("free units that come back", () => {
  const start = async () => {
    const clock = manualClock(Date.UTC(2026, 4, 1, 10));
    const books = openBooks(clock);
    await books.fund(DOLLAR);
    for (const id of ["A", "B", "C"]) await claim(books, id);
    return { clock, books };
  };

  test("whoever was to pay while others held them has them, as many as came back", async () => {
    const { clock, books } = await start();
    await clock.advance(1_000);
    for (const id of ["D", "E", "F"]) expect(await claim(books, id)).toMatchObject({ free: 0, paid: 1 });
    await giveBack(books, "A");
    await giveBack(books, "B");
    expect(await count(books, "D")).toEqual({ counted: 1, costNano: 0n, chargedNano: 0n, repeated: false });
    expect(await count(books, "C")).toEqual({ counted: 1, costNano: 0n, chargedNano: 0n, repeated: false });
    expect(await count(books, "E")).toEqual({ counted: 1, costNano: 0n, chargedNano: 0n, repeated: false });
    expect(await count(books, "F")).toEqual({ counted: 0, costNano: UNIT, chargedNano: UNIT, repeated: false });
    expect(used(books)).toBe(3);
    expect(books.book.balance(ACCOUNT)).toEqual({
      postedNano: DOLLAR - UNIT,
      heldNano: 0n,
      availableNano: DOLLAR - UNIT,
    });
    expect(books.book.verify()).toEqual([]);
  });

  test("a claim made since has them first; what came free by time alone is not meant", async () => {
    const { clock, books } = await start();
    await claim(books, "D");
    await giveBack(books, "A");
    expect(await claim(books, "E")).toMatchObject({ free: 1, paid: 0 });
    expect((await count(books, "D")).chargedNano).toBe(UNIT);
    for (const id of ["B", "C", "E"]) await count(books, id);
    await claim(books, "F");
    clock.setWall(Date.UTC(2026, 4, 2, 10) + 1);
    expect(used(books)).toBe(0);
    expect((await count(books, "F")).chargedNano).toBe(UNIT);
    expect(books.book.verify()).toEqual([]);
  });

  test("web calls: units of a call that others gave back on its day", async () => {
    const { clock, books } = await start();
    const web = { kind: "web", free: 3 } as const;
    await claim(books, "w1", { ...web, units: 3 });
    expect(await claim(books, "w2", { ...web, units: 4 })).toMatchObject({ free: 0, paid: 4 });
    await count(books, "w1", 1);
    clock.setWall(Date.UTC(2026, 4, 2));
    // The calls of the day after are of another allowance.
    expect(await claim(books, "w3", { ...web, units: 3 })).toMatchObject({ free: 3, paid: 0 });
    expect(await count(books, "w2", 3)).toEqual({ counted: 2, costNano: UNIT, chargedNano: UNIT, repeated: false });
    expect(books.book.verify()).toEqual([]);
  });
});

describe("claims", () => {
  test("where units cannot be paid for, the allowance is the end", async () => {
    const books = openBooks();
    await books.fund(DOLLAR);
    for (const id of ["a", "b", "c"]) await claim(books, id, { unit: undefined });
    expect(await refused(claim(books, "d", { unit: undefined }))).toBe("allowance_exhausted");
    await giveBack(books, "a");
    expect((await claim(books, "d", { unit: undefined })).free).toBe(1);
  });

  test("without a limit they are counted, and nothing is paid", async () => {
    const books = openBooks();
    expect(await claim(books, "a", { units: 50, free: undefined })).toMatchObject({ free: 50, paid: 0 });
    expect(await count(books, "a", 50)).toMatchObject({ counted: 50, chargedNano: 0n });
  });

  test("the first end counts, whatever follows", async () => {
    const books = openBooks();
    await books.fund(DOLLAR);
    await claim(books, "a", { free: 0 });
    expect(await refused(claim(books, "a"))).toBe("claimed");
    const first = await count(books, "a");
    expect(await count(books, "a")).toEqual({ ...first, repeated: true });
    expect(await giveBack(books, "a")).toEqual({ ...first, repeated: true });
    expect(await refused(giveBack(books, "nobody"))).toBe("no_claim");
    await claim(books, "b", { free: 0 });
    await giveBack(books, "b");
    expect(await count(books, "b")).toEqual({ counted: 0, costNano: 0n, chargedNano: 0n, repeated: true });
    expect(books.book.balance(ACCOUNT).postedNano).toBe(DOLLAR - UNIT);
    expect(books.book.openClaims("image")).toEqual([]);
  });

  test("a claim shares its operation's fate", async () => {
    const books = openBooks();
    await books.fund(DOLLAR);
    const order = { accountId: ACCOUNT, keyId: "k", kind: "image", units: 1, freeUnits: 0, unitNano: UNIT } as const;
    const failing = books.writer.run(() => {
      books.book.claimUnits({ ...order, claimId: "a" });
      throw new Error("the job could not be written");
    });
    await expect(failing).rejects.toThrow("the job");
    expect(books.book.balance(ACCOUNT).heldNano).toBe(0n);
    expect(books.book.openClaims("image")).toEqual([]);
  });

  test("units and tokens do not take each other's money, and the window is for tokens alone", async () => {
    const books = openBooks();
    await books.fund(UNIT);
    const payment = { ...PAYMENT, windowNano: DOLLAR };
    const inWindow = await books.ledger.hold(wish("req_1", { payment }));
    await claim(books, "a", { free: 0 });
    await inWindow.release();
    // The wallet is held by the claim: nothing is left for tokens.
    const unpaid = async () => books.ledger.hold(wish("req_2"));
    await expect(unpaid()).rejects.toMatchObject({ code: "insufficient_quota" });
    await giveBack(books, "a");
    const ofWallet = await books.ledger.hold(wish("req_3", { estimateInput: () => 1, maxOutputTokens: 1_000 }));
    expect(await refused(claim(books, "b", { free: 0 }))).toBe("insufficient");
    await ofWallet.release();
    expect((await claim(books, "b", { free: 0 })).paid).toBe(1);
  });

  test.each([0, -1, 1.5, 1_001, Number.NaN])("%d units are no claim", async (units) => {
    const books = openBooks();
    expect(await refused(claim(books, "a", { units }))).toBe("bad_amount");
    await claim(books, "b", { units: 2 });
    expect(await refused(count(books, "b", units === 0 ? 3 : units))).toBe("bad_amount");
  });
});
