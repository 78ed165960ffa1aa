import { toGatewayError } from "../../canon/errors.ts";
import type { Dialect, DialectName } from "../../dialects/dialect.ts";
import { newId } from "../../lib/id.ts";
import { Overloaded } from "../../limits/overloaded.ts";
import type { BodyLog } from "../../relay/body-log.ts";
import { tollHeaders } from "../../relay/exchange.ts";
import { generate } from "../../relay/generate.ts";
import { generateOnce, type KeptAnswers } from "../../relay/idempotency.ts";
import type { GenerateRequest, Services } from "../../relay/job.ts";
import { MAX_NOTED_MODEL, recordRefusal, refusalOutcome } from "../../relay/record.ts";
import { type Answered, toResponse } from "../answered.ts";
import { type Asked, AskedRequest, type RequestServer } from "../asked.ts";
import { MAX_GENERATION_BYTES, readJsonSoon } from "../body/body.ts";
import type { KnownParts } from "../body/known-parts.ts";
import { authenticate, type KeyFinder } from "../caller/credentials.ts";
import { addHeaders, commonHeaders, errorAnswer, noteFault } from "../errors.ts";
import { rateHeaders } from "../rate-headers.ts";
import { pathOf } from "../request.ts";
import { pingFor, SSE_HEADERS } from "../sse.ts";

/** The generating endpoints (interface 4, contract 3). */
export const GENERATION_PATHS: Readonly<Record<DialectName, string>> = {
  chat: "/v1/chat/completions",
  messages: "/v1/messages",
  responses: "/v1/responses",
};

/** What the generating endpoints need: the relay's services and the keys. */
export type GenerationDependencies = {
  services: Services;
  keys: KeyFinder;
  /** The answers of requests that carry an Idempotency-Key. */
  kept: KeptAnswers;
  /** Notes prompts and answers, where the operator has switched that on. */
  bodies?: BodyLog | undefined;
  /** What was read of the last conversations. */
  knownParts?: KnownParts | undefined;
};

export type RequestDependencies = GenerationDependencies & {
  /** The listening server. Not taken from Elysia's context, which would define it anew on every request: that costs as much as the routing. */
  server(): RequestServer;
};

/**
 * A request for generation in `dialect`, once it may come in: credentials, then the relay's way, and the answer or the error in that dialect.
 * Who is turned away is told at once, and nothing is made for him that is not needed for that.
 */
export function answerGeneration(
  dialect: Dialect,
  request: Asked,
  dependencies: GenerationDependencies,
): Answered | Promise<Answered> {
  const turn = dependencies.services.admission?.tryEnter(request);
  if (turn instanceof Overloaded) return turnAway(turn, dialect, dependencies);
  return turn ? answerInTurn(turn, dialect, request, dependencies) : answerAdmitted(dialect, request, dependencies);
}

async function answerInTurn(
  turn: Promise<void>,
  dialect: Dialect,
  request: Asked,
  dependencies: GenerationDependencies,
): Promise<Answered> {
  try {
    await turn;
  } catch (thrown) {
    return turnAway(thrown, dialect, dependencies);
  }
  return answerAdmitted(dialect, request, dependencies);
}

function turnAway(thrown: unknown, dialect: Dialect, { services }: GenerationDependencies): Answered {
  noteRefusal(thrown, dialect, undefined, services, 0);
  return errorAnswer(thrown, dialect, newId("req"));
}

/** {@link answerGeneration} for a Request. `server`: who has it on a connection. */
export async function answerRequest(dialect: Dialect, request: Request, parts: RequestDependencies): Promise<Response> {
  return toResponse(await answerGeneration(dialect, new AskedRequest(request, parts.server()), parts));
}

/** {@link answerGeneration} for a request that was let in already. */
export async function answerAdmitted(
  dialect: Dialect,
  request: Asked,
  { services, keys, kept, bodies, knownParts }: GenerationDependencies,
): Promise<Answered> {
  const requestId = newId("req");
  const beganAt = services.observer?.traces ? services.clock.now() : 0;
  let asked: GenerateRequest | undefined;
  try {
    const caller = authenticate(request, keys);
    // The idle time-out would cut slow uploads, thinking models and quiet streams; the body reader and the relay have bounds of their own.
    request.bearSilence();
    const known = knownParts && { parts: knownParts, owner: caller.accountId };
    const made: GenerateRequest = {
      client: dialect,
      caller,
      requestId,
      headers: request.headers,
      left: request.left,
      readBody: () => {
        const { clock, admission } = services;
        const bounds = { maxBytes: MAX_GENERATION_BYTES, clock, known, room: admission?.bodies, keeper: made };
        return readJsonSoon(request, bounds);
      },
    };
    asked = made;
    bodies?.watch(asked);
    const key = request.headers.get("idempotency-key");
    let reply =
      key === null
        ? await generate(asked, services)
        : await generateOnce(asked, services, { kept, key, route: pathOf(request.url) });
    if (bodies) reply = bodies.note(asked, reply);
    const headers = commonHeaders(requestId);
    addHeaders(headers, reply.headers);
    if (asked.rate) addHeaders(headers, rateHeaders(dialect.name, asked.rate));
    if (reply.kind === "stream") {
      addHeaders(headers, SSE_HEADERS);
      const ping = pingFor(dialect.ping, request.headers);
      return { headers, chunks: reply.chunks, ping, clock: services.clock, client: request };
    }
    headers["content-type"] = "application/json";
    return { status: reply.status ?? 200, headers, body: reply.body };
  } catch (thrown) {
    noteRefusal(thrown, dialect, asked, services, beganAt);
    if (!asked?.recorded && !request.left.aborted) noteFault(thrown, request, requestId, services.log);
    const told = errorAnswer(thrown, dialect, requestId, asked?.rate);
    if (asked?.failed) addHeaders(told.headers, tollHeaders(asked.failed));
    return told;
  } finally {
    asked?.place?.leave();
  }
}

/**
 * Counts and records a refusal that came before the request had a book of its own; of a client that is gone by then, that it left, which nobody is
 * told. `beganAt`: Unix ms; read only where traces are kept.
 */
function noteRefusal(
  thrown: unknown,
  dialect: Dialect,
  asked: GenerateRequest | undefined,
  { observer, log, clock }: Services,
  beganAt: number,
): void {
  if (asked?.recorded) return;
  const error = asked?.left.aborted ? undefined : toGatewayError(thrown);
  if (error) observer?.told(error.code);
  // Who shows no valid key fills no log.
  if (!asked) return;
  const { requestId, caller } = asked;
  if (observer?.traces) {
    const model = asked.model?.slice(0, MAX_NOTED_MODEL) ?? "";
    observer.refused({
      ...{ requestId, accountId: caller.accountId, keyId: caller.keyId, dialect: dialect.name, model },
      ...{ stream: false, vendor: "", upstreamModel: "", tried: 0, attempts: [], lastAttemptMs: 0, lastKey: 0 },
      ...{ outcome: refusalOutcome(error), error: error?.code, finish: undefined, startedAt: beganAt },
      ...{ durationMs: Math.max(0, clock.now() - beganAt), firstTokenMs: undefined, usage: undefined },
      ...{ costNano: undefined, traceparent: asked.headers.get("traceparent") ?? undefined },
    });
  }
  recordRefusal("generate", { requestId, caller, dialect: dialect.name, model: asked.model }, error, log);
}
