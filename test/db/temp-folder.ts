import { afterEach } from "bun:test";
import { lstatSync, mkdtempSync, readdirSync, readlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { removeFolder } from "../support/binary.ts";

/** Gives out empty folders, and removes them after each test of the file that calls this. */
export function temporaryFolders(): () => string {
  const made: string[] = [];
  afterEach(() => {
    for (const folder of made.splice(0)) removeFolder(folder);
  });
  return () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-"));
    made.push(folder);
    return folder;
  };
}

/** What `work` throws. Fails the test when it does not. */
export function thrownBy(work: () => unknown): unknown {
  try {
    work();
  } catch (thrown) {
    return thrown;
  }
  throw new Error("nothing was thrown");
}

/** The paths of what this process has open; Linux alone says so. */
export const openFiles = () =>
  readdirSync("/proc/self/fd").flatMap((name) => {
    const link = `/proc/self/fd/${name}`;
    // The one that the list itself was read from is gone.
    return lstatSync(link, { throwIfNoEntry: false }) ? [readlinkSync(link)] : [];
  });
