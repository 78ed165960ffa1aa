import { detect } from "chardet";
import { parseTree, walkElements } from "../page-tree.ts";

/**
 * Bytes at a page's start in which it may name its own charset (the HTML standard looks at 1,024; browsers look on until the head has ended), and from which
 * it is guessed.
 */
const LOOKED_AT = 65_536;

/** A decoder for a charset's name as servers write it; undefined for one nobody knows. */
function decoderOf(name: string | undefined): TextDecoder | undefined {
  if (!name) return undefined;
  try {
    return new TextDecoder(name.trim().toLowerCase() as ConstructorParameters<typeof TextDecoder>[0]);
  } catch {
    // A name that is none: the next source is asked.
    return undefined;
  }
}

function byMark(bytes: Uint8Array): string | undefined {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return "utf-8";
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return "utf-16le";
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return "utf-16be";
  return undefined;
}

const IN_CONTENT = /charset\s{0,9}=\s{0,9}["']?\s{0,9}([\w:.-]{1,40})/i;

/** The charset that a `meta` element names, in `charset` or as the header would (`text/html; charset=…`). Such words in a page's description do not count. */
function byMeta(head: string): string | undefined {
  for (const { name, attributes } of walkElements(parseTree(head).root)) {
    if (name !== "meta") continue;
    const { charset, content = "" } = attributes;
    const speaksForServer = /content-type/i.test(attributes["http-equiv"] ?? "") || /^\s*text\/html\s*;/i.test(content);
    const named = charset?.trim() || (speaksForServer ? IN_CONTENT.exec(content)?.[1] : undefined);
    if (named) return named;
  }
  return undefined;
}

/** What the page says of itself: a meta element's charset, or an XML declaration. */
function byPage(head: string): string | undefined {
  const named =
    (/<meta\s/i.test(head) ? byMeta(head) : undefined) ??
    /^\s{0,99}<\?xml\s[^>]{0,200}?encoding\s{0,9}=\s{0,9}["']([\w:.-]{1,40})/i.exec(head)?.[1];
  // A page that could be read this far is not in UTF-16, whatever it says (HTML standard).
  return named && /^utf-?16/i.test(named) ? "utf-8" : named;
}

/**
 * The bytes at a page's start that a reader is shown, from which its charset is guessed. Markup and programs are in English whatever the text is in, and would
 * be what is guessed of.
 */
function shownBytes(head: string): Uint8Array {
  const { root } = parseTree(head);
  const shown = [root, ...walkElements(root)].filter(({ name }) => name !== "script" && name !== "style");
  const texts = shown.flatMap(({ children }) => children.filter((child) => typeof child === "string"));
  // What was an entity is no byte.
  return Buffer.from(texts.join(" ").replace(/[^\0-\xff]/g, " "), "latin1");
}

function isUtf8(bytes: Uint8Array, whole: boolean): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: !whole });
    return true;
  } catch {
    return false;
  }
}

/** How a text of ISO-2022-JP goes over into kanji. */
const TO_KANJI = ["\x1b$B", "\x1b$@"];

/** Whether this is the beginning of a text in ISO-2022-JP, as archives of Japanese mail are. All of its bytes are those of ASCII, so it would pass for UTF-8. */
const isJapaneseMail = (head: string): boolean =>
  TO_KANJI.some((way) => head.includes(way)) && !/[\x80-\xff]/.test(head);

/** Letters beyond ASCII that must be whole, for each broken one, in a text that is taken for UTF-8. In texts of other charsets more are broken than whole. */
const WHOLE_FOR_BROKEN = 4;

/** Whether a text that was read as UTF-8 is in UTF-8 but for a few letters, such as a name in another charset that somebody added to a list. */
function isHardlyBroken(text: string): boolean {
  let broken = 0;
  let whole = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0xfffd) broken++;
    else if (code > 127) whole++;
  }
  return whole >= broken * WHOLE_FOR_BROKEN;
}

/**
 * The text of a page's bytes: by its byte order mark, the server's word, its own word, the escapes of Japanese mail, UTF-8, a guess, windows-1252, in that
 * order (web-and-mcp.md C4). `whole`: the bytes were not cut off. Never throws; bytes that mean nothing become replacement characters.
 */
export function decodeText(bytes: Uint8Array, charset: string | undefined, whole: boolean): string {
  const head = Buffer.from(bytes.subarray(0, LOOKED_AT)).toString("latin1");
  const named = decoderOf(byMark(bytes)) ?? decoderOf(charset) ?? decoderOf(byPage(head));
  if (named) return named.decode(bytes);
  if (isJapaneseMail(head)) return new TextDecoder("iso-2022-jp").decode(bytes);
  const text = new TextDecoder().decode(bytes);
  if (isUtf8(bytes, whole) || isHardlyBroken(text)) return text;
  const guess = detect(shownBytes(head)) ?? undefined;
  return (decoderOf(guess) ?? new TextDecoder("windows-1252")).decode(bytes);
}
