import { Elysia } from "elysia";
import type { Caller } from "../../accounts/caller.ts";
import { GatewayError } from "../../canon/errors.ts";
import { isJson, isObject } from "../../lib/json.ts";
import type { Limiter } from "../../limits/limiter.ts";
import { readTraceparent } from "../../observe/spans.ts";
import type { McpAnswer, McpServer } from "../../web/mcp/mcp.ts";
import {
  INVALID_REQUEST,
  PARSE_ERROR,
  REFUSED,
  type RpcMessage,
  type RpcRequest,
  readMessage,
  VERSIONS,
  writeFault,
} from "../../web/mcp/message.ts";
import { TOOLS } from "../../web/mcp/tools.ts";
import { RpcMessage as RpcMessageBody, RpcReply } from "../../wire/web.ts";
import { wholeResponse } from "../answered.ts";
import { checkJson, readText } from "../body/body.ts";
import { UploadCut } from "../body/upload.ts";
import { authenticate, authenticateToken } from "../caller/credentials.ts";
import { commonHeaders, methodNotAllowed } from "../errors.ts";
import { answerOnce, IDEMPOTENCY_PARAMETER } from "../idempotency.ts";
import { MCP_PATH, MCP_TOKEN_PATH } from "../mcp-error.ts";
import { HIDDEN, jsonBody, jsonReply } from "../openapi-detail.ts";
import { requestIdOf } from "../request.ts";
import { Work } from "../work.ts";
import { answerFault, noteWorked, runCall, type WebCallDependencies } from "./web-call.ts";

/** How much of a message's id is noted, characters: it may be anything. */
const MAX_NOTED_ID = 128;
/** Largest message, bytes (web-and-mcp.md A2 #4). */
const MAX_MESSAGE_BYTES = 1024 * 1024;

/** What the MCP endpoint needs. */
export type McpDependencies = WebCallDependencies & { mcp: McpServer; limiter: Limiter };

/** `POST /mcp/web` (interface 4.9), and the same with a narrow token in the path. Every other method is told 405, also without a key. */
export function mcpRoutes(dependencies: McpDependencies) {
  const { keys } = dependencies;
  const onlyPost = methodNotAllowed("POST");
  return new Elysia({ name: "sluice-mcp" })
    .post(MCP_PATH, ({ request }) => answerMcp(request, () => authenticate(request, keys), dependencies), {
      parse: "none",
      detail: {
        tags: ["Web tools"],
        summary: "MCP server",
        description: `Model Context Protocol over Streamable HTTP, versions ${VERSIONS.join(", ")}; tools \`web_search\` and \`web_fetch\`. One message with each POST: a request is answered as JSON, a notification with 202, and \`notifications/cancelled\` ends the call that it names; GET and DELETE are told 405, for there are no sessions. Clients that cannot send headers use \`/mcp/web/t/{token}\` with a narrow token.`,
        parameters: [IDEMPOTENCY_PARAMETER],
        requestBody: jsonBody(RpcMessageBody),
        responses: {
          200: jsonReply(RpcReply, "The answer; faults of a request among them."),
          202: { description: "A notification was taken." },
          400: jsonReply(RpcReply, "No JSON-RPC message, a batch, or an MCP-Protocol-Version that is not spoken."),
          401: jsonReply(RpcReply, "No valid key."),
          403: jsonReply(RpcReply, "Not from this Host or Origin, or not with this key."),
          406: jsonReply(RpcReply, "The Accept header does not admit application/json."),
          409: jsonReply(RpcReply, "A call with this Idempotency-Key is still running."),
          413: jsonReply(RpcReply, "The message is longer than 1 MiB."),
          415: jsonReply(RpcReply, "The message is not application/json, or it is compressed."),
          422: jsonReply(RpcReply, "This Idempotency-Key was used with another message."),
          429: jsonReply(
            RpcReply,
            "Too many messages. Calls of tools have bounds of their own, which are told as results.",
          ),
          500: jsonReply(RpcReply, "Something went wrong inside the gateway."),
          503: jsonReply(RpcReply, "Too much is under way, or the books cannot be written at the moment."),
        },
      },
    })
    .post(
      MCP_TOKEN_PATH,
      async ({ request, params }) => {
        const caller = () => authenticateToken(request, params.token, keys);
        const response = await answerMcp(request, caller, dependencies);
        // The address is a secret (reliability 7.2).
        response.headers.set("referrer-policy", "no-referrer");
        return response;
      },
      { parse: "none", ...HIDDEN },
    )
    .all(MCP_PATH, onlyPost, HIDDEN)
    .all(MCP_TOKEN_PATH, onlyPost, HIDDEN);
}

function answer(request: Request, status: number, body: string): Response {
  const headers = { "content-type": "application/json", "cache-control": "no-store" };
  return wholeResponse(body, { status, headers: { ...headers, ...commonHeaders(requestIdOf(request)) } });
}

