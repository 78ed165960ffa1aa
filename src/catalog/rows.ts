import type { ReasoningForm } from "../canon/intent.ts";
import type { ListedModel } from "../canon/listed-model.ts";
import type { AccessTier, Entry, Modality, Pricing, ReasoningControl, Route } from "./entry.ts";
import modelsText from "./models.json" with { type: "text" };

/** Prices of a row: `free`, or USD by bucket; currency and unit default to the interface's. */
export type RowPricing =
  | "free"
  | { currency?: "USD"; unit?: string; input?: number; output?: number; [extra: string]: unknown };

/** How a row steers reasoning: the facts of {@link ReasoningControl} in wire names; levels stand in `reasoning_efforts`. */
export type RowReasoning = {
  form?: ReasoningForm;
  omitted?: ReasoningControl["omitted"];
  always_reasons?: boolean;
  reasons_by_default?: boolean;
  no_off?: boolean;
  off_value?: string;
  refuses?: readonly string[];
};

/** A model as data, in the wire names of interface 2.3 and contract 2: a row of the built-in catalog or of the configuration. */
export type CatalogRow = {
  id: string;
  display_name?: string;
  owned_by?: string;
  modality?: Modality;
  access_tier?: AccessTier;
  context_length?: number;
  max_output_tokens?: number;
  pricing?: RowPricing;
  /** Other prices that the vendor has announced, and the instant of each (ISO 8601), in order: many begin at a lower one. */
  price_changes?: readonly { from: string; pricing: RowPricing }[];
  /** The day on which its vendor stops serving it (YYYY-MM-DD), once that is announced. It is told, and nothing else: vendors put such days off. */
  retires_at?: string;
  capabilities?: { vision?: boolean; tools?: boolean; reasoning?: boolean; pdf?: boolean };
  reasoning_efforts?: { levels: readonly string[]; default: string };
  reasoning?: RowReasoning;
  refuses?: readonly string[];
  routes?: readonly Route[];
};

/** The models known by heart: `models.json` is their one source. Embedded as text: parsing it takes a tenth of the time that running it as code takes. */
export const builtInRows: readonly CatalogRow[] = JSON.parse(modelsText as unknown as string);

/** The part of an ID before its first slash, "" when there is none. */
export function prefixOf(id: string): string {
  const slash = id.indexOf("/");
  return slash < 0 ? "" : id.slice(0, slash);
}

/** The part of an ID after its first slash: the name its vendor knows the model by, unless a route says otherwise. */
export function nameOf(id: string): string {
  return id.slice(id.indexOf("/") + 1);
}

/**
 * `base` with the fields that `override` gives. Capabilities and reasoning facts are laid over one by one; prices, levels and routes
 * are replaced whole, since half of an old price list beside half of a new one is a wrong one.
 */
export function mergeRows(base: CatalogRow, override: CatalogRow): CatalogRow {
  const { price_changes: changes, retires_at: end, ...kept } = base;
  return {
    ...kept,
    // A price that the operator has set stays, whatever changes the vendor has announced.
    ...(changes && override.pricing === undefined && { price_changes: changes }),
    // With routes of the operator's own the model is not had from the built-in row's vendor any more: the day on which that one ends it does not count.
    ...(end !== undefined && override.routes === undefined && { retires_at: end }),
    ...override,
    ...(base.capabilities && { capabilities: { ...base.capabilities, ...override.capabilities } }),
    ...(base.reasoning && { reasoning: { ...base.reasoning, ...override.reasoning } }),
  };
}

/**
 * The name that its maker gives a model which a cloud serves for it: Bedrock says before it in whose and in which part of the world it runs, and behind it which
 * version of the cloud's it is; both clouds, of which day it is (`us.anthropic.claude-sonnet-4-5-20250929-v1:0`, `claude-sonnet-4-5@20250929`).
 */
export const makersName = (name: string): string =>
  name
    .replace(/^(?:[a-z-]{1,20}\.)?anthropic\./, "")
    .replace(/@[^@]*$/, "")
    .replace(/-v\d{1,3}(?::\d{1,3})?$/, "")
    .replace(/-\d{8}$/, "");

/** What a row knows of its model wherever that is had, as a row of another ID: what its own vendor asks for it, and how long it has it, is not of these. */
export function factsOf(row: CatalogRow, id: string): CatalogRow {
  const {
    pricing: _pricing,
    price_changes: _changes,
    access_tier: _tier,
    retires_at: _end,
    routes: _routes,
    ...facts
  } = row;
  return { ...facts, id };
}

/** A row with the prices that it has at `nowMs` (Unix ms). The same row where none were announced. */
export function pricedAt(row: CatalogRow, nowMs: number): CatalogRow {
  const last = row.price_changes?.findLast(({ from }) => Date.parse(from) <= nowMs);
  return last ? { ...row, pricing: last.pricing } : row;
}

/** Until when rows have the prices that they have at `nowMs`, and since when: both Unix ms, infinite where no change was announced. */
export function priceSpan(rows: Iterable<CatalogRow>, nowMs: number): { sinceMs: number; untilMs: number } {
  let [sinceMs, untilMs] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (const { price_changes: changes = [] } of rows) {
    for (const { from } of changes) {
      const at = Date.parse(from);
      if (at <= nowMs) sinceMs = Math.max(sinceMs, at);
      else untilMs = Math.min(untilMs, at);
    }
  }
  return { sinceMs, untilMs };
}

