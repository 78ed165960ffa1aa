import type { Writer } from "../db/writer.ts";
import type { HoldJournal, Journaled } from "./hold-journal.ts";
import type { Beside, Charge, Hold, HoldRequest, Reading, Settlement } from "./ledger.ts";
import type { Legs } from "./legs.ts";
import type { Pen } from "./pen.ts";
import type { Settler, Settling } from "./settler.ts";
import { ceilingOf, firstOutput, growAt, nextSlice, type Slice, type SliceWish, withCall } from "./slice.ts";
import { NO_CHARGE } from "./usage-ledger.ts";

/** Who does for a hold what it cannot do itself. */
export type Desk = { writer: Writer; journal: HoldJournal; settler: Settler; pen: Pen };

export type PaidHoldParts = {
  request: HoldRequest;
  wish: SliceWish;
  slice: Slice;
  legs: Legs;
  priceId: number;
  createdAt: number;
};

const NOTHING_READ: Reading = { vendor: "", upstreamModel: "", output: 0 };

/** Money of an account that pays, set aside for one request. */
export class PaidHold implements Hold, Journaled, Settling {
  readonly request: HoldRequest;
  wish: SliceWish;
  readonly legs: Legs;
  readonly priceId: number;
  readonly createdAt: number;
  readonly ceiling: number | undefined;
  readonly short: boolean;
  readonly asStream: boolean;
  growAt: number;
  reading = NOTHING_READ;
  closing = false;
  written = false;
  #slice: Slice;
  #grown: number;
  #settled: Promise<Charge> | undefined;
  #released: Promise<void> | undefined;

  constructor(
    parts: PaidHoldParts,
    private readonly desk: Desk,
  ) {
    const { request, wish, slice, legs, priceId, createdAt } = parts;
    this.request = request;
    this.wish = wish;
    this.legs = legs;
    this.priceId = priceId;
    this.createdAt = createdAt;
    this.#slice = slice;
    this.#grown = slice.output;
    this.ceiling = ceilingOf(wish, slice);
    this.asStream = wish.payment.sliced;
    this.short = slice.output < firstOutput(wish);
    this.growAt = growAt(wish, slice);
  }

  get estimatedInput(): number {
    return this.wish.estimatedInput;
  }

  get windowId(): string | undefined {
    return this.legs.windowId;
  }

  get windowNano(): bigint {
    return this.legs.windowNano;
  }

  get walletNano(): bigint {
    return this.legs.walletNano;
  }

  extend(reading: Reading): boolean {
    if (this.closing) return false;
    this.reading = reading;
    const { output, ended } = reading;
    const next = nextSlice(this.wish, this.#slice, this.#grown, this.legs.free(), ended && output);
    if (next) {
      this.legs.reach(next.nano);
      if (!ended) this.#grown = next.output - this.#slice.output;
      this.#slice = next;
      this.growAt = growAt(this.wish, next);
    }
    this.desk.journal.note(this);
    return next !== undefined;
  }

  /** In the same turn: nobody else finds the money free meanwhile. Resolves when nothing stands in the journal of the other one any more. */
  absorb(beside: Hold): Promise<void> {
    if (beside instanceof PaidHold && !this.closing) {
      this.legs.join(beside.legs);
      this.wish = withCall(this.wish);
      this.growAt = growAt(this.wish, this.#slice);
      this.desk.journal.note(this);
    }
    return beside.release();
  }

  settle(settlement: Settlement, beside?: Beside): Promise<Charge> {
    if (this.#released) return Promise.resolve(NO_CHARGE);
    this.#settled ??= this.#settle(settlement, beside);
    return this.#settled;
  }

  release(): Promise<void> {
    if (this.#settled) return Promise.resolve();
    this.#released ??= this.#release();
    return this.#released;
  }

  async #settle(settlement: Settlement, beside: Beside | undefined): Promise<Charge> {
    const { writer, journal, settler, pen } = this.desk;
    this.#close();
    try {
      return await writer.run(() => {
        if (this.written) journal.remove(this.request.requestId);
        const charge = settler.book(this, settlement, beside);
        // In the same step (reliability 3.3): to whoever is settled behind it in one commit, what this one held is either charged or free.
        this.legs.give();
        return charge;
      });
    } catch (thrown) {
      pen.note(thrown);
      journal.strike(this);
      throw thrown;
    } finally {
      // Not before, where nothing is charged either: until that is known, the money is held.
      this.legs.give();
    }
  }

  /** Without a row in the journal nothing has to be written: nobody ever knew. */
  async #release(): Promise<void> {
    const { writer, journal } = this.desk;
    this.#close();
    this.legs.give();
    if (!this.written) return;
    try {
      await writer.runSingle(() => journal.remove(this.request.requestId));
    } catch (thrown) {
      journal.strike(this);
      throw thrown;
    }
  }

  /** {@link Hold.abandon}: whoever was sent output that was told of pays; without such evidence nobody does, and the cost is the operator's. */
  async abandon(beside?: Beside): Promise<Charge | undefined> {
    const { writer, settler } = this.desk;
    if (this.reading.output > 0) return this.settle(settler.interruption(this), beside);
    const wasNoted = this.written;
    await this.release();
    if (wasNoted) await writer.run(() => settler.writeOff(this));
    return undefined;
  }

  #close(): void {
    this.closing = true;
    this.desk.journal.forget(this);
  }
}
