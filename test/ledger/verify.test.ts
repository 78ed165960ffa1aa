import { describe, expect, test } from "bun:test";
import { StoreError } from "../../src/db/store-error.ts";
import { ACCOUNT, type Books, cameTo, openBooks, PAYMENT, WALLET, wish } from "./books.ts";

/** Books with a bit of everything, all of it right. */
async function fullBooks(): Promise<Books> {
  const books = openBooks();
  await books.fund(1_000_000_000n);
  const payment = { ...PAYMENT, windowNano: 20_000_000n };
  for (let at = 0; at < 4; at++) {
    const hold = await books.ledger.hold(wish(`req_${at}`, { payment }));
    await hold.settle(cameTo(1_000, 200));
  }
  const claim = {
    accountId: ACCOUNT,
    keyId: "key_1",
    kind: "image",
    units: 1,
    freeUnits: 0,
    unitNano: 20_000_000n,
  } as const;
  const usage = {
    dialect: "images",
    model: "m",
    vendor: "v",
    upstreamModel: "m",
    outcome: "completed",
    attempts: 1,
    durationMs: 1,
  } as const;
  await books.writer.run(() => books.book.claimUnits({ ...claim, claimId: "job_1" }));
  await books.writer.run(() => books.book.countUnits({ claimId: "job_1", used: 1, usage }));
  await books.writer.run(() => books.book.claimUnits({ ...claim, claimId: "job_2" }));
  expect(books.book.verify()).toEqual([]);
  return books;
}

/** Changes rows behind the ledger's back, past the triggers that forbid it. */
function tamper({ store }: Books, ...statements: string[]): void {
  for (const trigger of [
    "ledger_entry_no_update",
    "ledger_entry_no_delete",
    "usage_no_update",
    "usage_no_delete",
    "price_no_update",
  ]) {
    store.database.run(`DROP TRIGGER ${trigger}`);
  }
  store.database.run("PRAGMA foreign_keys = OFF");
  for (const statement of statements) store.database.run(statement);
}

const HOLD = `INSERT INTO ledger_hold VALUES ('req_0', 'b', '${ACCOUNT}', 'k', 'chat', 1, 'm', 'v', 'm', NULL, 0, 1, 1, 1, 0, 1, 9000000000000)`;

