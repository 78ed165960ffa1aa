import type { Database } from "bun:sqlite";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isObject } from "../lib/json.ts";
import { StoreError } from "./store-error.ts";

/** One step of the store's history, as drizzle-kit's journal lists it. `when` orders the steps, Unix ms. */
type Step = { tag: string; when: number };

/** Where the steps are: beside the program's code, or embedded in the executable (runtime.md 1). */
export function migrationsFolder(): string {
  return Bun.isStandaloneExecutable ? join(import.meta.dir, "drizzle") : join(import.meta.dir, "../../drizzle");
}

function readSteps(folder: string): Step[] {
  const journal: unknown = JSON.parse(readFileSync(join(folder, "meta/_journal.json"), "utf8"));
  const entries = isObject(journal) && Array.isArray(journal["entries"]) ? journal["entries"] : [];
  return entries.map((entry: Step) => ({ tag: entry.tag, when: entry.when }));
}

/** When the applied steps were made, Unix ms; none for an empty store. */
function appliedSteps(database: Database): number[] {
  const known = database.query("SELECT 1 FROM sqlite_schema WHERE name = '__drizzle_migrations'").get();
  if (known === null) return [];
  return database.query("SELECT created_at FROM __drizzle_migrations").values().flat().map(Number);
}

/** Whether a store began with this program's first step: another program's file has other tables, or another history. */
export function isOwnStore(database: Database): boolean {
  return Math.min(...appliedSteps(database)) === readSteps(migrationsFolder())[0]?.when;
}

function applyStep(database: Database, folder: string, step: Step): void {
  const text = readFileSync(join(folder, `${step.tag}.sql`), "utf8");
  for (const statement of text.split("--> statement-breakpoint")) {
    if (statement.trim() !== "") database.run(statement);
  }
  const hash = new Bun.CryptoHasher("sha256").update(text).digest("hex");
  database.run("INSERT INTO __drizzle_migrations (hash, created_at) VALUES (?, ?)", [hash, step.when]);
}

/**
 * Brings a store up to this program's schema and returns the names of the steps it took: all of them, or none when one fails.
 * Two processes may do this at once: the second waits and finds nothing left to do. The table is the one drizzle's own migrator
 * uses. Throws StoreError (newer) when the store has seen a step this program does not know. `mayChange` is asked before a store that
 * another version has made is changed, and throws where it may not be.
 */
export function migrate(
  database: Database,
  folder: string = migrationsFolder(),
  mayChange: () => void = () => {},
): string[] {
  const steps = readSteps(folder);
  const newest = Math.max(0, ...steps.map((step) => step.when));
  const refuseNewer = (applied: readonly number[]) => {
    if (applied.every((when) => when <= newest)) return;
    throw new StoreError(
      "newer",
      "The store was written by a newer version of Sluice; update this program to open it.",
    );
  };
  // Most starts find nothing to do, and then take no lock beside a running server.
  const before = appliedSteps(database);
  refuseNewer(before);
  if (before.length === steps.length) return [];
  const taken: string[] = [];
  const run = database.transaction(() => {
    database.run(
      "CREATE TABLE IF NOT EXISTS __drizzle_migrations (id INTEGER PRIMARY KEY, hash TEXT NOT NULL, created_at NUMERIC)",
    );
    const applied = appliedSteps(database);
    refuseNewer(applied);
    if (applied.length > 0 && applied.length < steps.length) mayChange();
    for (const step of steps) {
      // Each is looked up by itself: some stores took a step before others that the journal lists ahead of it were written.
      if (applied.includes(step.when)) continue;
      applyStep(database, folder, step);
      taken.push(step.tag);
    }
  });
  run.immediate();
  return taken;
}
