import { type ErrorForm, readError, writeError } from "./messages.ts";

/** Functions of one argument that can be called from another process. */
type Functions = Record<string, (told: never) => unknown>;
/** Handlers for calls from the other side: each may answer at once or with a promise. (Notes have no answer.) */
export type Answers<Calls> = {
  [Name in keyof Calls]: Calls[Name] extends (ask: infer Ask) => infer Answer
    ? (ask: Ask) => Answer | Promise<Answer>
    : never;
};

/** What crosses in one turn of the event loop: calls, answers, failures and notes, in the order in which they were made. */
export type Message =
  | readonly ["?", id: number, name: string, told: unknown]
  | readonly ["=", id: number, answer: unknown]
  | readonly ["!", id: number, error: ErrorForm]
  | readonly [".", name: string, told: unknown];

/** Most calls that wait for their answer at the same time. Each belongs to a request or a look at the figures, which have bounds of their own. */
const MAX_PENDING = 200_000;

/**
 * How long messages gather while there are many (the last batch held several), ms: to write and read a batch costs more than the messages in it, and wakes
 * the other process. A single message waits only for the end of this turn of the event loop.
 */
const GATHER_MS = 1;

type Pending = { resolve(answer: unknown): void; reject(reason: unknown): void };

/** What one side of a channel is made of. */
export type ChannelParts<OwnCalls, OwnNotes> = {
  /** Writes one batch; the other side takes batches in the order in which they were written. */
  post(batch: readonly Message[]): void;
  /** How this side answers the other side's calls. */
  answers: Answers<OwnCalls>;
  /** What this side does with the other side's notes. */
  heard: OwnNotes;
  /** A note's handler threw. */
  onFault(thrown: unknown): void;
};

/**
 * Calls and notes between two processes; messages arrive in the order in which they were sent. `Calls` and `Notes` are what the other side takes,
 * `OwnCalls` and `OwnNotes` what this side does. All messages of one turn of the event loop are written at once: a write for each would cost more than
 * everything else.
 */
export class Channel<Calls extends Functions, Notes extends Functions, OwnCalls, OwnNotes> {
  #waiting: Message[] = [];
  #scheduled = false;
  #lastBatch = 0;
  readonly #flush = () => this.flush();
  #closed: Error | undefined;
  #nextId = 1;
  readonly #pending = new Map<number, Pending>();

  constructor(private readonly parts: ChannelParts<OwnCalls, OwnNotes>) {}

  /** Calls the other side. Rejects with the other side's error as a GatewayError, with the reason of {@link close}, or where too many calls wait. */
  call<Name extends keyof Calls & string>(
    name: Name,
    told: Parameters<Calls[Name]>[0],
  ): Promise<Awaited<ReturnType<Calls[Name]>>> {
    if (this.#closed) return Promise.reject(this.#closed);
    if (this.#pending.size >= MAX_PENDING) return Promise.reject(new Error("Too many calls wait for their answer."));
    const id = this.#nextId++;
    const { promise, resolve, reject } = Promise.withResolvers<Awaited<ReturnType<Calls[Name]>>>();
    this.#pending.set(id, { resolve: resolve as (answer: unknown) => void, reject });
    this.#send(["?", id, name, told]);
    return promise;
  }

  /** Sends a note, which has no answer. Without effect on a closed channel. */
  note<Name extends keyof Notes & string>(name: Name, told: Parameters<Notes[Name]>[0]): void {
    if (!this.#closed) this.#send([".", name, told]);
  }

  /** To be called with each batch of the other side, in their order. */
  receive(batch: readonly Message[]): void {
    for (const message of batch) {
      if (this.#closed) return;
      this.#take(message);
    }
  }

  /** To be called when the other side is gone: all calls that wait reject with `reason`, and so do later ones. */
  close(reason: Error): void {
    if (this.#closed) return;
    this.#closed = reason;
    this.#waiting = [];
    for (const { reject } of this.#pending.values()) reject(reason);
    this.#pending.clear();
  }

  /** Writes what waits. */
  flush(): void {
    this.#scheduled = false;
    if (this.#waiting.length === 0) return;
    const batch = this.#waiting;
    this.#lastBatch = batch.length;
    this.#waiting = [];
    this.parts.post(batch);
  }

  #take(message: Message): void {
    if (message[0] === "?") this.#answer(message[1], message[2], message[3]);
    else if (message[0] === ".") this.#hear(message[1], message[2]);
    else if (message[0] === "=") this.#endCall(message[1])?.resolve(message[2]);
    else this.#endCall(message[1])?.reject(readError(message[2]));
  }

  #endCall(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    return pending;
  }

  #answer(id: number, name: string, told: unknown): void {
    const handler = (this.parts.answers as Record<string, (told: unknown) => unknown>)[name];
    const fail = (thrown: unknown) => this.#send(["!", id, writeError(thrown)]);
    try {
      if (!handler) throw new Error(`Nobody answers ${name}.`);
      const answer = handler(told);
      if (answer instanceof Promise) answer.then((value: unknown) => this.#send(["=", id, value]), fail);
      else this.#send(["=", id, answer]);
    } catch (thrown) {
      fail(thrown);
    }
  }

  #hear(name: string, told: unknown): void {
    try {
      (this.parts.heard as Record<string, ((told: unknown) => void) | undefined>)[name]?.(told);
    } catch (thrown) {
      this.parts.onFault(thrown);
    }
  }

  #send(message: Message): void {
    if (this.#closed) return;
    this.#waiting.push(message);
    if (this.#scheduled) return;
    this.#scheduled = true;
    if (this.#lastBatch > 1) setTimeout(this.#flush, GATHER_MS);
    else setImmediate(this.#flush);
  }
}
