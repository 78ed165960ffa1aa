import type { Intent, Orders } from "../canon/intent.ts";
import type { Entry, Route } from "../catalog/entry.ts";
import { planReasoning } from "../catalog/reasoning.ts";
import type { UpstreamDialect } from "../dialects/dialect.ts";

/** Output ceiling for an upstream that demands one, when neither the client nor the catalog names any. Every current messages model takes it. */
const DEFAULT_MAX_OUTPUT = 8_192;

/** The ceiling to send when it differs from the client's: the catalog's maximum where the client asks for more, or for none where one is demanded. */
function outputCeiling(intent: Intent, entry: Entry, upstream: UpstreamDialect): number | undefined {
  const asked = intent.maxOutputTokens;
  const most = entry.maxOutputTokens;
  if (asked !== undefined) return most !== undefined && asked > most ? most : undefined;
  return upstream.demandsOutputCeiling ? (most ?? DEFAULT_MAX_OUTPUT) : undefined;
}

/** What the gateway changes in this request, and nothing else: pure. */
export function planOrders(intent: Intent, entry: Entry, route: Route, upstream: UpstreamDialect): Orders {
  const reasoning = planReasoning(intent.reasoning, entry, route);
  const maxOutputTokens = outputCeiling(intent, entry, upstream);
  return {
    upstreamModel: route.model,
    stream: intent.stream,
    ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    reasoning: reasoning.order,
    dropSampling: reasoning.active,
    remove: reasoning.refused,
  };
}
