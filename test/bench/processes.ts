import { readFileSync } from "node:fs";
import type { Subprocess } from "bun";

/** The processor core of what is measured, and that of everything that measures it. */
export const MEASURED_CORE = 0;
export const LOAD_CORE = 1;

const canPin = process.platform === "linux" && Bun.which("taskset") !== null && navigator.hardwareConcurrency > 1;
const TICKS_PER_SECOND = Number(Bun.spawnSync(["getconf", "CLK_TCK"]).stdout.toString()) || 100;

/** A command line that runs `command` on one core; `command` itself where the system cannot do that. */
export function pinned(core: number, command: readonly string[]): string[] {
  return canPin ? ["taskset", "-c", String(core), ...command] : [...command];
}

/** Moves this process, with all its threads, to one core. */
export function pinSelf(core: number): void {
  if (canPin) Bun.spawnSync(["taskset", "-a", "-c", "-p", String(core), String(process.pid)]);
}

export const isPinned = (): boolean => canPin;

function childrenOf(pid: number): number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
    return text.split(" ").filter(Boolean).map(Number);
  } catch {
    // Not every kernel keeps this list; then there is only the process itself.
    return [];
  }
}

/** CPU time that a process and its children have used, those included that have ended, seconds. */
export function readCpuSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  // utime, stime, cutime, cstime: fields 14 to 17 of proc(5).
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return ticks / TICKS_PER_SECOND + childrenOf(pid).reduce((sum, child) => sum + readCpuSeconds(child), 0);
}

/** Resident memory of a process, megabytes. */
export function readRssMegabytes(pid: number): number {
  const kilobytes = /VmRSS:\s*(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kilobytes) / 1024;
}

/** Starts a process and waits for its first line, which is JSON. */
export async function startHelper<T>(
  command: string[],
  env: Record<string, string>,
): Promise<{ child: Subprocess; said: T }> {
  const child = Bun.spawn(command, { env, stdout: "pipe", stderr: "inherit", stdin: "ignore" });
  let text = "";
  for await (const bytes of child.stdout) {
    text += new TextDecoder().decode(bytes);
    if (text.includes("\n")) return { child, said: JSON.parse(text.slice(0, text.indexOf("\n"))) as T };
  }
  throw new Error(`${command.join(" ")} ended without a word`);
}
