import { GatewayError, streamTruncated } from "../canon/errors.ts";
import type { Event } from "../canon/events.ts";
import type { Usage } from "../canon/usage.ts";
import type { Route } from "../catalog/entry.ts";
import type { ClientDialect, Decoder, ReplyContext, UpstreamDialect } from "../dialects/dialect.ts";
import { type Frame, FrameSplitter, FrameTooLong } from "../dialects/frames.ts";
import { errorOf, insertUsage, translateReply, writeWhole } from "../dialects/translate.ts";
import { asFinal } from "../dialects/upstream-error.ts";
import type { Abort } from "../lib/abort.ts";
import type { Clock } from "../lib/clock.ts";
import { retryAfterSeconds } from "../lib/http1/retry-after.ts";
import { JsonText } from "../lib/json.ts";
import { PieceDecoder } from "../lib/piece-decoder.ts";
import { type Answer, isOk, type Read, type ReadTaker, readTo } from "../vendors/answer.ts";
import type { Way } from "../vendors/health.ts";
import { MAX_REPLY_BYTES, readCapped, readRefusal } from "../vendors/send.ts";
import type { Vendor } from "../vendors/vendor.ts";
import { Ended } from "./ended.ts";

/** An upstream stream that brings more than this is cut. */
const MAX_STREAM_BYTES = 256 * 1024 * 1024;
/** What an upstream gets for its usage record, terminator or next message after what would do as its end (dialects.md 4.8 #17, #42). */
export const FINISHING_MS = 2_000;
/** How long the rest of a body is read after its terminator, so that its connection can be used again. */
const DRAIN_MS = 1_000;

/** By this header the dialects' own vendors, and gateways such as this one, tell SDKs whether asking again can help, whatever the status (dialects.md 1.5). */
const SHOULD_RETRY = "x-should-retry";

/** One route being tried: the vendor, its dialect, and the reply's context. */
export type Target = {
  route: Route;
  vendor: Vendor;
  upstream: UpstreamDialect;
  client: ClientDialect;
  context: ReplyContext;
};

/** What reads the stream that a target answers with. */
export const decoderOf = ({ upstream, vendor, context }: Target): Decoder =>
  upstream.decoder({
    quirks: vendor.quirks,
    cachesForHour: context.cachesForHour,
    usedCallIds: context.usedCallIds,
  });

/** The media type of an answer that may be read, lower-case and without parameters; undefined for one that {@link refuse} explains. */
export function readableType(answer: Answer): string | undefined {
  if (!isOk(answer)) return undefined;
  const header = answer.headers.get("content-type") ?? "";
  const end = header.indexOf(";");
  const type = (end < 0 ? header : header.slice(0, end)).trim().toLowerCase();
  return type === "text/html" ? undefined : type;
}

/** Throws what a non-2xx answer, or a web page in place of one, means to the client. */
export async function refuse(answer: Answer, target: Target, now: number): Promise<never> {
  if (isOk(answer)) {
    answer.cancel();
    throw new GatewayError("upstream_error", "The vendor answered with a web page instead of a reply.");
  }
  const { status, headers } = answer;
  const error = target.upstream.decodeError(status, await readRefusal(answer), retryAfterSeconds(headers, now));
  throw headers.get(SHOULD_RETRY) === "false" ? asFinal(error) : error;
}

/** A whole reply: its text for the client, and its events. `heard`: whoever follows it has told the meter of them. */
export type Whole = { text: string; events: Event[]; heard?: boolean };

/** Who follows a stream that is put together; see its class. */
type Follower = { take(events: readonly Event[]): boolean | Promise<boolean>; ending(): Event[] };

/** Whether and why a request was ended. */
export type Ending = Pick<Abort, "aborted" | "reason">;

/** How a whole reply is read. */
export type Reading = {
  abort: Ending;
  clock: Clock;
  /** The counts to tell the client where the vendor sent none; undefined where it did. */
  ownCounts?(events: readonly Event[]): Usage | undefined;
  follower?: Follower | undefined;
};

