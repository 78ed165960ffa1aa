import type { DocumentPart, ImagePart, Part } from "../../canon/prompt.ts";
import type { Quirks } from "../dialect.ts";
import { knowsAll } from "../knows-all.ts";
import { FILE_UNSEEN, NO_IMAGE_TEXT, unsayable } from "../loss/unsayable.ts";
import { textOfMedia } from "../media/type.ts";
import { dataUrl } from "../media/url.ts";
import { withBreakpoint } from "../openai-fields.ts";
import { cleanText } from "../text.ts";

type Wire = Record<string, unknown>;

const NO_WEB_FILES = "This model's vendor does not fetch documents. Send the document's bytes.";

function encodeImage(part: ImagePart): Wire {
  const { source } = part;
  if (source.kind === "file") throw unsayable(part, FILE_UNSEEN);
  if (source.kind === "text") throw unsayable(part, NO_IMAGE_TEXT);
  const url = source.kind === "url" ? source.url : dataUrl(source);
  return { type: "image_url", image_url: { url, ...(part.detail !== undefined && { detail: part.detail }) } };
}

/** A text document: its title and context before its text (dialects.md 4.2). */
function encodeTextDocument(part: DocumentPart, text: string): Wire {
  const head = [part.title, part.context].filter((line) => line !== undefined && line !== "");
  return { type: "text", text: cleanText([...head, text].join("\n")) };
}

function encodeDocument(part: DocumentPart, { remoteMedia }: Quirks): Wire {
  const { source } = part;
  if (source.kind === "text") return encodeTextDocument(part, source.text);
  if (source.kind === "file") throw unsayable(part, FILE_UNSEEN);
  if (source.kind === "url" && remoteMedia !== "all") throw unsayable(part, NO_WEB_FILES);
  if (source.kind === "url")
    return { type: "file", file: { filename: part.title ?? "document", file_data: source.url } };
  if (source.mediaType.startsWith("image/")) return encodeImage({ type: "image", source });
  const text = textOfMedia(source.mediaType, source.data);
  if (text !== undefined) return encodeTextDocument(part, text);
  return { type: "file", file: { filename: part.title ?? "document.pdf", file_data: dataUrl(source) } };
}

function encodeMedia(part: Part, quirks: Quirks): Wire | undefined {
  switch (part.type) {
    case "text":
      return part.text === "" ? undefined : { type: "text", text: cleanText(part.text) };
    case "image":
      return encodeImage(part);
    case "document":
      return encodeDocument(part, quirks);
    case "audio":
      return { type: "input_audio", input_audio: { data: part.data, format: part.format } };
    default:
      return undefined;
  }
}

/**
 * A user's part on the chat wire (dialects.md 4.2), with its cache mark where the vendor takes marks; undefined for what has no place in a
 * user message. Throws GatewayError (invalid_request, with the part's place) for media this dialect cannot hold.
 */
export function encodePart(part: Part, quirks: Quirks): Wire | undefined {
  const encoded = encodeMedia(part, quirks);
  if (!encoded) return undefined;
  if (!quirks.acceptsCacheControl) return knowsAll(quirks) ? withBreakpoint(encoded, part) : encoded;
  const mark = "cache" in part ? part.cache : undefined;
  return mark != null ? { ...encoded, cache_control: mark } : encoded;
}
