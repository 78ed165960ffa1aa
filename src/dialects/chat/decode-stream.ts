import { GatewayError, streamTruncated } from "../../canon/errors.ts";
import type { Event, Picture } from "../../canon/events.ts";
import { sameUsage, type Usage, withLong } from "../../canon/usage.ts";
import { randomBase62 } from "../../lib/id.ts";
import { isObject } from "../../lib/json.ts";
import type { DecodeContext, Decoder } from "../dialect.ts";
import { type Frame, learnPattern, type TextPattern, type TextRun } from "../frames.ts";
import { pictureLink } from "../media/pictures.ts";
import { wholeSeconds, withTier } from "../openai-fields.ts";
import { DetailsJoiner, detailsBlock, detailsOf } from "../reasoning/details.ts";
import { isErrorBody } from "../refusals/raw-error.ts";
import { innerError, unreadableRecord } from "../refusals/upstream-error.ts";
import { startEvent } from "../reply/start.ts";
import { BlockWriter } from "./block-writer.ts";
import { annotationsIn, listsSources, sourcesIn } from "./citations.ts";
import { callsIn, contentText, reasoningSignature, reasoningText } from "./delta.ts";
import { failureIn, matchedStop, readFinish } from "./finish.ts";
import { PICTURES, picturesIn } from "./pictures.ts";
import { mayBePreopened, type Split, ThinkSplitter } from "./think-tags.ts";
import { readToolFragment, ToolTracker } from "./tool-calls.ts";
import { readUsage } from "./usage.ts";

/**
 * Whether a record without a word of a reply tells of a fault by other names: FastAPI's `detail`, MiniMax's `base_resp` (dialects.md 1.5), what DeepInfra and
 * Venice have in place of a 400 (NousResearch/hermes-agent #65631, #68451), SiliconFlow's number and its sentence, FastChat's number, behind which it says
 * that the reply is whole (lm-sys/FastChat, `openai_api_server.py`).
 */
function isRefusal(value: Record<string, unknown>): boolean {
  const {
    choices,
    usage,
    detail,
    error_message: sentence,
    error_code: fault,
    code,
    message,
    base_resp: response,
  } = value;
  if ((Array.isArray(choices) && choices.length > 0) || usage) return false;
  if (detail || sentence || fault || (code && message)) return true;
  return isObject(response) && Number(response["status_code"]) > 0;
}

/** The error that a frame's JSON stands for, in any of the shapes seen inside a 200 (dialects.md 1.5 and 4.8 #22). */
export function errorInside(value: Record<string, unknown>): GatewayError | undefined {
  return isErrorBody(value) || isRefusal(value) ? innerError(value) : undefined;
}

/** Whether a frame's data is the dialect's terminator, however it is padded (dialects.md 4.8 #27). */
export function isTerminator(data: string): boolean {
  return data.startsWith("[DONE]") || data.trimStart().startsWith("[DONE]");
}

/** Something to seed invented ids with: what the vendor says identifies this reply, else chance. */
export function replySeed(value: Record<string, unknown>): string {
  const id = value["id"];
  return typeof id === "string" && id !== "" ? `${id}/${value["created"] ?? ""}` : randomBase62(22);
}

/** The vendor's word for a choice's end; undefined while it goes on. */
export function finishOf(choice: Record<string, unknown>): string | undefined {
  const word = choice["finish_reason"];
  return typeof word === "string" && word !== "" ? word : undefined;
}

/**
 * Whether a choice that seemed to have ended says more. Its whole message once again, with which some end, is none of that (MiniMax), nor is an empty
 * delta.
 */
export function goesOn({ delta }: Record<string, unknown>): boolean {
  if (!isObject(delta)) return false;
  return callsIn(delta).length > 0 || contentText(delta["content"]) !== "" || reasoningText(delta) !== "";
}

/** What a choice says of its reply, and whether it or one before has said something in a piece: a message behind pieces is all of them once more. */
export class Pieces {
  #said = false;

  of(choice: Record<string, unknown>): unknown {
    const { delta, message } = choice;
    if (delta == null) return this.#said ? undefined : message;
    this.#said ||= goesOn(choice);
    return delta;
  }
}

