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

/** What a request shows at the door: whatever credentials, paths and addresses are judged by. */
export type Knock = {
  path: string;
  authorization: string | null;
  apiKey: string | null;
  /** Address of the connection; "" where none is known. */
  peer: string;
  forwardedFor: string | null;
  /** By a program of this machine, and nobody in between. */
  isFromHere: boolean;
};

/** Who knocked, and the place that was taken for the request; `refused` where its caller goes too fast. */
export type Entrance = {
  caller: Caller;
  permit: number;
  rate: RateState | null;
  refused: ErrorForm | null;
};

/** A hold request as it crosses: `estimate` is made where somebody will look at it; `prices` is a text that stands for them. */
export type HoldOrder = Omit<HoldRequest, "estimateInput" | "prices" | "payment" | "terms"> & {
  estimate: number;
  prices: string | null;
  payment: PaymentForm | null;
  terms: PaymentForm | null;
};

export type PaymentForm = Omit<Payment, "windowNano"> & { windowNano: string };

/** A hold as its worker knows it. `growAt` null: never. */
export type HoldForm = {
  hold: number;
  ceiling: number | null;
  asStream: boolean;
  short: boolean;
  growAt: number | null;
};

/** `ledger.Charge` with its amounts as text. */
export type ChargeForm = Omit<Charge, "costNano" | "chargedNano"> & { costNano: string | null; chargedNano: string };

/** A web tool's call; `call` names it for the word that ends it. */
export type ToolOrder = Omit<WebToolCall, "signal"> & { call: number };

/** What a worker asks the authority, and what it is answered. */
export type AuthorityCalls = {
  enter(knock: Knock): Entrance;
  hold(order: HoldOrder): HoldForm;
  extend(ask: { hold: number; reading: Reading }): { granted: boolean; growAt: number | null };
  /** What is set aside by `beside` is `hold`'s from now on, and there is no such hold any more. Gives the `growAt` of `hold`. */
  absorb(ask: { hold: number; beside: number }): number | null;
  settle(ask: { hold: number; settlement: Settlement }): ChargeForm;
  release(hold: number): null;
  keepReasoning(state: { accountId: string; keys: readonly string[]; memory: ReasoningMemory }): null;
  runTool(order: ToolOrder): WebToolAnswer;
};

/** What a worker tells the authority. */
export type AuthorityNotes = {
  /** It listens. */
  listening(told: null): void;
  leave(permit: number): void;
  endTool(call: number): void;
  /** Attempts that failed belong to the receipt of the settle that follows. */
  settling(told: { requestId: string; attempts: readonly Attempt[] }): void;
  /** A model's family made a proof of reasoning. */
  proof(told: { proof: string; maker: string }): void;
  /** For the request log: what was logged, of which that takes what became of requests; and what one asked and was answered. */
  logged(told: { level: "info" | "warn" | "error"; event: string; fields: Fields }): void;
  bodies(told: { requestId: string; request: string; reply: string }): void;
};

/** What the authority asks a worker. */
export type WorkerCalls = { figures(told: null): readonly Figure[] };

/** What the authority tells a worker. The first view is its beginning. */
export type WorkerNotes = {
  view(view: View): void;
  revoked(keyId: string): void;
  proof(told: { proof: string; maker: string }): void;
  /** Let running answers end, and end. */
  stop(told: null): void;
  /** End them now. */
  hurry(told: null): void;
};

/** Figures as they were before they crossed: JSON has no infinity, which a figure may be, and writes null for it. */
export function readFigures(told: readonly Figure[]): Figure[] {
  return told.map((figure) => ({
    ...figure,
    samples: figure.samples.map((sample) => ({
      ...sample,
      value: (sample.value as number | null) ?? Number.POSITIVE_INFINITY,
    })),
  }));
}

/** An error as it crosses between processes. `rate`: it is a refusal for going too fast. */
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

/** Anything thrown, so that the other process can throw what its client is told. What it came from crosses as a line of text, for the log. */
export function writeError(thrown: unknown): ErrorForm {
  const error = toGatewayError(thrown);
  const { code, message, param = null, retryAfterSeconds: wait = null, retry, extra, cause } = error;
  const behind = cause === undefined ? null : describeCause(cause);
  const rate = error instanceof RateLimited ? { state: error.state ?? null } : null;
  return { code, message, param, wait, retry, extra, cause: behind, rate };
}

/** The error of the other process. */
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
