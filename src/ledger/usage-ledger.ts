import type { Writer } from "../db/writer.ts";
import type { Clock } from "../lib/clock.ts";
import type { Beside, Charge, Hold, HoldRequest, Ledger, Settlement } from "./ledger.ts";
import { costNano } from "./price.ts";
import type { PriceBook } from "./price-book.ts";
import { clampRounds } from "./settler.ts";
import { readFlags, toUsageRow, type UsageRows, writeFlags } from "./usage-rows.ts";

const SUSPECT = writeFlags(["usage_suspect"]);
/** The cap of a key ends replies of accounts that pay nothing, too. */
const RAN_OUT = writeFlags(["balance"]);

/** What a request comes to that was let go. */
export const NO_CHARGE: Charge = { costNano: undefined, chargedNano: 0n, metered: false };

/**
 * A ledger that lets everyone pass and writes down what was used: one row for each settled request, none for a released one. Where a price
 * is known, the row says what the request would have cost; nobody pays (plan `local`, contract 4).
 */
export class UsageLedger implements Ledger {
  constructor(
    private readonly writer: Writer,
    private readonly clock: Clock,
    private readonly priceBook: PriceBook,
    private readonly rows: UsageRows,
  ) {}

  /** Sets nothing aside. Rejects only as the writer does, when prices are seen for the first time and cannot be written down. */
  hold(request: HoldRequest): Hold | Promise<Hold> {
    const { prices } = request;
    const priceId = prices && this.priceBook.known(prices);
    if (!prices || priceId !== undefined) return new CountedHold(this, request, priceId);
    return this.priceBook.ensure(prices).then((id) => new CountedHold(this, request, id));
  }

  /** Resolves once the row is on the disk; rejects as the writer does, or when this request has a row already. */
  write(request: HoldRequest, settlement: Settlement, priceId: number | undefined, beside?: Beside): Promise<Charge> {
    const { contextLength = Number.POSITIVE_INFINITY, choices } = request;
    // Of the output, a model that cannot be kept from thinking makes more than was asked for: only its window says what cannot be.
    const asked = Number.POSITIVE_INFINITY;
    const { usage, suspect, rounds } = clampRounds(settlement.usage, settlement, contextLength, asked, choices);
    const prices = request.prices?.prices;
    const cost = prices && costNano(usage, prices, rounds);
    const flags = (suspect ? SUSPECT : 0) | (settlement.ranOut ? RAN_OUT : 0);
    const billing = { priceId: priceId ?? null, costNano: cost ?? null, chargedNano: 0n, flags };
    const row = toUsageRow(request, suspect ? { ...settlement, usage } : settlement, this.clock.now(), billing);
    const insert = () => {
      this.rows.insert(row);
      if (rounds && prices) this.rows.keepRounds(request.requestId, usage, rounds, prices);
      beside?.(cost ?? 0n);
      this.rows.count(row);
      const charge = { costNano: cost, chargedNano: 0n, metered: request.payment !== undefined };
      return flags === 0 ? charge : { ...charge, flags: readFlags(flags), ...(suspect && { believed: usage }) };
    };
    return rounds || beside ? this.writer.run(insert) : this.writer.runSingle(insert);
  }
}

class CountedHold implements Hold {
  readonly ceiling = undefined;
  readonly short = false;
  readonly asStream = false;
  readonly growAt = Number.POSITIVE_INFINITY;
  #settled: Promise<Charge> | undefined;
  #released = false;

  constructor(
    private readonly ledger: UsageLedger,
    private readonly request: HoldRequest,
    private readonly priceId: number | undefined,
  ) {}

  extend(): boolean {
    return true;
  }

  /** A second settle writes nothing and waits for the first, so that "durable when it resolves" holds for both. */
  settle(settlement: Settlement, beside?: Beside): Promise<Charge> {
    if (!this.#released) this.#settled ??= this.ledger.write(this.request, settlement, this.priceId, beside);
    return this.#settled ?? Promise.resolve(NO_CHARGE);
  }

  release(): Promise<void> {
    this.#released ||= this.#settled === undefined;
    return Promise.resolve();
  }
}
