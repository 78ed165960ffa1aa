import { Elysia } from "elysia";
import { dialects } from "../../dialects/index.ts";
import { checkCountTokens } from "../../dialects/messages/check.ts";
import { type CountRequest, countTokens } from "../../relay/count-tokens.ts";
import type { Tokenizer } from "../../relay/tokenizer/tokenizer.ts";
import { COUNTED_BY_HEADER } from "../../wire/header-names.ts";
import { CountTokensReply, CountTokensRequest } from "../../wire/messages.ts";
import { wholeResponse } from "../answered.ts";
import { AskedRequest } from "../asked.ts";
import { MAX_GENERATION_BYTES, readJson } from "../body/body.ts";
import { authenticate } from "../caller/credentials.ts";
import { commonHeaders, errorResponse, methodNotAllowed, noteFault } from "../errors.ts";
import { errorReplies, HIDDEN, jsonBody, jsonReply } from "../openapi-detail.ts";
import { rateHeaders } from "../rate-headers.ts";
import { requestIdOf } from "../request.ts";
import { Work } from "../work.ts";
import type { RequestDependencies } from "./generation.ts";

/** What the endpoint needs: what generation needs, and the tokenizer. */
export type CountDependencies = RequestDependencies & { tokenizer: Tokenizer };

const PATH = "/v1/messages/count_tokens";

/** `POST /v1/messages/count_tokens` (interface 4.6). */
export function countTokensRoutes(dependencies: CountDependencies) {
  return new Elysia()
    .post(PATH, ({ request }) => answerCount(request, dependencies), {
      parse: "none",
      detail: {
        tags: ["Generation"],
        summary: "Count input tokens",
        description: `Measures the input of a message for any model. Nothing is charged. The header \`${COUNTED_BY_HEADER}\` says whether the \`vendor\` counted or the gateway itself (\`local\`).`,
        requestBody: jsonBody(CountTokensRequest),
        responses: {
          200: jsonReply(CountTokensReply, "The input's length."),
          ...errorReplies("messages", ["model_not_found", "vendor_not_configured", "upstream_overloaded"]),
        },
      },
    })
    .all(PATH, methodNotAllowed("POST"), HIDDEN);
}

async function answerCount(
  request: Request,
  { services, keys, server, tokenizer, knownParts }: CountDependencies,
): Promise<Response> {
  const requestId = requestIdOf(request);
  const client = dialects.messages;
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
      check: checkCountTokens,
      onCall: work && ((vendor, model) => work.book.call(vendor, model)),
    };
    asked = made;
    const count = await countTokens(asked, services, tokenizer);
    const { inputTokens, by, vendor, upstreamModel } = count;
    work?.done({ subject: asked.model, inputTokens, vendor, upstreamModel });
    return wholeResponse(JSON.stringify({ input_tokens: inputTokens, context_management: count.contextManagement }), {
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
