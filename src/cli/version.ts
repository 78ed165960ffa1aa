import manifest from "../../package.json" with { type: "json" };
import type { JsonOption } from "./options.ts";
import { type Column, formatTable, print, printJson } from "./output.ts";

/** Put in by the build of the executable; a run from source has none. */
declare const SLUICE_COMMIT: string | undefined;

export const VERSION: string = manifest.version;
/** The commit the executable was built from, or null. */
export const COMMIT: string | null = typeof SLUICE_COMMIT === "string" && SLUICE_COMMIT !== "" ? SLUICE_COMMIT : null;

/** `sluice version`: version, commit, Bun and SQLite (contract 1). */
export function showVersion({ json }: JsonOption): number {
  const facts = {
    version: VERSION,
    commit: COMMIT,
    bun: Bun.version,
    sqlite: process.versions["sqlite"] ?? null,
    platform: `${process.platform}-${process.arch}`,
  };
  if (json) printJson(facts);
  else {
    const columns: Column[] = [{ title: "sluice" }, { title: VERSION }];
    const rows = Object.entries(facts).filter(([name]) => name !== "version");
    print(
      ...formatTable(
        columns,
        rows.map(([name, value]) => [name, value ?? "unknown (run from source)"]),
      ),
    );
  }
  return 0;
}