/** The counts that stand inside a choice, with its end, where Moonshot has them. */
function usageInside(choices: unknown): unknown {
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined;
  return isObject(choice) ? choice["usage"] : undefined;
}

/** Reads a chat stream. It accepts every deviation of dialects.md 4.8 #9 to #29. */
export class ChatDecoder implements Decoder {
  done = false;
  pattern: TextPattern | undefined;
  #context: DecodeContext;
  #started = false;
  #blocks = new BlockWriter();
  /** Made for the first call: most replies have none, and thousands of streams wait at once. */
  #tools: ToolTracker | undefined;
  #think: ThinkSplitter | undefined;
  /** Where the vendor wants them back. `#isDetailed`: some have come since a record's pattern was last looked for. */
  #details: DetailsJoiner | undefined;
  /** The last record that listed what the reply rests on. */
  #sourced: Record<string, unknown> | undefined;
  #isDetailed = false;
  #seed: string | undefined;
  #usage: Usage | undefined;
  #usageWritten = true;
  #finished = false;
  readonly #pieces = new Pieces();
  /** More came behind an end: this vendor says the word for it with every record, and only its terminator tells (su-kaka/gcli2api #403, 1jehuang/jcode #1326). */
  #endsOften = false;
  /** The record that is being read says that the reply ends. */
  #isEnding = false;
  #rawFinish: string | undefined;
  #stopSequence: string | undefined;
  #tier: unknown;
  /** Choices beside the first one, which make no blocks: whether each has finished. */
  #others: Map<number, boolean> | undefined;

  constructor(context: DecodeContext) {
    this.#context = context;
  }

  get untold(): Usage | undefined {
    return this.#usageWritten ? undefined : this.#usage;
  }

  get finishing(): boolean {
    if (!this.#finished || this.#endsOften) return false;
    if (this.#others) for (const finished of this.#others.values()) if (!finished) return false;
    return true;
  }

  push(frame: Frame): Event[] {
    if (frame.run) return this.#readRun(frame.run);
    this.#isEnding = false;
    const out = this.#readFrame(frame);
    if (out.length > 0) this.#learn(frame, out);
    return out;
  }

  /** A record that did nothing but add text is what the next ones will look like; after any other, nothing is known. */
  #learn(frame: Frame, out: readonly Event[]): void {
    const [only] = out;
    const adds =
      out.length === 1 &&
      only?.type === "block-delta" &&
      !this.#think &&
      !this.#others &&
      !this.#isDetailed &&
      !this.#isEnding;
    this.#isDetailed = false;
    this.pattern = adds ? learnPattern(frame, only.text) : undefined;
  }

  #readRun(run: TextRun): Event[] {
    const out: Event[] = [];
    if (this.done) return out;
    try {
      if (run.text !== "") {
        this.#goOn();
        out.push({ type: "block-delta", text: run.text });
      }
      this.#blocks.lengthen(run.text.length);
    } catch (cause) {
      this.#fail(unreadableRecord(cause), out);
    }
    return out;
  }

  #readFrame(frame: Frame): Event[] {
    const out: Event[] = [];
    if (this.done) return out;
    if (isTerminator(frame.data)) {
      if (this.#started) this.#finish(out);
      else this.#fail(streamTruncated(), out);
      return out;
    }
    let value: unknown;
    try {
      value = frame.value;
    } catch (cause) {
      // Servers keep a connection open with empty data; anything else that is no JSON is a broken reply. Torn off behind the finish reason
      // it takes nothing from one that is whole (dialects.md 4.8 #21).
      if (frame.data.trim() !== "" && !this.finishing) this.#fail(unreadableRecord(cause, frame.data), out);
      return out;
    }
    if (frame.event === "error") this.#fail(errorInside({ error: value }) ?? streamTruncated(), out);
    else this.#read(value, out);
    return out;
  }

  end(): Event[] {
    const out: Event[] = [];
    if (this.done) return out;
    if (this.finishing) this.#finish(out);
    else this.#fail(streamTruncated(), out);
    return out;
  }

