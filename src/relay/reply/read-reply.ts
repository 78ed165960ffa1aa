import { GatewayError } from "../../canon/errors.ts";
import type { Event } from "../../canon/events.ts";
import type { Usage } from "../../canon/usage.ts";
import { asFinal } from "../../dialects/refusals/upstream-error.ts";
import { errorOf, insertUsage, translateReply, writeWhole } from "../../dialects/translate.ts";
import type { Clock } from "../../lib/clock.ts";
import { retryAfterSeconds } from "../../lib/http1/retry-after.ts";
import { JsonText } from "../../lib/json-text.ts";
import { type Answer, isOk } from "../../vendors/answer.ts";
import { MAX_REPLY_BYTES, readCapped, readRefusal } from "../../vendors/read-answer.ts";
import { SHOULD_RETRY_HEADER } from "../../wire/header-names.ts";
import { decoderOf, type Target } from "../target.ts";
import type { Follower } from "./follower.ts";
import { type Ending, orQuiet, QuietEnd, type Step, StreamReader } from "./stream-reader.ts";

/** The media type of a stream of records. */
export const EVENT_STREAM = "text/event-stream";
/** And of a whole reply. */
export const JSON_TYPE = "application/json";

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
  throw headers.get(SHOULD_RETRY_HEADER) === "false" ? asFinal(error) : error;
}

/** A whole reply: its text for the client, and its events. `heard`: whoever follows it has told the meter of them. */
export type Whole = { text: string; events: Event[]; heard?: boolean };

/** Who follows a stream that is put together. */
type Following = Pick<Follower, "take" | "ending" | "spending">;

/** How a whole reply is read. */
export type Reading = {
  abort: Ending;
  clock: Clock;
  /** The counts to tell the client where the vendor sent none; undefined where it did. */
  ownCounts?(events: readonly Event[]): Usage | undefined;
  follower?: Following | undefined;
};

/** Reads a whole JSON reply, or a stream that came in its place. Throws GatewayError when it is no reply. */
export function readWhole(answer: Answer, type: string, target: Target, reading: Reading): Whole | Promise<Whole> {
  if (type === EVENT_STREAM) return collectStream(answer, target, reading);
  const text = readCapped(answer, MAX_REPLY_BYTES);
  // It is there already where the whole answer came at once.
  if (typeof text === "string") return toWhole(text, target, reading);
  return text.then((read) => toWhole(read, target, reading));
}

function toWhole(text: string, target: Target, reading: Reading): Whole {
  const body = new JsonText(text);
  try {
    void body.value;
  } catch (cause) {
    throw new GatewayError("upstream_error", "The vendor's answer could not be read.", { cause });
  }
  return translateReply(body, target, target.vendor.quirks, reading.ownCounts);
}

async function collectStream(answer: Answer, target: Target, reading: Reading): Promise<Whole> {
  const { follower, clock } = reading;
  const decoder = decoderOf(target);
  const events: Event[] = [];
  const reader = new StreamReader(answer, decoder, reading.abort, undefined, follower?.spending);
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
async function nextFollowed(reader: StreamReader, clock: Clock, follower: Following | undefined): Promise<Step> {
  const { decoder } = reader;
  try {
    const next = reader.next();
    return await (decoder.finishing ? orQuiet(clock, next, () => reader.breakOff(new QuietEnd())) : next);
  } catch (thrown) {
    if (decoder.untold) await follower?.take([{ type: "usage", usage: decoder.untold }]);
    throw thrown;
  }
}

/** Collects a step's events until whoever follows has had enough: then false, and what was read beyond is nobody's. */
async function takeStep({ frames, tail }: Step, events: Event[], follower: Following | undefined): Promise<boolean> {
  for (const { events: some, untold } of frames) {
    events.push(...some);
    const goesOn = follower?.take(some, untold);
    if (goesOn === false || (goesOn instanceof Promise && !(await goesOn))) return false;
  }
  events.push(...tail);
  return follower?.take(tail) ?? true;
}
