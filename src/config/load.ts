import type { BucketSettings } from "../jobs/files-s3.ts";
import type { LogLevel } from "../observe/log.ts";
import type { TraceSettings } from "../observe/traces.ts";
import type { SearchSource } from "../web/search/search.ts";
import { vendorIdsOf } from "./checks.ts";
import { Chooser, type Flags } from "./chooser.ts";
import { findDataFolder, type Place } from "./data-folder.ts";
import { ConfigError } from "./faults.ts";
import { configPlaces, findConfigFile } from "./file.ts";
import { modelWarnings } from "./model-warnings.ts";
import { type KnownVendors, readConfigFile, readPlans } from "./read-file.ts";
import type { ConfigFile, ModelSetting, PlanSetting, VendorSetting, WebSetting } from "./schema.ts";
import { chooseSearch } from "./search.ts";
import { chooseServer, type ServerSettings } from "./server.ts";
import { chooseTelemetry } from "./telemetry.ts";
import { fileUrl, readFlag, readLogLevel, readSeconds, readWord } from "./values.ts";
import { ownVariables } from "./variables.ts";
import { authorityWarnings, exposureWarnings, listeningWarnings } from "./warnings.ts";

/** Everything that the configuration depends on, passed in so that it can be tested. */
export type LoadContext = Place & KnownVendors & { flags: Flags };

/** The gateway's configuration, complete and checked. Rows of vendors and models keep the file's own field names. */
export type Config = {
  /** Absolute path. It may not exist yet. */
  dataFolder: string;
  /** Absolute path of the file that was read, if there was one. */
  file: string | undefined;
  /** The paths where a configuration file is looked for, to be watched for changes. */
  places: readonly string[];
  server: ServerSettings;
  vendors: readonly VendorSetting[];
  models: readonly ModelSetting[];
  plans: Readonly<Record<string, PlanSetting>>;
  web: WebSetting;
  /** Search engines that are on, in the order in which they are tried. */
  search: readonly SearchSource[];
  limits: { blockingSeconds: number };
  records: {
    /** Usage rows are kept this long; their sums by day for good. */
    usageDays: number;
    /** Undefined: requests are not logged to files. */
    requestLog: { days: number; maxBytes: number; bodies: boolean } | undefined;
  };
  images: {
    /** Image jobs and their files are kept this long after their end. */
    keepDays: number;
    /** Where images are kept; undefined: in the data folder. */
    bucket: BucketSettings | undefined;
  };
  localDiscovery: boolean;
  /** Where traces go; undefined: there are none. */
  traces: TraceSettings | undefined;
  /** The least level that is logged to standard error. */
  logLevel: LogLevel;
  /** Sentences for the operator: nothing is wrong, but something may not be as meant. */
  warnings: readonly string[];
};

/** The cut-off of a blocking request (interface 8). */
export const DEFAULT_BLOCKING_SECONDS = 95;
/** Days: a year, and the month that is being closed. */
const DEFAULT_USAGE_DAYS = 400;
/** Days: long enough to come back for a picture, and short enough that pictures do not fill a disk unseen. */
const DEFAULT_IMAGE_DAYS = 90;
const DEFAULT_LOG_DAYS = 14;
const DEFAULT_LOG_MEGABYTES = 64;
/** Requests as they come are logged only when asked for: on a terminal they would bury what matters. */
const DEFAULT_LOG_LEVEL: LogLevel = "warn";

/** Variables of the parts below, with the words that these know. */
const SWITCHES = [
  ["SLUICE_USE_ENV_PROXY", readWord("0", "1")],
  ["SLUICE_HTTP_CLIENT", readWord("fetch")],
  ["SLUICE_HTTP_SERVER", readWord("bun")],
] as const;

/**
 * The configuration: flags, then `SLUICE_*` variables, then the file, then defaults (contract 2). Reads files, writes none.
 * Throws ConfigError with every fault found, each with its place, what was expected and what was found.
 */
