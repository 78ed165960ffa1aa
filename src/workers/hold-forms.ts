import type { Charge, Hold, HoldRequest, ModelPrices, Payment } from "../ledger/ledger.ts";
import {
  readRates,
  readTiers,
  type WrittenRates,
  type WrittenTier,
  writeRates,
  writeTiers,
} from "../ledger/price-text.ts";
import type { ChargeForm, HoldForm, HoldOrder, PaymentForm } from "./messages.ts";

/** Most prices that {@link PriceReader} remembers; a gateway has some hundreds. */
const MAX_PRICES = 10_000;

type PricesForm = { model: string; rates: WrittenRates; tiers: readonly WrittenTier[] };

const written = new WeakMap<ModelPrices, string>();

/** Prices as a text that is the same for equal ones. */
function writePrices(priced: ModelPrices): string {
  let text = written.get(priced);
  if (text === undefined) {
    const { tiers = [], ...rates } = priced.prices;
    const form: PricesForm = { model: priced.model, rates: writeRates(rates), tiers: writeTiers(tiers) };
    text = JSON.stringify(form);
    written.set(priced, text);
  }
  return text;
}

/** Reads prices. Equal texts give the very same object, since other parts remember what belongs to a price by its identity. */
export class PriceReader {
  readonly #known = new Map<string, ModelPrices>();

  read(text: string): ModelPrices {
    const known = this.#known.get(text);
    if (known) return known;
    const { model, rates, tiers }: PricesForm = JSON.parse(text);
    const prices = { ...readRates(rates), ...(tiers.length > 0 && { tiers: readTiers(tiers) }) };
    if (this.#known.size >= MAX_PRICES) this.#known.clear();
    const read = { model, prices };
    this.#known.set(text, read);
    return read;
  }
}

const writePayment = (payment: Payment | undefined): PaymentForm | null =>
  payment === undefined ? null : { ...payment, windowNano: String(payment.windowNano) };

const readPayment = (form: PaymentForm): Payment => ({ ...form, windowNano: BigInt(form.windowNano) });

/** The input of a hold request was not estimated, and is asked for: its key was capped after its worker had let it in. */
export class Unestimated extends Error {
  override readonly name = "Unestimated";
}

/**
 * A hold request as it crosses. The input is estimated only where money is to be set aside, because estimating is the most expensive part of a hold: for what
 * pays, for a key that has caps as far as is known here, and where `isAsked`, since the authority knows of caps.
 */
export function writeOrder(request: HoldRequest, isAsked = false): HoldOrder {
  const { estimateInput, prices, payment, terms, ...plain } = request;
  const isPriced = isAsked || payment !== undefined || terms !== undefined;
  return {
    ...plain,
    estimate: isPriced ? estimateInput() : null,
    prices: prices ? writePrices(prices) : null,
    payment: writePayment(payment),
    terms: writePayment(terms),
  };
}

/** The hold request that a worker has written. Its `estimateInput` throws {@link Unestimated} where the worker has not done that. */
export function readOrder({ estimate, prices, payment, terms, ...plain }: HoldOrder, reader: PriceReader): HoldRequest {
  return {
    ...plain,
    estimateInput() {
      if (estimate === null) throw new Unestimated();
      return estimate;
    },
    prices: prices === null ? undefined : reader.read(prices),
    payment: payment === null ? undefined : readPayment(payment),
    ...(terms !== null && { terms: readPayment(terms) }),
  };
}

/** `growAt` as it crosses: JSON has no infinity, which is written as null. */
export const writeGrowAt = (growAt: number): number | null => (growAt === Number.POSITIVE_INFINITY ? null : growAt);
/** {@link writeGrowAt} undone. */
export const readGrowAt = (growAt: number | null): number => growAt ?? Number.POSITIVE_INFINITY;

/** An open hold under the number that its worker will name it by. */
export function writeHold(id: number, { ceiling, asStream, short, growAt }: Hold): HoldForm {
  return { hold: id, ceiling: ceiling ?? null, asStream, short, growAt: writeGrowAt(growAt) };
}

/** A charge as it crosses: its amounts are text, since JSON cannot carry BigInt. */
export function writeCharge({ costNano, chargedNano, ...plain }: Charge): ChargeForm {
  return { ...plain, costNano: costNano === undefined ? null : String(costNano), chargedNano: String(chargedNano) };
}

/** What {@link writeCharge} wrote. */
export function readCharge({ costNano, chargedNano, ...plain }: ChargeForm): Charge {
  return { ...plain, costNano: costNano === null ? undefined : BigInt(costNano), chargedNano: BigInt(chargedNano) };
}
