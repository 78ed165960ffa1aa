import type { Environment } from "../lib/environment.ts";
import { registry } from "./registry.ts";
import type { KeyWay, Vendor, VendorRow } from "./vendor.ts";

/** A variable's value without blanks at its ends; undefined when nothing is left. */
const variable = (environment: Environment, name: string): string | undefined => environment[name]?.trim() || undefined;

/**
 * `template` with every `{NAME}` replaced by that variable's value; undefined when a variable is missing. A slash at a value's end is dropped, and so is the
 * rest of the template where the value ends in it already: some write an address together with its path.
 */
function fill(template: string, environment: Environment): string | undefined {
  let missing = false;
  const text = template.replace(/\{([A-Z0-9_]+)\}/g, (whole, name: string, at: number) => {
    const value = variable(environment, name)?.replace(/\/+$/, "");
    missing ||= value === undefined;
    const rest = template.slice(at + whole.length);
    return (rest !== "" && value?.endsWith(rest) ? value.slice(0, -rest.length) : value) ?? "";
  });
  return missing ? undefined : text;
}

/**
 * The registry's vendors that `environment` switches on, each with its key: those whose variable is there and not blank (contract 2).
 * Local servers are not among them. Pure.
 */
export function fromEnvironment(environment: Environment): Vendor[] {
  // Once for all rows: an environment may hold a hundred variables, and a start reads it.
  const given = withoutBlanks(environment);
  return registry.flatMap((row) => switchOn(row, completed(row, given)) ?? []);
}

/** The environment with a value for those of the row's variables that are not there: its stand-in's, else its default. `given` must hold no blank values. */
export function completed({ defaults, standIns }: VendorRow, given: Environment): Environment {
  if (!defaults && !standIns) return given;
  const others = Object.entries(standIns ?? {}).flatMap(([name, other]) =>
    given[other] ? [[name, given[other]]] : [],
  );
  return { ...defaults, ...Object.fromEntries(others), ...given };
}

/** The environment without blank variables: they count as not there, and must not hide a default. */
export const withoutBlanks = (environment: Environment): Environment =>
  Object.fromEntries(Object.entries(environment).filter(([, value]) => value?.trim()));

/** The fields of a row that a vendor has too: without those that only say how the row is switched on. */
export function withoutWays(known: VendorRow) {
  const { local: _local, otherKeys: _keys, defaults: _defaults, standIns: _standIns, ...rest } = known;
  const { baseUrls: _baseUrls, otherQuery: _otherQuery, newerUrl: _newerUrl, ...row } = rest;
  return row;
}

function switchOn(known: VendorRow, environment: Environment): Vendor | undefined {
  const { query, region, ...row } = withoutWays(known);
  const key = findKey(known, environment);
  const baseUrl = fill(baseUrlOf(known, environment), environment);
  const place = region && fill(region, environment);
  if (!key || !baseUrl || (region && !place)) return undefined;
  const filled = query && fill(query, environment);
  return {
    ...row,
    baseUrl,
    ...key,
    ...(place && { region: place }),
    ...(filled && !known.otherQuery?.test(filled) && { query: filled }),
  };
}

function baseUrlOf(row: VendorRow, environment: Environment): string {
  const special = Object.entries(row.baseUrls ?? {}).find(([condition]) => {
    const [name = "", value] = condition.split("=");
    return variable(environment, name) === value;
  });
  return special?.[1] ?? row.baseUrl;
}

type Key = Pick<Vendor, "env" | "auth" | "apiKey" | "credentials">;

/** The first of a row's ways to a key whose variables are all there. */
function findKey(row: VendorRow, environment: Environment): Key | undefined {
  const own: readonly KeyWay[] = row.env ? [{ env: row.env, auth: row.auth }] : [];
  for (const way of [...own, ...(row.otherKeys ?? [])]) {
    const apiKey = variable(environment, way.env);
    const credentials = readCredentials(way, environment);
    if (apiKey && credentials) {
      const more = Object.keys(credentials).length > 0 && { credentials };
      return { env: way.env, auth: way.auth, apiKey, ...more };
    }
  }
  return undefined;
}

/** What belongs to a key; undefined when a variable lacks that must not. */
function readCredentials(way: KeyWay, environment: Environment): Record<string, string> | undefined {
  const credentials: Record<string, string> = {};
  for (const [field, name] of Object.entries(way.credentials ?? {})) {
    const value = variable(environment, name.replace("?", ""));
    if (value) credentials[field] = value;
    else if (!name.endsWith("?")) return undefined;
  }
  return credentials;
}
