import type { GatewayError } from "../canon/errors.ts";
import { NOT_LOADED } from "../dialects/refusals/meant-status.ts";
import { SHORTEST_LIMIT_SECONDS } from "../dialects/refusals/upstream-error.ts";
import { exceedsCredit, meansNoCredit, meansUsedUp } from "../dialects/refusals/vendor-account.ts";
import { vendorSaid } from "../dialects/refusals/vendor-said.ts";
import type { Clock } from "../lib/clock.ts";
import { Breakers } from "./breakers.ts";
import { NoFileLeft } from "./http/faults.ts";
import { REFUSED_KEY_MS, type Rest, Rests } from "./rests.ts";
import { RetryBudget } from "./retry-budget.ts";
import { isUntold } from "./retry-policy.ts";

/** How calls to a vendor went since the start. Times are Unix ms. */
export type VendorRecord = {
  served: number;
  failed: number;
  lastServedAt: number | undefined;
  lastFailedAt: number | undefined;
  lastError: string | undefined;
  /** When the failures in a row began; undefined while it answers. */
  failingSince: number | undefined;
  /** Bounds how many requests to it are repeated. */
  readonly budget: RetryBudget;
};

/**
 * One way to a model: a vendor, one of its keys by its place, and the vendor's name of the model. `keys`: how many the vendor has. `inside`: the
 * vendor is in this process (contract 10), and fails as each request wants it to: that tells nothing of the next one.
 */
export type Way = { vendor: string; key: number; keys: number; model: string; inside?: boolean };

/** The name of a vendor's key, for all models. It holds nothing of the key itself. */
const keyName = ({ vendor, key }: Way): string => `${vendor}#${key + 1}`;
/** The name of a way. */
const wayName = (way: Way): string => `${keyName(way)}/${way.model}`;

/** What a failure did, for the log: a breaker opened, or a key or a way was put to rest for so many ms. */
export type Consequence = { kind: "opened" | "rested"; name: string; restMs?: number };

/**
 * What became of calls to vendors: the operator's record of each that is switched on (contract 3), the breakers of ways that fail, and the
 * rest of keys that were refused or limited (reliability 6.2).
 */
export class VendorHealth {
  readonly #records = new Map<string, VendorRecord>();
  /** When a vendor's row was last changed, monotonic ms, for those of which one was. */
  readonly #changedAt = new Map<string, number>();
  readonly breakers: Breakers;
  readonly rests: Rests;

  constructor(
    private readonly clock: Clock,
    random: () => number = Math.random,
  ) {
    this.breakers = new Breakers(clock, random);
    this.rests = new Rests(clock);
  }

  /** A call brought an answer. */
  served(vendorId: string): void {
    const record = this.of(vendorId);
    const now = this.clock.now();
    record.served++;
    record.lastServedAt = now;
    record.failingSince = undefined;
    record.budget.note(now);
  }

  /** A call failed by the vendor's doing; `code` is the error's (contract 6). */
  failed(vendorId: string, code: string): void {
    const record = this.of(vendorId);
    const now = this.clock.now();
    record.failed++;
    record.lastFailedAt = now;
    record.lastError = code;
    record.failingSince ??= now;
    record.budget.note(now);
  }

  /** A vendor's record. */
  of(vendorId: string): VendorRecord {
    let record = this.#records.get(vendorId);
    if (!record) {
      record = {
        ...{ served: 0, failed: 0, lastServedAt: undefined, lastFailedAt: undefined },
        ...{ lastError: undefined, failingSince: undefined, budget: new RetryBudget() },
      };
      this.#records.set(vendorId, record);
    }
    return record;
  }

  /** The record of every vendor that was ever asked for one, those among them that the configuration has no more. */
  all(): ReadonlyMap<string, VendorRecord> {
    return this.#records;
  }

  /** Whether nothing is in trouble: no breaker and no rest, so that nothing needs to be noted of a way that does well. */
  get calm(): boolean {
    return this.breakers.idle && this.rests.idle;
  }

  /** Whether a way is free for a call. Changes nothing. */
  isFree(way: Way): boolean {
    if (this.calm) return true;
    return this.restsUntil(way) === 0 && this.breakers.allows(wayName(way));
  }

