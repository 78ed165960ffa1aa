import { invalidField } from "../../canon/errors.ts";
import type { DocumentPart, ImagePart, MediaSource } from "../../canon/prompt.ts";
import { isObject, stringOf } from "../../lib/json.ts";
import { FILE_UNSEEN, NO_IMAGE_TEXT, unsayable } from "../loss/unsayable.ts";
import { mediaTypeOf, textOfMedia } from "../media/type.ts";
import { cleanText } from "../text.ts";

/**
 * A `source` object of an image or document block as a canonical source (dialects.md 2.2).
 * Throws GatewayError (invalid_request) with `param` when it is none of base64, url, text and file.
 */
export function decodeSource(source: unknown, param: string): MediaSource {
  if (isObject(source)) {
    if (source["type"] === "base64" && stringOf(source["data"]) !== "") {
      const data = stringOf(source["data"]);
      return { kind: "base64", mediaType: mediaTypeOf(stringOf(source["media_type"]), data), data };
    }
    if (source["type"] === "url" && stringOf(source["url"]) !== "")
      return { kind: "url", url: stringOf(source["url"]) };
    if (source["type"] === "text") return { kind: "text", text: cleanText(stringOf(source["data"])) };
    if (source["type"] === "file" && stringOf(source["file_id"]) !== "")
      return { kind: "file", id: stringOf(source["file_id"]), dialect: "messages" };
  }
  throw invalidField(param, `${param} must be a base64, url, text or file source`);
}

/**
 * The source of an image, or of a document that is one, as this dialect writes it. Throws GatewayError (invalid_request, with the part's
 * place) for file ids, which belong to another vendor.
 */
export function encodeImageSource(part: ImagePart | DocumentPart): Record<string, unknown> {
  const { source } = part;
  if (source.kind === "base64")
    return { type: "base64", media_type: mediaTypeOf(source.mediaType, source.data), data: source.data };
  if (source.kind === "url") return { type: "url", url: source.url };
  throw unsayable(part, source.kind === "file" ? FILE_UNSEEN : NO_IMAGE_TEXT);
}

/**
 * A document's source as this dialect writes it: PDF bytes, plain text, or a URL (dialects.md 4.3).
 * Throws GatewayError (invalid_request, with the part's place) for file ids and for other formats.
 */
export function encodeDocumentSource(part: DocumentPart): Record<string, unknown> {
  const { source } = part;
  if (source.kind === "url") return { type: "url", url: source.url };
  if (source.kind === "text") return { type: "text", media_type: "text/plain", data: cleanText(source.text) };
  if (source.kind === "file") throw unsayable(part, FILE_UNSEEN);
  const mediaType = mediaTypeOf(source.mediaType, source.data);
  if (mediaType === "application/pdf") return { type: "base64", media_type: mediaType, data: source.data };
  const held = textOfMedia(mediaType, source.data);
  if (held !== undefined) return { type: "text", media_type: "text/plain", data: cleanText(held) };
  const shown = mediaType === "" ? "an unknown format" : mediaType.slice(0, 100);
  throw unsayable(part, `A document must be PDF or plain text for this model, not ${shown}.`);
}
