import { invalidField } from "../../canon/errors.ts";
import type { OpaquePart, Part, Turn } from "../../canon/prompt.ts";
import { isVisible } from "../text.ts";

/** A part that only its own dialect knows, and that this upstream was not told. */
const isLost = (part: Part, untold: ReadonlySet<string>): part is OpaquePart =>
  part.type === "opaque" && untold.has(part.name);

/**
 * Throws GatewayError (invalid_request, with the block's place as param) for a user's turn of which nothing is left on its way to another dialect:
 * whatever was sent in its place, the user did not say it. `dropped`: what was not told, by its place.
 */
export function refuseLostTurns(turns: readonly Turn[], dropped: readonly string[]): void {
  if (dropped.length === 0) return;
  // A turn may hold many thousands of such parts.
  const untold = new Set(dropped);
  for (const { role, parts } of turns) {
    const saysNothing = (part: Part) => isLost(part, untold) || (part.type === "text" && !isVisible(part.text));
    if (role !== "user" || !parts.every(saysNothing)) continue;
    const lost = parts.find((part): part is OpaquePart => isLost(part, untold));
    if (!lost) continue;
    const text = `The block at ${lost.name} is of a kind that this model's vendor cannot be told, and its turn says nothing else.`;
    throw invalidField(lost.name, text);
  }
}
