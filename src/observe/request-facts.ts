/**
 * One call to a vendor on the way of a request. `key`: which of its keys, from 0. `outcome`: see {@link attemptOutcome}. `at`: when it
 * began, ms after the request did; 0 where that is not known any more. `ms`: its duration.
 */
export type Attempt = { vendor: string; model: string; key: number; outcome: string; at: number; ms: number };

/** How the last call of a request ended: `served`, the code of its error, or the request's own outcome where nothing went wrong. */
export const attemptOutcome = (outcome: string | undefined, error: string | null | undefined): string =>
  outcome === "completed" ? "served" : (error ?? outcome ?? "ended");

/**
 * One call of a web tool that the gateway made for a model: its name, and the model's own id of the call. `at` as in {@link Attempt}; `ms`: undefined
 * where it was broken off with its request. `error`: why it gave nothing.
 */
export type ToolCall = { tool: string; callId: string; at: number; ms: number | undefined; error: string | undefined };

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
  /** Calls that brought the rounds of its reply before the last one, all of one attempt, and web tools that were run for its model between them. Noted only where traces are kept. */
  rounds?: readonly Attempt[] | undefined;
  tools?: readonly ToolCall[] | undefined;
  /** When the last attempt began, and the last call to a vendor, which may be a later one of the same attempt; ms after the request did. */
  lastAttemptMs: number;
  lastCallMs?: number | undefined;
  /** Which of its vendor's keys that one used, from 0. */
  lastKey: number;
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

/** A message of MCP that was answered. */
export type RpcFacts = { method: string; id: string; version: string | undefined };

/** A call to a vendor on the way of a piece of {@link WorkFacts}; see {@link Attempt}. */
export type WorkCall = Omit<Attempt, "key">;

/** What became of a request that is no generation and yet costs or takes time: told to the traces, once, when it is over. */
export type WorkFacts = {
  operation: "image_generation" | "execute_tool" | "count_tokens";
  /** Undefined for an image job that an earlier process took. */
  requestId: string | undefined;
  accountId: string;
  keyId: string;
  dialect: string;
  /** The model, or the tool, that was asked for; empty where none could be made out. */
  subject: string;
  /** Who did it, and with which model; both undefined where that was nobody, or is not known. */
  vendor?: string | undefined;
  upstreamModel?: string | undefined;
  /** `completed`; `refused` where nothing was done, or charged; else how it ended. */
  outcome: string;
  /** The error's code, where it ended in one. */
  error: string | undefined;
  /** How often a vendor was asked, and the calls that are spans of their own. */
  tried?: number | undefined;
  calls: readonly WorkCall[];
  /** Unix ms, and the duration from there, ms. */
  startedAt: number;
  durationMs: number;
  /** The client's W3C trace context, and another one that it is in as well. */
  traceparent: string | undefined;
  linked?: string | undefined;
  /** Of a count. */
  inputTokens?: number | undefined;
  /** Of a web tool: calls of the allowance that it came to. */
  units?: number | undefined;
  /** Of an image: the job's id. */
  jobId?: string | undefined;
  /** Of a message of MCP, and JSON-RPC's code where it ended in an error of that. */
  rpc?: RpcFacts | undefined;
  rpcCode?: number | undefined;
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
  /** Something that is no generation is over, or was refused to who showed a valid key. Called only where traces are wanted. */
  worked(facts: WorkFacts): void;
};
