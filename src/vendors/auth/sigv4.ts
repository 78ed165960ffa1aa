import { AwsV4Signer } from "aws4fetch";
import { GatewayError } from "../../canon/errors.ts";
import type { UpstreamRequest, Vendor } from "../vendor.ts";

/** Name of the service in every signature for models on Bedrock. */
const SERVICE = "bedrock";

/**
 * Where this machine's clock differs from AWS's by more than this, ms, it is taken for wrong. AWS refuses what was signed more than five minutes from its own
 * time; this is less, since it tells that time in whole seconds and the request takes time on its way.
 */
const CLOCK_OFF_MS = 4 * 60_000;

/** By how much AWS's clock is ahead of this machine's, ms, by its last refusal for that; 0 before one. */
let aheadMs = 0;

/**
 * Whether a request was signed for a wrong time; then what is signed from now on has AWS's time. `headers`: the request's, as {@link signAws} made them.
 * `theirsMs`: AWS's time, Unix ms; NaN where it told none.
 */
export function followClock(headers: Readonly<Record<string, string>>, theirsMs: number): boolean {
  const signedMs = Date.parse((headers["x-amz-date"] ?? "").replace(MOMENT, "$1-$2-$3:$4:$5"));
  if (!(Math.abs(theirsMs - signedMs) > CLOCK_OFF_MS)) return false;
  aheadMs = theirsMs - Date.now();
  return true;
}

/** The service that is signed for, and the time: only tests set these. `datetime` is written `20150830T123600Z`. */
export type SigningMoment = { service?: string; datetime?: string };

/** A time as a signature has it, to the second: `20150830T123600Z`. */
const MOMENT = /^(\d{4})(\d\d)(\d\dT\d\d)(\d\d)(\d\dZ)$/;

const writeMoment = (ms: number): string => new Date(ms).toISOString().replace(/[:-]|\.\d+/g, "");

/**
 * The headers of AWS signature version 4 for one request, its present ones included in the signature: `authorization`, `x-amz-date` and,
 * with temporary credentials, `x-amz-security-token`. Throws GatewayError (vendor_not_configured) when key, secret or region are missing.
 */
export async function signAws(
  vendor: Vendor,
  method: "GET" | "POST",
  request: UpstreamRequest,
  { service = SERVICE, datetime = writeMoment(Date.now() + aheadMs) }: SigningMoment = {},
): Promise<Record<string, string>> {
  const { apiKey, credentials, region } = vendor;
  if (!apiKey || !credentials?.secretAccessKey || !region) {
    const message = `Vendor ${vendor.id} lacks an access key, its secret or its region.`;
    throw new GatewayError("vendor_not_configured", message);
  }
  const signer = new AwsV4Signer({
    method,
    url: request.url,
    headers: request.headers,
    ...(method === "POST" && { body: request.body }),
    accessKeyId: apiKey,
    secretAccessKey: credentials.secretAccessKey,
    ...(credentials.sessionToken && { sessionToken: credentials.sessionToken }),
    service,
    region,
    datetime,
  });
  const { headers } = await signer.sign();
  return Object.fromEntries(headers);
}
