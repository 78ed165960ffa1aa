import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import {
  closeSync,
  copyFileSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { backupStore, restoreStore } from "../../src/db/backup.ts";
import { makePrivateFolder, openStore, type Store } from "../../src/db/open.ts";
import { StoreError } from "../../src/db/store-error.ts";
import { Writer } from "../../src/db/writer.ts";
import { openLedger } from "../../src/ledger/open-ledger.ts";
import { openFiles, temporaryFolders, thrownBy } from "./temp-folder.ts";

const folder = temporaryFolders();

const add = (store: Store, ...names: string[]) => {
  for (const name of names) {
    store.database.run("INSERT INTO account (id, name, plan, created_at) VALUES (?, ?, 'local', 1)", [name, name]);
  }
};
const names = (store: Store) => store.database.query("SELECT id FROM account ORDER BY id").values().flat();
const nothing = () => {};
const posix = test.skipIf(process.platform === "win32");
const faultOf = (work: () => unknown) => {
  const thrown = thrownBy(work);
  expect(thrown).toBeInstanceOf(StoreError);
  const { fault, message } = thrown as StoreError;
  return { fault, message };
};

/** What a transaction leaves that is killed in its midst: the pages of its database as they were before. */
function journalOfAnother(home: string): Buffer {
  const path = join(home, "another.db");
  const database = new Database(path);
  database.run("PRAGMA cache_size = 10");
  database.run("CREATE TABLE filled (bytes BLOB)");
  const fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)";
  database.run(`${fill} INSERT INTO filled SELECT zeroblob(3000) FROM n`);
  database.run("BEGIN");
  database.run("UPDATE filled SET bytes = randomblob(3000)");
  const journal = readFileSync(`${path}-journal`);
  database.run("ROLLBACK");
  database.close();
  return journal;
}

/** A store with some rows, and a backup of it. */
function place() {
  const home = folder();
  const path = join(home, "sluice.db");
  const file = join(home, "copy.db");
  const store = openStore(path);
  add(store, "a", "b");
  backupStore(store, file);
  return { home, path, file, store };
}

