import type { Caller } from "../accounts/caller.ts";
import { Abort } from "../lib/abort.ts";
import { Ended } from "../relay/ended.ts";
import { type Running, Visit } from "../relay/running.ts";
import type { WebCall } from "../web/tools-meter.ts";
import type { Work } from "./work.ts";

/** For the traces: who served a call, and what it came to. */
export const noteWorked = (work: Work | undefined): WebCall["onWorked"] =>
  work && (({ vendor, attempts, used }) => work.note({ vendor, tried: attempts, units: used }));

/**
 * Runs a call of a web tool as one that can be ended: by the client that leaves, by its key being revoked, by a server that stops (contract 4).
 * Throws the error of whatever ended it, and what `work` throws.
 */
export async function runCall<T>(
  request: Request,
  { keyId }: Caller,
  running: Running,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const visit = new Visit(running, keyId, Abort.of(request.signal));
  try {
    return await work(visit.abort.signal);
  } catch (thrown) {
    throw thrown instanceof Ended ? thrown.tell() : thrown;
  } finally {
    visit.end();
  }
}
