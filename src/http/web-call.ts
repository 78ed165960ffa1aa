import type { Caller } from "../accounts/caller.ts";
import { Ended } from "../relay/exchange.ts";
import type { Running } from "../relay/running.ts";

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
  const abort = new AbortController();
  const onLeave = () => abort.abort(request.signal.reason);
  request.signal.addEventListener("abort", onLeave);
  if (request.signal.aborted) onLeave();
  const leave = running.enter(keyId, abort);
  try {
    return await work(abort.signal);
  } catch (thrown) {
    throw thrown instanceof Ended ? thrown.error : thrown;
  } finally {
    leave();
    request.signal.removeEventListener("abort", onLeave);
  }
}
