import { GatewayError, toGatewayError } from "../canon/errors.ts";
import type { Event } from "../canon/events.ts";
import type { Decoder } from "../dialects/dialect.ts";
import { errorOf, eventWriter, insertUsage, type StreamWriter, streamWriter } from "../dialects/translate.ts";
import type { Fields } from "../lib/http1/fields.ts";
import type { Answer, Read } from "../vendors/answer.ts";
import { type GivenUp, SilenceWatch } from "./deadline.ts";
import { open, tryRoutes } from "./dispatch.ts";
import { clientLeft, Ended } from "./ended.ts";
import { closingHeaders, type Exchange } from "./exchange.ts";
import type { Job } from "./job.ts";
import {
  FINISHING_MS,
  QuietEnd,
  readWhole,
  type Step,
  StreamReader,
  type Target,
  type UpstreamReader,
} from "./read-reply.ts";
import { serveTools } from "./server-tools.ts";
import { RoundsReader } from "./server-tools-stream.ts";

/** An upstream that sends nothing for this long is given up (contract 7). */
const SILENCE_MS = 90_000;
/** No stream goes on for longer than this, whatever it brings (reliability 6.1). */
const STREAM_MS = 30 * 60_000;

/** What a step came to: text for the client, and whether the reply ended, well or badly, or because its money did (`spent`). */
type Written = {
  text: string;
  error?: GatewayError;
  ended: boolean;
  spent?: true;
  tail: readonly Event[];
  /** What is written when it is known whether there is money for it: that is being asked in another process. */
  rest?: Step;
};

/** A stream that has begun: where the rest comes from; no reader: all is there. */
type Opened = { writer: StreamWriter; reader?: UpstreamReader };
/** With what to send first. */
type Begun = Opened & { first: Written };

type Result = IteratorResult<string, undefined>;
const OVER: Result = { done: true, value: undefined };

/**
 * The answer as SSE text, one piece per upstream read; the terminator comes after the settle. `next` throws GatewayError only while
 * `state.committed` is false; afterwards a failure is the stream's last record. `done` is called when everything is over.
 */
export function relayStream(job: Job, state: { committed: boolean }, done: () => void): RelayedStream {
  return new RelayedStream(job, state, done);
}

/**
 * The iterator behind {@link relayStream}. A class with one promise for each piece, where a generator would be half as long: thousands
 * of streams wait at the same time, and what a chain of suspended functions keeps for each of them is most of what a stream costs.
 */
export class RelayedStream implements AsyncIterator<string, undefined> {
  readonly #job: Job;
  readonly #state: { committed: boolean };
  readonly #done: () => void;
  readonly #watch: SilenceWatch;
  #opened: Opened | undefined;
  #decoder: Decoder | undefined;
  /** The piece being made. */
  #pending: Promise<Result> | undefined;
  /** The last piece was given: the next call closes up. */
  #ended = false;
  #over = false;

  constructor(job: Job, state: { committed: boolean }, done: () => void) {
    this.#job = job;
    this.#state = state;
    this.#done = done;
    this.#watch = new SilenceWatch(job.services.clock, SILENCE_MS, STREAM_MS, (reason) => this.#giveUp(reason));
  }

  /** The piece that was given is the last one. */
  get isLast(): boolean {
    return this.#ended;
  }

  /** The next piece; one call at a time. */
  next(): Promise<Result> {
    if (this.#ended || this.#over) this.#pending = this.#closeUp();
    else if (this.#opened?.reader) {
      this.#watch.touch();
      this.#pending = this.#opened.reader.read().then(this.#onRead, this.#onFailure);
    } else this.#pending = this.#begin();
    return this.#pending;
  }

  /** Whoever reads goes away: waits for the piece being made, then closes up. */
  async return(_value?: undefined): Promise<Result> {
    await this.#pending?.catch(ignoreTold);
    return this.#closeUp();
  }

  async #begin(): Promise<Result> {
    try {
      const { first, ...rest } = await tryRoutes(this.#job, (target) =>
        openStream(this.#job, target, this.#watch, (decoder) => {
          this.#decoder = decoder;
        }),
      );
      forgetRequest(this.#job);
      this.#opened = rest;
      return await this.#give(first, rest.writer);
    } catch (thrown) {
      return this.#breakOff(thrown);
    }
  }

  readonly #onRead = (read: Read): Result | Promise<Result> => this.#takeRead(read, undefined);
  readonly #onFailure = (thrown: unknown): Result | Promise<Result> => this.#takeRead(undefined, thrown);