export function loadConfig(context: LoadContext): Config {
  const { flags } = context;
  const { own, warnings } = ownVariables(context.environment);
  const { dataFolder, given, path } = findFile(context, own);
  const { file, raw } = path === undefined ? { file: {}, raw: {} } : readConfigFile(path, context);
  const chooser = new Chooser(flags, own);
  const server = chooseServer(chooser, file.server ?? {});
  const blockingSeconds = chooser.take("SLUICE_BLOCKING_SECONDS", readSeconds) ?? file.limits?.blocking_seconds;
  const localDiscovery = chooser.take("SLUICE_LOCAL_DISCOVERY", readFlag) ?? file.local_discovery ?? true;
  const logLevel = chooser.take("SLUICE_LOG_LEVEL", readLogLevel) ?? DEFAULT_LOG_LEVEL;
  // These are read where they are used, in lower layers, which would ignore any other value: here it becomes a fault.
  for (const [name, reader] of SWITCHES) chooser.take(name, reader);
  if (chooser.faults.length > 0) throw new ConfigError(chooser.faults, chooser.fromFlags);
  const search = chooseSearch(file.web ?? {}, context.environment);
  const { vendors = [], models = [] } = file;
  warnings.push(...listeningWarnings(server), ...search.warnings);
  warnings.push(...authorityWarnings(context.environment["NODE_EXTRA_CA_CERTS"]));
  if (path !== undefined) warnings.push(...exposureWarnings(path, raw, context.platform));
  warnings.push(...modelWarnings(models, vendors, vendorIdsOf(vendors, context)));
  return {
    dataFolder,
    file: path,
    places: configPlaces(given, dataFolder, context.workingFolder),
    server,
    vendors: vendors.map(trimBaseUrl),
    models,
    plans: file.plans ?? {},
    web: file.web ?? {},
    search: search.sources,
    limits: { blockingSeconds: blockingSeconds ?? DEFAULT_BLOCKING_SECONDS },
    records: readRecords(file),
    images: readImages(file),
    localDiscovery,
    traces: chooseTelemetry(file.telemetry, context.environment, warnings),
    logLevel,
    warnings,
  };
}

/**
 * The plans of the file that {@link loadConfig} would read. Nothing else is needed for them: variables with vendors' keys may be set for a service alone,
 * as by systemd, and not for a person at a terminal. Throws ConfigError.
 */
export function loadPlans(context: LoadContext): Config["plans"] {
  const { path } = findFile(context, ownVariables(context.environment).own);
  return (path === undefined ? undefined : readPlans(path, context)) ?? {};
}

function findFile(context: LoadContext, own: Readonly<Record<string, string>>) {
  const { flags, workingFolder } = context;
  const dataFolder = findDataFolder(flags.data || own["SLUICE_DATA"], context);
  const given = flags.config || own["SLUICE_CONFIG"];
  return { dataFolder, given, path: findConfigFile(given, dataFolder, workingFolder) };
}

function readRecords({ retention, request_log: log = {} }: ConfigFile): Config["records"] {
  const { enabled = true, days = DEFAULT_LOG_DAYS, megabytes = DEFAULT_LOG_MEGABYTES, bodies = false } = log;
  return {
    usageDays: retention?.usage_days ?? DEFAULT_USAGE_DAYS,
    requestLog: enabled ? { days, maxBytes: megabytes * 1024 * 1024, bodies } : undefined,
  };
}

function readImages({ images: { keep_days: keepDays = DEFAULT_IMAGE_DAYS, storage } = {} }: ConfigFile) {
  if (!storage) return { keepDays, bucket: undefined };
  const { bucket, endpoint, region, prefix, public_url: publicUrl } = storage;
  const keys = { accessKeyId: storage.access_key_id, secretAccessKey: storage.secret_access_key };
  const place = { ...(endpoint && { endpoint }), ...(region && { region }), ...(prefix && { prefix }) };
  const settings: BucketSettings = { bucket, ...keys, ...place };
  return { keepDays, bucket: publicUrl ? { ...settings, publicUrl: fileUrl(publicUrl) } : settings };
}

const trimBaseUrl = (row: VendorSetting): VendorSetting =>
  row.base_url === undefined ? row : { ...row, base_url: fileUrl(row.base_url) };
