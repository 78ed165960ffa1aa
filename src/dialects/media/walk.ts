import { isObject, stringOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { mapChanged, mapListIn } from "../../lib/map-changed.ts";
import { mediaTypeOf, sniffMediaType, textOfMedia } from "./type.ts";
import { dataUrl, hasScheme, isDataUrl, parseDataUrl } from "./url.ts";

type Part = Record<string, unknown>;

/** An image, a document or sound in a client's body, given by an address or by its bytes. */
export type FoundMedia = {
  kind: "image" | "document" | "audio";
  /** Where its block stands, as errors name it: `messages[1].content[0]`. */
  path: string;
  /** The block's field that holds it: `image_url.url`. */
  field: string;
  /** An address, a `data:` URL or bare base64. */
  url: string;
  /** The media type given beside bare base64, perhaps "". Also set for a `data:` URL in a place where none belongs. */
  said?: string;
  /** It is not part of the newest question: the model has answered since, or it belongs to a tool's result. See {@link findAsked}. */
  isPast: boolean;
  /** The model drew it in an earlier turn: only words may be put in its place, and `field` and `url` are "". */
  isDrawn?: true;
  /** What the model drew: its bytes or an address. */
  drawn?: string;
};
type Media = Omit<FoundMedia, "isPast" | "isDrawn" | "drawn">;

/** Bytes as base64, and their media type. */
export type InlineMedia = { mediaType: string; data: string };

/** Words to stand in the place of media. */
export type Words = { words: string };

/** Gives what to put in the place of found media; undefined leaves them as they are. For sound, only words are put in its place. */
type Replace = (media: FoundMedia) => InlineMedia | Words | undefined;

/** Is told of each part that is neither text nor a call, nor known to hold media: some servers know more of them than the dialects do. */
type OnOther = (part: Record<string, unknown>) => void;

/** How deep content may be nested, levels: results of tools and documents made of blocks hold content themselves. */
const MAX_DEPTH = 3;

/** The last segment of an address' path, as a file's name; `document` where it is not fit to be one. */
function fileName(url: string): string {
  const name = URL.parse(url)?.pathname.split("/").at(-1) ?? "";
  return /^[\w.-]{1,100}$/.test(name) ? name : "document";
}

/** The field of a source that holds its media, by the source's type (dialects.md 2.2). */
const HOLDERS = new Map<unknown, string>([
  ["base64", "data"],
  ["url", "url"],
]);

/** Whether a field is empty and the id of a file at the vendor stands beside it. */
const isElsewhere = (url: string, holder: Part) => url === "" && typeof holder["file_id"] === "string";

/** Media of a field that holds a URL or base64. */
const dataOrUrl = (kind: FoundMedia["kind"], path: string, field: string, url: string): Media =>
  hasScheme(url) ? { kind, path, field, url } : { kind, path, field, url, said: "" };

/** Media of a field that holds an address, where a `data:` URL does not belong. */
const urlOnly = (kind: FoundMedia["kind"], path: string, field: string, url: string): Media =>
  isDataUrl(url) ? { kind, path, field, url, said: "" } : { kind, path, field, url };

/** Whether an item of a conversation is the model's own, in any dialect. */
function isModels(item: unknown): boolean {
  if (!isObject(item)) return false;
  const { role, type } = item;
  return role === "assistant" || type === "reasoning" || (typeof type === "string" && type.endsWith("_call"));
}

/** The index of the first item that the model has not answered yet. A last item of the model's own is an answer to be continued, and answers nothing. */
function findNewest(items: readonly unknown[]): number {
  let at = items.length;
  while (at > 0 && isModels(items[at - 1])) at--;
  while (at > 0 && !isModels(items[at - 1])) at--;
  return at;
}

/** Whether an item as a whole is a tool's result. */
const isResult = (item: Part, held: string): boolean =>
  held === "output" || item["role"] === "tool" || item["role"] === "function";

/** Whether an item of a conversation is or contains a tool's result, in any dialect. */
function tellsResult(item: unknown): boolean {
  if (!isObject(item)) return false;
  const { content } = item;
  if (isResult(item, Object.hasOwn(item, "output") ? "output" : "content")) return true;
  return Array.isArray(content) && content.some((part: unknown) => isObject(part) && part["type"] === "tool_result");
}

/**
 * The index of the first item of the newest question; the end where the model has called tools and not answered since. Chat clients send the pictures of
 * their tools in a user's turn behind the results, which are text there (dialects.md 1.2): these are no question. A person who asks can leave a picture out
 * and ask again; in a loop of tools nobody can.
 */
function findAsked(items: readonly unknown[]): number {
  const newest = findNewest(items);
  return items.slice(newest).some(tellsResult) ? items.length : newest;
}

/** What an image of a list holds, in an object or bare: an address or a `data:` URL. */
function addressIn(image: unknown): string {
  const held = isObject(image) ? image["image_url"] : image;
  return stringOf(isObject(held) ? held["url"] : held);
}

/** An assistant's turn without its images and with these words behind its own. */
function saidBehind({ images: _drawn, ...turn }: Part, words: string): Part {
  const { content } = turn;
  if (Array.isArray(content)) return { ...turn, content: [...content, { type: "text", text: words }] };
  return { ...turn, content: typeof content === "string" && content !== "" ? `${content}\n${words}` : words };
}

/** The fields of an item that hold a list of parts: of a turn, and of a tool's result in the responses dialect. */
const HELD = ["content", "output"] as const;

/** One walk through a client's conversation. */
class Walk {
  #at = 0;
  #asked: number | undefined;
  /** The walk is inside a tool's result. */
  #inResult = false;

  /** `textType`: the type of a text part in the dialect of these items. */
  constructor(
    private readonly replace: Replace,
    private readonly items: readonly unknown[],
    private readonly textType: "text" | "input_text",
    private readonly onOther: OnOther | undefined,
  ) {}

  /**
   * The item at index `at` with its media replaced; the very same object when nothing was. A list that items of its type do not have is walked as well:
   * nobody knows which of the two a vendor reads.
   */
  item(item: Part, at: number, path: string): Part {
    let told = this.#withoutDrawn(item, path);
    this.#at = at;
    if (isObject(told["output"])) this.onOther?.(told["output"]);
    for (const held of HELD) {
      if (!Array.isArray(told[held])) continue;
      this.#inResult = isResult(told, held);
      told = this.inside(told, held, path, -1);
    }
    return told;
  }

  /** The item with words in place of the images that the model drew: these are an item of their own, or a list beside the turn's content. */
  #withoutDrawn(item: Part, path: string): Part {
    if (item["type"] === "image_generation_call") {
      const words = item["result"] ? this.#wordsForDrawn(path, stringOf(item["result"])) : undefined;
      const part = { type: "output_text", text: words };
      return words === undefined ? item : { type: "message", role: "assistant", content: [part] };
    }
    const { images } = item;
    if (!Array.isArray(images) || item["role"] !== "assistant") return item;
    const words = images.flatMap((image, at) => this.#wordsForDrawn(`${path}.images[${at}]`, addressIn(image)) ?? []);
    return words.length > 0 ? saidBehind(item, words.join("\n")) : item;
  }

  #wordsForDrawn(path: string, drawn: string): string | undefined {
    const media = this.replace({ kind: "image", path, field: "", url: "", isPast: true, isDrawn: true, drawn });
    return media && "words" in media ? media.words : undefined;
  }

  #show(media: Media): ReturnType<Replace> {
    this.#asked ??= findAsked(this.items);
    return this.replace({ ...media, isPast: this.#inResult || this.#at < this.#asked });
  }

  #textIn(part: Part, { words }: Words): Part {
    const mark = part["cache_control"];
    return { type: this.textType, text: words, ...(mark !== undefined && { cache_control: mark }) };
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
      case "input_audio":
        return this.#audio(part, path, at);
      case "image":
      case "document":
        return isObject(part["source"])
          ? this.#source(part, part["source"], `${path}[${at}]`, depth)
          : this.#other(part);
      case "tool_result":
        return this.#result(part, `${path}[${at}]`, depth);
      case "text":
      case "input_text":
      case "output_text":
      case "tool_use":
        return part;
      default:
        return this.#other(part);
    }
  }

  #other(part: Part): Part {
    this.onOther?.(part);
    return part;
  }

  #result(part: Part, path: string, depth: number): Part {
    const before = this.#inResult;
    this.#inResult = true;
    const next = this.inside(part, "content", path, depth);
    this.#inResult = before;
    return next;
  }

  /** `holder`, at this depth, with the media replaced in its list `field`; the very same object when nothing was. */
  inside(holder: Part, field: string, path: string, depth: number): Part {
    if (depth >= MAX_DEPTH) return holder;
    const place = `${path}.${field}`;
    return mapListIn(holder, field, (part, at) => (isObject(part) ? this.#part(part, place, at, depth + 1) : part));
  }

  /** In chat an object, or a bare string from some clients; in responses a string. */
  #imageUrl(part: Part, path: string, at: number): Part {
    const image = part["image_url"];
    const url = isObject(image) ? image["url"] : image;
    if (typeof url !== "string" || isElsewhere(url, part)) return part;
    const field = isObject(image) ? "image_url.url" : "image_url";
    const media = this.#show({ kind: "image", path: `${path}[${at}]`, field, url });
    if (!media) return part;
    if ("words" in media) return this.#textIn(part, media);
    return { ...part, image_url: isObject(image) ? { ...image, url: dataUrl(media) } : dataUrl(media) };
  }

  #file(part: Part, file: Part, path: string, at: number): Part {
    const url = file["file_data"];
    if (typeof url !== "string" || isElsewhere(url, file)) return part;
    const media = this.#show(dataOrUrl("document", `${path}[${at}]`, "file.file_data", url));
    if (!media) return part;
    if ("words" in media) return this.#textIn(part, media);
    const filename = file["filename"] ?? fileName(url);
    return { ...part, file: { ...file, filename, file_data: dataUrl(media) } };
  }

  #inputFile(part: Part, path: string, at: number): Part {
    const { file_url: fileUrl, ...rest } = part;
    const url = fileUrl || part["file_data"];
    if (typeof url !== "string" || isElsewhere(url, part)) return part;
    const place = `${path}[${at}]`;
    const media = this.#show(
      fileUrl ? urlOnly("document", place, "file_url", url) : dataOrUrl("document", place, "file_data", url),
    );
    if (!media) return part;
    if ("words" in media) return this.#textIn(part, media);
    return { ...rest, filename: part["filename"] ?? fileName(url), file_data: dataUrl(media) };
  }

  /** Sound stays as it is, or words take its place. */
  #audio(part: Part, path: string, at: number): Part {
    const audio = part["input_audio"];
    const url = isObject(audio) ? audio["data"] : audio;
    if (typeof url !== "string") return part;
    const field = isObject(audio) ? "input_audio.data" : "input_audio";
    const media = this.#show(dataOrUrl("audio", `${path}[${at}]`, field, url));
    return media && "words" in media ? this.#textIn(part, media) : part;
  }

  #source(part: Part, source: Part, path: string, depth: number): Part {
    const kind = part["type"] as "image" | "document";
    if (source["type"] === "content") {
      const next = this.inside(source, "content", `${path}.source`, depth);
      return next === source ? part : { ...part, source: next };
    }
    const holder = HOLDERS.get(source["type"]);
    if (holder === undefined) return part;
    const url = stringOf(source[holder]);
    const found = urlOnly(kind, path, `source.${holder}`, url);
    if (holder === "data") found.said = stringOf(source["media_type"]);
    const media = this.#show(found);
    if (!media) return part;
    return "words" in media ? this.#textIn(part, media) : { ...part, source: sourceOf(kind, media) };
  }
}

