import type { ErrorCode, GatewayError } from "../canon/errors.ts";
import type { Event } from "../canon/events.ts";
import { promptTokens, type Usage } from "../canon/usage.ts";
import type { Charge, Hold, Outcome, Settlement } from "../ledger/ledger.ts";
import { Meter, type Metered } from "../ledger/meter.ts";
import { formatUsd } from "../ledger/price.ts";
import type { Clock } from "../lib/clock.ts";
import type { JsonText } from "../lib/json.ts";
import type { Permit } from "../limits/limiter.ts";
import type { Log } from "../observe/log.ts";
import {
  type Attempt,
  attemptOutcome,
  type RequestFacts,
  type RequestObserver,
  type ToolCall,
} from "../observe/request-facts.ts";
import type { Way } from "../vendors/health.ts";
import { ATTEMPTS_HEADER, COST_HEADER, STOP_HEADER } from "../wire/header-names.ts";
import type { Failure } from "./ended.ts";
import { estimateInputTokens } from "./estimate.ts";
import type { ReasoningCollector } from "./reasoning-collector.ts";
import { describeCause, type Identity, recordRequest } from "./record.ts";
import type { Spending } from "./spending.ts";

const NO_ATTEMPTS: readonly Attempt[] = [];
/** How much of a call's id is noted, characters: it is the vendor's own. */
const MAX_NOTED_ID = 128;

/**
 * The book of one request: its place in the limiter, its hold, its meter, and the one closing of all three. `close` works once;
 * every exit of the pipeline comes through it.
 */
export class Exchange {
  /** Of the attempt under way: what a failed attempt said is not charged. */
  meter: Meter;
  readonly startedAt: number;
  /** Field paths that could not cross to the upstream's dialect. */
  dropped: readonly string[] = [];
  attempts = 0;
  /** Along which way the request is about to be told; undefined once its vendor is asked. */
  #next: Way | undefined;
  /** Attempts that failed, in their order; absent where none did. */
  failedAttempts: Attempt[] | undefined;
  /** Calls that brought an earlier round of the reply, and web tools that were run for the model; noted only where traces are kept. */
  #rounds: Attempt[] | undefined;
  tools: ToolCall[] | undefined;
  /** Which of the vendor's keys is used, from 0. */
  vendorKey = 0;
  /** When the attempt under way began, monotonic ms, and the round under way of its reply. */
  attemptAt = 0;
  #roundAt = 0;
  /** The last failure that the vendors' records know of. */
  notedFailure: GatewayError | undefined;
  /** Of the attempt under way: its vendor has the whole request, and may be at work on it. */
  sent = false;
  /** Of the attempt under way: the head of an answer is there. */
  answered = false;
  /** What the input is estimated of; it is done when somebody asks. */
  asked: { body: JsonText; model: string; webTools: number } | undefined;
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
  vendor = "";
  upstreamModel = "";

  constructor(
    private readonly clock: Clock,
    private readonly log: Log,
    private readonly permit: Permit,
    private readonly observer?: RequestObserver,
  ) {
    this.meter = new Meter(clock);
    this.startedAt = clock.monotonic();
  }

  /** Input tokens by the gateway's own estimate. */
  get estimatedInput(): number {
    const { asked } = this;
    this.#estimated ??= asked ? estimateInputTokens(asked.body, asked.model, asked.webTools) : 0;
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
    const { usage } = this.counted;
    this.stopped = true;
    return [{ type: "block-end" }, { type: "usage", usage }, { type: "finish", finish: { reason: "length" } }];
  }

  /** What the reply came to so far. */
  get counted(): Metered {
    return this.meter.usage(this.estimateInput);
  }

  /** The counts that a whole reply will be billed by where one of them is the gateway's own; undefined where its vendor told all. */
  ownCounts(events: readonly Event[]): Usage | undefined {
    const last = events.findLast((event) => event.type === "usage");
    if (last?.apart) return undefined;
    if (last && !last.begun && promptTokens(last.usage) > 0 && last.usage.output > 0) return undefined;
    const meter = new Meter(this.clock, this.meter.choices);
    meter.take(events);
    const { usage, estimated } = meter.usage(this.estimateInput);
    return estimated ? usage : undefined;
  }