describe("a backup", () => {
  test("is one closed file with everything in it, made while others write", async () => {
    const { home, file, store } = place();
    const writer = new Writer(store);
    const later = Array.from({ length: 200 }, (_, at) => writer.run(() => add(store, `later-${at}`)));
    const second = join(home, "second.db");
    backupStore(store, second);
    await Promise.all(later);
    store.close();
    expect(readdirSync(home).filter((name) => name.startsWith("copy") || name.startsWith("second"))).toEqual(
      expect.arrayContaining(["copy.db", "second.db"]),
    );
    expect(readdirSync(home).filter((name) => name.includes("partial"))).toEqual([]);
    if (process.platform !== "win32") expect(statSync(file).mode & 0o777).toBe(0o600);
    const copy = openStore(file);
    expect(names(copy)).toEqual(["a", "b"]);
    copy.close();
    const other = openStore(second);
    expect(other.database.query("PRAGMA integrity_check").values()).toEqual([["ok"]]);
    other.close();
  });

  test("of a damaged store says which file is damaged, and leaves none", () => {
    const { home, path, store } = place();
    // In one commit: two thousand of them take longer on a slow disk than a test may.
    store.database.run("BEGIN");
    add(store, ...Array.from({ length: 2_000 }, (_, at) => `more-${at}`));
    store.database.run("COMMIT");
    store.close();
    const size = statSync(path).size;
    const opened = openSync(path, "r+");
    writeSync(opened, new Uint8Array(8 * 4096).fill(0xa5), 0, 8 * 4096, size - 10 * 4096);
    closeSync(opened);
    const damaged = openStore(path, { check: false });
    expect(faultOf(() => backupStore(damaged, join(home, "second.db")))).toEqual({
      fault: "damaged",
      message: `The store ${path} is damaged; restore it from a backup.`,
    });
    damaged.close();
    expect(readdirSync(home).filter((name) => name.startsWith("second"))).toEqual([]);
  });

  test("leaves alone what another one has written so far, and removes what killed ones left, of whichever name, and nothing else", () => {
    const { home, store } = place();
    const backups = join(home, "backups");
    makePrivateFolder(backups);
    const files = [
      ["busy.db.other.sluice.partial", 0],
      ["busy.db.killed.sluice.partial", 2],
      ["yesterday.db.killed.sluice.partial", 2],
      ["busy.db.older", 2],
      ["busy.txt", 2],
      ["films.killed.partial", 2],
    ] as const;
    for (const [name, hours] of files) {
      writeFileSync(join(backups, name), "half");
      const touched = Date.now() / 1_000 - hours * 3_600;
      utimesSync(join(backups, name), touched, touched);
    }
    backupStore(store, join(backups, "busy.db"));
    store.close();
    expect(readdirSync(backups).sort()).toEqual([
      ...["busy.db", "busy.db.older", "busy.db.other.sluice.partial", "busy.txt", "films.killed.partial"],
    ]);
  });

  test("does not take the place of one to the same name that was whole before it", () => {
    const { home, store } = place();
    const file = join(home, "busy.db");
    const run = (path: string) => {
      store.database.query("VACUUM INTO ?").run(path);
      writeFileSync(file, "the other's");
    };
    const slow = { path: store.path, database: { query: () => ({ run }) } } as unknown as Store;
    expect(faultOf(() => backupStore(slow, file)).message).toContain("already is a file");
    expect(readFileSync(file, "utf8")).toBe("the other's");
    expect(readdirSync(home).filter((name) => name.includes("partial"))).toEqual([]);
    store.close();
  });

  test("never takes another file's place", () => {
    const { home, store } = place();
    const taken = join(home, "taken");
    writeFileSync(taken, "mine");
    expect(faultOf(() => backupStore(store, taken)).message).toContain("already is a file");
    expect(readFileSync(taken, "utf8")).toBe("mine");
    store.close();
  });

  posix("and a restore say of the place they write to, and of no other file, that it cannot be", () => {
    const { home, file, store } = place();
    store.close();
    const long = (ending: string) => join(home, "n".repeat(250) + ending);
    const refused = [
      faultOf(() => backupStore(openStore(file), long(""))),
      faultOf(() => restoreStore(file, long(""), nothing)),
      faultOf(() => makePrivateFolder(join(long("n".repeat(10)), "data"))),
    ];
    expect(refused.map(({ fault }) => fault)).toEqual(["unusable", "unusable", "unusable"]);
    expect(refused[0]!.message).toStartWith(`The store ${long("")} cannot be opened`);
    expect(refused[1]!.message).toBe(`The store ${long("")} cannot be opened: its path is too long.`);
    expect(refused[2]!.message).toEndWith("/data cannot be opened: its path is too long.");
  });
});

