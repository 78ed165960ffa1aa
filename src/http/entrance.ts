import { GatewayError } from "../canon/errors.ts";
import type { Dialect } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import { newId } from "../lib/id.ts";
import { errorFields, type Log } from "../observe/log.ts";
import type { Answered, Whole } from "./answered.ts";
import type { Cors } from "./cors.ts";
import { addHeaders, dialectOfPath, errorAnswer, errorAnswerAt } from "./errors.ts";
import { GENERATION_PATHS } from "./generation/generation.ts";
import type { Guard } from "./guard.ts";
import { type Health, healthAnswer } from "./health-answer.ts";
import { polledJob } from "./images/poll.ts";
import { pathOf } from "./request.ts";
import type { Door } from "./server/connection.ts";
import type { Incoming } from "./server/incoming.ts";

/** The dialects of the generating endpoints, by their paths. */
const GENERATING: ReadonlyMap<string, Dialect> = new Map(
  Object.values(dialects).map((dialect) => [GENERATION_PATHS[dialect.name], dialect]),
);

/** Methods that can be handed on: a Request takes others for GET, and no worker can pass TRACE on. */
const METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);
/** A method that no path has: whoever asks with one of his own is answered as to this one, with what the path has in `Allow` (RFC 9110, 15.5.6). */
const NOBODYS = "PATCH";

type Given = Answered | Response | Promise<Answered | Response>;

export type EntranceParts = {
  guard: Guard;
  cors: Cors;
  /** Answers a request for generation. */
  generate(dialect: Dialect, incoming: Incoming): Given;
  /** How the gateway does, where it is told here, and what bounds who asks without a key (throws GatewayError). */
  health?: { state: Health; countPublic(incoming: Incoming): void };
  /** Answers who looks at an image job and does not want to wait for it, where that is told here. */
  poll?(incoming: Incoming, jobId: string, requestId: string): Whole;
  /** Answers everything else. */
  answerRequest(request: Request): Response | Promise<Response>;
  log: Log;
};

/**
 * Where requests come in from our own server. The guard comes before everything; generations are answered as they are, without a Request and a Response
 * around them, and all else goes to the routes.
 */
export class Entrance implements Door {
  constructor(private readonly parts: EntranceParts) {}

  /** Never throws and never rejects. */
  answer(incoming: Incoming): Given {
    const { guard, cors, generate } = this.parts;
    const refused = guard(incoming);
    if (refused) return this.#tell(refused, incoming);
    const dialect = incoming.method === "POST" ? GENERATING.get(pathOf(incoming.headers.path)) : undefined;
    if (!dialect) return this.#answerHealth(incoming) ?? this.#answerPoll(incoming) ?? this.#handOn(incoming);
    const answered = generate(dialect, incoming);
    if (cors.isOff) return answered;
    return Promise.resolve(answered).then((told) => {
      if (!(told instanceof Response)) addHeaders(told.headers, cors.headers(incoming));
      return told;
    });
  }

  /** An answer that had begun broke: there is nobody left who could be told. */
  broke(thrown: unknown): void {
    this.parts.log.error("answer-broken", errorFields(thrown));
  }

  /** What is told to who sends no HTTP, in the shape that the readers of `path` know. */
  refuse(text: string, path = "/"): Whole {
    const error = new GatewayError("invalid_request", `This is not a request of HTTP/1.1: ${text}.`);
    return errorAnswer(error, dialectOfPath(path), newId("req"));
  }

  /** Whoever watches over the gateway asks from its first moment on, when the routes are not there yet, and again and again. */
  #answerHealth(incoming: Incoming): Whole | undefined {
    const { health, cors } = this.parts;
    if (!health || incoming.method !== "GET") return undefined;
    const told = healthAnswer(pathOf(incoming.headers.path), health.state, newId("req"));
    if (!told) return undefined;
    try {
      health.countPublic(incoming);
      addHeaders(told.headers, cors.headers(incoming));
      return told;
    } catch (thrown) {
      return this.#tell(thrown, incoming);
    }
  }

  /** Whoever waits for an image asks for its job again and again, and most of all when much else is under way. */
  #answerPoll(incoming: Incoming): Whole | undefined {
    const { poll, cors } = this.parts;
    const jobId = poll && polledJob(incoming, incoming.headers.path);
    if (!poll || jobId === undefined) return undefined;
    const told = poll(incoming, jobId, newId("req"));
    addHeaders(told.headers, cors.headers(incoming));
    return told;
  }

  async #handOn(incoming: Incoming): Promise<Whole | Response> {
    const { method } = incoming;
    if (method === "CONNECT") {
      // It names no path, and so there is nothing that it could be told of one.
      return this.#tell(new GatewayError("method_not_allowed", "There is no such method here."), incoming);
    }
    try {
      return await this.parts.answerRequest(incoming.toRequest(METHODS.has(method) ? method : NOBODYS));
    } catch (thrown) {
      this.parts.log.error("request-fault", { method, ...errorFields(thrown) });
      return this.#tell(thrown, incoming);
    }
  }

  #tell(thrown: unknown, incoming: Incoming): Whole {
    // Whoever is refused for a Host that is none has no URL, and yet a path.
    const told = errorAnswerAt(pathOf(incoming.headers.path), thrown, incoming, newId("req"));
    addHeaders(told.headers, this.parts.cors.headers(incoming));
    return told;
  }
}
