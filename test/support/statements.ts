import { Database } from "bun:sqlite";
import { dirname, join, relative } from "node:path";

const ROOT = join(dirname(dirname(import.meta.dir)));
const SELF = import.meta.path;

/** A statement as the product prepared it, and the file that did. */
export type Seen = { sql: string; file: string };

const seen = new Map<string, Seen>();

/** The first file of the project in a stack that is not this one: drizzle and the runtime stand between. */
function callerOf(stack: string): string | undefined {
  for (const [, path] of stack.matchAll(/^\s*at (?:.*\()?(\/.*\.ts):\d+:\d+\)?$/gm)) {
    if (path === undefined || path === SELF || path.includes("/node_modules/")) continue;
    return relative(ROOT, path).replaceAll("\\", "/");
  }
  return undefined;
}

function note(sql: string): void {
  if (seen.has(sql)) return;
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 40;
  const file = callerOf(new Error().stack ?? "");
  Error.stackTraceLimit = limit;
  // What tests ask of the store themselves is no business of the product.
  if (file?.startsWith("src/")) seen.set(sql, { sql, file });
}

type Method = (this: Database, sql: string, ...rest: unknown[]) => unknown;

/** From now on every statement that the product has SQLite prepare is noted. Once is enough for a process. */
export function watchStatements(): void {
  const methods = Database.prototype as unknown as Record<string, Method>;
  for (const name of ["prepare", "query", "run"]) {
    const original = methods[name] as Method;
    methods[name] = function (sql, ...rest) {
      if (typeof sql === "string") note(sql);
      return original.call(this, sql, ...rest);
    };
  }
}

/** The different statements noted so far. */
export const statementsSeen = (): readonly Seen[] => [...seen.values()];
