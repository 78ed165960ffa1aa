/** Requests that are under way, so that a revoked key and a stopping server can end them. */
export class Running {
  readonly #byKey = new Map<string, Set<AbortController>>();
  #count = 0;
  #onIdle: (() => void) | undefined;

  /** How many requests are under way. */
  get count(): number {
    return this.#count;
  }

  /** Enters a request; the returned function takes it out again and is called exactly once. */
  enter(keyId: string, abort: AbortController): () => void {
    const ofKey = this.#byKey.get(keyId) ?? new Set();
    this.#byKey.set(keyId, ofKey);
    ofKey.add(abort);
    this.#count++;
    return () => {
      ofKey.delete(abort);
      if (ofKey.size === 0 && this.#byKey.get(keyId) === ofKey) this.#byKey.delete(keyId);
      this.#count--;
      if (this.#count === 0) this.#onIdle?.();
    };
  }

  /** Ends every request of a key with `reason` (contract 4: within 1 s of its revocation). */
  endKey(keyId: string, reason: unknown): void {
    for (const abort of this.#byKey.get(keyId) ?? []) abort.abort(reason);
  }

  /** Ends every request with `reason`. */
  endAll(reason: unknown): void {
    for (const ofKey of this.#byKey.values()) for (const abort of ofKey) abort.abort(reason);
  }

  /** Resolves when nothing is under way any more. */
  idle(): Promise<void> {
    if (this.#count === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onIdle = resolve;
    });
  }
}
