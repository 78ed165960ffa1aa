import type { ReasoningMemory } from "../canon/memory.ts";
import { openReader, type Store } from "../db/open.ts";
import { Writer } from "../db/writer.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../observe/log.ts";
import type { ReasoningShelf } from "../relay/reasoning/state.ts";
import { ReasoningStore } from "../relay/reasoning/store.ts";
import type { Link } from "./link.ts";

/** Most accounts of which it is remembered that something is kept for them. */
const MAX_HOLDERS = 10_000;

type Shelf = { store: Store; reasoning: ReasoningStore };

/**
 * A worker's access to kept reasoning: it reads the store's file itself, and has the authority write. A state is in the file before the reply that it
 * belongs to ends, so that the next turn finds it, whichever process that comes to.
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

  /** Only a yes is remembered: after a no, another process may have kept the account's first state. */
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

  /** Which family made which proof, as far as it stands in the store, at most `most` of them. What the authority learns later it tells by the note `proof`. */
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
