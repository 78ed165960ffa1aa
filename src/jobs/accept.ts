import type { Caller } from "../accounts/caller.ts";
import { type Plan, type Plans, planOf } from "../accounts/plans.ts";
import { GatewayError } from "../canon/errors.ts";
import type { Entry } from "../catalog/entry.ts";
import type { Writer } from "../db/writer.ts";
import { type Book, LedgerError } from "../ledger/book.ts";
import { depositRequired } from "../ledger/deposits.ts";
import type { Clock } from "../lib/clock.ts";
import type { Pixels } from "../lib/pixels.ts";
import { HOUR_MS } from "../lib/spans.ts";
import { usdToNano } from "../lib/usd.ts";
import type { JobRow } from "./job.ts";
import type { JobOrigin } from "./job-traces.ts";
import type { KeyHolds } from "./key-holds.ts";
import type { JobStore } from "./store.ts";

/** A job is to have ended after this, ms: the interface's client stops asking after about five minutes (reliability 5.2). */
export const JOB_MS = 300_000;
/** Jobs of all accounts together that may wait; only accounts without a cap of their own can come near it. */
export const MAX_WAITING = 100_000;
/** After this many blocked images in an hour an account has to wait: each costs the operator's vendors work (reliability 3.4). */
const MAX_BLOCKED = 10;
/** What an account with too many jobs in flight is told to wait, seconds: nobody knows when one of them ends (reliability 9). */
const FLIGHT_WAIT_SECONDS = 5;

/** An image that a caller may have: everything about it was found right. */
export type ImageOrder = {
  caller: Caller;
  entry: Entry;
  prompt: string;
  ratio: string;
  size: Pixels | undefined;
  style: string | null;
  source: { id: string; file: string } | undefined;
  /** The vendor that is asked first, and its name for the model. */
  route: { vendor: string; model: string };
  /** Who asked, for the traces. */
  origin?: JobOrigin | undefined;
};

type Parts = {
  jobs: JobStore;
  writer: Writer;
  book: Book;
  plans: Plans;
  clock: Clock;
  holds: KeyHolds;
  waiting(): number;
};

/** Lets images in: the caps, the money, and the job itself, all written together or not at all (reliability 5.2 rule 1). */
export class Acceptance {
  constructor(private readonly parts: Parts) {}

  /**
   * Refuses an account that has too much running or blocked. Throws GatewayError: too_many_inflight_jobs, allowance_exhausted. Asked once more when the
   * job is written.
   */
  checkFlight({ accountId, plan }: Caller): void {
    const { jobs, plans, waiting } = this.parts;
    const { imageJobsInFlight: cap, metered } = planOf(plans, plan);
    if (cap !== undefined && jobs.inFlight(accountId) >= cap) throw tooMany(`This account may have ${cap} at a time.`);
    if (waiting() >= MAX_WAITING) throw tooMany("The gateway has too many jobs waiting.");
    if (metered) this.#checkBlocked(accountId);
  }

