import { GatewayError, toGatewayError } from "../canon/errors.ts";
import { commentEnd } from "../dialects/comment.ts";
import type { StreamWriter } from "../dialects/translate.ts";
import type { Fields } from "../lib/http1/fields.ts";
import { type ReadTaker, readTo } from "../vendors/answer.ts";
import type { Way } from "../vendors/health.ts";
import { tryRoutes } from "./dispatch.ts";
import { closingHeaders, type Exchange } from "./exchange.ts";
import { completeOverflow } from "./failure.ts";
import type { Job } from "./job.ts";
import type { Chunks, PieceTaker } from "./reply/chunks.ts";
import { FINISHING_MS, QuietEnd } from "./reply/stream-reader.ts";
import { type Written, writeRest, writeStep } from "./reply/stream-write.ts";
import { noteFailure } from "./routes/note-failure.ts";
import { type GivenUp, SilenceWatch } from "./running/deadline.ts";
import { clientLeft, Ended } from "./running/ended.ts";
import type { Visit } from "./running/running.ts";
import { type KnownDecoder, type Opened, openStream, SILENCE_MS } from "./stream-open.ts";

/** No stream goes on for longer than this, whatever it brings (reliability 6.1). */
const STREAM_MS = 30 * 60_000;

type Result = IteratorResult<string, undefined>;
const OVER: Result = { done: true, value: undefined };

/**
 * The answer as SSE text, one piece per upstream read; the terminator comes after the settle. `next` throws GatewayError only while
 * `state.committed` is false; afterwards a failure is the stream's last record. The visit ends when everything is over.
 *
 * It reads and is read by calls; a generator would be half as long. But thousands of streams wait at the same time, and a chain of suspended functions, or
 * a promise for each piece, would be most of what one costs.
 */
export class RelayedStream implements Chunks, ReadTaker {
  readonly #job: Job;
  readonly #state: { committed: boolean };
  readonly #visit: Pick<Visit, "end">;
  readonly #watch: SilenceWatch;
  /** What ends a comment for this client. Read at the beginning, since the request is let go. */
  readonly #commentEnd: string;
  #opened: Opened | undefined;
  /** The way that the answer comes along, until it is told how it fared. */
  #way: Way | undefined;
  #decoder: KnownDecoder | undefined;
  /** Waits for the piece being made. */
  #taker: PieceTaker | undefined;
  /** Whoever has gone away waits until that piece is given. */
  #given: PromiseWithResolvers<void> | undefined;
  /** The last piece was given: the next call closes up. */
  #ended = false;
  #over = false;

  constructor(job: Job, state: { committed: boolean }, visit: Pick<Visit, "end">) {
    this.#job = job;
    this.#state = state;
    this.#visit = visit;
    this.#commentEnd = commentEnd(job.request.headers);
    this.#watch = new SilenceWatch(job.services.clock, SILENCE_MS, STREAM_MS, this);
  }

  /** The piece that was given is the last one. */
  get isLast(): boolean {
    return this.#ended;
  }

