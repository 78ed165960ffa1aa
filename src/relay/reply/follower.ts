import type { Event } from "../../canon/events.ts";
import type { Exchange } from "../exchange.ts";
import type { Spending, Untold } from "../spending.ts";

/**
 * Follows a reply that comes as a stream and goes on whole, so that its meter and its money see it as it is made: what it came to is known
 * when it is cut off, and it can be ended when its money is used up (reliability 3.5 #4).
 */
export class Follower {
  /** The meter has the reply's events already. */
  heard = false;

  constructor(private readonly exchange: Exchange) {}

  /** What watches the reply's money, if anything does. */
  get spending(): Spending | undefined {
    return this.exchange.spending;
  }

  /** Takes the next events, those of a record; false: the reply is to be ended with {@link ending}. A promise where money is asked for in another process. */
  take(events: readonly Event[], untold?: Untold): boolean | Promise<boolean> {
    const { meter, spending } = this.exchange;
    this.heard = true;
    meter.take(events);
    spending?.take(events, untold);
    if (spending?.asked) return spending.asked.then(() => !spending.exhausted);
    return spending?.exhausted !== true;
  }

  /** {@link Exchange.runOut} */
  ending(): Event[] {
    return this.exchange.runOut();
  }

  /** The attempt has failed, and nothing of it reached the client: nothing of it is paid for. */
  forget(): void {
    if (this.heard) this.exchange.forgetReply();
    this.heard = false;
  }
}
