/** A JSON document as it came and, once somebody asks, as a value: parsed once, lazily. */
export class JsonText {
  #text: string;
  #value: unknown;
  #parsed = false;

  constructor(text: string) {
    this.#text = text;
  }

  get text(): string {
    return this.#text;
  }

  /** The parsed value. Throws SyntaxError when the text is not JSON. */
  get value(): unknown {
    if (!this.#parsed) {
      this.#value = JSON.parse(this.#text);
      this.#parsed = true;
    }
    return this.#value;
  }

  /** Becomes an empty object: for a document that nobody reads any more while others still hold it. */
  forget(): void {
    this.#text = "{}";
    this.#value = undefined;
    this.#parsed = false;
  }
}

/** New values for top-level fields; `undefined` removes a field. */
export type Edits = Record<string, unknown>;

const QUOTE = 34;
const BACKSLASH = 92;

/** Index just after the string literal that opens at `start`. */
function skipString(text: string, start: number): number {
  let at = start + 1;
  for (;;) {
    at = text.indexOf('"', at);
    if (at < 0) return text.length;
    let slashes = 0;
    while (text.charCodeAt(at - 1 - slashes) === BACKSLASH) slashes++;
    at++;
    if (slashes % 2 === 0) return at;
  }
}

const isSpace = (code: number) => code === 32 || code === 10 || code === 13 || code === 9;

/** Index just after the value that starts at `start`; the text is known to be valid JSON. */
function skipValue(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === QUOTE) return skipString(text, start);
  let at = start;
  if (first !== 123 && first !== 91) {
    while (at < text.length) {
      const code = text.charCodeAt(at);
      if (code === 44 || code === 125 || code === 93 || isSpace(code)) break;
      at++;
    }
    return at;
  }
  let depth = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = skipString(text, at);
      continue;
    }
    if (code === 123 || code === 91) depth++;
    else if (code === 125 || code === 93) {
      depth--;
      if (depth === 0) return at + 1;
    }
    at++;
  }
  return at;
}

/**
 * `text`, a JSON object, with the named top-level fields set or removed, and every other byte as it was: big integers, spelling and
 * order survive. A field that occurs twice is edited at each place. The text must already be known to parse as an object.
 */
export function editObject(text: string, edits: Edits): string {
  const found: string[] = [];
  const open = text.indexOf("{");
  let at = open + 1;
  let kept = "";
  let copied = at;
  let first = true;
  let any = false;
  for (;;) {
    while (isSpace(text.charCodeAt(at)) || text.charCodeAt(at) === 44) at++;
    if (text.charCodeAt(at) !== QUOTE) break;
    const keyAt = at;
    at = skipString(text, at);
    const literal = text.slice(keyAt + 1, at - 1);
    const key = literal.includes("\\") ? (JSON.parse(`"${literal}"`) as string) : literal;
    while (text.charCodeAt(at) !== 58) at++;
    at++;
    while (isSpace(text.charCodeAt(at))) at++;
    const valueAt = at;
    at = skipValue(text, at);
    if (!Object.hasOwn(edits, key)) {
      first = false;
      any = true;
      continue;
    }
    found.push(key);
    const value = edits[key];
    if (value !== undefined) {
      kept += text.slice(copied, valueAt) + JSON.stringify(value);
      copied = at;
      first = false;
      any = true;
      continue;
    }
    // Removing takes the comma before the field along, or the one after it when it is the first left.
    let cut = keyAt;
    if (!first) cut = text.lastIndexOf(",", keyAt);
    kept += text.slice(copied, cut);
    if (first) {
      while (isSpace(text.charCodeAt(at))) at++;
      if (text.charCodeAt(at) === 44) at++;
    }
    copied = at;
  }
  let added = "";
  for (const [key, value] of Object.entries(edits)) {
    if (value === undefined || found.includes(key)) continue;
    added += `${any || added ? "," : ""}${JSON.stringify(key)}:${JSON.stringify(value)}`;
  }
  return text.slice(0, open + 1) + kept + text.slice(copied, at) + added + text.slice(at);
}

/** Start and end of the value of top-level `field`, the last one where it occurs twice; undefined where there is none. */
function findValue(text: string, field: string): readonly [start: number, end: number] | undefined {
  let found: readonly [number, number] | undefined;
  let at = text.indexOf("{") + 1;
  for (;;) {
    while (isSpace(text.charCodeAt(at)) || text.charCodeAt(at) === 44) at++;
    if (text.charCodeAt(at) !== QUOTE) return found;
    const keyAt = at;
    at = skipString(text, at);
    const key = JSON.parse(text.slice(keyAt, at)) as string;
    while (text.charCodeAt(at) !== 58) at++;
    at++;
    while (isSpace(text.charCodeAt(at))) at++;
    const valueAt = at;
    at = skipValue(text, at);
    if (key === field) found = [valueAt, at];
  }
}

/** The text of top-level `field`'s value, as it was written; undefined where there is none. The text must already be known to parse as an object. */
export function fieldText(text: string, field: string): string | undefined {
  const range = findValue(text, field);
  return range && text.slice(range[0], range[1]);
}

/**
 * {@link editObject} one level down: the edits apply to the object that stands in top-level `field`, and every other byte stays as it
 * was. Text without an object there comes back unchanged.
 */
export function editInside(text: string, field: string, edits: Edits): string {
  const range = findValue(text, field);
  if (!range || text.charCodeAt(range[0]) !== 123) return text;
  return text.slice(0, range[0]) + editObject(text.slice(range[0], range[1]), edits) + text.slice(range[1]);
}

/** A plain JSON object, as opposed to an array, null or a scalar. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