describe("restoring", () => {
  test("puts the backup in the store's place and keeps what was there", () => {
    const { home, path, file, store } = place();
    add(store, "later");
    store.close();
    const before = restoreStore(file, path, nothing);
    expect(before).toBe(`${path}.before-restore`);
    const restored = openStore(path);
    expect(names(restored)).toEqual(["a", "b"]);
    restored.close();
    const kept = openStore(before ?? "");
    expect(names(kept)).toEqual(["a", "b", "later"]);
    kept.close();
    expect(readdirSync(home).filter((name) => name.includes("restoring"))).toEqual([]);
  });

  test("a second time keeps what the first one put aside", () => {
    const { path, file, store } = place();
    add(store, "precious");
    store.close();
    const kept = [1, 2, 3].map(() => restoreStore(file, path, nothing) ?? "");
    expect(kept.map((name) => name.slice(path.length))).toEqual([
      ".before-restore",
      ".before-restore-2",
      ".before-restore-3",
    ]);
    const held = kept.map((name) => {
      const opened = openStore(name);
      const found = names(opened);
      opened.close();
      return found;
    });
    expect(held).toEqual([
      ["a", "b", "precious"],
      ["a", "b"],
      ["a", "b"],
    ]);
    // What was put aside can be taken back.
    restoreStore(kept[0]!, path, nothing);
    const back = openStore(path);
    expect(names(back)).toEqual(["a", "b", "precious"]);
    back.close();
  });

  // Windows neither moves nor removes a file that is open; here such a one shows among the process's own.
  test.skipIf(process.platform !== "linux")("leaves no file open, whatever was prepared while it was looked at", () => {
    const { home, path, file, store } = place();
    store.close();
    restoreStore(file, path, (looked) => {
      looked.database.prepare("SELECT 1").get();
      looked.database.transaction(nothing).immediate();
      openLedger(looked, new Writer(looked));
    });
    expect(openFiles().filter((target) => target.startsWith(home))).toEqual([]);
  });

  test("where no store was, and over one that is damaged beyond opening", () => {
    const { home, path, file, store } = place();
    store.close();
    const elsewhere = join(home, "new.db");
    expect(restoreStore(file, elsewhere, nothing)).toBeUndefined();
    expect(openStore(elsewhere).query.query.account.findMany().sync()).toHaveLength(2);
    writeFileSync(path, "broken".repeat(10_000));
    restoreStore(file, path, nothing);
    const restored = openStore(path);
    expect(names(restored)).toEqual(["a", "b"]);
    restored.close();
  });

  test("what the old store had not taken in yet is kept with it, and never mixed into the new one", () => {
    const { home, path, file, store } = place();
    store.close();
    // A process that died: rows that are only in the write-ahead log.
    const script = `import { openStore } from ${JSON.stringify(join(import.meta.dir, "../../src/db/open.ts"))};
      const store = openStore(${JSON.stringify(path)});
      store.database.run("INSERT INTO account (id, name, plan, created_at) VALUES ('late', 'late', 'local', 1)");
      process.kill(process.pid, "SIGKILL");`;
    Bun.spawnSync([process.execPath, "-e", script]);
    expect(statSync(`${path}-wal`).size).toBeGreaterThan(0);
    const before = restoreStore(file, path, nothing) ?? "";
    const restored = openStore(path);
    expect(names(restored)).toEqual(["a", "b"]);
    restored.close();
    const kept = openStore(before);
    expect(names(kept)).toEqual(["a", "b", "late"]);
    kept.close();
    expect(existsSync(home)).toBe(true);
  });

  test("takes a store that was copied by hand with what it had not taken in yet, where that was copied too", () => {
    const { path, file, store } = place();
    add(store, "late");
    // While it was open: its newest rows are in the write-ahead log alone.
    copyFileSync(path, `${file}.hand`);
    copyFileSync(`${path}-wal`, `${file}.hand-wal`);
    store.close();
    restoreStore(`${file}.hand`, path, nothing);
    const restored = openStore(path);
    expect(names(restored)).toEqual(["a", "b", "late"]);
    restored.close();
  });

  const damage = (file: string, at: number) => {
    const opened = openSync(file, "r+");
    writeSync(opened, new Uint8Array(600).fill(0xa5), 0, 600, at);
    closeSync(opened);
  };

  test.each(["sluice.db.restoring", "sluice.db"])(
    "is not undone by the journal of another database that a kill left beside %s",
    (beside) => {
      const { home, path, file, store } = place();
      store.close();
      // Where the store is broken nobody takes its journal in before the backup comes into its place.
      writeFileSync(path, "broken");
      writeFileSync(join(home, `${beside}-journal`), journalOfAnother(home));
      restoreStore(file, path, nothing);
      const restored = openStore(path);
      expect(names(restored)).toEqual(["a", "b"]);
      restored.close();
    },
  );

  test.each([
    ["nothing there", (file: string) => `${file}.missing`, "unusable", /There is no file/],
    [
      "text",
      (file: string) => {
        writeFileSync(file, "not a database at all, but long enough".repeat(100));
        return file;
      },
      "unusable",
      /no database/,
    ],
    [
      "an empty file",
      (file: string) => {
        writeFileSync(file, "");
        return file;
      },
      "unusable",
      /no database/,
    ],
    [
      "another program's database",
      (file: string) => {
        const path = `${file}.foreign`;
        const database = new Database(path);
        database.run("CREATE TABLE account (id TEXT)");
        database.close();
        return path;
      },
      "unusable",
      /copy\.db\.foreign is a database, but no store of Sluice/,
    ],
    [
      "a damaged page",
      (file: string) => {
        damage(file, 4096 * 3);
        return file;
      },
      "damaged",
      /copy\.db is damaged; choose another file\./,
    ],
    [
      "a file that was cut off",
      (file: string) => {
        writeFileSync(file, readFileSync(file).subarray(0, 4096 * 5));
        return file;
      },
      "damaged",
      /copy\.db is damaged; choose another file\./,
    ],
    [
      "a newer program's store",
      (file: string) => {
        const database = new Database(file);
        database.run("INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('x', 9999999999999)");
        database.close();
        return file;
      },
      "newer",
      /newer version/,
    ],
  ] as const)("refuses %s, and leaves the store as it is", (_what, spoil, fault, message) => {
    const { home, path, file, store } = place();
    add(store, "precious");
    store.close();
    const told = faultOf(() => restoreStore(spoil(file), path, nothing));
    expect(told.fault).toBe(fault);
    expect(told.message).toMatch(message);
    const still = openStore(path);
    expect(names(still)).toEqual(["a", "b", "precious"]);
    still.close();
    expect(readdirSync(home).filter((name) => /restor/.test(name))).toEqual([]);
  });

  test("refuses a file whose pages are sound and whose index is not: a look at the start would not see it", () => {
    const { home, path, store } = place();
    store.database.run("INSERT INTO account (id, name, plan, created_at) VALUES ('c', 'needle', 'local', 1)");
    const file = join(home, "odd.db");
    backupStore(store, file);
    store.close();
    const bytes = readFileSync(file);
    // The name stands in its row and in an index of names: one of the two is changed.
    bytes.write("noodle", bytes.indexOf("needle"));
    expect(bytes.indexOf("needle")).toBeGreaterThan(0);
    writeFileSync(file, bytes);
    expect(openStore(file).warnings).toEqual([]);
    const told = faultOf(() => restoreStore(file, path, nothing));
    expect([told.fault, /index account_name/.test(told.message)]).toEqual(["damaged", true]);
    const still = openStore(path);
    expect(names(still)).toEqual(["a", "b", "c"]);
    still.close();
  });

  test("refuses a file in which one letter is another one, which its pages do not tell", () => {
    const { home, path, store } = place();
    store.database.run("INSERT INTO account (id, name, plan, created_at) VALUES ('acct_needle', 'c', 'local', 1)");
    store.database.run("UPDATE account SET plan = 'power' WHERE id = 'acct_needle'");
    const file = join(home, "odd.db");
    backupStore(store, file);
    store.close();
    const bytes = readFileSync(file);
    const plan = bytes.indexOf("power");
    expect(plan).toBeGreaterThan(0);
    bytes.write("t", plan);
    writeFileSync(file, bytes);
    // A copy, since a store that is opened is written to.
    copyFileSync(file, `${file}.opened`);
    expect(openStore(`${file}.opened`).warnings).toEqual([]);
    const told = faultOf(() => restoreStore(file, path, nothing));
    expect(told).toEqual({
      fault: "damaged",
      message: expect.stringMatching(/odd\.db is damaged: it is not as it was written/),
    });
    expect(readdirSync(home).filter((name) => /restor/.test(name))).toEqual([]);
  });

  test("of a sound file leaves the database alone in the store's place", () => {
    const { path, file, store } = place();
    store.close();
    restoreStore(file, path, nothing);
    expect(readFileSync(file).includes("sluice-backup")).toBe(true);
    expect(readFileSync(path).includes("sluice-backup")).toBe(false);
  });

  test.each([
    [
      "without a digest, as of an older version",
      (file: string) => {
        const whole = readFileSync(file);
        writeFileSync(file, whole.subarray(0, whole.lastIndexOf("\nsluice-backup ")));
      },
      ["a", "b"],
    ],
    [
      "that somebody has changed on purpose",
      (file: string) => {
        const database = new Database(file);
        database.run("DELETE FROM account WHERE id = 'b'");
        database.close();
      },
      ["a"],
    ],
  ])("takes one %s", (_what, change, left) => {
    const { path, file, store } = place();
    store.close();
    change(file);
    restoreStore(file, path, nothing);
    const restored = openStore(path);
    expect(names(restored)).toEqual(left);
    restored.close();
  });

  test("refuses what its caller refuses", () => {
    const { path, file, store } = place();
    add(store, "precious");
    store.close();
    const refuse = () => {
      throw new Error("the books are wrong");
    };
    expect(() => restoreStore(file, path, refuse)).toThrow("the books are wrong");
    const still = openStore(path);
    expect(names(still)).toEqual(["a", "b", "precious"]);
    still.close();
  });
});
