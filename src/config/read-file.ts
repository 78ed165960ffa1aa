import { checkConfigFile, checkHeaders } from "./checks.ts";
import type { Place } from "./data-folder.ts";
import { ConfigError, expected, type Fault, faultFinder, formatSteps, MAX_FAULTS } from "./faults.ts";
import { parseConfigFile, secretReader } from "./file.ts";
import { resolveReferences } from "./references.ts";
import { ConfigFile } from "./schema.ts";
import { readHost, readHostRule, readOrigin, readProxy, readUrl } from "./values.ts";

/** Ids of the built-in registry's vendors, and of the vendors inside this process. */
export type KnownVendors = { registryIds: readonly string[]; builtinIds: readonly string[] };

/**
 * The file's content, references filled in, checked; and the document as it was written. Throws ConfigError with every fault, each
 * with the file, its line where that is known, its place, what was expected and what was found.
 */
export function readConfigFile(path: string, context: Place & KnownVendors): Checked {
  return checkDocument(path, parseConfigFile(path), context);
}

/** The file's plans alone, as {@link readConfigFile} reads them: whatever else is in it is neither asked for nor checked. */
export function readPlans(path: string, context: Place & KnownVendors): ConfigFile["plans"] {
  const { document, lines } = parseConfigFile(path);
  const plans = Object.hasOwn(document, "plans") ? { plans: document["plans"] } : {};
  return checkDocument(path, { document: plans, lines }, context).file.plans;
}

type Checked = { file: ConfigFile; raw: Record<string, unknown> };

function checkDocument(
  path: string,
  { document: raw, lines: places }: ReturnType<typeof parseConfigFile>,
  context: Place & KnownVendors,
): Checked {
  const faults: Fault[] = [];
  const readSecret = secretReader(path, context.home, context.platform);
  const value = resolveReferences(raw, { environment: context.environment, readSecret }, faults);
  const told = new Set(faults.map((fault) => formatSteps(fault.steps)));
  faults.push(...findSchemaFaults(value, raw).filter((fault) => !told.has(formatSteps(fault.steps))));
  if (faults.length === 0) faults.push(...checkConfigFile(value as ConfigFile, { ...context, raw }));
  if (faults.length === 0) faults.push(...checkServer(value as ConfigFile, raw));
  if (faults.length === 0) faults.push(...checkStorage(value as ConfigFile, raw));
  if (faults.length === 0)
    faults.push(...checkTelemetry(value as ConfigFile, raw), ...checkFetch(value as ConfigFile, raw));
  if (faults.length === 0) return { file: value as ConfigFile, raw };
  const lines = faults.slice(0, MAX_FAULTS).map(({ steps, problem }) => {
    const line = places.of(steps);
    return `${path}:${line ? `${line}:` : ""} ${formatSteps(steps)}: ${problem}`;
  });
  if (faults.length > MAX_FAULTS) lines.push(`${path}: and ${faults.length - MAX_FAULTS} more`);
  throw new ConfigError(lines);
}

const findSchemaFaults = faultFinder(ConfigFile);

function checkStorage({ images }: ConfigFile, raw: unknown): Fault[] {
  return (["endpoint", "public_url"] as const).flatMap((name) => {
    const written = images?.storage?.[name];
    const steps = ["images", "storage", name];
    if (written === undefined || readUrl.from(written) !== undefined) return [];
    return [expected(readUrl.what, raw, steps)];
  });
}

function checkTelemetry({ telemetry }: ConfigFile, raw: unknown): Fault[] {
  const faults = checkHeaders(telemetry?.headers ?? {}, ["telemetry", "headers"]);
  const steps = ["telemetry", "otlp_endpoint"];
  const address = telemetry?.otlp_endpoint;
  if (address === undefined || readUrl.from(address) !== undefined) return faults;
  return [expected(readUrl.what, raw, steps), ...faults];
}

function checkFetch({ web }: ConfigFile, raw: unknown): Fault[] {
  return (web?.fetch?.allow_hosts ?? []).flatMap((host, index) => {
    const steps = ["web", "fetch", "allow_hosts", index];
    return readHostRule.from(host) === undefined ? [expected(readHostRule.what, raw, steps)] : [];
  });
}

function checkServer(file: ConfigFile, raw: unknown): Fault[] {
  const faults: Fault[] = [];
  const { host, public_url, cdn_url, cors_origins, trusted_proxies } = file.server ?? {};
  const check = (name: string, value: string | undefined, read: (text: string) => unknown, what: string) => {
    const steps = ["server", name];
    if (value !== undefined && read(value) === undefined) faults.push(expected(what, raw, steps));
  };
  check("host", host, readHost.from, readHost.what);
  check("public_url", public_url, readUrl.from, readUrl.what);
  check("cdn_url", cdn_url, readUrl.from, readUrl.what);
  cors_origins?.forEach((origin, index) => {
    if (readOrigin.from(origin) === undefined) {
      faults.push(expected(readOrigin.what, raw, ["server", "cors_origins", index]));
    }
  });
  trusted_proxies?.forEach((proxy, index) => {
    if (readProxy.from(proxy) === undefined) {
      faults.push(expected(readProxy.what, raw, ["server", "trusted_proxies", index]));
    }
  });
  return faults;
}
