import { describe, expect, test } from "bun:test";
import { openStore } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { HOUR_DAYS, Retention } from "../../src/ledger/rollup-retention.ts";
import { readUsagePage } from "../../src/ledger/usage-page.ts";
import { summarise, sumUp } from "../../src/ledger/usage-report.ts";
import { DAY_MS, HOUR_MS } from "../../src/lib/spans.ts";
import { manualClock } from "../support/clock.ts";
import { until } from "../support/wait.ts";
import { usageWriter } from "./usage-rows.ts";

const NOW = Date.UTC(2026, 5, 10, 15, 30);
const fail = (thrown: unknown) => {
  throw thrown;
};

/** A store with a row every six hours for so many days, the last one now. */
async function storeOf(days: number) {
  const store = openStore(":memory:");
  const clock = manualClock(NOW);
  const writer = new Writer(store, clock);
  const write = usageWriter(store, writer);
  const rows = Array.from({ length: days * 4 }, (_, at) => ({
    ...{ requestId: `req_${String(at).padStart(6, "0")}`, atMs: NOW - at * 6 * HOUR_MS },
    ...{ accountId: at % 2 ? "acct_1" : "acct_2", keyId: "k", model: "m/x", costNano: 3n },
  }));
  await Promise.all(rows.map(write));
  const count = (sql: string) => Number(store.database.query(sql).values()[0]?.[0]);
  return { store, clock, writer, rows, count, write };
}

describe("retention", () => {
  test("rows and hours that are too old go, in small steps; reports lose nothing, and pages end where rows do", async () => {
    const { store, clock, writer, rows, count } = await storeOf(300);
    const before = await summarise(store, { groupBy: "day" });
    const steps: number[] = [];
    const run = writer.run.bind(writer);
    writer.run = (operation) => {
      steps.push(1);
      return run(operation);
    };
    const retention = new Retention(store, writer, clock, 90, fail);
    const from = Math.floor((NOW - 90 * DAY_MS) / DAY_MS) * DAY_MS;
    const gone = rows.filter(({ atMs }) => atMs < from).length;
    expect(await retention.sweep()).toBe(gone);
    expect(steps.length).toBeGreaterThan(gone / 500);
    expect(count("SELECT count(*) FROM usage")).toBe(rows.length - gone);
    expect(count(`SELECT min(start_ms) FROM usage_rollup WHERE span_ms = ${HOUR_MS}`)).toBeGreaterThanOrEqual(
      Math.floor((NOW - HOUR_DAYS * DAY_MS) / DAY_MS) * DAY_MS,
    );
    expect(await summarise(store, { groupBy: "day" })).toEqual(before);
    const page = readUsagePage(store, { accountId: "acct_1" }, { limit: 1000 }, () => 0);
    const kept = rows.filter(({ atMs, accountId }) => atMs >= from && accountId === "acct_1");
    expect(page.rows.map(({ requestId }) => requestId)).toEqual(kept.map(({ requestId }) => requestId));
    // Far back a time is told by its whole day, near by to the millisecond.
    const since = async (sinceMs: number) => sumUp(await summarise(store, { groupBy: "model", sinceMs })).requests;
    expect(await since(NOW - 200 * DAY_MS)).toBe(
      rows.filter(({ atMs }) => atMs >= Math.floor((NOW - 200 * DAY_MS) / DAY_MS) * DAY_MS).length,
    );
    for (const sinceMs of [NOW - 60 * DAY_MS + 1, NOW - 6 * HOUR_MS, NOW - 6 * HOUR_MS + 1]) {
      expect(await since(sinceMs)).toBe(rows.filter(({ atMs }) => atMs >= sinceMs).length);
    }
    expect(await retention.sweep()).toBe(0);
  });

  test("of an hour in which many keys were used, no transaction removes more sums than of rows", async () => {
    const { store, clock, writer, count, write } = await storeOf(1);
    const old = { atMs: NOW - 40 * DAY_MS, accountId: "acct_1", model: "m/x" };
    await Promise.all(
      Array.from({ length: 1_200 }, (_, at) => write({ ...old, keyId: `k${at}`, requestId: `old_${at}` })),
    );
    const left: number[] = [];
    const run = writer.run.bind(writer);
    const hours = `SELECT count(*) FROM usage_rollup WHERE span_ms = ${HOUR_MS}`;
    const kept = count(hours) - 1_200;
    writer.run = async (operation) => {
      const done = await run(operation);
      left.push(count(hours) - kept);
      return done;
    };
    await new Retention(store, writer, clock, 400, fail).sweep();
    expect(left.filter((many) => many < 1_200)).toEqual([700, 200, 0]);
    expect(count(`SELECT count(*) FROM usage_rollup WHERE span_ms = ${DAY_MS}`)).toBeGreaterThan(1_200);
  });

  test("a time whose rows are gone is told by its hours from the first day on of which they are kept", async () => {
    const { store, clock, writer, rows } = await storeOf(40);
    await new Retention(store, writer, clock, 10, fail).sweep();
    const hoursFrom = Math.floor((NOW - HOUR_DAYS * DAY_MS) / DAY_MS) * DAY_MS;
    for (const [fromMs, hours] of [
      [hoursFrom, 7],
      [hoursFrom + 3 * DAY_MS, 13],
    ] as const) {
      const range = { sinceMs: fromMs, untilMs: fromMs + hours * HOUR_MS };
      const within = rows.filter(({ atMs }) => atMs >= range.sinceMs && atMs < range.untilMs).length;
      expect(within).toBeGreaterThan(0);
      expect(sumUp(await summarise(store, { groupBy: "model", ...range })).requests).toBe(within);
    }
  });

  test("rows within their time cannot be removed by anybody", async () => {
    const { store, clock, writer, count } = await storeOf(20);
    await new Retention(store, writer, clock, 10, fail).sweep();
    const left = count("SELECT count(*) FROM usage");
    expect(() => store.database.run("DELETE FROM usage")).toThrow("never removed before their time");
    expect(count("SELECT count(*) FROM usage")).toBe(left);
  });

  test("a clock that jumps ahead removes nothing; one that jumps back moves nothing back", async () => {
    const { store, clock, writer, rows, count, write } = await storeOf(20);
    const retention = new Retention(store, writer, clock, 30, fail);
    clock.setWall(Date.UTC(2099, 0, 1));
    expect(await retention.sweep()).toBe(0);
    expect(count("SELECT count(*) FROM usage")).toBe(rows.length);
    // Nor does a row that was written meanwhile, once the clock stands right.
    await write({ ...(rows[0] as (typeof rows)[number]), requestId: "req_ahead", atMs: Date.UTC(2099, 0, 1) });
    clock.setWall(NOW);
    expect(await retention.sweep()).toBe(0);
    expect(count("SELECT count(*) FROM usage")).toBe(rows.length + 1);
    clock.setWall(NOW);
    const short = new Retention(store, writer, clock, 5, fail);
    await short.sweep();
    const bounds = store.database.query("SELECT * FROM usage_kept").values();
    clock.setWall(Date.UTC(2001, 0, 1));
    await short.sweep();
    expect(store.database.query("SELECT * FROM usage_kept").values()).toEqual(bounds);
  });

  test("is done by itself, a minute after the start", async () => {
    const { store, clock, writer, count } = await storeOf(20);
    const stop = new Retention(store, writer, clock, 5, fail).watch();
    const before = count("SELECT count(*) FROM usage");
    await clock.advance(60_000);
    await until(() => count("SELECT count(*) FROM usage") < before, "rows to go");
    stop();
    expect(clock.pending).toBe(0);
  });
});
