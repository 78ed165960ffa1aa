import { builtInRows } from "../catalog/rows.ts";
import { MAX_PLAN_ID } from "../wire/bounds.ts";
import { describeFound, expected, type Fault, formatSteps, type Steps } from "./faults.ts";
import { nearest } from "./nearest.ts";
import { type ConfigFile, type ModelSetting, PRICE, VENDOR_ID, type VendorSetting } from "./schema.ts";
import {
  HEADER_NAME,
  HEADER_VALUE,
  type Reader,
  readHost,
  readHostRule,
  readKey,
  readOrigin,
  readProxy,
  readUrl,
} from "./values.ts";

/** What the rules need beside the document itself. */
export type CheckContext = {
  /** The document before `${NAME}` was filled in: what is shown comes from there. */
  raw: unknown;
  /** Ids of the built-in registry's vendors, and of the vendor inside this process. */
  registryIds: readonly string[];
  builtinIds: readonly string[];
};

/** Headers of the connection, which the gateway writes itself: a vendor's row may not set them. */
const FORBIDDEN_HEADERS = new Set(["host", "content-length", "transfer-encoding", "connection", "expect", "upgrade"]);

const BAD_KEY = `expected ${readKey.what} (not shown)`;

const quoted = (text: string) => JSON.stringify(text);

/** What is wrong with the names and values of headers at `steps`. */
function checkHeaders(headers: Record<string, string>, steps: Steps): Fault[] {
  const faults: Fault[] = [];
  for (const [name, value] of Object.entries(headers)) {
    const place = [...steps, name];
    if (!HEADER_NAME.test(name)) faults.push({ steps: place, problem: "expected a header name" });
    else if (FORBIDDEN_HEADERS.has(name.toLowerCase())) {
      faults.push({ steps: place, problem: "expected another header: this one is written by the gateway itself" });
    } else if (!HEADER_VALUE.test(value)) {
      faults.push({ steps: place, problem: "expected text on one line without control characters" });
    }
  }
  return faults;
}

/** An endpoint's path at the end of an address, as people copy it from a vendor's examples. */
const ENDPOINT = /\/(?:chat\/completions|v1\/messages|responses)\/*$/;

/** The faults of a row for a vendor that is not built in: it needs its dialect and its address. One that only draws has `images.wire` instead of a dialect. */
function checkCustomVendor(row: VendorSetting, steps: Steps, { registryIds, raw }: CheckContext): Fault[] {
  const needed = row.images?.wire === undefined ? (["dialect", "base_url"] as const) : (["base_url"] as const);
  const missing = needed.filter((field) => row[field] === undefined);
  if (missing.length === 0) return [];
  const meant = nearest(row.id, registryIds);
  const hint = meant ? `did you mean ${quoted(meant)}?` : "it is no built-in vendor";
  return missing.map((field) => ({
    steps: [...steps, field],
    problem: `expected a value, found nothing (${describeFound(raw, [...steps, "id"])}: ${hint})`,
  }));
}

const usedAgain = (raw: unknown, steps: Steps, first: string): Fault => ({
  steps,
  problem: `expected an id used once, found ${describeFound(raw, steps)} again (first in ${first})`,
});

function checkVendors(rows: readonly VendorSetting[], context: CheckContext): Fault[] {
  const faults: Fault[] = [];
  const firstAt = new Map<string, number>();
  rows.forEach((row, index) => {
    const steps = ["vendors", index];
    const earlier = firstAt.get(row.id);
    if (earlier !== undefined) faults.push(usedAgain(context.raw, [...steps, "id"], `vendors[${earlier}]`));
    firstAt.set(row.id, earlier ?? index);
    if (context.builtinIds.includes(row.id)) {
      faults.push({ steps: [...steps, "id"], problem: `expected another id: ${quoted(row.id)} is built in` });
    } else if (!context.registryIds.includes(row.id)) {
      faults.push(...checkCustomVendor(row, steps, context));
    }
    if (row.base_url !== undefined) {
      const place = [...steps, "base_url"];
      const fits = readUrl.from(row.base_url) !== undefined;
      if (!fits) faults.push(expected(readUrl.what, context.raw, place));
      const path = ENDPOINT.exec(row.base_url)?.[0];
      const problem = `expected an address without ${path}, which the gateway adds itself`;
      if (path) faults.push({ steps: place, problem });
    }
    faults.push(...checkHeaders(row.headers ?? {}, [...steps, "headers"]));
    faults.push(...checkKeys(row, steps));
  });
  return faults;
}

