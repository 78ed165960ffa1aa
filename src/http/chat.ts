import { Elysia } from "elysia";
import { dialects } from "../dialects/index.ts";
import { ChatCompletion, ChatRequest } from "../wire/chat.ts";
import { methodNotAllowed } from "./errors.ts";
import { answerRequest, type RequestDependencies } from "./generation.ts";
import { IDEMPOTENCY_PARAMETER } from "./idempotency.ts";
import { errorReplies, GENERATION_ERRORS, HIDDEN, jsonBody, jsonOrStream, STRICT_PARAMETER } from "./openapi-detail.ts";

/** `POST /v1/chat/completions` (interface 4.7). */
export function chatRoutes(dependencies: RequestDependencies) {
  return new Elysia()
    .post("/v1/chat/completions", ({ request }) => answerRequest(dialects.chat, request, dependencies), {
      parse: "none",
      detail: {
        tags: ["Generation"],
        summary: "Chat completions dialect",
        description:
          "Every model is reachable here. With `stream: true` the answer is a stream of chunks that ends with `[DONE]`.",
        parameters: [STRICT_PARAMETER, IDEMPOTENCY_PARAMETER],
        requestBody: jsonBody(ChatRequest),
        responses: {
          200: jsonOrStream(ChatCompletion, "The completion, or its stream."),
          ...errorReplies("chat", GENERATION_ERRORS),
        },
      },
    })
    .all("/v1/chat/completions", methodNotAllowed("POST"), HIDDEN);
}
