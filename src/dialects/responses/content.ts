import type { DocumentPart, ImagePart, MediaSource, Part, TextPart } from "../../canon/prompt.ts";
import { isObject, stringOf } from "../../lib/json.ts";
import { FILE_UNSEEN, NO_AUDIO, NO_IMAGE_TEXT, unsayable } from "../loss/unsayable.ts";
import { dataUrl, fileSource, imageSource } from "../media/url.ts";
import { breakpointOf } from "../openai-fields.ts";
import { cleanText } from "../text.ts";
import type { Item } from "./items.ts";

/** Dialects whose file ids are this vendor's own: both are OpenAI's. */
const OWN_FILES = new Set(["chat", "responses"]);

/** A part with its client's cache breakpoint, if `item` has one, as the mark that other dialects know (dialects.md 4.1). */
function withCache(part: TextPart | ImagePart | DocumentPart, item: Item): Part {
  const breakpoint = breakpointOf(item);
  if (breakpoint) {
    part.cache = { type: "ephemeral" };
    part.breakpoint = breakpoint;
  }
  return part;
}

const fileOf = (id: string) => ({ kind: "file", id, dialect: "responses" }) as const;

function decodeImage(part: Item, path: string): Part | undefined {
  const given = part["image_url"];
  const url = isObject(given) ? stringOf(given["url"]) : stringOf(given);
  const id = stringOf(part["file_id"]);
  if (url === "" && id === "") return undefined;
  const image: ImagePart =
    url === ""
      ? { type: "image", source: fileOf(id), place: `${path}.file_id` }
      : { type: "image", source: imageSource(url), place: path };
  const detail = stringOf(part["detail"]);
  if (detail !== "") image.detail = detail;
  return withCache(image, part);
}

function decodeFile(part: Item, path: string): Part | undefined {
  const filename = stringOf(part["filename"]);
  const data = stringOf(part["file_data"]);
  const url = stringOf(part["file_url"]);
  const id = stringOf(part["file_id"]);
  if (data === "" && url === "" && id === "") return undefined;
  const source: MediaSource = data !== "" ? fileSource(data, filename) : url !== "" ? { kind: "url", url } : fileOf(id);
  const place = data === "" && url === "" ? `${path}.file_id` : path;
  const document: DocumentPart = { type: "document", source, place };
  if (filename !== "") document.title = filename;
  return withCache(document, part);
}

function decodePart(part: Item, path: string): Part | undefined {
  switch (part["type"]) {
    case "input_text":
    case "output_text":
    case "text":
      return withCache({ type: "text", text: cleanText(stringOf(part["text"])) }, part);
    case "refusal":
      return { type: "text", text: cleanText(stringOf(part["refusal"])) };
    case "input_image":
      return decodeImage(part, path);
    case "input_file":
      return decodeFile(part, path);
    case "input_audio": {
      const audio = part["input_audio"];
      if (!isObject(audio) || stringOf(audio["data"]) === "") return undefined;
      return { type: "audio", data: stringOf(audio["data"]), format: stringOf(audio["format"]) || "wav", place: path };
    }
    default:
      return undefined;
  }
}

const KNOWN_PARTS: ReadonlySet<unknown> = new Set([
  ...["input_text", "output_text", "text", "refusal", "input_image", "input_file", "input_audio"],
]);

/** Whether other dialects have a word for a content part of this type. */
export const isKnownPart = (part: Item): boolean => KNOWN_PARTS.has(part["type"]);

/**
 * A message's or a tool output's content as parts; empty text is left out, and what nobody else knows becomes an opaque part named by
 * its path.
 */
export function decodeContent(content: unknown, path: string): Part[] {
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: cleanText(content) }];
  if (!Array.isArray(content)) return [];
  const parts: Part[] = [];
  for (let at = 0; at < content.length; at++) {
    const value: unknown = content[at];
    if (!isObject(value)) continue;
    const name = `${path}[${at}]`;
    const part = decodePart(value, name) ?? { type: "opaque", dialect: "responses", name, value };
    if (part.type !== "text" || part.text !== "") parts.push(part);
  }
  return parts;
}

function encodeImage(part: ImagePart): Item {
  const { source } = part;
  const detail = part.detail ?? "auto";
  if (source.kind === "file" && OWN_FILES.has(source.dialect ?? "")) {
    return { type: "input_image", file_id: source.id, detail };
  }
  if (source.kind === "file") throw unsayable(part, FILE_UNSEEN);
  if (source.kind === "text") throw unsayable(part, NO_IMAGE_TEXT);
  const url = source.kind === "url" ? source.url : dataUrl(source);
  return { type: "input_image", image_url: url, detail };
}

function encodeDocument(part: DocumentPart): Item {
  const { source } = part;
  if (source.kind === "file" && OWN_FILES.has(source.dialect ?? "")) return { type: "input_file", file_id: source.id };
  if (source.kind === "file") throw unsayable(part, FILE_UNSEEN);
  if (source.kind === "url") return { type: "input_file", file_url: source.url };
  if (source.kind === "text") {
    const lines = [part.title, part.context, source.text].filter((line) => line !== undefined && line !== "");
    return { type: "input_text", text: cleanText(lines.join("\n")) };
  }
  if (source.mediaType.startsWith("image/")) return encodeImage({ type: "image", source });
  return { type: "input_file", filename: part.title ?? "document.pdf", file_data: dataUrl(source) };
}

/**
 * A part that users may send, also as a tool's output, on the wire; undefined for what has no place there. Throws GatewayError
 * (invalid_request, with the part's place) for media that this dialect cannot hold.
 */
export function encodePart(part: Part): Item | undefined {
  switch (part.type) {
    case "text":
      return part.text === "" ? undefined : { type: "input_text", text: cleanText(part.text) };
    case "image":
      return encodeImage(part);
    case "document":
      return encodeDocument(part);
    case "audio":
      throw unsayable(part, NO_AUDIO);
    default:
      return undefined;
  }
}