/** Reads a whole JSON reply, or a stream that came in its place. Throws GatewayError when it is no reply. */
export function readWhole(answer: Answer, type: string, target: Target, reading: Reading): Whole | Promise<Whole> {
  if (type === "text/event-stream") return collectStream(answer, target, reading);
  const text = readCapped(answer, MAX_REPLY_BYTES);
  // It is there already where the whole answer came at once.
  if (typeof text === "string") return toWhole(text, target, reading);
  return text.then((read) => toWhole(read, target, reading));
}

function toWhole(text: string, { upstream, client, vendor, context }: Target, reading: Reading): Whole {
  const body = new JsonText(text);
  try {
    void body.value;
  } catch (cause) {
    throw new GatewayError("upstream_error", "The vendor's answer could not be read.", { cause });
  }
  return translateReply(body, upstream, client, vendor.quirks, context, reading.ownCounts);
}

async function collectStream(answer: Answer, target: Target, reading: Reading): Promise<Whole> {
  const { follower, clock } = reading;
  const decoder = decoderOf(target);
  const events: Event[] = [];
  const reader = new StreamReader(answer, decoder, reading.abort);
  for (;;) {
    const step = await nextFollowed(reader, clock, follower);
    if (!(await takeStep(step, events, follower))) {
      events.push(...(follower?.ending() ?? []));
      reader.cancel();
      return { text: writeWhole(events, target.client, target.context), events, heard: true };
    }
    if (step.ended) break;
  }
  reader.close();
  const error = errorOf(events);
  if (error) throw error;
  const own = reading.ownCounts?.(events);
  const text = writeWhole(own ? insertUsage(events, own) : events, target.client, target.context);
  return { text, events, heard: follower !== undefined };
}

/** The next step. Where the request itself is ended, whoever follows is told of what the vendor has counted until then: it is paid (contract 5). */
async function nextFollowed(reader: StreamReader, clock: Clock, follower: Follower | undefined): Promise<Step> {
  const { decoder } = reader;
  try {
    return await (decoder.finishing ? nextOrQuiet(reader, clock) : reader.next());
  } catch (thrown) {
    if (decoder.untold) await follower?.take([{ type: "usage", usage: decoder.untold }]);
    throw thrown;
  }
}

/** Collects a step's events until whoever follows has had enough: then false, and what was read beyond is nobody's. */
async function takeStep({ frames, tail }: Step, events: Event[], follower: Follower | undefined): Promise<boolean> {
  for (const { events: some } of frames) {
    events.push(...some);
    const goesOn = follower?.take(some);
    if (goesOn === false || (goesOn instanceof Promise && !(await goesOn))) return false;
  }
  events.push(...tail);
  return follower?.take(tail) ?? true;
}

/** The next step of a reply that would do as it is: when the upstream leaves its body open, that is its end. */
async function nextOrQuiet(reader: StreamReader, clock: Clock): Promise<Step> {
  const quiet = Promise.withResolvers<Step>();
  const stop = clock.after(FINISHING_MS, () => quiet.resolve(reader.breakOff(new QuietEnd())));
  try {
    return await Promise.race([reader.next(), quiet.promise]);
  } finally {
    stop();
  }
}

/** What one read of an upstream's stream brought. `tail`: the decoder's last events, behind all frames. `ended`: nothing follows. */
export type Step = { frames: { frame: Frame; events: Event[] }[]; tail: Event[]; ended: boolean };

/** The upstream went quiet after its finish reason: its stream counts as ended (dialects.md 4.8 #17). */
export class QuietEnd extends Error {}

/** An upstream's stream, as those see it who hand it on. */
export type UpstreamReader = Pick<StreamReader, "read" | "accept" | "breakOff" | "next" | "close"> & {
  readTo?(taker: ReadTaker): void;
  readonly decoder: Pick<Decoder, "finishing">;
  /** Of a reply of several rounds: the way of the one under way. */
  readonly way?: Way;
};

