import type { Store } from "./open.ts";
import type { Writer } from "./writer.ts";

/** A charge and what goes with it come to some fifteen pages of 4 KiB: a disk that has room for one of them alone is full, bytes. */
const PROBE_BYTES = 128 * 1024;

/** Finds out whether the store takes writes, by one that is erased again. */
export class Probe {
  readonly #write;
  readonly #erase;

  constructor(
    store: Store,
    private readonly writer: Writer,
  ) {
    // No account has this id, and the row is of the oldest: if the process dies before it is erased, the next sweep takes it.
    this.#write = store.database.prepare(
      `INSERT OR REPLACE INTO idempotency (account_id, route, key, fingerprint, state, boot, request_id, status, body, created_at)
       VALUES ('', '', 'probe', zeroblob(32), 'done', '', '', 200, zeroblob(${PROBE_BYTES}), 0)`,
    );
    this.#erase = store.database.prepare("DELETE FROM idempotency WHERE account_id = ''");
  }

  /** Resolves when there is room for a charge; rejects as the writer does (StoreError). */
  async run(): Promise<void> {
    await this.writer.run(() => this.#write.run());
    await this.writer.run(() => this.#erase.run());
  }
}
