import { longWrite, sumUsage, type Usage } from "../canon/usage.ts";
import type { Store } from "../db/open.ts";
import type { Clock } from "../lib/clock.ts";
import type { Breach } from "./book.ts";
import { ENTRY_COLUMNS, type EntryRow, FIRST_LINK, linkOf } from "./entries.ts";
import { OVERRUN_NANO } from "./funds.ts";
import { costNano } from "./price.ts";
import type { PriceBook } from "./price-book.ts";
import { findRounds } from "./usage-rows.ts";

/** Breaches that are told; more say nothing new. */
const MAX_BREACHES = 100;
/** An open hold may be this much older than its deadline, ms (reliability 3.3, I7). */
const HOLD_GRACE_MS = 60_000;
/** Rows that are in memory at the same time while chains and charges are followed. */
const PAGE = 2_000;
/** Requests whose entries are remembered from the chain, so that the store need not be asked for each of them. */
const MAX_REMEMBERED = 20_000;

type UsageCheck = {
  request_id: string;
  price_id: bigint | null;
  cost_nano: bigint | null;
  charged_nano: bigint;
  units: bigint;
  input: bigint;
  output: bigint;
  cache_read: bigint;
  cache_write: bigint;
  cache_write_long: bigint;
};

/** What the entries of a request say: what was taken of its account, and what the operator lost. */
type Posted = { posted: bigint; lost: bigint };

/** The questions whose every answer is a breach: the invariant, and a query of one text column that says what is wrong. */
const FULL_SUMS = `
  SELECT a.id || ': posted ' || a.posted || ', its entries say ' || (coalesce(c.total, 0) - coalesce(d.total, 0)) AS detail
  FROM ledger_account a
  LEFT JOIN (SELECT credit AS id, sum(amount) AS total FROM ledger_entry GROUP BY credit) c ON c.id = a.id
  LEFT JOIN (SELECT debit AS id, sum(amount) AS total FROM ledger_entry GROUP BY debit) d ON d.id = a.id
  WHERE a.posted <> coalesce(c.total, 0) - coalesce(d.total, 0)`;
const HELD_BY_UNITS = `
  SELECT a.id || ': held ' || a.held || ', its open claims say ' || coalesce(u.total, 0) AS detail
  FROM ledger_account a
  LEFT JOIN (SELECT 'wallet:' || account_id AS id, sum(paid * unit_nano) AS total FROM unit_claim
             WHERE state = 'claimed' GROUP BY account_id) u ON u.id = a.id
  WHERE a.held <> coalesce(u.total, 0)`;
const OVERDRAWN = `
  SELECT id || ': ' || posted || ' is below what an overrun may come to' AS detail FROM ledger_account
  WHERE (kind = 'wallet' AND posted < ?) OR (kind = 'window' AND posted < 0)`;
const TOTAL = `SELECT 'all accounts together: ' || sum(posted) AS detail FROM ledger_account HAVING sum(posted) <> 0`;
const SETTLED_AND_OPEN = `
  SELECT request_id || ': settled, and its hold is open' AS detail FROM ledger_hold h
  WHERE EXISTS (SELECT 1 FROM usage u WHERE u.request_id = h.request_id)`;
const OLD_HOLDS = `SELECT request_id || ': open since ' || created_at AS detail FROM ledger_hold WHERE deadline_at < ?`;
const CLAIMS = `
  SELECT c.id || ': charged ' || c.charged || ', its entries say ' || coalesce(e.total, 0) AS detail
  FROM unit_claim c
  LEFT JOIN (SELECT request_id, sum(amount) AS total FROM ledger_entry
             WHERE kind IN ('image', 'web') AND kind NOT IN ('usage', 'usage_partial') GROUP BY request_id) e
    ON e.request_id = c.id
  WHERE c.charged <> coalesce(e.total, 0) OR c.charged > c.paid * c.unit_nano`;

/** Whether the rounds of a request come to what its row says. */
function isSum(usage: Usage, rounds: readonly Usage[]): boolean {
  const sum = rounds.reduce(sumUsage);
  if (longWrite(sum) !== longWrite(usage)) return false;
  return (["input", "cacheRead", "cacheWrite", "output"] as const).every((bucket) => sum[bucket] === usage[bucket]);
}

/** Asks whether the books are right; see `Book.verify`. Reads only. */
export class Verifier {
  #breaches: Breach[] = [];
  /** By request, of the entries that the chain went through last. */
  #posted = new Map<string, Posted>();
  readonly #sums;
  readonly #findPrice;

