import { Database } from "bun:sqlite";
import { describe, expect, spyOn, test } from "bun:test";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { openStore, type Store } from "../../src/db/open.ts";
import { StoreError } from "../../src/db/store-error.ts";
import { GATHER_MS, Writer } from "../../src/db/writer.ts";
import { systemClock } from "../../src/lib/clock.ts";
import { manualClock, settle } from "../support/clock.ts";
import { nextTurn } from "../support/wait.ts";
import { temporaryFolders } from "./temp-folder.ts";

const folder = temporaryFolders();

function withLines(store: Store): { add: (text: string) => void; lines: () => string[] } {
  store.database.run("CREATE TABLE line (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT");
  const insert = store.database.prepare("INSERT INTO line (text) VALUES (?)");
  const all = store.database.prepare("SELECT text FROM line ORDER BY id");
  return { add: (text) => void insert.run(text), lines: () => all.values().map(([text]) => String(text)) };
}

/** A store with lines, and its writer, while another process has the lock. */
function lockedStore() {
  const store = openStore(join(folder(), "sluice.db"));
  const clock = manualClock();
  const lines = withLines(store);
  const other = new Database(store.path);
  other.run("BEGIN IMMEDIATE");
  return { store, clock, writer: new Writer(store, clock), other, ...lines };
}

describe("the law of the writer", () => {
  // What an operation does: writes this many rows, then succeeds, throws, or breaks a constraint.
  const wish = fc.record({ rows: fc.integer({ min: 1, max: 3 }), end: fc.constantFrom("good", "throws", "doubles") });

  test("all acknowledged rows are there in order, nothing of a refused operation is", async () => {
    const law = fc.asyncProperty(fc.array(fc.array(wish, { maxLength: 90 }), { maxLength: 4 }), async (rounds) => {
      const store = openStore(":memory:");
      const { add, lines } = withLines(store);
      const writer = new Writer(store);
      const expected: string[] = [];
      let number = 0;
      for (const round of rounds) {
        const results = round.map(({ rows, end }) => {
          const texts = Array.from({ length: rows }, () => `line ${number++}`);
          const promise = writer.run(() => {
            for (const text of texts) add(text);
            if (end === "throws") throw new Error("refused");
            if (end === "doubles") add(texts[0] ?? "");
            return texts;
          });
          return { promise, texts, end };
        });
        for (const { promise, texts, end } of results) {
          const outcome = await promise.then(
            (value) => value,
            (thrown: unknown) => String(thrown),
          );
          if (end === "good") {
            expect(outcome).toEqual(texts);
            expected.push(...texts);
          } else expect(outcome).toMatch(end === "throws" ? /refused/ : /UNIQUE/);
        }
      }
      expect(lines()).toEqual(expected);
      await writer.close();
      store.close();
    });
    await fc.assert(law, { numRuns: 60 });
  });
});

