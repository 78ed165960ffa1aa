import type { KeyCaps } from "../accounts/key-row.ts";
import { GatewayError } from "../canon/errors.ts";
import type { Store } from "../db/open.ts";
import type { Writer } from "../db/writer.ts";
import { atLeastZero, least } from "../ledger/nano.ts";
import type { Clock } from "../lib/clock.ts";
import { DAY_MS } from "../lib/spans.ts";

/** What a key has come to in a UTC day (days since 1970), nano-USD. */
type DayTally = { day: number; requests: number; dayNano: bigint };
/** The same, and what it has come to in all. */
type Tally = DayTally & { totalNano: bigint };

/** Stands for no cap in money, nano-USD: more than any key comes to. */
const UNBOUNDED = 9_000_000_000_000_000_000n;

const ADDED =
  "ON CONFLICT (key_id, day) DO UPDATE SET requests = requests + excluded.requests, nano = nano + excluded.nano";

function prepare(store: Store) {
  return {
    day: store.database.prepare("SELECT requests, nano FROM key_spend WHERE key_id = ? AND day = ?"),
    total: store.database.prepare("SELECT coalesce(sum(nano), 0) FROM key_spend WHERE key_id = ?"),
    add: store.database.prepare(`INSERT INTO key_spend (key_id, day, requests, nano) VALUES (?, ?, ?, ?) ${ADDED}`),
  };
}

const dayOf = (clock: Clock) => Math.floor(clock.now() / DAY_MS);

/**
 * Counts a request that was charged after its process had died, for a start (see OpenLedger.start): inside the transaction that charges it, and before any
 * key is used. Of a key without caps nothing is counted, as while a server runs.
 */
export function countInterrupted(store: Store, clock: Clock): (keyId: string, costNano: bigint) => void {
  const add = store.database.prepare(
    `INSERT INTO key_spend (key_id, day, requests, nano) SELECT id, ?, 1, ? FROM api_key
     WHERE id = ? AND coalesce(cap_day_nano, cap_total_nano, cap_requests_day) IS NOT NULL ${ADDED}`,
  );
  return (keyId, costNano) => void add.run(dayOf(clock), costNano, keyId);
}

/**
 * What keys with caps have come to (contract 4): in memory once a key is used, and in the store with every request that is settled. What is
 * under way counts as if it were used, so that requests at the same time cannot pass a cap together.
 */
export class KeySpend {
  /** What is known of each key, and the caps it had when that was read from the store. */
  readonly #accounts = new Map<string, { account: KeyAccount; under: KeyCaps }>();
  readonly #statements: ReturnType<typeof prepare>;

  constructor(
    store: Store,
    private readonly writer: Writer,
    private readonly capsOf: (keyId: string) => KeyCaps | undefined,
    private readonly clock: Clock,
  ) {
    this.#statements = prepare(store);
  }

  /** The book of a key; undefined for one without caps. */
  of(keyId: string): KeyAccount | undefined {
    const caps = this.capsOf(keyId);
    if (caps === undefined) return undefined;
    let known = this.#accounts.get(keyId);
    // Caps that were taken off and set again count from nothing (Keys.change), so the store is read again; but not while it lacks what is under way.
    if (!known || (known.under !== caps && known.account.isAtRest)) {
      const account = new KeyAccount(this.#load(keyId), {
        now: () => this.clock.now(),
        read: (day) => this.#day(keyId, day),
        put: (day, requests, nano) => this.#put(keyId, day, requests, nano),
        write: (put) => this.writer.runSingle(put),
      });
      known = { account, under: caps };
      this.#accounts.set(keyId, known);
    }
    return known.account.under(caps);
  }

  /**
   * Sets aside some requests of a key with caps, such as the calls of a web tool; undefined where nothing is capped. Throws GatewayError
   * (allowance_exhausted) when the day has fewer left, or no money is left at all.
   */
  claim(keyId: string, requests: number): KeyClaim | undefined {
    const account = this.of(keyId);
    if (!account) return undefined;
    if (account.freeNano <= 0n) throw account.refuseMoney();
    return account.claim(requests, 0n);
  }

  #load(keyId: string): Tally {
    const [totalNano = 0n] = (this.#statements.total.values(keyId)[0] ?? []) as bigint[];
    return { ...this.#day(keyId, dayOf(this.clock)), totalNano };
  }

  #day(keyId: string, day: number): DayTally {
    const [requests = 0n, dayNano = 0n] = (this.#statements.day.values(keyId, day)[0] ?? []) as bigint[];
    return { day, requests: Number(requests), dayNano };
  }

  #put(keyId: string, day: number, requests: number, nano: bigint): void {
    this.#statements.add.run(keyId, day, requests, nano);
  }
}

