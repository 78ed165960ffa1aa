import { GatewayError, invalidField } from "../../canon/errors.ts";
import { releaseWhole } from "../../lib/http1/memory.ts";
import { isObject } from "../../lib/json.ts";
import { JsonText } from "../../lib/json-text.ts";
import type { AskedBody } from "../asked.ts";
import { type Known, LARGE_BODY, readInParts } from "./json-parts.ts";
import { maySpellProto, Scan } from "./json-scan.ts";
import { readUpload, tooLarge, type UploadOptions } from "./upload.ts";

const MIB = 1024 * 1024;

// Largest body per kind of endpoint, bytes (reliability 7.5).
/** Also of a count of tokens, which takes the same body as the generation it is made for (interface 4.6). */
export const MAX_GENERATION_BYTES = 32 * MIB;
export const MAX_IMAGE_REQUEST_BYTES = 4 * MIB;
export const MAX_WEB_BYTES = 4 * MIB;
export const MAX_ADMIN_BYTES = 256 * 1024;

export type ReadOptions = UploadOptions & {
  /** What is known of the bodies that this sender sent before, where they are conversations. */
  known?: Known | undefined;
};

const strictUtf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * The request's JSON object, as text and value. Bounded before it is believed: type and encoding, size, time, UTF-8, depth and number of
 * tokens, in this order, and all before `JSON.parse` (reliability 2 row 23, 7.5). Throws GatewayError: `unsupported_media_type`,
 * `request_too_large`, or `invalid_request`, never with content of the body in its message.
 */
export async function readJson(request: AskedBody, options: ReadOptions): Promise<JsonText> {
  return readJsonSoon(request, options);
}

/** {@link readJson}, at once for a body that has come whole, as nearly all have: then it throws, and does not reject. */
export function readJsonSoon(request: AskedBody, options: ReadOptions): JsonText | Promise<JsonText> {
  const { known } = options;
  const declared = checkHead(request, options);
  // What is known of other bodies helps only with a large one.
  if (!known || declared < LARGE_BODY) return readUpload(request, options, declared, readPlain, false);
  return readUpload(request, options, declared, (bytes, isOwn) => readKnown(bytes, isOwn, known), true);
}

const readPlain = (bytes: Uint8Array, isOwn: boolean): JsonText => checkJson(toText(bytes, isOwn));

const readKnown = (bytes: Uint8Array, isOwn: boolean, known: Known): JsonText =>
  isOwn ? checkParts(bytes, known) : readPlain(bytes, false);

/** The body of a request that says it is JSON, as text, under the same bounds; what it says is not looked at. Throws as {@link readJson}. */
export async function readText(request: AskedBody, options: ReadOptions): Promise<string> {
  return readUpload(request, options, checkHead(request, options), toText, false);
}

/** How long a body says it is, bytes; NaN where it says nothing. Throws for one that says it is no JSON, packed, or too large. */
function checkHead(request: AskedBody, { maxBytes }: ReadOptions): number {
  const { headers } = request;
  checkHeaders(headers);
  const declared = Number(headers.get("content-length") ?? Number.NaN);
  if (declared > maxBytes) throw tooLarge(maxBytes);
  return declared;
}

/** `isOwn`: the bytes are let go of. */
function toText(bytes: Uint8Array, isOwn: boolean): string {
  if (bytes.length === 0) throw invalidField("", "The request body is empty; a JSON object was expected.");
  try {
    const text = strictUtf8.decode(bytes);
    if (isOwn) releaseWhole(bytes);
    return text;
  } catch {
    throw invalidField("", "The request body is not valid UTF-8.");
  }
}

const JSON_TYPE = "application/json";

function checkHeaders(headers: AskedBody["headers"]): void {
  const said = headers.get("content-type") ?? "";
  const type = said === JSON_TYPE ? said : (said.split(";", 1)[0]?.trim().toLowerCase() ?? "");
  if (type !== JSON_TYPE && !/^application\/[a-z0-9.!#$&^_-]+\+json$/.test(type)) {
    throw new GatewayError(
      "unsupported_media_type",
      "The request body must be JSON, sent as 'content-type: application/json'.",
    );
  }
  const encoding = headers.get("content-encoding");
  if (encoding !== null && encoding.trim().toLowerCase() !== "identity") {
    throw new GatewayError(
      "unsupported_media_type",
      "Compressed request bodies are not accepted; leave content-encoding out.",
    );
  }
}

/**
 * A body's text as bounded JSON: at most `MAX_DEPTH` levels and `MAX_TOKENS` tokens, no number beyond a double, no key
 * `__proto__` however it is spelled, an object at the top. Throws GatewayError `invalid_request`.
 */
export function checkJson(text: string): JsonText {
  const scan = new Scan(text);
  const closed = scan.run() >= 0;
  const hasEscapes = text.includes("\\u");
  // Of a text that is no JSON object the fields mean nothing; below, such a text is refused.
  const json = new JsonText(text, scan.fields, undefined, hasEscapes);
  let value: unknown;
  try {
    value = json.value;
  } catch {
    // The parser's own words quote the body, so they are not passed on.
    throw invalidField(
      "",
      closed ? "The request body is not valid JSON." : "The request body is not valid JSON: it is cut off.",
    );
  }
  if (!isObject(value)) throw invalidField("", "The request body must be a JSON object.");
  if (scan.holdsProto || (hasEscapes && maySpellProto(text))) {
    const param = findProto(value, "");
    if (param !== undefined) throw invalidField(param, "The key __proto__ is not allowed.");
  }
  return json;
}

/** {@link checkJson} of the bytes of a text, of which only what its sender did not send before is read. They are the document's own from then on. */
export function checkParts(bytes: Uint8Array, known: Known): JsonText {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return (body.length >= LARGE_BODY ? readInParts(body, known) : undefined) ?? checkJson(toText(body, true));
}

/** Path of the first `__proto__` key, if any. The depth is bounded by the scan. */
function findProto(value: unknown, path: string): string | undefined {
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const found = findProto(value[index], `${path}[${index}]`);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  if (!isObject(value)) return undefined;
  for (const [key, inner] of Object.entries(value)) {
    const inside = path === "" ? key : `${path}.${key}`;
    if (key === "__proto__") return inside;
    if (typeof inner !== "object" || inner === null) continue;
    const found = findProto(inner, inside);
    if (found !== undefined) return found;
  }
  return undefined;
}
