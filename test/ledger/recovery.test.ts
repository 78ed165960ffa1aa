import { expect, test } from "bun:test";
import { usage } from "../../src/db/schema.ts";
import { ledgerHold } from "../../src/db/schema-ledger.ts";
import type { Writer } from "../../src/db/writer.ts";
import { HoldJournal } from "../../src/ledger/hold-journal.ts";
import { summarise, sumUp } from "../../src/ledger/usage-report.ts";
import { manualClock } from "../support/clock.ts";
import { ACCOUNT, type Books, cameTo, openBooks, PAYMENT, wish } from "./books.ts";

const DOLLAR = 1_000_000_000n;
const rowsOf = ({ store }: Books) => store.query.select().from(usage).all();
const holdsOf = ({ store }: Books) => store.query.select().from(ledgerHold).all();
const entriesOf = (books: Books, kind: string) => books.book.entries(ACCOUNT).filter((entry) => entry.kind === kind);

/** Lets the journal write what it has. */
async function journal(books: Books): Promise<void> {
  await books.clock.advance(100);
  await books.writer.run(() => undefined);
}

test("a request that ends within some milliseconds leaves no trace in the journal", async () => {
  const books = openBooks();
  await books.fund(DOLLAR);
  const hold = await books.ledger.hold(wish("req_1"));
  await hold.settle(cameTo(10, 10));
  const released = await books.ledger.hold(wish("req_2"));
  await released.release();
  await journal(books);
  expect(holdsOf(books)).toEqual([]);
  expect(rowsOf(books)).toHaveLength(1);
  expect(books.book.balance(ACCOUNT)).toEqual({
    postedNano: DOLLAR - 180_000n,
    heldNano: 0n,
    availableNano: DOLLAR - 180_000n,
  });
});

test("what requests hold of a window and of a wallet is known to a command beside their server, too", async () => {
  const books = openBooks();
  await books.fund(DOLLAR);
  const payment = { ...PAYMENT, windowNano: 20_000_000n };
  const hold = await books.ledger.hold(wish("req_1", { payment }));
  await journal(books);
  const { book } = books.restart();
  const window = books.book.window(ACCOUNT, payment.windowNano);
  expect(window).toMatchObject({ availableNano: 0n, heldNano: 20_000_000n });
  expect(book.window(ACCOUNT, payment.windowNano)).toEqual(window);
  expect(book.balance(ACCOUNT)).toEqual(books.book.balance(ACCOUNT));
  await hold.release();
  expect(book.window(ACCOUNT, payment.windowNano)).toMatchObject({ availableNano: 20_000_000n, heldNano: 0n });
});

test("a longer one is written down, and gone with its settle or release", async () => {
  const books = openBooks();
  await books.fund(DOLLAR);
  const settled = await books.ledger.hold(wish("req_1"));
  const released = await books.ledger.hold(wish("req_2"));
  await journal(books);
  expect(holdsOf(books).map(({ requestId, seenOutput }) => [requestId, seenOutput])).toEqual([
    ["req_1", 0],
    ["req_2", 0],
  ]);
  settled.extend({ vendor: "lab", upstreamModel: "m", output: 3_600 });
  await journal(books);
  expect(holdsOf(books)[0]).toMatchObject({ requestId: "req_1", seenOutput: 3_600, vendor: "lab" });
  await settled.settle(cameTo(10, 10));
  await released.release();
  expect(holdsOf(books)).toEqual([]);
  expect(books.faults).toEqual([]);
});

test("one that is let go while its row waits to be written gets none", async () => {
  const { store } = openBooks();
  const clock = manualClock();
  const waiting: (() => unknown)[] = [];
  const writer = { run: (operation: () => unknown) => Promise.resolve(waiting.push(operation)) } as unknown as Writer;
  const journal = new HoldJournal(store, writer, clock, "boot", (thrown) => expect(thrown).toBeUndefined());
  const open = (requestId: string) => ({
    ...{ request: wish(requestId), createdAt: 1, priceId: 1, estimatedInput: 1, windowId: undefined, windowNano: 0n },
    ...{ walletNano: 1n, reading: { vendor: "", upstreamModel: "", output: 0 }, closing: false, written: false },
  });
  const [first, second] = [open("req_1"), open("req_2")];
  for (const hold of [first, second]) journal.note(hold);
  await clock.advance(50);
  first.closing = true;
  for (const operation of waiting) operation();
  expect(holdsOf({ store } as Books).map(({ requestId }) => requestId)).toEqual(["req_2"]);
  expect([first.written, second.written]).toEqual([false, true]);
});

