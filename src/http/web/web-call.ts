import type { Caller } from "../../accounts/caller.ts";
import type { Keys } from "../../accounts/keys.ts";
import { Abort } from "../../lib/abort.ts";
import type { Clock } from "../../lib/clock.ts";
import type { BodyRoom } from "../../limits/body-room.ts";
import type { Log } from "../../observe/log.ts";
import type { RequestObserver } from "../../observe/request-facts.ts";
import type { IdempotencyStore } from "../../relay/idempotency-store.ts";
import { Ended } from "../../relay/running/ended.ts";
import { type Running, Visit } from "../../relay/running/running.ts";
import type { WebCall } from "../../web/tools/meter.ts";
import type { RequestServer } from "../asked.ts";
import { answerError, noteFault } from "../errors.ts";
import { requestIdOf } from "../request.ts";
import type { Work } from "../work.ts";

/** What both forms of the web tools need: the MCP server, and the standalone endpoints. */
export type WebCallDependencies = {
  keys: Keys;
  kept: IdempotencyStore;
  running: Running;
  clock: Clock;
  observer: RequestObserver | undefined;
  log: Log;
  /** Where a large body needs a place. */
  room: BodyRoom | undefined;
  server(): RequestServer;
};

/** For the traces: who served a call, and what it came to. */
export const noteWorked = (work: Work | undefined): WebCall["onWorked"] =>
  work && (({ vendor, attempts, used }) => work.note({ vendor, tried: attempts, units: used }));

/** The answer to a call that failed; for the traces, and for the log where it is the gateway's own fault and its client is still there. */
export function answerFault(thrown: unknown, request: Request, work: Work | undefined, log: Log): Response {
  work?.failed(thrown);
  if (!request.signal.aborted) noteFault(thrown, request, requestIdOf(request), log);
  return answerError(thrown, request);
}

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
