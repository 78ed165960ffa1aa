import { GatewayError } from "../../canon/errors.ts";
import { upstreamError } from "../../dialects/refusals/upstream-error.ts";
import { isKeysFault, type VendorRecord, type Way } from "../../vendors/health.ts";
import { PLAIN, type Repeat } from "../../vendors/retry-budget.ts";
import { decideRetry, isUntold, pauseBeforeRepeat, type Ran, ranOf } from "../../vendors/retry-policy.ts";
import type { Job } from "../job.ts";
import { Ended } from "../running/ended.ts";
import { noteFailure } from "./note-failure.ts";
import { type Candidate, freeWays, limitEnds, onlyWay, orderWays } from "./routes.ts";
import { nameConversation } from "./session.ts";

/**
 * The longest wait that a client is told while every way is left alone, seconds. A way may be left alone for longer, but one call a second finds out whether its
 * vendor is back: clients that waited the whole time would stay away long after that (reliability 8.2, N10).
 */
const MAX_TOLD_SECONDS = 5;

/** Whether a way would fail as another of the same vendor just has: by its key, by its host where that is not reached, or by its model where that is overloaded. */
function isInVain({ way }: Candidate, failed: Way, error: GatewayError): boolean {
  if (way.vendor !== failed.vendor) return false;
  if (isKeysFault(error)) return way.key === failed.key;
  return error.code === "upstream_unreachable" || (error.code === "upstream_overloaded" && way.model === failed.model);
}

/** Whether two ways differ by their key alone: a request that cannot be written for the one cannot be for the other. */
const isSamePlace = (one: Way, other: Way) => one.vendor === other.vendor && one.model === other.model;

/** A way that was asked and failed. `doubtfulBefore`: how many attempts before it may have run; `isFirst`: there was none before it. */
type Failed = { failed: Candidate; error: GatewayError; doubtfulBefore: number; isFirst: boolean };

/** A limit is told again without the vendor's words: only its end counts. */
const WORDLESS = { message: "", type: "", code: "" };

const nothingIsVain = () => false;

/** An error of this way alone that does not pass, such as a refused key: the client is better told when another way is free. */
const isWaysOwn = (error: GatewayError) =>
  !error.retry && ranOf(error) === "no" && decideRetry(error, { elapsedMs: 0, routesLeft: 1 }) === "next-route";

/**
 * The attempts of one request: which way is tried first, and which after one that failed, by the table of reliability 6.2, inside the request's
 * time, the vendors' retry budgets and their breakers. Nothing here asks a vendor anything.
 */
export class Tries {
  /** All ways for which the request can be written, as far as that is known. */
  #all: readonly Candidate[];
  /** Those that are tried. */
  #ways: readonly Candidate[];
  #at = -1;
  #failed = 0;
  /** The last way that was asked, which failed: what is tried next follows from it. */
  #last: Failed | undefined;
  /** Why the request cannot be written for the first of the ways for which it cannot be. */
  #untold: GatewayError | undefined;
  #doubtfulBefore = 0;
  /** Gives a place in a vendor's budget back. */
  #giveBack: (() => void) | undefined;

  constructor(private readonly job: Job) {
    const { entry, services, request, body } = job;
    this.#all =
      onlyWay(entry.routes, services.vendor) ??
      orderWays({
        routes: entry.routes,
        vendor: services.vendor,
        conversation: () => nameConversation(request.caller.accountId, body.value, request.headers),
      });
    this.#ways = freeWays(this.#all, services.health);
  }

