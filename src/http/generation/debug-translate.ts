import { Elysia } from "elysia";
import { fieldFault } from "../../canon/errors.ts";
import type { DialectName } from "../../dialects/dialect.ts";
import { dialects } from "../../dialects/index.ts";
import { fieldText, JsonText } from "../../lib/json-text.ts";
import { type ShownRoute, type ShownTranslation, showTranslation } from "../../relay/show-translation.ts";
import { TranslateReply, TranslateRequest } from "../../wire/debug-translate.ts";
import { checker } from "../../wire/open.ts";
import { wholeResponse } from "../answered.ts";
import { MAX_GENERATION_BYTES, readJson } from "../body/body.ts";
import { authenticate } from "../caller/credentials.ts";
import { commonHeaders, methodNotAllowed } from "../errors.ts";
import { errorReplies, HIDDEN, jsonBody, jsonReply } from "../openapi-detail.ts";
import { requestIdOf } from "../request.ts";
import type { RequestDependencies } from "./generation.ts";

const PATH = "/v1/debug/translate";

const check = checker(TranslateRequest);

/** `POST /v1/debug/translate`: the exact upstream request for a body, secrets masked, nothing sent and nothing charged. */
export function debugTranslateRoutes(dependencies: RequestDependencies) {
  return new Elysia()
    .post(PATH, ({ request }) => answerTranslation(request, dependencies), {
      parse: "none",
      detail: {
        tags: ["Generation"],
        summary: "Show a translation",
        description:
          "What each of the model's vendors would be sent for a body: method, address, headers with secrets masked, body, the order about reasoning, and the paths of all that this vendor cannot be told. Nothing is sent and nothing is charged.",
        requestBody: jsonBody(TranslateRequest),
        responses: {
          200: jsonReply(TranslateReply, "The upstream requests."),
          ...errorReplies("chat", ["model_not_found", "vendor_not_configured"]),
        },
      },
    })
    .all(PATH, methodNotAllowed("POST"), HIDDEN);
}

async function answerTranslation(request: Request, dependencies: RequestDependencies): Promise<Response> {
  const { services, keys, server } = dependencies;
  const requestId = requestIdOf(request);
  const caller = authenticate(request, keys);
  const permit = services.limiter.take(caller, "count-tokens");
  try {
    // The body reader has bounds of its own.
    server()?.timeout(request, 0);
    const asked = await readJson(request, {
      maxBytes: MAX_GENERATION_BYTES,
      clock: services.clock,
      room: services.admission?.bodies,
    });
    const { dialect, body } = readAsked(asked);
    const shown = showTranslation(
      { client: dialects[dialect], caller, requestId, headers: request.headers, body },
      services,
    );
    return wholeResponse(write(dialect, shown), {
      headers: { "content-type": "application/json", "cache-control": "no-store", ...commonHeaders(requestId) },
    });
  } finally {
    permit.release();
  }
}

/** The dialect, and the body as it was written: its numbers and spelling are those that would go on. */
function readAsked(asked: JsonText): { dialect: DialectName; body: JsonText } {
  const fault = check(asked.value);
  if (fault) throw fieldFault(fault);
  const { dialect } = asked.value as { dialect: DialectName };
  return { dialect, body: new JsonText(fieldText(asked.text, "body") ?? "{}") };
}

function writeRoute({ vendor, model, error, request }: ShownRoute): string {
  if (!request) {
    const { code = "internal_error", message = "", param = null } = error ?? {};
    return JSON.stringify({ vendor, model, error: { code, message, param } });
  }
  const { body, dialect, url, headers, ...rest } = request;
  const head = JSON.stringify({ vendor, model, dialect, method: "POST", url, headers, ...rest });
  return `${head.slice(0, -1)},"body":${body}}`;
}

/** The answer, with the upstream bodies as they would be sent. */
function write(dialect: DialectName, { routes, ...rest }: ShownTranslation): string {
  const head = JSON.stringify({ object: "translation", dialect, ...rest });
  return `${head.slice(0, -1)},"routes":[${routes.map(writeRoute).join(",")}]}`;
}
