import type { Store } from "./open.ts";
import type { Writer } from "./writer.ts";

/** Size of the trial write, bytes. A charge and what goes with it takes some fifteen pages of 4 KiB: a disk with room for one or two pages counts as full. */
const PROBE_BYTES = 128 * 1024;

/** Finds out whether the store takes writes, by one that is erased again. */
export class Probe {
  readonly #write;
  readonly #erase;

  constructor(
    store: Store,
    private readonly writer: Writer,
  ) {
    // No account has the id '', and the row is as old as can be: if the process dies before it is erased, the next sweep of old rows removes it.
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
