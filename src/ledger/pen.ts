import type { Store } from "../db/open.ts";
import { Probe } from "../db/probe.ts";
import { StoreError } from "../db/store-error.ts";
import type { Writer } from "../db/writer.ts";

/**
 * Whether charges can be written at all. Once one could not (a full disk, a lock that is not let go), nothing that costs is begun before a
 * write has succeeded again: work that cannot be charged is the operator's loss. Reads and running requests go on.
 */
export class Pen {
  #failed = false;
  readonly #probe: Probe;

  constructor(store: Store, writer: Writer) {
    this.#probe = new Probe(store, writer);
  }

  /** A charge could not be written. What is no fault of the store is not noted: it is about that one charge. */
  note(thrown: unknown): void {
    if (thrown instanceof StoreError) this.#failed = true;
  }

  get failed(): boolean {
    return this.#failed;
  }

  /** Tries to write. Rejects as the writer does when that does not succeed either. */
  async prove(): Promise<void> {
    await this.#probe.run();
    this.#failed = false;
  }
}
