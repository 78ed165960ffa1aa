import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { migrate, migrationsFolder } from "../../src/db/migrations.ts";
import { openStore } from "../../src/db/open.ts";
import { temporaryFolders } from "./temp-folder.ts";

const folder = temporaryFolders();
const shape = (database: Database) =>
  database.query("SELECT type, name, sql FROM sqlite_schema ORDER BY name").values();

type Entry = { tag: string; when: number };

/** A copy of the steps with another journal. */
function withJournal(change: (entries: Entry[]) => Entry[]): string {
  const copy = join(folder(), "drizzle");
  cpSync(migrationsFolder(), copy, { recursive: true });
  const path = join(copy, "meta/_journal.json");
  const journal = JSON.parse(readFileSync(path, "utf8")) as { entries: Entry[] };
  writeFileSync(path, JSON.stringify({ ...journal, entries: change(journal.entries) }));
  return copy;
}

/** A copy of the steps with one more, `sql`, at the end. */
function withStep(sql: string): string {
  const copy = withJournal((entries) => [...entries, { tag: "9999_test", when: 9_000_000_000_000 }]);
  writeFileSync(join(copy, "9999_test.sql"), sql);
  return copy;
}

describe("migrations", () => {
  test("from empty they all run; a second time nothing happens", () => {
    const database = new Database(":memory:", { safeIntegers: true });
    const taken = migrate(database);
    expect(taken.length).toBeGreaterThan(0);
    const first = shape(database);
    expect(migrate(database)).toEqual([]);
    expect(shape(database)).toEqual(first);
  });

  test("a new step alone is taken on a store that has the others", () => {
    const database = new Database(":memory:", { safeIntegers: true });
    migrate(database);
    expect(migrate(database, withStep("CREATE TABLE extra (id INTEGER) STRICT;"))).toEqual(["9999_test"]);
    expect(database.query("SELECT count(*) FROM extra").values()).toEqual([[0n]]);
  });

  test("a store that took a later step first takes those that stand ahead of it", () => {
    const first = withJournal((entries) => entries.filter(({ tag }) => /^000[04]_/.test(tag)));
    const database = new Database(":memory:", { safeIntegers: true });
    expect(migrate(database, first)).toEqual(["0000_start", "0004_idempotency"]);
    const fresh = new Database(":memory:", { safeIntegers: true });
    const all = migrate(fresh);
    expect(migrate(database)).toEqual(all.filter((tag) => !/^000[04]_/.test(tag)));
    expect(shape(database)).toEqual(shape(fresh));
    expect(migrate(database)).toEqual([]);
  });

  test("a step that fails half-way leaves nothing of itself", () => {
    const database = new Database(":memory:", { safeIntegers: true });
    const taken = BigInt(migrate(database).length);
    const before = shape(database);
    const steps = withStep(
      "CREATE TABLE extra (id INTEGER) STRICT;--> statement-breakpoint\nINSERT INTO nowhere VALUES (1);",
    );
    expect(() => migrate(database, steps)).toThrow("nowhere");
    expect(shape(database)).toEqual(before);
    expect(database.query("SELECT count(*) FROM __drizzle_migrations").values()).toEqual([[taken]]);
  });

  test("processes that start at once on an empty folder all get a whole store", async () => {
    const path = join(folder(), "sluice.db");
    const source = `import { openStore } from ${JSON.stringify(join(import.meta.dir, "../../src/db/open.ts"))};
      const store = openStore(${JSON.stringify(path)}); console.log(store.query.query.account.findMany().sync().length); store.close();`;
    const started = Array.from({ length: 4 }, () => Bun.spawn([process.execPath, "-e", source], { stderr: "pipe" }));
    const outputs = await Promise.all(
      started.map(async (child) => [
        await child.exited,
        await new Response(child.stdout).text(),
        await new Response(child.stderr).text(),
      ]),
    );
    expect(outputs).toEqual(Array(4).fill([0, "0\n", ""]));
    const store = openStore(path);
    const taken = store.database
      .query("SELECT count(*), count(DISTINCT created_at) FROM __drizzle_migrations")
      .values();
    const steps = BigInt(migrate(new Database(":memory:", { safeIntegers: true })).length);
    expect(taken).toEqual([[steps, steps]]);
    store.close();
  });

  test("a process that comes while another is making the file waits for it", async () => {
    const path = join(folder(), "sluice.db");
    const source = `import { Database } from "bun:sqlite";
      const other = new Database(${JSON.stringify(path)}); other.run("BEGIN IMMEDIATE"); console.log("held");
      await Bun.sleep(100); other.run("ROLLBACK"); other.close();`;
    const other = Bun.spawn([process.execPath, "-e", source], { stdout: "pipe" });
    const { value } = await other.stdout.getReader().read();
    expect(new TextDecoder().decode(value)).toBe("held\n");
    const store = openStore(path);
    expect(store.query.query.account.findMany().sync()).toEqual([]);
    store.close();
    expect(await other.exited).toBe(0);
  });
});
