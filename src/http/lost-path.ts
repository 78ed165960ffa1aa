import { GatewayError } from "../canon/errors.ts";

const WITH_V1 = "The base URL of an OpenAI-style client ends in /v1.";
const WITHOUT_V1 = "The base URL of an Anthropic-style client is the address alone, without /v1.";
const MCP = "The MCP server is at this path alone.";

/** Endpoints that are missed by a wrong base URL, and how it is meant to be (interface 1, "Base address rules"). */
const MEANT: ReadonlyMap<string, string> = new Map([
  ["/v1/chat/completions", WITH_V1],
  ["/v1/responses", WITH_V1],
  ["/v1/images/generations", WITH_V1],
  ["/v1/models", WITH_V1],
  ["/v1/messages", WITHOUT_V1],
  ["/v1/messages/count_tokens", WITHOUT_V1],
  ["/mcp/web", MCP],
]);
/** Where clients look for an MCP server that they were given the address of alone. */
const MCP_PATHS: ReadonlySet<string> = new Set(["/mcp", "/sse", "/v1/mcp", "/v1/mcp/web"]);

/** The endpoint that was meant by a path, where it is missed by no more than its beginning or a slash. */
function findMeant(path: string): string | undefined {
  const plain = path.replace(/\/{2,}/g, "/").replace(/\/$/, "");
  const meant = MCP_PATHS.has(plain) ? "/mcp/web" : `/v1${plain.replace(/^(?:\/v1(?=\/))+/, "")}`;
  return MEANT.has(meant) ? meant : undefined;
}

/** The error for a path at which there is nothing (not_found); of one that was nearly right it says what is meant to stand there. */
export function nothingAt(path: string): GatewayError {
  const meant = findMeant(path);
  const hint = meant === undefined ? "" : ` Did you mean ${meant}? ${MEANT.get(meant)}`;
  return new GatewayError("not_found", `There is nothing at this path.${hint}`);
}
