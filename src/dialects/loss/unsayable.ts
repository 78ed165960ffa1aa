import { GatewayError, invalidField } from "../../canon/errors.ts";
import type { AudioPart, DocumentPart, ImagePart } from "../../canon/prompt.ts";

/** Why a part cannot be said to an upstream at all. */
export const FILE_UNSEEN = "A file id cannot be seen by this model's vendor. Send the file's bytes or a URL instead.";
export const NO_AUDIO = "This model's vendor does not take audio.";
export const NO_IMAGE_TEXT = "An image must be bytes or a URL.";

/** Names a picture's wanted detail for an upstream that has no word for it; `auto` is what it does anyway. */
export function nameLostDetail({ detail, detailField = "detail", place }: ImagePart, dropped: string[]): void {
  if (detail !== undefined && detail !== "auto") dropped.push(`${place ?? "image"}.${detailField}`);
}

/** A block of a turn, or of a tool's result in one, as `place` writes it. */
const BLOCK = /^messages\[(\d+)\]\.content\[(\d+)\](?:\.content\[(\d+)\])?$/;

/**
 * The place of a block once more, as Anthropic's own errors write it (`messages.3.content.1.image`). Claude Code looks for a place of this form in a 400:
 * it takes that block out of its conversation and asks again. Without it the block comes with each later request, and each is refused.
 */
function placeForClients({ type, place = "" }: Pick<ImagePart | DocumentPart | AudioPart, "type" | "place">): string {
  const [, turn, block, inner] = BLOCK.exec(place) ?? [];
  if (turn === undefined || type === "audio") return "";
  return ` (messages.${turn}.content.${block}.${inner === undefined ? "" : `tool_result.content.${inner}.`}${type})`;
}

/**
 * The error for media that is legal in the client's dialect and impossible for this upstream (invalid_request): it names the block and its
 * place, as far as that is known.
 */
export function unsayable(
  part: Pick<ImagePart | DocumentPart | AudioPart, "type" | "place">,
  why: string,
): GatewayError {
  const { place } = part;
  if (place === undefined) return new GatewayError("invalid_request", why);
  return invalidField(place, `The ${part.type} at ${place} cannot be sent. ${why}${placeForClients(part)}`);
}