  /** Another way is tried. Nobody is asked yet: it may be one along which the request cannot be told. */
  beginAttempt(way: Way): void {
    this.#next = way;
    this.attemptAt = this.clock.monotonic();
    this.sent = this.answered = false;
    if (this.attempts > 0) this.forgetReply();
  }

  /** The request goes out to a vendor. Only now is it an attempt; a further call of the same reply along the same way is none of its own. */
  goOut(): void {
    const way = this.#next;
    if (!way) return;
    this.#next = undefined;
    this.vendor = way.vendor;
    this.upstreamModel = way.model;
    this.vendorKey = way.key;
    if (this.attempts++ === 0) this.observer?.began();
  }

  /** The attempt under way failed: until the next one begins, nobody is at work. */
  endAttempt(error: ErrorCode): void {
    this.#noteAttempt(error, this.#attemptedAfter);
    this.sent = this.answered = false;
  }

  /** The vendor is asked for a further round of the same reply at `askedAt`; the one before it ended at `endedAt`. Both are monotonic ms. */
  nextRound(endedAt: number, askedAt: number): void {
    if (this.observer?.traces) {
      const at = this.#calledAfter;
      this.#rounds ??= [];
      this.#rounds.push({
        ...{ vendor: this.vendor, model: this.upstreamModel, key: this.vendorKey, at },
        ...{ outcome: attemptOutcome("completed", undefined), ms: Math.round(endedAt - this.startedAt) - at },
      });
    }
    this.#roundAt = askedAt;
  }

  /** A later call of the same reply, made at `askedAt`, failed before anything came of it. What came of the calls before it stays. */
  endRound(error: ErrorCode, askedAt: number): void {
    this.#noteAttempt(error, Math.round(askedAt - this.startedAt));
  }

  /** A call that has failed is made once more, perhaps along another way: one more call of a vendor. */
  repeatRound(way: Way): void {
    this.#next = way;
    this.attemptAt = this.clock.monotonic();
  }

  /** What could not be told to a vendor was no call to it. */
  #noteAttempt(outcome: ErrorCode, at: number): void {
    if (this.#next) return;
    const { vendor, upstreamModel: model, vendorKey: key } = this;
    const ms = this.#elapsed - at;
    this.failedAttempts ??= [];
    this.failedAttempts.push({ vendor, model, key, outcome, at, ms });
  }

  /** A web tool is run for the model; what is returned is told why it gave nothing, if so. Undefined where nobody keeps traces. */
  beginTool(tool: string, callId: string): ((error: string | undefined) => void) | undefined {
    if (!this.observer?.traces) return undefined;
    const call: ToolCall = {
      tool,
      callId: callId.slice(0, MAX_NOTED_ID),
      at: this.#elapsed,
      ms: undefined,
      error: undefined,
    };
    this.tools ??= [];
    this.tools.push(call);
    return (error) => {
      call.ms = this.#elapsed - call.at;
      call.error = error;
    };
  }

  /** What came of the reply never reached the client. */
  forgetReply(): void {
    this.meter = new Meter(this.clock, this.meter.choices);
    this.spending?.forget();
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
    if (clientsDoing) this.meter.leave();
    const ran = this.meter.sawOutput || (clientsDoing && (this.sent || this.answered));
    try {
      await this.#close(ran ? outcome : undefined, error, clientsDoing ? outcome : "refused");
    } catch (thrown) {
      this.log.error("settle", { request_id: this.identity?.requestId, outcome, cause: describeCause(thrown) });
    }
  }

  /** `outcome`: what is settled; undefined: nothing is, and `unsettledAs` is what became of the request. */
  async #close(outcome: Outcome | undefined, error?: GatewayError, unsettledAs = "refused"): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.settledAs = outcome;
    this.permit.release();
    const { hold } = this;
    let settlement: Settlement | undefined;
    try {
      if (outcome && this.failedAttempts && this.identity) {
        this.observer?.settling(this.identity.requestId, this.#allAttempts(outcome, error, this.#elapsed));
      }
      settlement = outcome && this.#settlement(outcome, error?.code);
      if (hold && settlement) this.charge = await hold.settle(settlement);
      else if (hold) await hold.release();
    } finally {
      this.#record(outcome ?? unsettledAs, error, settlement);
    }
  }

  #settlement(outcome: Outcome, error: ErrorCode | undefined): Settlement {
    const { usage, estimated, rounds, apart } = this.counted;
    const { finish, firstTokenAt } = this.meter;
    const settlement: Settlement = {
      outcome,
      vendor: this.vendor,
      upstreamModel: this.upstreamModel,
      usage,
      estimated,
      attempts: this.attempts,
      durationMs: this.#elapsed,
    };
    if (rounds) settlement.rounds = rounds;
    if (apart !== undefined) settlement.apart = apart;
    if (finish) settlement.finish = finish.reason;
    if (this.ranOut) {
      settlement.finish = "length";
      settlement.ranOut = true;
    }
    if (error) settlement.error = error;
    if (firstTokenAt !== undefined) settlement.firstTokenMs = Math.round(firstTokenAt - this.startedAt);
    return settlement;
  }

  /** When the last attempt began, ms after the request did. */
  get #attemptedAfter(): number {
    return this.attempts === 0 ? 0 : Math.round(this.attemptAt - this.startedAt);
  }

  /** When the last call to a vendor began, ms after the request did. */
  get #calledAfter(): number {
    return Math.max(this.#attemptedAfter, Math.round(this.#roundAt - this.startedAt));
  }

  /** Ms since the request came. */
  get #elapsed(): number {
    return Math.round(this.clock.monotonic() - this.startedAt);
  }

  /** All attempts, the last one too, where one failed: it ends with the request, after `durationMs`. */
  #allAttempts(outcome: string, error: GatewayError | undefined, durationMs: number): readonly Attempt[] {
    const { failedAttempts: failed = NO_ATTEMPTS, vendor, upstreamModel: model, vendorKey: key } = this;
    if (failed.length === 0 || failed.length === this.attempts) return failed;
    const at = this.#attemptedAfter;
    return [
      ...failed,
      {
        ...{ vendor, model, key, at, ms: durationMs - at },
        outcome: attemptOutcome(outcome, error?.code),
      },
    ];
  }

  #record(outcome: string, error: GatewayError | undefined, settlement: Settlement | undefined): void {
    const { identity, charge, dropped } = this;
    if (!identity) return;
    const durationMs = this.#elapsed;
    const facts: RequestFacts = {
      requestId: identity.requestId,
      accountId: identity.caller.accountId,
      keyId: identity.caller.keyId,
      dialect: identity.dialect,
      stream: identity.stream,
      model: identity.model,
      vendor: this.vendor,
      upstreamModel: this.upstreamModel,
      outcome,
      error: error?.code,
      finish: settlement?.finish,
      tried: this.attempts,
      attempts: this.#allAttempts(outcome, error, durationMs),
      rounds: this.#rounds,
      tools: this.tools,
      lastAttemptMs: this.#attemptedAfter,
      lastCallMs: this.#calledAfter,
      lastKey: this.vendorKey,
      startedAt: this.clock.now() - durationMs,
      durationMs,
      firstTokenMs: settlement?.firstTokenMs,
      usage: charge?.believed ?? settlement?.usage,
      costNano: charge?.costNano,
      traceparent: identity.traceparent,
    };
    recordRequest(facts, { error, charge, dropped }, this.log, this.observer);
  }
}

/** What the end of a reply that is paid for says of its money, a failure's too (contract 5 and 6): headers of a whole reply, comments in a stream. */
export function closingHeaders({ charge, ranOut }: Exchange): Record<string, string> {
  if (!charge?.metered) return {};
  const headers: Record<string, string> = { [COST_HEADER]: formatUsd(charge.chargedNano) };
  if (ranOut) headers[STOP_HEADER] = "balance";
  return headers;
}

/** What an answer took, a failure too: its money, and how many calls to vendors where it was more than one. */
export function tollHeaders(exchange: Exchange): Record<string, string> {
  const headers = closingHeaders(exchange);
  if (exchange.attempts > 1) headers[ATTEMPTS_HEADER] = String(exchange.attempts);
  return headers;
}