  #takeRead(read: Read | undefined, thrown: unknown): Result | Promise<Result> {
    try {
      const { reader, writer } = this.#opened as Required<Opened>;
      const step = read ? reader.accept(read) : reader.breakOff(thrown);
      const { finishing } = reader.decoder;
      this.#watch.limit(finishing ? FINISHING_MS : SILENCE_MS);
      const written = writeStep(step, writer, this.#job.exchange);
      if (written.rest) return this.#giveWhenPaid(written, writer);
      if (written.ended) return this.#give(written, writer).catch((failure) => this.#breakOff(failure));
      if (written.text === "") return this.next();
      this.#watch.rest();
      return { done: false, value: written.text };
    } catch (failure) {
      return this.#breakOff(failure);
    }
  }

  /** A piece that is not empty or the last one; the books are closed before the client hears that its answer is whole. */
  async #give(written: Written, writer: StreamWriter): Promise<Result> {
    const { exchange, request } = this.#job;
    const { text, error, ended, spent, tail } = written;
    if (spent) return this.#runOut(text, writer);
    if (error) {
      await exchange.fail("upstream-failed", error);
      this.#ended = true;
      return { done: false, value: text + request.client.encodeErrorFrame(error, request.requestId) };
    }
    if (ended) {
      await exchange.complete();
      this.#ended = true;
      return { done: false, value: text + closingNote(exchange) + writer.end(tail) };
    }
    this.#watch.rest();
    return text === "" ? this.next() : { done: false, value: text };
  }

  async #giveWhenPaid(held: Written, writer: StreamWriter): Promise<Result> {
    try {
      return await this.#give(await writeRest(held, writer, this.#job.exchange), writer);
    } catch (failure) {
      return this.#breakOff(failure);
    }
  }

  /** The money is used up: the vendor is stopped, and the reply ends as one that has reached its ceiling (contract 5). */
  async #runOut(text: string, writer: StreamWriter): Promise<Result> {
    const { exchange, abort } = this.#job;
    const { usage } = exchange.counted;
    exchange.stopped = true;
    await exchange.complete();
    this.#ended = true;
    abort.abort(clientLeft());
    const tail: Event[] = [
      { type: "block-end" },
      { type: "usage", usage },
      { type: "finish", finish: { reason: "length" } },
    ];
    return { done: false, value: text + closingNote(exchange) + writer.end(tail) };
  }

  async #breakOff(thrown: unknown): Promise<Result> {
    const { exchange, request, abort } = this.#job;
    const reason: unknown = abort.aborted ? abort.reason : thrown;
    const ended = reason instanceof Ended ? reason : new Ended("upstream-failed", toGatewayError(reason));
    try {
      await exchange.fail(ended.outcome, ended.error);
      if (!this.#state.committed) throw ended.error;
    } catch (failure) {
      await this.#closeUp();
      throw failure;
    }
    if (request.left.aborted) return this.#closeUp();
    this.#ended = true;
    return { done: false, value: request.client.encodeErrorFrame(ended.error, request.requestId) };
  }

  async #closeUp(): Promise<Result> {
    if (this.#over) return OVER;
    this.#over = true;
    const { exchange, abort } = this.#job;
    this.#watch.stop();
    this.#opened?.reader?.close();
    try {
      // Nothing is closed yet when the reader went away between two pieces.
      if (!exchange.closed) {
        abort.abort(clientLeft());
        await exchange.fail("client-left", clientLeft().error);
      }
    } finally {
      this.#done();
    }
    return OVER;
  }

  #giveUp(reason: GivenUp): void {
    const { abort, exchange } = this.#job;
    if (this.#decoder?.finishing && reason !== "stalled") {
      abort.abort(new QuietEnd());
      return;
    }
    const ended = reasonOf(reason);
    abort.abort(ended);
    // A client that reads nothing asks for no further piece, with which the books would be closed.
    if (reason !== "silent") void exchange.fail(ended.outcome, ended.error);
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

/** What a stream's end says of its money, as comments before the closing records; nothing where nothing is paid. */
function closingNote(exchange: Exchange): string {
  if (!exchange.charge?.metered) return "";
  const notes = Object.entries(closingHeaders(exchange));
  return notes.map(([name, value]) => `: ${name}: ${value}\n\n`).join("");
}

/** Whoever asked for the piece was told. */
function ignoreTold(): void {}

const NO_HEADERS: Fields = { get: () => null, has: () => false };
const readNothing = () => Promise.reject(new Error("the request was let go: its answer has begun"));

