import { Elysia } from "elysia";
import { type Figure, writeFigures } from "../observe/figures.ts";
import type { PeerSource } from "./address.ts";
import { authenticateAdmin, type KeyFinder } from "./credentials.ts";
import { answerError, commonHeaders, methodNotAllowed } from "./errors.ts";
import { errorReplies } from "./openapi-detail.ts";
import { requestIdOf } from "./request.ts";

/** What Prometheus reads (text format 0.0.4). */
const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";
/** Headers that a proxy in between writes: then the connection's own address says nothing of who asks. */
const FORWARDING = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"] as const;

export type MetricsDependencies = {
  keys: KeyFinder;
  /** The listening server; null when the app is called inside the process. */
  server(): PeerSource;
  collect(): readonly Figure[] | Promise<readonly Figure[]>;
};

const isLoopback = (address: string) => /^(?:::ffff:)?127\.\d+\.\d+\.\d+$/.test(address) || address === "::1";

/** Asked from this machine itself, and by nobody in between. */
function isLocal(request: Request, server: PeerSource): boolean {
  if (FORWARDING.some((name) => request.headers.has(name))) return false;
  return server === null || isLoopback(server.requestIP(request)?.address ?? "");
}

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
      return new Response(writeFigures(await collect()), { headers });
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
        description: "Without a key from the gateway's own machine, with an admin key from anywhere.",
        responses: { 200: reply, ...errorReplies("chat") },
      },
    })
    .all("/metrics", methodNotAllowed("GET, HEAD"), { detail: { hide: true } });
}
