import type { Clock } from "../lib/clock.ts";
import { StoreError } from "./store-error.ts";
import type { Writer } from "./writer.ts";

/** Pause between two tries to do what is owed, ms. */
const AGAIN_MS = 2_000;
/** Writes that may be owed at the same time; the next start makes up for those beyond. */
const MAX_OWED = 10_000;

/**
 * Writes that close or give back what the store still has as open, and that failed because the store was full or broken. Nobody waits for them any more;
 * they are done as soon as the store takes writes again. Each is known by an id, and it must do no harm to do one twice.
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
    if ((await this.#try([id])).length === 0) this.add(id);
  }

  /** Owes the write of this id without trying it now: the write that was to be done in its place has just failed. */
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
    for (const id of await this.#try(ids)) this.#owed.delete(id);
    this.#later();
  }

  /** Those of which nothing is left to be done: they were written, or never can be. */
  async #try(ids: readonly string[]): Promise<readonly string[]> {
    try {
      await this.writer.run(() => {
        for (const id of ids) this.write(id);
      });
      return ids;
    } catch (thrown) {
      if (ids.length > 1 && !(thrown instanceof StoreError)) return this.#tryEach(ids);
      this.onFault(thrown);
      return canPass(thrown) ? [] : ids;
    }
  }

  /** {@link #try} one by one: the fault lies in one of them, and undid the others with it. */
  async #tryEach(ids: readonly string[]): Promise<readonly string[]> {
    const done: string[] = [];
    for (const id of ids) done.push(...(await this.#try([id])));
    return done;
  }
}

/** Whether a write that failed so may succeed later. Waiting mends faults of the store alone; of one that is closed the next start takes care. */
const canPass = (thrown: unknown): boolean => thrown instanceof StoreError && thrown.fault !== "closed";
