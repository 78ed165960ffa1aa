/**
 * One call to a vendor on the way of a request. `key`: which of its keys, from 0. `outcome`: see {@link attemptOutcome}. `at`: when it
 * began, ms after the request did; 0 where that is not known any more. `ms`: its duration.
 */
export type Attempt = { vendor: string; model: string; key: number; outcome: string; at: number; ms: number };

/** How the last call of a request ended: `served`, the code of its error, or the request's own outcome where nothing went wrong. */
export const attemptOutcome = (outcome: string | undefined, error: string | null | undefined): string =>
  outcome === "completed" ? "served" : (error ?? outcome ?? "ended");

/** What became of a request that was held, told once, when its book is closed. */
export type RequestFacts = {
  requestId: string;
  accountId: string;
  keyId: string;
  dialect: string;
  stream: boolean;
  /** The model ID that was asked for, and what served it; both empty strings where nothing was asked. */
  model: string;
  vendor: string;
  upstreamModel: string;
  /** How it ended; `refused` where nothing was charged. */
  outcome: string;
  /** The error's code, where it ended in one. */
  error: string | undefined;
  /** How its reply ended, where it did. */
  finish: string | undefined;
  /** How often a vendor was asked, and each time, where one failed. */
  tried: number;
  attempts: readonly Attempt[];
  /** When the last attempt began, ms after the request did. */
  lastAttemptMs: number;
  /** Unix ms, and the durations from there, ms. */
  startedAt: number;
  durationMs: number;
  firstTokenMs: number | undefined;
  /** What was counted; absent where nothing was charged. */
  usage: { input: number; cacheRead: number; cacheWrite: number; output: number; reasoning: number } | undefined;
  /** At the price of its time, nano-USD; undefined where none is known. */
  costNano: bigint | undefined;
  /** The client's W3C trace context. */
  traceparent: string | undefined;
};

/** Told of every request, for figures, traces and the like. Its functions wait for nothing and never throw. */
export type RequestObserver = {
  /** The clients' trace context is wanted. */
  readonly traces: boolean;
  /** A first attempt goes out; `ended` follows. */
  began(): void;
  /** It is being settled after attempts that failed: they belong to its receipt. */
  settling(requestId: string, attempts: readonly Attempt[]): void;
  ended(facts: RequestFacts): void;
  /** A client was refused before its request had a book: `ended` does not follow. */
  told(code: string): void;
  /** The same where the client showed a valid key. Called only where traces are wanted. */
  refused(facts: RequestFacts): void;
};
