/** What a fetched document is read as. */
export type DocumentKind = "html" | "markdown" | "text" | "code" | "json" | "xml" | "pdf";

/** Media types of programs and of formats that are shown like programs, and the language for the fence of each. */
const CODE: Readonly<Record<string, string>> = {
  "text/css": "css",
  "text/javascript": "javascript",
  "application/javascript": "javascript",
  "application/x-javascript": "javascript",
  "application/typescript": "typescript",
  "text/x-python": "python",
  "text/x-c": "c",
  "text/x-java": "java",
  "text/x-rust": "rust",
  "text/x-go": "go",
  "text/x-shellscript": "sh",
  "application/x-sh": "sh",
  "application/sql": "sql",
  "application/toml": "toml",
  "application/yaml": "yaml",
  "application/x-yaml": "yaml",
  "text/yaml": "yaml",
  "text/x-diff": "diff",
};

/** Bytes at the start that show what a document is. */
const SHOWING = 1_024;

/** The comma before the second value of a header that was sent twice. */
const NEXT_TYPE = /,(?=\s*[\w.+-]+\/[\w.+-]+\s*(?:[;,]|$))/;

const CHARSET = /;\s{0,9}charset\s{0,9}=\s{0,9}"?([\w:.-]{1,40})/i;

/**
 * A media type without its parameters, in small letters, and its charset. Of a header that was sent twice the last type counts, and the last charset that was
 * named with it (Fetch, "extract a MIME type").
 */
export function parseContentType(header: string): { type: string; charset: string | undefined } {
  const values = header.split(NEXT_TYPE).map((value) => ({
    type: (value.split(";")[0] ?? "").trim().toLowerCase(),
    charset: CHARSET.exec(value)?.[1],
  }));
  const type = values.at(-1)?.type ?? "";
  const named = values.findLast((value) => value.type === type && value.charset !== undefined);
  return { type, charset: named?.charset };
}

const looksLikeHtml = (head: string) =>
  /^\s*(?:<!--[\s\S]{0,500}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b/i.test(head);

/** What stands before the first element of XML: its declaration, styles, remarks. */
const PROLOG = String.raw`^(?:\u00ef\u00bb\u00bf)?\s*(?:<\?xml[^>]*>\s*|<!--(?:(?!-->)[\s\S])*-->\s*)*`;
const XHTML = new RegExp(String.raw`${PROLOG}<(?:!doctype\s+html|html)\b`, "i");
const FEED = new RegExp(String.raw`${PROLOG}(?:<!doctype\s[^>]*>\s*)?<(?:rss|feed|rdf:rdf)\b`, "i");

/** XML that is a page is a page, and what is called HTML may be a feed (MIME Sniffing standard, "distinguishing if a resource is a feed or HTML"). */
function byFirstElement(said: DocumentKind, head: string): DocumentKind {
  if (said === "xml" && XHTML.test(head)) return "html";
  return said === "html" && FEED.test(head) ? "xml" : said;
}

/** Whether a page is written by the rules of XML, by its media type. */
export const isXhtml = (type: string): boolean => /[/+]xml$/.test(type);

/** A PDF file may have something before it, as what a program printed too much (ISO 32000-1, H.3: its readers look at 1,024 bytes). */
const looksLikePdf = (head: string, type: string) =>
  /^(?:\u00ef\u00bb\u00bf)?\s*%PDF-/.test(head) || (byType(type) === "pdf" && head.includes("%PDF-"));

function byBytes(head: string, type: string): DocumentKind | undefined {
  if (looksLikePdf(head, type)) return "pdf";
  if (looksLikeHtml(head.replace(/^\u00ef\u00bb\u00bf/, ""))) return "html";
  return undefined;
}

/** A NUL byte is in no text but that of UTF-16, which begins with its mark or is named by its server. */
function isBinary(head: string, charset: string | undefined): boolean {
  return head.includes("\0") && !/^(?:\u00ff\u00fe|\u00fe\u00ff)/.test(head) && !/^utf-?16/i.test(charset ?? "");
}

/**
 * Whether bytes are those of a text in UTF-8: programs and formats have more names than anybody lists (`application/graphql`, `x-perl`, `x-toml`), and
 * packed formats begin with controls or with bytes that no text has.
 */
function isPlain(bytes: Uint8Array): boolean {
  try {
    const head = new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, SHOWING), { stream: true });
    return head !== "" && !/(?![\t\n\f\r])\p{Cc}/u.test(head);
  } catch {
    return false;
  }
}

function byType(type: string): DocumentKind | undefined {
  if (type === "text/html" || type === "application/xhtml+xml") return "html";
  if (type === "text/markdown" || type === "text/x-markdown") return "markdown";
  if (type === "application/pdf" || type === "application/x-pdf") return "pdf";
  if (type === "application/json" || type === "text/json" || type.endsWith("+json")) return "json";
  if (type === "application/xml" || type === "text/xml" || type.endsWith("+xml")) return "xml";
  if (Object.hasOwn(CODE, type)) return "code";
  return type.startsWith("text/") || /^application\/(?:x-)?(?:ndjson|jsonl|csv|rtf|tex|latex)$/.test(type)
    ? "text"
    : undefined;
}

/**
 * Whether a document's source is what there is to read, by what its server says: markup in plain text, JSON or a program is shown as it stands, as browsers do
 * with `text/plain` (MIME Sniffing standard, 7).
 */
const isSource = (type: string, said: DocumentKind | undefined): boolean =>
  type === "text/plain" || said === "json" || said === "code";

/**
 * What a document is: what its first bytes show, else what its server says, else text where it may be text or its bytes can be nothing else. Undefined for
 * images, sound, archives and other formats that hold no text for a reader (web-and-mcp.md C4). `type`, `charset`: as {@link parseContentType} gives them.
 */
export function kindOf(type: string, bytes: Uint8Array, charset: string | undefined): DocumentKind | undefined {
  const head = Buffer.from(bytes.subarray(0, SHOWING)).toString("latin1");
  const shown = byBytes(head, type);
  const said = byType(type);
  if (shown === "pdf" || (shown && !isSource(type, said))) return shown;
  if (said === "pdf" || isBinary(head, charset)) return undefined;
  if (said) return byFirstElement(said, head);
  if (type !== "" && type !== "application/octet-stream" && type !== "binary/octet-stream") {
    return type.startsWith("application/") && isPlain(bytes) ? "text" : undefined;
  }
  return head.trimStart().startsWith("<?xml") ? "xml" : "text";
}

/** The language of a code fence for a media type that is a program's or a format's. */
export const fenceLanguage = (type: string): string => CODE[type] ?? "";
