import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { openStore } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { openLedger } from "../../src/ledger/open-ledger.ts";
import { cutRange } from "../../src/ledger/rollup-range.ts";
import { type Place, readUsagePage } from "../../src/ledger/usage-page.ts";
import {
  GROUPINGS,
  ofRows,
  ofSums,
  sliceStatements,
  summarise,
  sumUp,
  type UsageFilter,
} from "../../src/ledger/usage-report.ts";
import type { UsageRow } from "../../src/ledger/usage-rows.ts";
import { DAY_MS, HOUR_MS } from "../../src/lib/spans.ts";
import { startApp } from "../support/app.ts";
import { insideOnly } from "../support/black-box-config.ts";
import { planOf } from "../support/query-plans.ts";
import { type TestRow, usageWriter } from "./usage-rows.ts";

const DAY_0 = Date.UTC(2026, 0, 1);

async function storeWith(rows: readonly TestRow[]) {
  const store = openStore(":memory:");
  const writer = new Writer(store);
  const write = usageWriter(store, writer);
  await Promise.all(rows.map(write));
  return { store, write };
}

/** A time within five days, often at the edge of an hour or a day, and often in one hour with others, or in one millisecond. */
const time = fc
  .oneof(
    fc.integer({ min: 0, max: 5 }).map((ms) => 30 * HOUR_MS + ms),
    fc
      .integer({ min: 0, max: 5 * 24 })
      .chain((hour) => fc.integer({ min: -1, max: 1 }).map((ms) => hour * HOUR_MS + ms)),
    fc.integer({ min: 0, max: 5 * DAY_MS }),
  )
  .map((offset) => DAY_0 + Math.max(0, offset));

const rowOf = fc.record({
  atMs: time,
  accountId: fc.constantFrom("acct_1", "acct_2"),
  keyId: fc.constantFrom("key_1", "key_2", "key_3"),
  model: fc.constantFrom("a/x", "b/y", "c/z"),
  input: fc.nat(1000),
  output: fc.nat(1000),
  estimated: fc.boolean(),
  costNano: fc.option(fc.bigInt({ min: 0n, max: 10n ** 15n })),
  chargedNano: fc.bigInt({ min: 0n, max: 10n ** 15n }),
});
const rowsOf = (maxLength: number) =>
  fc.array(rowOf, { maxLength }).map((rows) => rows.map((row, at): TestRow => ({ ...row, requestId: `req_${at}` })));

const some = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 2 });
const filterOf = fc.record({
  accountId: some(fc.constantFrom("acct_1", "acct_2", "acct_9")),
  keyId: some(fc.constantFrom("key_1", "key_2")),
  model: some(fc.constantFrom("a/x", "b/y")),
  sinceMs: some(time),
  untilMs: some(time),
});

const fits = (row: TestRow, { accountId, keyId, model, sinceMs = 0, untilMs = Infinity }: UsageFilter) =>
  (accountId === undefined || row.accountId === accountId) &&
  (keyId === undefined || row.keyId === keyId) &&
  (model === undefined || row.model === model) &&
  row.atMs >= sinceMs &&
  row.atMs < untilMs;

const GROUP = {
  day: (row: TestRow) => new Date(row.atMs).toISOString().slice(0, 10),
  model: (row: TestRow) => row.model,
  key: (row: TestRow) => row.keyId,
  account: (row: TestRow) => row.accountId,
} as const;

/** The same report by adding up row for row. */
function byHand(rows: readonly TestRow[], groupBy: keyof typeof GROUP) {
  const groups = Object.groupBy(rows, GROUP[groupBy]);
  return Object.entries(groups)
    .map(([group, members = []]) => {
      const sum = (of: (row: TestRow) => number) => members.reduce((total, row) => total + of(row), 0);
      const nano = (of: (row: TestRow) => bigint) => members.reduce((total, row) => total + of(row), 0n);
      return {
        group,
        label: group,
        requests: members.length,
        estimated: sum((row) => Number(row.estimated)),
        unpriced: sum((row) => Number(row.costNano == null)),
        input: sum((row) => row.input ?? 0),
        cacheRead: 2 * members.length,
        cacheWrite: 3 * members.length,
        output: sum((row) => row.output ?? 0),
        reasoning: sum((row) => Math.min(1, row.output ?? 0)),
        units: 0,
        costNano: nano((row) => row.costNano ?? 0n),
        chargedNano: nano((row) => row.chargedNano ?? 0n),
      };
    })
    .sort((a, b) => (a.group < b.group ? -1 : 1));
}

