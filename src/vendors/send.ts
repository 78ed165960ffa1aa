import { GatewayError } from "../canon/errors.ts";
import { authorize, isSigned } from "./auth/authorize.ts";
import { upstreamHeaders, upstreamUrl } from "./outgoing.ts";
import type { UpstreamRequest, Vendor } from "./vendor.ts";

/** The largest whole reply that is read, bytes (reliability 6.3). */
export const MAX_REPLY_BYTES = 16 * 1024 * 1024;
/** The most that is read of an error answer, bytes (reliability 6.3). */
export const MAX_ERROR_BYTES = 64 * 1024;

/** One generation call to a vendor. */
export type Sending = {
  /** Path below the base URL, the dialect's own: `/chat/completions`. */
  path: string;
  /** The upstream body, JSON text. */
  body: string;
  /** The client's headers that may cross, already cut down to the dialect's list. */
  headers: Readonly<Record<string, string>>;
  /** Ends the call; its reason is what `send` then throws. */
  signal: AbortSignal;
  /** `sluice/<version>`. */
  userAgent: string;
  /** An event stream is asked for. */
  stream?: boolean;
  /** Our name of the request, for the vendor's log; no more than that. */
  requestId?: string;
};

/** The connection broke after the request went out: whether the vendor worked on it cannot be known (reliability 6.2). */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";
}

/**
 * Sends one request and gives the vendor's answer, whatever its status but a redirect; the caller reads or cancels its body.
 *
 * Throws the signal's reason once that is aborted, and GatewayError: `upstream_unreachable` when no connection came about (name,
 * refusal, TLS), so that nothing ran; `upstream_error` without retry when the connection broke later (its cause is then a
 * {@link ConnectionLost}) or a redirect came (a key and a prompt must not follow one; reliability 0 #10); `vendor_not_configured` when
 * the row itself is at fault. Bun's fetch tells a slow connect from a slow answer in no way: the caller's signal ends both.
 */
export async function send(vendor: Vendor, sending: Sending): Promise<Response> {
  const { signal } = sending;
  const { proxy } = vendor;
  signal.throwIfAborted();
  const request = toUpstreamRequest(vendor, sending);
  if (isSigned(vendor) || vendor.framing) return sendSpecially(vendor, request, proxy);
  if (!vendor.serve) return fetchUpstream("POST", request, proxy);
  const response = await vendor.serve(request);
  return isRedirect(response) ? refuseRedirect(response) : response;
}

/**
 * All that leaves the process for one call, but for the signature of vendors that want one. Throws GatewayError (vendor_not_configured)
 * when the row's address, key or headers are at fault.
 */
export function toUpstreamRequest(vendor: Vendor, sending: Sending): UpstreamRequest {
  const { signal, userAgent, requestId } = sending;
  const url = upstreamUrl(vendor, sending.path);
  const own: Record<string, string> = {
    "content-type": "application/json",
    accept: sending.stream ? "text/event-stream, application/json" : "application/json",
    "user-agent": userAgent,
  };
  if (requestId) own["x-request-id"] = requestId;
  const headers = upstreamHeaders(vendor, sending.headers, own);
  return { url, headers, body: sending.body, signal };
}

/** For vendors whose requests are signed or whose streams are no SSE. What only these need is loaded when one is asked. */
async function sendSpecially(vendor: Vendor, request: UpstreamRequest, proxy: string | undefined): Promise<Response> {
  const response = await fetchUpstream("POST", await authorize(vendor, "POST", request, proxy), proxy);
  if (!vendor.framing) return response;
  const { unframe } = await import("./event-stream.ts");
  return unframe(response);
}

/**
 * One call over the network, with the rules of {@link send}. A GET carries no body.
 * Redirects are not followed, Bun's own 300 s limit is off (runtime.md 0.3) and the environment's proxies are ignored.
 */
export async function fetchUpstream(...asked: Parameters<typeof fetchUnfollowed>): Promise<Response> {
  const response = await fetchUnfollowed(...asked);
  return isRedirect(response) ? refuseRedirect(response) : response;
}

/** {@link fetchUpstream}, but for redirects: one of these is given as the answer that it is. */
export async function fetchUnfollowed(
  method: "GET" | "POST" | "PUT",
  request: Omit<UpstreamRequest, "body"> & { body: string | FormData },
  proxy?: string,
): Promise<Response> {
  const { url, headers, body, signal } = request;
  try {
    return await fetch(url, {
      method,
      headers,
      body: method === "GET" ? null : body,
      signal,
      redirect: "manual",
      timeout: false,
      proxy: proxy ?? false,
    });
  } catch (thrown) {
    throw signal.aborted ? signal.reason : connectionError(thrown);
  }
}