function checkKeys({ api_key: key, api_keys: keys = [], auth }: VendorSetting, steps: Steps): Fault[] {
  const problem = BAD_KEY;
  // An account's key is the path of its file, and stands in no header.
  const isBad = (one: string) => auth !== "service-account" && readKey.from(one) === undefined;
  const faults = keys.flatMap((one, at) => (isBad(one) ? [{ steps: [...steps, "api_keys", at], problem }] : []));
  return key !== undefined && isBad(key) ? [{ steps: [...steps, "api_key"], problem }, ...faults] : faults;
}

function checkRoutes(row: ModelSetting, steps: Steps, vendorIds: ReadonlySet<string>, raw: unknown): Fault[] {
  const faults: Fault[] = [];
  row.routes?.forEach((route, index) => {
    if (vendorIds.has(route.vendor)) return;
    const meant = nearest(route.vendor, vendorIds);
    const hint = meant ? `; did you mean ${quoted(meant)}?` : "";
    const { problem, ...place } = expected(VENDOR_ID, raw, [...steps, "routes", index, "vendor"]);
    faults.push({ ...place, problem: problem + hint });
  });
  return faults;
}

/**
 * The faults of a chat model's prices: with only one of input and output no request could be billed, and the model would count as one without a price. A row's
 * prices replace all of the built-in row's.
 */
function checkPricing({ id, modality, pricing }: ModelSetting, steps: Steps): Fault[] {
  if (typeof pricing !== "object" || pricing.per_image !== undefined) return [];
  if ((modality ?? builtInRows.find((row) => row.id === id)?.modality ?? "chat") !== "chat") return [];
  const missing = (["input", "output"] as const).filter((part) => pricing[part] === undefined);
  return missing.map((part) => expected(PRICE, undefined, [...steps, "pricing", part]));
}

/** The faults of price tiers that begin at the same length: it would not be known which is meant. */
function checkTiers({ pricing }: ModelSetting, steps: Steps): Fault[] {
  const lengths = typeof pricing === "object" ? (pricing.tiers ?? []).map((tier) => tier.input_tokens_above) : [];
  return lengths.flatMap((length, at) => {
    const first = lengths.indexOf(length);
    if (first === at) return [];
    const problem = `expected a length used once, found ${length} again (first in tiers[${first}])`;
    return [{ steps: [...steps, "pricing", "tiers", at, "input_tokens_above"], problem }];
  });
}

/** The faults of plans' ids, which commands and the admin API must be able to name: the API takes {@link MAX_PLAN_ID} characters. */
function checkPlans(plans: ConfigFile["plans"]): Fault[] {
  const problem = `expected an id of 1 to ${MAX_PLAN_ID} characters that can be seen`;
  const isSound = (id: string) => /^(?! )[^\p{C}]+(?<! )$/u.test(id) && id.length <= MAX_PLAN_ID;
  const ids = Object.keys(plans ?? {}).filter((id) => !isSound(id));
  return ids.map((id) => ({ steps: ["plans", id], problem }));
}

