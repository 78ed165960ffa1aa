import { GatewayError } from "../canon/errors.ts";
import type { Outcome } from "../ledger/ledger.ts";

/** How a request ends that is not answered in full. */
export type Failure = Exclude<Outcome, "completed">;

/** Why a request was ended from outside: the reason its abort signal carries. */
export class Ended extends Error {
  constructor(
    readonly outcome: Failure,
    readonly error: GatewayError,
  ) {
    super(error.message);
  }
}

export const clientLeft = () => new Ended("client-left", new GatewayError("invalid_request", "The client left."));
