/** Most proofs of which it is remembered who made them; the one noted longest ago goes first. Some 100 bytes each. */
const MAX_PROOFS = 50_000;

/**
 * Which family of models made a proof of reasoning, where the proof does not tell and its client names no model when it brings it back
 * (dialects.md 2.9). Only digests are kept, since the last start.
 */
export class ProofMakers {
  readonly #makers = new Map<bigint, string>();
  /** Nobody outside can look for two proofs of one digest. */
  readonly #seed = crypto.getRandomValues(new BigUint64Array(1))[0] ?? 0n;

  constructor(private readonly most = MAX_PROOFS) {}

  /** Notes who made a proof. */
  note(proof: string, maker: string): void {
    const key = this.#keyOf(proof);
    this.#makers.delete(key);
    this.#makers.set(key, maker);
    if (this.#makers.size <= this.most) return;
    for (const oldest of this.#makers.keys()) {
      this.#makers.delete(oldest);
      break;
    }
  }

  /** What tells of a proof that another family than `maker` is known to have made it; undefined where no proof is known. */
  foreignTo(maker: string): ((proof: string) => boolean) | undefined {
    if (this.#makers.size === 0) return undefined;
    return (proof) => (this.#makers.get(this.#keyOf(proof)) ?? maker) !== maker;
  }

  #keyOf(proof: string): bigint {
    return Bun.hash.wyhash(proof, this.#seed);
  }
}
