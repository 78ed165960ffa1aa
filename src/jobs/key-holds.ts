import type { Claim } from "../ledger/book.ts";
import type { KeyClaim, KeySpend } from "../limits/key-spend.ts";

type Paid = Pick<Claim, "claimId" | "keyId" | "paid" | "unitNano">;

/** Money of keys with caps that is set aside for images under way: without it several jobs at a time would pass a cap together (contract 4). */
export class KeyHolds {
  readonly #held = new Map<string, KeyClaim>();

  constructor(private readonly spend: KeySpend) {}

  /** Sets aside what a job may cost. Throws GatewayError (allowance_exhausted, insufficient_quota) where its key's caps leave less. */
  take(claim: Paid): void {
    this.#hold(claim, "secure");
  }

  /** {@link take} of a job that was let in before this process began. */
  restore(claim: Paid): void {
    this.#hold(claim, "reach");
  }

  #hold({ claimId, keyId, paid, unitNano }: Paid, how: "secure" | "reach"): void {
    const account = paid > 0 ? this.spend.of(keyId) : undefined;
    if (!account) return;
    // An operation of the writer may be run again.
    this.end(claimId);
    const held = account.claim(0, 0n);
    // Kept before the money is set aside: where that throws, the caller ends it.
    this.#held.set(claimId, held);
    held[how](BigInt(paid) * unitNano);
  }

  /** The job has ended, or was not let in. What it cost is counted by whoever ended it. */
  end(jobId: string): void {
    this.#held.get(jobId)?.release();
    this.#held.delete(jobId);
  }
}
