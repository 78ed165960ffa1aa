import type { Door, Doorman } from "../../accounts/keys.ts";
import type { Address, AddressLimiter } from "../../limits/addresses.ts";
import type { AddressClass } from "../../limits/classes.ts";
import type { Limiter } from "../../limits/limiter.ts";
import type { AskedHead } from "../asked.ts";
import { answerError } from "../errors.ts";
import { findAnyone, type KeyFinder } from "./credentials.ts";

const CLASSES: Readonly<Record<Door, AddressClass>> = { keys: "refused-key", admin: "refused-admin" };

/**
 * Throttles who presents wrong keys, by address (reliability 4). This machine's own programs are told of every one that it is wrong (interface 5: a
 * malformed or revoked key is a 401): a 429 has a client try the same key again, where its user has to give it another.
 */
export function createDoorman(
  limiter: AddressLimiter,
  readAddress: (request: AskedHead) => Address | undefined,
): Doorman {
  return {
    refuse(request, door) {
      const address = readAddress(request);
      if (address && !address.isLocal) limiter.take(address, CLASSES[door]);
    },
  };
}

/** What bounds the pages that need no key. */
export type PublicBounds = {
  addresses: AddressLimiter;
  readAddress(request: AskedHead): Address | undefined;
  keys: KeyFinder;
  limiter: Limiter;
};

/**
 * Bounds pages that need no key, by address (reliability 4). Who shows a key is bounded by its plan instead, so that many clients behind one address
 * are not one client. This machine's own programs are not bounded at all. Throws GatewayError (rate_limit_exceeded).
 */
export function countPublic(
  request: AskedHead,
  of: AddressClass,
  { addresses, readAddress, keys, limiter }: PublicBounds,
): void {
  const caller = findAnyone(request, keys);
  if (caller) {
    limiter.take(caller, "catalog").release();
    return;
  }
  const address = readAddress(request);
  if (address && !address.isLocal) addresses.take(address, of);
}

/** {@link countPublic} for Elysia's `onBeforeHandle`: undefined lets the request pass, a response is the refusal, in the dialect of its path. */
export function boundPublic(
  of: AddressClass,
  bounds: PublicBounds,
): (context: { request: Request }) => Response | undefined {
  return ({ request }) => {
    try {
      countPublic(request, of, bounds);
      return undefined;
    } catch (thrown) {
      return answerError(thrown, request);
    }
  };
}
