import type { Store } from "../db/open.ts";
import { OwedWrites } from "../db/owed-writes.ts";
import type { Writer } from "../db/writer.ts";
import type { Clock } from "../lib/clock.ts";
import { HOUR_MS } from "../lib/spans.ts";
import type { HoldRequest, Reading } from "./ledger.ts";

/**
 * How long a paid request runs before it is written down, ms. The money is safe without: what is set aside lives and dies with the process
 * (funds.ts). The row is for what a crash leaves behind: to settle what was delivered, and to show what was lost (reliability 3.7).
 */
const WRITE_AFTER_MS = 50;
/** Holds written in one operation. */
const BATCH = 256;
/** A hold older than this was forgotten, ms: no request runs so long (reliability 3.3, I7). */
const DEADLINE_MS = 6 * HOUR_MS;

/** What the journal keeps of an open hold. */
export type Journaled = {
  readonly request: HoldRequest;
  readonly createdAt: number;
  readonly priceId: number;
  readonly estimatedInput: number;
  readonly windowId: string | undefined;
  readonly windowNano: bigint;
  readonly walletNano: bigint;
  readonly reading: Reading;
  /** Its settle or release has been asked for: it is not written any more. */
  readonly closing: boolean;
  /** It has a row, or is about to have one. */
  written: boolean;
};

/** Writes down the paid requests that are under way, some milliseconds after they began and again as they grow, without anyone waiting. */
export class HoldJournal {
  /** In the order in which they came. */
  #waiting = new Set<Journaled>();
  #cancel: (() => void) | undefined;
  /** Rows that are to go. */
  readonly #struck: OwedWrites;
  #stopped = false;
  readonly #upsert;
  readonly #remove;

  constructor(
    store: Store,
    private readonly writer: Writer,
    private readonly clock: Clock,
    private readonly boot: string,
    private readonly onFault: (thrown: unknown) => void,
  ) {
    this.#upsert = store.database.prepare(
      `INSERT OR REPLACE INTO ledger_hold (request_id, boot, account_id, key_id, dialect, stream, model, vendor, upstream_model,
         window_id, window_nano, wallet_nano, price_id, estimated_input, seen_output, created_at, deadline_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#remove = store.database.prepare("DELETE FROM ledger_hold WHERE request_id = ?");
    this.#struck = new OwedWrites(writer, clock, (requestId) => this.remove(requestId), onFault);
  }

  /** A hold was opened, or has grown: it is written soon, unless it is closed before. */
  note(hold: Journaled): void {
    this.#waiting.add(hold);
    if (this.#cancel || this.#stopped) return;
    this.#cancel = this.clock.after(WRITE_AFTER_MS, () => this.#sweep());
  }

  /** The hold is closed: nothing is to be written of it any more. */
  forget(hold: Journaled): void {
    this.#waiting.delete(hold);
  }

  /** Takes the row of a closed hold away, in the operation that settles it. */
  remove(requestId: string): void {
    this.#remove.run(requestId);
  }

  /**
   * A hold was closed, and that could not be written: nobody is charged any more, and its row goes as soon as the store takes writes again. Else it
   * would stand as held until the next start, which would charge by it what the client was told is not charged.
   */
  strike({ request, written }: Journaled): void {
    if (written) this.#struck.add(request.requestId);
  }

  /** Nothing is written any more, but for the rows that are to go: the next start would charge by them. */
  stop(): void {
    this.#stopped = true;
    this.#cancel?.();
    this.#struck.stop();
  }

  #sweep(): void {
    this.#cancel = undefined;
    const batch: Journaled[] = [];
    for (const hold of this.#waiting) {
      if (batch.length >= BATCH) break;
      this.#waiting.delete(hold);
      batch.push(hold);
    }
    if (this.#waiting.size > 0) this.#cancel = this.clock.after(WRITE_AFTER_MS, () => this.#sweep());
    if (batch.length === 0) return;
    this.writer.run(() => this.#write(batch)).catch(this.onFault);
  }

  #write(batch: readonly Journaled[]): void {
    for (const hold of batch) {
      // Its settle waits behind this operation: a row written now would have to be taken away at once.
      if (hold.closing) continue;
      const { request, reading, windowId, windowNano, walletNano } = hold;
      this.#upsert.run(
        ...[request.requestId, this.boot, request.accountId, request.keyId, request.dialect, request.stream],
        ...[request.model, reading.vendor, reading.upstreamModel, windowId ?? null, windowNano, walletNano],
        ...[hold.priceId, Math.ceil(hold.estimatedInput), reading.output, hold.createdAt],
        hold.createdAt + DEADLINE_MS,
      );
      hold.written = true;
    }
  }
}
