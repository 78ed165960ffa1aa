import { asc, eq, or } from "drizzle-orm";
import type { Store } from "../db/open.ts";
import { account } from "../db/schema.ts";
import type { Writer } from "../db/writer.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { newId } from "../lib/id.ts";
import { AccountError } from "./account-error.ts";
import type { CreatedKey, Keys, NewKey } from "./keys.ts";
import { checkName } from "./name.ts";

/** Name and plan of the account that the first start makes (contract 1 and 4), and for which keys are made where none is named. */
export const LOCAL = "local";

export type Account = { id: string; name: string; plan: string; createdAt: number };

/** The accounts of this store. It does not know the plans: its callers check that a plan exists. */
export class Accounts {
  /** Whether an API key was ever made, in force now or not. It was shown then, and the first start makes no other. */
  static hadApiKey(store: Store): boolean {
    // Written so that the index on (kind = 'token') is used.
    const keys = "select id from api_key where (kind = 'token') = 0 and kind = ? limit 1";
    return store.database.query(keys).get("api") !== null;
  }

  /** How many accounts are on each plan, by the plan's id. */
  static countByPlan(store: Store): ReadonlyMap<string, number> {
    // Plain SQL: this runs at every start, and the first use of the query builder would cost it 2 ms.
    const rows = store.database.query("select plan, count(*) from account group by plan").values();
    return new Map(rows.map(([plan, many]) => [String(plan), Number(many)]));
  }

  constructor(
    private readonly store: Store,
    private readonly writer: Writer,
    private readonly keys: Keys,
    private readonly clock: Clock = systemClock,
  ) {}

  /** Makes an account. Throws AccountError when the name is taken or not valid (see {@link checkName}). */
  create(wanted: { name: string; plan: string }): Promise<Account> {
    return this.writer.run(() => this.#insert(wanted));
  }

  #insert({ name: given, plan }: { name: string; plan: string }): Account {
    const name = checkName(given, "An account's");
    if (this.find(name)) throw new AccountError(`There already is an account ${name}.`, "name");
    const row = { id: newId("acct"), name, plan, createdAt: this.clock.now() };
    this.store.query.insert(account).values(row).run();
    return row;
  }

  /** All accounts, oldest first. */
  list(): Account[] {
    return this.store.query.select().from(account).orderBy(asc(account.createdAt), asc(account.id)).all();
  }

  /** The account of this id or name. */
  find(idOrName: string): Account | undefined {
    const fits = or(eq(account.id, idOrName), eq(account.name, idOrName));
    return this.store.query.select().from(account).where(fits).get();
  }

  /** Puts an account on another plan; its keys carry it from the next request on. Throws AccountError when there is no such account. */
  async setPlan(idOrName: string, plan: string): Promise<Account> {
    const changed = await this.writer.run(() => {
      const found = this.find(idOrName);
      if (!found) throw new AccountError(`There is no account ${idOrName}.`);
      this.store.query.update(account).set({ plan }).where(eq(account.id, found.id)).run();
      return { ...found, plan };
    });
    this.keys.reload();
    return changed;
  }

  /**
   * The first start: when no API key was ever made, makes one for `local`, and `local` on plan `local` where it is not there yet, both or neither, and returns
   * them; the key is shown this once (contract 1). Returns undefined on every later start. Throws AccountError, and makes nothing, where `key` is not valid.
   */
  async ensureLocal(
    key: Omit<NewKey, "accountId"> = { name: LOCAL, kind: "api" },
  ): Promise<{ account: Account; key: CreatedKey } | undefined> {
    const made = await this.writer.run(() => {
      // Checked inside the transaction, so that two first starts at once make one account.
      if (Accounts.hadApiKey(this.store)) return undefined;
      const local = this.find(LOCAL) ?? this.#insert({ name: LOCAL, plan: LOCAL });
      return { account: local, key: this.keys.insert({ accountId: local.id, ...key }) };
    });
    if (made) this.keys.reload();
    return made;
  }
}
