import type { AudioPart, DocumentPart, ImagePart, MediaSource } from "../../canon/prompt.ts";
import { isObject } from "../../lib/json.ts";
import { unsayable } from "../loss/unsayable.ts";
import { mediaTypeOf, textOfMedia } from "../media/type.ts";
import { hasScheme, parseDataUrl } from "../media/url.ts";
import { cleanText } from "../text.ts";

type Wire = Record<string, unknown>;

const FILE_UNSEEN = "A file id cannot be seen by this model's vendor. Send the file's bytes instead.";
const URL_UNSEEN = "This model's vendor fetches no files from the web. Send the file's bytes instead.";

/** Addresses that the vendor itself can read: its file store, Cloud Storage and YouTube (dialects.md 3.1). */
export const OWN_ADDRESS =
  /^(?:gs:\/\/|https:\/\/generativelanguage\.googleapis\.com\/v1(?:beta)?\/files\/|https:\/\/(?:www\.)?(?:youtube\.com\/watch\?|youtu\.be\/))/;

const inline = (mimeType: string, data: string): Wire => ({ inlineData: { mimeType, data } });

const isYouTube = (address: string): boolean => /^https:\/\/(?:www\.)?youtu/.test(address);

/** The media type of the file at one of {@link OWN_ADDRESS}, by the address' ending; undefined where that does not show it. */
function typeAt(address: string): string | undefined {
  if (isYouTube(address)) return "video/mp4";
  const [ending] = /\.[a-z\d]{1,8}$/i.exec(address) ?? [];
  const [type] = ending === undefined ? [] : Bun.file(`file${ending}`).type.split(";");
  return type === "application/octet-stream" ? undefined : type;
}

/** A file at one of {@link OWN_ADDRESS}. Vertex refuses one without its type ("it has an empty mimeType parameter in fileData"). */
function stored(fileUri: string): Wire {
  const mimeType = typeAt(fileUri);
  return { fileData: { ...(mimeType !== undefined && { mimeType }), fileUri } };
}

/**
 * An image, or a document's bytes, as a part. Throws GatewayError (invalid_request, with the part's place) for file ids and for addresses
 * that the vendor does not fetch (dialects.md 3.1).
 */
export function encodeMedia(part: ImagePart | DocumentPart): Wire {
  const { source } = part;
  if (source.kind === "base64") return inline(mediaTypeOf(source.mediaType, source.data), source.data);
  if (source.kind === "url" && OWN_ADDRESS.test(source.url)) return stored(source.url);
  if (source.kind === "text") throw unsayable(part, "An image must be bytes.");
  throw unsayable(part, source.kind === "url" ? URL_UNSEEN : FILE_UNSEEN);
}

/** The text of a source, given as text or as a text file's bytes; undefined for any other source. */
function textIn(source: MediaSource): string | undefined {
  if (source.kind === "text") return source.text;
  return source.kind === "base64" ? textOfMedia(mediaTypeOf(source.mediaType, source.data), source.data) : undefined;
}

/** A document as parts: its text under its title and context, or a line with these and its bytes. Throws as {@link encodeMedia} does. */
export function encodeDocument(part: DocumentPart): Wire[] {
  const { source } = part;
  const header = [part.title, part.context].filter((line) => line !== undefined && line !== "").join("\n");
  const text = textIn(source);
  if (text !== undefined) return [{ text: cleanText(header === "" ? text : `${header}\n${text}`) }];
  return [...(header === "" ? [] : [{ text: cleanText(header) }]), encodeMedia(part)];
}

/**
 * Audio as a part. Its media type is that of a `data:` URL, else follows from the format, a file ending such as `wav` or `mp3`. Throws
 * GatewayError (invalid_request, with the part's place) for a web address, which clients of Qwen and Mistral send.
 */
export function encodeAudio(part: AudioPart): Wire {
  const read = parseDataUrl(part.data);
  if (!read && hasScheme(part.data)) throw unsayable(part, URL_UNSEEN);
  if (read?.mediaType.startsWith("audio/")) return inline(read.mediaType, read.data);
  const format = part.format.trim().toLowerCase();
  return inline(format.includes("/") ? format : `audio/${format || "wav"}`, read?.data ?? part.data);
}

/**
 * A video as chat clients send it (`video_url`), as a part: its bytes, or an address that the vendor itself can read (dialects.md 3.1).
 * Undefined for any other address and for what is no video.
 */
export function encodeVideo(value: unknown): Wire | undefined {
  if (!isObject(value) || value["type"] !== "video_url") return undefined;
  const held = value["video_url"];
  const url = isObject(held) ? held["url"] : held;
  if (typeof url !== "string") return undefined;
  if (OWN_ADDRESS.test(url)) return stored(url);
  const read = parseDataUrl(url);
  return read?.mediaType.startsWith("video/") ? inline(read.mediaType, read.data) : undefined;
}
