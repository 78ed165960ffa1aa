import { GatewayError } from "../canon/errors.ts";
import { upstreamError } from "../dialects/refusals/upstream-error.ts";
import { isKeysFault, type VendorRecord, type Way } from "../vendors/health.ts";
import { PLAIN, type Repeat } from "../vendors/retry-budget.ts";
import { decideRetry, isUntold, pauseBeforeRepeat, type Ran, ranOf } from "../vendors/retry-policy.ts";
import { Ended } from "./ended.ts";
import type { Job } from "./job.ts";
import { noteFailure } from "./note-failure.ts";
import { type Candidate, freeWays, limitEnds, onlyWay, orderWays } from "./routes.ts";
import { nameConversation } from "./session.ts";

/**
 * Longest wait a client is told of while every way is left alone, seconds. However long that is, one call a second finds out whether it still has to
 * be: clients that slept through the whole of it would stay away long after the vendor is back (reliability 8.2, N10).
 */
const MAX_TOLD_SECONDS = 5;

/** Whether a way leads to where another has just failed: to the same host, to the same model there, whatever key is used, or by the same key. */
function isInVain({ way }: Candidate, failed: Way, error: GatewayError): boolean {
  if (way.vendor !== failed.vendor) return false;
  if (isKeysFault(error)) return way.key === failed.key;
  return error.code === "upstream_unreachable" || (error.code === "upstream_overloaded" && way.model === failed.model);
}

/** Whether two ways are one but for the key: what cannot be told along the one cannot be told along the other. */
const isSamePlace = (one: Way, other: Way) => one.vendor === other.vendor && one.model === other.model;

/** A way that was asked and failed. `doubtfulBefore`: attempts before it that may have run. */
type Failed = { failed: Candidate; error: GatewayError; doubtfulBefore: number; isFirst: boolean };

/** Of a limit nothing but its end is told again. */
const WORDLESS = { message: "", type: "", code: "" };

const nothingIsVain = () => false;

/** An error that lies in the way alone and stays there, such as a refused key: asking later helps where another way is free by then. */
const isWaysOwn = (error: GatewayError) =>
  !error.retry && ranOf(error) === "no" && decideRetry(error, { elapsedMs: 0, routesLeft: 1 }) === "next-route";

/**
 * The attempts of one request: which way is tried first, and which after one that failed, by the table of reliability 6.2, inside the request's
 * time, the vendors' retry budgets and their breakers. Nothing here asks a vendor anything.
 */
export class Tries {
  /** All there are along which the request can be told, as far as that is known. */
  #all: readonly Candidate[];
  /** Those that are tried. */
  #ways: readonly Candidate[];
  #at = -1;
  #failed = 0;
  /** What goes on after the last way that was asked. */
  #last: Failed | undefined;
  /** Why the request could not be told along the first way of those along which it cannot be. */
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
    this.#end();
    const { services, intent, served, exchange } = this.job;
    if (intent.stream || served) services.health.began(way, exchange.attempts.begunAt);
    else services.health.wentWell(way, exchange.attempts.begunAt);
  }

  /** The request was ended while this way was tried. */
  left({ way }: Candidate): void {
    this.#end();
    const error = waitedInVain(this.job);
    if (error) noteFailure(this.job, way, error);
    else this.job.services.health.cameToNothing(way);
  }

  /**
   * The way to try after one that failed with `error`, perhaps after a pause; one along which the request cannot be told is none. Throws when there is none:
   * `error`, or the limit of a way that will be free before that one; and why a request was aborted.
   */
  async next(failed: Candidate, error: GatewayError): Promise<Candidate> {
    this.#end();
    noteFailure(this.job, failed.way, error);
    if (isUntold(error)) return this.#besides(failed, error);
    this.#last = { failed, error, doubtfulBefore: this.#doubtfulBefore, isFirst: this.#failed++ === 0 };
    if (ranOf(error) !== "no") this.#doubtfulBefore++;
    return this.#after(this.#last);
  }

  /**
   * The way to try in place of one along which the request cannot be told: all goes on as if there were no such way. Where there is no other one, what
   * the client is told is why not.
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
      // A vendor that may be burdened no more leaves the next one to be asked.
      do next = this.#advance(isVain);
      while (next && !this.#lend(next, failed, ran));
    } else if (isFirst) next = await this.#again(failed, error);
    if (!next) throw this.#told(error);
    const fields = { request_id: this.job.request.requestId, vendor: failed.way.vendor, error: error.code };
    services.log.warn(next === failed ? "retry" : "failover", fields);
    return next;
  }

  /** What may have run is repeated once, and where it failed another key seldom helps: those ways come last. */
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

  /** The only way once more, where the table says so. */
  async #again(failed: Candidate, error: GatewayError): Promise<Candidate | undefined> {
    this.#giveBack = await waitToRepeat(this.job, failed.way, error);
    return this.#giveBack && failed;
  }

  /**
   * Takes a place in the budget of the vendor whose request it was, for what burdens it a second time, or is done again elsewhere though it may have been
   * done there. Another vendor that is asked because nothing ran has no more to do than it would have had by itself; nor has another key in whose way
   * nothing is: the one that was refused or limited rests by now, so that no more than what was under way comes to the other one like this.
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

  /** What the client is told when nothing is left to try: of several limited ways the one that is free first, since that is when asking again helps. */
  #told(error: GatewayError): GatewayError {
    const isLimit = error.code === "rate_limit_exceeded";
    const limit = isLimit || isWaysOwn(error) ? this.#limit() : undefined;
    if (!limit) return error;
    return !isLimit || (limit.retryAfterSeconds ?? 0) < (error.retryAfterSeconds ?? 0) ? limit : error;
  }

  /** What a limited way's vendor would say now; undefined where no way is limited. */
  #limit(): GatewayError | undefined {
    const { health, clock } = this.job.services;
    const ends = limitEnds(this.#all, health);
    return ends === undefined ? undefined : upstreamError(429, WORDLESS, Math.ceil((ends - clock.monotonic()) / 1_000));
  }

  #end(): void {
    this.#giveBack?.();
    this.#giveBack = undefined;
  }
}

/** A place in a vendor's budget of repeats, as what gives it back; undefined where there is none. */
function placeOf({ budget }: Pick<VendorRecord, "budget">, now: number, repeat: Repeat): (() => void) | undefined {
  return budget.take(now, repeat) ? () => budget.give(repeat) : undefined;
}

/**
 * Waits until what failed with `error` may be sent along the same way once more, by the table's last column. Gives what is to be
 * called when the repeat is answered or has failed; undefined where it is not to be sent. Throws why the request was aborted meanwhile.
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
 * What a vendor did wrong that was still waited for when its request was ended: a stream brought nothing for too long, or of a blocking answer not
 * even the head came in the time that is given to one. Undefined where the end was another's doing, or the attempt had come late.
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
