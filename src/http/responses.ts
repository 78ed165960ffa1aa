import { Elysia } from "elysia";
import { dialects } from "../dialects/index.ts";
import { ResponsesReply, ResponsesRequest } from "../wire/responses.ts";
import { methodNotAllowed } from "./errors.ts";
import { answerRequest, type RequestDependencies } from "./generation.ts";
import { IDEMPOTENCY_PARAMETER } from "./idempotency.ts";
import { errorReplies, GENERATION_ERRORS, HIDDEN, jsonBody, jsonOrStream, STRICT_PARAMETER } from "./openapi-detail.ts";

/** `POST /v1/responses` (contract 3). */
export function responsesRoutes(dependencies: RequestDependencies) {
  return new Elysia()
    .post("/v1/responses", ({ request }) => answerRequest(dialects.responses, request, dependencies), {
      parse: "none",
      detail: {
        tags: ["Generation"],
        summary: "Responses dialect",
        description:
          "Every model is reachable here. Nothing is stored: send the whole conversation as input. With `stream: true` the answer is a stream of events that ends with `response.completed` or `response.incomplete`.",
        parameters: [STRICT_PARAMETER, IDEMPOTENCY_PARAMETER],
        requestBody: jsonBody(ResponsesRequest),
        responses: {
          200: jsonOrStream(ResponsesReply, "The response, or its stream."),
          ...errorReplies("responses", ["previous_response_not_found", ...GENERATION_ERRORS]),
        },
      },
    })
    .all("/v1/responses", methodNotAllowed("POST"), HIDDEN);
}
