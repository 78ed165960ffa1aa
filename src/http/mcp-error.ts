import { ERRORS, type GatewayError, toGatewayError } from "../canon/errors.ts";
import { INVALID_REQUEST, REFUSED, UNAUTHORIZED, writeFault } from "../web/mcp/message.ts";
import type { AskedHead } from "./asked.ts";
import { pathOf } from "./request.ts";

type Head = Pick<AskedHead, "url" | "headers">;

/** The server, and the same for clients that cannot send headers: a narrow token is the path's last part (contract 3). */
export const MCP_PATH = "/mcp/web";
export const MCP_TOKEN_PATH = "/mcp/web/t/:token";

const OWN_PATH = /^\/mcp\/web(?:\/t\/[^/]*)?$/;

/** Whether the errors of this path are told as JSON-RPC. */
export const isMcpPath = (path: string) => OWN_PATH.test(path);

/**
 * A plain challenge: whoever names an OAuth server here makes clients forget the key they were given (web-and-mcp.md A2 #3). `error` only
 * when something was presented.
 */
function challengeOf(request: Head): string {
  const presented = request.headers.has("authorization") || request.headers.has("x-api-key");
  const own = presented || pathOf(request.url) !== MCP_PATH;
  return own ? 'Bearer realm="mcp", error="invalid_token"' : 'Bearer realm="mcp"';
}

const codeOf = (error: GatewayError) =>
  error.code === "invalid_api_key" ? UNAUTHORIZED : error.code === "invalid_request" ? INVALID_REQUEST : REFUSED;

/** A refusal before a message is read, as JSON-RPC under its own HTTP status (interface 5 rule 3, web-and-mcp.md A2). */
export function mcpErrorBody(thrown: unknown, request: Head): { body: string; headers: Record<string, string> } {
  const error = toGatewayError(thrown);
  const isChallenge = ERRORS[error.code].status === 401;
  return {
    body: writeFault(codeOf(error), error.message, null),
    headers: isChallenge ? { "www-authenticate": challengeOf(request) } : {},
  };
}