describe("a report", () => {
  test("the law: the sums tell what the rows tell, whatever is asked", async () => {
    const groupBy = fc.constantFrom("day", "model", "key", "account");
    const law = fc.asyncProperty(rowsOf(40), filterOf, groupBy, async (rows, filter, by) => {
      const { store } = await storeWith(rows);
      const expected = byHand(
        rows.filter((row) => fits(row, filter)),
        by,
      );
      const found = await summarise(store, { ...filter, groupBy: by });
      expect(found).toEqual(expected);
      expect(sumUp(found).requests).toBe(rows.filter((row) => fits(row, filter)).length);
      store.close();
    });
    await fc.assert(law, { numRuns: 60 });
  });

  test("a key and an account are labelled with their names", async () => {
    const { store } = await storeWith([
      { requestId: "r1", atMs: DAY_0, accountId: "acct_1", keyId: "key_1", model: "a/x" },
      { requestId: "r2", atMs: DAY_0, accountId: "acct_1", keyId: "key_gone", model: "a/x" },
    ]);
    store.database.run("INSERT INTO account (id, name, plan, created_at) VALUES ('acct_1', 'team', 'local', 1)");
    store.database.run(
      `INSERT INTO api_key (hash, id, account_id, kind, name, prefix, last4, created_at)
        VALUES (x'${"ab".repeat(32)}', 'key_1', 'acct_1', 'api', 'laptop', 'sk', 'last', 1)`,
    );
    const labels = async (groupBy: "key" | "account") =>
      (await summarise(store, { groupBy })).map(({ group, label }) => [group, label]);
    expect(await labels("key")).toEqual([
      ["key_1", "laptop"],
      ["key_gone", "key_gone"],
    ]);
    expect(await labels("account")).toEqual([["acct_1", "team"]]);
  });

  test("others have a turn of the event loop between slices, and what is removed meanwhile is lost to none", async () => {
    const many = Array.from({ length: 2_500 }, (_, at): TestRow => {
      const model = at % 2 ? "a/x" : "b/y";
      return { requestId: `r${at}`, atMs: DAY_0 + at, accountId: "acct_1", keyId: `key_${at}`, model, input: at };
    });
    const { store } = await storeWith(many);
    const whole = { requests: 2_500, input: (2_500 * 2_499) / 2 };
    const asked = [
      ...[{}, { accountId: "acct_1" }, { sinceMs: DAY_0, untilMs: DAY_0 + HOUR_MS }].map((filter) => [filter, whole]),
      [{ untilMs: DAY_0 + 2_100 }, { requests: 2_100, input: (2_100 * 2_099) / 2 }],
      [{ model: "a/x" }, { requests: 1_250, input: 1_250 ** 2 }],
    ] as const;
    for (const [filter, expected] of asked) {
      for (const groupBy of GROUPINGS) {
        let turns = 0;
        let going = true;
        const turn = () => {
          turns++;
          if (going) setImmediate(turn);
        };
        setImmediate(turn);
        const found = await summarise(store, { ...filter, groupBy });
        going = false;
        expect(sumUp(found)).toMatchObject(expected);
        // Of so many keys the names are read by slices too.
        expect(turns).toBeGreaterThanOrEqual(groupBy === "key" ? 3 : 2);
      }
    }
    // The rest of an hour that is read row by row, and its rows go behind the first slice.
    const asking = summarise(store, { groupBy: "model", sinceMs: DAY_0 + 1 });
    store.database.run("UPDATE usage_kept SET rows_from_ms = ?, hours_from_ms = ?", [DAY_0 + DAY_MS, DAY_0 + DAY_MS]);
    store.database.run("DELETE FROM usage");
    store.database.run("DELETE FROM usage_rollup WHERE span_ms = ?", [HOUR_MS]);
    expect(sumUp(await asking)).toMatchObject(whole);
  });

  test("ends where its client has left", async () => {
    insideOnly("rows that no request wrote");
    const app = await startApp();
    const write = usageWriter(app.store, new Writer(app.store));
    const { accountId } = app;
    const row = (at: number) => ({
      requestId: `r${at}`,
      atMs: DAY_0 + at,
      accountId,
      keyId: `key_${at}`,
      model: "a/x",
    });
    await Promise.all(Array.from({ length: 1_500 }, (_, at) => write(row(at))));
    const headers = { authorization: `Bearer ${app.key}` };
    const ask = async (path: string, init: RequestInit = {}) => (await app.call(path, { headers, ...init })).status;
    for (const path of ["/v1/usage?group_by=key", "/v1/usage?group_by=key&format=csv"]) {
      expect([await ask(path), await ask(path, { signal: AbortSignal.abort() })]).toEqual([200, 400]);
    }
    await app.stop();
  });

  test("searches, and never walks through a table; a settle touches the table and two indices", async () => {
    const { store } = await storeWith([]);
    for (const groupBy of GROUPINGS) {
      const plans = (reading: Parameters<typeof sliceStatements>[0]) => {
        const { end, sums } = sliceStatements(reading, groupBy);
        return [end, sums].map((sql) => planOf(store.database, sql)[0]);
      };
      const byAll =
        "SEARCH usage_rollup USING PRIMARY KEY (span_ms=? AND (start_ms,account_id,key_id,model)>(?,?,?,?) AND (start_ms,account_id,key_id,model)<(?,?,?,?))";
      expect(plans(ofSums(DAY_MS, { keyId: "k", model: "m" }))).toEqual([byAll, byAll]);
      const byOne =
        "USING INDEX usage_rollup_account (account_id=? AND span_ms=? AND (start_ms,key_id,model)>(?,?,?) AND (start_ms,key_id,model)<(?,?,?))";
      for (const step of plans(ofSums(DAY_MS, { accountId: "a" })))
        expect(step?.replace(" COVERING", "")).toEndWith(byOne);
      const byTime = "USING INDEX usage_time (at_ms>? AND at_ms<?)";
      for (const step of plans(ofRows({ accountId: "a" }))) expect(step?.replace(" COVERING", "")).toEndWith(byTime);
    }
    expect(store.database.query("SELECT name FROM pragma_index_list('usage') ORDER BY name").values().flat()).toEqual([
      "usage_request",
      "usage_time",
    ]);
  });
});

