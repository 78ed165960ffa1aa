import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import {
  chmodSync,
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { isThere, openStore, withPrivateFiles } from "../../src/db/open.ts";
import { StoreError, toStoreError } from "../../src/db/store-error.ts";
import { openFiles, temporaryFolders, thrownBy } from "./temp-folder.ts";

const folder = temporaryFolders();
const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);

function expectFault(thrown: unknown, fault: string, words: RegExp): void {
  expect(thrown).toBeInstanceOf(StoreError);
  expect((thrown as StoreError).fault).toBe(fault as StoreError["fault"]);
  expect((thrown as StoreError).message).toMatch(words);
}

describe("opening", () => {
  test("every pragma is as reliability 2 #1 wants it", () => {
    const store = openStore(join(folder(), "sluice.db"));
    const pragma = (name: string) => String(Object.values(store.database.query(`PRAGMA ${name}`).get() as object)[0]);
    expect(pragma("journal_mode")).toBe("wal");
    expect(pragma("synchronous")).toBe("2");
    expect(pragma("foreign_keys")).toBe("1");
    expect(pragma("trusted_schema")).toBe("0");
    expect(pragma("cell_size_check")).toBe("1");
    expect(pragma("secure_delete")).toBe("1");
    expect(pragma("busy_timeout")).toBe("0");
    store.close();
    const command = openStore(store.path, { waitMs: 2_000 });
    expect(Object.values(command.database.query("PRAGMA busy_timeout").get() as object)).toEqual([2_000n]);
    command.close();
  });

  test.skipIf(process.platform === "win32")("folders are 0700 and files 0600, whatever the umask", () => {
    const before = process.umask(0);
    try {
      const deep = join(folder(), "new", "deeper");
      const store = openStore(join(deep, "sluice.db"));
      store.database.run("INSERT INTO account VALUES ('a', 'a', 'local', 1)");
      expect(mode(join(deep, ".."))).toBe("700");
      expect(mode(deep)).toBe("700");
      for (const ending of ["", "-wal", "-shm"]) expect(mode(store.path + ending)).toBe("600");
      store.close();
      // From their first moment, not only once they are tightened.
      withPrivateFiles(() => writeFileSync(join(deep, "other"), ""));
      expect(mode(join(deep, "other"))).toBe("600");
      expect(process.umask()).toBe(0);
    } finally {
      process.umask(before);
    }
  });

  test.skipIf(process.platform === "win32")(
    "a store that others may read is taken from them; an existing folder is left alone",
    () => {
      const home = folder();
      chmodSync(home, 0o755);
      const path = join(home, "sluice.db");
      openStore(path).close();
      chmodSync(path, 0o644);
      const store = openStore(path);
      expect(mode(path)).toBe("600");
      expect(mode(home)).toBe("755");
      expect(store.warnings).toEqual([]);
      store.close();
    },
  );

  test("closing leaves no write-ahead log behind and may be done twice", () => {
    const store = openStore(join(folder(), "sluice.db"));
    store.database.run("INSERT INTO account VALUES ('a', 'a', 'local', 1)");
    expect(statSync(`${store.path}-wal`).size).toBeGreaterThan(0);
    // SQLite itself tidies up only after the last connection.
    const command = new Database(store.path);
    command.query("SELECT count(*) FROM account").get();
    store.close();
    store.close();
    expect(existsSync(`${store.path}-wal`) ? statSync(`${store.path}-wal`).size : 0).toBe(0);
    command.close();
    const again = openStore(store.path);
    expect(again.query.query.account.findMany().sync()).toHaveLength(1);
    again.close();
  });

  test("a write-ahead log that has grown for a long reader is cut once it begins anew", () => {
    const store = openStore(join(folder(), "sluice.db"));
    const sizeOfLog = () => statSync(`${store.path}-wal`).size;
    store.database.run("CREATE TABLE filler (content BLOB)");
    // All that comes while somebody reads, such as a backup, has to wait in the log. One large write leaves as much there.
    store.database.run("INSERT INTO filler VALUES (zeroblob(17 * 1024 * 1024))");
    expect(sizeOfLog()).toBeGreaterThan(17 * 1024 * 1024);
    store.database.run("INSERT INTO account VALUES ('a', 'a', 'local', 1)");
    expect(sizeOfLog()).toBe(16 * 1024 * 1024);
    store.close();
  });

  test("every table is STRICT, and usage is append-only", () => {
    const store = openStore(":memory:");
    const tables = store.database.query("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'").all() as {
      name: string;
      strict: bigint;
    }[];
    const own = tables.filter(({ name }) => !name.startsWith("sqlite_") && !name.startsWith("__drizzle"));
    expect(own.map(({ name }) => name)).toEqual(expect.arrayContaining(["account", "api_key", "usage"]));
    for (const { name, strict } of own) expect([name, strict]).toEqual([name, 1n]);
    store.database.run(
      `INSERT INTO usage (request_id, account_id, key_id, at_ms, duration_ms, dialect, stream, model, vendor, upstream_model, outcome,
        attempts, input, cache_read, cache_write, output, reasoning, estimated)
        VALUES ('r','a','k',1,1,'chat',0,'m','v','u','completed',1,1,0,0,1,0,0)`,
    );
    expect(() => store.database.run("UPDATE usage SET input = 0")).toThrow("never changed");
    expect(() => store.database.run("DELETE FROM usage")).toThrow("never removed before their time");
    expect(store.query.query.usage.findMany().sync()).toHaveLength(1);
    store.close();
  });
});

