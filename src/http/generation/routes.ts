import { Elysia } from "elysia";
import type { ErrorCode } from "../../canon/errors.ts";
import type { DialectName } from "../../dialects/dialect.ts";
import { dialects } from "../../dialects/index.ts";
import { ChatCompletion, ChatRequest } from "../../wire/chat.ts";
import { MessagesReply, MessagesRequest } from "../../wire/messages.ts";
import { ResponsesReply, ResponsesRequest } from "../../wire/responses.ts";
import { methodNotAllowed } from "../errors.ts";
import { IDEMPOTENCY_PARAMETER } from "../idempotency.ts";
import {
  errorReplies,
  GENERATION_ERRORS,
  HIDDEN,
  jsonBody,
  jsonOrStream,
  type LateSchema,
  STRICT_PARAMETER,
} from "../openapi-detail.ts";
import { answerRequest, GENERATION_PATHS, type RequestDependencies } from "./generation.ts";

/** What the document says of a dialect's endpoint. `errors`: beside the usual ones. */
type Endpoint = {
  summary: string;
  description: string;
  body: LateSchema;
  reply: LateSchema;
  replies: string;
  errors: readonly ErrorCode[];
};

const ENDPOINTS: Readonly<Record<DialectName, Endpoint>> = {
  chat: {
    summary: "Chat completions dialect",
    description:
      "Every model is reachable here. With `stream: true` the answer is a stream of chunks that ends with `[DONE]`.",
    body: ChatRequest,
    reply: ChatCompletion,
    replies: "The completion, or its stream.",
    errors: GENERATION_ERRORS,
  },
  messages: {
    summary: "Messages dialect",
    description:
      "Every model is reachable here. With `stream: true` the answer is a stream of events that ends with `message_stop`.",
    body: MessagesRequest,
    reply: MessagesReply,
    replies: "The message, or its stream.",
    errors: GENERATION_ERRORS,
  },
  responses: {
    summary: "Responses dialect",
    description:
      "Every model is reachable here. Nothing is stored: send the whole conversation as input. With `stream: true` the answer is a stream of events that ends with `response.completed` or `response.incomplete`.",
    body: ResponsesRequest,
    reply: ResponsesReply,
    replies: "The response, or its stream.",
    errors: ["previous_response_not_found", ...GENERATION_ERRORS],
  },
};

const notPost = methodNotAllowed("POST");

/**
 * Whatever is no POST: 405, and 426 for a WebSocket's handshake. Where Codex takes a server for OpenAI's (`openai_base_url`) it asks for one first: at a 426
 * it goes over to HTTP at once and in silence, at any other refusal it tries six times more (seen of Codex 0.171: seven seconds).
 */
function refuseMethod(context: { request: Request }): Response {
  const refused = notPost(context);
  if (context.request.headers.get("upgrade")?.toLowerCase() !== "websocket") return refused;
  refused.headers.set("upgrade", "HTTP/1.1");
  return new Response(refused.body, { status: 426, headers: refused.headers });
}

/** `POST /v1/chat/completions` (interface 4.7), `POST /v1/messages` (interface 4.5), `POST /v1/responses` (contract 3). */
export function generationRoutes(dialect: DialectName, dependencies: RequestDependencies) {
  const path = GENERATION_PATHS[dialect];
  const { summary, description, body, reply, replies, errors } = ENDPOINTS[dialect];
  return new Elysia()
    .post(path, ({ request }) => answerRequest(dialects[dialect], request, dependencies), {
      parse: "none",
      detail: {
        tags: ["Generation"],
        summary,
        description,
        parameters: [STRICT_PARAMETER, IDEMPOTENCY_PARAMETER],
        requestBody: jsonBody(body),
        responses: { 200: jsonOrStream(reply, replies), ...errorReplies(dialect, errors) },
      },
    })
    .all(path, refuseMethod, HIDDEN);
}