  /**
   * The way to try first. Throws GatewayError: vendor_not_configured where no vendor is switched on, upstream_overloaded where every one is being
   * left alone, rate_limit_exceeded where every one that may answer is limited, and its vendor has said for how long.
   */
  first(): Candidate {
    if (this.#all.length === 0) {
      throw new GatewayError("vendor_not_configured", "No vendor of this model is switched on.");
    }
    const way = this.#advance(nothingIsVain);
    if (way) return way;
    const { health, clock } = this.job.services;
    const [soonest = this.#all[0]!] = this.#ways;
    const limit = this.#ways.length === 0 ? this.#limit() : undefined;
    if (limit) throw limit;
    const waitMs = health.freeAt(soonest.way) - clock.monotonic();
    const retryAfterSeconds = Math.min(Math.max(1, Math.ceil(waitMs / 1_000)), MAX_TOLD_SECONDS);
    const text = "The vendor has failed again and again, and is left alone for a moment. Try again later.";
    throw new GatewayError("upstream_overloaded", text, { retryAfterSeconds });
  }

  /** A later call of a request goes along a way that has answered before; {@link next} tells which after that. Undefined where the way is gone. */
  goOn(way: Way): Candidate | undefined {
    const isIt = (candidate: Candidate) =>
      candidate.way.vendor === way.vendor && candidate.way.key === way.key && candidate.way.model === way.model;
    this.#at = this.#ways.findIndex(isIt);
    return this.#all.find(isIt);
  }

  /** The way brought an answer: a whole one, or the beginning of a stream or the first round of several, whose end tells how good it was. */
  wentWell({ way }: Candidate): void {
    this.end();
    const { services, intent, served, exchange } = this.job;
    if (intent.stream || served) services.health.began(way, exchange.attempts.begunAt);
    else services.health.wentWell(way, exchange.attempts.begunAt);
  }

  /** The request was ended while this way was tried. */
  left({ way }: Candidate): void {
    this.end();
    const error = waitedInVain(this.job);
    if (error) noteFailure(this.job, way, error);
    else this.job.services.health.cameToNothing(way);
  }

  /**
   * The way to try after one that failed with `error`, perhaps after a pause. Throws where none is left: `error`, or the limit of a way that will be free sooner;
   * and, once the request is aborted, why it was.
   */
  async next(failed: Candidate, error: GatewayError): Promise<Candidate> {
    this.end();
    noteFailure(this.job, failed.way, error);
    if (isUntold(error)) return this.#besides(failed, error);
    this.#last = { failed, error, doubtfulBefore: this.#doubtfulBefore, isFirst: this.#failed++ === 0 };
    if (ranOf(error) !== "no") this.#doubtfulBefore++;
    return this.#after(this.#last);
  }

  /**
   * The way to try in place of one for which the request cannot be written (`error` says why): all goes on as if there had never been such a way. Throws why
   * not where no other one is left.
   */
  async #besides({ way }: Candidate, error: GatewayError): Promise<Candidate> {
    this.#untold ??= error;
    const isElse = (candidate: Candidate) => !isSamePlace(candidate.way, way);
    this.#all = this.#all.filter(isElse);
    if (this.#last) {
      this.#ways = [...this.#ways.slice(0, this.#at + 1), ...this.#ways.slice(this.#at + 1).filter(isElse)];
      return this.#after(this.#last);
    }
    if (this.#all.length === 0) throw this.#untold;
    this.#ways = freeWays(this.#all, this.job.services.health);
    this.#at = -1;
    return this.first();
  }

  async #after({ failed, error, doubtfulBefore, isFirst }: Failed): Promise<Candidate> {
    const { exchange, services } = this.job;
    const { elapsedMs } = exchange.attempts;
    const isVain = (candidate: Candidate) => isInVain(candidate, failed.way, error);
    const ran = ranOf(error);
    if (ran !== "no") this.#preferElsewhere(failed);
    const routesLeft = this.#ways.slice(this.#at + 1).filter((candidate) => !isVain(candidate)).length;
    let next: Candidate | undefined;
    if (decideRetry(error, { elapsedMs, routesLeft, doubtfulBefore }) === "next-route") {
      // A vendor whose budget of repeats is used up is passed over.
      do next = this.#advance(isVain);
      while (next && !this.#lend(next, failed, ran));
    } else if (isFirst) next = await this.#again(failed, error);
    if (!next) {
      const told = this.#told(error);
      // The limit of another way says nothing of this one, of which a reply of several rounds is told where it ends.
      exchange.notedFailure = told;
      throw told;
    }
    const fields = { request_id: this.job.request.requestId, vendor: failed.way.vendor, error: error.code };
    services.log.warn(next === failed ? "retry" : "failover", fields);
    return next;
  }

  /** Moves the other keys of the way that failed behind all other ways: work that may have run is repeated only once, and another key seldom helps it. */
  #preferElsewhere({ way }: Candidate): void {
    const tried = this.#ways.slice(0, this.#at + 1);
    const { same = [], other = [] } = Object.groupBy(this.#ways.slice(this.#at + 1), (candidate) =>
      isSamePlace(candidate.way, way) ? "same" : "other",
    );
    this.#ways = [...tried, ...other, ...same];
  }

