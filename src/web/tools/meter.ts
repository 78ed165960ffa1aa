import type { Caller } from "../../accounts/caller.ts";
import { type Plan, type Plans, planOf } from "../../accounts/plans.ts";
import { GatewayError } from "../../canon/errors.ts";
import { OwedWrites } from "../../db/owed-writes.ts";
import type { Writer } from "../../db/writer.ts";
import { type Book, type Claim, LedgerError } from "../../ledger/book.ts";
import type { Clock } from "../../lib/clock.ts";
import { toUsd } from "../../lib/usd.ts";
import type { KeyClaim, KeySpend } from "../../limits/key-spend.ts";
import { RateLimited, type SpeedLimiter } from "../../limits/limiter.ts";
import { errorFields, type Log } from "../../observe/log.ts";

/** No limit, for the book, which needs a number: it cannot be reached. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER;

/** The parts of the gateway that metering uses. */
export type MeterParts = {
  clock: Clock;
  log: Log;
  limiter: Pick<SpeedLimiter, "take" | "peek">;
  keySpend: KeySpend;
  plans: Plans;
  book: Book;
  writer: Writer;
};

/** What a tool did: how many units are counted, who served it, in how many attempts, and its result. */
export type Worked<T> = { used: number; vendor: string; upstreamModel: string; attempts: number; value: T };

/**
 * One call of a tool: who makes it, its id (also that of its usage row), and the way it came (`mcp`, `web`). `onWorked` is called once the tool has run
 * without an error.
 */
export type WebCall = {
  caller: Caller;
  requestId: string;
  dialect: string;
  signal: AbortSignal;
  onWorked?: ((worked: Omit<Worked<unknown>, "value">) => void) | undefined;
};

/** What an account has used of the web tools, and what is left (web-and-mcp.md F): the same in `_meta`, in the REST answers, and in `GET /v1/account`. */
export type WebUsage = {
  plan: string;
  day: { limit: number | null; used: number; remaining: number | null; resets_at: string };
  minute: { limit: number | null; remaining: number | null };
  concurrent: { limit: number | null };
  overage: { usd_per_call: number | null };
};

/**
 * Claims every call of a web tool before it runs and counts it once it is done, exactly once even through a crash: against the speed limits, the
 * key's own caps, the day's free calls, then the wallet (interface 8, contract 5, reliability 3.4). All of a call's units are claimed, or none.
 */
export class WebMeter {
  /** Claims that are to be given back: until then their units count as used, and their money is held. */
  readonly #owed: OwedWrites;

  constructor(private readonly parts: MeterParts) {
    const { writer, clock, book, log } = parts;
    const tell = (thrown: unknown) => log.error("web-give-back", errorFields(thrown));
    this.#owed = new OwedWrites(writer, clock, (claimId) => book.giveBackUnits(claimId), tell);
  }

