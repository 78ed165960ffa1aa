import { toGatewayError } from "../../canon/errors.ts";
import type { Event } from "../../canon/events.ts";
import type { Usage } from "../../canon/usage.ts";
import type { Decoder } from "../../dialects/dialect.ts";
import { NO_FRAME } from "../../dialects/frames.ts";
import { errorOf, type StreamWriter } from "../../dialects/translate.ts";
import type { Answer, Read } from "../../vendors/answer.ts";
import type { Way } from "../../vendors/health.ts";
import type { ReadableAnswer } from "../dispatch.ts";
import { JSON_TYPE, type Reading, readWhole } from "../reply/read-reply.ts";
import { nextOf, orQuiet, type Step, StreamReader, type UpstreamReader } from "../reply/stream-reader.ts";
import { saidBefore } from "../reply/stream-write.ts";
import { decoderOf } from "../target.ts";
import type { ServedLoop } from "./loop.ts";

/** Read in place of a piece of a body: what it stands for waits in the reader, for `accept`. */
const MADE: Read = { done: false };

const step = (fields: Partial<Step>): Step => ({ frames: [], tail: [], ended: false, ...fields });

/** Watches for an upstream that is silent: it is told when another round begins. */
type Watch = { touch(): void };

/** What reads one round: a stream, or a whole body that came in its place. */
type Round = Pick<StreamReader, "read" | "accept" | "breakOff" | "close" | "cancel"> & {
  decoder: Pick<Decoder, "finishing" | "untold">;
};

/** A whole body in the place of a stream (dialects.md 4.8 #28). */
function wholeRound(loop: ServedLoop, answer: Answer, type: string): Round {
  let events: Event[] = [];
  return {
    decoder: { finishing: false },
    async read() {
      const { abort, services } = loop.job;
      events = (await readWhole(answer, type, loop.target, { abort, clock: services.clock })).events;
      return MADE;
    },
    accept: () => step({ frames: [{ frame: NO_FRAME, events }], ended: true }),
    breakOff(thrown) {
      throw thrown;
    },
    close() {},
    cancel() {},
  };
}

/**
 * The streams of a served reply's rounds as one: between two of them the model's calls are answered. To whoever reads, it is one upstream; the
 * events of its steps are the vendor's own, for the meter, and `writer` writes what the client sees.
 */
export class RoundsReader implements UpstreamReader {
  #round: Round;
  #state: "reading" | "answering" | "opening" = "reading";
  /** Made by `read`, for `accept`. */
  #ready: Step | undefined;
  /** Steps that were read and not shown yet: of a reply whose money may end at any record, each step is one record. */
  #unseen: Step[] = [];
  /** What the client is to see next. */
  #shown: Event[] = [];

  constructor(
    private readonly loop: ServedLoop,
    opened: ReadableAnswer,
    private readonly watch: Watch,
  ) {
    this.#round = this.#open(opened);
    this.writer = this.#createWriter();
  }

  /** What those who read know of the decoders of all rounds. */
  readonly decoder: Round["decoder"] = this;
  /** A vendor that is quiet at its end is not waited for by whoever reads: the request must not be ended for it. */
  readonly finishing = false;

  /** See {@link Decoder}: of the round under way. */
  get untold(): Usage | undefined {
    return this.#state === "reading" ? this.#round.decoder.untold : undefined;
  }

  /** Writes what the client sees. Its `push` must follow every step that has frames. */
  readonly writer: StreamWriter;

  get way(): Way {
    return this.loop.way;
  }

