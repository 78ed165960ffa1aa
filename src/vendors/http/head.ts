/** The longest head of an answer, bytes: twice what servers send at the most. */
export const MAX_HEAD_BYTES = 64 * 1024;
const MAX_FIELDS = 256;

/** Some servers leave out the reason, and the space before it. */
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?:[ \r]|$)/;
const NAME = /^[!#$%&'*+.^_`|~\w-]+$/;

/** An answer that is no HTTP/1.1: nothing that follows on its connection can be believed. */
export class MalformedAnswer extends Error {
  override readonly name = "MalformedAnswer";
}

/** How the end of a body is known (RFC 9112, 6.3): by its length, by its chunks, or by the end of the connection; `none`: there is no body. */
export type Framing = { kind: "none" | "chunked" | "close" } | { kind: "length"; bytes: number };

/** Status and header fields of one answer. */
export class Head {
  /** Lower-case names; values of fields that came more than once are joined by a comma. */
  readonly #fields: ReadonlyMap<string, string>;

  constructor(
    readonly status: number,
    fields: ReadonlyMap<string, string>,
    /** HTTP/1.1, whose connections stay open unless it is said otherwise. */
    private readonly isCurrent: boolean,
  ) {
    this.#fields = fields;
  }

  /** A field by its name in lower case; null when it did not come. */
  get(name: string): string | null {
    return this.#fields.get(name) ?? null;
  }

  has(name: string): boolean {
    return this.#fields.has(name);
  }

  /** All fields, as `fetch` would hand them on. */
  entries(): [string, string][] {
    return [...this.#fields];
  }

  /** Whether another request may follow on the connection. What is odd in its framing was perhaps meant otherwise: then none may. */
  get staysOpen(): boolean {
    const said = this.#fields.get("connection")?.toLowerCase() ?? "";
    const both = this.#fields.has("transfer-encoding") && this.#fields.has("content-length");
    return this.isCurrent && !both && !/(?:^|,)\s*close\s*(?:,|$)/.test(said);
  }

  /** Throws {@link MalformedAnswer} for a framing that can be read in more than one way. */
  get framing(): Framing {
    if (this.status === 204 || this.status === 304) return { kind: "none" };
    const coding = this.#fields.get("transfer-encoding");
    if (coding !== undefined) {
      if (coding.toLowerCase() !== "chunked") throw new MalformedAnswer("a transfer coding that nobody asked for");
      return { kind: "chunked" };
    }
    const length = this.#fields.get("content-length");
    return length === undefined ? { kind: "close" } : { kind: "length", bytes: readLength(length) };
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
  let end = text.indexOf("\n");
  const first = end < 0 ? text : text.slice(0, end);
  const status = STATUS_LINE.exec(first);
  if (!status) throw new MalformedAnswer("no status line");
  const fields = new Map<string, string>();
  let count = 0;
  while (end >= 0) {
    const start = end + 1;
    end = text.indexOf("\n", start);
    const line = end < 0 ? text.slice(start) : text.slice(start, end);
    if (++count > MAX_FIELDS) throw new MalformedAnswer("too many header fields");
    const colon = line.indexOf(":");
    // A name before which there is white space continues the line above, which is long forbidden.
    const name = line.slice(0, colon).toLowerCase();
    if (colon <= 0 || !NAME.test(name)) throw new MalformedAnswer("a header field that is none");
    const value = line.slice(colon + 1).trim();
    const known = fields.get(name);
    fields.set(name, known === undefined ? value : `${known}, ${value}`);
  }
  return new Head(Number(status[2]), fields, status[1] === "1");
}
