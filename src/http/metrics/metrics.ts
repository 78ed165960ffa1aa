import { Elysia } from "elysia";
import { type Figure, writeFigures } from "../../observe/figures.ts";
import { wholeResponse } from "../answered.ts";
import { isFromHere, type PeerSource } from "../caller/address.ts";
import { authenticateAdmin, type KeyFinder } from "../caller/credentials.ts";
import { answerError, commonHeaders, methodNotAllowed } from "../errors.ts";
import { errorReplies, HIDDEN } from "../openapi-detail.ts";
import { requestIdOf } from "../request.ts";

/** What Prometheus reads (text format 0.0.4). */
const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";
export type MetricsDependencies = {
  keys: KeyFinder;
  /** The listening server; null when the app is called inside the process. */
  server(): PeerSource;
  collect(): readonly Figure[] | Promise<readonly Figure[]>;
};

/** A call inside the process is from here as well. */
const isLocal = (request: Request, server: PeerSource): boolean =>
  isFromHere(request, server === null ? "::1" : (server.requestIP(request)?.address ?? ""));

/**
 * GET /metrics (contract 3): figures for Prometheus. From this machine without a key, as scrapers and their side-cars ask; from anywhere else, or
 * through a proxy, with an admin key only: names of vendors and models are nobody else's business (reliability 7.3).
 */
export function metricsRoutes({ keys, server, collect }: MetricsDependencies) {
  const answer = async (request: Request): Promise<Response> => {
    try {
      if (!isLocal(request, server())) authenticateAdmin(request, keys);
      const headers = {
        ...commonHeaders(requestIdOf(request)),
        "content-type": CONTENT_TYPE,
        "cache-control": "no-store",
      };
      return wholeResponse(writeFigures(await collect()), { headers });
    } catch (thrown) {
      return answerError(thrown, request);
    }
  };
  const reply = { description: "The figures.", content: { "text/plain": { schema: { type: "string" as const } } } };
  return new Elysia({ name: "sluice-metrics" })
    .get("/metrics", ({ request }) => answer(request), {
      detail: {
        tags: ["Operation"],
        summary: "Figures for Prometheus",
        description:
          "Without a key from the gateway's own machine, asked as localhost, 127.0.0.1 or [::1]; with an admin key from anywhere.",
        responses: { 200: reply, ...errorReplies("chat") },
      },
    })
    .all("/metrics", methodNotAllowed("GET, HEAD"), HIDDEN);
}
