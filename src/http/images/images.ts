import { Elysia } from "elysia";
import type { Caller } from "../../accounts/caller.ts";
import { toGatewayError } from "../../canon/errors.ts";
import type { Catalog } from "../../catalog/catalog.ts";
import { dialects } from "../../dialects/index.ts";
import type { JobRow } from "../../jobs/job.ts";
import type { Clock } from "../../lib/clock.ts";
import { isObject } from "../../lib/json.ts";
import type { Admission } from "../../limits/admission.ts";
import type { KeySpend } from "../../limits/key-spend.ts";
import type { RateState } from "../../limits/limiter.ts";
import { errorFields } from "../../observe/log.ts";
import type { RequestObserver } from "../../observe/request-facts.ts";
import { fingerprint } from "../../relay/idempotency.ts";
import type { IdempotencyStore } from "../../relay/idempotency-store.ts";
import { refuseLoss, tellLoss } from "../../relay/prepare.ts";
import { recordRefusal } from "../../relay/record.ts";
import { toResponse } from "../answered.ts";
import type { RequestServer } from "../asked.ts";
import { MAX_IMAGE_REQUEST_BYTES, readJson } from "../body/body.ts";
import { authenticate } from "../caller/credentials.ts";
import { addHeaders, errorResponse, methodNotAllowed, noteFault } from "../errors.ts";
import { answerOnce } from "../idempotency.ts";
import { HIDDEN } from "../openapi-detail.ts";
import { ownJson } from "../own-json.ts";
import { queryOf } from "../query.ts";
import { setRate } from "../rate-headers.ts";
import { pathOf, requestIdOf } from "../request.ts";
import { Work } from "../work.ts";
import { CANCEL_DETAIL, CREATE_DETAIL, FILE_DETAIL, LIST_DETAIL, SHOW_DETAIL } from "./detail.ts";
import { answerFile } from "./files.ts";
import {
  answerPoll,
  FILES_PATH,
  IMAGES_PATH,
  jobAnswer,
  linkOf,
  POLL_SECONDS,
  type PollDependencies,
  requireJob,
  takePoll,
} from "./poll.ts";
import { lostFields, readOrder, readPage, readWait } from "./request.ts";
import { toJobList, toJobView } from "./shape.ts";

/** What the image endpoints need. */
export type ImageDependencies = PollDependencies & {
  catalog: Catalog;
  /** The caps of keys that have some. */
  spend: KeySpend;
  kept: IdempotencyStore;
  admission?: Admission | undefined;
  clock: Clock;
  observer: RequestObserver | undefined;
  server(): RequestServer;
};

type Taken = { rate: RateState | undefined };
/** A wish for an image: who has it, as soon as that is known, and the model, as the client wrote it. `isTaken`: it is a job, which tells of itself. */
type Wish = { caller?: Caller; model?: string; isTaken?: boolean; readonly work: Work | undefined };
type Run = (caller: Caller, taken: Taken) => Promise<Response> | Response;

class ImageEndpoints {
  constructor(private readonly dependencies: ImageDependencies) {}