  /** The next way that its breaker lets through. */
  #advance(isVain: (candidate: Candidate) => boolean): Candidate | undefined {
    const { health } = this.job.services;
    while (++this.#at < this.#ways.length) {
      const candidate = this.#ways[this.#at]!;
      if (!isVain(candidate) && health.enter(candidate.way)) return candidate;
    }
    return undefined;
  }

  /** The same way once more, where the table says so: it is the only one. Undefined where it does not, or there is no budget for it. */
  async #again(failed: Candidate, error: GatewayError): Promise<Candidate | undefined> {
    this.#giveBack = await waitToRepeat(this.job, failed.way, error);
    return this.#giveBack && failed;
  }

  /**
   * Whether a way may be asked after another one failed. A repeat takes a place in the budget of the vendor that failed where it burdens that one again, or does
   * elsewhere what may have been done there already. No place is needed where nothing ran and another vendor is asked, since it gets one request and not two; nor
   * where another key is asked that is free while the failed one rests: only what was under way comes to it like this.
   */
  #lend({ way }: Candidate, failed: Candidate, ran: Ran): boolean {
    const { health, clock } = this.job.services;
    const elsewhere = way.vendor !== failed.way.vendor;
    const isAnotherKey = health.restsUntil(failed.way) > 0 && health.isFree(way);
    if (ran === "no" && (elsewhere || isAnotherKey)) return true;
    const repeat: Repeat = { doubtful: ran === "unknown", elsewhere };
    this.#giveBack = placeOf(health.of(failed.way.vendor), clock.now(), repeat);
    if (!this.#giveBack) health.cameToNothing(way);
    return this.#giveBack !== undefined;
  }

  /** What the client is told when nothing is left to try: `error`, or the limit of the way that is free first, since that is when asking again helps. */
  #told(error: GatewayError): GatewayError {
    const isLimit = error.code === "rate_limit_exceeded";
    const limit = isLimit || isWaysOwn(error) ? this.#limit() : undefined;
    if (!limit) return error;
    return !isLimit || (limit.retryAfterSeconds ?? 0) < (error.retryAfterSeconds ?? 0) ? limit : error;
  }

  /** The limit that ends first, told with the time that is left of it; undefined where no way is limited. */
  #limit(): GatewayError | undefined {
    const { health, clock } = this.job.services;
    const ends = limitEnds(this.#all, health);
    return ends === undefined ? undefined : upstreamError(429, WORDLESS, Math.ceil((ends - clock.monotonic()) / 1_000));
  }

  /** Nothing is tried any more, or the next way is: a repeat that was under way takes no place of its vendor's budget now. */
  end(): void {
    this.#giveBack?.();
    this.#giveBack = undefined;
  }
}

/** A place in a vendor's budget of repeats, as what gives it back; undefined where there is none. */
function placeOf({ budget }: Pick<VendorRecord, "budget">, now: number, repeat: Repeat): (() => void) | undefined {
  return budget.take(now, repeat) ? () => budget.give(repeat) : undefined;
}

/**
 * Waits until what failed with `error` may be sent along the same way once more, by the last column of the table of reliability 6.2. Gives what is to be called
 * when the repeat is answered or has failed; undefined where it is not to be sent. Throws why the request was aborted, if it was meanwhile.
 */
async function waitToRepeat(job: Job, way: Way, error: GatewayError): Promise<(() => void) | undefined> {
  const { services, intent, abort, exchange } = job;
  const { health, clock } = services;
  const leftMs = intent.stream ? Number.POSITIVE_INFINITY : services.blockingMs - exchange.attempts.elapsedMs;
  const waitMs = pauseBeforeRepeat(error, leftMs, Math.random);
  const giveBack = waitMs === undefined ? undefined : placeOf(health.of(way.vendor), clock.now(), PLAIN);
  if (waitMs === undefined || !giveBack) return undefined;
  await pause(job, waitMs);
  if (!abort.aborted && health.enter(way)) return giveBack;
  giveBack();
  abort.throwIfAborted();
  return undefined;
}

/**
 * The vendor's fault where a request ended while its answer was waited for: a stream that brought nothing for too long, or a blocking answer of which not even the
 * head came in half of the time that such an answer has. Undefined where somebody else ended the request, or this attempt had begun too late for that.
 */
function waitedInVain({ abort, exchange, services }: Job): GatewayError | undefined {
  const { reason } = abort;
  if (!(reason instanceof Ended)) return undefined;
  if (reason.outcome === "upstream-failed") return reason.error;
  const waitedMs = services.clock.monotonic() - exchange.attempts.begunAt;
  if (reason.outcome !== "timed-out" || exchange.attempts.answered || waitedMs < services.blockingMs / 2)
    return undefined;
  return new GatewayError("upstream_error", "The vendor did not answer.", { retry: false });
}

/** Waits between two attempts, or until the request is ended. */
function pause({ services, abort }: Job, waitMs: number): Promise<void> {
  if (services.pause) return services.pause(waitMs);
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = services.clock.after(waitMs, resolve);
  const ended = {
    onAbort() {
      stop();
      resolve();
    },
  };
  abort.add(ended);
  return promise.finally(() => abort.delete(ended));
}
