import type { Orders } from "../../canon/intent.ts";
import { isObject } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { mapListIn } from "../../lib/map-changed.ts";

type Body = Readonly<Record<string, unknown>>;

/** Lists in which a client names further models: the adviser's in its tool, and those that answer in the asked one's place (dialects.md 2.1). */
const NAMING_LISTS = ["tools", "fallbacks"] as const;

/**
 * Edits of a client's body in which every model is named as its vendor names it, beside the one that is asked: a client knows all of them by the
 * gateway's IDs, and Claude Code writes one into its adviser's tool. Undefined where none is named so.
 */
export function modelEdits(body: Body, { vendorName }: Orders): Edits | undefined {
  if (!vendorName) return undefined;
  let edits: Edits | undefined;
  for (const field of NAMING_LISTS) {
    const named = mapListIn(body, field, (entry) => withVendorName(entry, vendorName));
    if (named !== body) edits = { ...edits, [field]: named[field] };
  }
  return edits;
}

function withVendorName(entry: unknown, vendorName: (model: string) => string): unknown {
  if (!isObject(entry) || typeof entry["model"] !== "string") return entry;
  const model = vendorName(entry["model"]);
  return model === entry["model"] ? entry : { ...entry, model };
}
