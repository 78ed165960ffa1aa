import type { Orders } from "../../canon/intent.ts";
import type { Edits } from "../../lib/json.ts";
import { reasoningEdits } from "./reasoning-edits.ts";

const SAMPLING = ["temperature", "top_p", "top_k"] as const;

/**
 * Orders as edits of a body's top-level fields, whether the client wrote it or `encodeRequest` (design 1). Only fields that really
 * change are named: they are spliced into the client's own bytes.
 */
export function amend(body: Record<string, unknown>, orders: Orders): Edits {
  const edits: Edits = {};
  if (body["model"] !== orders.upstreamModel) edits["model"] = orders.upstreamModel;
  if ((body["stream"] === true) !== orders.stream) edits["stream"] = orders.stream;
  if (orders.maxOutputTokens !== undefined && body["max_tokens"] !== orders.maxOutputTokens) {
    edits["max_tokens"] = orders.maxOutputTokens;
  }
  Object.assign(edits, reasoningEdits(body, orders));
  const removed = orders.dropSampling ? [...SAMPLING, ...orders.remove] : orders.remove;
  for (const field of removed) {
    if (field in body) edits[field] = undefined;
    else delete edits[field];
  }
  return edits;
}
