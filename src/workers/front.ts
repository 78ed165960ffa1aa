import { GatewayError, toGatewayError } from "../canon/errors.ts";
import type { Dialect } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import { toResponse } from "../http/answered.ts";
import { AskedRequest } from "../http/asked.ts";
import { answerError, errorResponse } from "../http/errors.ts";
import { answerAdmitted, type GenerationDependencies } from "../http/generation.ts";
import { createCors, createGuard } from "../http/guard.ts";
import { pathOf, requestIdOf } from "../http/request.ts";
import { errorFields } from "../observe/log.ts";
import type { BodyLog } from "../relay/body-log.ts";
import type { Services } from "../relay/job.ts";
import type { EntryHall } from "./entry-hall.ts";
import { type Listening, passOn } from "./passage.ts";

/** What a worker answers itself: the generating endpoints (interface 4), where nearly all of the work is. */
const OWN: ReadonlyMap<string, Dialect> = new Map([
  ["/v1/chat/completions", dialects.chat],
  ["/v1/messages", dialects.messages],
  ["/v1/responses", dialects.responses],
]);

export type FrontParts = {
  services: Services;
  hall: EntryHall;
  bodies: BodyLog | undefined;
  allowedHosts: readonly string[];
  corsOrigins: readonly string[];
  /** The authority's socket. */
  passage: string;
  server(): Listening | undefined;
};

/** Under an Idempotency-Key a request is the authority's: answers are kept there. None of them comes to be asked for here. */
const KEPT_ELSEWHERE: GenerationDependencies["kept"] = {
  claim: () => Promise.reject(new Error("Answers under an Idempotency-Key are kept by the authority.")),
};

/** A worker's front: answers generations, and passes everything else on to the authority. */
export class Front {
  readonly #guard;
  readonly #cors;

  constructor(private readonly parts: FrontParts) {
    const { allowedHosts, corsOrigins } = parts;
    this.#guard = createGuard({ allowedHosts, corsOrigins });
    this.#cors = createCors(corsOrigins);
  }

  /** Never rejects: every failure is an answer. */
  async answer(request: Request): Promise<Response> {
    const refused = this.#guard(request);
    if (refused) return this.#cors.mark(request, answerError(refused, request));
    const dialect = request.method === "POST" ? OWN.get(pathOf(request.url)) : undefined;
    if (!dialect || request.headers.has("idempotency-key")) return this.#passOn(request);
    return this.#cors.mark(request, await this.#generate(dialect, request));
  }

  async #generate(dialect: Dialect, request: Request): Promise<Response> {
    const { services, hall, bodies, server } = this.parts;
    const asked = new AskedRequest(request, server() ?? null);
    try {
      await services.admission?.enter(asked);
    } catch (thrown) {
      services.observer?.told(toGatewayError(thrown).code);
      return errorResponse(thrown, dialect, requestIdOf(request));
    }
    const visit = await hall.knock(request, this.#peerOf(request));
    try {
      const dependencies = { services, keys: visit, kept: KEPT_ELSEWHERE, bodies };
      return toResponse(await answerAdmitted(dialect, asked, dependencies));
    } finally {
      visit.end();
    }
  }

  async #passOn(request: Request): Promise<Response> {
    const { server, passage, services } = this.parts;
    // How long it may be quiet is for the authority to say.
    server()?.timeout(request, 0);
    try {
      const answer = await passOn(request, this.#peerOf(request), passage);
      return answer ?? answerError(new GatewayError("not_found", "There is nothing at this path."), request);
    } catch (thrown) {
      if (!request.signal.aborted) services.log.error("pass-on", { path: pathOf(request.url), ...errorFields(thrown) });
      return answerError(thrown, request);
    }
  }

  #peerOf(request: Request): string {
    return this.parts.server()?.requestIP(request)?.address ?? "";
  }
}
