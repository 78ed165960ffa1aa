import type { Plan } from "../accounts/plans.ts";
import type { Intent, ReasoningForm, ReasoningOrder } from "../canon/intent.ts";
import type { Entry } from "../catalog/entry.ts";
import { planReasoning } from "../catalog/reasoning.ts";
import type { ModelPrices, Payment } from "../ledger/ledger.ts";
import { type PriceTier, type Rates, toMicroPrice } from "../ledger/price.ts";
import { isObject } from "../lib/json.ts";
import type { JsonText } from "../lib/json-text.ts";
import { isCollectable } from "./orders.ts";

/** Output that a model makes without showing it, by how deep it is asked to think, tokens (reliability 3.5 #7). */
const UNSEEN_OUTPUT: Readonly<Record<string, number>> = {
  minimal: 4_096,
  low: 4_096,
  medium: 8_192,
  high: 16_384,
  xhigh: 32_768,
  max: 32_768,
};
const USUAL_UNSEEN = 8_192;

/** Forms of models whose reasoning streams as it is made: it is seen, and counted like any other output. */
const OPEN_THINKERS = new Set<ReasoningForm>([
  "thinking-type",
  "thinking-type-effort",
  "enable-thinking",
  "template-enable-thinking",
  "template-thinking",
  "reasoning-object",
]);

/** Prices that were read of an entry. An entry never changes, it is replaced: what was read holds as long as the entry does. */
const known = new WeakMap<Entry, { prices: ModelPrices | undefined }>();

/** The entry's prices; undefined where they are not known, or are not by the token. The same object for the same entry. */
export function pricesOf(entry: Entry): ModelPrices | undefined {
  let read = known.get(entry);
  if (!read) {
    read = { prices: readPrices(entry) };
    known.set(entry, read);
  }
  return read.prices;
}

function readPrices({ id, pricing }: Entry): ModelPrices | undefined {
  if (pricing?.unit !== "per_1m_tokens") return undefined;
  const rates = readRates(pricing);
  if (!rates) return undefined;
  const tiers = readTiers(pricing["tiers"]);
  return { model: id, prices: tiers.length > 0 ? { ...rates, tiers } : rates };
}

function readRates(row: Partial<Record<string, unknown>>): Rates | undefined {
  const { input, output, cache_read: cacheRead, cache_write: cacheWrite } = row;
  const cacheWriteLong = LONG_MARKS.map(([price]) => row[price]).find((price) => price !== undefined);
  if (typeof input !== "number" || typeof output !== "number") return undefined;
  return {
    input: toMicroPrice(input),
    output: toMicroPrice(output),
    ...(typeof cacheRead === "number" && { cacheRead: toMicroPrice(cacheRead) }),
    ...(typeof cacheWrite === "number" && { cacheWrite: toMicroPrice(cacheWrite) }),
    ...(typeof cacheWriteLong === "number" && { cacheWriteLong: toMicroPrice(cacheWriteLong) }),
  };
}

/** Prices of long prompts, as the built-in rows have them, in rising order. */
function readTiers(rows: unknown): PriceTier[] {
  const tiers: PriceTier[] = [];
  for (const row of Array.isArray(rows) ? rows : []) {
    const above = isObject(row) ? row["input_tokens_above"] : undefined;
    const rates = isObject(row) ? readRates(row) : undefined;
    if (typeof above === "number" && rates) tiers.push({ above, ...rates });
  }
  return tiers.sort((first, second) => first.above - second.above);
}

function unseenFor(order: ReasoningOrder, usual: string): number {
  if (order.kind === "budget") return order.tokens;
  return UNSEEN_OUTPUT[order.kind === "level" ? order.level : usual] ?? USUAL_UNSEEN;
}

/** Output tokens that the model may make without showing them: many vendors stream a summary of the reasoning, or nothing at all. */
function unseenOutput(entry: Entry, intent: Intent): number {
  const [route] = entry.routes;
  const form = route?.form ?? entry.reasoning?.form;
  if (!entry.reasoning || (form && OPEN_THINKERS.has(form))) return 0;
  const plan = planReasoning(intent.turnReasoning ?? intent.reasoning, entry, route);
  return plan.active ? unseenFor(plan.order, entry.reasoning.default) : 0;
}

/**
 * The price that a model has for writing to its cache for longer than usual, and how a request asks for that: a cache mark of the messages dialect for an
 * hour, one of OpenAI's for twelve. The words are looked for in the whole body: found where they are no mark, they make the hold larger and nothing else.
 */
const LONG_MARKS = [
  ["cache_write_1h", '"1h"'],
  ["cache_write_12h", '"12h"'],
] as const;

const asksForLong = ({ pricing }: Entry, body: JsonText): boolean =>
  LONG_MARKS.some(([price, mark]) => pricing?.[price] !== undefined && body.includes(mark));

/** What a plan that pays means for a request; undefined for one that is counted alone (contract 4, plan `local`). */
export function paymentOf(plan: Plan, entry: Entry, intent: Intent, body: JsonText): Payment | undefined {
  return plan.metered ? termsOf(plan, entry, intent, body) : undefined;
}

/** {@link paymentOf} whatever the plan: for keys that have caps of their own. */
export function termsOf(plan: Plan, entry: Entry, intent: Intent, body: JsonText): Payment {
  return {
    windowNano: plan.windowNano,
    premium: entry.accessTier === "premium",
    sliced: intent.stream,
    collectable: !intent.stream && isCollectable(body.value),
    unseenOutput: unseenOutput(entry, intent),
    ...(asksForLong(entry, body) && { cachesLong: true }),
    ...(entry.maxOutputTokens !== undefined && { maxOutputTokens: entry.maxOutputTokens }),
    ...(entry.contextLength !== undefined && { contextLength: entry.contextLength }),
  };
}
