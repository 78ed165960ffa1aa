/** The longest head of an answer, bytes: twice what servers send at the most. */
export const MAX_HEAD_BYTES = 64 * 1024;

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [^\r\n]*)?\r?(?=\n|$)/;
/** At most 256 fields as they must be written: a name before which there is white space would continue the line above, which is long forbidden. */
const FIELDS = /^(?:\n[!#$%&'*+.^_`|~\w-]+:[^\0\r\n]*\r?){0,256}$/;

/** An answer that is no HTTP/1.1: nothing that follows on its connection can be believed. */
export class MalformedAnswer extends Error {
  override readonly name = "MalformedAnswer";
}

/** How the end of a body is known (RFC 9112, 6.3): by its length, by its chunks, or by the end of the connection; `none`: there is no body. */
export type Framing = { kind: "none" | "chunked" | "close" } | { kind: "length"; bytes: number };

/** What is looked for in a head, by name: written once. */
const needles = new Map<string, string>();

function needleOf(name: string): string {
  let needle = needles.get(name);
  if (needle === undefined) {
    needle = `\n${name}:`;
    needles.set(name, needle);
  }
  return needle;
}

/** Status and header fields of one answer. A field is looked for when it is asked for: vendors send dozens, of which four are read. */
export class Head {
  /** {@link #fields} in lower case, for names; latin-1 has the same length in both. */
  readonly #names: string;

  constructor(
    readonly status: number,
    /** Every field behind a line feed. */
    private readonly fields: string,
    /** HTTP/1.1, whose connections stay open unless it is said otherwise. */
    private readonly isCurrent: boolean,
  ) {
    this.#names = fields.toLowerCase();
  }

  /** A field by its name in lower case, its values joined by commas where it came more than once; null when it did not come. */
  get(name: string): string | null {
    const needle = needleOf(name);
    let at = this.#names.indexOf(needle);
    if (at < 0) return null;
    let value = this.#valueAt(at + needle.length);
    for (;;) {
      at = this.#names.indexOf(needle, at + needle.length);
      if (at < 0) return value;
      value += `, ${this.#valueAt(at + needle.length)}`;
    }
  }

  has(name: string): boolean {
    return this.#names.includes(needleOf(name));
  }

  #valueAt(start: number): string {
    const end = this.fields.indexOf("\n", start);
    return this.fields.slice(start, end < 0 ? this.fields.length : end).trim();
  }

  /** Whether another request may follow on the connection. What is odd in its framing was perhaps meant otherwise: then none may. */
  get staysOpen(): boolean {
    if (!this.isCurrent || (this.has("transfer-encoding") && this.has("content-length"))) return false;
    const said = this.get("connection");
    return said === null || !/(?:^|,)\s*close\s*(?:,|$)/i.test(said);
  }

  /** Throws {@link MalformedAnswer} for a framing that can be read in more than one way. */
  get framing(): Framing {
    if (this.status === 204 || this.status === 304) return { kind: "none" };
    const coding = this.get("transfer-encoding");
    if (coding !== null) {
      if (coding.toLowerCase() !== "chunked") throw new MalformedAnswer("a transfer coding that nobody asked for");
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
  throw new MalformedAnswer("a length that is no number");
}

/** Reads a head, without the empty line behind it. Throws {@link MalformedAnswer}. */
export function parseHead(text: string): Head {
  const status = STATUS_LINE.exec(text);
  if (!status) throw new MalformedAnswer("no status line");
  const fields = text.slice(status[0].length);
  if (!FIELDS.test(fields)) throw new MalformedAnswer("a header field that is none");
  return new Head(Number(status[2]), fields, status[1] === "1");
}
