/** Longest proof that is taken back, characters; the vendor's own stay far below. */
const MAX_PROOF = 4 * 1024 * 1024;

/** Stands where the vendor demands a signature and there is none: its own documentation gives it for history that other models made (dialects.md 3.3). */
export const PLACEHOLDER = "skip_thought_signature_validator";

/** The kind of part that a signature belongs to. It is packed with it, since a reasoning block may carry the signature of the part behind it. */
const PLACES = ["call", "text", "thought", "image"] as const;
export type Place = (typeof PLACES)[number];
export type Proof = { place: Place; signature: string };

/** A thought signature as one self-describing string that clients of other dialects carry back (dialects.md 4.8 #6). */
export const packProof = ({ place, signature }: Proof): string => `gm:${place}:${signature}`;

/** What {@link packProof} packed; undefined for every other signature. Never throws. */
export function unpackProof(packed: string | undefined): Proof | undefined {
  if (packed === undefined || packed.length > MAX_PROOF || !packed.startsWith("gm:")) return undefined;
  const [, word, ...rest] = packed.split(":");
  const place = PLACES.find((one) => one === word);
  const signature = rest.join(":");
  return place && signature !== "" ? { place, signature } : undefined;
}
