import { GatewayError, invalidField } from "../canon/errors.ts";
import { type Catalog, type Listing, requirePrefix } from "../catalog/catalog.ts";
import type { Entry } from "../catalog/entry.ts";
import { registry, variableOf } from "../vendors/registry.ts";

/** Characters of an unknown model ID that an error repeats. */
const MAX_SHOWN_ID = 128;

/** The entry of a model that generates text. Throws GatewayError: invalid_request for one that generates none, else as {@link refuseModel} does. */
export function findEntry(catalog: Catalog, model: string): Entry {
  const entry = catalog.find(model);
  if (entry?.modality === "chat") return entry;
  if (entry) throw invalidField("model", `The model ${entry.id} is of modality ${entry.modality}: it cannot chat.`);
  return refuseModel(catalog, model, "GET /v1/models");
}

/**
 * Refuses a model that {@link Catalog.find} does not have. `list`: where those are listed that it has. Throws GatewayError: model_not_found, also for
 * an ID without its vendor prefix; vendor_not_configured for a known model none of whose vendors is switched on.
 */
export function refuseModel(catalog: Catalog, id: string, list: string): never {
  requirePrefix(id);
  const known = catalog.listing(id);
  if (known) throw switchedOff(known);
  const shown = id.length > MAX_SHOWN_ID ? `${id.slice(0, MAX_SHOWN_ID)}…` : id;
  const text = `The model ${shown} does not exist here${explainOff(catalog, id)}. ${list} lists those that do.`;
  throw new GatewayError("model_not_found", text, { param: "model" });
}

/** Of a model whose vendor the gateway knows and does not have: what would give it that vendor. A local server is looked for once, at the start (contract 2). */
function explainOff(catalog: Catalog, id: string): string {
  const vendorId = id.slice(0, id.indexOf("/"));
  if (catalog.hasVendor(vendorId)) return "";
  const row = registry.find((each) => each.id === vendorId);
  if (row?.local) return `: no ${row.name} was found when the gateway started; start it again once ${row.name} runs`;
  return row?.env === undefined ? "" : `: ${describeVendor(vendorId)} is not switched on`;
}

/** Says what would switch each vendor of the model on. Where all are on, the lists of models in their rows leave it out. */
function switchedOff({ entry, switchedOnBy }: Listing): GatewayError {
  const where = `no vendor that serves it is switched on here: ${switchedOnBy.map(describeVendor).join(", ")}`;
  const why = switchedOnBy.length > 0 ? where : "the configured lists of its vendors' models leave it out";
  const text = `The model ${entry.id} is known, but ${why}.`;
  return new GatewayError("vendor_not_configured", text, { param: "model" });
}

/** A vendor as whoever has to switch it on looks for it: its id, and the variable that holds its key. */
function describeVendor(vendorId: string): string {
  const variable = variableOf(vendorId);
  return variable ? `${vendorId} (${variable})` : vendorId;
}
