import { GatewayError } from "../canon/errors.ts";
import type { Beside, Charge, Hold, HoldRequest, Ledger, Payment, Reading, Settlement } from "../ledger/ledger.ts";
import { isFree, type Prices } from "../ledger/price.ts";
import {
  ceilingOf,
  firstOutput,
  firstSlice,
  growAt,
  loosen,
  nextSlice,
  type Slice,
  type SliceWish,
  withCall,
} from "../ledger/slice.ts";
import type { KeyAccount, KeyClaim, KeySpend } from "./key-spend.ts";

/** What a key's caps want to know of a request nobody said more about. */
const plainTerms = (stream: boolean): Payment => ({ windowNano: 0n, premium: false, sliced: stream, unseenOutput: 0 });

/**
 * A ledger before which keys with caps are asked (contract 4): how many requests a day, and what they cost, whether their account pays for it
 * or is only counted. The money of a request is set aside in the same slices as an account's, so a cap is kept while a reply streams.
 */
export class CappedLedger implements Ledger {
  constructor(
    private readonly inner: Ledger,
    private readonly spend: KeySpend,
  ) {}

  /**
   * Throws as the ledger behind it; beside that GatewayError: allowance_exhausted when the day's cap is reached, insufficient_quota when
   * the cap for all time is, model_unpriced for a key with a cap in money and a model without a price.
   */
  hold(request: HoldRequest): Hold | Promise<Hold> {
    const account = this.spend.of(request.keyId);
    return account === undefined ? this.inner.hold(request) : this.#holdCapped(request, account);
  }

  async #holdCapped(request: HoldRequest, account: KeyAccount): Promise<Hold> {
    const prices = request.prices?.prices;
    const slices = account.capsMoney ? beginSlices(request, account, prices) : undefined;
    const requests = request.requests ?? 1;
    const claim = account.claim(requests, slices?.slice.nano ?? 0n);
    const ceiling = slices && ceilingOf(slices.wish, slices.slice);
    try {
      // The ceiling that the key's money sets is told the vendor and also the ledger, which then charges for no more, even where the vendor makes more.
      const inner = await this.inner.hold(ceiling === undefined ? request : { ...request, maxOutputTokens: ceiling });
      return new CappedHold(inner, { account, claim, requests, slices, ceiling });
    } catch (thrown) {
      claim.release();
      throw thrown;
    }
  }
}

type Slices = { wish: SliceWish; slice: Slice };

/** The first slice of a key's money. Undefined for a model that costs nothing. */
function beginSlices(request: HoldRequest, account: KeyAccount, prices: Prices | undefined): Slices | undefined {
  if (!prices) {
    const text = `No price is known for the model ${request.model}, and this key is capped by what it costs.`;
    throw new GatewayError("model_unpriced", text, { param: "model" });
  }
  if (isFree(prices)) return undefined;
  const payment = request.terms ?? request.payment ?? plainTerms(request.stream);
  const whole: SliceWish = {
    prices,
    payment,
    estimatedInput: request.estimateInput(),
    maxOutputTokens: request.maxOutputTokens,
    choices: request.choices,
  };
  const wish = loosen(whole, account.freeNano);
  const slice = firstSlice(wish, account.freeNano);
  if ("affordableOutput" in slice) throw account.refuseMoney(slice.affordableOutput);
  return { wish, slice };
}

type CappedParts = {
  account: KeyAccount;
  claim: KeyClaim;
  requests: number;
  slices: Slices | undefined;
  /** What the key's money lets the vendor be told of each reply, where that is less than was asked for. */
  ceiling: number | undefined;
};

/** An account's hold with a key's claim beside it: whichever has less decides. */
class CappedHold implements Hold {
  readonly ceiling: number | undefined;
  readonly short: boolean;
  readonly asStream: boolean;
  #ownGrowAt = Number.POSITIVE_INFINITY;
  #grown = 0;

  constructor(
    private readonly inner: Hold,
    private readonly parts: CappedParts,
  ) {
    const { slices, ceiling } = parts;
    this.ceiling = ceiling === undefined ? inner.ceiling : Math.min(ceiling, inner.ceiling ?? ceiling);
    this.asStream = inner.asStream || slices?.wish.payment.sliced === true;
    this.short = inner.short || (slices !== undefined && slices.slice.output < firstOutput(slices.wish));
    if (!slices) return;
    this.#grown = slices.slice.output;
    this.#ownGrowAt = growAt(slices.wish, slices.slice);
  }

  get growAt(): number {
    return Math.min(this.inner.growAt, this.#ownGrowAt);
  }

  extend(reading: Reading): boolean | Promise<boolean> {
    const own = reading.output <= this.#ownGrowAt || this.#extendOwn(reading);
    // What has ended is paid all the same.
    if (!own && !reading.ended) return false;
    return reading.output > this.inner.growAt ? this.inner.extend(reading) : true;
  }

  #extendOwn({ output, ended }: Reading): boolean {
    const { slices, account, claim } = this.parts;
    if (!slices) return true;
    const next = nextSlice(slices.wish, slices.slice, this.#grown, account.freeNano, ended && output);
    if (!next) return false;
    claim.reach(next.nano);
    if (!ended) this.#grown = next.output - slices.slice.output;
    slices.slice = next;
    this.#ownGrowAt = growAt(slices.wish, next);
    return true;
  }

  async absorb(beside: Hold): Promise<void> {
    const other = beside instanceof CappedHold ? beside : undefined;
    if (other) this.parts.claim.join(other.parts.claim);
    const { slices } = this.parts;
    if (slices) {
      slices.wish = withCall(slices.wish);
      this.#ownGrowAt = growAt(slices.wish, slices.slice);
    }
    const inner = other ? other.inner : beside;
    await (this.inner.absorb ? this.inner.absorb(inner) : inner.release());
  }

  settle(settlement: Settlement): Promise<Charge> {
    return this.#counted((beside) => this.inner.settle(settlement, beside));
  }

  release(): Promise<void> {
    this.parts.claim.release();
    return this.inner.release();
  }

  /** As after a crash: what the account pays is decided by its own hold, and counts for the key as well. */
  async abandon(): Promise<Charge | undefined> {
    const { inner } = this;
    return this.#counted(async (beside) => {
      if (inner.abandon) return inner.abandon(beside);
      await inner.release();
      return undefined;
    });
  }

  /** The key's count is written by the operation that charges the request: a process that dies leaves both or neither. Until that is on the disk the claim stands. */
  async #counted<T>(end: (beside: Beside) => Promise<T>): Promise<T> {
    const { claim, requests } = this.parts;
    const told: (() => void)[] = [];
    try {
      const charge = await end((costNano) => told.push(claim.countBeside(requests, costNano)));
      told.at(-1)?.();
      return charge;
    } finally {
      claim.release();
    }
  }
}
