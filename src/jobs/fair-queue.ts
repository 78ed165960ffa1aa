/** Work that waits: whose it is, and which vendor it needs. */
export type Queued = { id: string; accountId: string; vendor: string };

/** A first-in-first-out list whose front can be taken in constant time. */
class Line<T> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  first(): T | undefined {
    return this.#items[this.#head];
  }

  take(): T | undefined {
    const item = this.#items[this.#head];
    this.#items[this.#head++] = undefined;
    // What was taken is let go of now and then, so that taking costs nothing much on the whole.
    if (this.#head > 1_024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}

type Placed = Queued & { order: number };

/** What one account has waiting, by vendor, and how much it has had so far. */
class Account {
  virtualTime = 0;
  readonly lines = new Map<string, Line<Placed>>();

  /** The vendor of its oldest work that can be started; undefined when there is none. */
  startable(hasRoom: (vendor: string) => boolean): string | undefined {
    let oldest: Placed | undefined;
    for (const [vendor, line] of this.lines) {
      const first = line.first();
      if (first && (!oldest || first.order < oldest.order) && hasRoom(vendor)) oldest = first;
    }
    return oldest?.vendor;
  }
}

/**
 * Work of many accounts, taken in turns: start-time fair queueing with equal weights (reliability 5.4). Whoever has had least is next, and who
 * comes back after a pause has not saved up its turns. In an account the oldest comes first, unless its vendor has no room. So an account with
 * ten thousand jobs delays another's first by one at the most. Everything is in memory; taking looks at each waiting account once.
 */
export class FairQueue {
  readonly #accounts = new Map<string, Account>();
  /** Left out when their turn comes. */
  readonly #removed = new Set<string>();
  readonly #waiting = new Set<string>();
  #virtualTime = 0;
  #order = 0;

  /** How many wait. */
  get size(): number {
    return this.#waiting.size;
  }

  /** Puts work behind all other work of its account. */
  push({ id, accountId, vendor }: Queued): void {
    let account = this.#accounts.get(accountId);
    if (!account) {
      account = new Account();
      this.#accounts.set(accountId, account);
    }
    if (account.lines.size === 0) account.virtualTime = Math.max(account.virtualTime, this.#virtualTime);
    let line = account.lines.get(vendor);
    if (!line) {
      line = new Line();
      account.lines.set(vendor, line);
    }
    this.#waiting.add(id);
    line.push({ id, accountId, vendor, order: this.#order++ });
  }

  /** Takes work out that nobody wants any more. */
  remove(id: string): void {
    if (this.#waiting.delete(id)) this.#removed.add(id);
  }

  /** The next one to be started, of those whose vendor has room; undefined when there is none. */
  take(hasRoom: (vendor: string) => boolean): Queued | undefined {
    for (;;) {
      const found = this.#next(hasRoom);
      if (!found) return undefined;
      const [account, vendor] = found;
      const taken = this.#takeFrom(account, vendor);
      if (!taken) continue;
      this.#virtualTime = Math.max(this.#virtualTime, account.virtualTime);
      account.virtualTime += 1;
      this.#waiting.delete(taken.id);
      return { id: taken.id, accountId: taken.accountId, vendor };
    }
  }

  #next(hasRoom: (vendor: string) => boolean): readonly [Account, string] | undefined {
    let least: readonly [Account, string] | undefined;
    for (const [id, account] of this.#accounts) {
      // Nothing of it waits, and forgotten it would come back at the same place.
      if (account.lines.size === 0 && account.virtualTime <= this.#virtualTime) this.#accounts.delete(id);
      if (least && account.virtualTime >= least[0].virtualTime) continue;
      const vendor = account.startable(hasRoom);
      if (vendor !== undefined) least = [account, vendor];
    }
    return least;
  }

  /** The front of a line; undefined when it was removed meanwhile. Empty lines go. */
  #takeFrom(account: Account, vendor: string): Placed | undefined {
    const line = account.lines.get(vendor);
    const taken = line?.take();
    if (line?.length === 0) account.lines.delete(vendor);
    if (!taken) return undefined;
    return this.#removed.delete(taken.id) ? undefined : taken;
  }
}
