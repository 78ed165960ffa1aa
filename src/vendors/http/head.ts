import { CLOSES, FieldLines, MalformedMessage } from "../../lib/http1/fields.ts";
import type { Framing } from "../../lib/http1/framing.ts";

/** The longest head of an answer that is read, bytes: twice the most that servers send. */
export const MAX_HEAD_BYTES = 64 * 1024;

const STATUS_LINE = /^HTTP\/1\.[01] [1-9]\d\d(?: [^\r\n]*)?\r?(?=\n|$)/;
/** Where in it the version's last digit and the status stand. */
const VERSION_AT = 7;
const STATUS_AT = 9;
/** At most 256 fields as they must be written: a name before which there is white space would continue the line above, which is long forbidden. */
const FIELDS = /^(?:\n[!#$%&'*+.^_`|~\w-]+:[^\0\r\n]*\r?){0,256}$/;

/** Status and header fields of one answer. */
export class Head extends FieldLines {
  constructor(
    readonly status: number,
    fields: string,
    /** HTTP/1.1, whose connections stay open unless it is said otherwise. */
    private readonly isCurrent: boolean,
  ) {
    super(fields);
  }

  /** The status alone. */
  withoutFields(): Head {
    return this.isEmpty ? this : new Head(this.status, "", this.isCurrent);
  }

  /** Whether another request may follow on the connection. None may where the body's end is told in two ways: it may be meant otherwise than it is read here. */
  get staysOpen(): boolean {
    if (!this.isCurrent || (this.has("transfer-encoding") && this.has("content-length"))) return false;
    const said = this.get("connection");
    return said === null || !CLOSES.test(said);
  }

  /** Throws {@link MalformedMessage} for a framing that can be read in more than one way. */
  get framing(): Framing {
    if (this.status === 204 || this.status === 304) return { kind: "none" };
    const coding = this.get("transfer-encoding");
    if (coding !== null) {
      if (coding.toLowerCase() !== "chunked") throw new MalformedMessage("a transfer coding that nobody asked for");
      return { kind: "chunked" };
    }
    const length = this.get("content-length");
    return length === null ? { kind: "close" } : { kind: "length", bytes: readLength(length) };
  }
}

/** A length that is told several times must be the same each time (RFC 9110, 8.6). */
function readLength(told: string): number {
  if (/^\d{1,15}$/.test(told)) return Number(told);
  const each = told.split(",").map((one) => one.trim());
  const [first = ""] = each;
  if (/^\d{1,15}$/.test(first) && each.every((one) => one === first)) return Number(first);
  throw new MalformedMessage("a length that is no number");
}

const BEGINNING = Buffer.from("HTTP/1.");

/** Whether the head of an answer may begin at this place, as far as its first bytes tell. */
export function canBeginHead(bytes: Buffer, at: number): boolean {
  const length = Math.min(BEGINNING.length, bytes.length - at);
  return bytes.compare(BEGINNING, 0, length, at, at + length) === 0;
}

/** Reads a head, without the empty line behind it. Throws {@link MalformedMessage}. */
export function parseHead(text: string): Head {
  if (!STATUS_LINE.test(text)) throw new MalformedMessage("no status line");
  const end = text.indexOf("\n");
  const fields = end < 0 ? "" : text.slice(end);
  if (!FIELDS.test(fields)) throw new MalformedMessage("a header field that is none");
  return new Head(Number(text.slice(STATUS_AT, STATUS_AT + 3)), fields, text.charCodeAt(VERSION_AT) === 49);
}