/** The order of checks is that of web-and-mcp.md A2: credentials, types, size, JSON, form, version, then the message itself. */
async function answerMcp(request: Request, identify: () => Caller, dependencies: McpDependencies): Promise<Response> {
  const { server } = dependencies;
  const work = Work.begin(request, { operation: "execute_tool", dialect: "mcp", subject: "" }, dependencies);
  try {
    const caller = identify();
    if (!admitsJson(request.headers.get("accept"))) {
      return answer(
        request,
        406,
        writeFault(REFUSED, "Answers are application/json: the Accept header must admit it."),
      );
    }
    // The body reader and the tools have bounds of their own.
    server()?.timeout(request, 0);
    const text = await readMessageText(request, dependencies);
    const message = parseMessage(text);
    if (message.kind === "fault") {
      return answer(request, 400, writeFault(message.code, message.message, message.id));
    }
    if (work && message.kind === "request") noteMessage(work, caller, message, request);
    const version = request.headers.get("mcp-protocol-version");
    if (version !== null && !isInitialize(message) && !VERSIONS.some((known) => known === version.trim())) {
      const told = `This MCP-Protocol-Version is not spoken here. Spoken are ${VERSIONS.join(", ")}.`;
      work?.done(endOf({ failed: true, code: REFUSED }));
      return answer(request, 400, writeFault(REFUSED, told, message.kind === "request" ? message.id : null));
    }
    if (message.kind === "note") {
      if (message.cancels !== undefined) dependencies.mcp.cancel(caller, message.cancels);
      return new Response(null, { status: 202, headers: commonHeaders(requestIdOf(request)) });
    }
    return await answerRequest(request, { caller, message, text, work }, dependencies);
  } catch (thrown) {
    return answerFault(thrown, request, work, dependencies.log);
  }
}

/**
 * A call of a tool is told to the traces; other messages cost nothing. Its parent is what the message itself names, and what its request is part of is
 * linked then (MCP conventions). A tool that there is not may be called anything: its name is not told.
 */
function noteMessage(work: Work, caller: Caller, { id, method, params }: RpcRequest, request: Request): void {
  if (method !== "tools/call") return;
  const { name, _meta: meta } = (isObject(params) ? params : {}) as { name?: unknown; _meta?: unknown };
  const named = isObject(meta) && typeof meta["traceparent"] === "string" ? meta["traceparent"] : undefined;
  const version = request.headers.get("mcp-protocol-version")?.trim();
  const spoken = VERSIONS.find((known) => known === version);
  work.by(caller);
  work.note({
    subject: TOOLS.find((tool) => tool.name === name)?.name ?? "",
    rpc: { method, id: String(id).slice(0, MAX_NOTED_ID), version: spoken },
    ...(readTraceparent(named) && { traceparent: named, linked: work.traceparent }),
  });
}

/** How a message ended, as the MCP conventions name that. */
function endOf({ failed, code }: Pick<McpAnswer, "failed" | "code">) {
  if (!failed) return {};
  return { outcome: "refused", error: code === undefined ? "tool_error" : String(code), rpcCode: code };
}

const isInitialize = (message: RpcMessage) => message.kind === "request" && message.method === "initialize";

/** Lenient: only who says in so many words that JSON is not wanted is refused (web-and-mcp.md A2 #4). */
function admitsJson(accept: string | null): boolean {
  return (
    accept === null ||
    accept.trim() === "" ||
    /(?:^|[\s,])(?:application\/(?:json|\*)|\*\/\*)(?=$|[\s;,])/i.test(accept)
  );
}

/** The body's text; "" for one that is no text at all: that is no JSON either. */
async function readMessageText(request: Request, { clock, room }: McpDependencies): Promise<string> {
  try {
    return await readText(request, { maxBytes: MAX_MESSAGE_BYTES, clock, room });
  } catch (thrown) {
    const isCut = thrown instanceof UploadCut;
    if (thrown instanceof GatewayError && thrown.code === "invalid_request" && !isCut) return "";
    throw thrown;
  }
}

/** A body as a message. Text that is no JSON, and JSON that is no message, are faults of different codes. */
function parseMessage(text: string): RpcMessage {
  const first = text.trimStart()[0];
  try {
    if (first === "{") return readMessage(checkJson(text).value);
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown;
    const code = isJson(text) ? INVALID_REQUEST : PARSE_ERROR;
    return { kind: "fault", code, message: thrown.message, id: null };
  }
  if (!isJson(text)) {
    return { kind: "fault", code: PARSE_ERROR, message: "The request body is not valid JSON.", id: null };
  }
  return readMessage(first === "[" ? [] : null);
}

type Asked = { caller: Caller; message: RpcRequest; text: string; work: Work | undefined };

async function answerRequest(
  request: Request,
  { caller, message, text, work }: Asked,
  { mcp, kept, limiter, running }: McpDependencies,
): Promise<Response> {
  const requestId = requestIdOf(request);
  const toResponse = ({ body }: McpAnswer) => answer(request, 200, body);
  if (mcp.isPlain(message)) {
    // Calls of tools have bounds of their own, which are told as results.
    limiter.take(caller, "catalog").release();
    return toResponse(mcp.answer(message));
  }
  // The path may hold a token, which is not to be written down: one name for both ways.
  return answerOnce({ request, accountId: caller.accountId, body: text, route: MCP_PATH }, kept, async () => {
    const onWorked = noteWorked(work);
    const call = (signal: AbortSignal) => mcp.call(message, { caller, requestId, signal, onWorked });
    const answered = await runCall(request, caller, running, call);
    work?.done(endOf(answered));
    const response = toResponse(answered);
    return answered.failed ? { free: response } : response;
  });
}
