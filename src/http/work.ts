import type { Caller } from "../accounts/caller.ts";
import { toGatewayError } from "../canon/errors.ts";
import type { Clock } from "../lib/clock.ts";
import type { RequestObserver, WorkFacts } from "../observe/request-facts.ts";
import { WorkBook } from "../observe/work-book.ts";
import { MAX_NOTED_MODEL } from "../relay/record.ts";
import { requestIdOf } from "./request.ts";

/** Who is told. */
export type WorkParts = { observer?: RequestObserver | undefined; clock: Clock };

type Known = { subject?: string | undefined } & Partial<
  Omit<WorkFacts, "subject" | "requestId" | "accountId" | "keyId" | "startedAt" | "durationMs" | "calls">
>;

/**
 * A request that is no generation, as the traces see it: told of once, by what it came to, where a valid key came with it. An answer that is given again
 * under an Idempotency-Key is no work, and nobody is told of it.
 */
export class Work {
  readonly book: WorkBook;
  #caller: Caller | undefined;
  #told = false;

  private constructor(
    private readonly request: Request,
    private readonly known: Known & Pick<WorkFacts, "operation" | "dialect">,
    private readonly observer: RequestObserver,
    clock: Clock,
  ) {
    this.book = new WorkBook(clock);
  }

  /** Undefined where no traces are wanted: then it costs nothing. */
  static begin(
    request: Request,
    known: Pick<WorkFacts, "operation" | "dialect" | "subject">,
    { observer, clock }: WorkParts,
  ): Work | undefined {
    return observer?.traces ? new Work(request, { ...known }, observer, clock) : undefined;
  }

  /** The client's trace context. */
  get traceparent(): string | undefined {
    return this.request.headers.get("traceparent") ?? undefined;
  }

  /** Who asks: from here on it is told of. */
  by(caller: Caller): void {
    this.#caller = caller;
  }

  /** What has become known of it. */
  note(more: Known): void {
    Object.assign(this.known, more);
  }

  /** It is done, or ended as `more` says. */
  done(more: Known = {}): void {
    this.note(more);
    const caller = this.#caller;
    if (this.#told || !caller) return;
    this.#told = true;
    this.observer.worked({
      ...{ requestId: requestIdOf(this.request), accountId: caller.accountId, keyId: caller.keyId },
      ...{ outcome: "completed", error: undefined, traceparent: this.traceparent },
      ...this.known,
      subject: this.known.subject?.slice(0, MAX_NOTED_MODEL) ?? "",
      ...this.book.close(),
    });
  }

  /** It was refused, or came to nothing. That a client leaves is no failure. */
  failed(thrown: unknown): void {
    if (this.request.signal.aborted) this.done({ outcome: "client-left" });
    else this.done({ outcome: "refused", error: toGatewayError(thrown).code });
  }

  /** Somebody else tells of it. */
  leave(): void {
    this.#told = true;
  }
}
