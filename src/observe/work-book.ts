import type { WorkCall, WorkFacts } from "./request-facts.ts";

/** To be called when a call to a vendor has ended, with its outcome: see {@link Attempt}. */
export type EndCall = (outcome: string) => void;

/** The outcome of a call that was still under way when nobody waited for it any more. */
const BROKEN_OFF = "client-left";

/** The wall clock, Unix ms, and one that never steps back. */
type Times = { now(): number; monotonic(): number };

type Noted = Omit<WorkCall, "ms"> & { ms: number | undefined };

/** What is noted of a piece of work while it is under way, for the traces: when it began, and the calls to vendors. */
export class WorkBook {
  readonly #startedAt: number;
  readonly #since: number;
  readonly #calls: Noted[] = [];

  /** `agoMs`: how long the work had been under way before this book was opened, ms. */
  constructor(
    private readonly clock: Times,
    agoMs = 0,
  ) {
    this.#startedAt = clock.now() - agoMs;
    this.#since = clock.monotonic() - agoMs;
  }

  get #elapsed(): number {
    return Math.round(this.clock.monotonic() - this.#since);
  }

  /** Notes that a vendor is called. The returned function is to be told how the call ended. */
  call(vendor: string, model: string): EndCall {
    const call: Noted = { vendor, model, outcome: BROKEN_OFF, at: this.#elapsed, ms: undefined };
    this.#calls.push(call);
    return (outcome) => {
      call.outcome = outcome;
      call.ms = this.#elapsed - call.at;
    };
  }

  /** All that was noted, of work that ends now; calls that are still under way end with it. */
  close(): Pick<WorkFacts, "startedAt" | "durationMs" | "calls"> {
    const durationMs = this.#elapsed;
    const calls = this.#calls.map((call) => ({ ...call, ms: call.ms ?? durationMs - call.at }));
    return { startedAt: this.#startedAt, durationMs, calls };
  }
}
