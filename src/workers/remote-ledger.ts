import type { Charge, Hold, HoldRequest, Ledger, Reading, Settlement } from "../ledger/ledger.ts";
import { NO_CHARGE } from "../ledger/usage-ledger.ts";
import { readCharge, readGrowAt, writeOrder } from "./hold-forms.ts";
import type { Link } from "./link.ts";
import type { HoldForm } from "./messages.ts";

/** A worker's ledger: it passes everything on to the authority, where alone money is set aside and charges are written. */
export class RemoteLedger implements Ledger {
  constructor(private readonly link: Link) {}

  /** Throws as the authority's ledger does. */
  async hold(request: HoldRequest): Promise<Hold> {
    const held = await this.link.call("hold", writeOrder(request));
    // Asked for once: an order with an estimate is held or refused.
    const form = held ?? (await this.link.call("hold", writeOrder(request, true)));
    if (!form) throw new Error("The authority has held nothing.");
    return new RemoteHold(form, this.link);
  }
}

class RemoteHold implements Hold {
  readonly ceiling: number | undefined;
  readonly asStream: boolean;
  readonly short: boolean;
  growAt: number;
  readonly #id: number;
  #settled: Promise<Charge> | undefined;
  #released: Promise<void> | undefined;

  constructor(
    form: HoldForm,
    private readonly link: Link,
  ) {
    this.#id = form.hold;
    this.ceiling = form.ceiling ?? undefined;
    this.asStream = form.asStream;
    this.short = form.short;
    this.growAt = readGrowAt(form.growAt);
  }

  /** Never rejects: where the authority does not answer, nothing more is granted. */
  async extend(reading: Reading): Promise<boolean> {
    try {
      const { granted, growAt } = await this.link.call("extend", { hold: this.#id, reading });
      this.growAt = readGrowAt(growAt);
      return granted;
    } catch {
      // The authority is gone, and this process ends with it: the answer does not matter any more.
      return false;
    }
  }

  async absorb(beside: Hold): Promise<void> {
    if (beside instanceof RemoteHold) {
      // Where this hold has ended by then, the authority releases the other one.
      const growAt = await this.link.call("absorb", { hold: this.#id, beside: beside.#id });
      this.growAt = readGrowAt(growAt);
    } else await beside.release();
  }

  settle(settlement: Settlement): Promise<Charge> {
    if (this.#released) return Promise.resolve(NO_CHARGE);
    this.#settled ??= this.link.call("settle", { hold: this.#id, settlement }).then(readCharge);
    return this.#settled;
  }

  release(): Promise<void> {
    if (this.#settled) return Promise.resolve();
    this.#released ??= this.link.call("release", this.#id).then(() => undefined);
    return this.#released;
  }
}
