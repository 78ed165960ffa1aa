import { Elysia } from "elysia";
import type { ErrorCode } from "../../canon/errors.ts";
import { dialects } from "../../dialects/index.ts";
import { checkCountTokens } from "../../dialects/messages/check.ts";
import { checkCountInput } from "../../dialects/responses/check.ts";
import { type Count, type CountRequest, countTokens } from "../../relay/count-tokens.ts";
import type { Tokenizer } from "../../relay/tokenizer/tokenizer.ts";
import { COUNTED_BY_HEADER } from "../../wire/header-names.ts";
import { CountTokensReply, CountTokensRequest } from "../../wire/messages.ts";
import { CountInputReply, CountInputRequest } from "../../wire/responses.ts";
import { wholeResponse } from "../answered.ts";
import { AskedRequest } from "../asked.ts";
import { MAX_GENERATION_BYTES, readJson } from "../body/body.ts";
import { authenticate } from "../caller/credentials.ts";
import { commonHeaders, errorResponse, methodNotAllowed, noteFault } from "../errors.ts";
import { errorReplies, HIDDEN, jsonBody, jsonReply, type LateSchema } from "../openapi-detail.ts";
import { rateHeaders } from "../rate-headers.ts";
import { requestIdOf } from "../request.ts";
import { Work } from "../work.ts";
import type { RequestDependencies } from "./generation.ts";

/** What the endpoint needs: what generation needs, and the tokenizer. */
export type CountDependencies = RequestDependencies & { tokenizer: Tokenizer };

/** The dialects that have an endpoint for it; the chat one has none anywhere. */
type CountDialect = "messages" | "responses";
export const COUNT_PATHS: Readonly<Record<CountDialect, string>> = {
  messages: "/v1/messages/count_tokens",
  responses: "/v1/responses/input_tokens",
};

/** `check` throws GatewayError for a body that is none; `reply` is what is answered, before it is JSON. */
type Endpoint = {
  measured: string;
  request: LateSchema;
  answer: LateSchema;
  errors: readonly ErrorCode[];
  check(body: unknown): void;
  reply(count: Count): Record<string, unknown>;
};

const ENDPOINTS: Readonly<Record<CountDialect, Endpoint>> = {
  messages: {
    measured: "a message",
    request: CountTokensRequest,
    answer: CountTokensReply,
    errors: [],
    check: checkCountTokens,
    reply: ({ inputTokens, contextManagement }) => ({
      input_tokens: inputTokens,
      context_management: contextManagement,
    }),
  },
  responses: {
    measured: "a response",
    request: CountInputRequest,
    answer: CountInputReply,
    errors: ["previous_response_not_found"],
    check: checkCountInput,
    reply: ({ inputTokens }) => ({ object: "response.input_tokens", input_tokens: inputTokens }),
  },
};

/**
 * `POST /v1/messages/count_tokens` (interface 4.6), and `POST /v1/responses/input_tokens`, which clients of that dialect ask for the same (OpenAI, "Counting
 * tokens").
 */
export function countTokensRoutes(dialect: CountDialect, dependencies: CountDependencies) {
  const { measured, request: body, answer, errors } = ENDPOINTS[dialect];
  const path = COUNT_PATHS[dialect];
  return new Elysia()
    .post(path, ({ request }) => answerCount(dialect, request, dependencies), {
      parse: "none",
      detail: {
        tags: ["Generation"],
        summary: `Count input tokens of ${measured}`,
        description: `Measures the input of ${measured} for any model. Nothing is charged. The header \`${COUNTED_BY_HEADER}\` says whether the \`vendor\` counted or the gateway itself (\`local\`).`,
        requestBody: jsonBody(body),
        responses: {
          200: jsonReply(answer, "The input's length."),
          ...errorReplies(dialect, ["model_not_found", "vendor_not_configured", "upstream_overloaded", ...errors]),
        },
      },
    })
    .all(path, methodNotAllowed("POST"), HIDDEN);
}

async function answerCount(
  dialect: CountDialect,
  request: Request,
  { services, keys, server, tokenizer, knownParts }: CountDependencies,
): Promise<Response> {
  const requestId = requestIdOf(request);
  const client = dialects[dialect];
  const { check, reply } = ENDPOINTS[dialect];
  const work = Work.begin(request, { operation: "count_tokens", dialect: client.name, subject: "" }, services);
  let asked: CountRequest | undefined;
  try {
    const turn = services.admission?.enter(new AskedRequest(request, server()));
    if (turn) await turn;
    const caller = authenticate(request, keys);
    work?.by(caller);
    // The idle time-out would cut slow uploads; the body reader and the counters have bounds of their own.
    server()?.timeout(request, 0);
    const known = knownParts && { parts: knownParts, owner: caller.accountId };
    const { clock, admission } = services;
    const made: CountRequest = {
      client,
      caller,
      requestId,
      headers: request.headers,
      signal: request.signal,
      readBody: () =>
        readJson(request, { maxBytes: MAX_GENERATION_BYTES, clock, known, room: admission?.bodies, keeper: made }),
      check,
      onCall: work && ((vendor, model) => work.book.call(vendor, model)),
    };
    asked = made;
    const count = await countTokens(asked, services, tokenizer);
    const { inputTokens, by, vendor, upstreamModel } = count;
    work?.done({ subject: asked.model, inputTokens, vendor, upstreamModel });
    return wholeResponse(JSON.stringify(reply(count)), {
      headers: {
        "content-type": "application/json",
        ...commonHeaders(requestId),
        [COUNTED_BY_HEADER]: by,
        ...(asked.rate && rateHeaders(client.name, asked.rate)),
      },
    });
  } catch (thrown) {
    work?.note({ subject: asked?.model });
    work?.failed(thrown);
    if (!request.signal.aborted) noteFault(thrown, request, requestId, services.log);
    return errorResponse(thrown, client, requestId, asked?.rate);
  } finally {
    asked?.place?.leave();
  }
}