function toPricing(pricing: RowPricing | undefined): Pricing | undefined {
  if (pricing === undefined) return undefined;
  if (pricing === "free") return { currency: "USD", unit: "per_1m_tokens", input: 0, output: 0 };
  const perImage = pricing.input === undefined && pricing["per_image"] !== undefined;
  return { ...pricing, currency: "USD", unit: pricing.unit ?? (perImage ? "per_image" : "per_1m_tokens") };
}

/** The tier of a row that states none: free at price zero, else paid. Premium, which shuts accounts out, is a model only where its row says so. */
function tierOf(pricing: Pricing | undefined): AccessTier {
  return pricing?.input === 0 && pricing.output === 0 ? "free" : "paid";
}

function toControl(row: CatalogRow): ReasoningControl | undefined {
  const { reasoning_efforts: efforts, reasoning: facts } = row;
  if (!efforts) return undefined;
  return {
    levels: efforts.levels,
    default: efforts.default,
    form: facts?.form ?? "effort",
    ...(facts?.omitted && { omitted: facts.omitted }),
    ...(facts?.always_reasons && { alwaysReasons: true }),
    ...(facts?.reasons_by_default && { reasonsByDefault: true }),
    ...(facts?.no_off && { noOff: true }),
    ...(facts?.off_value !== undefined && { offValue: facts.off_value }),
    ...(facts?.refuses && { refuses: facts.refuses }),
  };
}

/** Where a row's model can be had: what it says, else at the vendor that its ID begins with. */
export function routesOf({ id, routes }: CatalogRow): readonly Route[] {
  return routes ?? [{ vendor: prefixOf(id), model: nameOf(id) }];
}

/**
 * A row as the gateway uses it. What the row leaves open: the name is the ID's, the owner its prefix, the modality chat, the tier
 * {@link tierOf}, the capabilities none. `charted` says whether silence about reasoning means "has no control" (the built-in rows,
 * which are complete) or "not known" (a row of the configuration that names neither levels nor the capability).
 */
export function toEntry(row: CatalogRow, charted: boolean): Entry {
  const pricing = toPricing(row.pricing);
  const reasoning = toControl(row);
  const known = charted || reasoning !== undefined || row.capabilities?.reasoning !== undefined;
  return {
    id: row.id,
    displayName: row.display_name ?? nameOf(row.id),
    ownedBy: row.owned_by ?? prefixOf(row.id),
    modality: row.modality ?? "chat",
    ...(row.modality === undefined && !charted && { modalityAssumed: true as const }),
    accessTier: row.access_tier ?? tierOf(pricing),
    ...(row.context_length !== undefined && { contextLength: row.context_length }),
    ...(row.max_output_tokens !== undefined && { maxOutputTokens: row.max_output_tokens }),
    ...(pricing && { pricing }),
    capabilities: {
      vision: row.capabilities?.vision ?? false,
      tools: row.capabilities?.tools ?? false,
      reasoning: row.capabilities?.reasoning ?? reasoning !== undefined,
      ...(row.capabilities?.pdf && { pdf: true as const }),
    },
    ...(row.capabilities?.vision === false && { textOnly: true }),
    ...(reasoning && { reasoning }),
    ...(!known && { uncharted: true }),
    ...(row.refuses && { refuses: row.refuses }),
    ...(row.retires_at !== undefined && { retiresAt: row.retires_at }),
    routes: routesOf(row),
  };
}

/** For a vendor that turns any effort into one that the model has. */
const ANY_DEPTH = { levels: ["none", "minimal", "low", "medium", "high", "xhigh"], default: "medium" };
/** The same for a model that cannot be kept from reasoning: as the lowest level of a control without an off, `minimal` would be taken for the off. */
const ANY_POSITIVE_DEPTH = { levels: ["low", "medium", "high", "xhigh"], default: "medium" };

/**
 * A model that no row knows, but that a vendor serves under this name: with its kind, where that is known, and what its vendor's list says. Where that
 * list names efforts, the vendor itself turns whatever it is asked for into one of them: the entry stays uncharted, see {@link Entry.uncharted}.
 */
export function unchartedEntry(id: string, modality?: Modality, listed?: ListedModel): Entry {
  const { contextLength, maxOutputTokens, tools, vision, pdf, reasoning, mustReason, efforts } = listed ?? {};
  const row: CatalogRow = {
    id,
    ...(modality && { modality }),
    ...(contextLength !== undefined && { context_length: contextLength }),
    ...(maxOutputTokens !== undefined && { max_output_tokens: maxOutputTokens }),
    // A list that does not say what a model can do does not say that it cannot.
    capabilities: { ...(tools && { tools }), ...(vision && { vision }), ...(pdf && { pdf }) },
    ...(efforts && { reasoning_efforts: efforts }),
    ...(reasoning && {
      reasoning_efforts: efforts ?? (mustReason ? ANY_POSITIVE_DEPTH : ANY_DEPTH),
      reasoning: { form: reasoning, omitted: "nothing", ...(mustReason && { no_off: true }) },
    }),
  };
  return {
    ...toEntry(row, false),
    ...(maxOutputTokens !== undefined && { isListed: true as const }),
    ...(efforts && !reasoning && { uncharted: true }),
  };
}
