import { AwsV4Signer } from "aws4fetch";
import { GatewayError } from "../../canon/errors.ts";
import type { UpstreamRequest, Vendor } from "../vendor.ts";

/** Name of the service in every signature for models on Bedrock. */
const SERVICE = "bedrock";

/** Which service is signed for, and when: only tests set these. `datetime` is written `20150830T123600Z`. */
export type SigningMoment = { service?: string; datetime?: string };

/**
 * The headers of AWS signature version 4 for one request, its present ones included in the signature: `authorization`, `x-amz-date` and,
 * with temporary credentials, `x-amz-security-token`. Throws GatewayError (vendor_not_configured) when key, secret or region lack.
 */
export async function signAws(
  vendor: Vendor,
  method: "GET" | "POST",
  request: UpstreamRequest,
  { service = SERVICE, datetime }: SigningMoment = {},
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
    ...(datetime && { datetime }),
  });
  const { headers } = await signer.sign();
  return Object.fromEntries(headers);
}