test("what was seen of a reply is charged by the next start, to the nano, and never more than was held", async () => {
  const books = openBooks();
  await books.fund(DOLLAR);
  const payment = { ...PAYMENT, windowNano: 30_000_000n };
  const hold = await books.ledger.hold(wish("req_1", { payment }));
  hold.extend({ vendor: "lab", upstreamModel: "m", output: 3_600 });
  await journal(books);
  expect(books.restart().start()).toEqual({ settled: 1, released: 0 });
  const cost = 1_000n * 3_000n + 3_600n * 15_000n;
  expect(rowsOf(books)).toMatchObject([
    {
      ...{ requestId: "req_1", outcome: "interrupted", input: 1_000, output: 3_600, estimated: true, vendor: "lab" },
      ...{ costNano: cost, chargedNano: cost, accountId: ACCOUNT, keyId: "key_1", stream: true },
    },
  ]);
  expect(books.book.receipt("req_1")?.legs).toEqual([
    { from: "window", amountNano: 30_000_000n },
    { from: "wallet", amountNano: cost - 30_000_000n },
  ]);
  // A second start finds nothing; a late settle of the dead process changes nothing.
  expect(books.restart().start()).toEqual({ settled: 0, released: 0 });
  expect(books.book.verify()).toEqual([]);
  await expect(hold.settle(cameTo(1, 1))).rejects.toThrow("UNIQUE");
});

/** Postings of charges and losses, oldest first. */
const postingsOf = ({ store }: Books) =>
  store.database
    .query("SELECT kind, debit, credit, amount FROM ledger_entry WHERE kind NOT IN ('deposit', 'grant') ORDER BY seq")
    .values();

test("what was seen beyond what was held is the operator's loss, and the sums tell what the row does", async () => {
  const books = openBooks();
  await books.fund(DOLLAR);
  await books.ledger.hold(wish("req_1", { stream: false }));
  await journal(books);
  books.store.database.run("UPDATE ledger_hold SET seen_output = 8000, vendor = 'lab', upstream_model = 'm'");
  // The next start's clock stands behind.
  books.clock.setWall(books.clock.now() - 3_600_000);
  expect(books.restart().start()).toEqual({ settled: 1, released: 0 });
  const held = 1_100n * 3_000n + 4_096n * 15_000n;
  const costNano = 1_000n * 3_000n + 8_000n * 15_000n;
  const told = { costNano, chargedNano: held };
  expect(rowsOf(books)).toMatchObject([{ ...told, stream: false, durationMs: 0 }]);
  expect(sumUp(await summarise(books.store, { groupBy: "day" }))).toMatchObject({
    ...told,
    requests: 1,
    output: 8_000,
  });
  expect(postingsOf(books)).toEqual([
    ["usage_partial", "wallet:acct_1", "house:revenue", held],
    ["writeoff", "house:loss", "house:revenue", costNano - held],
  ]);
  expect(books.book.balance(ACCOUNT).postedNano).toBe(DOLLAR - held);
  expect(books.book.verify()).toEqual([]);
});

test("what a window holds is the window's alone, and what costs nothing is no posting", async () => {
  const books = openBooks();
  const payment = { ...PAYMENT, windowNano: 100_000_000n };
  await books.ledger.hold(wish("req_1", { payment }));
  const prices = { model: "lab/usual", prices: { input: 0n, output: 15_000_000n } };
  await books.ledger.hold(wish("req_2", { payment, prices, maxOutputTokens: 10 }));
  await journal(books);
  books.store.database.run("UPDATE ledger_hold SET seen_output = 10 WHERE request_id = 'req_1'");
  // Those of a process that runs are its own.
  expect(books.opened.start()).toEqual({ settled: 0, released: 0 });
  expect(books.restart().start()).toEqual({ settled: 1, released: 1 });
  const [window] = books.store.database.query("SELECT id FROM ledger_account WHERE kind = 'window'").values();
  expect(postingsOf(books)).toEqual([["usage_partial", ...(window ?? []), "house:revenue", 3_150_000n]]);
  expect(books.book.verify()).toEqual([]);
});

test("a request of which nothing was seen is let go, and what it may have cost is the operator's loss", async () => {
  const books = openBooks();
  await books.fund(DOLLAR);
  await books.ledger.hold(wish("req_1"));
  await journal(books);
  expect(books.restart().start()).toEqual({ settled: 0, released: 1 });
  expect(rowsOf(books)).toEqual([]);
  expect(entriesOf(books, "writeoff")).toMatchObject([
    { debit: "house:loss", amountNano: 3_000_000n, requestId: "req_1" },
  ]);
  expect(books.store.database.prepare("SELECT posted FROM ledger_account WHERE id = 'wallet:acct_1'").values()).toEqual(
    [[DOLLAR]],
  );
  expect(books.book.verify()).toEqual([]);
});

test("a thousand of them are closed at once, each in its own way", async () => {
  const books = openBooks();
  await books.fund(DOLLAR * 1_000n);
  for (let at = 0; at < 1_100; at++) {
    const hold = await books.ledger.hold(wish(`req_${at}`));
    if (at % 2 === 0) hold.extend({ vendor: "lab", upstreamModel: "m", output: 3_600 });
  }
  await journal(books);
  for (let round = 0; round < 5; round++) await journal(books);
  expect(books.restart().start()).toEqual({ settled: 550, released: 550 });
  expect(holdsOf(books)).toEqual([]);
  expect(books.book.verify()).toEqual([]);
});
