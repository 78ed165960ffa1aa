// Headers of the gateway's own and those that SDKs read of it (contract 6), wherever they are read, written, allowed to web pages or described.

/** Request header: its client wants a 400 where some of the request could not be carried to the vendor. */
export const STRICT_HEADER = "x-sluice-strict";
/** Names of the parts of a request that could not be carried to the vendor. */
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
