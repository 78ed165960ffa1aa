import type { Config } from "../../src/config/load.ts";
import type { ConfigFile, VendorSetting } from "../../src/config/schema.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";

/** The words by which a case is known that an executable cannot be asked for. */
export const INSIDE_ONLY = "seen from inside only";

/** A test wants something that only a gateway in its own process has: a clock turned by hand, a part replaced. Such a case is left out, not failed. */
export class InsideOnly extends Error {
  override readonly name = "InsideOnly";

  constructor(what: string) {
    super(`${INSIDE_ONLY}: ${what}`);
  }
}

/** What most cases that are left out want. */
export const CLOCK_BY_HAND = "a clock that is turned by hand";

/**
 * For a case that a gateway outside cannot be asked for: leaves it out when the suite is held against an executable. To be called before anything is
 * sent where a call would be left behind on its way: it would take the next case's answers.
 */
export function insideOnly(what: string): void {
  if (process.env["SLUICE_EXECUTABLE"]) throw new InsideOnly(what);
}

/** What an executable is started with beside what a test says, such as `--workers 2` (`SLUICE_TEST_FLAGS`): nearly every case holds then as well. */
export const readMoreFlags = (): string[] => (process.env["SLUICE_TEST_FLAGS"] ?? "").split(" ").filter(Boolean);

/** For a case that looks at what each process of a gateway knows by itself: leaves it out when that has workers. */
export function oneProcessOnly(what: string): void {
  if (readMoreFlags().includes("--workers")) throw new InsideOnly(`one process, for ${what}`);
}

/** Asked of every object by the machinery of tests and promises. */
const ASKED_OF_ALL = new Set(["then", "toJSON", "asymmetricMatch", "nodeType", "constructor"]);

/** `parts`, and {@link InsideOnly} for everything else; `ignored` may be set without effect. */
export function sealed<T extends object>(name: string, parts: T, ignored: readonly string[] = []): T {
  const nameOf = (property: string) => (name === "" ? property : `${name}.${property}`);
  return new Proxy(parts, {
    get(target, property) {
      if (typeof property === "symbol" || property in target) return Reflect.get(target, property);
      if (ASKED_OF_ALL.has(property)) return undefined;
      throw new InsideOnly(nameOf(property));
    },
    set(_target, property) {
      if (typeof property === "string" && ignored.includes(property)) return true;
      throw new InsideOnly(nameOf(String(property)));
    },
  });
}

const toSnakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** What a file can say of a vendor. */
function writeVendor(vendor: Vendor): VendorSetting {
  const {
    id,
    name,
    dialect,
    baseUrl,
    auth,
    apiKey,
    apiKeys,
    headers,
    query,
    models,
    quirks,
    env: _env,
    ...rest
  } = vendor;
  if (auth === "service-account" || auth === "sigv4") throw new InsideOnly(`a vendor with ${auth}`);
  const [strange] = Object.entries(rest).filter(([, value]) => value !== undefined);
  if (strange) throw new InsideOnly(`a vendor's ${strange[0]}`);
  return {
    ...{ id, name, dialect, base_url: baseUrl, auth: apiKey === "" ? "none" : auth },
    ...(apiKeys ? { api_keys: [...apiKeys] } : apiKey && { api_key: apiKey }),
    ...(headers && { headers: { ...headers } }),
    ...(query !== undefined && { query }),
    models: typeof models === "string" ? models : [...models],
    quirks: Object.fromEntries(Object.entries(quirks).map(([quirk, value]) => [toSnakeCase(quirk), value])),
  };
}

function writeSearch({ search, web }: Config): ConfigFile["web"] {
  const engines = search.map(({ engine }) => engine);
  const places = search.filter(({ engine }) => engine !== "fixture");
  const entries = places.map(({ engine, apiKey, baseUrl }) => [
    engine,
    { ...(apiKey && { api_key: apiKey }), ...(baseUrl && { base_url: baseUrl }) },
  ]);
  const named = { engine: engines.length > 0 ? engines : ("none" as const), engines: Object.fromEntries(entries) };
  return { ...web, search: named };
}

function writeTelemetry({ traces }: Config): ConfigFile["telemetry"] {
  if (!traces) return undefined;
  return { otlp_endpoint: traces.url, headers: { ...traces.headers }, service_name: traces.serviceName };
}

const withoutNothing = <T extends object>(value: T): T =>
  Object.fromEntries(Object.entries(value).filter(([, part]) => part !== undefined)) as T;

/** A configuration as the file that says it. Throws {@link InsideOnly} for what no file can say. */
export function writeConfigFile(config: Config, vendors: readonly Vendor[]): ConfigFile {
  const { server, models, plans, limits, records, images } = config;
  const { cdnUrl, corsOrigins, trustedProxies, allowedHosts } = server;
  // A further host name is one that clients are told.
  const [host, ...more] = allowedHosts;
  if (more.length > 0) throw new InsideOnly("several host names");
  const publicUrl = server.publicUrl ?? (host && `https://${host}`);
  if (images.bucket) throw new InsideOnly("a bucket");
  if (!Number.isInteger(limits.blockingSeconds)) throw new InsideOnly("parts of a second");
  const { requestLog: log, usageDays } = records;
  const megabytes = Math.max(1, Math.round((log?.maxBytes ?? 0) / 1024 / 1024));
  return withoutNothing({
    server: withoutNothing({
      ...{ public_url: publicUrl, cdn_url: cdnUrl },
      ...{ cors_origins: [...corsOrigins], trusted_proxies: [...trustedProxies] },
    }) as NonNullable<ConfigFile["server"]>,
    vendors: vendors.map(writeVendor),
    models: [...models],
    plans: { ...plans },
    web: writeSearch(config),
    limits: { blocking_seconds: limits.blockingSeconds },
    retention: { usage_days: usageDays },
    request_log: log ? { days: log.days, megabytes, bodies: log.bodies } : { enabled: false },
    images: { keep_days: images.keepDays },
    telemetry: writeTelemetry(config),
    local_discovery: false,
  }) as ConfigFile;
}
