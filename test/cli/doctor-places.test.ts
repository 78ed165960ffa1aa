import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type StoreError, toStoreError } from "../../src/db/store-error.ts";
import { makeFolder, removeFolder } from "../support/binary.ts";
import { sluice } from "./support.ts";

setDefaultTimeout(30_000);

let folder: string;
beforeEach(() => {
  folder = makeFolder();
});
afterEach(() => removeFolder(folder));

const storeFinding = async (data: string) => {
  const { code, stdout } = await sluice(folder, ["doctor", "--json", "--data", data]);
  const findings = JSON.parse(stdout) as { check: string; state: string; detail: string; advice?: string }[];
  return { code, ...findings.find(({ check }) => check === "store") };
};

describe("doctor, where there is no store yet,", () => {
  test("says that a start could make none below a file", async () => {
    const file = join(folder, "file");
    writeFileSync(file, "", { mode: 0o600 });
    for (const data of [file, join(file, "data", "deep")]) {
      expect(await storeFinding(data)).toMatchObject({
        code: 1,
        state: "fault",
        detail: `there is none, and ${file} is a file, not a folder`,
      });
      expect((await sluice(folder, ["serve", "--port", "0", "--data", data])).code).toBe(1);
    }
  });

  // Root may write anywhere.
  test.skipIf(process.geteuid?.() === 0 || process.platform === "win32")("or in a folder of others", async () => {
    const closed = join(folder, "closed");
    mkdirSync(closed, { mode: 0o500 });
    expect(await storeFinding(join(closed, "data"))).toMatchObject({
      code: 1,
      state: "fault",
      detail: `there is none, and ${closed} cannot be written by this user`,
    });
    chmodSync(closed, 0o700);
    expect(await storeFinding(join(closed, "data"))).toMatchObject({ code: 0, state: "note" });
  });

  test("tells what to do once, however many faults it is for", async () => {
    const path = join(folder, "bad.yaml");
    writeFileSync(path, "server:\n  port: x\n  host: 3\n");
    const { stdout } = await sluice(folder, ["doctor", "--config", path]);
    expect(stdout.match(/^fault {2}configuration/gm)).toHaveLength(2);
    expect(stdout.match(/ configuration: correct/g)).toHaveLength(1);
  });
});

test("a disk without room for what processes share is told as full", () => {
  const thrown = Object.assign(new Error("disk I/O error"), { code: "SQLITE_IOERR_SHMSIZE" });
  const told = toStoreError(thrown, "/data/sluice.db") as StoreError;
  expect([told.fault, told.message]).toEqual(["disk-full", "The store /data/sluice.db cannot grow: the disk is full."]);
});
