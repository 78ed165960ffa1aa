import { GatewayError } from "../canon/errors.ts";
import { ResponseAnswer } from "./answer.ts";
import { asUnsent, connectionError } from "./connection-faults.ts";
import type { UpstreamRequest } from "./vendor.ts";

/**
 * One call over the network by Bun's own client. A GET carries no body. Redirects are not followed, Bun's own 300 s limit is off (runtime.md 0.3) and the
 * environment's proxies are ignored. Throws why the signal was aborted, else GatewayError: `upstream_unreachable`, `upstream_overloaded` and `upstream_error`
 * as for a generation (vendors/send.ts).
 */
export async function fetchUpstream(...asked: Parameters<typeof fetchUnfollowed>): Promise<Response> {
  return refuseRedirect(await fetchUnfollowed(...asked));
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

/** A status that leads to another address. */
export const isRedirect = ({ status }: { status: number }) => status >= 300 && status <= 399;

/** What a redirect means: a key and a prompt must not follow it (reliability 0 #10). */
export function redirected(status: number): GatewayError {
  const message = "The vendor's address answers with a redirect. The operator has to check the vendor's base URL.";
  return new GatewayError("upstream_error", message, { retry: false, cause: { status } });
}

/** The response itself. Throws {@link redirected} for one that leads elsewhere. */
export function refuseRedirect(response: Response): Response {
  if (!isRedirect(response)) return response;
  new ResponseAnswer(response).cancel();
  throw redirected(response.status);
}
