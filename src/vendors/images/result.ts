import { GatewayError } from "../../canon/errors.ts";
import { sniffMediaType } from "../../dialects/media/type.ts";
import { isLoopback } from "../../lib/loopback.ts";
import { isOk, ResponseAnswer } from "../answer.ts";
import { fetchUnfollowed, isRedirect } from "../fetch-upstream.ts";
import { IMAGE_TYPES, MAX_IMAGE_BYTES, TOO_LARGE_IMAGE } from "../image-upstream.ts";
import { upstreamHeaders } from "../outgoing.ts";
import type { Vendor } from "../vendor.ts";
import { type ApiTools, readBytes, TooLarge } from "./call.ts";

/** How long the fetch of one result may take, redirects included, ms. */
export const RESULT_MS = 60_000;

const ACCEPT = IMAGE_TYPES.join(", ");

/**
 * The guarded fetch, as far as results need it: resolves with the answer of a public address, whatever its status; rejects with an error whose `code` is a word
 * of its own and whose `message` is for callers, and with the signal's reason once that is aborted.
 */
export type GuardedFetch = (
  url: string,
  options: { accept: string; maxBytes: number; whenLonger: "refuse"; deadlineMs: number; signal: AbortSignal },
) => Promise<{ status: number; body: Uint8Array }>;

/** The image's bytes, or a sentence for the caller why there are none. `passing`: the same fetch may succeed a moment later. */
export type Taken = { bytes: Uint8Array } | { refused: string; passing: boolean };

const refuse = (refused: string, passing = false): Taken => ({ refused, passing });
const NOT_FETCHED = "The vendor's image could not be fetched.";

/** Bytes that begin as a PNG, JPEG or WebP does, and are not too many: nothing else is a result, whatever its type says (dialects.md 7). */
export function takeBytes(bytes: Uint8Array): Taken {
  if (bytes.length === 0) return refuse("The vendor gave an empty image.");
  if (bytes.length > MAX_IMAGE_BYTES) return refuse(TOO_LARGE_IMAGE);
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(24, bytes.byteLength)).toString("base64");
  const type = sniffMediaType(head);
  const isImage = IMAGE_TYPES.some((known) => known === type);
  return isImage ? { bytes } : refuse("The vendor's answer is no PNG, JPEG or WebP image.");
}

/** {@link takeBytes} of base64, which may also be a data URL. */
export function takeBase64(data: string): Taken {
  const start = data.startsWith("data:") ? data.indexOf(",") + 1 : 0;
  // A quarter less than its letters, told before any memory is taken for it.
  if ((data.length - start) * 0.75 > MAX_IMAGE_BYTES + 3) return refuse(TOO_LARGE_IMAGE);
  if (start > 0 && !/;base64\s*,$/i.test(data.slice(0, Math.min(start, 200)))) {
    return refuse("The vendor's answer is no PNG, JPEG or WebP image.");
  }
  return takeBytes(Buffer.from(start > 0 ? data.slice(start) : data, "base64"));
}

/** `url` as an address of the vendor's own server; undefined for any other server's. All names of this machine count as the same server. */
function ownAddress(url: URL, baseUrl: string): URL | undefined {
  const own = URL.parse(baseUrl);
  if (!own || url.username !== "") return undefined;
  if (url.origin === own.origin) return url;
  const isSame = url.protocol === own.protocol && url.port === own.port;
  if (!isSame || !isLoopback(url.hostname) || !isLoopback(own.hostname)) return undefined;
  // Its path stays one: one that begins with two slashes, read as an address, would name another server.
  own.pathname = url.pathname;
  own.search = url.search;
  return own;
}

type FetchParts = {
  vendor: Vendor;
  tools: ApiTools & { fetchResult: GuardedFetch };
  signal: AbortSignal;
};

/**
 * The image behind an address that a vendor wrote. At the vendor's own server it is asked for as any call is; anywhere else only over https,
 * through the guarded fetch and without the vendor's key, so that nothing inside is ever reached (dialects.md 7, reliability 7.5).
 * Rejects with the signal's reason once that is aborted.
 */
export async function fetchImage(text: string, { vendor, tools, signal }: FetchParts): Promise<Taken> {
  if (/^data:/i.test(text)) return takeBase64(text);
  const url = URL.parse(text, `${vendor.baseUrl}/`);
  if (!url) return refuse(`${NOT_FETCHED} Its address is none.`);
  const own = ownAddress(url, vendor.baseUrl);
  return own ? fetchOwn(own, { vendor, tools, signal }) : fetchElsewhere(url, tools, signal);
}

async function fetchElsewhere(url: URL, tools: FetchParts["tools"], signal: AbortSignal): Promise<Taken> {
  if (url.protocol !== "https:") return refuse(`${NOT_FETCHED} Only https addresses are fetched.`);
  try {
    const options = { accept: ACCEPT, maxBytes: MAX_IMAGE_BYTES, whenLonger: "refuse", deadlineMs: RESULT_MS } as const;
    const { status, body } = await tools.fetchResult(url.href, { ...options, signal });
    return readStatus(status) ?? takeBytes(body);
  } catch (thrown) {
    signal.throwIfAborted();
    return explain(thrown);
  }
}

async function fetchOwn(url: URL, { vendor, tools, signal }: FetchParts): Promise<Taken> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(RESULT_MS)]);
  const headers = upstreamHeaders(vendor, {}, { accept: ACCEPT, "user-agent": tools.userAgent });
  let target: URL | null;
  try {
    const request = { url: url.href, headers, body: "", signal: limit };
    const response = await fetchUnfollowed("GET", request, vendor.proxy);
    target = readTarget(response, url);
    const refused = readStatus(response.status);
    if (!refused) return takeBytes(await readBytes(response, MAX_IMAGE_BYTES));
    new ResponseAnswer(response).cancel();
    if (!target) return refused;
  } catch (thrown) {
    signal.throwIfAborted();
    if (thrown instanceof TooLarge) return refuse(TOO_LARGE_IMAGE);
    if (thrown instanceof GatewayError) return refuse(`${NOT_FETCHED} ${thrown.message}`, thrown.retry);
    return refuse(`${NOT_FETCHED} It took too long.`, true);
  }
  return fetchElsewhere(target, tools, signal);
}

/** Where a redirect leads, null for any other answer: some vendors' links are short ones to where their files lie. The vendor's key is not sent there. */
function readTarget(response: Response, from: URL): URL | null {
  const location = isRedirect(response) ? response.headers.get("location") : null;
  return location === null ? null : URL.parse(location, from.href);
}

/** Why a status means that there is no image; undefined for a status of success. */
function readStatus(status: number): Taken | undefined {
  if (isOk({ status })) return undefined;
  if (status === 401 || status === 403 || status === 404 || status === 410) {
    return refuse(`${NOT_FETCHED} The vendor's link to it has expired.`);
  }
  return refuse(`${NOT_FETCHED} Its server answered ${status}.`, status === 429 || status >= 500);
}

/** Codes of the guarded fetch for failures after which the same fetch may succeed a moment later. */
const PASSING: ReadonlySet<string> = new Set(["timeout", "unreachable", "unresolved"]);

function explain(thrown: unknown): Taken {
  const { code, message } = thrown as { code?: unknown; message?: unknown };
  // An error without a code of its own is none of the guarded fetch: a fault in here, which must be seen.
  if (typeof code !== "string" || typeof message !== "string") throw thrown;
  return refuse(`${NOT_FETCHED} ${message}`, PASSING.has(code));
}
