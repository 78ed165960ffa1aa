import type { DocumentPart, ImagePart, Part, TextPart } from "../../canon/prompt.ts";
import { isObject, stringOf } from "../../lib/json.ts";
import { fileSource, imageSource } from "../media/url.ts";
import { breakpointOf } from "../openai-fields.ts";
import { cleanText } from "../text.ts";

type Wire = Record<string, unknown>;

/**
 * A part with its client's cache breakpoint, if `wire` has one: the messages dialect's mark, or OpenAI's own, which is the same wish
 * (dialects.md 4.1).
 */
function withCache(part: TextPart | ImagePart | DocumentPart, wire: Wire): Part {
  const breakpoint = breakpointOf(wire);
  const mark = wire["cache_control"] ?? (breakpoint ? { type: "ephemeral" } : undefined);
  if (mark != null) part.cache = mark;
  if (breakpoint) part.breakpoint = breakpoint;
  return part;
}

function decodeImage(part: Wire, place: string): Part | undefined {
  const image = part["image_url"];
  const url = isObject(image) ? stringOf(image["url"]) : stringOf(image);
  if (url === "") return undefined;
  const detail = isObject(image) ? stringOf(image["detail"]) : "";
  const decoded: ImagePart = { type: "image", source: imageSource(url), place };
  if (detail !== "") Object.assign(decoded, { detail, detailField: "image_url.detail" });
  return withCache(decoded, part);
}

/** Mistral's short form, the bytes alone, says no format: its documents speak of this one. */
const SHORT_FORMAT = "mp3";

function decodeAudio(part: Wire, place: string): Part | undefined {
  const audio = part["input_audio"];
  const data = isObject(audio) ? stringOf(audio["data"]) : stringOf(audio);
  if (data === "") return undefined;
  return { type: "audio", data, format: isObject(audio) ? stringOf(audio["format"]) || "wav" : SHORT_FORMAT, place };
}

function decodeFile(part: Wire, place: string): Part | undefined {
  // Mistral's files stand by their id in the part itself.
  const file = part["file"] ?? part;
  if (!isObject(file)) return undefined;
  const filename = stringOf(file["filename"]);
  const title = filename === "" ? {} : { title: filename };
  const data = stringOf(file["file_data"]);
  if (data !== "") {
    return withCache({ type: "document", source: fileSource(data, filename), place, ...title }, part);
  }
  const id = stringOf(file["file_id"]);
  if (id === "") return undefined;
  const path = file === part ? "file_id" : "file.file_id";
  return { type: "document", source: { kind: "file", id, dialect: "chat" }, place: `${place}.${path}`, ...title };
}

/**
 * One content part as its meaning (dialects.md 1.2); undefined for kinds that nobody else knows. `path` is where it stands.
 */
export function decodePart(part: unknown, path: string): Part | undefined {
  if (typeof part === "string") return { type: "text", text: cleanText(part) };
  if (!isObject(part)) return undefined;
  switch (part["type"]) {
    case "text":
      return withCache({ type: "text", text: cleanText(stringOf(part["text"])) }, part);
    case "refusal":
      return { type: "text", text: cleanText(stringOf(part["refusal"])) };
    case "image_url":
      return decodeImage(part, path);
    case "input_audio":
      return decodeAudio(part, path);
    case "file":
      return decodeFile(part, path);
    case "video_url":
      // Only some vendors see films; the others name it.
      return part["video_url"] ? { type: "opaque", dialect: "chat", name: path, value: part } : undefined;
    default:
      return undefined;
  }
}