/** How one cap stands. `left` is beside what is under way, and never below 0. */
export type CapState = { cap: bigint; used: bigint; left: bigint };

/** How a key's caps stand, money in nano-USD; undefined for one that is not set. */
export type CapStates = {
  dayNano: CapState | undefined;
  totalNano: CapState | undefined;
  requestsDay: CapState | undefined;
  /** When the UTC day ends, Unix ms. */
  dayEndsAt: number;
};

function capState(cap: bigint | null, used: bigint, held: bigint): CapState | undefined {
  return cap === null ? undefined : { cap, used, left: atLeastZero(cap - used - held) };
}

type AccountDesk = {
  /** Unix ms. */
  now(): number;
  read(day: number): DayTally;
  /** Adds to what the store has of the key, inside an operation of the writer. */
  put(day: number, requests: number, nano: bigint): void;
  /** Has `put` done in an operation of its own. */
  write(put: () => void): Promise<void>;
};

/** One key's caps and what it has come to. */
export class KeyAccount {
  #caps: KeyCaps = { capDayNano: null, capTotalNano: null, capRequestsDay: null };
  #heldNano = 0n;
  #heldRequests = 0;
  /** Claims that have not ended, and counts that are not in the store yet. */
  #atWork = 0;

  constructor(
    private readonly tally: Tally,
    private readonly desk: AccountDesk,
  ) {}

  /** Whether the store knows all that this book does. */
  get isAtRest(): boolean {
    return this.#atWork === 0;
  }

  /** This account with the caps as they are now: they may have been changed since it was last looked at. */
  under(caps: KeyCaps): this {
    this.#caps = caps;
    return this;
  }

