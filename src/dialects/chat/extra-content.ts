import { isObject } from "../../lib/json.ts";
import { packProof, unpackProof } from "../gemini/proof.ts";

type Wire = Record<string, unknown>;

/** A call's thought signature as Google's own chat endpoint shows it (dialects.md 3.3); undefined for every other proof. */
export function extraContentOf(signature: string): Wire | undefined {
  const proof = unpackProof(signature);
  return proof?.place === "call" ? { google: { thought_signature: proof.signature } } : undefined;
}

/** The proof that {@link extraContentOf} showed, when a client sends it back on its call. */
export function signatureOfCall(call: unknown): string | undefined {
  const extra = isObject(call) ? call["extra_content"] : undefined;
  const google = isObject(extra) ? extra["google"] : undefined;
  const signature = isObject(google) ? google["thought_signature"] : undefined;
  return typeof signature === "string" && signature !== "" ? packProof({ place: "call", signature }) : undefined;
}
