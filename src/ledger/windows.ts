import type { Store } from "../db/open.ts";
import type { Writer } from "../db/writer.ts";
import type { Clock } from "../lib/clock.ts";
import { HOUR_MS } from "../lib/spans.ts";
import { type Entries, HOUSE } from "./entries.ts";
import type { Funds } from "./funds.ts";
import { most } from "./nano.ts";

/** Length of a spending window, ms (contract 4: USD per 5 h). */
const WINDOW_MS = 5 * HOUR_MS;
/** A window that begins later than this from now was opened by a clock that stood wrong, ms. */
const CLOCK_SLIP_MS = 60_000;
/** Windows kept in memory; beyond these the store is asked. */
const MAX_KNOWN = 100_000;

/** A spending window: a ledger account of its own, granted when it opens and emptied when the next one does. */
export type Window = { id: string; grantNano: bigint; startsAt: number; endsAt: number };

type Row = { id: string; grant_nano: bigint; starts_at: bigint; ends_at: bigint };

const toWindow = (row: Row): Window => ({
  id: row.id,
  grantNano: row.grant_nano,
  startsAt: Number(row.starts_at),
  endsAt: Number(row.ends_at),
});

/**
 * The spending windows of the plans (reliability 3.4). A window opens at the first paid request after the last one's end. What it has left
 * when the next one opens goes back to the plan; a request belongs to the window in which it was held, however long it runs.
 */
export class Windows {
  readonly #known = new Map<string, Window>();
  readonly #opening = new Map<string, Promise<Window>>();
  readonly #statements;

  constructor(
    store: Store,
    private readonly writer: Writer,
    private readonly entries: Entries,
    private readonly funds: Funds,
    private readonly clock: Clock,
  ) {
    const { database } = store;
    this.#statements = {
      current: database.prepare<Row, [string, number, number]>(
        `SELECT id, grant_nano, starts_at, ends_at FROM ledger_account
         WHERE kind = 'window' AND owner = ? AND ends_at > ? AND starts_at <= ? ORDER BY ends_at DESC LIMIT 1`,
      ),
      left: database.prepare<{ id: string; posted: bigint }, [string, number]>(
        "SELECT id, posted FROM ledger_account WHERE kind = 'window' AND owner = ? AND ends_at <= ? AND posted > 0",
      ),
      emptied: database.prepare<{ amount: bigint | null }, { owner: string; id: string }>(
        `SELECT sum(CASE WHEN debit = :id THEN amount ELSE -amount END) AS amount FROM ledger_entry
         WHERE owner = :owner AND kind = 'expire' AND kind NOT IN ('usage', 'usage_partial') AND :id IN (debit, credit)`,
      ),
      insert: database.prepare(
        `INSERT INTO ledger_account (id, kind, owner, grant_nano, starts_at, ends_at) VALUES (?, 'window', ?, ?, ?, ?)`,
      ),
      raise: database.prepare("UPDATE ledger_account SET grant_nano = ? WHERE id = ?"),
      journaled: database.prepare<{ total: bigint }, [string]>(
        "SELECT coalesce(sum(window_nano), 0) AS total FROM ledger_hold WHERE window_id = ?",
      ),
    };
  }

  /** The window that is open now, as the store has it; undefined between two windows. */
  find(accountId: string): Window | undefined {
    const now = this.clock.now();
    const row = this.#statements.current.get(accountId, now, now + CLOCK_SLIP_MS);
    return row ? toWindow(row) : undefined;
  }

  /** The open window, where memory knows one that gives as much as the plan does: the way of every request but the first. */
  known(accountId: string, grantNano: bigint): Window | undefined {
    const window = this.#known.get(accountId);
    if (!window || window.grantNano < grantNano) return undefined;
    const now = this.clock.now();
    return now < window.endsAt && window.startsAt <= now + CLOCK_SLIP_MS ? window : undefined;
  }

  /** What requests hold of a window, nano-USD: of a process that does not serve, the journal is all it knows of that. */
  held({ id }: Window): bigint {
    return most(this.funds.running(id), this.#statements.journaled.get(id)?.total ?? 0n);
  }

  /** Is `window` still the one in which new requests are held? */
  isOpen(window: Window): boolean {
    return this.clock.now() < window.endsAt;
  }

  /** The open window; opened, or raised to a better plan's grant, where need be. Rejects as the writer does. */
  open(accountId: string, grantNano: bigint): Promise<Window> {
    const opening = this.#opening.get(accountId);
    if (opening) return opening;
    const opened = this.writer
      .run(() => this.#open(accountId, grantNano))
      .then((window) => {
        if (this.#known.size >= MAX_KNOWN) this.#known.clear();
        this.#known.set(accountId, window);
        return window;
      })
      .finally(() => this.#opening.delete(accountId));
    this.#opening.set(accountId, opened);
    return opened;
  }

  #open(accountId: string, grantNano: bigint): Window {
    const window = this.find(accountId);
    const now = this.clock.now();
    if (window) {
      this.#refill(accountId, window, now);
      return this.#raise(accountId, window, grantNano);
    }
    for (const { id, posted } of this.#statements.left.all(accountId, now)) {
      // A request of that window is still running: what it leaves is taken when the next window opens.
      if (this.funds.running(id) > 0n) continue;
      this.entries.append({
        ...{ atMs: now, kind: "expire", debit: id, credit: HOUSE.plan, amountNano: posted, owner: accountId },
      });
    }
    const id = `window:${accountId}:${now}`;
    this.#statements.insert.run(id, accountId, grantNano, now, now + WINDOW_MS);
    this.#grant(accountId, id, grantNano, grantNano);
    return { id, grantNano, startsAt: now, endsAt: now + WINDOW_MS };
  }

  /** A window that is open was emptied for the next one by a clock that stood ahead: it has again what was taken. */
  #refill(accountId: string, { id }: Window, now: number): void {
    const amountNano = this.#statements.emptied.get({ owner: accountId, id })?.amount ?? 0n;
    if (amountNano <= 0n) return;
    this.entries.append({
      ...{ atMs: now, kind: "expire", debit: HOUSE.plan, credit: id, amountNano, owner: accountId },
    });
  }

  /** On a better plan the open window is filled up to what that plan gives; on a lesser one it stays as it is until its end. */
  #raise(accountId: string, window: Window, grantNano: bigint): Window {
    if (grantNano <= window.grantNano) return window;
    this.#statements.raise.run(grantNano, window.id);
    this.#grant(accountId, window.id, grantNano - window.grantNano, grantNano);
    return { ...window, grantNano };
  }

  #grant(accountId: string, id: string, amountNano: bigint, total: bigint): void {
    const reference = `grant:${id}:${total}`;
    const entry = { atMs: this.clock.now(), kind: "grant", debit: HOUSE.plan, credit: id, amountNano } as const;
    this.entries.append({ ...entry, owner: accountId, reference });
  }
}
