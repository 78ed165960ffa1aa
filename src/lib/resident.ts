import { readFileSync } from "node:fs";
import { errorCode } from "./error-code.ts";

let last = 0;
let lastPrivate = 0;
/** How much of the program's file is in use all the time, bytes: what a process that has just started has in memory of it. */
const AT_WORK_BYTES = 48 * 1024 * 1024;

/**
 * Resident memory of this process, bytes; the last known figure where it cannot be read, as in a process that may open no further file (Bun reads it from
 * one). Never throws: timers ask for it, where nobody would catch that.
 */
export function readResident(): number {
  try {
    last = process.memoryUsage.rss();
  } catch {
    // The last known figure stands until it can be read again.
  }
  return last;
}

/**
 * The part of {@link readResident} that belongs to no file, and so to this process alone, bytes (Linux: `RssAnon`). Where the system does not tell: all of
 * it; where it cannot be read at the moment: the last known figure. Never throws. `file` is replaced in tests.
 */
export function readPrivate(file = "/proc/self/status"): number {
  try {
    const [, kilobytes] = /^RssAnon:\s*(\d+) kB$/m.exec(readFileSync(file, "latin1")) ?? [];
    lastPrivate = kilobytes === undefined ? readResident() : Number(kilobytes) * 1_024;
  } catch (thrown) {
    // Only Linux has this file.
    if (errorCode(thrown) === "ENOENT") return readResident();
    lastPrivate ||= readResident();
  }
  return lastPrivate;
}

/**
 * The part of {@link readResident} that the system could not take back without slowing the process down, bytes: memory that belongs to no file, and the
 * part of the program's file that is in use all the time. The rest of that file, up to 60 MB after a busy day, the system takes back when it needs memory.
 */
export function readHeld(): number {
  return Math.min(readResident(), readPrivate() + AT_WORK_BYTES);
}
