import type { Clock } from "../lib/clock.ts";

/** Silence after which a ping goes out; contract 7 asks for one at least every 15 s. */
const PING_MS = 12_000;
/**
 * The connection of a client that has taken nothing of what it has for so long is closed (reliability 6.4). The relay has given it up by then: after
 * 60 s, or after the 90 s of a silent vendor, and says in its books why.
 */
const STALLED_MS = 95_000;

const encoder = new TextEncoder();

const HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
};

/** `close` ends the connection, whatever still waits to be sent on it. */
export type SseOptions = {
  ping: string;
  clock: Clock;
  headers: Record<string, string>;
  close?: (() => void) | undefined;
};

/**
 * A stream of SSE text as a response. Pull-driven, so that a slow client slows the upstream; a ping fills the silence; the client
 * leaving ends `chunks`. The text must come as whole records.
 */
export function sseResponse(chunks: AsyncIterator<string>, options: SseOptions): Response {
  const body = new ReadableStream<Uint8Array>(new SseSource(chunks, options));
  return new Response(body, { headers: { ...HEADERS, ...options.headers } });
}

/** The stream's books are closed; a failure of that is in its own log. */
function ignoreClosed(): void {}

/** What feeds the response. A class with one promise for each piece: see RelayedStream for why. */
class SseSource {
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #lastAt: number;
  /** When the last piece went out, unless the next one is being made: that is done once it is taken. */
  #givenAt: number | undefined;
  #stopPing: () => void = () => {};
  #cancelled = false;

  constructor(
    private readonly chunks: AsyncIterator<string>,
    private readonly options: SseOptions,
  ) {
    this.#lastAt = options.clock.monotonic();
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#controller = controller;
    this.#arm(PING_MS);
  }

  pull(): Promise<void> {
    this.#givenAt = undefined;
    return this.chunks.next().then(this.#onPiece, this.#onFailure);
  }

  async cancel(): Promise<void> {
    this.#cancelled = true;
    this.#stopPing();
    await this.chunks.return?.();
  }

  #cut(): void {
    this.#cancelled = true;
    this.#controller?.error(new Error("the client takes nothing"));
    this.options.close?.();
    this.chunks.return?.().catch(ignoreClosed);
  }

  readonly #onPiece = ({ done, value }: IteratorResult<string, undefined>): void => {
    this.#lastAt = this.options.clock.monotonic();
    this.#givenAt = this.#lastAt;
    if (this.#cancelled) return;
    if (!done) {
      this.#controller?.enqueue(encoder.encode(value));
      return;
    }
    this.#stopPing();
    this.#controller?.close();
  };

  readonly #onFailure = (thrown: unknown): never => {
    this.#stopPing();
    throw thrown;
  };

  #arm(waitMs: number): void {
    this.#stopPing = this.options.clock.after(waitMs, () => {
      const now = this.options.clock.monotonic();
      if (this.#givenAt !== undefined && now - this.#givenAt >= STALLED_MS) return this.#cut();
      const silentMs = now - this.#lastAt;
      if (silentMs < PING_MS) return this.#arm(PING_MS - silentMs);
      this.#lastAt = now;
      // A client that does not read what it has needs no ping, and gets no queue.
      if ((this.#controller?.desiredSize ?? 0) > 0) this.#controller?.enqueue(encoder.encode(this.options.ping));
      this.#arm(PING_MS);
    });
  }
}
