import type { TokenFamily } from "../../catalog/token-families.ts";
import { textOfMedia } from "../../dialects/media/type.ts";
import { type FoundMedia, replaceMedia } from "../../dialects/media/walk.ts";
import { isObject } from "../../lib/json.ts";
import { stringEnd } from "../../lib/json-ends.ts";
import { glancePdfPages } from "../tokenizer/pdf-pages.ts";
import { imageTokens, readImageSize } from "./image-tokens.ts";
import { soundTokens } from "./measure.ts";
import { roughTokens } from "./rough-tokens.ts";

/** Bytes are told from language in a string longer than this, characters. */
const DATA_STRING = 2_048;
/**
 * How bytes begin. It is seen at once of nearly all strings that they are none. PHP writes slashes behind backslashes (openai-php/client, its `Payload.php`), and
 * .NET a plus sign by its number.
 */
const DATA_START = /^(?:data:[^,]{1,100},)?(?:[A-Za-z0-9+/_-]|\\\/|\\u002[Bb]){64}/;
/** Characters in which such a beginning stands, however it is written. */
const DATA_STARTS_IN = 512;
/** Characters of a string by which it is known as the bytes that were found. */
const KEY_START = 128;
/** The head of a data URL of bytes, and the media type that it names. */
const DATA_HEAD = /^data:([^;,]{0,80})[^,]{0,40};base64,/;
/** Characters of base64 in which its first line ends, where it is broken into lines. */
const LINE = 80;
/** Base64 characters of a usual page of a PDF. */
const CHARACTERS_PER_PAGE = 22_000;
const ADDRESS = /^\s*https?:/i;
/** Base64 characters of a file in which it shows whether it is text. */
const SHOWING_TEXT = 1_024;
/** Fields that hold bytes, or an object with them, in parts that only some servers know: of films and of sound (vLLM), and of what tools draw (MCP). */
const BYTE_FIELDS = ["image_url", "video_url", "audio_url", "image", "video", "audio", "data"] as const;
const FILMS: ReadonlySet<string> = new Set(["video_url", "video"]);
const SOUNDS: ReadonlySet<string> = new Set(["audio_url", "audio"]);

/** What stands in a string of JSON, from whole characters of it. */
const unescaped = (text: string): string => (text.includes("\\") ? JSON.parse(`"${text}"`) : text);

/** What bytes inside a request count as, in the tokens of a family. */
type Weight = (family: TokenFamily) => number;

/** Whether a file is text, though its media type does not say so. */
const isPlain = (data: string): boolean => !Buffer.from(data.slice(0, SHOWING_TEXT), "base64").includes(0);

function weighText(text: string): Weight {
  const tokens = roughTokens(text, 0, text.length);
  return ({ factor }) => tokens * factor;
}

function weighPages(data: string): Weight {
  // Some clients break base64 into lines, which stand in the way where its end is read alone.
  const whole = /\s/.test(data.slice(0, LINE)) ? data.replaceAll(/\s+/g, "") : data;
  const pages = glancePdfPages(whole) ?? Math.ceil(whole.length / CHARACTERS_PER_PAGE);
  return ({ perPage }) => pages * perPage;
}

/** Of what is seen or heard: a film is told by no dialect. */
type Kind = FoundMedia["kind"] | "film";

/** A picture by its size, a sound by its length, a film too, and as one picture at the least, a text by what it says, a PDF by its pages, or its length where it does not say how many they are. */
function weigh(kind: Kind, bytes: string, said = ""): Weight {
  const [head = "", type = said] = DATA_HEAD.exec(bytes) ?? [];
  const data = bytes.slice(head.length);
  if (kind === "audio" || kind === "film") {
    const tokens = soundTokens(data.length);
    return ({ image }) => (kind === "film" ? Math.max(tokens, imageTokens(image)) : tokens);
  }
  if (data.startsWith("JVBERi")) return weighPages(data);
  const text = textOfMedia(type.trim().toLowerCase(), data);
  if (text !== undefined) return weighText(text);
  if (kind === "document" && isPlain(data)) return weighText(Buffer.from(data, "base64").toString());
  const size = readImageSize(data);
  return ({ image }) => imageTokens(image, size);
}

/** What bytes count as, by {@link keyOf} the string that holds them: several where strings begin alike and are of the same length. */
export type Inside = ReadonlyMap<string, readonly Weight[]>;

/** Tells bytes from other strings without keeping them, nor looking at all of them. */
const keyOf = (bytes: string): string => `${bytes.length} ${bytes.slice(0, KEY_START)}`;

function addTo<V>(lists: Map<string, V[]>, key: string, value: V): void {
  const list = lists.get(key);
  if (list) list.push(value);
  else lists.set(key, [value]);
}

/** Images and documents of which a request has the addresses alone, and the bytes of media that stand `inside` it. */
export type Media = { images: number; documents: number; inside: Inside };

/** The images and documents of which a client's body, parsed, has the addresses alone, and the bytes that stand in it. Keeps none of these. */
export function countMedia(body: unknown): Media {
  const inside = new Map<string, Weight[]>();
  const counts = { images: 0, documents: 0, inside };
  if (!isObject(body)) return counts;
  const note = (kind: Kind, bytes: string, said?: string) => {
    if (bytes.length <= DATA_STRING) return;
    addTo(inside, keyOf(bytes), weigh(kind, bytes, said));
  };
  const noteMedia = ({ kind, url, said, drawn }: FoundMedia) => {
    if (!ADDRESS.test(url)) note(kind, drawn ?? url, said);
    else if (kind !== "audio") counts[`${kind}s`]++;
    return undefined;
  };
  replaceMedia(body, noteMedia, (part) => {
    for (const field of BYTE_FIELDS) {
      const held = part[field];
      const bytes = isObject(held) ? held["url"] : held;
      if (typeof bytes === "string") note(FILMS.has(field) ? "film" : SOUNDS.has(field) ? "audio" : "image", bytes);
    }
  });
  return counts;
}

/** Strings of a request's text that may be the bytes `inside` it: where each begins and ends, by {@link keyOf}. */
function findBytes(
  text: string,
  inside: Inside,
): ReadonlyMap<string, readonly (readonly [open: number, close: number])[]> {
  const found = new Map<string, (readonly [number, number])[]>();
  let open = text.indexOf('"');
  while (open >= 0) {
    const end = stringEnd(text, open);
    const close = end < 0 ? text.length : end - 1;
    if (close - open > DATA_STRING && DATA_START.test(text.slice(open + 1, open + DATA_STARTS_IN))) {
      const key = keyOf(unescaped(text.slice(open + 1, close)));
      if (inside.has(key)) addTo(found, key, [open, close] as const);
    }
    open = close < text.length ? text.indexOf('"', close + 1) : -1;
  }
  return found;
}

/** The tokens of what is language in a request, and of the pictures and pages in it. */
export function readMedia(text: string, inside: Inside, family: TokenFamily): { language: number; media: number } {
  let media = 0;
  const bytes: (readonly [open: number, close: number])[] = [];
  for (const [key, stretches] of findBytes(text, inside)) {
    const weights = inside.get(key) ?? [];
    for (const weight of weights) media += weight(family);
    // A text that begins as the bytes do, and is as long, stands beside them: all of them count as language too, since nobody knows which it is.
    if (stretches.length <= weights.length) bytes.push(...stretches);
  }
  let language = 0;
  let from = 0;
  for (const [open, close] of bytes.toSorted(([one], [other]) => one - other)) {
    language += roughTokens(text, from, open);
    from = close;
  }
  return { language: language + roughTokens(text, from, text.length), media };
}
