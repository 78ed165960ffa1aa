import type { Clock } from "../lib/clock.ts";
import type { Store } from "./open.ts";
import { Probe } from "./probe.ts";
import { StoreError } from "./store-error.ts";
import type { Writer } from "./writer.ts";

/** When a store that failed is tried first, and then again and again, ms: most faults are over at once, and a full disk is for a while. */
const FIRST_MS = 100;
const AGAIN_MS = 1_000;

/** What is told of the store's health, once each time it changes. `fault` is undefined when it takes writes again. */
type OnChange = (fault: StoreError | undefined) => void;

/**
 * Brings a store back that could not be written: as long as the last write failed, one is tried once a second. Without it a gateway that refuses
 * work because of its store would never learn that there is room again.
 */
export class StoreWatch {
  readonly #probe: Probe;
  #cancel: (() => void) | undefined;
  #failing = false;
  #stopped = false;

  constructor(
    store: Store,
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
      // What is no fault of the store would not be mended by waiting: it is for whoever meets it.
      if (thrown instanceof StoreError && !this.#stopped) return this.#tryAfter(AGAIN_MS);
    }
    this.#failing = false;
    if (!this.#stopped) this.onChange(undefined);
  }
}
