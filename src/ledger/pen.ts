import { GatewayError } from "../canon/errors.ts";
import type { Store } from "../db/open.ts";
import { StoreError } from "../db/store-error.ts";
import type { Writer } from "../db/writer.ts";

/**
 * Whether charges can be written at all. Once one could not (a full disk, a lock that is not let go), nothing that costs is begun before a
 * write has succeeded again: work that cannot be charged is the operator's loss. Reads and running requests go on.
 */
export class Pen {
  #failed = false;
  readonly #probe;

  constructor(
    store: Store,
    private readonly writer: Writer,
  ) {
    this.#probe = store.database.prepare("UPDATE ledger_account SET held = held WHERE id = 'house:plan'");
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
      await this.writer.run(() => this.#probe.run());
      this.#failed = false;
    } catch (cause) {
      const text = "The gateway cannot write its books at the moment, so nothing was sent and nothing was charged.";
      throw new GatewayError("internal_error", text, { cause });
    }
  }
}
