import type { Edits } from "../lib/json.ts";
import { isObject } from "../lib/json.ts";
import { parseDataUrl } from "./chat/media.ts";
import { mediaTypeOf } from "./messages/media.ts";

type Part = Record<string, unknown>;

/** An image or a document of a client's body, at an address on the web or in the body itself. */
export type FoundMedia = {
  kind: "image" | "document";
  /** Where it stands, as errors name it: `messages[1].content[0]`. */
  path: string;
  url: string;
  /** A `data:` URL where bare base64 belongs. */
  misplaced?: boolean;
};

/** Bytes as base64, and what they are. */
export type InlineMedia = { mediaType: string; data: string };

/** What to put in the place of found media; undefined leaves it as it is. */
export type Replace = (media: FoundMedia) => InlineMedia | undefined;

/** Content may hold content (results of tools, documents made of blocks): no deeper than this. */
const MAX_DEPTH = 3;

const dataUrl = ({ mediaType, data }: InlineMedia) => `data:${mediaType};base64,${data}`;
const isText = ({ mediaType }: InlineMedia) => mediaType.startsWith("text/") || mediaType === "application/json";

/** The last step of an address, as the name of its file. */
function fileName(url: string): string {
  const name = URL.parse(url)?.pathname.split("/").at(-1) ?? "";
  return /^[\w.-]{1,100}$/.test(name) ? name : "document";
}

/** One step through a client's body. */
class Walk {
  constructor(private readonly replace: Replace) {}

  /** `parts` with what was replaced; the very same array when nothing was. */
  list(parts: unknown, path: string, depth = 0): unknown {
    if (!Array.isArray(parts) || depth > MAX_DEPTH) return parts;
    let changed: unknown[] | undefined;
    for (let at = 0; at < parts.length; at++) {
      const part: unknown = parts[at];
      if (!isObject(part)) continue;
      const next = this.#part(part, path, at, depth);
      if (next === part) continue;
      changed ??= [...parts];
      changed[at] = next;
    }
    return changed ?? parts;
  }

  #part(part: Part, path: string, at: number, depth: number): Part {
    switch (part["type"]) {
      case "image_url":
      case "input_image":
        return this.#imageUrl(part, path, at);
      case "file":
        return isObject(part["file"]) ? this.#file(part, part["file"], path, at) : part;
      case "input_file":
        return this.#inputFile(part, path, at);
      case "image":
      case "document":
        return isObject(part["source"]) ? this.#source(part, part["source"], `${path}[${at}]`, depth) : part;
      case "tool_result":
        return this.inside(part, "content", `${path}[${at}]`, depth);
      default:
        return part;
    }
  }

  /** `holder` with what was replaced in the list it holds in `field`. */
  inside(holder: Part, field: string, path: string, depth: number): Part {
    const list = holder[field];
    if (!Array.isArray(list)) return holder;
    const next = this.list(list, `${path}.${field}`, depth + 1);
    return next === list ? holder : { ...holder, [field]: next };
  }

  /** chat: an object or a bare string; responses: a string. */
  #imageUrl(part: Part, path: string, at: number): Part {
    const image = part["image_url"];
    const url = isObject(image) ? image["url"] : image;
    if (typeof url !== "string") return part;
    const media = this.replace({ kind: "image", path: `${path}[${at}]`, url });
    if (!media) return part;
    return { ...part, image_url: isObject(image) ? { ...image, url: dataUrl(media) } : dataUrl(media) };
  }

  #file(part: Part, file: Part, path: string, at: number): Part {
    const url = file["file_data"];
    if (typeof url !== "string") return part;
    const media = this.replace({ kind: "document", path: `${path}[${at}]`, url });
    if (!media) return part;
    const filename = file["filename"] ?? fileName(url);
    return { ...part, file: { ...file, filename, file_data: dataUrl(media) } };
  }

  #inputFile(part: Part, path: string, at: number): Part {
    const { file_url: fileUrl, ...rest } = part;
    const url = fileUrl ?? part["file_data"];
    if (typeof url !== "string") return part;
    const media = this.replace({ kind: "document", path: `${path}[${at}]`, url });
    return media ? { ...rest, filename: part["filename"] ?? fileName(url), file_data: dataUrl(media) } : part;
  }

  #source(part: Part, source: Part, path: string, depth: number): Part {
    const kind = part["type"] as "image" | "document";
    if (source["type"] === "content") {
      const next = this.inside(source, "content", `${path}.source`, depth);
      return next === source ? part : { ...part, source: next };
    }
    const url = source["type"] === "base64" ? base64Url(source) : source["type"] === "url" ? source["url"] : undefined;
    if (typeof url !== "string") return part;
    const media = this.replace({ kind, path, url, misplaced: url === source["data"] });
    return media ? { ...part, source: sourceOf(kind, media) } : part;
  }
}

