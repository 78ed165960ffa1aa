import type { Caller } from "../accounts/caller.ts";
import { type ErrorCode, GatewayError, toGatewayError } from "../canon/errors.ts";
import type { ReasoningMemory } from "../canon/memory.ts";
import type { WebToolAnswer } from "../canon/web-tools.ts";
import type { Charge, HoldRequest, Payment, Reading, Settlement } from "../ledger/ledger.ts";
import { RateLimited, type RateState } from "../limits/limiter.ts";
import type { Figure } from "../observe/figures.ts";
import type { Fields } from "../observe/log.ts";
import type { Attempt } from "../observe/request-facts.ts";
import { describeCause } from "../relay/record.ts";
import type { WebToolCall } from "../relay/run-web-tool.ts";
import type { View } from "./view.ts";

/** What the authority is told of a request that asks to be let in: all that its credentials, path and address are judged by. */
export type Knock = {
  path: string;
  authorization: string | null;
  apiKey: string | null;
  /** Address of the connection; "" where none is known. */
  peer: string;
  forwardedFor: string | null;
  /** Whether a program of this machine sent it, without a proxy in between. */
  isFromHere: boolean;
};

/** Whose request it is, and the number of the place that was taken for it. `refused`: the refusal, where its caller is over a limit and no place was taken. */
export type Entrance = {
  caller: Caller;
  permit: number;
  rate: RateState | null;
  refused: ErrorForm | null;
};

/** A hold request as it crosses. `estimate`: tokens of input; null: not estimated, as no money is to be set aside. `prices`: as JSON text. */
export type HoldOrder = Omit<HoldRequest, "estimateInput" | "prices" | "payment" | "terms"> & {
  estimate: number | null;
  prices: string | null;
  payment: PaymentForm | null;
  terms: PaymentForm | null;
};

export type PaymentForm = Omit<Payment, "windowNano"> & { windowNano: string };

/** A hold as its worker knows it, by the number `hold`. `growAt` null: it never has to grow. */
export type HoldForm = {
  hold: number;
  ceiling: number | null;
  asStream: boolean;
  short: boolean;
  growAt: number | null;
};

/** `ledger.Charge` with its amounts as text. */
export type ChargeForm = Omit<Charge, "costNano" | "chargedNano"> & { costNano: string | null; chargedNano: string };

/** A call of a web tool. `call`: the number by which the note `endTool` names it. */
export type ToolOrder = Omit<WebToolCall, "signal"> & { call: number };

/** The calls of a worker that the authority answers. */
export type AuthorityCalls = {
  enter(knock: Knock): Entrance;
  /** Null: nothing is held, and the order is to come again with its estimate. */
  hold(order: HoldOrder): HoldForm | null;
  extend(ask: { hold: number; reading: Reading }): { granted: boolean; growAt: number | null };
  /** Adds what `beside` has set aside to `hold`; `beside` is closed. Answers with the `growAt` of `hold`. */
  absorb(ask: { hold: number; beside: number }): number | null;
  settle(ask: { hold: number; settlement: Settlement }): ChargeForm;
  release(hold: number): null;
  keepReasoning(state: { accountId: string; keys: readonly string[]; memory: ReasoningMemory }): null;
  runTool(order: ToolOrder): WebToolAnswer;
};

/** The notes of a worker to the authority. */
export type AuthorityNotes = {
  /** The worker listens on the port. */
  listening(told: null): void;
  leave(permit: number): void;
  endTool(call: number): void;
  /** Sent before the settle of a request with attempts that failed: these belong to its receipt. */
  settling(told: { requestId: string; attempts: readonly Attempt[] }): void;
  /** The worker has learnt which family of models (`maker`) made a proof of reasoning. */
  proof(told: { proof: string; maker: string }): void;
  /** For the request log: a line of the worker's log, of which only the events of requests are taken; and a request's prompt and answer. */
  logged(told: { level: "info" | "warn" | "error"; event: string; fields: Fields }): void;
  bodies(told: { requestId: string; request: string; reply: string }): void;
};

/** The calls of the authority that a worker answers. */
export type WorkerCalls = { figures(told: null): readonly Figure[] };

/** The notes of the authority to a worker. A worker begins to work with the first `view`. */
export type WorkerNotes = {
  view(view: View): void;
  revoked(keyId: string): void;
  proof(told: { proof: string; maker: string }): void;
  /** Let running answers end, and end. */
  stop(told: null): void;
  /** End them now. */
  hurry(told: null): void;
};

/** Figures as they were before they crossed: JSON writes null for infinity, which a figure may be. */
export function readFigures(told: readonly Figure[]): Figure[] {
  return told.map((figure) => ({
    ...figure,
    samples: figure.samples.map((sample) => ({
      ...sample,
      value: (sample.value as number | null) ?? Number.POSITIVE_INFINITY,
    })),
  }));
}

/** An error as it crosses between processes. `wait`: seconds. `rate`: set for a {@link RateLimited}. */
export type ErrorForm = {
  code: ErrorCode;
  message: string;
  param: string | null;
  wait: number | null;
  retry: boolean;
  extra: Record<string, unknown>;
  cause: string | null;
  rate: { state: RateState | null } | null;
};

/** Anything thrown, as the GatewayError that a client is told, so that the other process can throw that. Its cause crosses as a line of text, for the log. */
export function writeError(thrown: unknown): ErrorForm {
  const error = toGatewayError(thrown);
  const { code, message, param = null, retryAfterSeconds: wait = null, retry, extra, cause } = error;
  const behind = cause === undefined ? null : describeCause(cause);
  const rate = error instanceof RateLimited ? { state: error.state ?? null } : null;
  return { code, message, param, wait, retry, extra, cause: behind, rate };
}

/** What {@link writeError} wrote, as an error to be thrown. */
export function readError({ code, message, param, wait, retry, extra, cause, rate }: ErrorForm): GatewayError {
  if (rate && (code === "rate_limit_exceeded" || code === "concurrency_exceeded")) {
    return new RateLimited(code, message, wait ?? 0, rate.state ?? undefined);
  }
  return new GatewayError(code, message, {
    param: param ?? undefined,
    retryAfterSeconds: wait ?? undefined,
    cause: cause ?? undefined,
    retry,
    extra,
  });
}
