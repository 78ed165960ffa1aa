import type { Clock } from "../lib/clock.ts";

/** How a vendor fared since the start. Times are Unix ms. */
export type VendorRecord = {
  served: number;
  failed: number;
  lastServedAt: number | undefined;
  lastFailedAt: number | undefined;
  lastError: string | undefined;
  /** When the failures in a row began; undefined while it answers. */
  failingSince: number | undefined;
};

/** Counts what became of calls to vendors, for the operator (contract 3). One record for each vendor that is switched on. */
export class VendorHealth {
  readonly #records = new Map<string, VendorRecord>();

  constructor(private readonly clock: Clock) {}

  /** A call brought an answer. */
  served(vendorId: string): void {
    const record = this.of(vendorId);
    record.served++;
    record.lastServedAt = this.clock.now();
    record.failingSince = undefined;
  }

  /** A call failed by the vendor's doing; `code` is the error's (contract 6). */
  failed(vendorId: string, code: string): void {
    const record = this.of(vendorId);
    const now = this.clock.now();
    record.failed++;
    record.lastFailedAt = now;
    record.lastError = code;
    record.failingSince ??= now;
  }

  /** A vendor's record. */
  of(vendorId: string): VendorRecord {
    let record = this.#records.get(vendorId);
    if (!record) {
      record = {
        ...{ served: 0, failed: 0, lastServedAt: undefined, lastFailedAt: undefined },
        ...{ lastError: undefined, failingSince: undefined },
      };
      this.#records.set(vendorId, record);
    }
    return record;
  }
}
