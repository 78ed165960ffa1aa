import type { Abort } from "../lib/abort.ts";
import { writeFields } from "../lib/http1/fields.ts";
import { type Text, wholeText } from "../lib/text-pieces.ts";
import { type Answer, ResponseAnswer } from "./answer.ts";
import { askSigned, isSigned } from "./auth/authorize.ts";
import { connectionError, toBrokenBody } from "./connection-faults.ts";
import { fetchUpstream, isRedirect, redirected, refuseRedirect } from "./fetch-upstream.ts";
import type { CallRules } from "./http/call.ts";
import { Pool } from "./http/pool.ts";
import { type Address, addressOf, writeHead } from "./http/request.ts";
import { toResponse, unpack } from "./http/unpack.ts";
import { REQUEST_ID, upstreamHeaders, upstreamUrl } from "./outgoing.ts";
import type { UpstreamRequest, Vendor } from "./vendor.ts";

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
    return new ResponseAnswer(refuseRedirect(answer));
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
