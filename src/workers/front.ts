import { toGatewayError } from "../canon/errors.ts";
import type { Dialect } from "../dialects/dialect.ts";
import type { Answered } from "../http/answered.ts";
import { KnownParts } from "../http/body/known-parts.ts";
import { createCors } from "../http/cors.ts";
import { Entrance } from "../http/entrance.ts";
import { answerError, answerLost, errorAnswer } from "../http/errors.ts";
import { answerAdmitted, type GenerationDependencies } from "../http/generation/generation.ts";
import { createGuard } from "../http/guard.ts";
import { pathOf } from "../http/request.ts";
import { type Incoming, incomingOf } from "../http/server/incoming.ts";
import { newId } from "../lib/id.ts";
import { errorFields } from "../observe/log.ts";
import type { BodyLog } from "../relay/body-log.ts";
import type { Services } from "../relay/job.ts";
import type { EntryHall } from "./entry-hall.ts";
import { passOn } from "./passage.ts";

export type FrontParts = {
  services: Services;
  hall: EntryHall;
  bodies: BodyLog | undefined;
  allowedHosts: readonly string[];
  corsOrigins: readonly string[];
  /** The authority's socket. */
  passage: string;
};

/** A request with an Idempotency-Key is passed on to the authority, where answers are kept: this is never asked. */
const KEPT_ELSEWHERE: GenerationDependencies["kept"] = {
  claim: () => Promise.reject(new Error("Answers under an Idempotency-Key are kept by the authority.")),
};

/** A worker's front: answers generations, where nearly all of the work is, and passes everything else on to the authority. */
export class Front {
  readonly entrance: Entrance;
  readonly #knownParts: KnownParts;
  /** Requests that were passed on and have no answer yet. */
  readonly #passed = new Set<Incoming>();
  /** How many requests were passed on and have no answer, or wait to be let in. */
  #pending = 0;
  #onIdle: (() => void) | undefined;

  constructor(private readonly parts: FrontParts) {
    const { allowedHosts, corsOrigins, services } = parts;
    this.#knownParts = new KnownParts(services.clock);
    this.entrance = new Entrance({
      guard: createGuard({ allowedHosts, corsOrigins }),
      cors: createCors(corsOrigins),
      generate: (dialect, incoming) =>
        incoming.headers.has("idempotency-key")
          ? this.#passOn(incoming.toRequest())
          : this.#generate(dialect, incoming),
      answerRequest: (request) => this.#passOn(request),
      log: services.log,
    });
  }

  async #generate(dialect: Dialect, incoming: Incoming): Promise<Answered> {
    const { services, hall, bodies } = this.parts;
    this.#pending++;
    let answer: Promise<Answered>;
    try {
      await services.admission?.enter(incoming);
      const keys = await hall.knock(incoming, incoming.peer ?? "");
      const known = { kept: KEPT_ELSEWHERE, bodies, knownParts: this.#knownParts };
      // When this returns, the request is among those under way (`running`) and has taken the place that it was given.
      answer = answerAdmitted(dialect, incoming, { services, keys, ...known });
    } catch (thrown) {
      services.observer?.told(toGatewayError(thrown).code);
      return errorAnswer(thrown, dialect, newId("req"));
    } finally {
      this.#leave();
    }
    return answer;
  }

  /** Whether a request that has arrived whole was passed on to the authority and has no answer yet. */
  get awaitsAnswer(): boolean {
    for (const incoming of this.#passed) if (incoming.isWhole) return true;
    return false;
  }

  /** Resolves when the authority has answered all that was passed on to it, and nobody waits to be let in. */
  idle(): Promise<void> {
    if (this.#pending === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onIdle = resolve;
    });
  }

  #leave(): void {
    if (--this.#pending === 0) this.#onIdle?.();
  }

  async #passOn(request: Request): Promise<Response> {
    const { passage, services } = this.parts;
    const incoming = incomingOf(request);
    this.#pending++;
    if (incoming) this.#passed.add(incoming);
    try {
      const answer = await passOn(request, incoming?.peer ?? "", passage);
      return answer ?? answerLost(request);
    } catch (thrown) {
      if (!request.signal.aborted) services.log.error("pass-on", { path: pathOf(request.url), ...errorFields(thrown) });
      return answerError(thrown, request);
    } finally {
      if (incoming) this.#passed.delete(incoming);
      this.#leave();
    }
  }
}
