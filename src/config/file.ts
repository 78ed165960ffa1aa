import { lstatSync, readFileSync, statSync } from "node:fs";
import { dirname, extname, isAbsolute, join, resolve } from "node:path";
import { errorCode } from "../lib/error-code.ts";
import { isObject } from "../lib/json.ts";
import { messageOf } from "../lib/message-of.ts";
import { toShellWord } from "../lib/shell-word.ts";
import { ConfigError, formatSteps } from "./faults.ts";
import { type Lines, linesOf } from "./lines.ts";
import { readPipe } from "./pipe.ts";
import { findRepeated } from "./repeated.ts";

/** A configuration file or a secret's file larger than these is refused unread. */
const MAX_FILE_BYTES = 1024 * 1024;
const MAX_SECRET_BYTES = 64 * 1024;

const NAMES = ["sluice.yaml", "sluice.yml", "sluice.toml", "sluice.json"] as const;

const PARSERS: Readonly<Record<string, (text: string) => unknown>> = {
  ".yaml": (text) => Bun.YAML.parse(text),
  ".yml": (text) => Bun.YAML.parse(text),
  ".toml": (text) => Bun.TOML.parse(text),
  ".json": (text) => JSON.parse(text),
};

/** The paths where a configuration file may be: the given one, else one for each name in the data folder. Relative ones start from `workingFolder`. */
export function configPlaces(given: string | undefined, dataFolder: string, workingFolder: string): string[] {
  return given ? [resolve(workingFolder, given)] : NAMES.map((name) => join(dataFolder, name));
}

/**
 * Whether something has this name. A link counts though its target is missing: a running server that took it for no file would drop all its
 * configuration. Throws ConfigError where the system does not say, for want of permission: that is not a missing file either.
 */
function isThere(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch (error) {
    const code = causeOf(error);
    if (code === "ENOTDIR") return false;
    throw new ConfigError([`${path}: cannot be looked at (${code}); check the owner and permissions of its folder`]);
  }
}

/**
 * The configuration file: the one that was named, which must exist, else the one in the data folder, if any (contract 2).
 * Throws ConfigError when the named one is missing, when the folder has two, or when it may not be looked into.
 */
export function findConfigFile(
  given: string | undefined,
  dataFolder: string,
  workingFolder: string,
): string | undefined {
  const places = configPlaces(given, dataFolder, workingFolder);
  if (given) {
    const path = places[0]!;
    if (!isThere(path)) throw new ConfigError([`${path}: expected a configuration file, found nothing`]);
    return path;
  }
  const found = places.filter(isThere);
  if (found.length > 1) {
    throw new ConfigError([
      `${dataFolder}: expected one configuration file, found ${found.length}: ${found.join(", ")}`,
    ]);
  }
  return found[0];
}

const isPipe = (path: string) => statSync(path, { throwIfNoEntry: false })?.isFIFO() ?? false;

function readBytes(path: string): Buffer {
  const facts = statSync(path);
  if (facts.isFIFO()) return readPipe(path, MAX_FILE_BYTES);
  if (!facts.isFile()) throw new Error(`expected a file, found ${facts.isDirectory() ? "a folder" : "something else"}`);
  if (facts.size > MAX_FILE_BYTES) {
    throw new Error(`expected a file of at most ${MAX_FILE_BYTES} bytes, found ${facts.size}`);
  }
  return readFileSync(path);
}

function readText(path: string): string {
  let bytes: Buffer;
  try {
    bytes = readBytes(path);
  } catch (error) {
    const told = error instanceof Error && !("code" in error);
    throw new ConfigError([`${path}: ${told ? error.message : `cannot be read (${causeOf(error)})`}`]);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new ConfigError([`${path}: expected text in UTF-8, found other bytes`]);
  }
}

const causeOf = (error: unknown) => errorCode(error) || String(error);

/**
 * The file's content as an object, `{}` for an empty file; and the lines in which its places are. Throws ConfigError with the file and
 * what is wrong: it cannot be read or parsed, is no mapping, or has a key twice.
 */
export function parseConfigFile(path: string): { document: Record<string, unknown>; lines: Lines } {
  // A shell gives a pipe a name without an extension (`/dev/fd/63`): it is read as YAML, which JSON is too.
  const extension = extname(path).toLowerCase() || (isPipe(path) ? ".yaml" : "");
  const parse = PARSERS[extension];
  if (!parse) throw new ConfigError([`${path}: expected a name ending in .yaml, .yml, .toml or .json`]);
  const text = readText(path);
  const lines = linesOf(text, parse);
  let document: unknown;
  try {
    document = parse(text) ?? {};
  } catch (error) {
    const reason = messageOf(error);
    const yaml = extension === ".yaml" || extension === ".yml";
    const hint = yaml && /[{,]\s*[\w-]+:\s*\$\{/.test(text) ? `; between { and } write "\${NAME}" in quotes` : "";
    const line = lines.ofSyntax();
    throw new ConfigError([`${path}: ${reason}${line ? `, in line ${line} or below` : ""}${hint}`]);
  }
  if (!isObject(document)) {
    throw new ConfigError([
      `${path}: expected a mapping, found ${Array.isArray(document) ? "a list" : typeof document}`,
    ]);
  }
  const repeated = findRepeated(text, parse);
  if (repeated) {
    throw new ConfigError([`${path}:${repeated.line}: ${formatSteps(repeated.steps)}: expected once, found twice`]);
  }
  return { document, lines };
}

/**
 * A reader for `file:PATH` values of a configuration file; relative paths are of that file's folder, `~/` is the user's home.
 * The file must be the user's own and closed to everybody else (contract 2, reliability 7.4). The reader throws Errors that name
 * the file and what to do, never its content.
 */
export function secretReader(configFile: string, home: string, platform: NodeJS.Platform): (path: string) => string {
  return (written) => {
    const named = written.startsWith("~/") ? join(home, written.slice(2)) : written;
    const path = isAbsolute(named) ? named : resolve(dirname(configFile), named);
    let facts: ReturnType<typeof statSync>;
    try {
      facts = statSync(path);
    } catch (error) {
      throw new Error(`expected a file at ${path}, found none that can be read (${causeOf(error)})`);
    }
    if (!facts?.isFile()) throw new Error(`expected a file at ${path}, found something else`);
    if (facts.size > MAX_SECRET_BYTES) throw new Error(`expected ${path} to hold a key, found ${facts.size} bytes`);
    if (platform !== "win32") checkOwner(path, facts.mode, facts.uid);
    const secret = readText(path).trim();
    if (secret === "") throw new Error(`expected ${path} to hold a key, found it empty`);
    if (/[\r\n]/.test(secret)) throw new Error(`expected ${path} to hold one line, found more`);
    return secret;
  };
}

function checkOwner(path: string, mode: number, owner: number): void {
  if ((mode & 0o077) !== 0) {
    const found = (mode & 0o777).toString(8).padStart(4, "0");
    throw new Error(`expected ${path} to have mode 0600, found ${found} (chmod 600 ${toShellWord(path)})`);
  }
  const user = process.geteuid?.();
  if (user !== undefined && owner !== user) {
    throw new Error(`expected ${path} to belong to user ${user}, found user ${owner}`);
  }
}
