import type { Clock } from "../lib/clock.ts";
import { hasMoved } from "./moved.ts";
import type { Store } from "./open.ts";
import { Probe } from "./probe.ts";
import { StoreError } from "./store-error.ts";
import type { Writer } from "./writer.ts";

/** How soon a store that failed is tried first, and how often after that, ms: most faults are over at once, while a full disk stays full for a while. */
const FIRST_MS = 100;
const AGAIN_MS = 1_000;

/** Called once each time that the store's health changes. `fault`: why it takes no writes; undefined when it takes them again. */
type OnChange = (fault: StoreError | undefined) => void;

/**
 * Notices when a store that could not be written takes writes again: as long as it fails, a trial write is made once a second. Without that, a gateway
 * that refuses work because of its store would never learn that there is room again.
 */
export class StoreWatch {
  readonly #probe: Probe;
  #cancel: (() => void) | undefined;
  #failing = false;
  #stopped = false;

  constructor(
    private readonly store: Store,
    private readonly writer: Writer,
    private readonly clock: Clock,
    private readonly onChange: OnChange,
  ) {
    this.#probe = new Probe(store, writer);
    writer.onFailing(() => this.#begin());
  }

  /** The store takes no writes, as far as is known. */
  get failing(): boolean {
    return this.#failing;
  }

  /**
   * Whether the store takes writes, as far as can be told without one: its file may have been taken away since the last. Asked for readiness; a balancer that is
   * told no sends nothing that would be written. A store that has gone is tried at once.
   */
  look(): boolean {
    if (this.#failing) return false;
    if (!hasMoved(this.store.database)) return true;
    // It fails, so that this is told and watched as every fault of the store is.
    this.#probe.run().catch(() => {});
    return false;
  }

  /** Tries nothing more. */
  stop(): void {
    this.#stopped = true;
    this.#cancel?.();
  }

  #begin(): void {
    if (this.#failing || this.#stopped) return;
    this.#failing = true;
    this.onChange(this.writer.failing);
    this.#tryAfter(FIRST_MS);
  }

  #tryAfter(ms: number): void {
    this.#cancel = this.clock.after(ms, () => void this.#try());
  }

  async #try(): Promise<void> {
    try {
      await this.#probe.run();
    } catch (thrown) {
      // Anything else is no fault of the store, and does not pass by waiting: whoever writes next is told of it.
      if (thrown instanceof StoreError && !this.#stopped) return this.#tryAfter(AGAIN_MS);
    }
    this.#failing = false;
    if (!this.#stopped) this.onChange(undefined);
  }
}
