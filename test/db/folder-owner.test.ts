import { describe, expect, test } from "bun:test";
import { chownSync, linkSync, lstatSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { backupStore, restoreStore } from "../../src/db/backup.ts";
import { lockDataFolder } from "../../src/db/folder-lock.ts";
import { giveToFolderOwner } from "../../src/db/folder-owner.ts";
import { openStore } from "../../src/db/open.ts";
import { temporaryFolders } from "./temp-folder.ts";

const folder = temporaryFolders();
const SERVICE = 12_345;

/** An empty folder of a service's, which runs as another user. */
function ofService(): string {
  const home = folder();
  chownSync(home, SERVICE, SERVICE);
  return home;
}

const ownersIn = (home: string) => new Set(readdirSync(home).map((name) => lstatSync(join(home, name)).uid));

// Root alone may give files away.
describe.skipIf(process.geteuid?.() !== 0)("what root makes in a folder of a service's is the service's:", () => {
  test("a new store, its log, and the lock", () => {
    const home = ofService();
    const lock = lockDataFolder(home);
    const store = openStore(join(home, "sluice.db"));
    store.database.run("INSERT INTO account (id, name, plan, created_at) VALUES ('a', 'a', 'local', 1)");
    expect(readdirSync(home)).toContain("sluice.db-wal");
    expect(ownersIn(home)).toEqual(new Set([SERVICE]));
    store.close();
    lock.release();
  });

  test("a store that is restored, whoever has the backup", () => {
    const home = ofService();
    const path = join(home, "sluice.db");
    const file = join(folder(), "copy.db");
    const store = openStore(path);
    backupStore(store, file);
    store.close();
    expect(statSync(file).uid).toBe(0);
    for (const _round of [1, 2]) restoreStore(file, path, () => {});
    expect(readdirSync(home)).toContain("sluice.db.before-restore-2");
    expect(ownersIn(home)).toEqual(new Set([SERVICE]));
  });

  test("but nothing that was there, nothing of another user's, and nothing that has another name elsewhere", () => {
    const home = ofService();
    const path = join(home, "sluice.db");
    openStore(path).close();
    chownSync(path, 0, 0);
    openStore(path).close();
    expect(statSync(path).uid).toBe(0);
    const other = join(folder(), "other");
    writeFileSync(other, "");
    symlinkSync(other, join(home, "link"));
    linkSync(other, join(home, "name"));
    const another = join(home, "another");
    writeFileSync(another, "");
    chownSync(another, SERVICE + 1, SERVICE + 1);
    giveToFolderOwner(join(home, "link"), join(home, "name"), join(home, "nothing"), another);
    expect([statSync(other).uid, statSync(another).uid]).toEqual([0, SERVICE + 1]);
  });
});
