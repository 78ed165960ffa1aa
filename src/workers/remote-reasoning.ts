import type { ReasoningMemory } from "../canon/memory.ts";
import { openReader, type Store } from "../db/open.ts";
import { Writer } from "../db/writer.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../observe/log.ts";
import type { ReasoningShelf } from "../relay/reasoning/state.ts";
import { ReasoningStore } from "../relay/reasoning/store.ts";
import type { Link } from "./link.ts";

/** Accounts of which it is remembered that something is kept for them. */
const MAX_HOLDERS = 10_000;

type Shelf = { store: Store; reasoning: ReasoningStore };

/**
 * Kept reasoning as a worker has it: read from the store's file, written by the authority. A state is in the file before the reply it belongs to ends, so
 * whoever sends the next turn finds it, whichever process it comes to.
 */
export class RemoteReasoning implements ReasoningShelf {
  readonly #holders = new Set<string>();
  #shelf: Shelf | undefined;

  constructor(
    private readonly path: string,
    private readonly link: Link,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {}

  /** Durable when it resolves. Rejects only when the authority is gone. */
  async put(accountId: string, keys: readonly string[], memory: ReasoningMemory): Promise<void> {
    await this.link.call("keepReasoning", { accountId, keys, memory });
  }

  /** A no is asked anew each time: another process may have kept the first state since. */
  holdsAny(accountId: string): boolean {
    if (this.#holders.has(accountId)) return true;
    const { reasoning } = this.#open();
    reasoning.forgetHolder(accountId);
    if (!reasoning.holdsAny(accountId)) return false;
    if (this.#holders.size >= MAX_HOLDERS) this.#holders.clear();
    this.#holders.add(accountId);
    return true;
  }

  find(accountId: string, keys: readonly string[]): Map<string, ReasoningMemory> {
    return this.#open().reasoning.find(accountId, keys);
  }

  /** Who made which proof, as far as the authority had written it by now; what it learns from then on it tells. */
  makers(most: number): [digest: bigint, maker: string][] {
    return this.#open().reasoning.makers(most);
  }

  close(): void {
    this.#shelf?.store.close();
    this.#shelf = undefined;
  }

  /** Opened when first needed: most workers never do. */
  #open(): Shelf {
    if (!this.#shelf) {
      const store = openReader(this.path);
      // A writer on a connection that only reads: nothing is ever given to it.
      const reasoning = new ReasoningStore(store, new Writer(store, this.clock), this.clock, this.log);
      this.#shelf = { store, reasoning };
    }
    return this.#shelf;
  }
}
