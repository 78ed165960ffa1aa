import type { DialectName } from "../dialects/dialect.ts";
import { HOUR_MS, MINUTE_MS } from "../lib/spans.ts";
import type { RateState } from "../limits/limiter.ts";

/**
 * No plan bounds tokens a minute, so what bounds them is the requests: each may carry as many tokens as the largest context in the catalog
 * holds. Clients that steer by the token headers find figures that never hold them back before the requests do.
 */
const TOKENS_PER_REQUEST = 1_000_000;

/** Milliseconds as a Go duration, which is how the chat dialect writes them (reliability 4): `0s`, `120ms`, `1.5s`, `6m0s`, `1h0m3s`. */
function toGoDuration(ms: number): string {
  if (ms <= 0) return "0s";
  if (ms < 1_000) return `${ms}ms`;
  const hours = Math.floor(ms / HOUR_MS);
  const minutes = Math.floor((ms % HOUR_MS) / MINUTE_MS);
  const seconds = `${(ms % MINUTE_MS) / 1_000}s`;
  if (hours > 0) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}

/** A time as RFC 3339 in whole seconds, rounded up: at that time it has happened. */
const toRfc3339 = (at: number) => new Date(Math.ceil(at / 1_000) * 1_000).toISOString().replace(".000Z", "Z");

function chatHeaders({ limit, remaining, resetMs }: RateState): Record<string, string> {
  const reset = toGoDuration(resetMs);
  return {
    "x-ratelimit-limit-requests": String(limit),
    "x-ratelimit-remaining-requests": String(remaining),
    "x-ratelimit-reset-requests": reset,
    "x-ratelimit-limit-tokens": String(limit * TOKENS_PER_REQUEST),
    "x-ratelimit-remaining-tokens": String(remaining * TOKENS_PER_REQUEST),
    "x-ratelimit-reset-tokens": reset,
  };
}

/** What the messages dialect counts apart; every name has a limit, what remains, and a reset. */
const MESSAGES_COUNTS = ["requests", "tokens", "input-tokens", "output-tokens"] as const;

const PARTS = ["limit", "remaining", "reset"] as const;

/** The names of the headers of each dialect, for what has to list them. */
export const RATE_HEADERS = {
  chat: ["requests", "tokens"].flatMap((what) => PARTS.map((part) => `x-ratelimit-${part}-${what}`)),
  messages: MESSAGES_COUNTS.flatMap((what) => PARTS.map((part) => `anthropic-ratelimit-${what}-${part}`)),
} as const;

function messagesHeaders({ limit, remaining, resetAt }: RateState): Record<string, string> {
  const reset = toRfc3339(resetAt);
  const headers: Record<string, string> = {};
  for (const name of MESSAGES_COUNTS) {
    const each = name === "requests" ? 1 : TOKENS_PER_REQUEST;
    headers[`anthropic-ratelimit-${name}-limit`] = String(limit * each);
    headers[`anthropic-ratelimit-${name}-remaining`] = String(remaining * each);
    headers[`anthropic-ratelimit-${name}-reset`] = reset;
  }
  return headers;
}

/** How a caller's bucket stands, in the headers of its dialect (contract 6): on success and on a refusal. */
export function rateHeaders(dialect: DialectName, state: RateState): Record<string, string> {
  return dialect === "messages" ? messagesHeaders(state) : chatHeaders(state);
}

/**
 * Sets {@link rateHeaders} of the chat dialect on an answer that was made before; none where nothing is limited. A refusal for going too fast has said already how
 * it stood when it was refused.
 */
export function setRate({ headers }: Response, rate: RateState | undefined): void {
  if (!rate) return;
  for (const [name, value] of Object.entries(chatHeaders(rate))) {
    if (!headers.has(name)) headers.set(name, value);
  }
}
