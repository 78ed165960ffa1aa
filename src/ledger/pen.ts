import { GatewayError } from "../canon/errors.ts";
import type { Store } from "../db/open.ts";
import { StoreError } from "../db/store-error.ts";
import type { Writer } from "../db/writer.ts";

/** A charge and what goes with it come to some fifteen pages of 4 KiB: a disk that has room for one of them alone is full, bytes. */
const PROBE_BYTES = 128 * 1024;

/**
 * Whether charges can be written at all. Once one could not (a full disk, a lock that is not let go), nothing that costs is begun before a
 * write has succeeded again: work that cannot be charged is the operator's loss. Reads and running requests go on.
 */
export class Pen {
  #failed = false;
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

  /** A charge could not be written. What is no fault of the store is not noted: it is about that one charge. */
  note(thrown: unknown): void {
    if (thrown instanceof StoreError) this.#failed = true;
  }

  get failed(): boolean {
    return this.#failed;
  }

  /** Tries to write. Throws GatewayError (internal_error) when that does not succeed either. */
  async prove(): Promise<void> {
    try {
      await this.writer.run(() => this.#write.run());
      await this.writer.run(() => this.#erase.run());
      this.#failed = false;
    } catch (cause) {
      const text = "The gateway cannot write its books at the moment, so nothing was sent and nothing was charged.";
      throw new GatewayError("internal_error", text, { cause });
    }
  }
}
