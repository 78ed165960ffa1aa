import type { ErrorCode, GatewayError } from "../canon/errors.ts";
import type { Clock } from "../lib/clock.ts";
import {
  type Attempt,
  attemptOutcome,
  type RequestFacts,
  type RequestObserver,
  type ToolCall,
} from "../observe/request-facts.ts";
import type { Way } from "../vendors/health.ts";

type Asked = Pick<Way, "vendor" | "model" | "key">;

const NOBODY: Asked = { vendor: "", model: "", key: 0 };
const NO_ATTEMPTS: readonly Attempt[] = [];
/** How much of a call's id is noted, characters: it is the vendor's own. */
const MAX_NOTED_ID = 128;

/** The calls to vendors that one request takes, and those of web tools that are made for it: for its record, and for traces. */
export class Attempts {
  /** When the request came, monotonic ms. */
  readonly startedAt: number;
  /** How often a vendor was asked. */
  count = 0;
  /** When the attempt under way began, monotonic ms. */
  begunAt = 0;
  /** When the last further round of the same reply was asked for, monotonic ms; 0 before there is one. */
  #roundAt = 0;
  /** Of the call under way: its vendor has the whole request, and may be at work on it. */
  sent = false;
  /** Of the call under way: the head of an answer is there. */
  answered = false;
  /** The way that is about to be tried; undefined once its vendor was asked. */
  #next: Way | undefined;
  #asked: Asked = NOBODY;
  /** Those that failed, in their order; absent where none did. */
  #failed: Attempt[] | undefined;
  /** Calls that brought an earlier round of the reply, and web tools that were run for the model; noted only where traces are kept. */
  #rounds: Attempt[] | undefined;
  #tools: ToolCall[] | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly observer: RequestObserver | undefined,
  ) {
    this.startedAt = clock.monotonic();
  }

  /** Ms since the request came. */
  get elapsedMs(): number {
    return Math.round(this.clock.monotonic() - this.startedAt);
  }

  /** Another way is tried. Nobody is asked yet: it may be one along which the request cannot be told. */
  begin(way: Way): void {
    this.repeat(way);
    this.sent = this.answered = false;
  }

  /** A call that has failed is made once more, perhaps along another way: one more call of a vendor. */
  repeat(way: Way): void {
    this.#next = way;
    this.begunAt = this.clock.monotonic();
  }

  /** The request goes out to a vendor: only now does its way count as an attempt. Further rounds of the same reply along it do not count again. */
  goOut(): void {
    const way = this.#next;
    if (!way) return;
    this.#next = undefined;
    this.#asked = way;
    if (this.count++ === 0) this.observer?.began();
  }

  /** The attempt under way failed: until the next one begins, nobody is at work. */
  fail(error: ErrorCode): void {
    this.#noteFailed(error, this.#begunAfter);
    this.sent = this.answered = false;
  }

  /** The vendor is asked for a further round of the same reply at `askedAt`; the one before it ended at `endedAt`. Both are monotonic ms. */
  nextRound(endedAt: number, askedAt: number): void {
    if (this.observer?.traces) {
      const at = this.#calledAfter;
      const ms = Math.round(endedAt - this.startedAt) - at;
      this.#rounds ??= [];
      this.#rounds.push(this.#attempt(attemptOutcome("completed", undefined), at, ms));
    }
    this.#roundAt = askedAt;
    this.sent = this.answered = false;
  }

  /** A later call of the same reply, made at `askedAt`, failed before anything came of it. What came of the calls before it stays. */
  failRound(error: ErrorCode, askedAt: number): void {
    this.#noteFailed(error, Math.round(askedAt - this.startedAt));
    this.sent = this.answered = false;
  }

  /** A web tool is run for the model; what is returned is told why it gave nothing, if so. Undefined where nobody keeps traces. */
  beginTool(tool: string, callId: string): ((error: string | undefined) => void) | undefined {
    if (!this.observer?.traces) return undefined;
    const call: ToolCall = {
      tool,
      callId: callId.slice(0, MAX_NOTED_ID),
      at: this.elapsedMs,
      ms: undefined,
      error: undefined,
    };
    this.#tools ??= [];
    this.#tools.push(call);
    return (error) => {
      call.ms = this.elapsedMs - call.at;
      call.error = error;
    };
  }

  /** Who was asked last, and for which model; empty strings where nobody was. */
  get vendor(): string {
    return this.#asked.vendor;
  }

  get upstreamModel(): string {
    return this.#asked.model;
  }

  /** One of them failed. */
  get hasFailed(): boolean {
    return this.#failed !== undefined;
  }

  /** {@link all} where one failed; none where there was but one, and it went well. */
  allIfFailed(outcome: string, error: GatewayError | undefined, durationMs: number): readonly Attempt[] {
    return this.hasFailed ? this.all(outcome, error, durationMs) : NO_ATTEMPTS;
  }

  /** Every attempt, in their order. The last one ends as the request does, after `durationMs`. */
  all(outcome: string, error: GatewayError | undefined, durationMs: number): readonly Attempt[] {
    const failed = this.#failed ?? NO_ATTEMPTS;
    if (failed.length === this.count) return failed;
    const at = this.#begunAfter;
    return [...failed, this.#attempt(attemptOutcome(outcome, error?.code), at, durationMs - at)];
  }

  /** What is told of them when the request has ended after `durationMs`. */
  facts(outcome: string, error: GatewayError | undefined, durationMs: number) {
    return {
      vendor: this.vendor,
      upstreamModel: this.upstreamModel,
      tried: this.count,
      attempts: this.allIfFailed(outcome, error, durationMs),
      rounds: this.#rounds,
      tools: this.#tools,
      lastAttemptMs: this.#begunAfter,
      lastCallMs: this.#calledAfter,
      lastKey: this.#asked.key,
    } satisfies Partial<RequestFacts>;
  }

  /** Notes a call that failed. A request that could not be written for its vendor was never sent, and is none. */
  #noteFailed(error: ErrorCode, at: number): void {
    if (this.#next) return;
    this.#failed ??= [];
    this.#failed.push(this.#attempt(error, at, this.elapsedMs - at));
  }

  #attempt(outcome: string, at: number, ms: number): Attempt {
    const { vendor, model, key } = this.#asked;
    return { vendor, model, key, outcome, at, ms };
  }

  /** When the last attempt began, ms after the request did. */
  get #begunAfter(): number {
    return this.count === 0 ? 0 : Math.round(this.begunAt - this.startedAt);
  }

  /** When the last call to a vendor began, ms after the request did. */
  get #calledAfter(): number {
    return Math.max(this.#begunAfter, Math.round(this.#roundAt - this.startedAt));
  }
}
