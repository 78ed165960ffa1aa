import type { Caller } from "../../accounts/caller.ts";
import { type Plan, type Plans, planOf } from "../../accounts/plans.ts";
import { GatewayError } from "../../canon/errors.ts";
import { OwedWrites } from "../../db/owed-writes.ts";
import type { Writer } from "../../db/writer.ts";
import { type Book, type Claim, LedgerError } from "../../ledger/book.ts";
import type { Clock } from "../../lib/clock.ts";
import { toUsd } from "../../lib/usd.ts";
import type { KeyClaim, KeySpend } from "../../limits/key-spend.ts";
import { RateLimited, type RateState, type SpeedLimiter } from "../../limits/limiter.ts";
import { errorFields, type Log } from "../../observe/log.ts";

/** Stands for no limit where the book wants one: it cannot be reached. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER;

/** What metering needs of the rest of the house. */
export type MeterParts = {
  clock: Clock;
  log: Log;
  limiter: Pick<SpeedLimiter, "take" | "peek">;
  keySpend: KeySpend;
  plans: Plans;
  book: Book;
  writer: Writer;
};

/** What a tool did: how many of its units are counted, who served it, and what it brought. */
export type Worked<T> = { used: number; vendor: string; upstreamModel: string; attempts: number; value: T };

/**
 * One call of a tool: who makes it, its id (also that of its usage row), and by which way it came (`mcp`, `web`). `onWorked` is told what the tool did
 * where it did something.
 */
export type WebCall = {
  caller: Caller;
  requestId: string;
  dialect: string;
  signal: AbortSignal;
  onWorked?: ((worked: Omit<Worked<unknown>, "value">) => void) | undefined;
};

/** What a metered call brought, and how its caller's bucket of web calls stands; undefined where nothing is limited. */
export type Metered<T> = { value: T; rate: RateState | undefined };

/** How an account's web tools stand (web-and-mcp.md F): the same in `_meta`, in the REST answers, and in `GET /v1/account`. */
export type WebUsage = {
  plan: string;
  day: { limit: number | null; used: number; remaining: number | null; resets_at: string };
  minute: { limit: number | null; remaining: number | null };
  concurrent: { limit: number | null };
  overage: { usd_per_call: number | null };
};

/**
 * Every call of a web tool is claimed before it runs and counted when it is done, once, crash or not: speed, the key's own caps, the
 * day's free calls, then the wallet (interface 8, contract 5, reliability 3.4). All of a call's units or none of them.
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
   * Runs `work` for `units` calls of `tool`. What it does not use is given back, the wallet's first; nothing at all when it throws. Throws GatewayError:
   * rate_limit_exceeded, concurrency_exceeded, allowance_exhausted, insufficient_quota, each with a sentence for people; and what `work` throws.
   */
  async run<T>(call: WebCall, tool: string, units: number, work: () => Promise<Worked<T>>): Promise<Metered<T>> {
    const { caller } = call;
    const permit = this.#take(caller, units);
    try {
      const keyClaim = this.parts.keySpend.claim(caller.keyId, units);
      try {
        const claim = await this.#claim(call, units);
        const startedAt = this.parts.clock.monotonic();
        const worked = await this.#orGiveBack(claim, () => {
          // What of it is paid for is known only now.
          keyClaim?.secure(BigInt(claim.paid) * claim.unitNano);
          return work();
        });
        call.onWorked?.(worked);
        const durationMs = this.parts.clock.monotonic() - startedAt;
        // Free calls that others gave back meanwhile have taken the place of paid ones: what is charged is known when it is booked.
        const isPaid = claim.paid > 0;
        const ended = this.#end(call, tool, worked, durationMs, isPaid ? keyClaim : undefined);
        const tell = (thrown: unknown) =>
          this.parts.log.error("web-key-cap", { call: call.requestId, ...errorFields(thrown) });
        // Both are in one commit: neither is waited for before the other is asked for.
        const noted = worked.used > 0 && !isPaid ? keyClaim?.note(worked.used, 0n, tell) : undefined;
        await Promise.all([ended, noted]);
        return { value: worked.value, rate: permit.state };
      } finally {
        keyClaim?.release();
      }
    } finally {
      permit.release();
    }
  }

  /** How the caller's web tools stand. */
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

  /** Gives back what calls had claimed that the end of the last process cut off: they brought nobody anything. For the start. */
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
          ...{ freeUnits: plan.webCallsPerDay, unitNano: plan.metered ? plan.webCallNano : undefined },
        });
      } catch (thrown) {
        if (!(thrown instanceof LedgerError)) throw thrown;
        if (thrown.code !== "insufficient" && thrown.code !== "allowance_exhausted") throw thrown;
        // Looked at here and now: a moment later others may have given calls back, and the sentence would say what was not so.
        throw this.#refusal(thrown.code, accountId, plan, units);
      }
    });
  }

  /** Why there are no more calls today, in one sentence and until when. */
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
      // What cannot be given back now is later: the call's own outcome is told all the same.
      await this.#owed.do(claimId);
      throw thrown;
    }
  }

  /** Resolves once it is booked; on `keyClaim`, where one is given, together with what is charged: a process that dies leaves both or neither. */
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
      // Whoever called is told that it came to nothing.
      this.#owed.add(requestId);
      throw thrown;
    }
  }
}
