import { GatewayError, streamTruncated } from "../../canon/errors.ts";
import type { Event } from "../../canon/events.ts";
import type { Decoder } from "../../dialects/dialect.ts";
import { type Frame, FrameSplitter, FrameTooLong } from "../../dialects/frames.ts";
import type { Abort } from "../../lib/abort.ts";
import type { Clock } from "../../lib/clock.ts";
import { PieceDecoder } from "../../lib/piece-decoder.ts";
import { type Answer, type Read, type ReadTaker, readTo } from "../../vendors/answer.ts";
import type { Way } from "../../vendors/health.ts";
import { Ended } from "../running/ended.ts";
import type { Untold } from "../spending.ts";

/** An upstream stream that brings more than this is cut. */
const MAX_STREAM_BYTES = 256 * 1024 * 1024;
/** How long an upstream is waited for after its finish reason, ms: for its usage, its terminator or a further message (dialects.md 4.8 #17, #42). */
export const FINISHING_MS = 2_000;
/** How long the rest of a body is read after its terminator, so that its connection can be used again. */
const DRAIN_MS = 1_000;

/** Whether and why a request was ended. */
export type Ending = Pick<Abort, "aborted" | "reason">;

/** A record, and what it means. `untold`: where the reply's money is watched, what its vendor has counted until here and no event has told. */
type Heard = { frame: Frame; events: Event[]; untold?: Untold | undefined };
/** What one read of an upstream's stream brought. `tail`: the decoder's last events, behind all frames. `ended`: nothing follows. */
export type Step = { frames: Heard[]; tail: Event[]; ended: boolean };

/** The upstream went quiet after its finish reason: its stream counts as ended (dialects.md 4.8 #17). */
export class QuietEnd extends Error {}

/** What `coming` brings of a reply that is complete but for its terminator; after {@link FINISHING_MS} without it, `quiet` gives the end in its place. */
export async function orQuiet<T>(clock: Clock, coming: Promise<T>, quiet: () => T): Promise<T> {
  const late = Promise.withResolvers<T>();
  const stop = clock.after(FINISHING_MS, () => late.resolve(quiet()));
  try {
    return await Promise.race([coming, late.promise]);
  } finally {
    stop();
  }
}

/**
 * Money that may end before the reply does: it is cut off behind one of its records then (contract 5). `isShort`: that is likely, so they are read one by one.
 */
export type Watched = { readonly isShort: boolean };

/** An upstream's stream, for whoever passes it on. */
export type UpstreamReader = Pick<StreamReader, "read" | "accept" | "breakOff" | "next" | "close"> & {
  readTo?(taker: ReadTaker): void;
  readonly decoder: Pick<Decoder, "finishing">;
  /** Of a reply of several rounds: the way of the one under way. */
  readonly way?: Way;
};

/** The next step of a reader; its last one where the reading broke off. `readOn`: what is read in place of its own next piece. */
export async function nextOf(
  reader: Pick<StreamReader, "read" | "accept" | "breakOff">,
  readOn: () => Promise<Read> = () => reader.read(),
): Promise<Step> {
  let read: Read;
  try {
    read = await readOn();
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
    /** Absent: nothing that the reply costs can end it. */
    private readonly money?: Watched,
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
    const { decoder, money } = this;
    const step: Step = { frames: [], tail: [], ended: false };
    while (!decoder.done) {
      const frame = this.#splitter.next(money?.isShort ? undefined : decoder.pattern);
      if (!frame) break;
      const events = decoder.push(frame);
      step.frames.push({ frame, events, untold: money && untoldBy(decoder) });
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

/** Asked for behind each record, since what is read at once may be shown in part only. */
function untoldBy(decoder: Decoder): Untold | undefined {
  const usage = decoder.untold;
  return usage && { usage, goesOn: !decoder.finishing };
}

/** An answer that is given up for its size. */
export const tooLong = (): GatewayError =>
  new GatewayError("upstream_error", "The vendor's answer is larger than the gateway reads.");

/** The last events of a reply whose reading broke off, or whose upstream was silent for too long. Throws {@link Ended} where something else ended the request itself. */
function failure(thrown: unknown, decoder: Decoder): Event[] {
  const silence = thrown instanceof Ended && thrown.outcome === "upstream-failed" ? thrown.error : undefined;
  if (thrown instanceof Ended && !silence) throw thrown;
  // It broke off behind its finish reason: nothing of the reply is missing.
  if (decoder.finishing) return decoder.end();
  const error = silence ?? (thrown instanceof FrameTooLong ? tooLong() : streamTruncated(thrown));
  // What the decoder has held back is part of the reply, as are the last counts that it knows of.
  return [...decoder.end().filter(({ type }) => type !== "error"), { type: "error", error }];
}
