import type { Decoder } from "../dialects/dialect.ts";
import { eventWriter, type StreamWriter, streamWriter } from "../dialects/translate.ts";
import type { Answer } from "../vendors/answer.ts";
import type { Way } from "../vendors/health.ts";
import { open } from "./dispatch.ts";
import type { Exchange } from "./exchange.ts";
import type { Job } from "./job.ts";
import { JSON_TYPE, readWhole } from "./reply/read-reply.ts";
import { FINISHING_MS, StreamReader, tooLong, type UpstreamReader } from "./reply/stream-reader.ts";
import { type Written, withUsage, writeRest, writeStep } from "./reply/stream-write.ts";
import type { SilenceWatch } from "./running/deadline.ts";
import { serveTools } from "./server-tools/server-tools.ts";
import { RoundsReader } from "./server-tools/stream.ts";
import { decoderOf, type Target } from "./target.ts";

/** An upstream that sends nothing for this long is given up (contract 7). */
export const SILENCE_MS = 90_000;
/**
 * The most that a reply may bring before its first words, characters. It is held back until they come, since another vendor may be asked until then. A vendor
 * of the responses dialect repeats the request there, twice, and a request is 32 MiB at the most.
 */
const MAX_BEFORE_WORDS = 64 * 1024 * 1024;

/** A stream that has begun. `reader`: where the rest of it comes from; absent: all of it is there. */
export type Opened = { writer: StreamWriter; reader?: UpstreamReader };
/** With what to send first. */
type Begun = Opened & { first: Written };

/** What a decoder knows of the end of its stream. */
export type KnownDecoder = Pick<Decoder, "finishing" | "untold">;

/** Sends the request along one route and reads until its first content. Throws GatewayError when it fails before. */
export async function openStream(
  job: Job,
  target: Target,
  way: Way,
  watch: SilenceWatch,
  onDecoder: (decoder: KnownDecoder) => void,
): Promise<Begun> {
  const { exchange, abort } = job;
  // The silence of one vendor is not the next one's.
  watch.touch();
  const loop = job.served && serveTools(job, target, way);
  if (loop) {
    const reader = new RoundsReader(loop, await loop.send(), watch);
    onDecoder(reader.decoder);
    watch.touch();
    return readFirst(reader, reader.writer, exchange, watch);
  }
  const { answer, type } = await open(job, target);
  watch.touch();
  if (type === JSON_TYPE) return openWhole(job, target, answer, type);
  const decoder = decoderOf(target);
  onDecoder(decoder);
  const writer = streamWriter(target);
  const reader = new StreamReader(answer, decoder, abort, watch, exchange.spending);
  return readFirst(reader, writer, exchange, watch);
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
  try {
    for (;;) {
      const begun = writeStep(await reader.next(), writer, exchange);
      const written = begun.rest ? await writeRest(begun, writer, exchange) : begun;
      watch.limit(decoder.finishing ? FINISHING_MS : SILENCE_MS);
      text += written.text;
      if (written.error && !meter.sawOutput) throw written.error;
      if (written.error || written.ended || meter.sawOutput) return { writer, first: { ...written, text }, reader };
      if (text.length > MAX_BEFORE_WORDS) throw tooLong();
    }
  } catch (thrown) {
    // Whatever it was: nobody else knows of this reader, whose vendor would wait to be read.
    reader.close();
    // The short wait for the end of a reply that came to nothing is over: what may follow is a pause, and another attempt.
    watch.limit(SILENCE_MS);
    throw thrown;
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
