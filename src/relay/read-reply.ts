import { GatewayError } from "../canon/errors.ts";
import type { Event } from "../canon/events.ts";
import type { Route } from "../catalog/entry.ts";
import type { ClientDialect, Decoder, ReplyContext, UpstreamDialect } from "../dialects/dialect.ts";
import { type Frame, FrameSplitter, FrameTooLong } from "../dialects/frames.ts";
import { errorOf, translateReply } from "../dialects/translate.ts";
import { JsonText } from "../lib/json.ts";
import { MAX_ERROR_BYTES, MAX_REPLY_BYTES, readCapped, retryAfterSeconds } from "../vendors/send.ts";
import type { Vendor } from "../vendors/vendor.ts";
import { Ended } from "./exchange.ts";

/** An upstream stream that brings more than this is cut. */
const MAX_STREAM_BYTES = 256 * 1024 * 1024;
/** How long the rest of a body is read after its terminator, so that its connection can be used again. */
const DRAIN_MS = 1_000;

/** One route being tried: the vendor, its dialect, and the reply's context. */
export type Target = {
  route: Route;
  vendor: Vendor;
  upstream: UpstreamDialect;
  client: ClientDialect;
  context: ReplyContext;
};

/** Throws what a non-2xx answer means; returns the media type of one that may be read. */
export async function acceptResponse(response: Response, target: Target, now: number): Promise<string> {
  const type = (response.headers.get("content-type") ?? "").split(";")[0]!.trim().toLowerCase();
  if (response.ok) {
    if (type !== "text/html") return type;
    await response.body?.cancel();
    throw new GatewayError("upstream_error", "The vendor answered with a web page instead of a reply.");
  }
  const body = await readCapped(response, MAX_ERROR_BYTES);
  throw target.upstream.decodeError(response.status, body, retryAfterSeconds(response.headers, now));
}

/** A whole reply: its text for the client, and its events for the meter. */
export type Whole = { text: string; events: Event[] };

/** Reads a whole JSON reply, or a stream that came in its place. Throws GatewayError when it is no reply. */
export async function readWhole(response: Response, type: string, target: Target, signal: AbortSignal): Promise<Whole> {
  const { upstream, client, vendor, context } = target;
  if (type === "text/event-stream") return collectStream(response, target, signal);
  const body = new JsonText(await readCapped(response, MAX_REPLY_BYTES));
  try {
    void body.value;
  } catch (cause) {
    throw new GatewayError("upstream_error", "The vendor's answer could not be read.", { cause });
  }
  return translateReply(body, upstream, client, vendor.quirks, context);
}

async function collectStream(response: Response, target: Target, signal: AbortSignal): Promise<Whole> {
  const decoder = target.upstream.decoder({ quirks: target.vendor.quirks });
  const events: Event[] = [];
  for await (const step of readStream(response, decoder, signal, () => {})) {
    for (const { events: some } of step.frames) events.push(...some);
    events.push(...step.tail);
  }
  const error = errorOf(events);
  if (error) throw error;
  return { text: JSON.stringify(target.client.encodeReply(events, target.context)), events };
}

/** What one read of an upstream's stream brought. `tail`: the decoder's last events, behind all frames. `ended`: nothing follows. */
export type Step = { frames: { frame: Frame; events: Event[] }[]; tail: Event[]; ended: boolean };

/** The upstream went quiet after its finish reason: its stream counts as ended (dialects.md 4.8 #17). */
export class QuietEnd extends Error {}

/**
 * An upstream's SSE body as steps, one per read, the last one with what the decoder says at the end. Pull-driven: nothing is read
 * before it is asked for. Throws the signal's reason when the request itself was ended.
 */
export async function* readStream(
  response: Response,
  decoder: Decoder,
  signal: AbortSignal,
  onRead: () => void,
): AsyncGenerator<Step> {
  const reader = response.body?.getReader();
  const text = new TextDecoder();
  const splitter = new FrameSplitter();
  let bytes = 0;
  try {
    while (reader) {
      const { done, value } = await reader.read();
      if (done) break;
      onRead();
      bytes += value.byteLength;
      if (bytes > MAX_STREAM_BYTES) throw new FrameTooLong();
      yield decodeFrames(splitter.push(text.decode(value, { stream: true })), decoder);
      if (decoder.done) return;
    }
    const last = decodeFrames([...splitter.push(text.decode()), ...splitter.end()], decoder);
    yield { ...last, tail: decoder.end(), ended: true };
  } catch (thrown) {
    yield { frames: [], tail: failure(signal.aborted ? signal.reason : thrown, decoder), ended: true };
  } finally {
    if (reader) release(reader);
  }
}

/** How a reply ends whose reading broke. What ended the request itself is thrown on. */
function failure(thrown: unknown, decoder: Decoder): Event[] {
  if (thrown instanceof QuietEnd) return decoder.end();
  if (thrown instanceof Ended) throw thrown;
  const error =
    thrown instanceof FrameTooLong
      ? new GatewayError("upstream_error", "The vendor's answer is larger than the gateway reads.")
      : new GatewayError("stream_truncated", "The vendor's stream broke off before its end.", { cause: thrown });
  return [{ type: "error", error }];
}

function decodeFrames(frames: Frame[], decoder: Decoder): Step {
  const step: Step = { frames: [], tail: [], ended: false };
  for (const frame of frames) {
    if (decoder.done) break;
    step.frames.push({ frame, events: decoder.push(frame) });
  }
  step.ended = decoder.done;
  return step;
}

/** Lets the connection go back to the pool: reads on to the body's end for a moment, then gives up on it. */
function release(reader: Pick<ReadableStreamDefaultReader<Uint8Array>, "read" | "cancel">): void {
  const timer = setTimeout(() => reader.cancel().catch(ignoreAborted), DRAIN_MS);
  const drain = async () => {
    while (!(await reader.read()).done);
  };
  drain()
    .catch(ignoreAborted)
    .finally(() => clearTimeout(timer));
}

/** The body was already aborted or broken: there is nothing left to give back. */
function ignoreAborted(): void {}
