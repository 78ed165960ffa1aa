import manifest from "../../package.json" with { type: "json" };
import type { JsonOption } from "./options.ts";
import { print, printJson } from "./output.ts";
import { type Column, formatTable } from "./table.ts";

/** Set by the build of the executable; absent in a run from source. */
declare const SLUICE_BUILD:
  | { commit: string; madeAt: number; modified: boolean | null; lockfile: string; target: string | null }
  | undefined;

const BUILD = typeof SLUICE_BUILD === "undefined" ? undefined : SLUICE_BUILD;

export const VERSION: string = manifest.version;

/**
 * `sluice version`: version, commit, Bun and SQLite (contract 1). `modified`: the tree differed from the commit; null where that is not known.
 * `committed_at` stands in place of the time of the build, which would make every build differ. `lockfile`: the SHA-256 of bun.lock (reliability 7.6).
 */
export function showVersion({ json }: JsonOption): number {
  const facts = {
    version: VERSION,
    commit: BUILD?.commit || null,
    committed_at: BUILD?.madeAt ? new Date(BUILD.madeAt * 1000).toISOString() : null,
    modified: BUILD?.commit ? BUILD.modified : null,
    lockfile: BUILD?.lockfile ?? null,
    target: BUILD?.target ?? null,
    platform: `${process.platform}-${process.arch}`,
    bun: Bun.version,
    sqlite: process.versions["sqlite"] ?? null,
  };
  if (json) printJson(facts);
  else {
    const unknown = BUILD ? "unknown" : "unknown (run from source)";
    const columns: Column[] = [{ title: "sluice" }, { title: VERSION }];
    const rows = Object.entries(facts).filter(
      ([name, value]) => name === "commit" || (name !== "version" && value !== null),
    );
    print(
      ...formatTable(
        columns,
        rows.map(([name, value]) => [name.replace("_", " "), String(value ?? unknown)]),
      ),
    );
  }
  return 0;
}
