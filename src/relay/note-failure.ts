import type { GatewayError } from "../canon/errors.ts";
import type { Way } from "../vendors/health.ts";
import type { Job } from "./job.ts";

/** Services with limits of their own beside a model's: what room is left over (OpenAI, Groq), and faster ones (OpenAI, Anthropic: "Fast mode"). */
const APART: Readonly<Record<string, readonly unknown[]>> = { service_tier: ["flex", "ultrafast"], speed: ["fast"] };

/** Whether a limit is one of such a service, which the request asks for: of the way of others it says nothing. */
function isLimitApart({ code }: GatewayError, { body, intent }: Job): boolean {
  if (code !== "rate_limit_exceeded") return false;
  const asked = body.value;
  return Object.entries(APART).some(
    ([field, services]) => services.includes(asked[field]) && !intent.remove?.includes(field),
  );
}

/** Keeps in mind that a way failed, be it before its answer began or in the midst of it. One failure counts once, whoever tells of it again. */
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