function sourceOf(kind: "image" | "document", media: InlineMedia): Part {
  const text = kind === "document" ? textOfMedia(media.mediaType, media.data) : undefined;
  if (text !== undefined) return { type: "text", media_type: "text/plain", data: text };
  return { type: "base64", media_type: media.mediaType, data: media.data };
}

/** Where a conversation stands, in one dialect or another, and how a part that is text is called there. */
const CONVERSATIONS = [
  ["messages", "text"],
  ["input", "input_text"],
] as const;

/**
 * Calls `replace` for every image, document and sound of a client's body, except those given by the id of a file at a vendor. It works for
 * every client's dialect: the types of their blocks do not collide (dialects.md 1.2, 2.2). A list that the client's dialect does not know, beside its
 * conversation, is walked as well: nobody knows which of the two a vendor reads. Returns the edits of the fields that changed, or undefined when
 * nothing was replaced. `body` itself is never changed. Numbers in those fields that no double holds exactly lose their last digits.
 */
export function replaceMedia(body: Record<string, unknown>, replace: Replace, onOther?: OnOther): Edits | undefined {
  let edits: Edits | undefined;
  for (const [field, textType] of CONVERSATIONS) {
    const list = body[field];
    if (!Array.isArray(list)) continue;
    const walk = new Walk(replace, list, textType, onOther);
    const next = mapChanged<unknown>(list, (item, at) =>
      isObject(item) ? walk.item(item, at, `${field}[${at}]`) : item,
    );
    if (next !== list) edits = { ...edits, [field]: next };
  }
  return edits;
}