  /** A whole reply that holds no error: the choice that is read, and its message in the shape of a delta. */
  readWhole(body: Record<string, unknown>, choice: Record<string, unknown>, delta: Record<string, unknown>): Event[] {
    const out: Event[] = [];
    this.#start(body, out);
    if (listsSources(body)) this.#sourced = body;
    this.#tier = body["service_tier"];
    this.#readFirst(choice, delta, out);
    // Nothing is in pieces here: they go back as they stand.
    if (this.#details) this.#details.items = detailsOf(delta) ?? [];
    if (!this.done && this.#noteUsage(body)) this.#tellUsage(body, out);
    if (!this.done) this.#finish(out);
    return out;
  }

  #read(value: unknown, out: Event[]): void {
    if (!isObject(value)) {
      this.#fail(new GatewayError("upstream_error", "The vendor sent a record that is no chunk of a reply."), out);
      return;
    }
    // Before all else: what a vendor counted is paid where it comes with an error, too (contract 5).
    const isCounted = this.#noteUsage(value);
    const error = errorInside(value);
    if (error) {
      this.#fail(error, out);
      return;
    }
    const choices = value["choices"];
    if (Array.isArray(choices) && choices.length > 0) {
      if (!this.#started) this.#start(value, out);
      if (listsSources(value)) this.#sourced = value;
      if (value["service_tier"]) this.#tier = value["service_tier"];
      for (const choice of choices) {
        if (isObject(choice)) this.#readChoice(choice, out);
        if (this.done) return;
      }
    }
    if (isCounted) this.#tellUsage(value, out);
  }

  #start(value: Record<string, unknown>, out: Event[]): void {
    this.#started = true;
    this.#seed = replySeed(value);
    const { id, model, created } = value;
    if (this.#context.quirks.inlineThinkTags) this.#think = new ThinkSplitter(mayBePreopened(model));
    out.push(startEvent(id, model, wholeSeconds(created)));
  }

  #readChoice(choice: Record<string, unknown>, out: Event[]): void {
    const index = choice["index"];
    if (typeof index === "number" && index !== 0) {
      this.#others ??= new Map();
      this.#others.set(index, finishOf(choice) !== undefined || this.#others.get(index) === true);
      return;
    }
    this.#readFirst(choice, this.#pieces.of(choice), out);
  }

  #readFirst(choice: Record<string, unknown>, delta: unknown, out: Event[]): void {
    if (choice["error"]) {
      this.#fail(errorInside(choice) ?? streamTruncated(), out);
      return;
    }
    if (this.#finished) {
      if (!goesOn(choice)) return;
      this.#goOn();
    }
    if (isObject(delta)) this.#readDelta(delta, out);
    const finish = finishOf(choice);
    if (finish === undefined) return;
    this.#isEnding = true;
    const failure = failureIn(choice);
    if (failure) {
      this.#fail(new GatewayError(failure, "The vendor broke the reply off with an error."), out);
      return;
    }
    this.#finished = true;
    this.#rawFinish = finish;
    this.#stopSequence = matchedStop(choice);
  }

  /** What seemed to be the end was none. */
  #goOn(): void {
    if (!this.#finished) return;
    this.#finished = false;
    this.#endsOften = true;
  }

  #readDelta(delta: Record<string, unknown>, out: Event[]): void {
    const reasoning = reasoningText(delta);
    if (reasoning !== "") {
      this.#releaseThink(out);
      this.#blocks.text("reasoning", reasoning, out);
    }
    if (delta["reasoning_details"]) {
      const signature = reasoningSignature(delta);
      if (signature !== undefined) this.#blocks.signature(signature, out);
      if (this.#context.quirks.reasoningReplay === "reasoning") this.#readDetails(delta);
    }
    const text = contentText(delta["content"]);
    if (text !== "") this.#readText(text, out);
    if (Array.isArray(delta["annotations"])) this.#blocks.cite(annotationsIn(delta));
    if (delta[PICTURES]) for (const picture of picturesIn(delta)) this.#readPicture(picture, out);
    const refusal = delta["refusal"];
    if (typeof refusal === "string" && refusal !== "") this.#blocks.text("refusal", refusal, out);
    const calls = callsIn(delta);
    if (calls.length > 0) this.#readTools(calls, out);
  }