describe("verify finds", () => {
  test.each([
    ["I1", "a balance that is not its entries'", "UPDATE ledger_account SET posted = posted + 1 WHERE kind = 'wallet'"],
    ["I1", "an entry of another amount", "UPDATE ledger_entry SET amount = amount + 1 WHERE seq = 1"],
    ["I2", "money held for nothing", `UPDATE ledger_account SET held = held + 1 WHERE id = '${WALLET}'`],
    ["I2", "a claim whose money is not held", `UPDATE ledger_account SET held = 0 WHERE id = '${WALLET}'`],
    ["I3", "an overdrawn wallet", `UPDATE ledger_account SET posted = -20000001 WHERE id = '${WALLET}'`],
    ["I3", "an overdrawn window", "UPDATE ledger_account SET posted = -1 WHERE kind = 'window'"],
    ["I4", "money from nowhere", "UPDATE ledger_account SET posted = posted + 1 WHERE id = 'house:funding'"],
    ["I5", "a settled request whose hold is open", HOLD],
    ["I5", "a charge without its entry", "UPDATE usage SET charged_nano = charged_nano - 1 WHERE request_id = 'req_1'"],
    [
      "I5",
      "an entry that was moved to another request",
      "UPDATE ledger_entry SET request_id = 'req_x' WHERE request_id = 'req_2'",
    ],
    ["I6", "a charge beyond its cost", "UPDATE usage SET cost_nano = cost_nano - 1 WHERE request_id = 'req_1'"],
    [
      "I6",
      "a loss that leaves a part of the cost nowhere",
      "UPDATE ledger_entry SET kind = 'writeoff' WHERE request_id = 'req_1'; UPDATE usage SET charged_nano = 0, cost_nano = cost_nano + 1 WHERE request_id = 'req_1'",
    ],
    ["I7", "a hold that was forgotten", HOLD.replace("req_0", "req_9").replace("9000000000000", "1")],
    ["I8", "an image that was paid twice", "UPDATE unit_claim SET charged = charged * 2 WHERE id = 'job_1'"],
    ["I9", "a remark that was changed", "UPDATE ledger_entry SET detail = 'x' WHERE seq = 2"],
    ["I9", "an entry that is gone", "DELETE FROM ledger_entry WHERE seq = 2"],
    ["I9", "a time that was changed", "UPDATE ledger_entry SET at_ms = at_ms + 1 WHERE seq = 3"],
    ["I10", "other tokens than were charged", "UPDATE usage SET output = output + 1 WHERE request_id = 'req_0'"],
    ["I10", "another price than was charged", "UPDATE price SET output = output + 1"],
    ["I10", "a price that is gone", "UPDATE usage SET price_id = 99 WHERE request_id = 'req_0'"],
  ])("%s: %s", async (invariant, _, statement) => {
    const books = await fullBooks();
    tamper(books, statement);
    expect(books.book.verify().map((breach) => breach.invariant)).toContain(invariant);
    // And the start stops, but for a hold of a dead process: that is what it closes.
    if (invariant === "I7") return;
    const start = () => books.restart().start();
    expect(start).toThrow(StoreError);
    expect(start).toThrow("Restore it from a backup");
  });

  test("it before anything is written to books that are wrong", async () => {
    const books = await fullBooks();
    const rowsIn = (table: string) => books.store.database.prepare(`SELECT count(*) FROM ${table}`).values()[0]?.[0];
    // A hold of the dead process, and an entry that somebody changed.
    const hold = HOLD.replace("req_0", "req_9").replace("9000000000000", "1");
    tamper(books, hold, "UPDATE ledger_entry SET detail = 'x' WHERE seq = 2");
    const before = [rowsIn("ledger_entry"), rowsIn("usage"), rowsIn("ledger_hold")];
    expect(() => books.restart().start()).toThrow("Restore it from a backup");
    expect([rowsIn("ledger_entry"), rowsIn("usage"), rowsIn("ledger_hold")]).toEqual(before);
  });

  test("all of it also where only the newest rows are looked at", async () => {
    const books = await fullBooks();
    tamper(books, "UPDATE usage SET charged_nano = charged_nano - 1 WHERE request_id = 'req_3'");
    expect(books.book.verify({ last: 2 }).map(({ invariant }) => invariant)).toEqual(["I5"]);
    // What lies before them is left to the doctor.
    const older = await fullBooks();
    tamper(older, "UPDATE ledger_entry SET detail = 'x' WHERE seq = 1");
    expect(older.book.verify({ last: 2 })).toEqual([]);
    expect(older.book.verify()).not.toEqual([]);
  });

  test("no more than a hundred breaches", async () => {
    const books = openBooks();
    await books.fund(1_000_000_000n);
    for (let at = 0; at < 120; at++) await (await books.ledger.hold(wish(`req_${at}`))).settle(cameTo(1, 1));
    tamper(books, "UPDATE usage SET output = 2");
    expect(books.book.verify()).toHaveLength(100);
  });
});

test("entries and prices cannot be changed or removed, and no entry is of nothing or to itself", async () => {
  const { store } = await fullBooks();
  for (const [statement, reason] of [
    ["UPDATE ledger_entry SET amount = 1", "never changed"],
    ["DELETE FROM ledger_entry", "never removed"],
    ["UPDATE price SET input = 1", "never changed"],
    ["DELETE FROM price", "never removed"],
    [
      `INSERT INTO ledger_entry SELECT seq + 100, at_ms, kind, debit, credit, 0, owner, 'r1', NULL, NULL, hash FROM ledger_entry LIMIT 1`,
      "CHECK",
    ],
    [
      `INSERT INTO ledger_entry SELECT seq + 100, at_ms, kind, debit, debit, 1, owner, 'r1', NULL, NULL, hash FROM ledger_entry LIMIT 1`,
      "CHECK",
    ],
    [
      `INSERT INTO ledger_entry SELECT seq + 100, at_ms, kind, debit, 'wallet:nobody', 1, owner, 'r1', NULL, NULL, hash FROM ledger_entry LIMIT 1`,
      "FOREIGN KEY",
    ],
    [
      `INSERT INTO ledger_entry SELECT seq + 100, at_ms, kind, debit, credit, 1.5, owner, 'r1', NULL, NULL, hash FROM ledger_entry LIMIT 1`,
      "REAL value",
    ],
  ] as const) {
    expect(() => store.database.run(statement)).toThrow(reason);
  }
});
