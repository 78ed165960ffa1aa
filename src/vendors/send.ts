import { GatewayError } from "../canon/errors.ts";
import type { Abort } from "../lib/abort.ts";
import { errorCode } from "../lib/error-code.ts";
import { writeFields } from "../lib/http1/fields.ts";
import { type Text, wholeText } from "../lib/json.ts";
import { hasNoFileLeft } from "../lib/open-files.ts";
import { type Answer, ResponseAnswer, readText } from "./answer.ts";
import { askSigned, isSigned } from "./auth/authorize.ts";
import type { CallRules } from "./http/call.ts";
import { ConnectFailed, ConnectionLost, NoFileLeft } from "./http/faults.ts";
import { Pool } from "./http/pool.ts";
import { type Address, addressOf, writeHead } from "./http/request.ts";
import { toResponse, unpack } from "./http/unpack.ts";
import { REQUEST_ID, upstreamHeaders, upstreamUrl } from "./outgoing.ts";
import type { UpstreamRequest, Vendor } from "./vendor.ts";

/** The largest whole reply that is read, bytes. The 16 MiB of reliability 6.3 are meant for text: a 4K image as a PNG in base64 takes some 30 MiB. */
export const MAX_REPLY_BYTES = 48 * 1024 * 1024;
/** The most that is read of an error answer, bytes (reliability 6.3). */
export const MAX_ERROR_BYTES = 64 * 1024;
/** How long the body of an error answer is waited for, ms: its status, which tells the most, is known already. */
const REFUSAL_MS = 2_000;

/** One generation call to a vendor. */
export type Sending = {
  /** Path below the base URL, the dialect's own: `/chat/completions`. */
  path: string;
  /** The upstream body, JSON. */
  body: Text;
  /** The client's headers that may cross, already cut down to the dialect's list. */
  headers: Readonly<Record<string, string>>;
  /** Ends the call; its reason is what `send` then throws. */
  abort: Abort;
  /** `sluice/<version>`. */
  userAgent: string;
  /** Whether an event stream is asked for. */
  stream?: boolean;
  /** Our ID of the request, sent for the vendor's log and for nothing else. */
  requestId?: string;
  /** Called when the whole request has gone out; where that is not known, with Bun's client and inside this process, when it is handed over. */
  onSent?: (() => void) | undefined;
};

/** Connections to vendors, for the whole process. */
const pool = new Pool();

/** How many of them are open, idle ones included. */
export const openToVendors = (): number => pool.open;

/** How those are used: for the operator to see. */
export const poolFigures = (): { open: number; idle: number; opened: number; reused: number } => ({
  ...pool.figures,
  ...pool.counts,
});

/** Environment variable: with the value `fetch` vendors are called by Bun's own client, which is slower and behaves differently on the wire. */
const CLIENT = "SLUICE_HTTP_CLIENT";

/**
 * Sends one request and gives the vendor's answer, whatever its status but a redirect; the caller reads or cancels its body.
 *
 * Throws the abort's reason once there is one, and GatewayError:
 * - `upstream_unreachable`: no connection came about (name, refusal, time, TLS), so nothing ran;
 * - `upstream_overloaded`: none came about since this process may open no further file (the cause is then a {@link NoFileLeft});
 * - `upstream_error` without retry: the connection broke (the cause is then a {@link ConnectionLost}), or a redirect came, which a key and a
 *   prompt must not follow (reliability 0 #10);
 * - `vendor_not_configured`: the row itself is at fault.
 */
export function send(vendor: Vendor, sending: Sending): Promise<Answer> {
  try {
    const { abort } = sending;
    abort.throwIfAborted();
    const lines = vendor.serve || isSigned(vendor) || vendor.framing ? undefined : linesOf(vendor, sending);
    if (!lines?.address) return sendSpecially(vendor, toUpstreamRequest(vendor, sending), abort, sending.onSent);
    const head = sending.requestId ? `${lines.head}${REQUEST_ID}: ${sending.requestId}\r\n` : lines.head;
    return pool.call(lines.address.origin, head, sending.body, abort, RULES, sending.onSent);
  } catch (thrown) {
    return Promise.reject(thrown);
  }
}

