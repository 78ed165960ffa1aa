import { readFileSync } from "node:fs";

let last = 0;
let lastPrivate = 0;

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