  constructor(
    private readonly store: Store,
    priceBook: PriceBook,
    private readonly clock: Clock,
  ) {
    this.#findPrice = priceBook.finder();
    this.#sums = store.database.prepare<Posted, [string]>(
      `SELECT coalesce(sum(CASE kind WHEN 'writeoff' THEN 0 ELSE amount END), 0) AS posted,
         coalesce(sum(CASE kind WHEN 'writeoff' THEN amount ELSE 0 END), 0) AS lost
       FROM ledger_entry WHERE request_id = ?`,
    );
  }

  run({ last = Number.POSITIVE_INFINITY, starting = false }: { last?: number; starting?: boolean } = {}): Breach[] {
    this.#breaches = [];
    const { entries, usages } = this.#sizes();
    const firstEntry = Math.max(1, entries - last + 1);
    // Sums over a part of the entries prove nothing.
    if (firstEntry === 1) this.#ask("I1", FULL_SUMS);
    this.#ask("I2", HELD_BY_UNITS);
    this.#ask("I3", OVERDRAWN, -OVERRUN_NANO);
    this.#ask("I4", TOTAL);
    this.#followChain(firstEntry);
    this.#checkUsage(Math.max(0, usages - last));
    this.#ask("I5", SETTLED_AND_OPEN);
    if (!starting) this.#ask("I7", OLD_HOLDS, this.clock.now() - HOLD_GRACE_MS);
    if (firstEntry === 1) this.#ask("I8", CLAIMS);
    this.#posted.clear();
    return this.#breaches;
  }

  #tell(invariant: string, detail: string): void {
    if (this.#breaches.length < MAX_BREACHES) this.#breaches.push({ invariant, detail });
  }

  #ask(invariant: string, query: string, ...values: (bigint | number)[]): void {
    const rows = this.store.database.prepare<{ detail: string }, (bigint | number)[]>(query).all(...values);
    for (const { detail } of rows.slice(0, MAX_BREACHES)) this.#tell(invariant, detail);
  }

  #sizes(): { entries: number; usages: number } {
    const count = (query: string) => {
      const row = this.store.database.prepare<{ n: bigint | null }, []>(query).get();
      return Number(row?.n ?? 0n);
    };
    return {
      entries: count("SELECT max(seq) AS n FROM ledger_entry"),
      usages: count("SELECT max(rowid) AS n FROM usage"),
    };
  }

  /** I5, I6 and I10 of the usage rows behind `after`. */
  #checkUsage(after: number): void {
    const page = this.store.database.prepare<UsageCheck & { rowid: bigint }, [number, number]>(
      `SELECT u.rowid, u.request_id, u.price_id, u.cost_nano, u.charged_nano, u.units, u.input, u.output,
         u.cache_read, u.cache_write, u.cache_write_long
       FROM usage u WHERE u.rowid > ? ORDER BY u.rowid LIMIT ?`,
    );
    for (let from = after; this.#breaches.length < MAX_BREACHES; ) {
      const rows = page.all(from, PAGE);
      for (const row of rows) this.#checkCharge(row);
      const lastRow = rows.at(-1);
      if (!lastRow) return;
      from = Number(lastRow.rowid);
    }
  }

  /** What was remembered, where it says what is expected; else what the store says. */
  #entriesOf(requestId: string, expected: bigint): Posted {
    const remembered = this.#posted.get(requestId);
    if (remembered?.posted === expected) return remembered;
    return this.#sums.get(requestId) ?? { posted: 0n, lost: 0n };
  }

  #remember({ request_id: id, kind, amount }: EntryRow): void {
    if (id === null) return;
    let sums = this.#posted.get(id);
    if (!sums) {
      if (this.#posted.size >= MAX_REMEMBERED) this.#posted.clear();
      sums = { posted: 0n, lost: 0n };
      this.#posted.set(id, sums);
    }
    sums[kind === "writeoff" ? "lost" : "posted"] += amount;
  }

  #checkCharge(row: UsageCheck): void {
    const { request_id: id, charged_nano: charged, cost_nano: cost } = row;
    const { posted, lost } = this.#entriesOf(id, charged);
    if (posted !== charged) this.#tell("I5", `${id}: charged ${charged}, its entries say ${posted}`);
    if (cost !== null && charged + lost > cost) this.#tell("I6", `${id}: charged and written off beyond its cost`);
    if (lost > 0n && cost !== charged + lost) this.#tell("I6", `${id}: a part of its cost is nowhere`);
    if (row.price_id === null || row.units > 0n) return;
    const price = this.#findPrice(Number(row.price_id));
    if (!price) {
      this.#tell("I10", `${id}: its price ${row.price_id} is gone`);
      return;
    }
    const usage = {
      ...{ input: Number(row.input), output: Number(row.output), reasoning: 0 },
      ...{ cacheRead: Number(row.cache_read), cacheWrite: Number(row.cache_write) },
      cacheWriteLong: Number(row.cache_write_long),
    };
    const again = costNano(usage, price.prices);
    if (again === cost) return;
    const rounds = findRounds(this.store, id);
    if (rounds && isSum(usage, rounds) && costNano(usage, price.prices, rounds) === cost) return;
    this.#tell("I10", `${id}: cost ${cost}, its tokens and price say ${again}`);
  }

  /** I9: every link is made of the one before it, and no number is missing. */
  #followChain(first: number): void {
    const { database } = this.store;
    const before = database.prepare<{ hash: Uint8Array }, [number]>("SELECT hash FROM ledger_entry WHERE seq = ?");
    const page = database.prepare<EntryRow, [number, number]>(
      `SELECT ${ENTRY_COLUMNS} FROM ledger_entry WHERE seq >= ? ORDER BY seq LIMIT ?`,
    );
    let link = before.get(first - 1)?.hash ?? FIRST_LINK;
    for (let next = first; ; ) {
      const rows = page.all(next, PAGE);
      if (rows.length === 0) return;
      for (const row of rows) {
        link = linkOf(link, row);
        const missing = Number(row.seq) !== next;
        if (missing || !Buffer.from(link).equals(row.hash)) {
          this.#tell("I9", `entry ${next}: it ${missing ? "is missing" : "was changed"}`);
          return;
        }
        this.#remember(row);
        next++;
      }
    }
  }
}
