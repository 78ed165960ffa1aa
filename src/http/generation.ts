import type { Server } from "bun";
import { toGatewayError } from "../canon/errors.ts";
import type { Dialect } from "../dialects/dialect.ts";
import { newId } from "../lib/id.ts";
import type { BodyLog } from "../relay/body-log.ts";
import { generate } from "../relay/generate.ts";
import { generateOnce, type KeptAnswers } from "../relay/idempotency.ts";
import type { GenerateRequest, Services } from "../relay/job.ts";
import { MAX_GENERATION_BYTES, readJson } from "./body.ts";
import { authenticate, type KeyFinder } from "./credentials.ts";
import { commonHeaders, errorResponse } from "./errors.ts";
import { rateHeaders } from "./rate-headers.ts";
import { pathOf, requestIdOf } from "./request.ts";
import { sseResponse } from "./sse.ts";

/** What the generating endpoints need: the relay's services and the keys. */
export type GenerationDependencies = {
  services: Services;
  keys: KeyFinder;
  /** The answers of requests that carry an Idempotency-Key. */
  kept: KeptAnswers;
  /** Notes prompts and answers, where the operator has switched that on. */
  bodies?: BodyLog | undefined;
  /** The listening server. Not taken from Elysia's context, which would define it anew on every request: that costs as much as the routing. */
  server(): RequestServer;
};

/** Bun's server; absent when the app is called without one, as tests do. */
export type RequestServer = Pick<Server<unknown>, "timeout"> | null;

/**
 * A request for generation in `dialect`, once it may come in: credentials, then the relay's way, and the answer or the error in that dialect.
 * Who is turned away is told at once, and nothing is made for him that is not needed for that.
 */
export function answerGeneration(
  dialect: Dialect,
  request: Request,
  dependencies: GenerationDependencies,
): Response | Promise<Response> {
  try {
    const turn = dependencies.services.admission?.enter(request);
    return turn ? answerInTurn(turn, dialect, request, dependencies) : answerAdmitted(dialect, request, dependencies);
  } catch (thrown) {
    return turnAway(thrown, dialect, dependencies);
  }
}

async function answerInTurn(
  turn: Promise<void>,
  dialect: Dialect,
  request: Request,
  dependencies: GenerationDependencies,
): Promise<Response> {
  try {
    await turn;
  } catch (thrown) {
    return turnAway(thrown, dialect, dependencies);
  }
  return answerAdmitted(dialect, request, dependencies);
}

function turnAway(thrown: unknown, dialect: Dialect, { services }: GenerationDependencies): Response {
  noteRefusal(thrown, dialect, undefined, services);
  // Nobody will ask for this request's id again.
  return errorResponse(thrown, dialect, newId("req"));
}

/** {@link answerGeneration} for a request that was let in already. */
export async function answerAdmitted(
  dialect: Dialect,
  request: Request,
  { services, keys, kept, bodies, server }: GenerationDependencies,
): Promise<Response> {
  const requestId = requestIdOf(request);
  let asked: GenerateRequest | undefined;
  try {
    const caller = authenticate(request, keys);
    // The idle time-out would cut slow uploads, thinking models and quiet streams; the body reader and the relay have bounds of their own.
    server()?.timeout(request, 0);
    asked = {
      client: dialect,
      caller,
      requestId,
      headers: request.headers,
      signal: request.signal,
      readBody: () => readJson(request, { maxBytes: MAX_GENERATION_BYTES, clock: services.clock }),
    };
    bodies?.watch(asked);
    const key = request.headers.get("idempotency-key");
    let reply =
      key === null
        ? await generate(asked, services)
        : await generateOnce(asked, services, { kept, key, route: pathOf(request.url) });
    if (bodies) reply = bodies.note(asked, reply);
    const headers = Object.assign(commonHeaders(requestId), reply.headers);
    if (asked.rate) Object.assign(headers, rateHeaders(dialect.name, asked.rate));
    if (reply.kind === "stream") {
      // What lies in the system's buffers would keep the connection of a client that does not read for as long as it likes.
      const close = () => server()?.timeout(request, 1);
      return sseResponse(reply.chunks, { ping: dialect.ping, clock: services.clock, headers, close });
    }
    headers["content-type"] = "application/json";
    return new Response(reply.body, reply.status === undefined ? { headers } : { headers, status: reply.status });
  } catch (thrown) {
    noteRefusal(thrown, dialect, asked, services);
    return errorResponse(thrown, dialect, requestId, asked?.rate);
  }
}

/** Counts and records a refusal that came before the request had a book of its own. */
function noteRefusal(
  thrown: unknown,
  dialect: Dialect,
  asked: GenerateRequest | undefined,
  { observer, log }: Services,
): void {
  if (asked?.recorded) return;
  const error = toGatewayError(thrown);
  observer?.told(error.code);
  // Who shows no valid key fills no log.
  if (!asked) return;
  const { requestId, caller } = asked;
  log.info("generate", {
    request_id: requestId,
    account: caller.accountId,
    key: caller.keyId,
    dialect: dialect.name,
    outcome: "refused",
    status: dialect.encodeError(error, requestId).status,
    error: error.code,
  });
}
