import { checkIdempotencyKey, fingerprint, replayHeaders } from "../relay/idempotency.ts";
import { type IdempotencyStore, readBody } from "../relay/idempotency-store.ts";
import { REPLAYED_HEADER } from "../wire/header-names.ts";
import { wholeResponse } from "./answered.ts";
import { commonHeaders } from "./errors.ts";
import { pathOf, requestIdOf } from "./request.ts";

/** The header as a parameter of the OpenAPI document. */
export const IDEMPOTENCY_PARAMETER = {
  name: "Idempotency-Key",
  in: "header" as const,
  description: `1 to 255 printable ASCII characters. The same key with the same body gives the same answer for 24 hours, marked \`${REPLAYED_HEADER}: true\`, a stream as one stream; nothing runs or is charged twice. With another body: 422; while the first is running: 409. A request that cost nothing leaves its key free.`,
  schema: { type: "string" as const, minLength: 1, maxLength: 255 },
};

/** Headers of an answer that belong to the request it was made for, not to the answer. */
const OWN_HEADERS: ReadonlySet<string> = new Set(["x-request-id", "request-id", "date", "content-length"]);

/** Who asks, and with which body, as text. `route`: what is asked, where the path does not say it in words that may be written down. */
type Keyed = { request: Request; accountId: string; body: string; route?: string };

/** An answer that cost nothing, though it is no error. */
export type Free = { free: Response };

/**
 * A POST that can cost and answers with a whole body (image jobs, web tools), under its Idempotency-Key where it has one (contract 5): `run` runs once, and
 * its answer is given again for 24 hours. An answer that is an error cost nothing and leaves the key free, and so does one that is said to be free. Throws
 * GatewayError: invalid_request, idempotency_in_progress, idempotency_key_reused, and what `run` throws.
 */
export async function answerOnce(
  { request, accountId, body, route = pathOf(request.url) }: Keyed,
  kept: IdempotencyStore,
  run: () => Promise<Response | Free>,
): Promise<Response> {
  const key = request.headers.get("idempotency-key");
  if (key === null) {
    const answered = await run();
    return "free" in answered ? answered.free : answered;
  }
  checkIdempotencyKey(key);
  const requestId = requestIdOf(request);
  const claimed = await kept.claim({ accountId, route, key, requestId, fingerprint: fingerprint(route, body) });
  if (claimed.kind === "kept") {
    const { status, headers } = claimed.answer;
    return wholeResponse(await readBody(claimed.answer), {
      status,
      headers: { ...replayHeaders(headers), ...commonHeaders(requestId) },
    });
  }
  try {
    const answered = await run();
    const isFree = "free" in answered;
    const response = isFree ? answered.free : answered;
    if (isFree || !response.ok) {
      claimed.claim.drop();
      return response;
    }
    const text = await response.text();
    const { status } = response;
    const headers = Object.fromEntries([...response.headers].filter(([name]) => !OWN_HEADERS.has(name)));
    await claimed.claim.keep({ status, headers, body: text });
    return wholeResponse(text, { status, headers: response.headers });
  } catch (thrown) {
    claimed.claim.drop();
    throw thrown;
  }
}
