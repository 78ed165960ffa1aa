import type { Subprocess } from "bun";
import type { Message } from "./channel.ts";

/**
 * Writes a batch to a process that this one has started. Without effect when that has ended: nobody reads it any more, and what it held is ended once the
 * closing of its pipe is noticed. Throws when it cannot be written for any other reason.
 */
export function postTo(child: Pick<Subprocess, "send" | "exitCode" | "signalCode">, batch: readonly Message[]): void {
  try {
    child.send(batch);
  } catch (thrown) {
    if (child.exitCode === null && child.signalCode === null) throw thrown;
  }
}
