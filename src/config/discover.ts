import { entryOf } from "../lib/json.ts";
import { isLoopback } from "../lib/loopback.ts";
import { completed, withoutBlanks, withoutWays } from "../vendors/from-environment.ts";
import type { AuthForm, DrawingSettings, Vendor, VendorRow } from "../vendors/vendor.ts";
import { type ModelSetting, toCamelCase, type VendorSetting } from "./schema.ts";
import { readKey, readUrl } from "./values.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** What decides which vendors are on. */
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
  /** Rows of the file and keys of the environment that could not switch their vendor on, and why; addresses that cannot be meant. */
  warnings: string[];
};

const DEFAULT_AUTH: Readonly<Record<Vendor["dialect"], AuthForm>> = {
  chat: "bearer",
  messages: "x-api-key",
  responses: "bearer",
  gemini: "x-goog-api-key",
};

/** Without a version the messages dialect's own vendor refuses a request; only its SDKs send one themselves (dialects.md 2.0). */
const DEFAULT_HEADERS: Readonly<Partial<Record<Vendor["dialect"], Record<string, string>>>> = {
  messages: { "anthropic-version": "2023-06-01" },
};

/** Hosts of the responses dialect's own vendor, and of the cloud that serves its models. */
const OPENAIS = /(?:^|\.)(?:openai\.com|chatgpt\.com|azure\.com|azure\.us)$/;

/** The host of the messages dialect's own vendor. */
const ANTHROPICS = /(?:^|\.)(?:anthropic\.com|claude\.com)$/;
/** Those of the clouds that serve its models: of Amazon's the older one and the one of Mantle (docs.aws.amazon.com, "Inference using Anthropic Messages API"). */
const CLOUDS = /(?:^|\.)(?:amazonaws\.com|api\.aws|googleapis\.com|azure\.com)$/;

/**
 * What hosts want that refuse nothing in words, or in words that do not tell. Some bring a session's requests to where its cache is: Workers AI
 * (developers.cloudflare.com, "Prompt caching"), and OpenCode's, one of which answers "Request is missing x-opencode-session" (opencode.ai, "Where can I use
 * it"). Some pass over one of the two names of the ceiling: Snowflake's writes no more than 4,096 tokens then (langchain-ai/langchain-snowflake #132);
 * Inception's refuses a choice that names its tool besides (pydantic/pydantic-ai #6647).
 */
const HOSTS: Readonly<Record<string, Vendor["quirks"]>> = {
  "api.cloudflare.com": { sessionHeader: "x-session-affinity" },
  "opencode.ai": { sessionHeader: "x-opencode-session", needsSession: true },
  "snowflakecomputing.com": { maxTokensField: "max_completion_tokens" },
  "inceptionlabs.ai": { maxTokensField: "max_tokens", toolChoiceRequired: "unnamed" },
};

/** A host's own entry, or that of the domain in which it is one of many. */
const ofHost = (host: string): Vendor["quirks"] | undefined =>
  entryOf(HOSTS, host) ?? entryOf(HOSTS, host.split(".").slice(-2).join("."));

/**
 * What is known of a server that nobody has described: OpenAI's own know all of the responses dialect, and of others it shows. Anthropic's models alone
 * sign what they think: other servers (llama.cpp, Ollama) take it back as they gave it, without a signature, and a gateway before them refuses it in
 * words that are known. Nobody but Anthropic knows all at once that Claude Code sends; who is strict says what it does not know.
 */
function usualQuirks(dialect: Vendor["dialect"], baseUrl: string): Vendor["quirks"] {
  const host = URL.parse(baseUrl)?.hostname ?? "";
  const known = ofHost(host);
  if (dialect === "responses" && OPENAIS.test(host)) return { customTools: true };
  if (dialect !== "messages" || ANTHROPICS.test(host)) return { ...known };
  return { refusesExtras: true, ...(!CLOUDS.test(host) && { unsignedThinking: true }), ...known };
}

