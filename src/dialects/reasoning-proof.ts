import { isObject } from "../lib/json.ts";

/** Longest proof that is looked into, characters; vendors' own stay far below. */
const MAX_PROOF = 4 * 1024 * 1024;

const RESPONSES_MARK = "rs:";
const FOREIGN_MARK = "sluice-signature:";
const REDACTED_MARK = "sluice-redacted:";

/** A reasoning item of the responses dialect, as far as its vendor must see it again. */
export type ReasoningProof = { id: string; encrypted: string };

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

/** Another vendor's signature, or its redacted reasoning, as the encrypted content of an item that only carries it back. */
export const carrySignature = (signature: string): string => FOREIGN_MARK + signature;
export const carryRedacted = (data: string): string => REDACTED_MARK + data;

/** What an item's encrypted content carries of another vendor; undefined when it is the responses vendor's own. */
export function carriedIn(encrypted: string): { kind: "signature" | "redacted"; text: string } | undefined {
  if (encrypted.startsWith(FOREIGN_MARK)) return { kind: "signature", text: encrypted.slice(FOREIGN_MARK.length) };
  if (encrypted.startsWith(REDACTED_MARK)) return { kind: "redacted", text: encrypted.slice(REDACTED_MARK.length) };
  return undefined;
}

/** Whether a reasoning item can be shown to a vendor that stored nothing: with its own encrypted content, or with its text. */
export function isReplayable(item: Record<string, unknown>): boolean {
  const encrypted = item["encrypted_content"];
  if (typeof encrypted === "string" && encrypted !== "") return carriedIn(encrypted) === undefined;
  const content = item["content"];
  return Array.isArray(content) && content.some((part) => isObject(part) && typeof part["text"] === "string");
}
