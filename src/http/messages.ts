import { Elysia } from "elysia";
import { dialects } from "../dialects/index.ts";
import { MessagesReply, MessagesRequest } from "../wire/messages.ts";
import { methodNotAllowed } from "./errors.ts";
import { answerRequest, type RequestDependencies } from "./generation.ts";
import { IDEMPOTENCY_PARAMETER } from "./idempotency.ts";
import { errorReplies, GENERATION_ERRORS, HIDDEN, jsonBody, jsonOrStream, STRICT_PARAMETER } from "./openapi-detail.ts";

/** `POST /v1/messages` (interface 4.5). */
export function messagesRoutes(dependencies: RequestDependencies) {
  return new Elysia()
    .post("/v1/messages", ({ request }) => answerRequest(dialects.messages, request, dependencies), {
      parse: "none",
      detail: {
        tags: ["Generation"],
        summary: "Messages dialect",
        description:
          "Every model is reachable here. With `stream: true` the answer is a stream of events that ends with `message_stop`.",
        parameters: [STRICT_PARAMETER, IDEMPOTENCY_PARAMETER],
        requestBody: jsonBody(MessagesRequest),
        responses: {
          200: jsonOrStream(MessagesReply, "The message, or its stream."),
          ...errorReplies("messages", GENERATION_ERRORS),
        },
      },
    })
    .all("/v1/messages", methodNotAllowed("POST"), HIDDEN);
}