  /** Credentials first; whatever goes wrong is told in the chat dialect, with the rate as it stands. */
  async #answer(request: Request, run: Run, onFault?: (thrown: unknown) => void): Promise<Response> {
    const taken: Taken = { rate: undefined };
    try {
      const response = await run(authenticate(request, this.dependencies.keys), taken);
      setRate(response, taken.rate);
      return response;
    } catch (thrown) {
      onFault?.(thrown);
      if (!request.signal.aborted) noteFault(thrown, request, requestIdOf(request), this.dependencies.log);
      return errorResponse(thrown, dialects.chat, requestIdOf(request), taken.rate);
    }
  }

  #job(request: Request, job: JobRow, status: number, waited: number, more: Record<string, string> = {}): Response {
    const told = jobAnswer(job, linkOf(request, this.dependencies), requestIdOf(request), status);
    addHeaders(told.headers, more);
    if (waited > 0) told.headers["preference-applied"] = `wait=${waited}`;
    return toResponse(told);
  }

  /** The job as it is when it has ended, or after the seconds the client wants to wait. */
  async #wait(request: Request, job: JobRow): Promise<readonly [job: JobRow, waited: number]> {
    const seconds = readWait(request.headers);
    if (seconds === 0) return [job, 0];
    this.dependencies.server()?.timeout(request, 0);
    return [requireJob(await this.dependencies.jobs.settled(job, seconds * 1_000, request.signal)), seconds];
  }

  create(request: Request): Promise<Response> {
    const { limiter, kept, clock, server, admission } = this.dependencies;
    const known = { operation: "image_generation", dialect: "images", subject: "" } as const;
    const wish: Wish = { work: Work.begin(request, known, this.dependencies) };
    const run: Run = async (caller, taken) => {
      wish.caller = caller;
      wish.work?.by(caller);
      server()?.timeout(request, 0);
      const read = () => readJson(request, { maxBytes: MAX_IMAGE_REQUEST_BYTES, clock, room: admission?.bodies });
      const take = () => {
        admission?.checkStore();
        // With the rate's own bound, so that waiting for a place takes nothing of it.
        const bound = (rate: RateState | undefined) => {
          taken.rate = rate;
          this.dependencies.jobs.acceptance.checkFlight(caller);
        };
        const permit = limiter.take(caller, "image-create", { bound });
        taken.rate = permit.state;
        permit.release();
      };
      const key = request.headers.get("idempotency-key");
      if (key === null) {
        take();
        return this.#create(request, caller, (await read()).value, wish);
      }
      // An answer that is given again costs nothing: it is looked for before the limits.
      const { text, value } = await read();
      taken.rate = limiter.peek?.(caller.accountId, caller.plan, "image-create");
      return answerOnce({ request, accountId: caller.accountId, body: text }, kept, () => {
        take();
        return this.#create(request, caller, value, wish, { key, text });
      });
    };
    return this.#answer(request, run, (thrown) => this.#noteRefusal(request, wish, thrown));
  }

  /** A wish that came to no job; who shows no valid key fills no log. */
  #noteRefusal(request: Request, { caller, model, isTaken, work }: Wish, thrown: unknown): void {
    work?.failed(thrown);
    if (!caller || isTaken) return;
    const error = request.signal.aborted ? undefined : toGatewayError(thrown);
    const identity = { requestId: requestIdOf(request), caller, dialect: "images", model };
    recordRefusal("image", identity, error, this.dependencies.log);
  }

  async #create(
    request: Request,
    caller: Caller,
    body: unknown,
    wish: Wish,
    keyed?: { key: string; text: string },
  ): Promise<Response> {
    const { jobs, catalog, spend, log } = this.dependencies;
    const { work } = wish;
    if (isObject(body) && typeof body["model"] === "string") {
      wish.model = body["model"];
      work?.note({ subject: wish.model });
    }
    const order = readOrder(body, caller, jobs, catalog);
    if (work) order.origin = { requestId: requestIdOf(request), traceparent: work.traceparent };
    const lost = lostFields(body);
    if (lost.length > 0) refuseLoss(request.headers, lost);
    const told: Record<string, string> = {};
    tellLoss(told, lost);
    const capped = caller.narrow?.capped ? spend.claim(caller.keyId, 1) : undefined;
    try {
      const job = await jobs.create(order, keyed && ((made) => this.#keep(request, caller, keyed, made, told)));
      // The job is a span of its own.
      work?.leave();
      wish.isTaken = true;
      const tell = (thrown: unknown) => log.error("image-key-cap", { job: job.id, ...errorFields(thrown) });
      await capped?.noteRequests(1, tell);
      const [shown, waited] = await this.#wait(request, job);
      return this.#job(request, shown, 202, waited, told);
    } finally {
      capped?.release();
    }
  }

  /** The answer of a keyed request, kept in the transaction of its job: no crash between the two can make a second one (reliability 5.2). */
  #keep(
    request: Request,
    { accountId }: Caller,
    { key, text }: { key: string; text: string },
    job: JobRow,
    told: Record<string, string>,
  ): void {
    const route = pathOf(request.url);
    const wish = { accountId, route, key, requestId: requestIdOf(request), fingerprint: fingerprint(route, text) };
    const body = JSON.stringify(toJobView(job, linkOf(request, this.dependencies)));
    const headers = { "content-type": "application/json", "retry-after": POLL_SECONDS, ...told };
    this.dependencies.kept.write(wish, { status: 202, headers, body }, Bun.zstdCompressSync(body));
  }

  #poll(request: Request, work: (caller: Caller) => Promise<Response> | Response, jobId?: string): Promise<Response> {
    return this.#answer(request, (caller, taken) => {
      taken.rate = takePoll(this.dependencies.limiter, caller, jobId);
      return work(caller);
    });
  }

  show(request: Request, id: string): Promise<Response> | Response {
    const { jobs } = this.dependencies;
    if (readWait(request.headers) === 0) {
      return toResponse(answerPoll(request, id, requestIdOf(request), this.dependencies));
    }
    const work = async (caller: Caller) => {
      const [job, waited] = await this.#wait(request, requireJob(jobs.find(caller, id)));
      return this.#job(request, job, 200, waited);
    };
    return this.#poll(request, work, id);
  }

  cancel(request: Request, id: string): Promise<Response> {
    const { jobs } = this.dependencies;
    const work = async (caller: Caller) => {
      const job = await jobs.cancel(requireJob(jobs.find(caller, id)));
      return this.#job(request, requireJob(job), 200, 0);
    };
    return this.#poll(request, work, id);
  }

  list(request: Request): Promise<Response> {
    const { jobs } = this.dependencies;
    return this.#poll(request, (caller) => {
      const { before, limit } = readPage(queryOf(request));
      const page = toJobList(jobs.page(caller, before, limit), limit, linkOf(request, this.dependencies));
      return toResponse(ownJson(page, requestIdOf(request)));
    });
  }
}

