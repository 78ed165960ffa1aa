import { type ErrorCode, type GatewayError, toGatewayError } from "../canon/errors.ts";
import type { Event } from "../canon/events.ts";
import { promptTokens, type Usage } from "../canon/usage.ts";
import type { Charge, Hold, Outcome, Settlement } from "../ledger/ledger.ts";
import { Meter, type Metered } from "../ledger/meter.ts";
import { formatUsd } from "../ledger/price.ts";
import type { Clock } from "../lib/clock.ts";
import type { JsonText } from "../lib/json-text.ts";
import type { Permit } from "../limits/limiter.ts";
import type { Log } from "../observe/log.ts";
import type { Attempt, RequestFacts, RequestObserver } from "../observe/request-facts.ts";
import type { Way } from "../vendors/health.ts";
import { ATTEMPTS_HEADER, COST_HEADER, STOP_HEADER } from "../wire/header-names.ts";
import { Attempts } from "./attempts.ts";
import type { ReasoningCollector } from "./reasoning/collector.ts";
import { describeCause, type Identity, recordRequest } from "./record.ts";
import type { Failure } from "./running/ended.ts";
import type { Spending } from "./spending.ts";
import { type Beside, estimateInputTokens } from "./tokens/estimate.ts";

/**
 * The book of one request: its place in the limiter, its hold, its meter, and the one closing of all three. `close` works once;
 * every exit of the pipeline comes through it.
 */
export class Exchange {
  /** Of the attempt under way: what a failed attempt said is not charged. */
  meter: Meter;
  /** Field paths that could not cross to the upstream's dialect. */
  dropped: readonly string[] = [];
  readonly attempts: Attempts;
  /** The last failure that was noted of a vendor: each is noted once. */
  notedFailure: GatewayError | undefined;
  /** What the input is estimated from, when somebody first asks for that. */
  asked: { body: JsonText; model: string; beside: Beside } | undefined;
  #estimated: number | undefined;
  readonly estimateInput = (): number => this.estimatedInput;
  hold: Hold | undefined;
  /** Of a reply that is paid for and streams. */
  spending: Spending | undefined;
  /** The gateway ended the reply, since its money was used up. */
  stopped = false;
  /** What it cost, once it is settled. */
  charge: Charge | undefined;
  /** Of the attempt under way: remembers its reasoning for the next turn, where its vendor wants that. */
  collector: ReasoningCollector | undefined;
  identity: Identity | undefined;
  /** Set once it is closed, unless nothing was charged. */
  settledAs: Outcome | undefined;
  #closed = false;

  constructor(
    private readonly clock: Clock,
    private readonly log: Log,
    private readonly permit: Permit,
    private readonly observer?: RequestObserver,
  ) {
    this.meter = new Meter(clock);
    this.attempts = new Attempts(clock, observer);
  }