/** Bodies come as they are: what is packed all the same is unpacked as it is read. */
const RULES: CallRules = {
  accept(answer) {
    if (isRedirect(answer)) {
      answer.cancel();
      throw redirected(answer.status);
    }
    if (!answer.headers.has("content-encoding")) return answer;
    try {
      return unpack(answer);
    } catch (thrown) {
      throw toBrokenBody(thrown);
    }
  },
  explain: connectionError,
};

/** The head of a vendor's requests, up to the id that each has of its own. Without an address, and empty, for a vendor that our own client does not call. */
type Lines = Pick<Sending, "path" | "headers" | "userAgent"> & { address: Address | undefined; head: string };

/** The lines last used of each vendor, of its streams and of its whole replies: they hardly ever change. */
const streamLines = new WeakMap<Vendor, Lines>();
const wholeLines = new WeakMap<Vendor, Lines>();

function linesOf(vendor: Vendor, sending: Sending): Lines {
  const { path, headers, userAgent, stream } = sending;
  const known = stream ? streamLines : wholeLines;
  const last = known.get(vendor);
  if (last?.path === path && last.userAgent === userAgent && isSameRecord(last.headers, headers)) return last;
  const { url, headers: fields } = toUpstreamRequest(vendor, { ...sending, requestId: "" });
  const address = usesFetch(vendor) ? undefined : addressOf(url);
  const head = address ? writeHead(address, writeFields(fields)) : "";
  const lines = { path, headers, userAgent, address, head };
  known.set(vendor, lines);
  return lines;
}

function isSameRecord(one: Readonly<Record<string, string>>, other: Readonly<Record<string, string>>): boolean {
  let count = 0;
  for (const name in one) {
    if (one[name] !== other[name]) return false;
    count++;
  }
  for (const _ in other) count--;
  return count === 0;
}

/**
 * All that leaves the process for one call, but for the signature of vendors that want one. Throws GatewayError (vendor_not_configured)
 * when the row's address, key or headers are at fault.
 */
export function toUpstreamRequest(vendor: Vendor, sending: Sending): UpstreamRequest {
  const { abort, userAgent, requestId } = sending;
  const url = upstreamUrl(vendor, sending.path);
  const own: Record<string, string> = {
    "content-type": "application/json",
    accept: sending.stream ? "text/event-stream, application/json" : "application/json",
    "user-agent": userAgent,
  };
  if (requestId) own[REQUEST_ID] = requestId;
  const headers = upstreamHeaders(vendor, sending.headers, own);
  return {
    url,
    headers,
    body: wholeText(sending.body),
    abort,
    get signal() {
      return abort.signal;
    },
  };
}

/**
 * For upstreams inside this process, vendors behind a proxy, and those whose requests are signed or whose streams are no SSE. What only
 * these need is loaded when one is asked.
 */
async function sendSpecially(
  vendor: Vendor,
  given: UpstreamRequest,
  abort: Abort,
  onSent: Sending["onSent"],
): Promise<Answer> {
  if (vendor.serve) {
    onSent?.();
    const answer = await vendor.serve(given);
    if (!(answer instanceof Response)) return answer;
    return new ResponseAnswer(isRedirect(answer) ? refuseRedirect(answer) : answer);
  }
  const ask = (request: UpstreamRequest) => sendOverNetwork(vendor, request, abort, onSent);
  const answer = await askSigned(vendor, "POST", given, ask, (refused) => refused.cancel());
  if (!vendor.framing) return answer;
  const { unframe } = await import("./event-stream.ts");
  return new ResponseAnswer(unframe(toResponse(answer)));
}

async function sendOverNetwork(
  vendor: Vendor,
  request: UpstreamRequest,
  abort: Abort,
  onSent: Sending["onSent"],
): Promise<Answer> {
  const address = usesFetch(vendor) ? undefined : addressOf(request.url);
  if (!address) onSent?.();
  return address
    ? pool.call(address.origin, writeHead(address, writeFields(request.headers)), request.body, abort, RULES, onSent)
    : new ResponseAnswer(await fetchUpstream("POST", request, vendor.proxy));
}

const usesFetch = ({ proxy }: Vendor): boolean => proxy !== undefined || process.env[CLIENT] === "fetch";

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
  method: "GET" | "POST" | "PUT" | "DELETE",
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
    throw signal.aborted ? signal.reason : connectionError(method === "GET" ? asUnsent(thrown) : thrown);
  }
}