  #open({ answer, type }: ReadableAnswer): Round {
    const { job, target } = this.loop;
    if (type === JSON_TYPE) return wholeRound(this.loop, answer, type);
    const decoder = decoderOf(target);
    return new StreamReader(answer, decoder, job.abort, this.watch, job.exchange.spending);
  }

  #createWriter(): StreamWriter {
    const { client, context } = this.loop.target;
    const encoder = client.encoder(context);
    const write = (events: readonly Event[]) => events.map((event) => encoder.push(event)).join("");
    const drain = () => {
      const shown = this.#shown;
      this.#shown = [];
      return shown;
    };
    return {
      push: () => write(drain()),
      end: (tail) => {
        // Steps of this reader carry no finish at their end: whoever gives one cuts the reply off.
        const cut = tail.find((event) => event.type === "finish")?.finish;
        return write(drain()) + write(this.loop.finish(cut)) + encoder.end();
      },
      fail: encoder.fail?.bind(encoder),
    };
  }

  read(): Promise<Read> {
    if (this.#unseen.length > 0) return Promise.resolve(MADE);
    if (this.#state === "answering") return this.#answer();
    if (this.#state === "opening") return this.#openNext();
    return this.#readOn(this.#round);
  }

  /** The next piece of a round. Of one that has told why it ended: its usage and its terminator, if they come soon. */
  #readOn(round: Round): Promise<Read> {
    if (!round.decoder.finishing) return round.read();
    return orQuiet(this.loop.job.services.clock, round.read(), () => {
      round.cancel();
      return { done: true };
    });
  }

  async #answer(): Promise<Read> {
    // As long as calls are answered nobody waits for the vendor.
    const { shown, goesOn } = await this.loop.answerCalls(() => this.watch.touch());
    this.#shown.push(...shown);
    this.#state = goesOn ? "opening" : "reading";
    this.#ready = step({ frames: [{ frame: NO_FRAME, events: [] }], ended: !goesOn });
    return MADE;
  }

  async #openNext(): Promise<Read> {
    // The silence of one vendor is not the next one's.
    const begun = await this.loop.openRound(
      (opened) => this.#begin(opened),
      () => this.watch.touch(),
    );
    this.watch.touch();
    this.#state = "reading";
    if (begun) {
      this.#round = begun.round;
      this.#unseen = this.#split(begun.first);
    } else this.#ready = step({ ended: true });
    return MADE;
  }

  /** Reads a round until something of it is there to be shown. Throws what it failed with before: it may be asked for once more. */
  async #begin(opened: ReadableAnswer): Promise<{ round: Round; first: Step }> {
    const round = this.#open(opened);
    const frames: Step["frames"] = [];
    try {
      for (;;) {
        const { frames: more, tail, ended } = await nextOf(round, () => this.#readOn(round));
        frames.push(...more);
        const events = [...more.flatMap((one) => one.events), ...tail];
        const begins = events.some(({ type }) => type === "block-start");
        const error = errorOf(events);
        if (error && !begins) throw error;
        if (begins || ended || error) return { round, first: { frames, tail, ended } };
      }
    } catch (thrown) {
      // Nothing of it is told otherwise.
      const told = frames.flatMap(({ events }) => events).findLast(({ type }) => type === "usage");
      this.loop.job.exchange.meter.counted = told?.type === "usage" ? told.usage : round.decoder.untold;
      round.close();
      throw thrown;
    }
  }

  accept(bytes?: Uint8Array, from?: number, to?: number): Step {
    const ready = this.#ready;
    this.#ready = undefined;
    if (ready) return ready;
    if (this.#unseen.length === 0) this.#unseen = this.#split(this.#round.accept(bytes, from, to));
    return this.#see(this.#unseen.shift() as Step);
  }

  /** Cuts a step into one for each record where any may be the last that is paid for: the loop must see none that the client is not shown. */
  #split(whole: Step): Step[] {
    const { frames, ...end } = whole;
    if (frames.length < 2 || !this.loop.job.exchange.spending) return [whole];
    return frames.map((frame, at) =>
      at < frames.length - 1 ? step({ frames: [frame] }) : { frames: [frame], ...end },
    );
  }

  breakOff(thrown: unknown): Step {
    const { abort } = this.loop.job;
    if (this.#state === "reading") return this.#see(this.#round.breakOff(thrown));
    if (abort.aborted) throw abort.reason;
    return step({ tail: [{ type: "error", error: toGatewayError(thrown) }], ended: true });
  }

  next(): Promise<Step> {
    return nextOf(this);
  }

  close(): void {
    this.#round.close();
  }

  #show(events: readonly Event[]): void {
    this.#shown.push(...this.loop.take(errorOf(events) ? saidBefore(events) : events));
  }

  /** Shows the client what a step brought; a round that ends with calls to be answered is not the end. */
  #see({ frames, tail, ended }: Step): Step {
    for (const { events } of frames) this.#show(events);
    this.#show(tail);
    if (errorOf(tail)) return { frames, tail, ended };
    const seen = tail.length > 0 ? [...frames, { frame: NO_FRAME, events: tail }] : frames;
    const failed = seen.some(({ events }) => errorOf(events) !== undefined);
    if (!ended || failed || !this.loop.hasCalls) return step({ frames: seen, ended });
    this.#round.close();
    this.#state = "answering";
    return step({ frames: seen });
  }
}

/**
 * Answers a blocking request's calls and asks again, until the model has answered; gives the reply for the client, as JSON text. `reading`: how
 * each round is read. Throws GatewayError when a round fails.
 */
export async function finishWhole(loop: ServedLoop, first: readonly Event[], reading: Reading): Promise<string> {
  const { exchange } = loop.job;
  const { client, context } = loop.target;
  const shown = loop.take(first);
  while (loop.hasCalls) {
    if (exchange.stopped) break;
    const answered = await loop.answerCalls();
    shown.push(...answered.shown);
    if (!answered.goesOn) break;
    const read = await loop.openRound(({ answer, type }) => readWhole(answer, type, loop.target, reading));
    if (!read) break;
    const { events } = read;
    if (!read.heard) exchange.meter.take(events);
    exchange.collector?.take(events);
    shown.push(...loop.take(events));
  }
  return JSON.stringify(client.encodeReply([...shown, ...loop.finish()], context));
}