  /**
   * Whether a way is of use for what is no generation, such as a count: it was not refused, and its breaker is closed. What limits its generations
   * does not limit that. Changes nothing.
   */
  isOfUse(way: Way): boolean {
    return this.calm || (!this.isRefused(way) && this.breakers.allows(wayName(way)));
  }

  /** When the rest of a way or of its key ends, monotonic ms; 0 where neither rests. */
  restsUntil(way: Way): number {
    return this.rests.idle ? 0 : Math.max(this.rests.until(keyName(way)), this.rests.until(wayName(way)));
  }

  /** Whether a way rests because its key, or the way itself, was refused. */
  isRefused(way: Way): boolean {
    return this.rests.why(keyName(way)) === "refused" || this.rests.why(wayName(way)) === "refused";
  }

  /** Whether a way is limited for a time that its vendor named. */
  isHeld(way: Way): boolean {
    return this.rests.why(wayName(way)) === "held";
  }

  /** When a way's limit ends, monotonic ms; 0 where it is not limited, or refused as well. */
  limitedUntil(way: Way): number {
    return this.isRefused(way) ? 0 : this.rests.until(wayName(way));
  }

  /** When a way that is in trouble may be tried again, monotonic ms; 0, or a time that is past, where it may be now. */
  freeAt(way: Way): number {
    return Math.max(this.restsUntil(way), this.breakers.opensAt(wayName(way)));
  }

  /** A call is about to go along a way. False: its breaker is open, and it is not among the few calls that find out. */
  enter(way: Way): boolean {
    return this.breakers.idle || this.breakers.enter(wayName(way));
  }

  /**
   * A call along a way, made at `askedAt`, monotonic ms, is being answered; how well is known when its answer has ended, by {@link endedWell} or
   * {@link wentWrong}.
   */
  began(way: Way, askedAt: number): void {
    if (this.calm) return;
    this.breakers.began(wayName(way));
    this.#wake(way, askedAt);
  }

  /**
   * An answer of which {@link began} was told has ended well. What was learnt of its way since is newer: a stream may have begun minutes ago, before
   * its key was limited.
   */
  endedWell(way: Way): void {
    this.served(way.vendor);
    if (!this.breakers.idle) this.breakers.endedWell(wayName(way));
  }

  /** A call along a way, made at `askedAt`, monotonic ms, brought an answer. */
  wentWell(way: Way, askedAt: number): void {
    this.served(way.vendor);
    if (this.calm) return;
    this.breakers.succeeded(wayName(way));
    this.#wake(way, askedAt);
  }