describe("the writer", () => {
  test("a promise that has resolved is a row another connection sees; before that it sees none", async () => {
    const store = openStore(join(folder(), "sluice.db"));
    const { add } = withLines(store);
    const other = new Database(store.path, { readonly: true });
    const seen = () => other.query("SELECT count(*) AS n FROM line").get() as { n: number };
    const writer = new Writer(store);
    const done = writer.run(() => add("one"));
    expect(seen()).toEqual({ n: 0 });
    await done;
    expect(seen()).toEqual({ n: 1 });
    other.close();
    await writer.close();
    store.close();
  });

  test("64 operations are one commit, and do not wait for the turn to end", async () => {
    const store = openStore(":memory:");
    const { add, lines } = withLines(store);
    const writer = new Writer(store);
    const done = Array.from({ length: 63 }, (_, at) => writer.run(() => add(`line ${at}`)));
    expect(lines()).toHaveLength(0);
    done.push(writer.run(() => add("line 63")));
    expect(lines()).toHaveLength(64);
    await Promise.all(done);
    store.close();
  });

  describe("while others write too", () => {
    /** A writer whose last batch had two operations, with so many at work. */
    async function busyWriter(atWork: () => number) {
      const store = openStore(":memory:");
      const { add, lines } = withLines(store);
      const writer = new Writer(store, systemClock, atWork);
      await Promise.all([writer.run(() => add("first")), writer.run(() => add("second"))]);
      expect(writer.counts.commits).toBe(1);
      return { store, add, lines, writer };
    }

    test("a batch waits for those who are at work, and for nobody once all of them are in it", async () => {
      const { store, add, lines, writer } = await busyWriter(() => 3);
      // A turn may take longer than a batch gathers on a machine that does other work too: here its time never comes.
      // All others of this process go on: alarms that were not set again would never ring for the tests that follow.
      const real = globalThis.setTimeout;
      const timers = spyOn(globalThis, "setTimeout").mockImplementation(((run: () => void, ms?: number) =>
        ms === GATHER_MS ? 0 : real(run, ms)) as never);
      using _restored = { [Symbol.dispose]: () => timers.mockRestore() };
      const done = [writer.run(() => add("third")), writer.run(() => add("fourth"))];
      await nextTurn();
      expect(lines()).toHaveLength(2);
      done.push(writer.run(() => add("fifth")));
      await nextTurn();
      expect(lines()).toHaveLength(5);
      expect(timers.mock.calls.filter(([, ms]) => ms === GATHER_MS)).toHaveLength(1);
      await Promise.all(done);
      expect(writer.counts.commits).toBe(2);
      store.close();
    });

    test("who never comes is waited for no longer than a batch may gather, each time", async () => {
      const { store, add, lines, writer } = await busyWriter(() => 1_000);
      await Promise.all([writer.run(() => add("third")), writer.run(() => add("fourth"))]);
      expect(lines()).toHaveLength(4);
      expect(writer.counts.commits).toBe(2);
      await Promise.all([writer.run(() => add("fifth")), writer.run(() => add("sixth"))]);
      expect(lines()).toHaveLength(6);
      expect(writer.counts.commits).toBe(3);
      await writer.close();
      store.close();
    });

    // Of a disk that is slow the next batch has more, in proportion; of one that hung for a moment it has no more than of a slow one.
    test.each([
      [2, GATHER_MS],
      [60, 15],
      [1_000, 25],
    ])("after a commit of %d ms a batch gathers for %d ms at the most", async (commitMs, gatherMs) => {
      const store = openStore(":memory:");
      const { add, lines } = withLines(store);
      let now = 0;
      const clock = { ...systemClock, monotonic: () => now };
      const writer = new Writer(store, clock, () => 1_000);
      // The time of a commit is that between two looks at the clock: the second of them is later.
      const commit = spyOn(clock, "monotonic").mockImplementation(() => (now += commitMs));
      await Promise.all([writer.run(() => add("first")), writer.run(() => add("second"))]);
      commit.mockRestore();
      expect(writer.counts.waitedMs).toBe(commitMs);
      const timers = spyOn(globalThis, "setTimeout");
      using _restored = { [Symbol.dispose]: () => timers.mockRestore() };
      const third = writer.run(() => add("third"));
      expect(timers.mock.calls.map(([, ms]) => ms)).toContain(gatherMs);
      await third;
      expect(lines()).toHaveLength(3);
      store.close();
    });

    test("one that comes alone waits for nobody, however many are at work", async () => {
      const { store, add, lines, writer } = await busyWriter(() => 1_000);
      await writer.run(() => add("third"));
      const done = writer.run(() => add("fourth"));
      await nextTurn();
      expect(lines()).toHaveLength(4);
      await done;
      store.close();
    });
  });

  test("an operation that would wait is refused and undone", async () => {
    const store = openStore(":memory:");
    const { add, lines } = withLines(store);
    const writer = new Writer(store);
    const slow = writer.run(async () => add("slow"));
    const good = writer.run(() => add("good"));
    await expect(slow).rejects.toThrow("must not wait");
    await good;
    expect(lines()).toEqual(["good"]);
    store.close();
  });

  test("operations queued from inside an operation run after it, in a commit of their own", async () => {
    const store = openStore(":memory:");
    const { add, lines } = withLines(store);
    const writer = new Writer(store);
    const inner: Promise<void>[] = [];
    await writer.run(() => {
      for (let at = 0; at < 70; at++) inner.push(writer.run(() => add(`inner ${at}`)));
      add("outer");
    });
    await Promise.all(inner);
    expect(lines()).toEqual(["outer", ...Array.from({ length: 70 }, (_, at) => `inner ${at}`)]);
    store.close();
  });

  test("a full disk refuses what needs room and says so; reading goes on, and so does writing once there is room", async () => {
    const store = openStore(join(folder(), "sluice.db"));
    const { add, lines } = withLines(store);
    const writer = new Writer(store);
    await writer.run(() => add("before"));
    const pages = Number(Object.values(store.database.query("PRAGMA page_count").get() as object)[0]);
    store.database.query(`PRAGMA max_page_count = ${pages}`).all();
    const thrown = await writer.run(() => add("x".repeat(100_000))).catch((reason: unknown) => reason);
    expect(thrown).toBeInstanceOf(StoreError);
    expect((thrown as StoreError).fault).toBe("disk-full");
    expect(lines()).toEqual(["before"]);
    store.database.query(`PRAGMA max_page_count = ${pages + 1_000}`).all();
    await writer.run(() => add("after"));
    expect(lines()).toEqual(["before", "after"]);
    await writer.close();
    store.close();
  });

  test("a commit that fails refuses its whole batch, leaves nothing of it, and the next one works", async () => {
    const store = openStore(":memory:");
    const { add, lines } = withLines(store);
    const writer = new Writer(store);
    const batch = [
      writer.run(() => add("beside it")),
      writer.run(() => {
        // A broken reference that is looked at only when the transaction ends.
        store.database.run("PRAGMA defer_foreign_keys = ON");
        store.database.run(
          `INSERT INTO api_key (hash, id, account_id, kind, name, prefix, last4, created_at, last_used_at, revoked_at) VALUES (x'${"00".repeat(32)}', 'k', 'nobody', 'api', 'n', 'p', 'l', 1, NULL, NULL)`,
        );
      }),
    ];
    const settled = await Promise.allSettled(batch);
    expect(settled.map((result) => (result.status === "rejected" ? String(result.reason) : "written"))).toEqual(
      Array(2).fill(expect.stringContaining("FOREIGN KEY")),
    );
    expect(lines()).toEqual([]);
    await writer.run(() => add("after"));
    expect(lines()).toEqual(["after"]);
    store.close();
  });

  test("another process's lock is waited for without stopping the event loop, and 5 s of it are given up", async () => {
    const { store, add, lines, clock, writer, other } = lockedStore();
    // The process has run for a while.
    await clock.advance(60_000);
    let answered = 0;
    const first = writer.run(() => add("first")).then(() => answered++);
    await clock.advance(4_000);
    const second = writer.run(() => add("second")).then(() => answered++);
    await settle();
    expect(answered).toBe(0);
    other.run("ROLLBACK");
    await clock.advance(5);
    await Promise.all([first, second]);
    expect(lines()).toEqual(["first", "second"]);

    // A writer that was not busy a moment ago starts at once, not after a millisecond of gathering.
    const calm = new Writer(store, clock);
    other.run("BEGIN IMMEDIATE");
    const third = calm.run(() => add("third")).catch((reason: unknown) => reason);
    await clock.advance(5_010);
    const thrown = await third;
    expect(thrown).toBeInstanceOf(StoreError);
    expect((thrown as StoreError).fault).toBe("locked");
    expect(clock.pending).toBe(0);
    expect(calm.failing?.fault).toBe("locked");
    other.run("ROLLBACK");
    other.close();
    await calm.run(() => add("fourth"));
    expect(calm.failing).toBeUndefined();
    expect(lines()).toEqual(["first", "second", "fourth"]);
    store.close();
  });

  test("what was read is known to stand by its view, and by none once anything was undone or another batch has begun", async () => {
    const store = openStore(":memory:");
    const writer = new Writer(store);
    let breaks = false;
    writer.join({
      write() {
        if (breaks) throw new Error("refused");
      },
      forget() {},
    });
    const views: (number | undefined)[] = [];
    const look = () => void views.push(writer.view);
    const fail = () => {
      throw new Error("undone");
    };
    const batch = (...operations: (() => void)[]) =>
      Promise.allSettled(operations.map((operation) => writer.run(operation)));
    await batch(look, look, fail, look);
    breaks = true;
    await batch(look, look);
    breaks = false;
    await batch(look);
    const [one, same, undone, refused, still, last] = views;
    expect([same, still]).toEqual([one, refused]);
    expect(new Set([one, undone, refused, last]).size).toBe(4);
    expect([views.includes(undefined), writer.view]).toEqual([false, undefined]);
    store.close();
  });

  test("while another process has the lock it is asked for once for all that wait, and 20 000 may", async () => {
    const { store, add, lines, clock, writer, other } = lockedStore();
    const first = writer.run(() => add("first"));
    await settle();
    const rest = Array.from({ length: 19_998 }, () => writer.run(() => undefined));
    const last = writer.run(() => add("last"));
    await expect(writer.run(() => add("beyond"))).rejects.toMatchObject({ fault: "busy" });
    await settle();
    expect([clock.pending, writer.queued]).toEqual([1, 20_000]);
    other.run("ROLLBACK");
    other.close();
    await clock.advance(5);
    await Promise.all([first, ...rest, last]);
    expect([lines(), clock.pending]).toEqual([["first", "last"], 0]);
    store.close();
  });

  test.skipIf(process.platform === "win32")("a file that is no longer under its name is written no more", async () => {
    const path = join(folder(), "sluice.db");
    const store = openStore(path);
    const { add, lines } = withLines(store);
    const writer = new Writer(store);
    await writer.run(() => add("before"));
    renameSync(path, `${path}.away`);
    await expect(writer.run(() => add("away"))).rejects.toMatchObject({ fault: "unusable" });
    writeFileSync(path, "another file");
    await expect(writer.run(() => add("replaced"))).rejects.toThrow("removed, moved or replaced");
    renameSync(`${path}.away`, path);
    await writer.run(() => add("back"));
    expect(lines()).toEqual(["before", "back"]);
    expect(writer.counts.failures).toBe(2);
    store.close();
  });

  test("closing writes what waits, all of it, and takes nothing more", async () => {
    const store = openStore(":memory:");
    const { add, lines } = withLines(store);
    const writer = new Writer(store);
    const done: Promise<void>[] = [];
    await writer.run(() => {
      for (let at = 0; at < 200; at++) done.push(writer.run(() => add(`line ${at}`)));
    });
    await writer.close();
    expect(lines()).toHaveLength(200);
    await Promise.all(done);
    const late = await writer.run(() => add("late")).catch((reason: unknown) => reason);
    expect((late as StoreError).fault).toBe("closed");
    expect(lines()).toHaveLength(200);
    store.close();
  });

  test("work that joined is done once a batch, in its transaction; an undone batch is forgotten whole", async () => {
    const store = openStore(":memory:");
    const { add, lines } = withLines(store);
    const writer = new Writer(store);
    let gathered: string[] = [];
    const seen: string[] = [];
    writer.join({
      write() {
        seen.push(`write ${gathered.length}`);
        if (gathered.length > 0) add(`sum of ${gathered.join("+")}`);
        if (gathered.includes("bad")) throw new Error("refused");
        gathered = [];
      },
      forget() {
        seen.push("forget");
        gathered = [];
      },
    });
    const put = (text: string) =>
      writer.run(() => {
        add(text);
        gathered.push(text);
      });
    await Promise.all([put("a"), put("b"), put("c")]);
    expect(lines()).toEqual(["a", "b", "c", "sum of a+b+c"]);
    const undone = await Promise.allSettled([put("d"), put("bad"), put("e")]);
    expect(undone.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    await put("f");
    expect(lines()).toEqual(["a", "b", "c", "sum of a+b+c", "f", "sum of f"]);
    expect(seen).toEqual(["write 3", "write 3", "forget", "write 1"]);
  });
});

describe("a transaction that cannot be ended", () => {
  /** Makes statements of this text throw what a broken disk does, as often as `times` says. */
  function breakStatement(store: Store, wanted: string, times: number): void {
    const { database } = store;
    const prepare = database.prepare.bind(database);
    let left = times;
    database.prepare = ((sql: string) => {
      const statement = prepare(sql);
      if (sql !== wanted) return statement;
      const run = statement.run.bind(statement);
      statement.run = (...values: never[]) => {
        if (left-- > 0) throw Object.assign(new Error("disk I/O error"), { code: "SQLITE_IOERR_WRITE" });
        return run(...values);
      };
      return statement;
    }) as typeof database.prepare;
  }

  test("a commit that fails is undone whole; the next one goes on as if nothing had been", async () => {
    const store = openStore(":memory:");
    breakStatement(store, "COMMIT", 1);
    const { add, lines } = withLines(store);
    const writer = new Writer(store);
    const both = await Promise.allSettled([writer.run(() => add("a")), writer.run(() => add("b"))]);
    for (const one of both) expect(one).toMatchObject({ status: "rejected", reason: { fault: "unusable" } });
    expect(writer.failing?.fault).toBe("unusable");
    expect(lines()).toEqual([]);
    await writer.run(() => add("c"));
    expect(writer.failing).toBeUndefined();
    expect(lines()).toEqual(["c"]);
    expect(writer.counts).toMatchObject({ commits: 1, operations: 1, failures: 1 });
  });

  test("one that cannot even be undone is undone by the next, which keeps nothing of it", async () => {
    const store = openStore(":memory:");
    breakStatement(store, "COMMIT", 1);
    breakStatement(store, "ROLLBACK", 2);
    const { add, lines } = withLines(store);
    const writer = new Writer(store);
    await expect(writer.run(() => add("a"))).rejects.toMatchObject({ fault: "unusable" });
    await expect(writer.run(() => add("b"))).rejects.toMatchObject({ fault: "unusable" });
    await writer.run(() => add("c"));
    expect(lines()).toEqual(["c"]);
    expect(writer.failing).toBeUndefined();
    await writer.close();
  });
});
