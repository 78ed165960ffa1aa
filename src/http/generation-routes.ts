import { Elysia } from "elysia";
import type { ErrorCode } from "../canon/errors.ts";
import type { DialectName } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import { ChatCompletion, ChatRequest } from "../wire/chat.ts";
import { MessagesReply, MessagesRequest } from "../wire/messages.ts";
import { ResponsesReply, ResponsesRequest } from "../wire/responses.ts";
import { methodNotAllowed } from "./errors.ts";
import { answerRequest, GENERATION_PATHS, type RequestDependencies } from "./generation.ts";
import { IDEMPOTENCY_PARAMETER } from "./idempotency.ts";
import {
  errorReplies,
  GENERATION_ERRORS,
  HIDDEN,
  jsonBody,
  jsonOrStream,
  type LateSchema,
  STRICT_PARAMETER,
} from "./openapi-detail.ts";

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
    .all(path, methodNotAllowed("POST"), HIDDEN);
}
