import { GatewayError, TellableError } from "../../canon/errors.ts";
import type { Outcome } from "../../ledger/ledger.ts";

/** How a request ends that is not answered in full. */
export type Failure = Exclude<Outcome, "completed">;

/** Why a request was ended from outside: the reason its abort signal carries. Without `error` nothing went wrong: the outcome says it all. */
export class Ended extends TellableError {
  constructor(
    readonly outcome: Failure,
    readonly error?: GatewayError,
  ) {
    super(error?.message ?? outcome);
  }

  tell(): GatewayError {
    return this.error ?? new GatewayError("invalid_request", "The client left.");
  }
}

/** The client is gone, and waits for nothing. */
export const clientLeft = () => new Ended("client-left");

/** The key counts no more: what it has under way ends (contract 4). */
export const keyRevoked = () =>
  new Ended("client-left", new GatewayError("invalid_api_key", "The API key is not valid any more."));

/** The gateway stops, and waits no longer (reliability 6.5). Contract 6 has no code for that which fits better. */
export const shuttingDown = () =>
  new Ended(
    "interrupted",
    new GatewayError("upstream_overloaded", "The gateway is shutting down: service unavailable. Try again.", {
      cause: "shutting down",
    }),
  );
