import { Abort, type Abortable, type Leaving } from "../../lib/abort.ts";
import { YoungHeap } from "../../lib/young-heap.ts";
import { clientLeft } from "./ended.ts";

/** What can be ended from outside. */
type Endable = {
  readonly abort: { abort(reason: unknown): void };
  /** Its answer comes whole, and within the bound that such answers have. */
  readonly isWhole: boolean;
};

/** Requests that are under way, so that a revoked key and a stopping server can end them. */
export class Running {
  readonly #byKey = new Map<string, Set<Endable>>();
  #count = 0;
  #onIdle: (() => void) | undefined;
  readonly #heap = new YoungHeap();

  /** How many requests are under way. */
  get count(): number {
    return this.#count;
  }

  /** Enters a request, which is to be taken out by {@link leave}, exactly once. */
  enter(keyId: string, request: Endable): void {
    let ofKey = this.#byKey.get(keyId);
    if (!ofKey) {
      ofKey = new Set();
      this.#byKey.set(keyId, ofKey);
    }
    ofKey.add(request);
    this.#heap.note(++this.#count);
  }

  leave(keyId: string, request: Endable): void {
    const ofKey = this.#byKey.get(keyId);
    ofKey?.delete(request);
    if (ofKey?.size === 0) this.#byKey.delete(keyId);
    this.#count--;
    if (this.#count === 0) this.#onIdle?.();
  }

  /** Ends every request of a key with `reason` (contract 4: within 1 s of its revocation). */
  endKey(keyId: string, reason: unknown): void {
    for (const { abort } of this.#byKey.get(keyId) ?? []) abort.abort(reason);
  }

  /** Ends every request with `reason`. */
  endAll(reason: unknown): void {
    for (const ofKey of this.#byKey.values()) for (const { abort } of ofKey) abort.abort(reason);
  }

  /** Ends with `reason` what has no bound in time of its own: streams, and requests whose body has not come in whole. */
  endUnbounded(reason: unknown): void {
    for (const ofKey of this.#byKey.values()) for (const { abort, isWhole } of ofKey) if (!isWhole) abort.abort(reason);
  }

  /** Whether somebody waits for an answer that comes whole. */
  get hasWhole(): boolean {
    for (const ofKey of this.#byKey.values()) for (const { isWhole } of ofKey) if (isWhole) return true;
    return false;
  }

  /** Resolves when nothing is under way any more. */
  idle(): Promise<void> {
    if (this.#count === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onIdle = resolve;
    });
  }
}

/** A request under way, from its beginning until everything of it is over: ended by its client's leaving, and from outside. */
export class Visit implements Abortable, Endable {
  readonly abort = new Abort();
  isWhole = false;
  #over = false;

  constructor(
    private readonly running: Running,
    private readonly keyId: string,
    left: Leaving,
  ) {
    running.enter(keyId, this);
    left.add(this);
    if (left.aborted) this.onAbort();
  }

  /** The client has left. */
  onAbort(): void {
    if (!this.#over) this.abort.abort(clientLeft());
  }

  /** Without effect after the first time. */
  end(): void {
    if (this.#over) return;
    this.#over = true;
    this.running.leave(this.keyId, this);
  }
}
