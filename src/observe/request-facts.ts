/**
 * One call to a vendor for a request. `key`: which of the vendor's keys, from 0. `outcome`: see {@link attemptOutcome}. `at`: when it began, ms after the
 * request did; 0 where that is not known any more. `ms`: its duration.
 */
export type Attempt = { vendor: string; model: string; key: number; outcome: string; at: number; ms: number };

/** Requests that end so have ended their calls, whatever their clients were told: the vendor has done nothing wrong. */
const BROKEN_OFF: ReadonlySet<string | undefined> = new Set(["client-left", "interrupted"]);

/**
 * How the last call of a request ended: `served` where the request was completed, the request's own outcome where that broke the call off or nothing
 * else is known, else the code of its error.
 */
export function attemptOutcome(outcome: string | undefined, error: string | null | undefined): string {
  if (outcome === "completed") return "served";
  return (BROKEN_OFF.has(outcome) ? outcome : error) ?? outcome ?? "ended";
}

/**
 * One call of a web tool that the gateway made for a model: its name, and the model's own id of the call. `at` as in {@link Attempt}; `ms`: undefined
 * where it was broken off with its request. `error`: why it gave nothing.
 */
export type ToolCall = { tool: string; callId: string; at: number; ms: number | undefined; error: string | undefined };

/** Nano-USD of one USD: costs are shown as USD in figures and traces. */
export const NANO_PER_USD = 1e9;

/** Fields of a request that steer how words are drawn: in all dialects that have one it has this name, and so it has in the GenAI conventions. */
export const SAMPLING_FIELDS = [
  "temperature",
  "top_p",
  "top_k",
  "seed",
  "frequency_penalty",
  "presence_penalty",
] as const;

/** How a client wanted its reply made, as far as it said so. Numbers are the client's own, of any size. */
export type RequestSettings = {
  maxTokens?: number;
  choices?: number;
  /** How deep the model is to think, by the word for it. */
  effort?: string;
  sampling: Partial<Record<(typeof SAMPLING_FIELDS)[number], number>>;
};

/** What became of a generation: told once, when its hold is settled or released, or when it was refused before it had one. */
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
  /** How often a vendor was asked; and each of these attempts, which are noted only where one failed. */
  tried: number;
  attempts: readonly Attempt[];
  /**
   * Of a reply that took several rounds, all of one attempt: the calls of those before the last, and the web tools that the gateway ran for its model
   * between them. Noted only where traces are kept.
   */
  rounds?: readonly Attempt[] | undefined;
  tools?: readonly ToolCall[] | undefined;
  /** When the last attempt began, and when the last call to a vendor did, which may be a later round of that attempt; ms after the request began. */
  lastAttemptMs: number;
  lastCallMs?: number | undefined;
  /** Which of its vendor's keys the last attempt used, from 0. */
  lastKey: number;
  /** Unix ms; then from there to the end of the answer and to its first token, ms. */
  startedAt: number;
  durationMs: number;
  firstTokenMs: number | undefined;
  /** What was counted; absent where nothing was charged. */
  usage: { input: number; cacheRead: number; cacheWrite: number; output: number; reasoning: number } | undefined;
  /** What the usage costs at the price of its time, nano-USD; undefined where no price is known. */
  costNano: bigint | undefined;
  /** The client's W3C trace context. */
  traceparent: string | undefined;
  /** Noted only where traces are kept. */
  settings?: RequestSettings | undefined;
};

/** A message of MCP that was answered. */
export type RpcFacts = { method: string; id: string; version: string | undefined };

/** A call to a vendor on the way of a piece of {@link WorkFacts}; see {@link Attempt}. */
export type WorkCall = Omit<Attempt, "key">;

/** What became of a request other than a generation that costs money or takes time: told once, when it is over, for the traces. */
export type WorkFacts = {
  operation: "image_generation" | "execute_tool" | "count_tokens";
  /** Undefined for an image job that an earlier process accepted. */
  requestId: string | undefined;
  accountId: string;
  keyId: string;
  dialect: string;
  /** The model, or the tool, that was asked for; empty where none could be made out. */
  subject: string;
  /** Which vendor did it, and with which model; both undefined where none did, or that is not known. */
  vendor?: string | undefined;
  upstreamModel?: string | undefined;
  /** `completed`; `refused` where nothing was done or charged; else how it ended. */
  outcome: string;
  /** The error's code, where it ended in one. */
  error: string | undefined;
  /** How often a vendor was asked, and the calls that are spans of their own. */
  tried?: number | undefined;
  calls: readonly WorkCall[];
  /** Unix ms, and the duration from there, ms. */
  startedAt: number;
  durationMs: number;
  /** The client's W3C trace context, and a second one that the span is linked to. */
  traceparent: string | undefined;
  linked?: string | undefined;
  /** Of a count of tokens: what it came to. */
  inputTokens?: number | undefined;
  /** Of a web tool: how many calls of the plan's allowance it counted as. */
  units?: number | undefined;
  /** Of an image: the job's id. */
  jobId?: string | undefined;
  /** Of a message of MCP: the message, and the JSON-RPC error code where it ended in one. */
  rpc?: RpcFacts | undefined;
  rpcCode?: number | undefined;
};

/** Told of every request, for figures, traces and the like. Its functions wait for nothing and never throw. */
export type RequestObserver = {
  /** Whether traces are kept, so that clients' trace contexts and the facts that only traces need are wanted. */
  readonly traces: boolean;
  /** The first attempt of a request goes out; {@link ended} follows. */
  began(): void;
  /** A request is about to be settled after attempts that failed: these belong to its receipt. */
  settling(requestId: string, attempts: readonly Attempt[]): void;
  ended(facts: RequestFacts): void;
  /** A client was told the error `code` before anything was held for its request: {@link ended} does not follow. */
  told(code: string): void;
  /** The same for a client that showed a valid key. Called only where traces are wanted. */
  refused(facts: RequestFacts): void;
  /** A request other than a generation is over, or was refused to a client that showed a valid key. Called only where traces are wanted. */
  worked(facts: WorkFacts): void;
};
