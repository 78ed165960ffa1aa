/** Most proofs of which it is remembered who made them; the one noted longest ago goes first. Some 100 bytes each. */
const MAX_PROOFS = 50_000;

/** A number with which no one outside can look for two proofs of one digest. */
export const randomSeed = (): bigint => crypto.getRandomValues(new BigUint64Array(1))[0] ?? 0n;

/**
 * Which family of models made a proof of reasoning, where the proof does not tell and its client names no model when it brings it back
 * (dialects.md 2.9). Only digests are kept, since the last start. Processes that share what they know have one `seed`.
 */
export class ProofMakers {
  /** Told of everything that {@link note} notes: the proof's digest as text, and its maker. */
  onNote: ((proof: string, maker: string) => void) | undefined;
  readonly #makers = new Map<bigint, string>();

  constructor(
    private readonly most = MAX_PROOFS,
    readonly seed = randomSeed(),
  ) {}

  /** Notes who made a proof. */
  note(proof: string, maker: string): void {
    const key = this.#keyOf(proof);
    this.#keep(key, maker);
    this.onNote?.(String(key), maker);
  }

  /** Takes over what another process of the same seed has noted. */
  learn(digest: string, maker: string): void {
    this.#keep(BigInt(digest), maker);
  }

  #keep(key: bigint, maker: string): void {
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
    return Bun.hash.wyhash(proof, this.seed);
  }
}
