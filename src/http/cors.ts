import { SESSION_HEADERS } from "../relay/routes/session.ts";
import { REQUEST_ID } from "../vendors/outgoing.ts";
import { STRICT_HEADER } from "../wire/header-names.ts";
import type { AskedHead } from "./asked.ts";
import { commonHeaders } from "./errors.ts";
import { ANSWER_HEADERS } from "./openapi/headers.ts";
import { requestIdOf } from "./request.ts";

/**
 * The origin of a page that hides where it is from, as any page can. Programs that ask by themselves write it as well (Tauri's HTTP client, and so
 * Jan: janhq/jan#8131); they say nothing of a site, as browsers do. It is taken from them alone, and where it is configured.
 */
export const OPAQUE = "null";

/** A configured origin as browsers write it: lower case, no slash behind its host. */
export function normalizeOrigin(origin: string): string {
  return origin.toLowerCase().replace(/(?<!\/)\/$/, "");
}

/** Answers for web pages of the configured origins. Without origins it never says anything. */
export type Cors = {
  /** There are no origins: nothing is ever said. */
  readonly isOff: boolean;
  /** The answer to a preflight of an allowed origin, else undefined. */
  preflight(request: Request): Response | undefined;
  /** Headers for every answer: `vary`, and for an allowed origin its name. */
  headers(request: AskedHead): Record<string, string>;
  /** An answer with those headers on it. */
  mark(request: Request, response: Response): Response;
};

/**
 * What the official SDKs, MCP clients and chat programs send from a browser, beside the names that always may cross; some of it is of no use here, and
 * yet without leave for it nothing is sent at all. Programs name themselves as OpenRouter asks them to, and many do so everywhere
 * (n4ze3m/page-assist, CherryHQ/cherry-studio), or as another gateway does (`x-client`: lobehub/lobe-chat, provider "New API"). pi, whose library runs in
 * pages too, names the session and, by it, the request.
 */
const ALLOWED_HEADERS = [
  "authorization",
  "content-type",
  "x-api-key",
  "idempotency-key",
  "prefer",
  "anthropic-version",
  "anthropic-beta",
  "anthropic-user-profile-id",
  "anthropic-workspace-id",
  "anthropic-dangerous-direct-browser-access",
  "openai-organization",
  "openai-project",
  "openai-beta",
  "mcp-protocol-version",
  "mcp-method",
  "mcp-name",
  "mcp-session-id",
  "last-event-id",
  "traceparent",
  "tracestate",
  "user-agent",
  "http-referer",
  "x-title",
  "x-openrouter-title",
  "x-client",
  REQUEST_ID,
  ...SESSION_HEADERS,
  STRICT_HEADER,
  "x-stainless-arch",
  "x-stainless-async",
  "x-stainless-custom-poll-interval",
  "x-stainless-helper",
  "x-stainless-helper-method",
  "x-stainless-lang",
  "x-stainless-os",
  "x-stainless-package-version",
  "x-stainless-poll-helper",
  "x-stainless-retry-count",
  "x-stainless-runtime",
  "x-stainless-runtime-version",
  "x-stainless-timeout",
].join(", ");

const EXPOSED_HEADERS = ANSWER_HEADERS.join(", ");

/** How long a browser may keep a preflight's answer, seconds (reliability 7.3 rule 5). */
const PREFLIGHT_MAX_AGE_SECONDS = 600;

/** CORS for exactly these origins, without credentials: keys travel in headers, never in cookies. */
export function createCors(corsOrigins: readonly string[]): Cors {
  const origins = new Set(corsOrigins.map(normalizeOrigin));
  origins.delete(OPAQUE);
  const headers = (request: AskedHead): Record<string, string> => {
    if (origins.size === 0) return {};
    const origin = request.headers.get("origin");
    if (origin === null || !origins.has(origin.toLowerCase())) return { vary: "Origin" };
    return { vary: "Origin", "access-control-allow-origin": origin, "access-control-expose-headers": EXPOSED_HEADERS };
  };
  return {
    isOff: origins.size === 0,
    headers,
    mark(request, response) {
      const { vary, ...own } = headers(request);
      for (const [name, value] of Object.entries(own)) response.headers.set(name, value);
      // What an answer varies with by itself, it varies with still. One may pass by here twice.
      const varies = response.headers.get("vary") ?? "";
      if (vary !== undefined && !varies.includes(vary)) response.headers.append("vary", vary);
      return response;
    },
    preflight(request) {
      if (request.method !== "OPTIONS" || !request.headers.has("access-control-request-method")) return undefined;
      const allowed = headers(request);
      if (!("access-control-allow-origin" in allowed)) return undefined;
      return new Response(null, {
        status: 204,
        headers: {
          ...commonHeaders(requestIdOf(request)),
          ...allowed,
          "access-control-allow-methods": "GET, POST, DELETE, OPTIONS",
          "access-control-allow-headers": ALLOWED_HEADERS,
          "access-control-max-age": String(PREFLIGHT_MAX_AGE_SECONDS),
          ...(request.headers.get("access-control-request-private-network") === "true" && {
            "access-control-allow-private-network": "true",
          }),
        },
      });
    },
  };
}
