import type { Caller } from "../accounts/caller.ts";
import { planOf } from "../accounts/plans.ts";
import type { Intent } from "../canon/intent.ts";
import { isObject } from "../lib/json.ts";
import type { Services } from "./job.ts";

/** Fields that name further models, of which a vendor takes one where the first fails: OpenRouter's, and Anthropic's. */
const OTHER_MODELS: ReadonlySet<string> = new Set(["models", "fallbacks"]);

/** Fields that say which model is asked, and how much of it. */
const DECISIVE: ReadonlySet<string> = new Set([
  ...OTHER_MODELS,
  ...["model", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens", "max_output_tokens"],
]);

/** A name as servers read it for which letters are the same whether small or large (Go's encoding/json, and so Ollama). */
const folded = (name: string) => name.toUpperCase().toLowerCase();

/** The caller pays, or may not call every model: what another model than the one that was asked for costs is not known, nor whether it may be called. */
const isBound = ({ plan, narrow }: Caller, { plans }: Pick<Services, "plans">) =>
  narrow?.models !== undefined || narrow?.capped === true || planOf(plans, plan).metered;

/**
 * The intent, by which no field goes on that would have another model answer than the gateway has let pass and counts: further models of a caller
 * who is bound, and what is one of the fields that decide but for the size of its letters. They are named like whatever else is left out.
 */
export function withoutStrays(
  intent: Intent,
  body: unknown,
  caller: Caller,
  services: Pick<Services, "plans">,
): Intent {
  if (!isObject(body)) return intent;
  let strays: string[] | undefined;
  for (const field in body) {
    const isDecisive = DECISIVE.has(field);
    const isStray = isDecisive ? OTHER_MODELS.has(field) && isBound(caller, services) : DECISIVE.has(folded(field));
    if (!isStray) continue;
    strays ??= [];
    strays.push(field);
  }
  return strays ? { ...intent, remove: strays } : intent;
}
