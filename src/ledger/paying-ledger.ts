import { GatewayError } from "../canon/errors.ts";
import type { Clock } from "../lib/clock.ts";
import { type Deposits, depositRequired } from "./deposits.ts";
import type { Funds } from "./funds.ts";
import type { Hold, HoldRequest, Ledger, ModelPrices, Payment } from "./ledger.ts";
import { Legs } from "./legs.ts";
import { type Desk, PaidHold } from "./paid-hold.ts";
import { isFree, type Prices } from "./price.ts";
import type { PriceBook } from "./price-book.ts";
import { firstSlice, loosen } from "./slice.ts";
import type { Window, Windows } from "./windows.ts";

export type PayingLedgerParts = Desk & {
  clock: Clock;
  funds: Funds;
  windows: Windows;
  deposits: Deposits;
  priceBook: PriceBook;
  /** Where requests go that nobody pays for. */
  counted: Ledger;
};

/** What is known of a paid request when its money is looked for. */
type Terms = { prices: Prices; payment: Payment; priceId: number; window: Window | undefined };

/**
 * The ledger for everyone: accounts whose plan pays have money set aside, from the plan's window first and then from the wallet; all others
 * are counted. A hold is decided in memory and at once; {@link Funds} says why nothing has to be written before.
 */
export class PayingLedger implements Ledger {
  constructor(private readonly parts: PayingLedgerParts) {}

  hold(request: HoldRequest): Hold | Promise<Hold> {
    return request.payment ? this.#holdPaid(request, request.payment) : this.parts.counted.hold(request);
  }

  #holdPaid(request: HoldRequest, payment: Payment): Hold | Promise<Hold> {
    const { prices: priced, accountId, model } = request;
    const { counted, deposits, priceBook, windows, pen } = this.parts;
    if (!priced) {
      const text = `No price is known for the model ${model}, so it cannot be paid for.`;
      throw new GatewayError("model_unpriced", text, { param: "model" });
    }
    if (payment.premium && !deposits.has(accountId)) throw depositRequired(model);
    const { prices } = priced;
    if (isFree(prices)) return counted.hold(request);
    const { windowNano } = payment;
    const priceId = priceBook.known(priced);
    const window = windowNano > 0n ? windows.known(accountId, windowNano) : undefined;
    const isKnown = priceId !== undefined && (windowNano === 0n || window !== undefined);
    // What was written down before need not be waited for.
    if (!pen.failed && isKnown) return this.#reserve(request, { prices, payment, priceId, window });
    return this.#holdAnew(request, payment, priced);
  }

  /** For prices and windows that are not in the books yet, or books that could not be written. */
  async #holdAnew(request: HoldRequest, payment: Payment, priced: ModelPrices): Promise<Hold> {
    const { priceBook, windows, pen } = this.parts;
    const { accountId } = request;
    if (pen.failed) await pen.prove();
    const priceId = await priceBook.ensure(priced);
    const { windowNano } = payment;
    const window =
      windowNano > 0n
        ? (windows.known(accountId, windowNano) ?? (await windows.open(accountId, windowNano)))
        : undefined;
    return this.#reserve(request, { prices: priced.prices, payment, priceId, window });
  }

  /** Nothing in here waits: what is found free is what is taken. */
  #reserve(request: HoldRequest, { prices, payment, priceId, window }: Terms): Hold {
    const { clock, funds, windows, journal } = this.parts;
    const estimatedInput = request.estimateInput();
    const legs = new Legs(request.accountId, window, windows, funds);
    const { maxOutputTokens, choices } = request;
    const whole = { prices, payment, estimatedInput, maxOutputTokens, choices };
    const wish = loosen(whole, legs.free());
    const slice = firstSlice(wish, legs.free());
    if ("affordableOutput" in slice) throw refusal(slice.affordableOutput, window?.endsAt);
    legs.reach(slice.nano);
    const hold = new PaidHold({ request, wish, slice, legs, priceId, createdAt: clock.now() }, this.parts);
    journal.note(hold);
    return hold;
  }
}

/** Contract 6: 402, before anything is sent upstream; never worth repeating as it stands. */
function refusal(affordable: number, windowEndsAt: number | undefined): GatewayError {
  const window =
    windowEndsAt === undefined ? "" : ` The plan's spending window ends at ${new Date(windowEndsAt).toISOString()}.`;
  const text = `The account's balance does not pay for this request: it pays for ${affordable} output tokens beside its input.${window}`;
  return new GatewayError("insufficient_quota", text, { extra: { affordable_output_tokens: affordable } });
}
