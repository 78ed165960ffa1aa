import { isObject } from "../../lib/json.ts";
import { remember } from "../../lib/remember.ts";

/** Longest proof that is looked into, characters; vendors' own stay far below. */
const MAX_PROOF = 4 * 1024 * 1024;

const RESPONSES_MARK = "rs:";
/** What carries another vendor's proof, or the word that there is none: its kind, and since models mind whose it is, the family that made it. */
const CARRIED = /^sluice-(signature|redacted|unsigned)(?:@([^:]*))?:/;
/** Begins with a mark and a colon, as every packed signature does. */
const UNSIGNED_MARK = "unsigned:";

/** A reasoning item of the responses dialect, as far as its vendor must see it again. */
type ReasoningProof = { id: string; encrypted: string };

/**
 * Id and encrypted content of a reasoning item as one self-describing signature, so that clients of other dialects carry it back
 * (dialects.md 4.8 #6).
 */
export function packReasoning(proof: ReasoningProof): string {
  return RESPONSES_MARK + Buffer.from(JSON.stringify([proof.id, proof.encrypted])).toString("base64url");
}

/** What {@link packReasoning} packed; undefined for every other signature. Never throws. */
export function unpackReasoning(signature: string): ReasoningProof | undefined {
  if (!signature.startsWith(RESPONSES_MARK) || signature.length > MAX_PROOF) return undefined;
  try {
    const value: unknown = JSON.parse(Buffer.from(signature.slice(RESPONSES_MARK.length), "base64url").toString());
    if (!Array.isArray(value)) return undefined;
    const [id, encrypted] = value as unknown[];
    return typeof id === "string" && typeof encrypted === "string" ? { id, encrypted } : undefined;
  } catch {
    // Not one of ours after all, whatever it begins with.
    return undefined;
  }
}

/**
 * Whether a signature was made here, to carry a vendor's proof through another dialect: all such begin with a mark and a colon, which no
 * vendor's base64 holds. The messages dialect's vendor refuses a whole request for one (dialects.md 4.8 #6).
 */
export const isPacked = (signature: unknown): boolean =>
  typeof signature === "string" && /^[a-z]{2,8}:/.test(signature);

/** Characters of base64 that hold the longest mark. */
const MARK_CHARACTERS = 12;

/**
 * A signature as it was shown. Clients that take every signature for base64 and keep its bytes (Google's ADK) send one that was made here,
 * which is none, back as the base64 of itself.
 */
export function asShown(signature: string): string {
  if (isPacked(signature) || !isPacked(Buffer.from(signature.slice(0, MARK_CHARACTERS), "base64").toString("latin1")))
    return signature;
  const shown = signature.length > 2 * MAX_PROOF ? "" : Buffer.from(signature, "base64").toString();
  // What a vendor made are no words.
  return isPacked(shown) && !shown.includes("\ufffd") ? shown : signature;
}

/**
 * The family of a model, by which a proof is known to be its own: its name without date and version, the same under all the names that
 * vendors have for a Claude model (dialects.md 2.9).
 */
export const makerOf = remember((model: string): string => {
  const name = model.toLowerCase().toWellFormed();
  const plain =
    /claude-.*$/
      .exec(name)?.[0]
      .replace(/-v\d+(?::\d+)?$/, "")
      .replaceAll(".", "-") ?? name;
  const family = plain.replace(/[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$/, "");
  return plain === name && !name.startsWith("claude-") ? family : family.replace(/-0$/, "");
});

/** Whether a family's models refuse their reasoning's text without its proof, whoever resells them (OpenRouterTeam/ai-sdk-provider #423). */
export const needsProof = (maker: string): boolean => maker.startsWith("claude-");

const carry = (kind: Carried["kind"], proof: string, maker: string | undefined): string =>
  `sluice-${kind}${maker === undefined ? "" : `@${encodeURIComponent(maker)}`}:${proof}`;

/** Another vendor's signature as the encrypted content of an item that only carries it back. `maker`: see {@link makerOf}. */
export const carrySignature = (signature: string, maker?: string): string => carry("signature", signature, maker);
/** {@link carrySignature} of redacted reasoning. */
export const carryRedacted = (data: string, maker?: string): string => carry("redacted", data, maker);

/**
 * Stands as the encrypted content of reasoning that its vendor does not prove, as {@link markUnsigned} does for a signature: SDKs that are told
 * to store nothing send no item back that has none. `place`: see there.
 */
export const carryUnsigned = (maker: string, place: string): string => carry("unsigned", place, maker);

/** Another vendor's proof, and the family of models that made it, where that was noted. `unsigned`: there is none, and the text is the place of the block. */
export type Carried = { kind: "signature" | "redacted" | "unsigned"; text: string; maker?: string };

/** What an item's encrypted content carries of another vendor; undefined when it is the responses vendor's own. Never throws. */
export function carriedIn(encrypted: string): Carried | undefined {
  const found = CARRIED.exec(encrypted);
  if (!found) return undefined;
  const [mark, kind, maker] = found;
  const carried: Carried = { kind: kind as Carried["kind"], text: encrypted.slice(mark.length) };
  if (maker === undefined) return carried;
  try {
    return { ...carried, maker: decodeURIComponent(maker) };
  } catch {
    // Somebody else wrote it: then it names no model that there is.
    return { ...carried, maker };
  }
}

/**
 * Stands as the signature of reasoning that its vendor does not prove: it says whose it is, and is known when it comes back (dialects.md 4.8 #6).
 * `place`: letters, digits and `_` that no other block of the conversation has. A vendor's own signatures are never alike, and clients
 * (Inspect) tell blocks apart by them.
 */
export const markUnsigned = (maker: string, place: string): string => `${UNSIGNED_MARK}${maker}#${place}`;

/** Whether a signature is what {@link markUnsigned} made: it proves nothing. */
export const isUnsigned = (signature: string): boolean => signature.startsWith(UNSIGNED_MARK);
/** The maker that {@link markUnsigned} wrote. */
export const unsignedMaker = (signature: string): string => signature.slice(UNSIGNED_MARK.length).replace(/#\w*$/, "");

/** Whether a reasoning item can be shown to a vendor that stored nothing: with its own encrypted content, or with its text. */
export function isReplayable(item: Record<string, unknown>): boolean {
  const encrypted = item["encrypted_content"];
  if (typeof encrypted === "string" && encrypted !== "") return carriedIn(encrypted) === undefined;
  const content = item["content"];
  return Array.isArray(content) && content.some((part) => isObject(part) && typeof part["text"] === "string");
}
