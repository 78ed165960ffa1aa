import { GatewayError } from "../canon/errors.ts";
import { NOT_WRITABLE } from "../db/store-error.ts";

/** What a refused client is told to wait, seconds. */
const WAIT_SECONDS = 1;

/** A refusal that costs nothing to make: there is one of each kind, told to all whom it concerns. */
export class Overloaded extends GatewayError {
  constructor(text: string) {
    super("upstream_overloaded", text, { retryAfterSeconds: WAIT_SECONDS });
  }
}

export const OVERLOADED = new Overloaded("The gateway has more to do than it can. Try again in a moment.");
export const NO_STORE = new Overloaded(NOT_WRITABLE);
export const NO_MEMORY = new Overloaded("The gateway is short of memory. Try again in a moment.");
export const NO_ROOM = new Overloaded(
  "The gateway has no room to store an image at the moment. Try again in a moment.",
);