  #checkBlocked(accountId: string): void {
    const { jobs, clock } = this.parts;
    const now = clock.now();
    // What lies an hour ahead was written by a clock that stood wrong.
    const blocked = jobs.blockedBetween(accountId, now - HOUR_MS, now + HOUR_MS, MAX_BLOCKED);
    if (blocked.length < MAX_BLOCKED) return;
    // There may be more by now, of jobs that were under way at the tenth: the ten newest count, until the oldest of these is an hour old.
    const resetAt = new Date(blocked.at(-1)! + HOUR_MS).toISOString();
    const text = `${MAX_BLOCKED} prompts of this account were blocked in the last hour. New images are taken again at ${resetAt}.`;
    throw new GatewayError("allowance_exhausted", text, { extra: { reason: "too_many_blocked", reset_at: resetAt } });
  }

  /**
   * Refuses a model that the account cannot pay for, as its money stands. Throws GatewayError: deposit_required, model_unpriced,
   * insufficient_quota, allowance_exhausted. The claim that counts is made when the job is written.
   */
  checkMoney(caller: Caller, entry: Entry): void {
    const { book, plans } = this.parts;
    const plan = planOf(plans, caller.plan);
    if (!plan.metered) return;
    if (entry.accessTier === "premium" && !book.hasDeposit(caller.accountId)) throw depositRequired(entry.id);
    const price = paidPrice(entry, plan);
    const free = plan.imagesPerDay;
    if (free === undefined || book.allowance(caller.accountId, "image", free).remaining > 0) return;
    if (price === undefined) throw this.#refusal("allowance_exhausted", caller, plan);
    if (book.balance(caller.accountId).availableNano < price) throw this.#refusal("insufficient", caller, plan);
  }

  #refusal(code: "allowance_exhausted" | "insufficient", { accountId }: Caller, plan: Plan): GatewayError {
    const { resetsAtMs } = this.parts.book.allowance(accountId, "image", plan.imagesPerDay ?? 0);
    const resetAt = resetsAtMs === undefined ? undefined : new Date(resetsAtMs).toISOString();
    const when = resetAt ? ` The next one comes free at ${resetAt}.` : "";
    const used = `The plan's ${plan.imagesPerDay} free images of the last 24 hours are used up`;
    const extra = resetAt ? { reset_at: resetAt } : {};
    if (code === "allowance_exhausted") {
      return new GatewayError("allowance_exhausted", `${used}, and this model cannot be paid for.${when}`, { extra });
    }
    return new GatewayError("insufficient_quota", `${used}, and the wallet does not pay for more.${when}`, { extra });
  }

  /**
   * Writes the job down, with its claim on allowance or wallet; `also` writes what belongs to it in the same transaction. Durable when it
   * resolves. Throws GatewayError as the checks do, and where the key's caps leave less than the image costs; StoreError as the writer does.
   */
  async accept(order: ImageOrder, also: ((job: JobRow) => void) | undefined): Promise<JobRow> {
    const { jobs, writer, clock, holds } = this.parts;
    const createdMs = clock.now();
    // Ids grow with time, so that rows are appended to the table, and still cannot be guessed.
    const id = Bun.randomUUIDv7("hex", createdMs);
    const accepting = writer.run(() => {
      this.checkFlight(order.caller);
      this.#claim(id, order);
      const job = jobs.insert({
        ...{ id, accountId: order.caller.accountId, keyId: order.caller.keyId, createdMs },
        ...{ model: order.entry.id, prompt: order.prompt, ratio: order.ratio, style: order.style },
        ...{ width: order.size?.width ?? null, height: order.size?.height ?? null },
        ...{ sourceJob: order.source?.id ?? null, sourceFile: order.source?.file ?? null },
        ...{ token: crypto.randomUUID(), vendor: order.route.vendor, upstreamModel: order.route.model },
        ...{ runAfterMs: createdMs, deadlineMs: createdMs + JOB_MS },
      });
      also?.(job);
      return job;
    });
    try {
      return await accepting;
    } catch (thrown) {
      holds.end(id);
      throw thrown;
    }
  }

  #claim(claimId: string, { caller, entry }: ImageOrder): void {
    const { book, plans, holds } = this.parts;
    const plan = planOf(plans, caller.plan);
    const { accountId, keyId } = caller;
    const price = plan.metered ? paidPrice(entry, plan) : unitPriceOf(entry);
    try {
      const claim = book.claimUnits({
        ...{ claimId, accountId, keyId, kind: "image", units: 1 },
        ...{ freeUnits: plan.metered ? plan.imagesPerDay : undefined, unitNano: price },
      });
      holds.take(claim);
    } catch (thrown) {
      if (!(thrown instanceof LedgerError)) throw thrown;
      if (thrown.code !== "insufficient" && thrown.code !== "allowance_exhausted") throw thrown;
      throw this.#refusal(thrown.code, caller, plan);
    }
  }
}

/**
 * What an image beyond the allowance is paid with; undefined where it cannot be paid for: a model without a price is given as often as the plan
 * gives images, and no more. Throws GatewayError (model_unpriced) where no price is known.
 */
function paidPrice(entry: Entry, plan: Plan): bigint | undefined {
  const price = unitPriceOf(entry);
  if (price === undefined) {
    const text = `No price of an image is known for the model ${entry.id}, so it cannot be paid for on plan ${plan.id}.`;
    throw new GatewayError("model_unpriced", text, { param: "model" });
  }
  return price === 0n ? undefined : price;
}

/**
 * What one image of a model costs, nano-USD: `per_image` of its row's prices, in USD; 0 for a row that is free. Undefined: not known, since
 * prices by the token say nothing of one image.
 */
function unitPriceOf({ pricing }: Entry): bigint | undefined {
  const perImage = pricing?.["per_image"];
  if (typeof perImage === "number" && perImage >= 0) return usdToNano(perImage);
  return pricing?.input === 0 && pricing.output === 0 ? 0n : undefined;
}

function tooMany(why: string): GatewayError {
  const text = `Too many image jobs are in flight. ${why} Try again when one has ended.`;
  return new GatewayError("too_many_inflight_jobs", text, { retryAfterSeconds: FLIGHT_WAIT_SECONDS });
}
