// Headers of the gateway's own and those that SDKs read of it (contract 6), wherever they are read, written, allowed to web pages or described.

/** Of a request: its client would rather have a 400 than a request that lost something on its way. */
export const STRICT_HEADER = "x-sluice-strict";
/** What of a request could not be carried to its vendor, by name. */
export const DROPPED_HEADER = "x-sluice-dropped";
/** How many calls to vendors an answer took, where it was more than one. */
export const ATTEMPTS_HEADER = "x-sluice-attempts";
/** What it cost, USD with nine decimals. */
export const COST_HEADER = "x-sluice-cost-usd";
/** Why a reply was ended: `balance`. */
export const STOP_HEADER = "x-sluice-stop";
/** Who counted tokens: `vendor`, its own counter, or `local`, this gateway (field.md 1d). */
export const COUNTED_BY_HEADER = "x-sluice-token-count";
/** `true`: an answer that was given before, under its Idempotency-Key (contract 5). */
export const REPLAYED_HEADER = "idempotency-replayed";
/** Whether asking again can help, whatever the status: the dialects' own vendors, and gateways such as this one, tell SDKs by it (dialects.md 1.5). */
export const SHOULD_RETRY_HEADER = "x-should-retry";
