import type { Fields } from "../../lib/http1/fields.ts";
import type { AuthForm, UpstreamRequest, Vendor } from "../vendor.ts";
import type { GoogleTokens } from "./google-tokens.ts";

/** What is looked at of an answer, whichever client it came by. */
type Answered = { status: number; headers: Fields };

type Signer = {
  /** Gives the headers that prove who calls, for forms that need the whole request or a call of their own. */
  sign(
    vendor: Vendor,
    method: "GET" | "POST",
    request: UpstreamRequest,
    proxy: string | undefined,
  ): Promise<Readonly<Record<string, string>>>;
  /** Whether the answer refuses the proof in `headers`, and a proof made now would be another one. Prepares that one. */
  renew(vendor: Vendor, headers: Readonly<Record<string, string>>, answer: Answered): Promise<boolean>;
};

let googleTokens: GoogleTokens | undefined;

/** The forms that need more than the key. Their code is loaded when first needed: most gateways never sign anything. */
const SIGNERS: Partial<Record<AuthForm, Signer>> = {
  sigv4: {
    async sign(vendor, method, request) {
      const { signAws } = await import("./sigv4.ts");
      return signAws(vendor, method, request);
    },
    async renew(_vendor, headers, answer) {
      if (answer.status !== 403) return false;
      const { followClock } = await import("./sigv4.ts");
      return followClock(headers, Date.parse(answer.headers.get("date") ?? ""));
    },
  },
  "service-account": {
    async sign(vendor, _method, { signal }, proxy) {
      const loaded = await import("./google-tokens.ts");
      googleTokens ??= new loaded.GoogleTokens();
      return googleTokens.headers(vendor.apiKey ?? "", signal, proxy);
    },
    async renew(vendor, { authorization = "" }, answer) {
      if (answer.status !== 401) return false;
      googleTokens?.forget(vendor.apiKey ?? "", authorization);
      return true;
    },
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
  proxy: string | undefined,
): Promise<UpstreamRequest> {
  const signer = SIGNERS[vendor.auth];
  if (!signer) return request;
  return { ...request, headers: { ...request.headers, ...(await signer.sign(vendor, method, request, proxy)) } };
}

/**
 * The answer to a request that is authorised as {@link authorize} does it. Asked once more where the proof was refused because this machine's clock is wrong, as
 * that of a virtual machine whose host slept (WSL 2, Docker on a laptop), or because its token is not taken any more: Amazon's and Google's own SDKs do so too,
 * and such a refusal costs nothing. `drop` lets go of the answer that refused. Rejects as `authorize` and `ask` do.
 */
export async function askSigned<A extends Answered>(
  vendor: Vendor,
  method: "GET" | "POST",
  given: UpstreamRequest,
  ask: (request: UpstreamRequest) => Promise<A>,
  drop: (answer: A) => unknown,
): Promise<A> {
  const request = await authorize(vendor, method, given, vendor.proxy);
  const answer = await ask(request);
  if (!(await SIGNERS[vendor.auth]?.renew(vendor, request.headers, answer))) return answer;
  drop(answer);
  return ask(await authorize(vendor, method, given, vendor.proxy));
}
