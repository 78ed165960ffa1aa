import { Elysia } from "elysia";
import { HealthReply } from "../wire/health.ts";
import { toResponse } from "./answered.ts";
import { methodNotAllowed } from "./errors.ts";
import { type Health, healthAnswer } from "./health-answer.ts";
import { errorReplies, HIDDEN, jsonReply, PUBLIC_ERRORS } from "./openapi-detail.ts";
import { requestIdOf } from "./request.ts";

/**
 * GET /healthz: 200 while the process answers at all. GET /readyz: 200 when it should be given work, else 503 (contract 3).
 * Neither needs a key.
 */
export function healthRoutes(health: Health) {
  const answer = (request: Request, path: string) => toResponse(healthAnswer(path, health, requestIdOf(request))!);
  const errors = errorReplies("chat", [], PUBLIC_ERRORS);
  const live = { "200": jsonReply(HealthReply, "The process is alive."), ...errors };
  const ready = {
    "200": jsonReply(HealthReply, "Ready for requests."),
    "503": jsonReply(HealthReply, "Not ready: starting, stopping, or unable to work."),
    ...errors,
  };
  return new Elysia({ name: "sluice-health" })
    .get("/healthz", ({ request }) => answer(request, "/healthz"), {
      detail: { tags: ["Operation"], summary: "Liveness", security: [], responses: live },
    })
    .get("/readyz", ({ request }) => answer(request, "/readyz"), {
      detail: { tags: ["Operation"], summary: "Readiness", security: [], responses: ready },
    })
    .all("/healthz", methodNotAllowed("GET, HEAD"), HIDDEN)
    .all("/readyz", methodNotAllowed("GET, HEAD"), HIDDEN);
}
