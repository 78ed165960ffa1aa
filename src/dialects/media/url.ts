import type { MediaSource } from "../../canon/prompt.ts";
import { percentDecode } from "../../lib/percent-decode.ts";
import { mediaTypeOf, sniffMediaType, textOfMedia } from "./type.ts";

/** How every RIFF file begins in base64: WebP, and formats of sound and video that {@link sniffMediaType} does not know. */
const RIFF = "UklGR";

/** Whether this is the beginning of a file's base64. */
const isFile = (text: string) => text.startsWith(RIFF) || sniffMediaType(text) !== undefined;

/** Bytes as a `data:` URL; `data` is their base64. */
export const dataUrl = ({ mediaType, data }: { mediaType: string; data: string }): string =>
  `data:${mediaType};base64,${data}`;

export const isDataUrl = (url: string): boolean => url.slice(0, 5).toLowerCase() === "data:";

/**
 * Addresses in a vendor's own store or in its cloud's, which nobody else can read: Cloud Storage (dialects.md 3.1), S3, and the files of
 * Moonshot (ms://), Alibaba (oss://), StepFun (stepfile://) and MiniMax (mm_file://), whose own documents name them. Each vendor has a scheme of
 * its own, so any scheme counts except those of the web and of the client's own machine.
 */
export const STORED_ADDRESS = /^\s*(?!(?:https?|wss?|s?ftps?|file|blob):)[a-z][\w+.-]{0,30}:\/\/\S/i;

/** Whether this is an address that some vendor may read, on the web or in a vendor's store. */
export const isAddress = (url: string): boolean =>
  STORED_ADDRESS.test(url) || (/^\s*https?:\/\//i.test(url) && URL.canParse(url.trim()));

/** Whether this is a URL of any kind: base64 holds no colon, so it never is. */
export const hasScheme = (text: string): boolean => /^\s*[a-z][\w+.-]{0,30}:/i.test(text);

/** The word for base64 among the parameters of a `data:` URL. One pattern finds it in linear time: a client may write any number of parameters. */
const BASE64 = /;\s*base64\s*(?:;|$)/i;

/** A `data:` URL taken apart: its media type, and its text, which is base64 or the data itself. Undefined for anything else. */
export function readDataUrl(url: string): { said: string; isBase64: boolean; text: string } | undefined {
  if (!isDataUrl(url)) return undefined;
  const comma = url.indexOf(",");
  if (comma < 0) return undefined;
  const head = url.slice(5, comma);
  const body = url.slice(comma + 1);
  const text = body.includes("%") ? percentDecode(body) : body;
  // Some clients leave the word `base64` out; plain text does not begin as the base64 of a file does.
  const isBase64 = BASE64.test(head) || isFile(text);
  return { said: head.split(";", 1)[0] || "text/plain", isBase64, text };
}

/**
 * A `data:` URL as media: parameters are dropped, data that is not base64 becomes it, white space goes (dialects.md 4.8 #46).
 * Undefined for anything else.
 */
export function parseDataUrl(url: string): { mediaType: string; data: string } | undefined {
  const read = readDataUrl(url);
  if (!read) return undefined;
  const data = read.isBase64 ? read.text.replaceAll(/\s+/g, "") : Buffer.from(read.text).toString("base64");
  return { mediaType: mediaTypeOf(read.said, data), data };
}

/** An image's URL as a source: bytes for a `data:` URL, else the URL itself. */
export function imageSource(url: string): MediaSource {
  const inline = parseDataUrl(url);
  return inline ? { kind: "base64", ...inline } : { kind: "url", url };
}

/** `file_data` of a file part: a `data:` URL, a web address, or bare base64, whose format its bytes or its name show. */
export function fileSource(fileData: string, filename: string): MediaSource {
  if (isAddress(fileData)) return { kind: "url", url: fileData };
  const inline = parseDataUrl(fileData) ?? bareData(fileData, filename);
  const text = textOfMedia(inline.mediaType, inline.data);
  return text === undefined ? { kind: "base64", ...inline } : { kind: "text", text };
}

function bareData(data: string, filename: string): { mediaType: string; data: string } {
  const said = /\.(?:txt|md|csv|tsv|jsonl?|xml|ya?ml|html?|log)$/i.test(filename) ? "text/plain" : "application/pdf";
  return { mediaType: mediaTypeOf(said, data), data };
}