const isRedirect = ({ status }: Response) => status >= 300 && status <= 399;

async function refuseRedirect(response: Response): Promise<never> {
  const { status } = response;
  await response.body?.cancel();
  const message = "The vendor's address answers with a redirect. The operator has to check the vendor's base URL.";
  throw new GatewayError("upstream_error", message, { retry: false, cause: { status } });
}

/** Codes of a connection that never came about: nothing of the request was read. Any other failure counts as one that may have run. */
const NEVER_CONNECTED =
  /^(?:ECONNREFUSED|ConnectionRefused|ENOTFOUND|EAI_\w+|EHOSTUNREACH|ENETUNREACH|ENETDOWN|EADDRNOTAVAIL|EPROTO|FailedToOpenSocket|ERR_INVALID_URL|ERR_(?:TLS|SSL)_\w+|\w*CERT\w*|UNABLE_TO_\w+|HOSTNAME_MISMATCH|INVALID_CA|\w*PROXY\w*)$/;

function connectionError(thrown: unknown): GatewayError {
  const { code = "", message = String(thrown) } = thrown as { code?: unknown; message?: string };
  if (NEVER_CONNECTED.test(String(code))) {
    return new GatewayError("upstream_unreachable", "The vendor cannot be reached from this gateway.", {
      cause: thrown,
    });
  }
  const cause = new ConnectionLost(message, { cause: thrown });
  return new GatewayError("upstream_error", "The vendor closed the connection before it answered.", {
    retry: false,
    cause,
  });
}

/**
 * A body as text, at most `maxBytes` of it: the rest is cancelled unread, so that neither a decompression bomb nor a chatty error page
 * fills the memory (reliability 2 #18). What was cut is no longer valid JSON and is refused where it is parsed.
 * Throws what aborted the call, or GatewayError (upstream_error) when the connection broke under way.
 */
export async function readCapped(response: Response, maxBytes: number): Promise<string> {
  if (isSurelyWithin(response.headers, maxBytes)) {
    try {
      return await response.text();
    } catch (thrown) {
      throw isBrokenConnection(thrown) ? brokenBody(thrown) : thrown;
    }
  }
  const reader = response.body?.getReader();
  if (!reader) return "";
  const decoder = new TextDecoder();
  let text = "";
  let left = maxBytes;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return text + decoder.decode();
      text += decoder.decode(value.subarray(0, left), { stream: true });
      left -= value.byteLength;
      if (left >= 0) continue;
      await reader.cancel();
      return text;
    }
  } catch (thrown) {
    throw isBrokenConnection(thrown) ? brokenBody(thrown) : thrown;
  }
}

/** The length is told, and is that of the body itself: reading it in one piece costs half of reading it piece by piece. */
function isSurelyWithin(headers: Headers, maxBytes: number): boolean {
  const length = headers.get("content-length");
  return length !== null && Number(length) <= maxBytes && !headers.has("content-encoding");
}

/** A failure of the network or of the decompression carries a code of words; an abort reason is whatever the aborter chose. */
const isBrokenConnection = (thrown: unknown) =>
  thrown instanceof Error &&
  !(thrown instanceof GatewayError) &&
  typeof (thrown as { code?: unknown }).code === "string";

/** What reading a body threw, as an error of the wire where it is one: for readers of their own. */
export const toBrokenBody = (thrown: unknown): unknown => (isBrokenConnection(thrown) ? brokenBody(thrown) : thrown);

function brokenBody(thrown: unknown): GatewayError {
  const cause = new ConnectionLost((thrown as Error).message, { cause: thrown });
  return new GatewayError("upstream_error", "The vendor's answer broke off before its end.", { retry: false, cause });
}

/**
 * Whole seconds, rounded up and never below 0, until the vendor wants to be asked again: `retry-after-ms`, else `retry-after` as
 * seconds or as an HTTP date against `now` (Unix ms). Undefined when neither can be read (dialects.md 1.5).
 */
export function retryAfterSeconds(headers: Headers, now: number): number | undefined {
  const milliseconds = number(headers.get("retry-after-ms"));
  if (milliseconds !== undefined) return Math.ceil(milliseconds / 1000);
  const text = headers.get("retry-after");
  const seconds = number(text);
  if (seconds !== undefined) return Math.ceil(seconds);
  // Date.parse reads nearly anything; an HTTP date begins with the name of its day.
  const date = text && /^\s*[A-Z][a-z]{2,8},? /.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, Math.ceil((date - now) / 1000));
}

/** A plain decimal number that is not negative; undefined for all else. */
function number(text: string | null): number | undefined {
  return text !== null && /^\s*\d{1,12}(?:\.\d{1,12})?\s*$/.test(text) ? Number(text) : undefined;
}
