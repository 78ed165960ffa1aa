import { GatewayError } from "../canon/errors.ts";
import type { Listing } from "../catalog/catalog.ts";
import { variableOf } from "../vendors/registry.ts";

/** A vendor as whoever has to switch it on looks for it: its id, and the variable that holds its key. */
function describeVendor(vendorId: string): string {
  const variable = variableOf(vendorId);
  return variable ? `${vendorId} (${variable})` : vendorId;
}

/** The error for a model that is known, and none of whose vendors is switched on: vendor_not_configured, which says what would switch each on. */
export function switchedOff({ entry, switchedOnBy }: Listing): GatewayError {
  const where = switchedOnBy.length > 0 ? `: ${switchedOnBy.map(describeVendor).join(", ")}` : "";
  const text = `The model ${entry.id} is known, but no vendor that serves it is switched on here${where}.`;
  return new GatewayError("vendor_not_configured", text, { param: "model" });
}
