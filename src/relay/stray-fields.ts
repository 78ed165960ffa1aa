import type { Caller } from "../accounts/caller.ts";
import { planOf } from "../accounts/plans.ts";
import type { Intent } from "../canon/intent.ts";
import type { ClientDialect } from "../dialects/dialect.ts";
import { isObject } from "../lib/json.ts";
import type { Services } from "./job.ts";

/**
 * Fields that name further models, of which a vendor takes one where the first fails: OpenRouter's, Anthropic's, and LiteLLM's, which whoever makes the
 * first one fail (a prompt that is too long, or refused) has answer; the one by which LiteLLM is told another deployment of Azure's (BerriAI/litellm,
 * `router.py`, `proxy/route_llm_request.py` and `main.py`); what LiteLLM lays over the request once it has let it in, `model` and all (BerriAI/litellm
 * #31118); where Vercel's gateway is told further models and hosts (vercel.com, AI Gateway, "Provider Options"); and the name under which Perplexity and
 * OpenRouter keep a model with all that is to be done with it, such as searches, of which what a request does not say itself is taken
 * (docs.perplexity.ai, "Presets"; openrouter.ai, "Presets").
 */
const OTHER_MODELS: ReadonlySet<string> = new Set([
  ...["models", "fallbacks"],
  ...["context_window_fallbacks", "content_policy_fallbacks", "router_settings_override", "deployment_id"],
  ...["extra_body", "providerOptions", "preset"],
]);

/** Fields that say which model is asked, and how much of it. */
const DECISIVE: ReadonlySet<string> = new Set([
  ...OTHER_MODELS,
  ...["model", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens", "max_output_tokens"],
]);

/**
 * In what words servers are told how long a reply may be, and how many there are to be, beside those of a client's dialect. Some take theirs before, or in place
 * of, the ones that the gateway has read: llama.cpp in all three dialects (ggml-org/llama.cpp, `server-schema.cpp`), and the vendors behind LiteLLM, which lays
 * over its translation what it does not know itself (BerriAI/litellm, `utils.py`). What is made beyond what was asked for is not believed, and nobody pays for it.
 */
const AMOUNTS: ReadonlySet<string> = new Set([
  ...["n", "max_tokens", "max_completion_tokens", "max_output_tokens"],
  ...["n_predict", "n_cmpl", "num_predict", "max_new_tokens", "max_tokens_to_sample", "maxtokens"],
]);

/** A name without letters that are not what they seem: nearly every one. */
const PLAIN = /^[a-z\d_]*$/;

/** A name as servers read it for which letters are the same whether small or large (Go's encoding/json, and so Ollama). */
const folded = (name: string) => name.toUpperCase().toLowerCase();

/**
 * Fields by which a vendor serves a request faster or in one place for more than the model's price, or searches for money of its own (OpenRouter's,
 * xAI's and Alibaba's), and what may be said there that costs no more. Of the rest nobody knows what it costs: OpenAI's tier `ultrafast`, which was new in
 * 2026, is six times the price (developers.openai.com, "Ultrafast mode").
 */
const DEARER: Readonly<Record<string, readonly unknown[]>> = {
  service_tier: ["auto", "default", "standard", "standard_only", "on_demand", "flex"],
  speed: ["standard"],
  inference_geo: ["global"],
  plugins: [],
  search_parameters: [],
  enable_search: [false],
};

/**
 * Where OpenRouter is told which of a model's hosts is asked, and the parts of it by which that is no longer the cheapest one (openrouter.ai, "Provider
 * Routing"). What becomes of what is said there, and what it may cost at the most, is not among them.
 */
const HOSTS = "provider";
const HOST_CHOICES = [
  ...["order", "only", "ignore", "sort", "preferred_min_throughput", "preferred_max_latency"],
  // The same model in finer numbers costs more.
  "quantizations",
];

/** Hosts in the order of their price are asked anyway. */
const isByPrice = (sort: unknown): boolean => (isObject(sort) ? sort["by"] : sort) === "price";

const isDearer = (field: string, value: unknown): boolean => value != null && DEARER[field]?.includes(value) === false;

/** What the caller uses is paid for, or counted, at the model's price. */
export const isPriced = ({ plan, narrow }: Caller, { plans }: Pick<Services, "plans">) =>
  narrow?.capped === true || planOf(plans, plan).metered;

/**
 * Places in a body at which who pays the model's price has a dearer host of the model asked, such as `provider.order`; an empty list for nearly every
 * one. They are the parts of fields of which other parts go on.
 */
export function dearerParts(body: Readonly<Record<string, unknown>>): string[] {
  const hosts = body[HOSTS];
  if (!isObject(hosts)) return [];
  const parts = HOST_CHOICES.filter((part) => hosts[part] != null && !(part === "sort" && isByPrice(hosts[part])));
  return parts.map((part) => `${HOSTS}.${part}`);
}

/** The caller pays, or may not call every model: what another model than the one that was asked for costs is not known, nor whether it may be called. */
export const isBound = (caller: Caller, services: Pick<Services, "plans">) =>
  caller.narrow?.models !== undefined || isPriced(caller, services);

type Asking = { client: Pick<ClientDialect, "amountFields">; caller: Caller };

function isStray(
  field: string,
  value: unknown,
  { client, caller }: Asking,
  services: Pick<Services, "plans">,
): boolean {
  if (OTHER_MODELS.has(field)) return isBound(caller, services);
  const isPlain = PLAIN.test(field);
  const plain = isPlain ? field : folded(field);
  if (AMOUNTS.has(plain) && !client.amountFields.includes(field) && isPriced(caller, services)) return value != null;
  if (DECISIVE.has(field)) return false;
  if (Object.hasOwn(DEARER, field)) return isDearer(field, value) && isPriced(caller, services);
  return !isPlain && (DECISIVE.has(plain) || Object.hasOwn(DEARER, plain));
}

/**
 * The intent, with orders to leave out the fields by which another model would answer than the one that was let in and is counted, or at another price:
 * - further models, for a caller who is bound to those it may call or pays for;
 * - dearer service, for one who pays, and other words for how much is asked for;
 * - a deciding field in other letters (`Model`), which some servers read as the field itself.
 *
 * They are named like whatever else is left out.
 */
export function withoutStrays(
  intent: Intent,
  body: unknown,
  asking: Asking,
  services: Pick<Services, "plans">,
): Intent {
  if (!isObject(body)) return intent;
  let strays: string[] | undefined;
  for (const field in body) {
    if (!isStray(field, body[field], asking, services)) continue;
    strays ??= [];
    strays.push(field);
  }
  return strays ? { ...intent, remove: strays } : intent;
}
