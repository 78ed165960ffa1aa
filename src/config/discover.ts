import type { Environment } from "../lib/environment.ts";
import { entryOf } from "../lib/json.ts";
import { isLoopback } from "../lib/loopback.ts";
import { completed, withoutBlanks, withoutWays } from "../vendors/from-environment.ts";
import type { AuthForm, DrawingSettings, Vendor, VendorRow } from "../vendors/vendor.ts";
import { type ModelSetting, toCamelCase, type VendorSetting } from "./schema.ts";
import { readKey, readUrl } from "./values.ts";

/** What decides which vendors are switched on. */
export type VendorSources = {
  registry: readonly VendorRow[];
  /** The registry's vendors that an environment switches on. */
  fromEnvironment(environment: Environment): Vendor[];
  environment: Environment;
  /** Rows of the configuration file, checked. */
  rows: readonly VendorSetting[];
  models: readonly ModelSetting[];
};

export type Discovery = {
  vendors: Vendor[];
  /** Sentences for the operator: vendors that stay off although a row or a key is there, and why; addresses that are probably wrong. */
  warnings: string[];
};

const DEFAULT_AUTH: Readonly<Record<Vendor["dialect"], AuthForm>> = {
  chat: "bearer",
  messages: "x-api-key",
  responses: "bearer",
  gemini: "x-goog-api-key",
};

/** Headers of a dialect. The messages dialect's own vendor refuses a request without a version, and only its SDKs send one (dialects.md 2.0). */
const DEFAULT_HEADERS: Readonly<Partial<Record<Vendor["dialect"], Record<string, string>>>> = {
  messages: { "anthropic-version": "2023-06-01" },
};

/** Hosts of the responses dialect's own vendor, and of the cloud that serves its models. */
const OPENAIS = /(?:^|\.)(?:openai\.com|chatgpt\.com|azure\.com|azure\.us)$/;

/** The host of the messages dialect's own vendor. */
const ANTHROPICS = /(?:^|\.)(?:anthropic\.com|claude\.com)$/;
/** The hosts of clouds that serve its models. Amazon has two: the older one, and Mantle's (docs.aws.amazon.com, "Inference using Anthropic Messages API"). */
const CLOUDS = /(?:^|\.)(?:amazonaws\.com|api\.aws|googleapis\.com|azure\.com)$/;

/**
 * What some hosts need that cannot be learnt from their refusals: they refuse nothing, or not in words that say it. Workers AI (developers.cloudflare.com,
 * "Prompt caching") and OpenCode route a session's requests to its cache by a header; OpenCode may answer "Request is missing x-opencode-session" without
 * it (opencode.ai, "Where can I use it"). Snowflake and Inception ignore one of the two names of the output ceiling: Snowflake then writes
 * no more than 4,096 tokens (langchain-ai/langchain-snowflake #132). Inception also refuses a tool choice that names its tool (pydantic/pydantic-ai #6647).
 */
const HOSTS: Readonly<Record<string, Vendor["quirks"]>> = {
  "api.cloudflare.com": { sessionHeader: "x-session-affinity" },
  "opencode.ai": { sessionHeader: "x-opencode-session", needsSession: true },
  "snowflakecomputing.com": { maxTokensField: "max_completion_tokens" },
  "inceptionlabs.ai": { maxTokensField: "max_tokens", toolChoiceRequired: "unnamed" },
};

/** The entry of {@link HOSTS} for a host, or for its domain (the last two labels). */
const ofHost = (host: string): Vendor["quirks"] | undefined =>
  entryOf(HOSTS, host) ?? entryOf(HOSTS, host.split(".").slice(-2).join("."));

/**
 * The quirks assumed for a server that no registry row describes, by its dialect and host. OpenAI's own hosts know all of the responses dialect; for others
 * it is learnt from their refusals. Only Anthropic's models sign their thinking: other servers (llama.cpp, Ollama) take it back as they gave it, without a
 * signature, and a gateway before Anthropic's models refuses that in words that are known. Only Anthropic itself takes every new field of Claude Code's at
 * once; a strict server names in its refusal what it does not know.
 */
function usualQuirks(dialect: Vendor["dialect"], baseUrl: string): Vendor["quirks"] {
  const host = URL.parse(baseUrl)?.hostname ?? "";
  const known = ofHost(host);
  if (dialect === "responses" && OPENAIS.test(host)) return { customTools: true };
  if (dialect !== "messages" || ANTHROPICS.test(host)) return { ...known };
  return { refusesExtras: true, ...(!CLOUDS.test(host) && { unsignedThinking: true }), ...known };
}