test("a path through a file, and links in a ring, lead to no file; what cannot be looked at need not be missing", () => {
  const home = folder();
  const path = join(home, "sluice.db");
  writeFileSync(path, "");
  expect([isThere(path), isThere(join(home, "other"))]).toEqual([true, false]);
  expect(isThere(join(path, "inside"))).toBe(false);
  const ring = join(home, "ring");
  if (process.platform !== "win32") symlinkSync(ring, ring);
  expect(isThere(ring)).toBe(false);
  rmSync(ring, { force: true });
  expectFault(
    thrownBy(() => isThere(join(home, "n".repeat(300)))),
    "unusable",
    /nnn/,
  );
});

describe("refusing", () => {
  test("a file that is no store", () => {
    const path = join(folder(), "sluice.db");
    writeFileSync(path, "This is a letter to a friend, and not a database. ".repeat(200));
    expectFault(
      thrownBy(() => openStore(path)),
      "damaged",
      /damaged or not a Sluice store/,
    );
    expect(readFileSync(path, "utf8").startsWith("This is a letter")).toBe(true);
  });

  test.each([
    ["with tables of its own", "CREATE TABLE letters (text)"],
    [
      "whose steps are counted the same way",
      "CREATE TABLE __drizzle_migrations (id INTEGER PRIMARY KEY, hash text, created_at numeric); INSERT INTO __drizzle_migrations VALUES (1, 'a', 1)",
    ],
  ])("another program's database, %s, and leaves it as it is", (_which, statements) => {
    const path = join(folder(), "sluice.db");
    const other = new Database(path);
    other.run(statements);
    other.close();
    const before = readFileSync(path);
    expectFault(
      thrownBy(() => openStore(path)),
      "unusable",
      /sluice\.db is a database, but no store of Sluice/,
    );
    if (process.platform === "linux") expect(openFiles()).not.toContain(path);
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  test("a store with a damaged page", () => {
    const path = join(folder(), "sluice.db");
    const store = openStore(path);
    const insert = store.database.prepare("INSERT INTO account VALUES (?, ?, 'local', 1)");
    // One commit: two thousand of them are seconds on a busy disk.
    store.database.transaction(() => {
      for (let at = 0; at < 2_000; at++) insert.run(`account-${at}`, `name-${at}`);
    })();
    store.close();
    const file = openSync(path, "r+");
    writeSync(file, new Uint8Array(300).fill(0xa5), 0, 300, 4096 * 8 + 4);
    closeSync(file);
    expectFault(
      thrownBy(() => openStore(path)),
      "damaged",
      /restore it from a backup/,
    );
  });

  test("a store of a newer program, which it leaves as it is", () => {
    const path = join(folder(), "sluice.db");
    const store = openStore(path);
    const steps = Number(store.database.query("SELECT count(*) FROM __drizzle_migrations").values()[0]?.[0]);
    store.database.run("INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('later', 9999999999999)");
    store.close();
    expectFault(
      thrownBy(() => openStore(path)),
      "newer",
      /newer version of Sluice/,
    );
    const raw = new Database(path);
    expect(raw.query("SELECT count(*) AS n FROM __drizzle_migrations").get()).toEqual({ n: steps + 1 });
    raw.close();
  });

  test("a path through a file, and a path that is a folder", () => {
    const home = folder();
    writeFileSync(join(home, "plain"), "");
    expectFault(
      thrownBy(() => openStore(join(home, "plain", "sluice.db"))),
      "unusable",
      /is a file, not a folder/,
    );
    expectFault(
      thrownBy(() => openStore(home)),
      "unusable",
      /cannot be opened/,
    );
  });

  test.skipIf(process.platform !== "linux")("a folder that nobody can make", () => {
    expectFault(
      thrownBy(() => openStore("/proc/none/sluice.db")),
      "unusable",
      /its folder cannot be made/,
    );
  });

  test("a file that may only be read is refused by who wants to write, before anything is served from it", () => {
    const path = join(folder(), "sluice.db");
    openStore(path).close();
    // Says that a later SQLite alone may write it (file format 1.3.3): the same as a file system that is mounted for reading, for whoever may write anywhere.
    const file = openSync(path, "r+");
    writeSync(file, Uint8Array.of(3), 0, 1, 18);
    closeSync(file);
    expectFault(
      thrownBy(() => openStore(path)),
      "read-only",
      /cannot be written; check its owner and permissions, and that its disk is not mounted read-only/,
    );
    const reader = openStore(path, { check: false });
    expect(reader.database.query("SELECT count(*) AS n FROM account").get()).toEqual({ n: 0n });
    reader.close();
  });

  test("what SQLite says when the file may only be read, and an error that is no fault of the store", () => {
    const path = join(folder(), "sluice.db");
    openStore(path).close();
    const raw = new Database(path, { readonly: true });
    const thrown = thrownBy(() => raw.run("DELETE FROM account"));
    raw.close();
    expectFault(toStoreError(thrown, path), "read-only", /cannot be written/);
    const slip = new TypeError("a slip");
    expect(toStoreError(slip, path)).toBe(slip);
  });
});

test("a command that ends beside a long read keeps nobody from writing", () => {
  const path = join(folder(), "sluice.db");
  const server = openStore(path);
  const command = openStore(path, { waitMs: 20_000 });
  const reader = new Database(path, { readonly: true });
  reader.run("BEGIN");
  reader.query("SELECT count(*) FROM account").get();
  // Who has written begins the log anew when it closes.
  command.database.run("INSERT INTO account (id, name, plan, created_at) VALUES ('a', 'a', 'local', 1)");
  const startedAt = performance.now();
  command.close();
  // It would wait for the reader as long as it may, with the write lock in its hand.
  expect(performance.now() - startedAt).toBeLessThan(10_000);
  server.database.run("INSERT INTO account (id, name, plan, created_at) VALUES ('b', 'b', 'local', 1)");
  reader.run("COMMIT");
  reader.close();
  server.close();
});

test("to a server a command that only reads beside it looks like no write", () => {
  const path = join(folder(), "sluice.db");
  const server = openStore(path);
  server.database.run("INSERT INTO account (id, name, plan, created_at) VALUES ('a', 'a', 'local', 1)");
  const version = () => server.database.query("PRAGMA data_version").values()[0]?.[0];
  const before = version();
  const command = openStore(path, { check: false });
  expect(command.query.query.account.findMany().sync()).toHaveLength(1);
  command.close();
  expect(version()).toBe(before);
  server.close();
});
