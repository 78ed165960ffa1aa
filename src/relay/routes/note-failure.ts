import type { GatewayError } from "../../canon/errors.ts";
import type { Way } from "../../vendors/health.ts";
import type { Job } from "../job.ts";

/** How a request asks for a service with limits of its own: spare capacity (OpenAI, Groq: flex), or a faster one (OpenAI; Anthropic, "Fast mode"). */
const APART: Readonly<Record<string, readonly unknown[]>> = { service_tier: ["flex", "ultrafast"], speed: ["fast"] };

/** Whether a limit is that of such a service, for which this request asks: requests that do not may go the same way. */
function isLimitApart({ code }: GatewayError, { body, intent }: Job): boolean {
  if (code !== "rate_limit_exceeded") return false;
  const asked = body.value;
  return Object.entries(APART).some(
    ([field, services]) => services.includes(asked[field]) && !intent.remove?.includes(field),
  );
}

/** Notes in the vendors' records that a way failed, before its answer began or in the midst of it. A failure that is told of again counts once. */
export function noteFailure(job: Job, way: Way, error: GatewayError): void {
  const { services, request, exchange } = job;
  if (exchange.notedFailure === error) return;
  exchange.notedFailure = error;
  if (isLimitApart(error, job)) {
    services.health.cameToNothing(way);
    return;
  }
  const done = services.health.wentWrong(way, error, exchange.attempts.begunAt, exchange.attempts.startedAt);
  if (!done) return;
  const { kind, name, restMs } = done;
  const fields = { request_id: request.requestId, way: name, error: error.code, rest_ms: restMs };
  // A key that is refused is for the operator to see; a limit passes by itself.
  services.log[error.code === "rate_limit_exceeded" ? "info" : "error"](`route-${kind}`, fields);
}