/** A vendor that the registry does not know: `any` name behind its prefix, unless the file itself says which models it has. */
function customVendor(row: VendorSetting, { models, registry }: VendorSources): Vendor {
  const dialect = row.dialect ?? "chat";
  // A server that speaks as one of the registry's that only draw is one too.
  const like = row.dialect ? undefined : registry.find(({ id, modality }) => id === row.images?.wire && modality);
  // A model without routes is had from the vendor of its prefix.
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

/** A registry row that its variables do not make whole: with its key, if that is there, and without what only they could fill. */
function incomplete(known: VendorRow, environment: Environment): Vendor {
  const { query, ...row } = withoutWays(known);
  const apiKey = row.env && environment[row.env]?.trim();
  return { ...row, ...(apiKey && { apiKey }), ...(query && !query.includes("{") && { query }) };
}

/** What a row of the file is laid over: the vendor as its variables make it, with the file's key, else the registry's row. */
function baseOf(row: VendorSetting, sources: VendorSources): Vendor {
  const known = sources.registry.find((candidate) => candidate.id === row.id);
  if (!known) return customVendor(row, sources);
  const key = known.env && row.api_key ? { [known.env]: row.api_key } : {};
  const switchedOn = sources.fromEnvironment({ ...sources.environment, ...key });
  return switchedOn.find((vendor) => vendor.id === row.id) ?? incomplete(known, sources.environment);
}

const lowerCaseNames = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

/** A row of several keys is switched on as one of a single key is, by the first of them. */
const withFirstKey = (row: VendorSetting): VendorSetting =>
  row.api_key === undefined && row.api_keys?.[0] !== undefined ? { ...row, api_key: row.api_keys[0] } : row;

/** The keys of a row that has more than one, each once, `api_key` first. */
function severalKeys({ api_key: first, api_keys: keys }: VendorSetting): string[] | undefined {
  const all = new Set([...(first === undefined ? [] : [first]), ...(keys ?? [])]);
  return keys && all.size > 1 ? [...all] : undefined;
}

/** A vendor whose key stands in the file is not switched on by its variable, and that is not where to look for it; unless it is the variable's own. */
function withoutVariable({ env, ...vendor }: Vendor, row: VendorSetting, environment: Environment): Vendor {
  const isElsewhere = env === undefined || (row.api_key !== undefined && row.api_key !== environment[env]?.trim());
  return isElsewhere ? vendor : { ...vendor, env };
}

/** Only the fields that the row gives change; headers and quirks are added one by one. */
function overlay(base: Vendor, row: VendorSetting): Vendor {
  const keys = severalKeys(row);
  // What every vendor of the dialect is told, but for one that is told its version in the body.
  const ofDialect = row.dialect && !base.quirks.versionInBody ? DEFAULT_HEADERS[row.dialect] : undefined;
  const headers = (ofDialect || row.headers) && { ...ofDialect, ...base.headers, ...lowerCaseNames(row.headers ?? {}) };
  const quirks = Object.entries(row.quirks ?? {}).map(([name, value]) => [toCamelCase(name), value]);
  // A local server wants no key, unless it was started with one; vLLM reads it nowhere else, not even at /v1/messages.
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

/** Forms whose variables hold a machine's identity, which may be there for other programs; and no key, which is there for its vendor alone. */
const IDENTITIES: ReadonlySet<AuthForm> = new Set(["service-account", "sigv4"]);

/** Why a vendor cannot be called, as a sentence, or undefined when it can. The file's own values were checked before. */
function whatIsMissing(vendor: Vendor, registry: readonly VendorRow[]): string | undefined {
  if (vendor.baseUrl.includes("{"))
    return `Vendor ${vendor.id} stays off: it needs a base_url, or the variables for it.`;
  if (readUrl.from(vendor.baseUrl) === undefined) {
    const row = registry.find(({ id }) => id === vendor.id);
    // A variable is the address, or a name inside one: a region, a project.
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

/** The address of a messages vendor as those of other dialects are written (contract 2). */
const isDoubled = ({ dialect, baseUrl, paths }: Vendor) =>
  dialect === "messages" && paths === undefined && /\/v1\/*$/.test(baseUrl);

/** The variables that a vendor's address is made of. */
const variablesOf = (row: VendorRow | undefined) =>
  [...(row?.baseUrl ?? "").matchAll(/\{([A-Z0-9_]+)\}/g)].map(([, name = ""]) => name);

/** Vendors whose key is in the environment, and a variable of their address is not: without a word their key would count as not found. */
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
 * own (contract 2). Pure. Local servers that the file does not name are not among them: they are asked for by the program's start.
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
  if (!URL.canParse(baseUrl)) return baseUrl;
  const url = new URL(baseUrl);
  const host = isLoopback(url.hostname) ? "localhost" : url.hostname;
  return `${host}:${url.port || (url.protocol === "https:" ? 443 : 80)}`;
}

/** A local row at each address where its server may be. */
const placesOf = ({ newerUrl, ...row }: VendorRow): VendorRow[] =>
  newerUrl === undefined ? [row] : [{ ...row, baseUrl: newerUrl }, row];

/**
 * The registry's local servers worth asking for: those that no vendor already stands for, by id or by address. One that newer releases have elsewhere
 * comes twice, the newer first. Pure.
 */
export function localCandidates(registry: readonly VendorRow[], vendors: readonly Vendor[]): VendorRow[] {
  const ids = new Set(vendors.map((vendor) => vendor.id));
  const taken = new Set(vendors.map((vendor) => endpoint(vendor.baseUrl)));
  return registry
    .filter((row) => row.local && !ids.has(row.id))
    .flatMap(placesOf)
    .filter((row) => !taken.has(endpoint(row.baseUrl)));
}