describe("the sums", () => {
  const read = (store: Awaited<ReturnType<typeof storeWith>>["store"]) =>
    store.database.query("SELECT span_ms, start_ms, requests, input FROM usage_rollup ORDER BY 1, 2").values();

  test("requests of one batch and hour are told apart, whatever came before each", async () => {
    const rows: [accountId: string, keyId: string, model: string, input: number][] = [
      ["a", "k", "m/x", 1],
      ["a", "k", "m/y", 2],
      ["a", "l", "m/y", 4],
      ["b", "l", "m/y", 8],
      ["a", "k", "m/y", 16],
      ["a", "k", "m/x", 32],
    ];
    const { store } = await storeWith(
      rows.map(([accountId, keyId, model, input], at) => ({
        ...{ requestId: `r${at}`, atMs: DAY_0 + at, accountId, keyId, model, input },
      })),
    );
    const sums = "SELECT account_id, key_id, model, input FROM usage_rollup WHERE span_ms = ? ORDER BY 1, 2, 3";
    for (const span of [HOUR_MS, DAY_MS]) {
      expect(store.database.query(sums).values(span)).toEqual([
        ["a", "k", "m/x", 33n],
        ["a", "k", "m/y", 18n],
        ["a", "l", "m/y", 4n],
        ["b", "l", "m/y", 8n],
      ]);
    }
  });

  test("nothing of a refused operation or an undone batch stays in them", async () => {
    const { store, write } = await storeWith([]);
    const row = { atMs: DAY_0, accountId: "a", keyId: "k", model: "m/x", input: 5 };
    const results = await Promise.allSettled([
      write({ ...row, requestId: "r1" }),
      write({ ...row, requestId: "r1" }),
      write({ ...row, requestId: "r2" }),
    ]);
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    const expected = [HOUR_MS, DAY_MS].map((span) => [BigInt(span), BigInt(DAY_0), 2n, 10n]);
    expect(read(store)).toEqual(expected);
    // A sum that cannot be written undoes its rows; what was gathered does not turn up later.
    store.database.run(
      "CREATE TRIGGER no_sums BEFORE UPDATE ON usage_rollup BEGIN SELECT raise(ABORT, 'no room'); END",
    );
    await expect(write({ ...row, requestId: "r3" })).rejects.toThrow("no room");
    await write({ ...row, requestId: "r4", model: "m/y", input: 7 });
    store.database.run("DROP TRIGGER no_sums");
    expect(store.database.query("SELECT request_id FROM usage ORDER BY 1").values().flat()).toEqual(["r1", "r2", "r4"]);
    expect(sumUp(await summarise(store, { groupBy: "day" }))).toMatchObject({ requests: 3, input: 17 });
  });

  test("what a start settles of requests that a crash cut off is in them, and so are units", async () => {
    const store = openStore(":memory:");
    const writer = new Writer(store);
    store.database.run("INSERT INTO account (id, name, plan, created_at) VALUES ('acct_1', 'team', 'pro', 1)");
    store.database.run(
      "INSERT INTO price (id, model, since_ms, input, output, tiers) VALUES (1, 'm/x', 1, 3, 15, '[]')",
    );
    store.database.run(
      `INSERT INTO ledger_hold (request_id, boot, account_id, key_id, dialect, stream, model, vendor, upstream_model, window_nano,
         wallet_nano, price_id, estimated_input, seen_output, created_at, deadline_at)
         VALUES ('req_cut', 'dead', 'acct_1', 'key_1', 'chat', 1, 'm/x', 'v', 'x', 0, 1000000, 1, 100, 50, 1, 2)`,
    );
    const { book, start } = openLedger(store, writer);
    await book.deposit({ accountId: "acct_1", amountNano: 10n ** 9n, reference: "r" });
    expect(start()).toEqual({ settled: 1, released: 0 });
    const claim = { claimId: "req_web", accountId: "acct_1", keyId: "key_1", kind: "web", units: 3 } as const;
    await writer.run(() => book.claimUnits({ ...claim, freeUnits: 1, unitNano: 10n }));
    const facts = {
      dialect: "web",
      model: "web_fetch",
      vendor: "sluice",
      upstreamModel: "",
      attempts: 1,
      durationMs: 1,
    };
    await writer.run(() => book.countUnits({ claimId: "req_web", used: 3, usage: { ...facts, outcome: "completed" } }));
    const [inRows] = store.database
      .query("SELECT count(*), sum(charged_nano), sum(units), sum(output) FROM usage")
      .values();
    const sum = sumUp(await summarise(store, { groupBy: "day" }));
    expect([BigInt(sum.requests), sum.chargedNano, BigInt(sum.units), BigInt(sum.output)]).toEqual(inRows as bigint[]);
    expect([sum.requests, sum.units, sum.output, sum.chargedNano > 20n]).toEqual([2, 3, 50, true]);
  });

  test("a store that has rows gets its sums when it is brought up to date", async () => {
    const { store } = await storeWith(
      [0, 1, HOUR_MS, DAY_MS].map((offset, at) => ({
        ...{ requestId: `r${at}`, atMs: DAY_0 + offset, accountId: "a", keyId: "k", model: "m/x", input: at },
        costNano: at === 3 ? null : 7n,
      })),
    );
    const before = store.database.query("SELECT * FROM usage_rollup").values();
    const text = await Bun.file(new URL("../../drizzle/0005_rollup.sql", import.meta.url)).text();
    store.database.run("DELETE FROM usage_rollup");
    for (const step of text.split("--> statement-breakpoint")) {
      if (step.includes("INSERT INTO `usage_rollup`")) store.database.run(step);
    }
    expect(before.length).toBe(5);
    expect(store.database.query("SELECT * FROM usage_rollup").values()).toEqual(before);
  });
});

