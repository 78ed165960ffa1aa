import type { TokenCounts } from "../canon/usage.ts";
import type { Store } from "../db/open.ts";
import { usageRollup } from "../db/schema-rollup.ts";
import type { BatchWork } from "../db/writer.ts";
import { DAY_MS, HOUR_MS, startOf } from "../lib/spans.ts";

/** What is summed up of a usage row. */
export type Counted = TokenCounts & {
  atMs: number;
  accountId: string;
  keyId: string;
  model: string;
  estimated: boolean;
  /** Images or web calls; absent: none. */
  units?: number;
  /** Absent or null: no price was known. */
  costNano?: bigint | null | undefined;
  /** Absent: nothing was charged. */
  chargedNano?: bigint;
};

/** What is added up. Money in nano-USD. */
export type Totals = TokenCounts & {
  requests: number;
  /** Requests whose counts are the gateway's own. */
  estimated: number;
  /** Requests of models without a known price: their cost is not in `costNano`. */
  unpriced: number;
  /** Images and web calls. */
  units: number;
  costNano: bigint;
  /** What accounts paid of the cost. */
  chargedNano: bigint;
};

type Sums = { startMs: number; accountId: string; keyId: string; model: string } & Totals;

/** The counts of {@link Totals}. */
export const COUNTS = [
  "requests",
  "estimated",
  "unpriced",
  "input",
  "cacheRead",
  "cacheWrite",
  "output",
  "reasoning",
  "units",
] as const;

/** The totals of nothing, to be added to. */
export function noTotals(): Totals {
  const tokens = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0 };
  return { requests: 0, estimated: 0, unpriced: 0, ...tokens, units: 0, costNano: 0n, chargedNano: 0n };
}

/** The columns of the table in the order of the statement's values. */
const COLUMNS = ["spanMs", "startMs", "accountId", "keyId", "model", ...COUNTS, "costNano", "chargedNano"] as const;
/** Of these, what a row is known by; the rest is added up. */
const KEYS = 5;

/** The upsert as it stands in every batch, run by SQLite itself. */
function prepareUpsert({ database }: Store) {
  const names = COLUMNS.map((column) => usageRollup[column].name);
  const sums = names.slice(KEYS).map((name) => `${name} = usage_rollup.${name} + excluded.${name}`);
  return database.prepare(
    `INSERT INTO usage_rollup (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})
     ON CONFLICT (${names.slice(0, KEYS).join(", ")}) DO UPDATE SET ${sums.join(", ")}`,
  );
}

/**
 * Keeps the sums of usage. `add` gathers in memory what the operations of a batch write; the writer has it written once, in the same
 * transaction: a statement for each distinct account, key and model of the batch, not for each row.
 */
export class Rollup implements BatchWork {
  #gathered = new Map<string, Sums>();
  /** The sums last added to: requests come in runs of one key and model. */
  #last: Sums | undefined;
  readonly #upsert: ReturnType<typeof prepareUpsert>;

  constructor(store: Store) {
    this.#upsert = prepareUpsert(store);
  }

  /** Counts a row that was just written. The last thing an operation of the writer does: nothing takes it back but the batch's end. */
  add(row: Counted): void {
    const sums = this.#sumsOf(row);
    sums.requests++;
    if (row.estimated) sums.estimated++;
    if (row.costNano === undefined || row.costNano === null) sums.unpriced++;
    else sums.costNano += row.costNano;
    sums.input += row.input;
    sums.cacheRead += row.cacheRead;
    sums.cacheWrite += row.cacheWrite;
    sums.output += row.output;
    sums.reasoning += row.reasoning;
    if (row.units !== undefined) sums.units += row.units;
    if (row.chargedNano !== undefined) sums.chargedNano += row.chargedNano;
  }

  #sumsOf({ atMs, accountId, keyId, model }: Counted): Sums {
    const startMs = startOf(atMs, HOUR_MS);
    const last = this.#last;
    if (last?.startMs === startMs && last.keyId === keyId && last.model === model && last.accountId === accountId) {
      return last;
    }
    const name = `${startMs}\n${accountId}\n${keyId}\n${model}`;
    let sums = this.#gathered.get(name);
    if (!sums) {
      sums = { startMs, accountId, keyId, model, ...noTotals() };
      this.#gathered.set(name, sums);
    }
    this.#last = sums;
    return sums;
  }

  write(): void {
    if (this.#gathered.size === 0) return;
    for (const sums of this.#gathered.values()) {
      this.#put(HOUR_MS, sums.startMs, sums);
      this.#put(DAY_MS, startOf(sums.startMs, DAY_MS), sums);
    }
    this.forget();
  }

  forget(): void {
    if (this.#gathered.size > 0) this.#gathered.clear();
    this.#last = undefined;
  }

  #put(spanMs: number, startMs: number, sums: Sums): void {
    const { accountId, keyId, model, requests, estimated, unpriced, input, cacheRead, cacheWrite } = sums;
    const { output, reasoning, units, costNano, chargedNano } = sums;
    this.#upsert.run(
      spanMs,
      startMs,
      accountId,
      keyId,
      model,
      requests,
      estimated,
      unpriced,
      input,
      cacheRead,
      cacheWrite,
      output,
      reasoning,
      units,
      costNano,
      chargedNano,
    );
  }
}