  /** What the key has come to. A new day begins with nothing; one that a clock set back comes to again, with what it had. */
  #today(): Tally {
    const day = Math.floor(this.desk.now() / DAY_MS);
    if (day !== this.tally.day) Object.assign(this.tally, this.desk.read(day));
    return this.tally;
  }

  /** There is a cap in money. */
  get capsMoney(): boolean {
    return this.#caps.capDayNano !== null || this.#caps.capTotalNano !== null;
  }

  /** Nano-USD that may still be spent; below 0 when the key has come to more than its cap. */
  get freeNano(): bigint {
    const { capDayNano, capTotalNano } = this.#caps;
    const { dayNano, totalNano } = this.#today();
    const day = (capDayNano ?? UNBOUNDED) - dayNano;
    const total = (capTotalNano ?? UNBOUNDED) - totalNano;
    return least(day, total) - this.#heldNano;
  }

  /** How its caps stand, as its owner is told. */
  get states(): CapStates {
    const { capDayNano, capTotalNano, capRequestsDay } = this.#caps;
    const { day, dayNano, totalNano, requests } = this.#today();
    const capRequests = capRequestsDay === null ? null : BigInt(capRequestsDay);
    return {
      dayNano: capState(capDayNano, dayNano, this.#heldNano),
      totalNano: capState(capTotalNano, totalNano, this.#heldNano),
      requestsDay: capState(capRequests, BigInt(requests), BigInt(this.#heldRequests)),
      dayEndsAt: (day + 1) * DAY_MS,
    };
  }

  /** Sets requests and money aside. Throws GatewayError (allowance_exhausted) when the day has fewer requests left. */
  claim(requests: number, nano: bigint): KeyClaim {
    const cap = this.#caps.capRequestsDay;
    const left = cap === null ? Infinity : cap - this.#today().requests - this.#heldRequests;
    // A claim of no requests always passes, also where the cap was lowered below what was made by then.
    if (requests > Math.max(0, left)) {
      const rest = left > 0 ? `: ${left} are left, and this asks for ${requests}` : ", and has made them";
      throw this.#refuseDay(`This key may make ${cap} requests a day${rest}.`);
    }
    this.#heldRequests += requests;
    this.#heldNano += nano;
    this.#atWork++;
    return new KeyClaim(this, requests, nano);
  }

  /**
   * Why there is no money for a request: a day that ends can be waited for, a cap for all time cannot. `affordableOutput`: of a generation, how many tokens
   * of output could be paid for (contract 6).
   */
  refuseMoney(affordableOutput?: number): GatewayError {
    const { capDayNano, capTotalNano } = this.#caps;
    const totalLeft = (capTotalNano ?? UNBOUNDED) - this.tally.totalNano;
    const text =
      this.freeNano > 0n
        ? "This may cost more than is left of what this key may cost"
        : "This key has come to what it may cost";
    if (capDayNano !== null && capDayNano - this.tally.dayNano < totalLeft) {
      return this.#refuseDay(`${text} in a day.`);
    }
    const extra = { ...(affordableOutput !== undefined && { affordable_output_tokens: affordableOutput }) };
    return new GatewayError("insufficient_quota", `${text}.`, { retry: false, extra });
  }

  #refuseDay(message: string): GatewayError {
    const resetAt = new Date((this.tally.day + 1) * DAY_MS).toISOString();
    return new GatewayError("allowance_exhausted", `${message} The day ends at ${resetAt}.`, {
      extra: { reset_at: resetAt },
    });
  }

  /** More money for a claim that grows. */
  reach(nano: bigint): void {
    this.#heldNano += nano;
  }

  /** Gives back what a claim set aside. */
  give(requests: number, nano: bigint): void {
    this.#heldRequests -= requests;
    this.#heldNano -= nano;
    this.#atWork--;
  }

  /**
   * Counts what was used, now in memory and with the writer's next batch in the store: resolves when it is there. What could not be written is taken
   * back, as its charge is: rejects as the writer does.
   */
  async post(requests: number, nano: bigint): Promise<void> {
    const { day } = this.#today();
    this.#add(requests, nano, day);
    this.#atWork++;
    try {
      await this.desk.write(() => this.desk.put(day, requests, nano));
    } catch (thrown) {
      this.#add(-requests, -nano, day);
      throw thrown;
    } finally {
      this.#atWork--;
    }
  }

  /**
   * {@link post} inside the operation of the writer that charges it: a process that dies leaves both or neither. What is returned counts it in memory, and is
   * called once the operation is on the disk.
   */
  postBeside(requests: number, nano: bigint): () => void {
    const { day } = this.#today();
    this.desk.put(day, requests, nano);
    return () => this.#add(requests, nano, day);
  }

  #add(requests: number, nano: bigint, day: number): void {
    const tally = this.#today();
    tally.totalNano += nano;
    if (day !== tally.day) return;
    tally.requests += requests;
    tally.dayNano += nano;
  }
}

/** What one request has set aside of its key's caps. Ended once, by `count` or by `release`; a second end does nothing. */
export class KeyClaim {
  #open = true;
  /** Of the money, what was another claim's before. */
  #joined = 0n;

  constructor(
    private readonly account: KeyAccount,
    private readonly requests: number,
    private nano: bigint,
  ) {}

  /** Sets as much money aside as `nano` in all, beside what was another claim's. */
  reach(nano: bigint): void {
    if (!this.#open) return;
    const more = nano - (this.nano - this.#joined);
    this.account.reach(more);
    this.nano += more;
  }

  /** {@link reach} for what may come to so much. Throws GatewayError (allowance_exhausted, insufficient_quota) where the caps leave less. */
  secure(nano: bigint): void {
    if (nano - this.nano > this.account.freeNano) throw this.account.refuseMoney();
    this.reach(nano);
  }

  /** Takes over the money of another claim of the same key, whose requests are given back. Where this one has ended, all of it is. */
  join(other: KeyClaim): void {
    if (this.#open && other.#open) {
      this.nano += other.nano;
      this.#joined += other.nano;
      other.nano = 0n;
    }
    other.release();
  }

  /** What was used, at the most the requests that were claimed. Resolves when it is in the store; rejects as the writer does. */
  count(requests: number, nano: bigint): Promise<void> {
    if (!this.#close()) return Promise.resolve();
    return this.account.post(requests, nano);
  }

  /**
   * {@link count} of requests alone, for work that is done, and free or booked by itself: never rejects. Who was told of a fault then would ask, and pay,
   * once more.
   */
  async noteRequests(requests: number, onFault: (thrown: unknown) => void): Promise<void> {
    try {
      await this.count(requests, 0n);
    } catch (thrown) {
      onFault(thrown);
    }
  }

  /** {@link count} inside the operation that charges it; see {@link KeyAccount.postBeside}. What is returned ends the claim too. */
  countBeside(requests: number, nano: bigint): () => void {
    const counted = this.account.postBeside(requests, nano);
    return () => {
      counted();
      this.#close();
    };
  }

  /** Nothing was used. */
  release(): void {
    this.#close();
  }

  #close(): boolean {
    if (!this.#open) return false;
    this.#open = false;
    this.account.give(this.requests, this.nano);
    return true;
  }
}
