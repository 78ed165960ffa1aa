import type { Answer } from "../answer.ts";
import type { AuthForm, UpstreamRequest, Vendor } from "../vendor.ts";
import type { GoogleTokens } from "./google-tokens.ts";

/** Gives the headers that prove who calls, for forms that need the whole request or a call of their own. */
type Signer = (
  vendor: Vendor,
  method: "GET" | "POST",
  request: UpstreamRequest,
  proxy?: string,
) => Promise<Readonly<Record<string, string>>>;

let googleTokens: GoogleTokens | undefined;

/** Loaded when first wanted: most gateways never sign anything. */
const SIGNERS: Partial<Record<AuthForm, Signer>> = {
  async sigv4(vendor, method, request) {
    const { signAws } = await import("./sigv4.ts");
    return signAws(vendor, method, request);
  },
  async "service-account"(vendor, _method, { signal }, proxy) {
    const loaded = await import("./google-tokens.ts");
    googleTokens ??= new loaded.GoogleTokens();
    return googleTokens.headers(vendor.apiKey ?? "", signal, proxy);
  },
};

/** Whether a vendor's calls need {@link authorize}: their headers cannot be told from the key alone. */
export const isSigned = (vendor: Vendor): boolean => vendor.auth in SIGNERS;

/**
 * The request as it may leave: with the headers of the vendor's form of authorisation, where the plain ones do not hold its key already.
 * Throws what the form throws: GatewayError (vendor_not_configured, upstream_auth, upstream_unreachable), or why the signal was aborted.
 */
export async function authorize(
  vendor: Vendor,
  method: "GET" | "POST",
  request: UpstreamRequest,
  proxy?: string,
): Promise<UpstreamRequest> {
  const signer = SIGNERS[vendor.auth];
  if (!signer) return request;
  return { ...request, headers: { ...request.headers, ...(await signer(vendor, method, request, proxy)) } };
}

/**
 * The answer to a request that is signed for a generation. It is signed once more where it was refused since this machine's clock is wrong, as that of a
 * virtual machine is whose host slept (WSL 2, Docker on a laptop): by the date of the answer, as Amazon's own SDKs do. Rejects as {@link authorize} and `ask` do.
 */
export async function sendSigned(
  vendor: Vendor,
  given: UpstreamRequest,
  ask: (request: UpstreamRequest) => Promise<Answer>,
): Promise<Answer> {
  const request = await authorize(vendor, "POST", given, vendor.proxy);
  const answer = await ask(request);
  if (vendor.auth !== "sigv4" || answer.status !== 403) return answer;
  const { followClock } = await import("./sigv4.ts");
  if (!followClock(request.headers, Date.parse(answer.headers.get("date") ?? ""))) return answer;
  answer.cancel();
  return ask(await authorize(vendor, "POST", given, vendor.proxy));
}