  /** One that is kept elsewhere is text that names it: no other dialect has a place for an address. */
  #readPicture(picture: Picture | { url: string }, out: Event[]): void {
    this.#releaseThink(out);
    if ("url" in picture) this.#blocks.text("text", pictureLink(picture.url), out);
    else this.#blocks.picture(picture, out);
  }

  #readDetails(delta: Record<string, unknown>): void {
    const pieces = detailsOf(delta);
    if (!pieces) return;
    this.#isDetailed = true;
    this.#details ??= new DetailsJoiner();
    this.#details.add(pieces);
  }

  #readText(text: string, out: Event[]): void {
    if (this.#think) this.#writeSplit(this.#think.push(text), out);
    else this.#blocks.text("text", text, out);
  }

  #writeSplit({ reasoning, text }: Split, out: Event[]): void {
    if (reasoning !== "") this.#blocks.text("reasoning", reasoning, out);
    if (text !== "") this.#blocks.text("text", text, out);
  }

  /** What the splitter holds comes out before anything that stands behind it; from then on text is text. */
  #releaseThink(out: Event[]): void {
    if (!this.#think) return;
    const split = this.#think.end();
    this.#think = undefined;
    this.#writeSplit(split, out);
  }

  #readTools(calls: readonly unknown[], out: Event[]): void {
    this.#releaseThink(out);
    this.#tools ??= new ToolTracker(this.#context.usedCallIds);
    for (const call of calls) {
      const fragment = readToolFragment(call);
      if (!fragment) continue;
      const slot = this.#tools.add(fragment, this.#seed ?? "");
      this.#blocks.tool(slot, fragment.arguments, out);
    }
  }

  /** Takes what a record counts, if it does. */
  #noteUsage({ usage: told, x_groq: groq, choices }: Record<string, unknown>): boolean {
    const inside = usageInside(choices);
    if (!told && !groq && !inside) return false;
    const exclusive = this.#context.quirks.exclusiveReasoningTokens === true;
    const read =
      readUsage(told, exclusive) ??
      readUsage(isObject(groq) ? groq["usage"] : undefined, exclusive) ??
      readUsage(inside, exclusive);
    if (!read) return false;
    const usage = this.#context.cachesForHour ? withLong(read, read.cacheWrite) : read;
    // Some vendors repeat the same counts on several records.
    if (this.#usage && sameUsage(this.#usage, usage)) return true;
    this.#usage = usage;
    this.#usageWritten = false;
    return true;
  }

  /** Tells what a record has counted, which may be all that it holds. */
  #tellUsage(value: Record<string, unknown>, out: Event[]): void {
    if (!this.#started) this.#start(value, out);
    this.#writeUsage(out);
  }

  /** Usage stands between blocks, never inside one: while a block is open the newest count is kept. */
  #writeUsage(out: Event[]): void {
    if (this.#usageWritten || !this.#usage || !this.#blocks.idle) return;
    this.#usageWritten = true;
    out.push({ type: "usage", usage: this.#usage });
  }

  #flush(out: Event[]): void {
    this.#releaseThink(out);
    // What is said of single places says more.
    if (this.#sourced && !this.#blocks.isCited) this.#blocks.cite(sourcesIn(this.#sourced));
    this.#blocks.flush(out);
    this.#writeUsage(out);
  }

  #finish(out: Event[]): void {
    this.#flush(out);
    this.done = true;
    const items = this.#details?.items ?? [];
    if (items.length > 0) out.push({ type: "block-start", block: detailsBlock(items) }, { type: "block-end" });
    const hasCalls = this.#tools?.slots.some((slot) => slot.name !== "" || slot.arguments !== "") === true;
    const finish = readFinish(this.#rawFinish, hasCalls, this.#stopSequence);
    out.push({ type: "finish", finish: withTier(finish, this.#tier) });
  }

  #fail(error: GatewayError, out: Event[]): void {
    // What was generated before the failure is metered: it comes out whole before the error.
    if (this.#started) this.#flush(out);
    this.done = true;
    out.push({ type: "error", error });
  }
}