  /** The next piece; one call at a time. */
  next(): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.nextTo({
        onPiece: (value) => resolve({ done: false, value }),
        onOver: () => resolve(OVER),
        onFailure: reject,
      });
    });
  }

  nextTo(taker: PieceTaker): void {
    this.#taker = taker;
    if (this.#ended || this.#over) this.#giveLater(this.#closeUp());
    else if (this.#opened) this.#ask();
    else this.#giveLater(this.#begin());
  }

  /** Whoever reads goes away: waits for the piece being made, then closes up. */
  async return(_value?: undefined): Promise<Result> {
    if (this.#taker) {
      this.#given ??= Promise.withResolvers();
      await this.#given.promise;
    }
    return this.#closeUp();
  }

  #ask(): void {
    const { reader } = this.#opened as Required<Opened>;
    this.#watch.touch();
    readTo(reader, this);
  }

  #give(text: string): void {
    const taker = this.#handOver();
    taker?.onPiece(text);
  }

  /** Gives what a promise brings; nothing: what was read so far came to nothing. */
  #giveLater(late: Promise<Result | undefined>): void {
    late.then(
      (result) => {
        if (!result) this.#ask();
        else if (result.done) this.#handOver()?.onOver();
        else this.#give(result.value);
      },
      (thrown: unknown) => this.#handOver()?.onFailure(thrown),
    );
  }

  /** Whoever waits, and is now to be told. */
  #handOver(): PieceTaker | undefined {
    const taker = this.#taker;
    this.#taker = undefined;
    this.#given?.resolve();
    this.#given = undefined;
    return taker;
  }

  async #begin(): Promise<Result | undefined> {
    try {
      let last: Way | undefined;
      const { first, ...rest } = await tryRoutes(this.#job, (target, way) => {
        last = way;
        // What an attempt that failed has counted, or how far it came, says nothing of this one.
        this.#decoder = undefined;
        return openStream(this.#job, target, way, this.#watch, (decoder) => {
          this.#decoder = decoder;
        });
      });
      this.#opened = rest;
      this.#way = last;
      forgetRequest(this.#job);
      return await this.#write(first, rest.writer);
    } catch (thrown) {
      return this.#breakOff(thrown);
    }
  }

  onBytes(bytes: Uint8Array, from: number, to: number): void {
    this.#take(bytes, from, to);
  }

  onEnd(): void {
    this.#take(undefined, 0, 0);
  }

  onBroken(reason: unknown): void {
    this.#take(undefined, 0, 0, { reason });
  }

  #take(bytes: Uint8Array | undefined, from: number, to: number, broken?: { reason: unknown }): void {
    let text = "";
    try {
      const { reader, writer } = this.#opened as Required<Opened>;
      const step = broken ? reader.breakOff(broken.reason) : reader.accept(bytes, from, to);
      const { finishing } = reader.decoder;
      this.#watch.limit(finishing ? FINISHING_MS : SILENCE_MS);
      const written = writeStep(step, writer, this.#job.exchange);
      if (written.rest || written.ended) {
        this.#giveLater(this.#writeLater(written, writer));
        return;
      }
      text = written.text;
    } catch (failure) {
      this.#giveLater(this.#breakOff(failure));
      return;
    }
    if (text === "") this.#ask();
    else {
      this.#watch.rest(text.length);
      this.#give(text);
    }
  }

  /** What must wait, for money or for the books. */
  async #writeLater(written: Written, writer: StreamWriter): Promise<Result | undefined> {
    try {
      return await this.#write(written.rest ? await writeRest(written, writer, this.#job.exchange) : written, writer);
    } catch (failure) {
      return this.#breakOff(failure);
    }
  }

  /** A piece, or nothing; the last one when the books are closed, before the client hears that its answer is whole. */
  async #write(written: Written, writer: StreamWriter): Promise<Result | undefined> {
    const { exchange } = this.#job;
    const { text, ended, spent, tail } = written;
    if (spent) return this.#runOut(text, writer);
    if (written.error) {
      const error = completeOverflow(written.error, this.#job);
      this.#tellHealth(error);
      await exchange.fail("upstream-failed", error);
      this.#ended = true;
      return { done: false, value: text + this.#closingNote(exchange) + this.#errorText(error) };
    }
    if (ended) {
      // Its vendor did well, whatever becomes of the books.
      this.#tellHealth();
      await exchange.complete();
      this.#ended = true;
      return { done: false, value: text + this.#closingNote(exchange) + writer.end(tail) };
    }
    if (text === "") return undefined;
    this.#watch.rest(text.length);
    return { done: false, value: text };
  }

  /** The money is used up: the vendor is stopped, and the reply ends. */
  async #runOut(text: string, writer: StreamWriter): Promise<Result> {
    const { exchange, abort } = this.#job;
    const tail = exchange.runOut();
    this.#tellHealth();
    await exchange.complete();
    this.#ended = true;
    abort.abort(clientLeft());
    return { done: false, value: text + this.#closingNote(exchange) + writer.end(tail) };
  }

  async #breakOff(thrown: unknown): Promise<Result> {
    const { exchange, request, abort } = this.#job;
    // What became of the books while the vendor had nothing more to say is told, and not that it was quiet.
    const reason: unknown = abort.reason instanceof Ended ? abort.reason : thrown;
    const ended = reason instanceof Ended ? reason : new Ended("upstream-failed", toGatewayError(reason));
    if (ended.outcome === "upstream-failed") this.#tellHealth(ended.error);
    this.#takeUntold();
    try {
      await exchange.fail(ended.outcome, ended.error);
      if (!this.#state.committed) throw ended.tell();
    } catch (failure) {
      await this.#closeUp();
      throw failure;
    }
    if (request.left.aborted) return this.#closeUp();
    this.#ended = true;
    return { done: false, value: this.#closingNote(exchange) + this.#errorText(ended.tell()) };
  }

  /** An error as the stream's last records. */
  #errorText(error: GatewayError): string {
    const { client, requestId } = this.#job.request;
    return this.#opened?.writer.fail?.(error) ?? client.encodeErrorFrame(error, requestId);
  }

  async #closeUp(): Promise<Result> {
    if (this.#over) return OVER;
    this.#over = true;
    const { exchange, abort } = this.#job;
    this.#watch.stop();
    this.#opened?.reader?.close();
    this.#tellHealth();
    try {
      // Nothing is closed yet when the reader went away between two pieces.
      if (!exchange.closed) {
        this.#takeUntold();
        abort.abort(clientLeft());
        await exchange.fail("client-left");
      }
    } finally {
      this.#visit.end();
    }
    return OVER;
  }

  /** The reply is ended in its midst: what its vendor has counted until then is known, and paid (contract 5). */
  #takeUntold(): void {
    const usage = this.#decoder?.untold;
    if (usage) this.#job.exchange.meter.take([{ type: "usage", usage }]);
  }

  /**
   * How the vendor fared with an answer that had begun: one that breaks off its streams, all of them, would be asked for ever, however many other ways
   * there are. An answer that somebody else ended was well so far.
   */
  #tellHealth(error?: GatewayError): void {
    if (!this.#way) return;
    const way = this.#opened?.reader?.way ?? this.#way;
    this.#way = undefined;
    if (error) noteFailure(this.#job, way, error);
    else this.#job.services.health.endedWell(way);
  }

  /** What the stream's end says of its money, as comments before the closing records. */
  #closingNote(exchange: Exchange): string {
    const notes = Object.entries(closingHeaders(exchange));
    return notes.map(([name, value]) => `: ${name}: ${value}${this.#commentEnd}`).join("");
  }

  /** By its watch. */
  giveUp(reason: GivenUp): void {
    const { abort, exchange } = this.#job;
    if (this.#decoder?.finishing && reason !== "stalled") {
      abort.abort(new QuietEnd());
      return;
    }
    const ended = reasonOf(reason);
    abort.abort(ended);
    // A client that reads nothing asks for no further piece, with which the books would be closed. Who waits for one is told when they are.
    if (this.#taker) return;
    this.#takeUntold();
    void exchange.fail(ended.outcome, ended.error);
  }
}

/** What it means for the request that its stream is given up. */
function reasonOf(reason: GivenUp): Ended {
  if (reason === "silent") {
    const text = `The vendor sent nothing for ${SILENCE_MS / 1000} s.`;
    return new Ended("upstream-failed", new GatewayError("upstream_error", text, { retry: false }));
  }
  if (reason === "too-long") {
    const text = `The stream was cut off after ${STREAM_MS / 60_000} minutes.`;
    return new Ended("timed-out", new GatewayError("request_timeout", text));
  }
  const text = "The stream was not read for a minute, and was given up.";
  return new Ended("client-left", new GatewayError("request_timeout", text));
}

const NO_HEADERS: Fields = { get: () => null, has: () => false };
const readNothing = () => Promise.reject(new Error("the request was let go: its answer has begun"));

/**
 * No other route will be tried: a stream that goes on for minutes need not hold the request, which is 2 KB beside its body. The estimate is made
 * while it is there. Where tools are served here, there are further calls upstream, and they are made of it.
 */
function forgetRequest({ exchange, body, request, served }: Job): void {
  void exchange.estimatedInput;
  exchange.asked = undefined;
  // Emptied, not replaced: closures of this request's beginning hold it as long as the stream goes on.
  body.forget();
  if (served) return;
  request.headers = NO_HEADERS;
  request.readBody = readNothing;
}
