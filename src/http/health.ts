import { Elysia } from "elysia";
import { HealthReply } from "../wire/health.ts";
import { commonHeaders, methodNotAllowed } from "./errors.ts";
import { errorReplies, jsonReply, PUBLIC_ERRORS } from "./openapi-detail.ts";
import { requestIdOf } from "./request.ts";

function answer(request: Request, healthy: boolean): Response {
  return Response.json(
    { status: healthy ? "ok" : "unavailable" },
    { status: healthy ? 200 : 503, headers: { "cache-control": "no-store", ...commonHeaders(requestIdOf(request)) } },
  );
}

/**
 * GET /healthz: 200 while the process answers at all. GET /readyz: 200 when it should be given work, else 503 (contract 3).
 * Neither needs a key.
 */
export function healthRoutes(health: { ready(): boolean }) {
  const errors = errorReplies("chat", [], PUBLIC_ERRORS);
  const live = { "200": jsonReply(HealthReply, "The process is alive."), ...errors };
  const ready = {
    "200": jsonReply(HealthReply, "Ready for requests."),
    "503": jsonReply(HealthReply, "Not ready: starting, stopping, or unable to work."),
    ...errors,
  };
  return new Elysia({ name: "sluice-health" })
    .get("/healthz", ({ request }) => answer(request, true), {
      detail: { tags: ["Operation"], summary: "Liveness", security: [], responses: live },
    })
    .get("/readyz", ({ request }) => answer(request, health.ready()), {
      detail: { tags: ["Operation"], summary: "Readiness", security: [], responses: ready },
    })
    .all("/healthz", methodNotAllowed("GET, HEAD"), { detail: { hide: true } })
    .all("/readyz", methodNotAllowed("GET, HEAD"), { detail: { hide: true } });
}
