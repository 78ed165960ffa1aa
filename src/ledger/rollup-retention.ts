import { and, eq, inArray, lt, max, sql } from "drizzle-orm";
import { removeInBatches } from "../db/batches.ts";
import type { Store } from "../db/open.ts";
import { usage } from "../db/schema.ts";
import { usageKept, usageRollup } from "../db/schema-rollup.ts";
import type { Writer } from "../db/writer.ts";
import type { Clock } from "../lib/clock.ts";
import { repeat } from "../lib/repeat.ts";
import { DAY_MS, HOUR_MS, startOf } from "../lib/spans.ts";
import { readKept } from "./usage-report.ts";

/** Sums by hour are kept this long, days; sums by day for good. */
export const HOUR_DAYS = 35;
/** Rows removed in one transaction: it holds up the requests that share it. */
const BATCH = 500;
/** How often what is too old is looked for, ms; and how soon after the start. */
const EVERY_MS = 6 * HOUR_MS;
const FIRST_MS = 60_000;

/**
 * Removes usage rows that are older than `days` days, and sums by hour that are older than {@link HOUR_DAYS}; sums by day stay, so that no report
 * loses anything. Money is not touched: what was charged stays in the ledger. Counted from the newest row, where the clock is ahead of it: a
 * clock that jumps must not empty the books.
 */
export class Retention {
  constructor(
    private readonly store: Store,
    private readonly writer: Writer,
    private readonly clock: Clock,
    private readonly days: number,
    private readonly onFault: (thrown: unknown) => void,
  ) {}

  /** Removes all that is too old, some in each transaction. Resolves with how many rows went; rejects as the writer does. */
  async sweep(): Promise<number> {
    const { rowsFromMs, hoursFromMs } = await this.writer.run(() => this.#moveBounds());
    const rows = await removeInBatches(
      this.writer,
      BATCH,
      () =>
        this.store.query
          .delete(usage)
          .where(
            inArray(
              sql`rowid`,
              this.store.query.select({ at: sql`rowid` }).from(usage).where(lt(usage.atMs, rowsFromMs)).limit(BATCH),
            ),
          )
          .returning({ at: usage.atMs })
          .all().length,
    );
    await removeInBatches(this.writer, BATCH, () => this.#removeHours(hoursFromMs));
    return rows;
  }

  /** From now on nothing before these times is read, so that a report never counts half of what is being removed. They never move back. */
  #moveBounds() {
    const newest =
      this.store.query
        .select({ at: max(usage.atMs) })
        .from(usage)
        .get()?.at ?? 0;
    const now = Math.min(this.clock.now(), newest);
    const before = readKept(this.store);
    const bounds = {
      rowsFromMs: Math.max(before.rowsFromMs, startOf(now - this.days * DAY_MS, DAY_MS)),
      hoursFromMs: Math.max(before.hoursFromMs, startOf(now - HOUR_DAYS * DAY_MS, DAY_MS)),
    };
    this.store.query.update(usageKept).set(bounds).where(eq(usageKept.id, 1)).run();
    return bounds;
  }

  /** Some of the oldest hours' sums: of one hour there are as many as keys and models that were used in it. */
  #removeHours(hoursFromMs: number): number {
    const { startMs, accountId, keyId, model, spanMs } = usageRollup;
    const place = sql`(${spanMs}, ${startMs}, ${accountId}, ${keyId}, ${model})`;
    const oldest = this.store.query
      .select({ spanMs, startMs, accountId, keyId, model })
      .from(usageRollup)
      .where(and(eq(spanMs, HOUR_MS), lt(startMs, hoursFromMs)))
      .limit(BATCH);
    return this.store.query.delete(usageRollup).where(sql`${place} in ${oldest}`).returning({ at: startMs }).all()
      .length;
  }

  /** Sweeps a minute after the start and every six hours. Returns its end. */
  watch(): () => void {
    return repeat(this.clock, { everyMs: EVERY_MS, firstMs: FIRST_MS }, () => this.sweep(), this.onFault);
  }
}
