import { isObject } from "../../lib/json.ts";
import { type Place, packProof, unpackProof } from "../gemini/proof.ts";

type Wire = Record<string, unknown>;

/** A call's or an image's thought signature as Google's own chat endpoint shows it (dialects.md 3.3); undefined for every other proof. */
export function extraContentOf(signature: string, place: Place = "call"): Wire | undefined {
  const proof = unpackProof(signature);
  return proof?.place === place ? { google: { thought_signature: proof.signature } } : undefined;
}

/** The proof that {@link extraContentOf} showed, when a client sends it back on its call or image. */
export function signatureIn(value: unknown, place: Place = "call"): string | undefined {
  const extra = isObject(value) ? value["extra_content"] : undefined;
  const google = isObject(extra) ? extra["google"] : undefined;
  const signature = isObject(google) ? google["thought_signature"] : undefined;
  return typeof signature === "string" && signature !== "" ? packProof({ place, signature }) : undefined;
}
