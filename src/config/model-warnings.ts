import { builtInRows, routesOf } from "../catalog/rows.ts";
import { nearest } from "./nearest.ts";
import type { ModelSetting, VendorSetting } from "./schema.ts";

/** Warnings of the file's models: nothing is wrong with them, but they may not be as meant. `vendorIds`: of all vendors that a model may name. */
export function modelWarnings(
  models: readonly ModelSetting[],
  vendors: readonly VendorSetting[],
  vendorIds: readonly string[],
): string[] {
  return [
    ...lostModelWarnings(models, vendorIds),
    ...closedRouteWarnings(models, vendors),
    ...tokenPriceWarnings(models),
    ...tierCacheWarnings(models),
    ...lostPriceWarnings(models),
  ];
}

/** Warnings of models that no vendor serves by their prefix. Not a fault, as an unknown vendor in a route is: the vendor's row may be left out for a while. */
function lostModelWarnings(models: readonly ModelSetting[], vendorIds: readonly string[]): string[] {
  return models.flatMap(({ id, routes }, index) => {
    const prefix = id.slice(0, id.indexOf("/"));
    if (routes || vendorIds.includes(prefix) || builtInRows.some((row) => row.id === id)) return [];
    const meant = nearest(prefix, vendorIds);
    return [`models[${index}]: ${id} has no vendor: there is no ${prefix}${meant ? `; did you mean ${meant}?` : "."}`];
  });
}

/**
 * Warnings of routes to models that the `models` list in their vendor's row does not hold: such a list names all that the vendor serves. A built-in model
 * whose row in the file has no routes may be left out on purpose.
 */
function closedRouteWarnings(models: readonly ModelSetting[], vendors: readonly VendorSetting[]): string[] {
  const lists = new Map(vendors.map(({ id, models: list }) => [id, list]));
  return models.flatMap((row, index) => {
    if (!row.routes && builtInRows.some(({ id }) => id === row.id)) return [];
    return routesOf(row).flatMap(({ vendor, model }) => {
      const list = lists.get(vendor);
      if (!Array.isArray(list) || list.includes(model)) return [];
      return [
        `models[${index}]: ${row.id} is not had from ${vendor}: the models of its row are a list without ${model}.`,
      ];
    });
  });
}

/**
 * Less than any model costs for a million tokens, USD, and about what one costs for a single token, as other programs write prices. It is taken as it
 * stands, and the model is nearly given away.
 */
const LEAST_USD = 0.0005;

const isTiny = ([name, usd]: [string, unknown]) =>
  name !== "per_image" && typeof usd === "number" && usd > 0 && usd < LEAST_USD;

/** Warnings of prices that look as if they were for one token. */
function tokenPriceWarnings(models: readonly ModelSetting[]): string[] {
  return models.flatMap(({ id, pricing }) => {
    if (typeof pricing !== "object") return [];
    const prices = [pricing, ...(pricing.tiers ?? [])].flatMap((part) => Object.entries(part));
    const [found] = prices.filter(isTiny);
    return found ? [`${id}: its price of ${found[1]} USD (${found[0]}) is for 1,000,000 tokens, not for one.`] : [];
  });
}

/**
 * Warnings of prices whose tiers for long prompts lack the price of cached tokens. Nothing is inherited from the prices for shorter ones, so cached tokens
 * cost as much as fresh input there, ten times as much and more.
 */
function tierCacheWarnings(models: readonly ModelSetting[]): string[] {
  return models.flatMap(({ id, pricing }) => {
    if (typeof pricing !== "object" || pricing.cache_read === undefined) return [];
    const bare = pricing.tiers?.find((tier) => tier.cache_read === undefined);
    if (!bare) return [];
    return [
      `${id}: above ${bare.input_tokens_above} tokens its prices have no cache_read: cached tokens cost as input there.`,
    ];
  });
}

/** What prices may have beside input and output, and what its absence means. */
const BESIDE = [
  ["cache_read", "tokens read from the cache cost as input"],
  ["cache_write", "tokens written to the cache cost as input"],
  ["tiers", "long prompts cost as short ones"],
] as const;

/**
 * Warnings of prices that lack what the built-in ones of that model have, which they replace as a whole. An agent reads nearly all of its prompt from
 * the cache, and would pay ten times as much for that.
 */
function lostPriceWarnings(models: readonly ModelSetting[]): string[] {
  return models.flatMap(({ id, pricing }) => {
    const known = builtInRows.find((row) => row.id === id)?.pricing;
    if (typeof pricing !== "object" || typeof known !== "object" || pricing.per_image !== undefined) return [];
    const lost = BESIDE.filter(([name]) => known[name] !== undefined && pricing[name] === undefined);
    if (lost.length === 0) return [];
    const names = lost.map(([name]) => name).join(", ");
    return [
      `${id}: its prices replace all of the built-in ones, and lack ${names}: ${lost.map(([, cost]) => cost).join(", ")}.`,
    ];
  });
}
