import { readFileSync } from "node:fs";

let last = 0;
let lastPrivate = 0;
/** So much of the program's file is at work all the time, bytes: what a process that has just started has of it. */
const AT_WORK_BYTES = 48 * 1024 * 1024;

/**
 * What this process has resident, bytes: as it was last known when the system cannot say, as it cannot to a process that may open no further
 * file (Bun reads it from one). Never throws: it is asked by timers, where that would end the process.
 */
export function readResident(): number {
  try {
    last = process.memoryUsage.rss();
  } catch {
    // Whoever wants to know asks again.
  }
  return last;
}

/**
 * What of {@link readResident} is this process's alone, bytes: not what lies in files that others have mapped too. Where the system does not tell
 * (anything but Linux), or cannot, as there.
 */
export function readPrivate(): number {
  try {
    const [, kilobytes] = /^RssAnon:\s*(\d+) kB$/m.exec(readFileSync("/proc/self/status", "latin1")) ?? [];
    lastPrivate = kilobytes === undefined ? readResident() : Number(kilobytes) * 1_024;
  } catch {
    lastPrivate ||= readResident();
  }
  return lastPrivate;
}

/**
 * What of {@link readResident} the system cannot take back without the process standing still over it, bytes: what lies in no file, and what of the
 * program's own is at work all the time. The rest of that file, up to 60 MB after a busy day, it takes where it needs the memory.
 */
export function readHeld(): number {
  return Math.min(readResident(), readPrivate() + AT_WORK_BYTES);
}