/**
 * No other route will be tried: a stream that goes on for minutes need not hold the request, which is 2 KB beside its body. The estimate is made
 * while it is there. Where tools are served here, there are further calls upstream, and they are made of it.
 */
function forgetRequest({ exchange, body, request, served }: Job): void {
  void exchange.estimatedInput;
  // Emptied, not replaced: closures of this request's beginning hold it as long as the stream goes on.
  body.forget();
  if (served) return;
  request.headers = NO_HEADERS;
  request.readBody = readNothing;
}

/** Sends the request along one route and reads until its first content. Throws GatewayError when it fails before. */
async function openStream(
  job: Job,
  target: Target,
  watch: SilenceWatch,
  onDecoder: (decoder: Decoder) => void,
): Promise<Begun> {
  const { exchange, abort } = job;
  const loop = job.served && serveTools(job, target);
  if (loop) {
    const reader = new RoundsReader(loop, await loop.send(), watch);
    watch.touch();
    return readFirst(reader, reader.writer, exchange, watch);
  }
  const { answer, type } = await open(job, target);
  watch.touch();
  if (type === "application/json") return openWhole(job, target, answer, type);
  const decoder = target.upstream.decoder({ quirks: target.vendor.quirks });
  onDecoder(decoder);
  const writer = streamWriter(target.upstream, target.client, target.context);
  return readFirst(new StreamReader(answer, decoder, abort, watch), writer, exchange, watch);
}

async function readFirst(
  reader: UpstreamReader,
  writer: StreamWriter,
  exchange: Exchange,
  watch: SilenceWatch,
): Promise<Begun> {
  const { decoder } = reader;
  const { meter } = exchange;
  let text = "";
  for (;;) {
    const begun = writeStep(await reader.next(), writer, exchange);
    const written = begun.rest ? await writeRest(begun, writer, exchange) : begun;
    watch.limit(decoder.finishing ? FINISHING_MS : SILENCE_MS);
    text += written.text;
    if (written.error && !meter.sawOutput) {
      reader.close();
      throw written.error;
    }
    if (written.error || written.ended || meter.sawOutput) return { writer, first: { ...written, text }, reader };
  }
}

/** An upstream that answered a stream with one whole body: its events are written as a stream (dialects.md 4.8 #28). */
async function openWhole(job: Job, target: Target, answer: Answer, type: string): Promise<Begun> {
  const { events } = await readWhole(answer, type, target, { abort: job.abort, clock: job.services.clock });
  job.exchange.meter.take(events);
  job.exchange.collector?.take(events);
  const tail = withUsage(events, job.exchange);
  return { writer: eventWriter(target.client, target.context), first: { text: "", ended: true, tail } };
}

/** A vendor that sent no counts: before the finish the client is told those that it will be billed. */
function withUsage(events: readonly Event[], exchange: Exchange): readonly Event[] {
  if (!events.some((event) => event.type === "finish")) return events;
  const { usage, estimated } = exchange.counted;
  return estimated ? insertUsage(events, usage) : events;
}

function writeStep(step: Step, writer: StreamWriter, exchange: Exchange): Written {
  const { meter, spending } = exchange;
  let text = "";
  let taken = 0;
  for (const { frame, events } of step.frames) {
    taken++;
    if (events.length > 0) {
      meter.take(events);
      exchange.collector?.take(events);
      spending?.take(events);
    }
    const error = errorOf(events);
    if (error) return { text, error, ended: true, tail: [] };
    text += writer.push(frame, withUsage(events, exchange));
    // What was read beyond is neither shown nor paid: a fast vendor brings thousands of tokens at a time.
    if (spending?.exhausted) return { text, ended: true, spent: true, tail: [] };
    if (spending?.asked) return { text, ended: false, tail: [], rest: { ...step, frames: step.frames.slice(taken) } };
  }
  meter.take(step.tail);
  exchange.collector?.take(step.tail);
  const error = errorOf(step.tail);
  return { text, ...(error && { error }), ended: step.ended, tail: withUsage(step.tail, exchange) };
}

/** Goes on with a step that waits for money, until all of it is written or there is none. */
async function writeRest(held: Written, writer: StreamWriter, exchange: Exchange): Promise<Written> {
  let written = held;
  let text = held.text;
  while (written.rest) {
    await exchange.spending?.asked;
    if (exchange.spending?.exhausted) return { text, ended: true, spent: true, tail: [] };
    written = writeStep(written.rest, writer, exchange);
    text += written.text;
  }
  return { ...written, text };
}