/** A base64 source as the address it would be; undefined where it is as it should be, which costs a look at its first bytes only. */
function base64Url(source: Part): string | undefined {
  const { data, media_type: said } = source;
  if (typeof data !== "string") return undefined;
  if (data.startsWith("data:")) return data;
  return typeof said === "string" && mediaTypeOf(said, data) === said ? undefined : `data:${said};base64,${data}`;
}

function sourceOf(kind: FoundMedia["kind"], media: InlineMedia): Part {
  if (kind === "document" && isText(media)) {
    return { type: "text", media_type: "text/plain", data: Buffer.from(media.data, "base64").toString("utf8") };
  }
  return { type: "base64", media_type: media.mediaType, data: media.data };
}

/**
 * Shows `replace` every image and document of a client's body that stands at a URL (a `data:` URL is one), whatever the client's dialect:
 * the types of their blocks do not collide (dialects.md 1.2, 2.2). Returns the edit of the body's one field that changed, or undefined
 * when nothing was replaced. `body` itself is never changed. Numbers in that field that no double holds exactly lose their last digits.
 */
export function replaceMedia(body: Record<string, unknown>, replace: Replace): Edits | undefined {
  const field = Array.isArray(body["messages"]) ? "messages" : "input";
  const list = body[field];
  if (!Array.isArray(list)) return undefined;
  const walk = new Walk(replace);
  let changed: unknown[] | undefined;
  for (let at = 0; at < list.length; at++) {
    const item: unknown = list[at];
    if (!isObject(item)) continue;
    const held = Array.isArray(item["content"]) ? "content" : "output";
    if (!Array.isArray(item[held])) continue;
    const next = walk.inside(item, held, `${field}[${at}]`, -1);
    if (next === item) continue;
    changed ??= [...list];
    changed[at] = next;
  }
  return changed && { [field]: changed };
}

/** Data URLs as they should be, and how many characters of what they hold show its format. */
const SOUND = /^data:(image\/(?:png|jpeg|gif|webp)|application\/pdf);base64,/;
const SHOWING = 16;

/**
 * A `data:` URL of an image or a PDF file that a strict vendor would stumble over, made sound: parameters, a wrong media type, percent
 * signs in place of base64 (dialects.md 4.8 #46). Undefined for one that is sound, and for every other URL.
 */
export function soundDataUrl({ kind, url, misplaced }: FoundMedia): InlineMedia | undefined {
  if (url.slice(0, 5).toLowerCase() !== "data:") return undefined;
  const said = SOUND.exec(url);
  const start = said && url.slice(said[0].length, said[0].length + SHOWING);
  if (start && !misplaced && mediaTypeOf(said[1] ?? "", start) === said[1] && !url.includes("%")) return undefined;
  const media = parseDataUrl(url);
  const known = media && (media.mediaType === "application/pdf" || media.mediaType.startsWith("image/"));
  return known || kind === "image" ? media : undefined;
}
