import type { ErrorCode } from "../canon/errors.ts";
import type { FinishReason } from "../canon/events.ts";
import type { Usage } from "../canon/usage.ts";

/** How a request ended (contract 5, outcome table). */
export type Outcome = "completed" | "client-left" | "timed-out" | "upstream-failed";

export type HoldRequest = {
  requestId: string;
  accountId: string;
  keyId: string;
  model: string;
  dialect: string;
  stream: boolean;
  /** Upper estimate of the input, tokens; made when it is asked for. */
  estimateInput(): number;
  maxOutputTokens?: number;
};

/** What a request came to: written once, before the client sees the end of its answer. */
export type Settlement = {
  outcome: Outcome;
  vendor: string;
  upstreamModel: string;
  usage: Usage;
  /** The vendor sent no counts; these are the gateway's own. */
  estimated: boolean;
  finish?: FinishReason;
  error?: ErrorCode;
  attempts: number;
  firstTokenMs?: number;
  durationMs: number;
};

/** Money set aside for one request. Resolved exactly once: a second settle or release does nothing. */
export interface Hold {
  /** Durable when the promise resolves: the terminator of a stream waits for it. */
  settle(settlement: Settlement): Promise<void>;
  /** Nothing ran, nothing is charged, no usage row is written. */
  release(): Promise<void>;
}

/** The meter's book. Every request that may reach an upstream is held first. */
export interface Ledger {
  /** Throws GatewayError (insufficient_quota) when the account cannot pay for the first slice. */
  hold(request: HoldRequest): Promise<Hold>;
}