/** The vendor of a row that the registry does not know. It serves `any` model name behind its prefix, unless rows of the file name its models. */
function customVendor(row: VendorSetting, { models, registry }: VendorSources): Vendor {
  const dialect = row.dialect ?? "chat";
  // A row with the image wire of a registry vendor that only draws, and no dialect, is for such a vendor as well.
  const like = row.dialect ? undefined : registry.find(({ id, modality }) => id === row.images?.wire && modality);
  // A model without routes is served by the vendor of its prefix.
  const routed = models.some(({ id, routes }) =>
    routes ? routes.some((route) => route.vendor === row.id) : id.startsWith(`${row.id}/`),
  );
  const headers = DEFAULT_HEADERS[dialect];
  return {
    id: row.id,
    name: row.id,
    dialect,
    baseUrl: row.base_url ?? "",
    auth: row.api_key === undefined ? "none" : (like?.auth ?? DEFAULT_AUTH[dialect]),
    ...(headers && { headers }),
    models: routed ? "catalog" : (like?.models ?? "any"),
    quirks: usualQuirks(dialect, row.base_url ?? ""),
    ...(like?.modality && { modality: like.modality }),
  };
}

/** The vendor of a registry row whose variables are not all set: with its key, if that is set, and without a query that needs a variable. */
function incomplete(known: VendorRow, environment: Environment): Vendor {
  const { query, ...row } = withoutWays(known);
  const apiKey = row.env && environment[row.env]?.trim();
  return { ...row, ...(apiKey && { apiKey }), ...(query && !query.includes("{") && { query }) };
}

/** The vendor that a row of the file changes: the one that the environment, with the file's key, switches on, else the registry's row or a custom one. */
function baseOf(row: VendorSetting, sources: VendorSources): Vendor {
  const known = sources.registry.find((candidate) => candidate.id === row.id);
  if (!known) return customVendor(row, sources);
  const key = known.env && row.api_key ? { [known.env]: row.api_key } : {};
  const switchedOn = sources.fromEnvironment({ ...sources.environment, ...key });
  return switchedOn.find((vendor) => vendor.id === row.id) ?? incomplete(known, sources.environment);
}

const lowerCaseNames = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

/** A row with several keys has its first one as `api_key`, by which it is switched on as a row with a single key is. */
const withFirstKey = (row: VendorSetting): VendorSetting =>
  row.api_key === undefined && row.api_keys?.[0] !== undefined ? { ...row, api_key: row.api_keys[0] } : row;

/** The keys of a row that has more than one, each once, `api_key` first. */
function severalKeys({ api_key: first, api_keys: keys }: VendorSetting): string[] | undefined {
  const all = new Set([...(first === undefined ? [] : [first]), ...(keys ?? [])]);
  return keys && all.size > 1 ? [...all] : undefined;
}

/** A vendor without the name of its key's variable, where its key comes from the file and is not that variable's: messages must not send people there. */
function withoutVariable({ env, ...vendor }: Vendor, row: VendorSetting, environment: Environment): Vendor {
  const isElsewhere = env === undefined || (row.api_key !== undefined && row.api_key !== environment[env]?.trim());
  return isElsewhere ? vendor : { ...vendor, env };
}

/** `base` with the fields that the row gives in place of its own; headers and quirks are added one by one. */
function overlay(base: Vendor, row: VendorSetting): Vendor {
  const keys = severalKeys(row);
  // Every vendor of a dialect gets that dialect's headers, except one that takes its version in the body.
  const ofDialect = row.dialect && !base.quirks.versionInBody ? DEFAULT_HEADERS[row.dialect] : undefined;
  const headers = (ofDialect || row.headers) && { ...ofDialect, ...base.headers, ...lowerCaseNames(row.headers ?? {}) };
  const quirks = Object.entries(row.quirks ?? {}).map(([name, value]) => [toCamelCase(name), value]);
  // A local server needs no key unless it was started with one; vLLM reads it as a bearer token only, even at /v1/messages.
  const isNewlyKeyed = row.api_key !== undefined && base.auth === "none";
  return {
    ...base,
    ...(isNewlyKeyed && { auth: "bearer" as const }),
    ...(row.name !== undefined && { name: row.name }),
    ...(row.dialect !== undefined && { dialect: row.dialect }),
    ...(row.base_url !== undefined && { baseUrl: row.base_url }),
    ...(row.api_key !== undefined && { apiKey: row.api_key }),
    ...(keys && { apiKeys: keys }),
    ...(row.auth !== undefined && { auth: row.auth }),
    ...(headers && { headers }),
    ...(row.query !== undefined && { query: row.query.replace(/^\?/, "") }),
    ...(row.models !== undefined && { models: row.models }),
    quirks: { ...base.quirks, ...Object.fromEntries(quirks) },
    ...(row.images !== undefined && { drawing: readDrawing(row.images) }),
  };
}

function readDrawing({ wire, ratios, takes_source: takesSource, workflow }: NonNullable<VendorSetting["images"]>) {
  const drawing: DrawingSettings = {
    ...(wire !== undefined && { wire }),
    ...(ratios && { ratios }),
    ...(takesSource !== undefined && { takesSource }),
    ...(workflow && { workflow }),
  };
  return drawing;
}