/** What a reader brings next; the last step of one whose reading broke. */
export async function nextOf(reader: Pick<StreamReader, "read" | "accept" | "breakOff">): Promise<Step> {
  let read: Read;
  try {
    read = await reader.read();
  } catch (thrown) {
    return reader.breakOff(thrown);
  }
  return reader.accept(read.done ? undefined : read.value);
}

/** An upstream's SSE body, read step by step and never before it is asked for. */
export class StreamReader {
  readonly #text = new PieceDecoder();
  readonly #splitter = new FrameSplitter();
  #bytes = 0;
  /** The body was read to its end. */
  #isRead = false;

  constructor(
    private readonly answer: Answer,
    readonly decoder: Decoder,
    private readonly abort: Ending,
    private readonly watch?: { touch(): void },
    /** Whose money ends before long: its records are read one by one, since it is cut off behind one (contract 5). */
    private readonly isShort = false,
  ) {}

  /** The next piece of the body, for {@link accept}; what it throws is for {@link breakOff}. */
  read(): Promise<Read> {
    return this.answer.read();
  }

  /** {@link read}, told to `taker`. */
  readTo(taker: ReadTaker): void {
    readTo(this.answer, taker);
  }

  /**
   * What a piece brought, which is these bytes `from` one place `to` another; none at all: the body has ended. Never throws for what the upstream
   * sent: that is an error event of the step.
   */
  accept(bytes?: Uint8Array, from = 0, to = bytes?.length ?? 0): Step {
    try {
      this.watch?.touch();
      if (!bytes) {
        this.#isRead = true;
        return this.#last();
      }
      this.#bytes += to - from;
      if (this.#bytes > MAX_STREAM_BYTES) throw new FrameTooLong();
      this.#splitter.add(this.#text.decode(bytes, from, to));
      this.answer.release?.(bytes);
      return this.#decode();
    } catch (thrown) {
      return this.breakOff(thrown);
    }
  }

  /** The last step of a body whose reading threw. Throws the signal's reason when the request itself was ended. */
  breakOff(thrown: unknown): Step {
    const reason: unknown = this.abort.aborted ? this.abort.reason : thrown;
    return { frames: [], tail: failure(reason, this.decoder), ended: true };
  }

  /** The next step; the last one says `ended`. Throws the signal's reason when the request itself was ended. */
  next(): Promise<Step> {
    return nextOf(this);
  }

  /** Lets the connection go back to the pool: reads on to the body's end for a moment, then gives up on it. */
  close(): void {
    if (!this.#isRead) this.answer.finish(DRAIN_MS);
  }

  /** Ends the upstream's work: nobody wants the rest. */
  cancel(): void {
    this.answer.cancel();
  }

  #decode(): Step {
    const { decoder, isShort } = this;
    const step: Step = { frames: [], tail: [], ended: false };
    while (!decoder.done) {
      const frame = this.#splitter.next(isShort ? undefined : decoder.pattern);
      if (!frame) break;
      step.frames.push({ frame, events: decoder.push(frame) });
    }
    step.ended = decoder.done;
    return step;
  }

  #last(): Step {
    this.#splitter.add(this.#text.end());
    const step = this.#decode();
    for (const frame of this.#splitter.end()) step.frames.push({ frame, events: this.decoder.push(frame) });
    return { ...step, tail: this.decoder.end(), ended: true };
  }
}

/** An answer that is given up for its size. */
export const tooLong = (): GatewayError =>
  new GatewayError("upstream_error", "The vendor's answer is larger than the gateway reads.");

/** How a reply ends whose reading broke. What ended the request itself is thrown on. */
function failure(thrown: unknown, decoder: Decoder): Event[] {
  if (thrown instanceof Ended) throw thrown;
  // Torn off behind what would do as an end: nothing of the reply is missing.
  if (decoder.finishing) return decoder.end();
  const error = thrown instanceof FrameTooLong ? tooLong() : streamTruncated(thrown);
  // What the decoder has held back is part of the reply, as are the last counts that it knows of.
  return [...decoder.end().filter(({ type }) => type !== "error"), { type: "error", error }];
}
