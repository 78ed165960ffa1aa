import { checkConfigFile } from "./checks.ts";
import type { Place } from "./data-folder.ts";
import { ConfigError, type Fault, faultFinder, formatSteps, MAX_FAULTS } from "./faults.ts";
import { parseConfigFile, secretReader } from "./file.ts";
import { resolveReferences } from "./references.ts";
import { ConfigFile } from "./schema.ts";

/** Ids of the built-in registry's vendors, and of the vendors inside this process. */
export type KnownVendors = { registryIds: readonly string[]; builtinIds: readonly string[] };

/**
 * The checked content of a configuration file, its references filled in; and `raw`, the document as it was written. Throws ConfigError with the faults (at
 * most {@link MAX_FAULTS}, and whether there are more), each with the file, its line where that is known, its place, what was expected and what was found.
 */
export function readConfigFile(path: string, context: Place & KnownVendors): Checked {
  return checkDocument(path, parseConfigFile(path), context);
}

/** The file's plans alone, as {@link readConfigFile} reads them: nothing else in it is filled in or checked. Throws ConfigError. */
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
  if (faults.length === 0) return { file: value as ConfigFile, raw };
  const lines = faults.slice(0, MAX_FAULTS).map(({ steps, problem }) => {
    const line = places.of(steps);
    return `${path}:${line ? `${line}:` : ""} ${formatSteps(steps)}: ${problem}`;
  });
  // How many is not said: the schema's are not all looked for.
  if (faults.length > MAX_FAULTS) lines.push(`${path}: and there are more`);
  throw new ConfigError(lines);
}

const findSchemaFaults = faultFinder(ConfigFile);
