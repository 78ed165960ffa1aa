import type { Subprocess } from "bun";
import type { Message } from "./channel.ts";

/**
 * Writes a batch to a process that this one has started, unless that has ended: nobody reads it any more then, and what it held is ended when its pipe
 * closes, which is told later. Throws whatever else keeps it from being written.
 */
export function postTo(child: Pick<Subprocess, "send" | "exitCode" | "signalCode">, batch: readonly Message[]): void {
  try {
    child.send(batch);
  } catch (thrown) {
    if (child.exitCode === null && child.signalCode === null) throw thrown;
  }
}