  /**
   * A call along a way failed. `askedAt`, `begunAt`: when the call was made, and when its request came, both monotonic ms. What follows, by the error:
   * - a limit: the way rests for as long as the vendor says;
   * - a refused key or an empty account: the key rests for ten minutes; a refusal of this way alone, or a plan whose hours are used up: the way does. Neither
   *   opens the breaker, which would hide from the client what is wrong;
   * - anything else that is the vendor's fault: counts towards the way's breaker. Not a reply that its model brought to a bad end, nor a request that is too
   *   dear for what is left of the credit: one conversation may have nothing else, and would close the way to all others. Nor a model that somebody has yet to load;
   * - what is wrong with the request: the way is well;
   * - that this process may open no more files: nothing, since no vendor was called.
   *
   * Nothing follows for a way inside this process, which is always as good as new; nor where the request came before its vendor's row was changed, since it went
   * with another key perhaps, or to another address.
   */
  wentWrong(
    way: Way,
    error: GatewayError,
    askedAt: number,
    begunAt = Number.POSITIVE_INFINITY,
  ): Consequence | undefined {
    const { code, retryAfterSeconds = SHORTEST_LIMIT_SECONDS } = error;
    if (way.inside || begunAt < (this.#changedAt.get(way.vendor) ?? 0)) {
      if (isVendorsFault(error)) this.failed(way.vendor, code);
      return undefined;
    }
    if (code === "rate_limit_exceeded") {
      this.of(way.vendor).budget.note(this.clock.now());
      // It answered, if only that it wants to be left alone: whoever was sent to find out is back.
      this.cameToNothing(way);
      // Nor is its key refused any more.
      this.rests.wake(keyName(way), askedAt);
      const why = retryAfterSeconds > SHORTEST_LIMIT_SECONDS ? "held" : "limited";
      return this.#rest(wayName(way), retryAfterSeconds * 1_000, why);
    }
    if (isUntold(error) || error.cause instanceof NoFileLeft) {
      this.cameToNothing(way);
      return undefined;
    }
    if (!isVendorsFault(error)) {
      // It answered: what is wrong is the request.
      if (!this.breakers.idle) this.breakers.succeeded(wayName(way));
      return undefined;
    }
    this.failed(way.vendor, code);
    if (isKeysFault(error) || code === "upstream_auth" || isUsedUp(error)) {
      this.cameToNothing(way);
      return this.#rest(isKeysFault(error) ? keyName(way) : wayName(way), REFUSED_KEY_MS);
    }
    const name = wayName(way);
    if (isModelsFault(error) || isTooDear(error) || awaitsLoading(error)) {
      if (!this.breakers.idle) this.breakers.succeeded(name);
      return undefined;
    }
    return this.breakers.failed(name) ? { kind: "opened", name } : undefined;
  }

  /** A call along a way ended without telling anything of it, such as one whose client left. */
  cameToNothing(way: Way): void {
    if (!this.breakers.idle) this.breakers.left(wayName(way));
  }

  /** Names of a vendor's keys and ways that are in trouble now: a breaker is open, or they rest. For the operator. */
  troubles(vendorId: string): string[] {
    const open = this.breakers.states().flatMap(({ id, open: isOpen }) => (isOpen ? [id] : []));
    return [...open, ...this.rests.names()].filter((name) => name.startsWith(`${vendorId}#`));
  }

  /** Forgets all breakers and rests: the configuration was reloaded, and in it the rows of these vendors have changed. */
  forgetTrouble(changed: readonly string[] = []): void {
    const now = this.clock.monotonic();
    for (const id of changed) this.#changedAt.set(id, now);
    this.breakers.clear();
    this.rests.clear();
  }

  #wake(way: Way, askedAt: number): void {
    this.rests.wake(wayName(way), askedAt);
    this.rests.wake(keyName(way), askedAt);
  }

  /** Told once for each rest: a sole way is asked all the same, and refused again and again. */
  #rest(name: string, restMs: number, why: Rest = "refused"): Consequence | undefined {
    const rested = this.rests.until(name) > 0;
    this.rests.rest(name, restMs, why);
    return rested ? undefined : { kind: "rested", name, restMs };
  }
}

/** An error that says something about the vendor, and not about the request. */
const isVendorsFault = ({ code }: GatewayError): boolean => code.startsWith("upstream_") || code === "stream_truncated";

/** The vendor answered, and its model spoiled the reply: Gemini tells so by the reply's end, such as MALFORMED_FUNCTION_CALL. */
const isModelsFault = (error: GatewayError): boolean => typeof vendorSaid(error).finish === "string";

/** It answers at once, and whoever is told so loads the model, and is to be served the moment that it is there. */
const awaitsLoading = (error: GatewayError): boolean => NOT_LOADED.test(String(vendorSaid(error).message));

/** Another request, for less, is served all the same. */
const isTooDear = (error: GatewayError): boolean => exceedsCredit(vendorSaid(error));

/** A plan's hours are used up, for this model at the least. */
const isUsedUp = (error: GatewayError): boolean => meansUsedUp(vendorSaid(error));

/**
 * The key itself was refused (401), or the account behind it is empty: no model takes it now. Not so the key or the account of a gateway at one of its
 * vendors, which that gateway tells in that vendor's words: its other models go on.
 */
export function isKeysFault(error: GatewayError): boolean {
  const said = vendorSaid(error);
  if (said.isRelayed === true) return false;
  if (error.code === "upstream_auth") return said.status !== 403;
  return error.code === "upstream_error" && meansNoCredit(said.status, said);
}
