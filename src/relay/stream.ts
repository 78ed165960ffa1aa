import { GatewayError, toGatewayError } from "../canon/errors.ts";
import type { Event } from "../canon/events.ts";
import { errorOf, eventWriter, type StreamWriter, streamWriter } from "../dialects/translate.ts";
import type { Meter } from "../ledger/meter.ts";
import { JsonText } from "../lib/json.ts";
import { SilenceWatch } from "./deadline.ts";
import { dispatch, tryRoutes } from "./dispatch.ts";
import { clientLeft, Ended } from "./exchange.ts";
import type { Job } from "./job.ts";
import { QuietEnd, readWhole, type Step, StreamReader, type Target } from "./read-reply.ts";

/** An upstream that sends nothing for this long is given up (contract 7). */
const SILENCE_MS = 90_000;
/** What an upstream gets for its usage record and terminator after its finish reason (dialects.md 4.8 #17). */
const FINISHING_MS = 2_000;

/** What a step came to: text for the client, and whether the reply ended, well or badly. */
type Written = { text: string; error?: GatewayError; ended: boolean; tail: readonly Event[] };

/** A stream that has begun: what to send first, and where the rest comes from. */
type Opened = { writer: StreamWriter; first: Written; next(): Promise<Written>; close(): void };

/**
 * The answer as SSE text, one piece per upstream read; the terminator comes after the settle. Throws GatewayError only while
 * `state.committed` is false; afterwards a failure is the stream's last record. `done` is called when everything is over.
 */
export async function* relayStream(job: Job, state: { committed: boolean }, done: () => void): AsyncGenerator<string> {
  const { exchange, request, abort } = job;
  let finishing = () => false;
  const watch = new SilenceWatch(job.services.clock, SILENCE_MS, () => {
    const text = `The vendor sent nothing for ${SILENCE_MS / 1000} s.`;
    const silent = new Ended("upstream-failed", new GatewayError("upstream_error", text, { retry: false }));
    abort.abort(finishing() ? new QuietEnd() : silent);
  });
  let opened: Opened | undefined;
  try {
    opened = await tryRoutes(job, (target) =>
      openStream(job, target, watch, (isFinishing) => {
        finishing = isFinishing;
      }),
    );
    forgetBody(job);
    for (let written = opened.first; ; written = await opened.next()) {
      if (written.error) {
        await exchange.fail("upstream-failed", written.error);
        yield written.text + request.client.encodeErrorFrame(written.error, request.requestId);
        return;
      }
      if (written.ended) {
        await exchange.complete();
        yield written.text + opened.writer.end(written.tail);
        return;
      }
      if (written.text !== "") yield written.text;
    }
  } catch (thrown) {
    const reason: unknown = abort.signal.aborted ? abort.signal.reason : thrown;
    const ended = reason instanceof Ended ? reason : new Ended("upstream-failed", toGatewayError(reason));
    await exchange.fail(ended.outcome, ended.error);
    if (!state.committed) throw ended.error;
    if (!request.signal.aborted) yield request.client.encodeErrorFrame(ended.error, request.requestId);
  } finally {
    watch.stop();
    opened?.close();
    // Nothing is closed yet when the reader went away between two pieces.
    if (!exchange.closed) {
      abort.abort(clientLeft());
      await exchange.fail("client-left", clientLeft().error);
    }
    done();
  }
}

const FORGOTTEN = new JsonText("{}");

/** No other route will be tried: a stream that goes on for minutes need not hold the request. The estimate is made while it is there. */
function forgetBody(job: Job): void {
  const estimated = job.exchange.estimatedInput;
  job.exchange.estimateInput = () => estimated;
  job.body = FORGOTTEN;
}

/** Sends the request along one route and reads until its first content. Throws GatewayError when it fails before. */
async function openStream(
  job: Job,
  target: Target,
  watch: SilenceWatch,
  onFinishing: (isFinishing: () => boolean) => void,
): Promise<Opened> {
  const { exchange, abort } = job;
  const { response, type } = await dispatch(job, target);
  watch.touch();
  if (type === "application/json") return openWhole(job, target, response, type);
  const decoder = target.upstream.decoder({ quirks: target.vendor.quirks });
  onFinishing(() => decoder.finishing);
  const writer = streamWriter(target.upstream, target.client, target.context);
  const reader = new StreamReader(response, decoder, abort.signal, () => watch.touch());
  const { meter } = exchange;
  const next = async () => {
    const step = await reader.next();
    if (decoder.finishing) watch.limit(FINISHING_MS);
    return writeStep(step, writer, meter);
  };
  let text = "";
  for (;;) {
    const written = await next();
    text += written.text;
    if (written.error && !meter.sawOutput) {
      reader.close();
      throw written.error;
    }
    if (written.error || written.ended || meter.sawOutput) {
      return { writer, first: { ...written, text }, next, close: () => reader.close() };
    }
  }
}

/** An upstream that answered a stream with one whole body: its events are written as a stream (dialects.md 4.8 #28). */
async function openWhole(job: Job, target: Target, response: Response, type: string): Promise<Opened> {
  const { events } = await readWhole(response, type, target, job.abort.signal);
  job.exchange.meter.take(events);
  const writer = eventWriter(target.client, target.context);
  const first = { text: "", ended: true, tail: events };
  return { writer, first, next: async () => first, close() {} };
}

function writeStep(step: Step, writer: StreamWriter, meter: Meter): Written {
  let text = "";
  for (const { frame, events } of step.frames) {
    if (events.length > 0) meter.take(events);
    const error = errorOf(events);
    if (error) return { text, error, ended: true, tail: [] };
    text += writer.push(frame, events);
  }
  meter.take(step.tail);
  const error = errorOf(step.tail);
  return { text, ...(error && { error }), ended: step.ended, tail: step.tail };
}
