import type { GatewayError } from "../../canon/errors.ts";
import { isObject, stringOf } from "../../lib/json.ts";

/**
 * What a vendor said, as the error that was made of it keeps it for those who must tell cases apart: the status of its answer, or 403 where it meant that,
 * its words, `finish` where a reply's end told of the failure, `isRelayed` where another gateway told what its own vendor had said.
 */
export type VendorSaid = {
  status?: unknown;
  type?: unknown;
  code?: unknown;
  message?: unknown;
  details?: unknown;
  finish?: unknown;
  isRelayed?: unknown;
};

const NOTHING: VendorSaid = {};

/** Of an error that came otherwise: what it has in common with such a one, a system's own code for example, or nothing. */
export const vendorSaid = ({ cause }: GatewayError): VendorSaid => (isObject(cause) ? cause : NOTHING);

/** A refusal in the vendor's own words, scrubbed: in what the client reads, a model's name may be another. "": it is the gateway's own. */
export const refusalWords = (error: GatewayError): string => stringOf(vendorSaid(error).message);
