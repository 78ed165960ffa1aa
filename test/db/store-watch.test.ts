import { expect, test } from "bun:test";
import { openStore, type Store } from "../../src/db/open.ts";
import { StoreError } from "../../src/db/store-error.ts";
import { StoreWatch } from "../../src/db/store-watch.ts";
import { Writer } from "../../src/db/writer.ts";
import { manualClock } from "../support/clock.ts";

const limitTo = (store: Store, pages: bigint | number) => store.database.run(`PRAGMA max_page_count = ${pages}`);
const pagesOf = (store: Store) => store.database.prepare("PRAGMA page_count").values()[0]?.[0] as bigint;
const fill = (store: Store, name: string) => () =>
  store.database.run("INSERT INTO account (id, name, plan, created_at) VALUES (?, ?, 'local', 1)", [
    name,
    "n".repeat(20_000),
  ]);

function setUp() {
  const clock = manualClock();
  const store = openStore(":memory:");
  const writer = new Writer(store, clock);
  const told: (string | undefined)[] = [];
  const watch = new StoreWatch(store, writer, clock, (fault) => told.push(fault?.fault));
  return { clock, store, writer, told, watch };
}

test("a store that is full is tried once a second until it takes writes again, and asked nothing before and after", async () => {
  const { clock, store, writer, told, watch } = setUp();
  expect(clock.pending).toBe(0);
  limitTo(store, pagesOf(store));
  await expect(writer.run(fill(store, "a"))).rejects.toMatchObject({ fault: "disk-full" });
  expect(writer.failing?.fault).toBe("disk-full");
  expect(watch.failing).toBe(true);
  await clock.advance(100);
  await clock.advance(999);
  limitTo(store, 1_000_000);
  expect(watch.failing).toBe(true);
  await clock.advance(1);
  expect(watch.failing).toBe(false);
  expect(writer.failing).toBeUndefined();
  expect(told).toStrictEqual(["disk-full", undefined]);
  expect(clock.pending).toBe(0);
  expect(store.database.prepare("SELECT count(*) FROM idempotency").values()).toEqual([[0n]]);
  await writer.run(fill(store, "b"));
  expect(store.database.prepare("SELECT id FROM account").values()).toEqual([["b"]]);
});

test("one write that fails is no fault of the store", async () => {
  const { clock, store, writer, told, watch } = setUp();
  await writer.run(fill(store, "a"));
  await expect(writer.run(fill(store, "a"))).rejects.toThrow("UNIQUE");
  await expect(writer.run(() => Promise.resolve())).rejects.toThrow(TypeError);
  expect(watch.failing).toBe(false);
  expect(writer.failing).toBeUndefined();
  expect(told).toEqual([]);
  expect(clock.pending).toBe(0);
});

test("a watch that was stopped tries nothing more", async () => {
  const { clock, store, writer, told, watch } = setUp();
  limitTo(store, pagesOf(store));
  await expect(writer.run(fill(store, "a"))).rejects.toBeInstanceOf(StoreError);
  watch.stop();
  expect(clock.pending).toBe(0);
  await expect(writer.run(fill(store, "a"))).rejects.toBeInstanceOf(StoreError);
  expect(clock.pending).toBe(0);
  expect(told).toEqual(["disk-full"]);
});
