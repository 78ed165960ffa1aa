import type { Clock } from "../../lib/clock.ts";
import { ResponseAnswer } from "../answer.ts";
import { askSigned } from "../auth/authorize.ts";
import { toBrokenBody } from "../connection-faults.ts";
import { fetchUpstream } from "../fetch-upstream.ts";
import { upstreamHeaders, upstreamUrl } from "../outgoing.ts";
import { readRefusal } from "../read-answer.ts";
import type { Vendor } from "../vendor.ts";
import { type Answer, type Call, type ImageRow, RequestFault } from "./wire.ts";

/** The largest answer that is read: an image of 32 MiB in base64, and a little around it, bytes. */
const MAX_ANSWER_BYTES = 48 * 1024 * 1024;

/** What every call needs from outside. */
export type ApiTools = {
  /** `sluice/<version>`. */
  userAgent: string;
  /** `now` for dates in `retry-after`; `monotonic` for how long a key is not used. */
  clock: Pick<Clock, "now" | "monotonic">;
};

/** Thrown where a vendor sent more than is read. The message is for the caller. */
export class TooLarge extends Error {
  override readonly name = "TooLarge";
}

/**
 * The whole body. Rejects with TooLarge for one longer than `maxBytes`, of which the rest is cancelled, with GatewayError (upstream_error) when the connection
 * breaks under way, and with the reason of the signal that its request was made with.
 */
export async function readBytes(response: Response, maxBytes: number): Promise<Uint8Array> {
  const reader = response.body?.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    while (reader) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      chunks.push(value);
      if (size <= maxBytes) continue;
      await reader.cancel();
      throw new TooLarge(`The vendor's answer is larger than ${Math.floor(maxBytes / 1_048_576)} MiB.`);
    }
  } catch (thrown) {
    throw toBrokenBody(thrown);
  }
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size);
}

/** `host` is one of `names`: equal, or below one that begins with a dot. */
const isAmong = (host: string, names: readonly string[]) =>
  names.some((name) => (name.startsWith(".") ? host.endsWith(name) : host === name));

/** Where a call goes. Throws RequestFault for an address that a vendor named and that is not its own: keys are for the API alone (dialects.md 7). */
function addressOf(vendor: Vendor, { apiHosts = [] }: ImageRow, call: Call): string {
  if (call.url === undefined) return upstreamUrl(vendor, call.path);
  const url = URL.parse(call.url);
  const own = URL.parse(vendor.baseUrl);
  const isOwn = url !== null && own !== null && url.origin === own.origin;
  const isApi = url?.protocol === "https:" && url.port === "" && isAmong(url.hostname, apiHosts);
  // A base URL that the operator set elsewhere has no other hosts: the vendor's own must not get its key.
  const isUsual = own !== null && isAmong(own.hostname, apiHosts);
  if (url?.username !== "" || !(isOwn || (isApi && isUsual))) {
    throw new RequestFault("The vendor names an address that is not its own.");
  }
  return url.href;
}

/** What may stand before JSON: white space, and the three bytes of a byte order mark, which the decoder takes away. */
const BEFORE_JSON: ReadonlySet<number> = new Set([0x20, 0x0a, 0x0d, 0x09, 0xef, 0xbb, 0xbf]);

function parse(bytes: Uint8Array): unknown {
  // An image is no JSON, and need not be decoded to find that out.
  const first = bytes.find((byte) => !BEFORE_JSON.has(byte));
  if (first !== 0x7b && first !== 0x5b) return undefined;
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    // The wire finds nothing in it, and tells that.
    return undefined;
  }
}

/**
 * One call to the vendor's API, with its key, whatever the status of the answer. Throws as `fetchUpstream` does, TooLarge, and RequestFault for
 * an address that is not the vendor's.
 */
export async function call(
  vendor: Vendor,
  row: ImageRow,
  asked: Call,
  tools: ApiTools,
  signal: AbortSignal,
): Promise<Answer> {
  const { method, body, accept = "application/json" } = asked;
  const isJson = body !== undefined && !(body instanceof FormData);
  const own = { accept, "user-agent": tools.userAgent, ...(isJson && { "content-type": "application/json" }) };
  const plain = {
    url: addressOf(vendor, row, asked),
    headers: upstreamHeaders(vendor, {}, own),
    body: isJson ? JSON.stringify(body) : "",
    signal,
  };
  const response = await askSigned(
    vendor,
    method === "GET" ? "GET" : "POST",
    plain,
    (signed) => fetchUpstream(method, body instanceof FormData ? { ...signed, body } : signed, vendor.proxy),
    (refused) => new ResponseAnswer(refused).cancel(),
  );
  const bytes = response.ok
    ? await readBytes(response, MAX_ANSWER_BYTES)
    : Buffer.from(await readRefusal(new ResponseAnswer(response)));
  return { status: response.status, headers: response.headers, bytes, json: parse(bytes) };
}
