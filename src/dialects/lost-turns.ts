import { invalidField } from "../canon/errors.ts";
import type { OpaquePart, Part, Turn } from "../canon/prompt.ts";
import { isVisible } from "./text.ts";

/** A part that says nothing to anybody but its own dialect. */
const saysNothing = (part: Part): boolean => part.type === "opaque" || (part.type === "text" && !isVisible(part.text));

/**
 * Throws GatewayError (invalid_request, with the block's place as param) for a user's turn of which nothing would be left on its way to
 * another dialect: whatever was sent in its place, the user did not say it.
 */
export function refuseLostTurns(turns: readonly Turn[]): void {
  for (const { role, parts } of turns) {
    if (role !== "user" || !parts.every(saysNothing)) continue;
    const lost = parts.find((part): part is OpaquePart => part.type === "opaque");
    if (!lost) continue;
    const text = `The block at ${lost.name} is of a kind that this model's vendor cannot be told, and its turn says nothing else.`;
    throw invalidField(lost.name, text);
  }
}
