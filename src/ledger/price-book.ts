import type { Store } from "../db/open.ts";
import type { Writer } from "../db/writer.ts";
import type { Clock } from "../lib/clock.ts";
import type { PriceRow } from "./book.ts";
import type { ModelPrices } from "./ledger.ts";
import type { Prices, Rates } from "./price.ts";
import { readTiers, writeTiers } from "./price-text.ts";

type Row = {
  id: bigint;
  model: string;
  since_ms: bigint;
  input: bigint;
  output: bigint;
  cache_read: bigint | null;
  cache_write: bigint | null;
  cache_write_long: bigint | null;
  tiers: string;
};

const COLUMNS = "id, model, since_ms, input, output, cache_read, cache_write, cache_write_long, tiers";

/** Models whose last prices are remembered. */
const MAX_LAST = 10_000;

function areRatesEqual(first: Rates, second: Rates): boolean {
  return (
    first.input === second.input &&
    first.output === second.output &&
    first.cacheRead === second.cacheRead &&
    first.cacheWrite === second.cacheWrite &&
    first.cacheWriteLong === second.cacheWriteLong
  );
}

function arePricesEqual(first: Prices, second: Prices): boolean {
  const { tiers = [] } = first;
  const { tiers: others = [] } = second;
  if (!areRatesEqual(first, second) || tiers.length !== others.length) return false;
  return tiers.every((tier, at) => {
    const other = others[at];
    return other !== undefined && tier.above === other.above && areRatesEqual(tier, other);
  });
}

function toPrices(row: Row): Prices {
  const tiers = readTiers(JSON.parse(row.tiers));
  return {
    input: row.input,
    output: row.output,
    ...(row.cache_read !== null && { cacheRead: row.cache_read }),
    ...(row.cache_write !== null && { cacheWrite: row.cache_write }),
    ...(row.cache_write_long !== null && { cacheWriteLong: row.cache_write_long }),
    ...(tiers.length > 0 && { tiers }),
  };
}

/** The prices that were ever charged, so that every charge can be recomputed years later (reliability 3.1 rule 3). */
export class PriceBook {
  readonly #ids = new WeakMap<ModelPrices, number>();
  /** The last prices of each model: some entries of the catalog are made anew for every request. */
  readonly #last = new Map<string, { prices: Prices; id: number }>();
  readonly #newest;
  readonly #byId;
  readonly #insert;

  constructor(
    store: Store,
    private readonly writer: Writer,
    private readonly clock: Clock,
  ) {
    const { database } = store;
    this.#newest = database.prepare<Row, [string]>(
      `SELECT ${COLUMNS} FROM price WHERE model = ? ORDER BY id DESC LIMIT 1`,
    );
    this.#byId = database.prepare<Row, [number]>(`SELECT ${COLUMNS} FROM price WHERE id = ?`);
    this.#insert = database.prepare(
      `INSERT INTO price (model, since_ms, input, output, cache_read, cache_write, cache_write_long, tiers)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    );
  }

  /** The id of these prices, if this process has asked for it before. */
  known(prices: ModelPrices): number | undefined {
    const id = this.#ids.get(prices);
    if (id !== undefined) return id;
    const last = this.#last.get(prices.model);
    if (!last || !arePricesEqual(last.prices, prices.prices)) return undefined;
    this.#ids.set(prices, last.id);
    return last.id;
  }

  /** The id of these prices; they are written down where they differ from the model's last ones. Durable when it resolves. */
  async ensure(prices: ModelPrices): Promise<number> {
    const id = this.known(prices) ?? (await this.writer.run(() => this.#write(prices)));
    this.#ids.set(prices, id);
    if (this.#last.size >= MAX_LAST) this.#last.clear();
    this.#last.set(prices.model, { prices: prices.prices, id });
    return id;
  }

  #write({ model, prices }: ModelPrices): number {
    const { input, output, cacheRead = null, cacheWrite = null, cacheWriteLong = null, tiers = [] } = prices;
    const newest = this.#newest.get(model);
    if (newest && arePricesEqual(toPrices(newest), prices)) return Number(newest.id);
    const since = this.clock.now();
    const rates = [input, output, cacheRead, cacheWrite, cacheWriteLong] as const;
    return Number(this.#insert.run(model, since, ...rates, JSON.stringify(writeTiers(tiers))).lastInsertRowid);
  }

  /** The price of this id; undefined when it was never given out. */
  find(id: number): PriceRow | undefined {
    const row = this.#byId.get(id);
    return row ? { id, model: row.model, sinceMs: Number(row.since_ms), prices: toPrices(row) } : undefined;
  }

  /** {@link find} for who goes through many rows at one time: each price is read once, and a later pass reads anew. */
  finder(): (id: number) => PriceRow | undefined {
    const found = new Map<number, PriceRow | undefined>();
    return (id) => {
      if (found.has(id)) return found.get(id);
      if (found.size >= MAX_LAST) found.clear();
      const price = this.find(id);
      found.set(id, price);
      return price;
    };
  }
}