describe("a time cut into pieces", () => {
  const kept = { rowsFromMs: 0, hoursFromMs: 0 };

  test("the law: every millisecond in exactly one piece, whole days and hours, less than two hours of rows", () => {
    fc.assert(
      fc.property(time, time, (fromMs, toMs) => {
        const { days, hours, rows } = cutRange({ fromMs, toMs }, kept);
        const all = [...days, ...hours, ...rows].sort((a, b) => a.fromMs - b.fromMs);
        if (fromMs >= toMs) return expect(all).toEqual([]);
        expect([all.at(0)?.fromMs, all.at(-1)?.toMs]).toEqual([fromMs, toMs]);
        expect(all.slice(1).map((piece) => piece.fromMs)).toEqual(all.slice(0, -1).map((piece) => piece.toMs));
        for (const piece of all) expect(piece.fromMs).toBeLessThan(piece.toMs);
        for (const { fromMs, toMs } of days) expect([fromMs % DAY_MS, toMs % DAY_MS]).toEqual([0, 0]);
        for (const { fromMs, toMs } of hours) expect([fromMs % HOUR_MS, toMs % HOUR_MS]).toEqual([0, 0]);
        for (const { fromMs, toMs } of rows) expect(toMs - fromMs).toBeLessThan(HOUR_MS * 2);
        expect(rows.reduce((sum, piece) => sum + piece.toMs - piece.fromMs, 0)).toBeLessThan(2 * HOUR_MS);
      }),
    );
  });

  test("where rows or hours are gone, the ends lie at the hour or the day", () => {
    const range = { fromMs: DAY_0 + 90 * 60_000, toMs: DAY_0 + 2 * DAY_MS };
    const day = { fromMs: DAY_0 + DAY_MS, toMs: DAY_0 + 2 * DAY_MS };
    expect(cutRange(range, { rowsFromMs: DAY_0 + DAY_MS, hoursFromMs: 0 })).toEqual({
      days: [day],
      hours: [{ fromMs: DAY_0 + HOUR_MS, toMs: DAY_0 + DAY_MS }],
      rows: [],
    });
    expect(cutRange(range, { rowsFromMs: DAY_0 + DAY_MS, hoursFromMs: DAY_0 + DAY_MS })).toEqual({
      days: [{ ...day, fromMs: DAY_0 }],
      hours: [],
      rows: [],
    });
    expect(cutRange(range, { rowsFromMs: 0, hoursFromMs: DAY_0 + DAY_MS })).toEqual({
      days: [day],
      hours: [],
      rows: [{ fromMs: range.fromMs, toMs: day.fromMs }],
    });
  });
});