const isRedirect = ({ status }: { status: number }) => status >= 300 && status <= 399;

function redirected(status: number): GatewayError {
  const message = "The vendor's address answers with a redirect. The operator has to check the vendor's base URL.";
  return new GatewayError("upstream_error", message, { retry: false, cause: { status } });
}

function refuseRedirect(response: Response): never {
  new ResponseAnswer(response).cancel();
  throw redirected(response.status);
}

/** Codes of a connection that never came about: nothing of the request was read. Any other failure counts as one that may have run. */
const NEVER_CONNECTED =
  /^(?:ECONNREFUSED|ConnectionRefused|ENOTFOUND|EAI_\w+|EHOSTUNREACH|ENETUNREACH|ENETDOWN|EADDRNOTAVAIL|FailedToOpenSocket|ERR_INVALID_URL|\w*CERT\w*|UNABLE_TO_\w+|HOSTNAME_MISMATCH|INVALID_CA|\w*PROXY\w*)$/;
/** Codes of Bun's client for TLS that was never agreed upon, and for TLS that broke while a request was at work: they are the same. */
const TLS_BROKE = /^(?:EPROTO|ERR_(?:TLS|SSL)_\w+)$/;

/** A GET runs nothing at the vendor, so that one whose TLS broke counts like a connection that never came about. */
const asUnsent = (thrown: unknown): unknown =>
  TLS_BROKE.test(errorCode(thrown)) ? new ConnectFailed(errorCode(thrown), { cause: thrown }) : thrown;

function connectionError(thrown: unknown): GatewayError {
  if (thrown instanceof ConnectFailed || NEVER_CONNECTED.test(errorCode(thrown))) {
    if (hasNoFileLeft()) return noFileLeft(thrown);
    return new GatewayError("upstream_unreachable", "The vendor cannot be reached from this gateway.", {
      cause: thrown,
    });
  }
  return lost(thrown, "The vendor closed the connection before it answered.");
}

function noFileLeft(thrown: unknown): GatewayError {
  const message = "The gateway has as many connections open as its system lets it. Try again in a moment.";
  const cause = new NoFileLeft({ cause: thrown });
  return new GatewayError("upstream_overloaded", message, { retryAfterSeconds: 1, cause });
}

/** The error for a connection that broke, with this sentence: it is not known what the vendor has done, so the request is not tried again. */
function lost(thrown: unknown, sentence: string): GatewayError {
  const { message = String(thrown) } = thrown as { message?: string };
  const cause = thrown instanceof ConnectionLost ? thrown : new ConnectionLost(message, { cause: thrown });
  return new GatewayError("upstream_error", sentence, { retry: false, cause });
}

/**
 * A body as text, at most about `maxBytes` of it. What was cut is no longer valid JSON and is refused where it is parsed.
 * Throws what aborted the call, or GatewayError (upstream_error) when the connection broke under way.
 */
export function readCapped(answer: Answer, maxBytes: number): string | Promise<string> {
  const text = answer.text(maxBytes);
  return typeof text === "string" ? text : text.catch(tellBroken);
}

/**
 * What an error answer says. Its status is known, and stands: words that break off, cannot be unpacked or do not come are none (""). Throws what aborted the
 * call.
 */
export async function readRefusal(answer: Answer): Promise<string> {
  const timer = setTimeout(() => answer.cancel(), REFUSAL_MS);
  try {
    // Piece by piece: with Bun's client, reading all at once could not be given up.
    return await readText(answer, MAX_ERROR_BYTES);
  } catch (thrown) {
    if (isBrokenConnection(thrown)) return "";
    throw thrown;
  } finally {
    clearTimeout(timer);
  }
}

function tellBroken(thrown: unknown): never {
  throw toBrokenBody(thrown);
}

/** Whether the connection broke, or the body could not be unpacked: such errors have a code that is a word. What aborted the call has none. */
const isBrokenConnection = (thrown: unknown) =>
  thrown instanceof ConnectionLost || (!(thrown instanceof GatewayError) && errorCode(thrown) !== "");

/** What reading a body threw: a GatewayError (upstream_error) in its place where the connection broke, else itself. For code that reads a body by itself. */
export const toBrokenBody = (thrown: unknown): unknown =>
  isBrokenConnection(thrown) ? lost(thrown, "The vendor's answer broke off before its end.") : thrown;
