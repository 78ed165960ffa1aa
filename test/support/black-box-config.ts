import type { Config } from "../../src/config/load.ts";
import type { ConfigFile, VendorSetting } from "../../src/config/schema.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";

/** Words in the message of {@link InsideOnly}, by which a report tells such cases from failures. */
export const INSIDE_ONLY = "seen from inside only";

/** A test wants something that only a gateway in its own process has: a clock turned by hand, a part replaced. Such a case is left out, not failed. */
export class InsideOnly extends Error {
  override readonly name = "InsideOnly";

  constructor(what: string) {
    super(`${INSIDE_ONLY}: ${what}`);
  }
}

/** The reason why most cases are left out. */
export const CLOCK_BY_HAND = "a clock that is turned by hand";

/**
 * Leaves a case out, by throwing {@link InsideOnly}, when the tests run against an executable. To be called before the case sends anything: a call that is
 * left under way would take the scripted answers of the next case.
 */
export function insideOnly(what: string): void {
  if (process.env["SLUICE_EXECUTABLE"]) throw new InsideOnly(what);
}

/** Further flags with which an executable is started (`SLUICE_TEST_FLAGS`), such as `--workers 2`, under which nearly every case must hold as well. */
export const readMoreFlags = (): string[] => (process.env["SLUICE_TEST_FLAGS"] ?? "").split(" ").filter(Boolean);

/** Leaves a case out when the gateway has workers: for cases that look at what each process knows for itself. */
export function oneProcessOnly(what: string): void {
  if (readMoreFlags().includes("--workers")) throw new InsideOnly(`one process, for ${what}`);
}

/** Properties that tests and promises read from every object. */
const ASKED_OF_ALL = new Set(["then", "toJSON", "asymmetricMatch", "nodeType", "constructor"]);

/** An object with `parts` that throws {@link InsideOnly} for every other property. Those in `ignored` may be set, without effect. */
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

/** A vendor as a configuration file has it. Throws {@link InsideOnly} for what no file can say. */
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