  /** Input tokens by the gateway's own estimate. */
  get estimatedInput(): number {
    const { asked } = this;
    this.#estimated ??= asked ? estimateInputTokens(asked.body, asked.model, asked.beside) : 0;
    return this.#estimated;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** The reply is shorter than it was meant to be, because the account's money is (contract 5). */
  get ranOut(): boolean {
    return this.stopped || (this.hold?.short === true && this.meter.finish?.reason === "length");
  }

  /** The reply is ended here, where what pays for it is used up: its last events, as of one that has reached its ceiling (contract 5). */
  runOut(): Event[] {
    const untold = this.spending?.untold;
    if (untold) this.meter.take([{ type: "usage", usage: untold }]);
    const { usage } = this.counted;
    this.stopped = true;
    return [{ type: "block-end" }, { type: "usage", usage }, { type: "finish", finish: { reason: "length" } }];
  }

  /** What the reply came to so far. */
  get counted(): Metered {
    return this.meter.usage(this.estimateInput);
  }

  /** The counts that a whole reply will be billed by, where the gateway had to count some of them itself; undefined where its vendor told all. */
  ownCounts(events: readonly Event[]): Usage | undefined {
    const last = events.findLast((event) => event.type === "usage");
    if (last?.apart) return undefined;
    if (last && !last.begun && promptTokens(last.usage) > 0 && last.usage.output > 0) return undefined;
    const meter = new Meter(this.clock, this.meter.choices);
    meter.take(events);
    const { usage, estimated } = meter.usage(this.estimateInput);
    return estimated ? usage : undefined;
  }

  /** Another way is tried: see {@link Attempts.begin}. */
  beginAttempt(way: Way): void {
    this.attempts.begin(way);
    if (this.attempts.count > 0) this.forgetReply();
  }

  /** What has come of the reply so far never reached the client, and is not paid for: counts anew. */
  forgetReply(): void {
    this.meter = new Meter(this.clock, this.meter.choices);
    this.spending?.forget();
  }

  /** A further round has failed of which nothing has come but counts: they are not paid, and it is counted anew where it is asked for once more. */
  forgetRound(): void {
    this.meter.forgetRound();
    this.spending?.forgetRound();
  }

  /** The answer is whole: settles the vendor's usage, and keeps its reasoning. Both are durable when it resolves. */
  complete(): Promise<void> {
    const kept = this.collector?.kept;
    const closed = this.#close("completed");
    return kept ? closed.then(() => kept) : closed;
  }

  /**
   * The request ended otherwise. Nothing ran or nothing came out: released, uncharged. Output was made, or the client gave up on a request
   * that a vendor was running: settled at the vendor's usage or the gateway's estimate (contract 5, outcome table). No vendor runs one whose
   * connection has yet to come about, nor one that it refused and that waits to be sent again. Never rejects: what the client is told is why
   * its request failed, and a book that cannot be closed is for the log.
   */
  async fail(outcome: Failure, error?: GatewayError): Promise<void> {
    const clientsDoing = outcome !== "upstream-failed" && outcome !== "interrupted";
    const { sent, answered } = this.attempts;
    const isAtWork = clientsDoing && (sent || answered);
    if (isAtWork) this.meter.leave();
    const ran = this.meter.sawOutput || isAtWork;
    try {
      // Broken off, its call tells nothing of the vendor, whatever the client is told.
      const calledAs = outcome === "interrupted" ? outcome : undefined;
      await this.#close(ran ? outcome : undefined, error, clientsDoing ? outcome : "refused", calledAs);
    } catch (thrown) {
      this.log.error("settle", { request_id: this.identity?.requestId, outcome, cause: describeCause(thrown) });
    }
  }

  /**
   * `outcome`: what is settled; undefined: nothing is, and `unsettledAs` is what became of the request. `calledAs`: what became of its last call to a vendor,
   * where that is something else.
   */
  async #close(
    outcome: Outcome | undefined,
    error?: GatewayError,
    unsettledAs = "refused",
    calledAs?: Outcome,
  ): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.settledAs = outcome;
    this.permit.release();
    const { hold } = this;
    let settlement: Settlement | undefined;
    try {
      if (outcome && this.attempts.hasFailed && this.identity) {
        const failed = this.attempts.allIfFailed(outcome, error, this.attempts.elapsedMs);
        this.observer?.settling(this.identity.requestId, failed);
      }
      settlement = outcome && this.#settlement(outcome, error?.code);
      if (hold && settlement) this.charge = await hold.settle(settlement);
      else if (hold) await hold.release();
    } catch (thrown) {
      // Nobody pays for what is not written down, and the client is told that it could not be. Of the vendor it says nothing.
      this.settledAs = undefined;
      const attempts = this.attempts.all(outcome ?? unsettledAs, error, this.attempts.elapsedMs);
      this.#record("refused", error ?? toGatewayError(thrown), undefined, attempts);
      throw thrown;
    }
    const attempts = outcome || !calledAs ? undefined : this.attempts.all(calledAs, error, this.attempts.elapsedMs);
    this.#record(outcome ?? unsettledAs, error, settlement, attempts);
  }

  #settlement(outcome: Outcome, error: ErrorCode | undefined): Settlement {
    const { usage, estimated, rounds, apart } = this.counted;
    const { finish, firstTokenAt } = this.meter;
    const { vendor, upstreamModel, count } = this.attempts;
    const settlement: Settlement = {
      outcome,
      vendor,
      upstreamModel,
      usage,
      estimated,
      attempts: count,
      durationMs: this.attempts.elapsedMs,
    };
    if (rounds) settlement.rounds = rounds;
    if (apart !== undefined) settlement.apart = apart;
    if (finish) settlement.finish = finish.reason;
    if (this.ranOut) {
      settlement.finish = "length";
      settlement.ranOut = true;
    }
    if (error) settlement.error = error;
    if (firstTokenAt !== undefined) settlement.firstTokenMs = Math.round(firstTokenAt - this.attempts.startedAt);
    return settlement;
  }

  /** `attempts`: how they went, where the request's own end does not tell. */
  #record(
    outcome: string,
    error: GatewayError | undefined,
    settlement: Settlement | undefined,
    attempts?: readonly Attempt[],
  ): void {
    const { identity, charge, dropped } = this;
    if (!identity) return;
    const durationMs = this.attempts.elapsedMs;
    const facts: RequestFacts = {
      requestId: identity.requestId,
      accountId: identity.caller.accountId,
      keyId: identity.caller.keyId,
      dialect: identity.dialect,
      stream: identity.stream,
      model: identity.model,
      ...this.attempts.facts(outcome, error, durationMs),
      ...(attempts && { attempts }),
      outcome,
      error: error?.code,
      finish: settlement?.finish,
      startedAt: this.clock.now() - durationMs,
      durationMs,
      firstTokenMs: settlement?.firstTokenMs,
      usage: charge?.believed ?? settlement?.usage,
      costNano: charge?.costNano,
      traceparent: identity.traceparent,
      settings: identity.settings,
    };
    recordRequest(facts, { error, charge, dropped }, this.log, this.observer);
  }
}

/**
 * What the end of a reply says of its money, a failure's too (contract 5 and 6): headers of a whole reply, comments in a stream. What it cost, where somebody
 * pays; and that its money ended it, which the cap of a key does on every plan.
 */
export function closingHeaders({ charge, ranOut }: Exchange): Record<string, string> {
  const headers: Record<string, string> = {};
  if (charge?.metered) headers[COST_HEADER] = formatUsd(charge.chargedNano);
  if (charge && ranOut) headers[STOP_HEADER] = "balance";
  return headers;
}

/** What an answer took, a failure too: its money, and how many calls to vendors where it was more than one. */
export function tollHeaders(exchange: Exchange): Record<string, string> {
  const headers = closingHeaders(exchange);
  const { count } = exchange.attempts;
  if (count > 1) headers[ATTEMPTS_HEADER] = String(count);
  return headers;
}
