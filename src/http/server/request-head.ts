import { CLOSES, FieldLines, MalformedMessage } from "../../lib/http1/fields.ts";
import type { Framing } from "../../lib/http1/framing.ts";
import { pathOf } from "../request.ts";

/** The longest head of a request, bytes. */
export const MAX_HEAD_BYTES = 32 * 1024;

const REQUEST_LINE = /^[!#$%&'*+.^_`|~\w-]{1,32} [!"$-~]+ HTTP\/1\.[01](?=\r\n|$)/;
/** What stands between a target, which holds no blank, and the last digit of the version. */
const VERSION = " HTTP/1.";
/** What a method begins with, or the empty line before it. */
const FIRST = /^[!#$%&'*+.^_`|~\w\r-]/;
/** At most 128 fields as they must be written: no white space before a name or its colon, no line that continues another, no odd bytes. */
const FIELDS = /^(?:\r\n[!#$%&'*+.^_`|~\w-]+:[\t\x20-\x7e\x80-\xff]*){0,128}$/;
/** A target that names its host: what a client sends to a proxy, and every server must read (RFC 9112, 3.2.2). */
const ABSOLUTE = /^https?:\/\/([^/?#@]+)(\/[^#]*)?$/i;
/** Path of a target in which servers see different paths: one resolves its dots, or takes its backslash for a slash, and the next one does not. */
const AMBIGUOUS = /^[^?]*(?:\\|\/(?:\.|%2e){1,2}(?![^/?]))/i;
/** One field as {@link FIELDS} has it, and the name at the start of one that is none; a longer name is not repeated to who sent it. */
const FIELD = /^[!#$%&'*+.^_`|~\w-]+:[\t\x20-\x7e\x80-\xff]*$/;
const FIELD_NAME = /^[!#$%&'*+.^_`|~\w-]{1,64}(?=:)/;
const KEEPS = /(?:^|,)\s*keep-alive\s*(?:,|$)/i;

/** What of a request comes before its body. */
export class RequestHead extends FieldLines {
  /** The host that is asked, of the target or else of its field; null where neither names one. */
  readonly host: string | null;
  /** Path and query as they came. What is no path is given as it is: no route answers to it. */
  readonly path: string;

  constructor(
    readonly method: string,
    target: string,
    lines: string,
    /** HTTP/1.1: the connection stays open unless it is said otherwise, and bodies may come and go in chunks. Of HTTP/1.0 neither is so. */
    readonly isCurrent: boolean,
  ) {
    super(lines);
    const absolute = target.startsWith("/") ? null : ABSOLUTE.exec(target);
    this.host = absolute?.[1] ?? this.get("host");
    this.path = absolute ? (absolute[2] ?? "/") : target;
  }

  /** Whether the client would send another request on the connection (RFC 9112, 9.3). */
  get staysOpen(): boolean {
    const said = this.get("connection");
    if (said === null) return this.isCurrent;
    return !CLOSES.test(said) && (this.isCurrent || KEEPS.test(said));
  }

  /** The client sends its body once it is told to. */
  get waitsToSend(): boolean {
    return this.isCurrent && this.get("expect")?.toLowerCase() === "100-continue";
  }

  /** Throws {@link MalformedMessage} for a body whose end can be read in more than one way (RFC 9112, 6.3 and 11.2). */
  get framing(): Framing {
    const coding = this.get("transfer-encoding");
    const length = this.get("content-length");
    if (coding !== null) {
      if (length !== null || !this.isCurrent) throw new MalformedMessage("a body with two ends");
      if (coding.toLowerCase() !== "chunked") throw new MalformedMessage("a transfer coding that is not known here");
      return { kind: "chunked" };
    }
    if (length === null) return { kind: "none" };
    if (!/^\d{1,15}$/.test(length)) throw new MalformedMessage("a content-length that is no number");
    return { kind: "length", bytes: Number(length) };
  }
}

/** What is wrong with fields that are not as they must be: the name of the one at fault, where it has one, and never its value. */
function fieldFault(lines: string): string {
  const wrong = lines
    .split("\r\n")
    .slice(1)
    .find((line) => !FIELD.test(line));
  if (wrong === undefined) return "too many header fields";
  const name = FIELD_NAME.exec(wrong)?.[0];
  return name === undefined ? "a header field that is none" : `the header ${name} holds what no header can carry`;
}

/** Whether the head of a request may begin at this place, as far as one byte can tell. */
export function canBeginHead(bytes: Buffer, at: number): boolean {
  return at >= bytes.length || FIRST.test(bytes.toString("latin1", at, at + 1));
}

/** The path that a head asks for, whatever is wrong with its fields; undefined where its request line is not well formed. */
export function askedPath(text: string): string | undefined {
  if (!REQUEST_LINE.test(text)) return undefined;
  const blank = text.indexOf(" ");
  const target = text.slice(blank + 1, text.indexOf(VERSION, blank + 1));
  const path = target.startsWith("/") ? target : ABSOLUTE.exec(target)?.[2];
  return path === undefined ? undefined : pathOf(path);
}

/** Reads a head, without the empty line behind it. Throws {@link MalformedMessage}. */
export function parseRequestHead(text: string): RequestHead {
  if (!REQUEST_LINE.test(text)) throw new MalformedMessage("no request line of HTTP/1.1");
  // What was tested is cut by its blanks: groups of an expression cost more than all else that is read here.
  const blank = text.indexOf(" ");
  const end = text.indexOf(VERSION, blank + 1);
  const lines = text.slice(end + VERSION.length + 1);
  if (!FIELDS.test(lines)) throw new MalformedMessage(fieldFault(lines));
  const isCurrent = text.charCodeAt(end + VERSION.length) === 49;
  const head = new RequestHead(text.slice(0, blank), text.slice(blank + 1, end), lines, isCurrent);
  // Taken for a path, a target that names a host in a way that is not well formed would get past the check of hosts.
  if (!head.path.startsWith("/") && head.path !== "*" && head.method !== "CONNECT") {
    throw new MalformedMessage("a target that is none");
  }
  if (AMBIGUOUS.test(head.path)) throw new MalformedMessage("a path with dots or a backslash to be resolved");
  const hosts = head.count("host");
  if (hosts > 1 || (hosts === 0 && head.isCurrent)) throw new MalformedMessage("no host, or more than one");
  return head;
}
