import { afterEach, expect, test } from "bun:test";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { lockDataFolder, refuseUnderServer, serverIsRunning } from "../../src/db/folder-lock.ts";
import { openStore } from "../../src/db/open.ts";
import { StoreError } from "../../src/db/store-error.ts";
import { openFiles, temporaryFolders, thrownBy } from "./temp-folder.ts";

const folder = temporaryFolders();

const children: Bun.Subprocess[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill("SIGKILL");
    await child.exited;
  }
});

/** A server in another process: has the folder's lock and its store open until it is killed. */
async function otherServer(home: string) {
  const source = `import { lockDataFolder } from ${JSON.stringify(join(import.meta.dir, "../../src/db/folder-lock.ts"))};
    import { openStore } from ${JSON.stringify(join(import.meta.dir, "../../src/db/open.ts"))};
    lockDataFolder(${JSON.stringify(home)}); openStore(${JSON.stringify(join(home, "sluice.db"))});
    Bun.gc(true); console.log("ready"); setInterval(() => {}, 1000);`;
  const child = Bun.spawn([process.execPath, "-e", source], { stdout: "pipe", stderr: "inherit" });
  children.push(child);
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  expect(new TextDecoder().decode(value)).toBe("ready\n");
  return child;
}

test("a second server on one folder is refused in plain words; a command may still write; a killed server leaves the folder free", async () => {
  const home = folder();
  const child = await otherServer(home);
  const thrown = thrownBy(() => lockDataFolder(home));
  expect(thrown).toBeInstanceOf(StoreError);
  expect((thrown as StoreError).fault).toBe("locked");
  expect((thrown as StoreError).message).toContain("Another Sluice server is already running on the data folder");

  const command = openStore(join(home, "sluice.db"), { waitMs: 2_000 });
  command.database.run("INSERT INTO account VALUES ('a', 'a', 'local', 1)");
  expect(command.query.query.account.findMany().sync()).toHaveLength(1);
  command.close();

  child.kill("SIGKILL");
  await child.exited;
  const lock = lockDataFolder(home);
  expect(() => lockDataFolder(home)).toThrow("already running");
  lock.release();
  const next = lockDataFolder(home);
  lock.release();
  expect(() => lockDataFolder(home)).toThrow("already running");
  next.release();
  // A file that is left open holds the lock on Windows, and keeps the folder from being removed.
  if (process.platform === "linux") expect(openFiles()).not.toContain(join(home, "sluice.lock"));
});

test("a server that starts in the instant in which a command looks is not refused", async () => {
  const home = folder();
  const source = `import { lockDataFolder } from ${JSON.stringify(join(import.meta.dir, "../../src/db/folder-lock.ts"))};
    const lock = lockDataFolder(${JSON.stringify(home)}); console.log("held"); await Bun.sleep(30); lock.release();`;
  const looking = Bun.spawn([process.execPath, "-e", source], { stdout: "pipe", stderr: "inherit" });
  children.push(looking);
  expect(new TextDecoder().decode((await looking.stdout.getReader().read()).value)).toBe("held\n");
  lockDataFolder(home).release();
});

test("whether a server runs on a folder is told without making it, and without keeping it", () => {
  const home = folder();
  const none = join(home, "none");
  expect([serverIsRunning(none), existsSync(none)]).toEqual([false, false]);
  const lock = lockDataFolder(home);
  expect(() => refuseUnderServer(home)).toThrow("is of an older version");
  lock.release();
  refuseUnderServer(home);
  lockDataFolder(home).release();
  // Where the lock cannot be tried nobody can run.
  const other = folder();
  mkdirSync(join(other, "sluice.lock"));
  expect(serverIsRunning(other)).toBe(false);
});

test("two folders have nothing to do with each other", () => {
  const first = lockDataFolder(folder());
  const second = lockDataFolder(folder());
  first.release();
  second.release();
});

test.skipIf(process.platform !== "linux")("a folder that cannot be had: how another one is named is told", () => {
  expect(thrownBy(() => lockDataFolder("/proc/none"))).toMatchObject({
    fault: "unusable",
    message:
      "The store /proc/none cannot be opened: its folder cannot be made. Put that right, or choose another folder with --data or SLUICE_DATA.",
  });
  const home = folder();
  mkdirSync(join(home, "sluice.lock"));
  const { fault, message } = thrownBy(() => lockDataFolder(home)) as StoreError;
  expect(fault).toBe("unusable");
  expect(message).toEndWith(" Put that right, or choose another folder with --data or SLUICE_DATA.");
});