describe("pages of rows", () => {
  const newestFirst = (a: TestRow, b: TestRow) => b.atMs - a.atMs || (a.requestId < b.requestId ? 1 : -1);

  test("the law: every row once, newest first, to the last page, while more are written; also when time runs out", async () => {
    const limit = fc.integer({ min: 1, max: 7 });
    const law = fc.asyncProperty(rowsOf(40), filterOf, limit, fc.boolean(), async (rows, filter, size, hurried) => {
      const { store, write } = await storeWith(rows);
      let ticks = 0;
      const now = hurried ? () => (ticks += 20) : () => 0;
      const found: UsageRow[] = [];
      let after: Place | undefined;
      for (let pages = 0; ; pages++) {
        const page = readUsagePage(store, filter, { limit: size, after }, now);
        expect(page.rows.length).toBeLessThanOrEqual(size);
        found.push(...page.rows);
        if (!page.next) break;
        after = page.next;
        // A row that is newer than all does not move the pages.
        if (pages === 0) await write({ ...NEWER, requestId: "zzz" });
        expect(pages).toBeLessThan(200);
      }
      const expected = rows.filter((row) => fits(row, filter)).sort(newestFirst);
      expect(found.map(({ requestId }) => requestId)).toEqual(expected.map(({ requestId }) => requestId));
      store.close();
    });
    await fc.assert(law, { numRuns: 60 });
  });

  const NEWER = { atMs: DAY_0 + 6 * DAY_MS, accountId: "acct_1", keyId: "key_1", model: "a/x" };

  test("rows of one hour, and of one millisecond, are told apart by whose they are and by their ids", async () => {
    const rows = Array.from(
      { length: 16 },
      (_, at): TestRow => ({
        ...{ requestId: `r${at + 10}`, atMs: DAY_0 + (at % 2), accountId: at & 2 ? "acct_1" : "acct_2" },
        ...{ keyId: at & 4 ? "key_1" : "key_2", model: at & 8 ? "a/x" : "b/y" },
      }),
    );
    const { store } = await storeWith(rows);
    const whose = [{}, { accountId: "acct_1" }, { keyId: "key_1" }, { model: "a/x" }, { keyId: "key_2", model: "b/y" }];
    for (const filter of whose) {
      const expected = rows.filter((row) => fits(row, filter)).sort(newestFirst);
      for (const limit of [1, 3, 20]) {
        const found: UsageRow[] = [];
        for (let after: Place | undefined, pages = 0; pages === 0 || after; pages++) {
          const page = readUsagePage(store, filter, { limit, after }, () => 0);
          found.push(...page.rows);
          after = page.next;
          expect(pages).toBeLessThan(20);
        }
        expect(found.map(({ requestId }) => requestId)).toEqual(expected.map(({ requestId }) => requestId));
      }
    }
    store.close();
  });

  test("where hours are no longer kept, days lead to the rows", async () => {
    const rows = Array.from({ length: 30 }, (_, at) => ({
      ...{ requestId: `r${at + 10}`, atMs: DAY_0 + at * 4 * HOUR_MS, accountId: at % 3 ? "b" : "a" },
      ...{ keyId: "k", model: "m/x" },
    }));
    const { store } = await storeWith(rows);
    store.database.run(`UPDATE usage_kept SET hours_from_ms = ${DAY_0 + 3 * DAY_MS}`);
    store.database.run(`DELETE FROM usage_rollup WHERE span_ms = ${HOUR_MS} AND start_ms < ${DAY_0 + 3 * DAY_MS}`);
    const page = readUsagePage(store, { accountId: "a" }, { limit: 100 }, () => 0);
    expect(page.rows.map(({ requestId }) => requestId)).toEqual(
      rows
        .filter(({ accountId }) => accountId === "a")
        .sort(newestFirst)
        .map(({ requestId }) => requestId),
    );
  });
});