/** How a correct `data:` URL of a format that some vendor takes begins; and how many characters of its base64 show its format. */
const SOUND = /^data:((?:image|video|audio)\/[\w.+-]{1,100}|application\/pdf);base64,/;
const SHOWING = 16;
/** Some clients break base64 into lines, of 64 or 76 characters, or end it with a line break: this many characters at its beginning, and its end, show that. */
const LINE = 80;

/** Whether base64 that begins at `start` has white space in its first line or at its end. */
const hasSpace = (url: string, start: number) => /\s/.test(url.slice(start, start + LINE) + url.slice(-2));

/** Whether media are to be corrected: in an image's block all but text, as which a `data:` URL without a type counts; in any other block a PDF or an image. */
const isMeant = (kind: FoundMedia["kind"], { mediaType }: InlineMedia) =>
  (kind === "image" && !mediaType.startsWith("text/")) ||
  mediaType === "application/pdf" ||
  mediaType.startsWith("image/");

/** Bare base64 in its correct form; undefined where it has that already, which is seen from its ends alone. */
function soundBytes(kind: FoundMedia["kind"], url: string, said: string): InlineMedia | undefined {
  const data = hasSpace(url, 0) ? url.replaceAll(/\s+/g, "") : url;
  const media = { mediaType: mediaTypeOf(said, data), data };
  return (data === url && media.mediaType === said) || !isMeant(kind, media) ? undefined : media;
}

/**
 * The correct form of media in the body itself which a strict vendor would refuse: with parameters, a wrong media type, percent-encoding in place of
 * base64 (dialects.md 4.8 #46), white space in it, base64 without a `data:` URL around it, or with one where none belongs. Undefined for
 * media that are correct, for sound, and for every address.
 */
export function soundMedia({ kind, url, said }: Media): InlineMedia | undefined {
  if (kind === "audio") return undefined;
  if (!isDataUrl(url)) return said !== undefined || sniffMediaType(url) ? soundBytes(kind, url, said ?? "") : undefined;
  const head = SOUND.exec(url);
  const at = head?.[0].length ?? 0;
  const start = said === undefined && head && url.slice(at, at + SHOWING);
  const isRight = start && mediaTypeOf(head[1] ?? "", start) === head[1] && !hasSpace(url, at) && !url.includes("%");
  if (isRight) return undefined;
  const media = parseDataUrl(url);
  return media && (said !== undefined || isMeant(kind, media)) ? media : undefined;
}