/** Auth forms whose variables hold a machine's identity, which may be set for other programs, and not a key, which is set for its vendor alone. */
const IDENTITIES: ReadonlySet<AuthForm> = new Set(["service-account", "sigv4"]);

/** Why a vendor cannot be called, as a sentence, or undefined when it can. The file's own values were checked before. */
function whatIsMissing(vendor: Vendor, registry: readonly VendorRow[]): string | undefined {
  if (vendor.baseUrl.includes("{"))
    return `Vendor ${vendor.id} stays off: it needs a base_url, or the variables for it.`;
  if (readUrl.from(vendor.baseUrl) === undefined) {
    const row = registry.find(({ id }) => id === vendor.id);
    // A row's variable is the whole address, or a name inside it, such as a region or a project.
    const what = row?.baseUrl.startsWith("{") ? readUrl.what : "letters, digits and dashes alone";
    return `Vendor ${vendor.id} stays off: of ${variablesOf(row).join(" and ")} expected ${what}, found another text.`;
  }
  if (vendor.apiKey && !IDENTITIES.has(vendor.auth) && readKey.from(vendor.apiKey) === undefined) {
    return `Vendor ${vendor.id} stays off: of ${vendor.env} expected ${readKey.what}, found another text.`;
  }
  if (vendor.auth === "none" || vendor.apiKey) return undefined;
  const variable = vendor.env ? ` or the variable ${vendor.env}` : "";
  return `Vendor ${vendor.id} stays off: it needs an api_key${variable} (or auth: none).`;
}

const DOUBLED = "its paths begin with /v1 themselves, so that it will be asked at /v1/v1/messages";

/** Whether a messages vendor's address ends in /v1, as those of other dialects are written: its paths begin with it already (contract 2). */
const isDoubled = ({ dialect, baseUrl, paths }: Vendor) =>
  dialect === "messages" && paths === undefined && /\/v1\/*$/.test(baseUrl);

/** The variables that a vendor's address is made of. */
const variablesOf = (row: VendorRow | undefined) =>
  [...(row?.baseUrl ?? "").matchAll(/\{([A-Z0-9_]+)\}/g)].map(([, name = ""]) => name);

/** A sentence for each vendor whose key is in the environment while a variable of its address is not: else it would seem that the key was not found. */
function halfSet({ registry, environment, rows }: VendorSources): string[] {
  const given = withoutBlanks(environment);
  return registry.flatMap((known) => {
    const { id, env, auth } = known;
    if (!env || !given[env] || IDENTITIES.has(auth) || rows.some((row) => row.id === id)) return [];
    const all = completed(known, given);
    const lacking = variablesOf(known).filter((name) => !all[name]);
    if (lacking.length === 0) return [];
    return [`Vendor ${id} stays off: ${env} is set, but not ${lacking.join(" and ")}.`];
  });
}

/**
 * The vendors that are on: the registry's that have a key in the environment, with the file's rows laid over them, and the file's
 * own (contract 2). Pure. Local servers that the file does not name are not among them: the start of the program looks for these.
 */
export function resolveVendors(sources: VendorSources): Discovery {
  const known = new Map(sources.fromEnvironment(sources.environment).map((vendor) => [vendor.id, vendor]));
  for (const row of sources.rows.map(withFirstKey)) {
    const base = withoutVariable(baseOf(row, sources), row, sources.environment);
    known.set(row.id, overlay(base, row));
  }
  const vendors: Vendor[] = [];
  const warnings = halfSet(sources);
  for (const vendor of known.values()) {
    const missing = whatIsMissing(vendor, sources.registry);
    if (missing === undefined) vendors.push(vendor);
    else warnings.push(missing);
  }
  warnings.push(...vendors.filter(isDoubled).map(({ id }) => `The base_url of vendor ${id} ends in /v1: ${DOUBLED}.`));
  return { vendors, warnings };
}

/** `host:port` with all loopback names as one. */
function endpoint(baseUrl: string): string {
  const url = new URL(baseUrl);
  const host = isLoopback(url.hostname) ? "localhost" : url.hostname;
  return `${host}:${url.port || (url.protocol === "https:" ? 443 : 80)}`;
}

/** A local server's row once for each address where it may be, the newer first. */
const placesOf = ({ newerUrl, ...row }: VendorRow): VendorRow[] =>
  newerUrl === undefined ? [row] : [{ ...row, baseUrl: newerUrl }, row];

/**
 * The registry's local servers to look for: those whose id and address no vendor has already. A server whose newer releases have another address comes
 * twice, the newer one first. Pure.
 */
export function localCandidates(registry: readonly VendorRow[], vendors: readonly Vendor[]): VendorRow[] {
  const ids = new Set(vendors.map((vendor) => vendor.id));
  const taken = new Set(vendors.map((vendor) => endpoint(vendor.baseUrl)));
  return registry
    .filter((row) => row.local && !ids.has(row.id))
    .flatMap(placesOf)
    .filter((row) => !taken.has(endpoint(row.baseUrl)));
}
