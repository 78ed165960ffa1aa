import { commentEnd } from "../dialects/comment.ts";
import type { Sleeper, Wait } from "../lib/alarms.ts";
import { type Clock, wakeAfter } from "../lib/clock.ts";
import { type Chunks, nextTo, type PieceTaker } from "../relay/reply/chunks.ts";

/** Silence after which a ping goes out; contract 7 asks for one at least every 15 s. */
const PING_MS = 12_000;
/**
 * The connection of a client that has taken nothing of what it has for so long is closed (reliability 6.4). The relay has given it up by then: after
 * 60 s, or after the 90 s of a silent vendor, and says in its books why.
 */
export const STALLED_MS = 95_000;

/** What every stream of events says of itself. */
export const SSE_HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
};

/** An answer that streams SSE text, whole records at a time. `ping` fills the silence. */
export type Streamed = {
  headers: Record<string, string>;
  chunks: Chunks;
  ping: string;
  clock: Clock;
  /** Of a client that takes nothing the connection is ended, whatever still waits to be sent on it. */
  client: { close(): void };
};

/** A dialect's `ping` as this client reads it. */
export const pingFor = (ping: string, headers: Pick<Headers, "has">): string =>
  ping.startsWith(":") ? ping.trimEnd() + commentEnd(headers) : ping;

/** Where the text goes. */
export type Sink = {
  /** Takes a piece; `last`: nothing follows. Asks for the next one by {@link SseFlow.pull} when it has room. */
  send(text: string, last: boolean): void;
  /** Takes what is no piece: the one that was asked for is still to come. */
  ping(text: string): void;
  /** All of it was sent before. */
  end(): void;
  /** The text breaks off here. */
  fail(thrown: unknown): void;
  /** Whether all was taken that was sent. */
  readonly isFree: boolean;
};

/** The stream's books are closed; a failure of that is in its own log. */
function ignoreClosed(): void {}

/**
 * Brings a stream's text to whoever sends it: pull by pull, so that a slow client slows the upstream; a ping fills the silence; the client leaving
 * ends `chunks`. A class with nothing made anew for each piece: see RelayedStream for why.
 */
export class SseFlow implements PieceTaker, Sleeper {
  #lastAt: number;
  /** When the last piece went out, unless the next one is being made: that is done once it is taken. */
  #givenAt: number | undefined;
  #ping: Wait | undefined;
  #over = false;
  /** The last piece, until what follows it is done. */
  #held = "";

  constructor(
    private readonly streamed: Streamed,
    private readonly sink: Sink,
  ) {
    this.#lastAt = streamed.clock.monotonic();
    this.#arm(PING_MS);
  }

  /** Has the next piece sent. */
  pull(): void {
    this.#givenAt = undefined;
    nextTo(this.streamed.chunks, this);
  }

  /** The client is gone. */
  async cancel(): Promise<void> {
    if (this.#over) return;
    this.#finish();
    await this.streamed.chunks.return?.();
  }

  #cut(): void {
    this.#finish();
    this.sink.fail(new Error("the client takes nothing"));
    this.streamed.client.close();
    this.streamed.chunks.return?.().catch(ignoreClosed);
  }

  #finish(): void {
    this.#over = true;
    this.#ping?.stop();
  }

  onPiece(text: string): void {
    if (!this.#takes()) return;
    const { chunks } = this.streamed;
    try {
      if (!chunks.isLast) this.sink.send(text, false);
      else {
        // Nothing is left but to close up: the end goes out along with it.
        this.#held += text;
        this.pull();
      }
    } catch (thrown) {
      this.#breakOff(thrown);
    }
  }

  onOver(): void {
    if (!this.#takes()) return;
    try {
      this.#finish();
      if (this.#held === "") this.sink.end();
      else this.sink.send(this.#held, true);
    } catch (thrown) {
      this.#breakOff(thrown);
    }
  }

  onFailure(thrown: unknown): void {
    if (this.#over) return;
    this.#finish();
    this.sink.fail(thrown);
  }

  /** Something was given; false when nobody is there any more who would take it. */
  #takes(): boolean {
    this.#lastAt = this.streamed.clock.monotonic();
    this.#givenAt = this.#lastAt;
    return !this.#over;
  }

  /** It could not be sent: whoever makes the pieces has to know that nobody asks for another one. */
  #breakOff(thrown: unknown): void {
    this.#finish();
    this.sink.fail(thrown);
    this.streamed.chunks.return?.().catch(ignoreClosed);
  }

  wake(): void {
    const now = this.streamed.clock.monotonic();
    if (this.#givenAt !== undefined && now - this.#givenAt >= STALLED_MS) {
      this.#cut();
      return;
    }
    const silentMs = now - this.#lastAt;
    if (silentMs < PING_MS) {
      this.#arm(PING_MS - silentMs);
      return;
    }
    this.#lastAt = now;
    // Before the ping: where that finds the client gone, this one is taken back.
    this.#arm(PING_MS);
    // A client that does not read what it has needs no ping, and gets no queue.
    if (this.sink.isFree) this.sink.ping(this.streamed.ping);
  }

  #arm(waitMs: number): void {
    this.#ping = wakeAfter(this.streamed.clock, waitMs, this);
  }
}

const encoder = new TextEncoder();

/** A stream as a Response, for whoever hands on one. */
export function sseResponse(streamed: Streamed): Response {
  return new Response(new ReadableStream<Uint8Array>(new SseSource(streamed)), { headers: streamed.headers });
}

/** What feeds the Response. */
class SseSource implements Sink {
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  /** The piece that was asked for is there. */
  #onGiven: (() => void) | undefined;
  readonly #flow: SseFlow;

  constructor(streamed: Streamed) {
    this.#flow = new SseFlow(streamed, this);
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#controller = controller;
  }

  pull(): Promise<void> {
    return new Promise((resolve) => {
      this.#onGiven = resolve;
      this.#flow.pull();
    });
  }

  cancel(): Promise<void> {
    return this.#flow.cancel();
  }

  get isFree(): boolean {
    return (this.#controller?.desiredSize ?? 0) > 0;
  }

  send(text: string, last: boolean): void {
    this.ping(text);
    if (last) this.end();
    else this.#onGiven?.();
  }

  ping(text: string): void {
    this.#controller?.enqueue(encoder.encode(text));
  }

  end(): void {
    this.#controller?.close();
    this.#onGiven?.();
  }

  fail(thrown: unknown): void {
    this.#controller?.error(thrown);
    this.#onGiven?.();
  }
}
