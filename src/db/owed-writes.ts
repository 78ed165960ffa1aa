import type { Clock } from "../lib/clock.ts";
import { StoreError } from "./store-error.ts";
import type { Writer } from "./writer.ts";

/** How long after a write could not be done it is tried again, ms, again and again. */
const AGAIN_MS = 2_000;
/** Writes that may be owed; those beyond are made up for by the next start. */
const MAX_OWED = 10_000;

/**
 * Writes that take something back which the store holds as open, and that could not be done while it was full or broken: nobody waits for them any more, and
 * they are done as soon as it takes writes again. Each is known by an id and is no fault when it was done before.
 */
export class OwedWrites {
  readonly #owed = new Set<string>();
  #cancel: (() => void) | undefined;
  #stopped = false;

  /** `write` does the write of one id, inside an operation of the writer; `onFault` is told why one could not be done. */
  constructor(
    private readonly writer: Pick<Writer, "run">,
    private readonly clock: Clock,
    private readonly write: (id: string) => void,
    private readonly onFault: (thrown: unknown) => void,
  ) {}

  /** Does the write of this id now, or owes it where a fault of the store keeps it from that. Never rejects. */
  async do(id: string): Promise<void> {
    if (!(await this.#try([id]))) this.add(id);
  }

  /** The write of this id is to be done later: something that was to stand in its place could not be written. */
  add(id: string): void {
    if (this.#owed.size >= MAX_OWED) return;
    this.#owed.add(id);
    this.#later();
  }

  /** Waits no longer: what is owed is tried once more, now. */
  stop(): void {
    this.#stopped = true;
    this.#cancel?.();
    if (this.#owed.size > 0) void this.#round();
  }

  #later(): void {
    if (this.#cancel || this.#stopped || this.#owed.size === 0) return;
    this.#cancel = this.clock.after(AGAIN_MS, () => void this.#round());
  }

  async #round(): Promise<void> {
    this.#cancel = undefined;
    const ids = [...this.#owed];
    if (await this.#try(ids)) for (const id of ids) this.#owed.delete(id);
    this.#later();
  }

  /** Whether nothing is left to be done of these: they were written, or never can be. */
  async #try(ids: readonly string[]): Promise<boolean> {
    try {
      await this.writer.run(() => {
        for (const id of ids) this.write(id);
      });
      return true;
    } catch (thrown) {
      this.onFault(thrown);
      return !canPass(thrown);
    }
  }
}

/** Whether a write that failed so may succeed later: what is no fault of the store is not mended by waiting, and one that is closed is for the next start. */
const canPass = (thrown: unknown): boolean => thrown instanceof StoreError && thrown.fault !== "closed";
