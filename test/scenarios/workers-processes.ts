import { readdirSync, readFileSync } from "node:fs";

/** CPU ticks a second, as /proc counts them. */
const TICKS = 100;

function readStat(pid: number | string): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name before may hold blanks and brackets.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    // It ended while it was looked at.
    return undefined;
  }
}

/** Whether a process runs. One that has ended and whose parent has not noticed does not. */
export function isAlive(pid: number): boolean {
  const state = readStat(pid)?.[0];
  return state !== undefined && state !== "Z";
}

/** Running processes whose parent this is. */
export function childrenOf(parent: number): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(readStat(name)?.[1]) === parent)
    .map(Number)
    .filter(isAlive);
}

/** CPU seconds that a process itself has used, in user and system. */
export function readOwnCpuSeconds(pid: number): number {
  const fields = readStat(pid) ?? [];
  return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) / TICKS;
}