  /**
   * Runs `work` for `units` calls of `tool`. Units that it does not use are given back, those paid by the wallet first; all of them when it throws. Throws
   * GatewayError: rate_limit_exceeded, concurrency_exceeded, allowance_exhausted, insufficient_quota, each with a sentence for people; what a key's own cap
   * throws; and what `work` throws.
   */
  async run<T>(call: WebCall, tool: string, units: number, work: () => Promise<Worked<T>>): Promise<T> {
    const { caller } = call;
    const permit = this.#take(caller, units);
    try {
      const keyClaim = this.parts.keySpend.claim(caller.keyId, units);
      try {
        const claim = await this.#claim(call, units);
        const startedAt = this.parts.clock.monotonic();
        const worked = await this.#orGiveBack(claim, () => {
          // How many of the units the wallet pays is known only now.
          keyClaim?.secure(BigInt(claim.paid) * claim.unitNano);
          return work();
        });
        call.onWorked?.(worked);
        const durationMs = this.parts.clock.monotonic() - startedAt;
        // Free calls given back by others meanwhile may have replaced paid ones: what is charged is known only when it is booked.
        const isPaid = claim.paid > 0;
        const ended = this.#end(call, tool, worked, durationMs, isPaid ? keyClaim : undefined);
        const tell = (thrown: unknown) =>
          this.parts.log.error("web-key-cap", { call: call.requestId, ...errorFields(thrown) });
        // Both writes are begun before either is awaited, so that they are in one commit.
        const noted = worked.used > 0 && !isPaid ? keyClaim?.noteRequests(worked.used, tell) : undefined;
        await Promise.all([ended, noted]);
        return worked.value;
      } finally {
        keyClaim?.release();
      }
    } finally {
      permit.release();
    }
  }

  /** What the caller's account has used of the web tools, and what is left. */
  usage({ accountId, plan: planId }: Caller): WebUsage {
    const { book, plans, limiter } = this.parts;
    const plan = planOf(plans, planId);
    const { webCallsPerDay: limit, webCallNano } = plan;
    const day = book.allowance(accountId, "web", limit ?? NO_LIMIT);
    const minute = limiter.peek(accountId, planId, "web");
    return {
      plan: plan.id,
      day: {
        limit: limit ?? null,
        used: day.used,
        remaining: limit === undefined ? null : day.remaining,
        resets_at: new Date(day.resetsAtMs ?? 0).toISOString(),
      },
      minute: { limit: minute?.limit ?? null, remaining: minute?.remaining ?? null },
      concurrent: { limit: plan.webCallsConcurrent ?? null },
      overage: { usd_per_call: webCallNano === undefined ? null : toUsd(webCallNano) },
    };
  }

  /** For the start: gives back the claims of calls that were cut off when the last process ended, since they gave nobody a result. */
  async recover(): Promise<void> {
    const { book, writer, log } = this.parts;
    const open = book.openClaims("web");
    if (open.length === 0) return;
    await writer.run(() => {
      for (const { claimId } of open) book.giveBackUnits(claimId);
    });
    log.warn("web-recovered", { claims: open.length });
  }

  #take(caller: Caller, count: number) {
    try {
      return this.parts.limiter.take(caller, "web", { count });
    } catch (thrown) {
      if (!(thrown instanceof RateLimited)) throw thrown;
      const { webCallsPerMinute, webCallsConcurrent } = planOf(this.parts.plans, caller.plan);
      const { retryAfterSeconds: wait = 1 } = thrown;
      if (thrown.code === "concurrency_exceeded") {
        const text = `Plan ${caller.plan} lets ${webCallsConcurrent} web calls run at the same time. Try again when one has ended.`;
        throw new RateLimited(thrown.code, text, wait, thrown.state);
      }
      const text = `Plan ${caller.plan} allows ${webCallsPerMinute} web calls a minute, each page being one. Try again in ${Math.ceil(wait)} seconds.`;
      throw new RateLimited("rate_limit_exceeded", text, wait, thrown.state);
    }
  }

  #claim({ caller, requestId }: WebCall, units: number): Promise<Claim> {
    const { book, writer, plans } = this.parts;
    const plan = planOf(plans, caller.plan);
    const { accountId, keyId } = caller;
    return writer.run(() => {
      try {
        return book.claimUnits({
          ...{ claimId: requestId, accountId, keyId, kind: "web", units },
          ...{ freeUnits: plan.webCallsPerDay, unitNano: plan.webCallNano },
        });
      } catch (thrown) {
        if (!(thrown instanceof LedgerError)) throw thrown;
        if (thrown.code !== "insufficient" && thrown.code !== "allowance_exhausted") throw thrown;
        // The sentence is made inside this operation: a moment later others may have given calls back, and its figures would be wrong.
        throw this.#refusal(thrown.code, accountId, plan, units);
      }
    });
  }

  /** The refusal of a call beyond the day's: a sentence that says why, and when the next day begins. */
  #refusal(code: "insufficient" | "allowance_exhausted", accountId: string, plan: Plan, units: number): GatewayError {
    const { webCallsPerDay: limit = 0, webCallNano = 0n } = plan;
    const { remaining, resetsAtMs = 0 } = this.parts.book.allowance(accountId, "web", limit);
    const resetAt = new Date(resetsAtMs).toISOString();
    const used =
      remaining === 0
        ? `The ${limit} web calls that plan ${plan.id} includes a day are used up`
        : `Of the ${limit} web calls that plan ${plan.id} includes a day ${remaining} are left, and this asks for ${units}`;
    const price = `${toUsd(webCallNano)} USD`;
    const pays = code === "insufficient" ? `, and the wallet does not pay ${price} a call for more` : "";
    const row = code === "insufficient" ? "insufficient_quota" : "allowance_exhausted";
    return new GatewayError(row, `${used}${pays}; they begin anew at ${resetAt}.`, { extra: { reset_at: resetAt } });
  }

  async #orGiveBack<T>({ claimId }: Claim, work: () => Promise<Worked<T>>): Promise<Worked<T>> {
    try {
      return await work();
    } catch (thrown) {
      // A claim that cannot be given back now is given back later: the caller gets what the call threw in any case.
      await this.#owed.do(claimId);
      throw thrown;
    }
  }

  /** Books a call. Where `keyClaim` is given, the key's own count is written together with the charge: a process that dies leaves both or neither. */
  async #end<T>(
    { requestId, dialect }: WebCall,
    tool: string,
    worked: Worked<T>,
    durationMs: number,
    keyClaim: KeyClaim | undefined,
  ): Promise<void> {
    const { used, vendor, upstreamModel, attempts } = worked;
    if (used === 0) {
      await this.#owed.do(requestId);
      return;
    }
    const { book, writer } = this.parts;
    const usage = { dialect, model: tool, vendor, upstreamModel, outcome: "completed", attempts, durationMs } as const;
    try {
      const counted = await writer.run(() => {
        let told: (() => void) | undefined;
        const beside = (nano: bigint) => {
          told = keyClaim?.countBeside(used, nano);
        };
        book.countUnits({ claimId: requestId, used, usage, beside });
        return told;
      });
      counted?.();
    } catch (thrown) {
      // The caller gets an error, so nothing may stay claimed.
      this.#owed.add(requestId);
      throw thrown;
    }
  }
}