function checkModels(rows: readonly ModelSetting[], vendorIds: ReadonlySet<string>, raw: unknown): Fault[] {
  const faults: Fault[] = [];
  const firstAt = new Map<string, number>();
  rows.forEach((row, index) => {
    const steps = ["models", index];
    const earlier = firstAt.get(row.id);
    if (earlier !== undefined) faults.push(usedAgain(raw, [...steps, "id"], `models[${earlier}]`));
    firstAt.set(row.id, earlier ?? index);
    faults.push(...checkRoutes(row, steps, vendorIds, raw), ...checkPricing(row, steps), ...checkTiers(row, steps));
    const efforts = row.reasoning_efforts;
    if (efforts && !efforts.levels.includes(efforts.default)) {
      const what = `one of ${efforts.levels.map(quoted).join(", ")}`;
      faults.push(expected(what, raw, [...steps, "reasoning_efforts", "default"]));
    }
  });
  return faults;
}

function checkSearchKeys({ web }: ConfigFile): Fault[] {
  return Object.entries(web?.search?.engines ?? {}).flatMap(([id, { api_key: key }]) => {
    if (key === undefined || readKey.from(key) !== undefined) return [];
    return [{ steps: ["web", "search", "engines", id, "api_key"], problem: BAD_KEY }];
  });
}

type Written = [reader: Reader<unknown>, text: string | undefined, steps: Steps];

/** Addresses and names of hosts, with their places: whether they are valid only their readers can tell. */
function writtenTexts({ server, images, telemetry, web }: ConfigFile): Written[] {
  const each = (reader: Reader<unknown>, texts: readonly string[] | undefined, steps: Steps): Written[] =>
    (texts ?? []).map((text, index) => [reader, text, [...steps, index]]);
  const engines = Object.entries(web?.search?.engines ?? {});
  return [
    [readHost, server?.host, ["server", "host"]],
    [readUrl, server?.public_url, ["server", "public_url"]],
    [readUrl, server?.cdn_url, ["server", "cdn_url"]],
    ...each(readOrigin, server?.cors_origins, ["server", "cors_origins"]),
    ...each(readProxy, server?.trusted_proxies, ["server", "trusted_proxies"]),
    ...engines.map(([id, row]): Written => [readUrl, row.base_url, ["web", "search", "engines", id, "base_url"]]),
    ...each(readHostRule, web?.fetch?.allow_hosts, ["web", "fetch", "allow_hosts"]),
    [readUrl, images?.storage?.endpoint, ["images", "storage", "endpoint"]],
    [readUrl, images?.storage?.public_url, ["images", "storage", "public_url"]],
    [readUrl, telemetry?.otlp_endpoint, ["telemetry", "otlp_endpoint"]],
  ];
}

function checkTexts(file: ConfigFile, raw: unknown): Fault[] {
  return writtenTexts(file).flatMap(([reader, text, steps]) =>
    text === undefined || reader.from(text) !== undefined ? [] : [expected(reader.what, raw, steps)],
  );
}

/** The ids of vendors that a model of the file may name: those of the registry, the built-in ones, and the file's own. */
export const vendorIdsOf = (
  vendors: readonly Pick<VendorSetting, "id">[],
  { registryIds, builtinIds }: Pick<CheckContext, "registryIds" | "builtinIds">,
): string[] => [...registryIds, ...builtinIds, ...vendors.map(({ id }) => id)];

/** The faults of a configuration file that its schema cannot find, one for each place: ids used twice, routes to unknown vendors, prices, addresses, headers, keys. */
export function checkConfigFile(file: ConfigFile, context: CheckContext): Fault[] {
  const vendors = file.vendors ?? [];
  const vendorIds = new Set(vendorIdsOf(vendors, context));
  const faults = [
    ...checkVendors(vendors, context),
    ...checkModels(file.models ?? [], vendorIds, context.raw),
    ...checkPlans(file.plans),
    ...checkSearchKeys(file),
    ...checkTexts(file, context.raw),
    ...checkHeaders(file.telemetry?.headers ?? {}, ["telemetry", "headers"]),
  ];
  const seen = new Set<string>();
  return faults.filter(({ steps }) => {
    const path = formatSteps(steps);
    const first = !seen.has(path);
    seen.add(path);
    return first;
  });
}
