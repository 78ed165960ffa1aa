import { randomSeed } from "./seal.ts";

/** Most proofs of which it is remembered who made them; the one noted longest ago goes first. Some 100 bytes each. */
const MAX_PROOFS = 50_000;

/** Where it is kept who made which proof, so that it is known after a restart. */
export type MakersShelf = {
  /** The seed of the digests. It stays the same as long as what is kept. */
  readonly proofSeed: bigint;
  /** The newest `most` digests and their makers, oldest first. */
  makers(most: number): [digest: bigint, maker: string][];
  /** Keeps one and lets go of another. Absent where another process does. */
  keepMaker?(digest: bigint, maker: string, forgotten: bigint | undefined): void;
};

const NOWHERE: MakersShelf = { proofSeed: randomSeed(), makers: () => [] };

/**
 * Which family of models made a proof of reasoning, where the proof does not tell and its client names no model when it brings it back
 * (dialects.md 2.9). Only digests are kept. What was kept is read with the first proof that comes or goes, so that neither a start nor a
 * request without any waits for it. Processes that share what they know have one seed.
 */
export class ProofMakers {
  /** Told of everything that {@link note} notes: the proof's digest as text, and its maker. */
  onNote: ((proof: string, maker: string) => void) | undefined;
  #known: Map<bigint, string> | undefined;

  constructor(
    private readonly shelf: MakersShelf = NOWHERE,
    private readonly most = MAX_PROOFS,
  ) {}

  get seed(): bigint {
    return this.shelf.proofSeed;
  }

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
    const known = this.#read();
    known.delete(key);
    known.set(key, maker);
    const [oldest] = known.size > this.most ? known.keys() : [];
    if (oldest !== undefined) known.delete(oldest);
    this.shelf.keepMaker?.(key, maker, oldest);
  }

  /** What tells of a proof that another family than `maker` is known to have made it; undefined where no proof is known. */
  foreignTo(maker: string): ((proof: string) => boolean) | undefined {
    if (this.#known?.size === 0) return undefined;
    return (proof) => (this.#read().get(this.#keyOf(proof)) ?? maker) !== maker;
  }

  /** What tells of a proof that family `maker` is known to have made it; undefined where no proof is known. */
  madeBy(maker: string): ((proof: string) => boolean) | undefined {
    if (this.#known?.size === 0) return undefined;
    return (proof) => this.#read().get(this.#keyOf(proof)) === maker;
  }

  #read(): Map<bigint, string> {
    this.#known ??= new Map(this.shelf.makers(this.most));
    return this.#known;
  }

  /** As SQLite counts: with a sign. */
  #keyOf(proof: string): bigint {
    return BigInt.asIntN(64, Bun.hash.wyhash(proof, this.seed));
  }
}
