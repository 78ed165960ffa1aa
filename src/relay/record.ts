import type { Caller } from "../accounts/caller.ts";
import { type GatewayError, statusOf } from "../canon/errors.ts";
import { promptTokens } from "../canon/usage.ts";
import type { Charge } from "../ledger/ledger.ts";
import { formatUsd } from "../ledger/price.ts";
import type { Fields, Log } from "../observe/log.ts";
import type { Attempt, RequestFacts, RequestObserver, RequestSettings } from "../observe/request-facts.ts";

/** What is written of every request, whatever became of it. */
export type Identity = {
  requestId: string;
  caller: Caller;
  dialect: string;
  stream: boolean;
  model: string;
  /** The client's trace context; read only where traces are kept. */
  traceparent?: string | undefined;
  /** How the client wants its reply made; read only where traces are kept. */
  settings?: RequestSettings;
};

/** The status in the log where the client had left, and nobody was answered: nginx and others write the same. */
const CLIENT_LEFT = 499;
/** How much of a model's name is noted, characters: that of every known model is shorter. */
export const MAX_NOTED_MODEL = 256;

/** Of a request that is over, what only its line in the log says. */
export type Aside = {
  error: GatewayError | undefined;
  /** What it came to, where something was settled. */
  charge: Charge | undefined;
  dropped: readonly string[];
};

/** How a request ends that was refused before anything was held for it or done; `error` undefined: its client had left. */
export const refusalOutcome = (error: GatewayError | undefined): "refused" | "client-left" =>
  error ? "refused" : "client-left";

/**
 * Writes into the log that a request, or an image (`event`), came to nothing that was held or done: refused with `error`, or, undefined, its client had
 * left. Never throws.
 */
export function recordRefusal(
  event: "generate" | "image",
  {
    requestId,
    caller,
    dialect,
    model,
  }: Pick<Identity, "requestId" | "caller" | "dialect"> & { model?: string | undefined },
  error: GatewayError | undefined,
  log: Log,
): void {
  log.info(event, {
    ...{ request_id: requestId, account: caller.accountId, key: caller.keyId, dialect },
    ...{ model: model?.slice(0, MAX_NOTED_MODEL), outcome: refusalOutcome(error) },
    ...{ status: error ? statusOf(error.code, dialect) : CLIENT_LEFT, error: error?.code },
  });
}

/** Writes what became of a request into the log, and tells whoever keeps figures. Never throws. */
export function recordRequest(
  facts: RequestFacts,
  aside: Aside,
  log: Log,
  observer: RequestObserver | undefined,
): void {
  writeLine(facts, aside, log);
  observer?.ended(facts);
}

/** The status that the client was told, or would have been before its stream began. */
function toldStatus({ dialect, outcome }: RequestFacts, error: GatewayError | undefined): number {
  if (outcome === "client-left") return CLIENT_LEFT;
  return error ? statusOf(error.code, dialect) : 200;
}

function writeLine(facts: RequestFacts, { error, charge, dropped }: Aside, log: Log): void {
  const { usage, attempts } = facts;
  const fields: Fields = {
    request_id: facts.requestId,
    account: facts.accountId,
    key: facts.keyId,
    dialect: facts.dialect,
    stream: facts.stream,
    model: facts.model,
    vendor: facts.vendor,
    attempts: facts.tried,
    outcome: facts.outcome,
    status: toldStatus(facts, error),
    duration_ms: facts.durationMs,
  };
  if (usage) {
    fields["first_token_ms"] = facts.firstTokenMs;
    fields["input_tokens"] = promptTokens(usage);
    if (usage.cacheRead > 0) fields["cache_read_tokens"] = usage.cacheRead;
    fields["output_tokens"] = usage.output;
    if (charge?.costNano !== undefined) fields["cost_usd"] = formatUsd(charge.costNano);
  }
  if (attempts.length > 0) fields["tries"] = attempts.map(describeAttempt).join(" ");
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

/** What lies behind an error, in a few words for the log. */
export function describeCause(cause: unknown): string {
  if (cause === undefined) return "";
  if (cause instanceof Error) return `${cause.name}: ${cause.message}`;
  return JSON.stringify(cause);
}
