import type { Clock } from "../../lib/clock.ts";
import { DRAIN_MS } from "../../relay/running/drain.ts";

/** How long clients may take to hear that their answers were ended, and to close what rests, ms. */
const TELL_MS = 1_000;

/** A server that is to end. */
export type Stoppable = {
  /** Whether somebody still waits for an answer, or for the rest of one, where that is known. */
  readonly isBusy?: boolean;
  /** Takes no new connections; `force`: ends those there are. */
  stop(force?: boolean): Promise<void>;
};

export type StopParts = {
  clock: Clock;
  /** Ends what is under way. Resolves when nothing is. */
  end(): Promise<void>;
  /** Whether somebody waits for an answer that comes whole: it has a bound of its own, and is waited for. */
  hasWhole(): boolean;
};

/** Takes no new connections, lets answers end as `end` has them, and closes what is open then. */
export async function stopListening(server: Stoppable, { clock, end, hasWhole }: StopParts): Promise<void> {
  const endsAt = clock.monotonic() + DRAIN_MS + TELL_MS;
  const closed = server.stop();
  // A client that never ends its body, or reads nothing of its answer, would keep its request under way for as long as it likes.
  const cut = () => {
    if (hasWhole()) uncut = clock.after(TELL_MS, cut);
    else void server.stop(true);
  };
  let uncut = clock.after(DRAIN_MS + TELL_MS, cut);
  await end();
  uncut();
  const leftMs = server.isBusy ? endsAt - clock.monotonic() : 0;
  const late = Promise.withResolvers<void>();
  const awaited = clock.after(Math.max(TELL_MS, leftMs), late.resolve);
  await Promise.race([closed, late.promise]);
  awaited();
  await server.stop(true);
}
