import type { Caller } from "../accounts/caller.ts";
import { ERRORS, type GatewayError } from "../canon/errors.ts";
import type { Charge, Outcome, Settlement } from "../ledger/ledger.ts";
import { formatUsd } from "../ledger/price.ts";
import type { Fields, Log } from "../observe/log.ts";
import type { Attempt, RequestFacts, RequestObserver } from "../observe/request-facts.ts";

/** What is written of every request, whatever became of it. */
export type Identity = {
  requestId: string;
  caller: Caller;
  dialect: string;
  stream: boolean;
  model: string;
  /** The client's trace context; read only where traces are kept. */
  traceparent?: string | undefined;
};

/** The status of a client that is gone: nobody was answered. What other servers' logs write for it too. */
const CLIENT_LEFT = 499;

/** A request that is over, as its book has it. */
export type Over = {
  identity: Identity;
  /** Undefined: nothing was charged. */
  outcome: Outcome | undefined;
  error: GatewayError | undefined;
  /** What was settled, where something was. */
  settlement: Settlement | undefined;
  charge: Charge | undefined;
  vendor: string;
  upstreamModel: string;
  dropped: readonly string[];
  /** How often a vendor was asked. */
  tried: number;
  attempts: readonly Attempt[];
  lastAttemptMs: number;
  startedAt: number;
  durationMs: number;
};

/** Writes what became of a request into the log, and tells whoever keeps figures. Never throws. */
export function recordRequest(over: Over, log: Log, observer: RequestObserver | undefined): void {
  writeLine(over, log);
  observer?.ended(toFacts(over));
}

/** The status that the client was told, or would have been before its stream began. */
function statusOf({ identity, outcome, error }: Over): number {
  if (outcome === "client-left") return CLIENT_LEFT;
  if (!error) return 200;
  const { status, messagesStatus = status } = ERRORS[error.code] as { status: number; messagesStatus?: number };
  return identity.dialect === "messages" ? messagesStatus : status;
}

function writeLine(over: Over, log: Log): void {
  const { identity, outcome, error, settlement, charge, dropped } = over;
  const { requestId, caller, dialect, stream, model } = identity;
  const fields: Fields = {
    request_id: requestId,
    account: caller.accountId,
    key: caller.keyId,
    dialect,
    stream,
    model,
    vendor: over.vendor,
    attempts: over.tried,
    outcome: outcome ?? "refused",
    status: statusOf(over),
    duration_ms: over.durationMs,
  };
  if (settlement) {
    const { usage } = settlement;
    fields["first_token_ms"] = settlement.firstTokenMs;
    fields["input_tokens"] = usage.input + usage.cacheRead + usage.cacheWrite;
    if (usage.cacheRead > 0) fields["cache_read_tokens"] = usage.cacheRead;
    fields["output_tokens"] = usage.output;
    if (charge?.costNano !== undefined) fields["cost_usd"] = formatUsd(charge.costNano);
  }
  if (over.attempts.length > 0) fields["tries"] = over.attempts.map(describeAttempt).join(" ");
  if (dropped.length > 0) fields["dropped"] = dropped.join(",");
  if (error) {
    fields["error"] = error.code;
    fields["cause"] = describeCause(error.cause);
    log.warn("generate", fields);
    return;
  }
  const flags = charge?.flags;
  if (flags) fields["flags"] = flags.join(",");
  // A bill that is not as it was expected is for the operator to see.
  const odd = flags?.some((flag) => flag !== "balance") === true;
  log[odd ? "warn" : "info"]("generate", fields);
}

/** `openai#1:upstream_overloaded:120ms` */
const describeAttempt = ({ vendor, key, outcome, ms }: Attempt) => `${vendor}#${key + 1}:${outcome}:${ms}ms`;

function toFacts(over: Over): RequestFacts {
  const { identity, settlement, error } = over;
  return {
    requestId: identity.requestId,
    accountId: identity.caller.accountId,
    keyId: identity.caller.keyId,
    dialect: identity.dialect,
    stream: identity.stream,
    model: identity.model,
    vendor: over.vendor,
    upstreamModel: over.upstreamModel,
    outcome: over.outcome ?? "refused",
    error: error?.code,
    finish: settlement?.finish,
    tried: over.tried,
    attempts: over.attempts,
    lastAttemptMs: over.lastAttemptMs,
    startedAt: over.startedAt,
    durationMs: over.durationMs,
    firstTokenMs: settlement?.firstTokenMs,
    usage: settlement?.usage,
    costNano: over.charge?.costNano,
    traceparent: identity.traceparent,
  };
}

/** What lies behind an error, in a few words for the log. */
export function describeCause(cause: unknown): string {
  if (cause === undefined) return "";
  if (cause instanceof Error) return `${cause.name}: ${cause.message}`;
  return JSON.stringify(cause);
}
