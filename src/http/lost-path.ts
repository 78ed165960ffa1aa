import { GatewayError } from "../canon/errors.ts";

const WITH_V1 = "The base URL of an OpenAI-style client ends in /v1.";
const WITHOUT_V1 = "The base URL of an Anthropic-style client is the address alone, without /v1.";
/** Said where /v1 is missing from an Anthropic-style path: AI SDK's and DSPy's Anthropic clients append /messages alone, to a base URL that ends in /v1. */
const LACKS_V1 = "The base URL of a client that appends no /v1 by itself, as yours, ends in /v1.";
const MCP = "The MCP server is at this path alone.";

/** Endpoints that are missed by a wrong base URL, and how it is meant to be (interface 1, "Base address rules"). */
const MEANT: ReadonlyMap<string, string> = new Map([
  ["/v1/chat/completions", WITH_V1],
  ["/v1/responses", WITH_V1],
  ["/v1/responses/input_tokens", WITH_V1],
  ["/v1/images/generations", WITH_V1],
  ["/v1/models", WITH_V1],
  ["/v1/messages", WITHOUT_V1],
  ["/v1/messages/count_tokens", WITHOUT_V1],
]);
const V1 = "/v1";
/** Where clients look for an MCP server that they were given the address of alone, or with a slash behind its path, as many servers want. */
const MCP_PATHS: ReadonlySet<string> = new Set(["/mcp", "/mcp/web", "/sse", "/v1/mcp", "/v1/mcp/web"]);

/**
 * The endpoint that was meant by a path, and what is to be said of it: where it is missed by a slash, or by what stands before it. That is no /v1 or two,
 * an endpoint that was given as the base URL, or another provider's base URL with the host changed alone (`/api/v1`, `/anthropic`).
 */
function findMeant(path: string): { meant: string; advice: string } | undefined {
  const plain = path.replace(/\/{2,}/g, "/").replace(/\/$/, "");
  if (MCP_PATHS.has(plain)) return { meant: "/mcp/web", advice: MCP };
  for (const [meant, usual] of MEANT) {
    if (!plain.endsWith(meant.slice(V1.length))) continue;
    return { meant, advice: usual === WITHOUT_V1 && !plain.endsWith(meant) ? LACKS_V1 : usual };
  }
  return undefined;
}

/** What clients ask an OpenAI-style server for besides, by the end of its path: with no word of it, it looks as if their base URL were wrong. */
const NOT_SERVED: ReadonlyMap<string, string> = new Map([
  ["/embeddings", "Embeddings are not served."],
  ["/completions", "Text completions are not served: models are asked at /v1/chat/completions."],
  ["/audio/speech", "Speech is not served."],
  ["/audio/transcriptions", "Transcription is not served."],
  ["/moderations", "Moderation is not served."],
  ["/rerank", "Reranking is not served."],
]);

/** The error for a path at which there is nothing (not_found): of one that was nearly right it says what is meant to stand there, of a known one that it is not served. */
export function nothingAt(path: string): GatewayError {
  const found = findMeant(path);
  const hint = found ? `Did you mean ${found.meant}? ${found.advice}` : findNotServed(path);
  return new GatewayError(
    "not_found",
    hint ? `There is nothing at this path. ${hint}` : "There is nothing at this path.",
  );
}

function findNotServed(path: string): string | undefined {
  for (const [end, words] of NOT_SERVED) if (path.endsWith(end)) return words;
  return undefined;
}