/** `/v1/images/generations` (interface 4.1 to 4.3, contract 8). */
export function imageRoutes(dependencies: ImageDependencies) {
  const endpoints = new ImageEndpoints(dependencies);
  const one = `${IMAGES_PATH}/:id`;
  return new Elysia({ name: "sluice-images" })
    .post(IMAGES_PATH, ({ request }) => endpoints.create(request), { parse: "none", detail: CREATE_DETAIL })
    .get(IMAGES_PATH, ({ request }) => endpoints.list(request), { detail: LIST_DETAIL })
    .get(one, ({ request, params }) => endpoints.show(request, params.id), { detail: SHOW_DETAIL })
    .delete(one, ({ request, params }) => endpoints.cancel(request, params.id), {
      parse: "none",
      detail: CANCEL_DETAIL,
    })
    .all(IMAGES_PATH, methodNotAllowed("GET, HEAD, POST"), HIDDEN)
    .all(one, methodNotAllowed("GET, HEAD, DELETE"), HIDDEN);
}

/** `/v1/images/files/{name}`: what `data[].url` leads to (contract 3). Needs no key. */
export function imageFileRoutes({ jobs, cdnUrl }: Pick<ImageDependencies, "jobs" | "cdnUrl">) {
  const path = `${FILES_PATH}/:name`;
  return new Elysia({ name: "sluice-image-files" })
    .get(path, ({ request, params }) => answerFile(request, params.name, jobs, cdnUrl !== undefined), {
      detail: FILE_DETAIL,
    })
    .all(path, methodNotAllowed("GET, HEAD"), HIDDEN);
}
