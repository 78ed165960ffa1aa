import type { Event } from "../canon/events.ts";
import type { Usage } from "../canon/usage.ts";
import type { Hold } from "../ledger/ledger.ts";
import { roughOutput } from "../ledger/meter.ts";
import { textEstimator } from "./tokens/estimate.ts";

/** Who serves the reply: noted with its hold, for the next start, should this process die. */
export type Server = { readonly vendor: string; readonly upstreamModel: string };

/** What a vendor has counted by one of its records, and no event has told. `goesOn`: the reply has not ended with it. */
export type Untold = { usage: Usage; goesOn: boolean };

/**
 * Watches what a reply under way costs, by the gateway's own estimate of its output or the vendor's count where that is ahead, and asks for
 * more money in time (contract 5). Only for replies that are paid for and stream: their text is looked at once more.
 */
export class Spending {
  /** There is no more money: the reply is to be ended. */
  exhausted = false;
  /** More money was asked for in another process; resolves when it is known whether there is some. Never rejects. */
  asked: Promise<void> | undefined;
  /** The vendor's count as of the last record that was taken, where no event has told it: paid, should the reply be ended behind it (contract 5). */
  untold: Usage | undefined;
  #seen = 0;
  /** Of the rounds before the one under way. */
  #before = 0;
  #estimated = 0;
  #rough = 0;
  readonly #estimate: (text: string) => number;

  constructor(
    private readonly hold: Hold,
    modelId: string,
    private readonly server: Server,
    /** Output of a reply that has begun by now. */
    begun = 0,
  ) {
    this.#seen = begun;
    this.#estimate = textEstimator(modelId);
  }

  /** An extension may be refused soon: the reply is read record by record, since it is ended behind one. */
  get isShort(): boolean {
    return this.hold.short;
  }

  /** Takes the next events of the reply, in their order: all those of a record. */
  take(events: readonly Event[], untold?: Untold): void {
    this.untold = untold?.usage;
    let goesOn = untold?.goesOn === true;
    if (untold) this.#see(untold.usage.output);
    for (const event of events) {
      if (event.type === "block-delta") {
        goesOn = true;
        this.#take(event.text);
      } else if (event.type === "usage") this.#see(event.usage.output);
    }
    if (this.#seen > this.hold.growAt && !this.asked) this.#grow(goesOn);
  }

  /** The larger of two estimates: the finer one, and the one that is charged where the vendor sends no counts. */
  #take(text: string): void {
    this.#rough += roughOutput(text);
    this.#estimated += this.#estimate(text);
    this.#see(Math.max(this.#estimated, this.#rough));
  }

  #see(output: number): void {
    this.#seen = Math.max(this.#seen, this.#before + output);
  }

  /** The attempt has failed, and nothing of it is paid: what follows is counted from the beginning. */
  forget(): void {
    this.untold = undefined;
    this.#seen = 0;
    this.#before = 0;
    this.#estimated = 0;
    this.#rough = 0;
  }

  /** The vendor is asked once more for the same reply: what follows is counted anew, and added. */
  nextRound(): void {
    this.untold = undefined;
    this.#before = this.#seen;
    this.#estimated = 0;
    this.#rough = 0;
  }

  /** The round under way has failed, and nothing of it is paid: what follows is counted from the end of the one before. */
  forgetRound(): void {
    this.#seen = this.#before;
    this.nextRound();
  }

  /** Asks for more money. `goesOn`: more text came. Counts alone come at a reply's end: that cannot be ended any sooner, and asks only for what it came to. */
  #grow(goesOn: boolean): void {
    const { vendor, upstreamModel } = this.server;
    const output = Math.ceil(this.#seen);
    // One step may have brought more than a slice.
    while (!this.exhausted && this.#seen > this.hold.growAt) {
      const granted = this.hold.extend({ vendor, upstreamModel, output, ...(!goesOn && { ended: true }) });
      if (granted instanceof Promise) {
        this.asked = this.#wait(granted, goesOn);
        return;
      }
      if (!granted) this.exhausted = goesOn;
      // What has ended asks for all that it came to at once.
      if (!granted || !goesOn) return;
    }
  }

  async #wait(granted: Promise<boolean>, goesOn: boolean): Promise<void> {
    const more = await granted;
    this.asked = undefined;
    if (!more) this.exhausted = goesOn;
    else if (goesOn) this.#grow(goesOn);
    // What came meanwhile may need a slice more.
    await this.asked;
  }
}
