import { GatewayError, streamTruncated } from "../../canon/errors.ts";
import type { BlockStart, Event } from "../../canon/events.ts";
import { NO_USAGE, readCount, sameUsage, sumUsage, type Usage } from "../../canon/usage.ts";
import { isObject } from "../../lib/json.ts";
import { mayBeInexact, parseExactly } from "../../lib/json-numbers.ts";
import { BlockLane, charactersOf, type Slot } from "../block-lane.ts";
import { BlockCiter, type Cited, MAX_CITED } from "../cited.ts";
import type { DecodeContext, Decoder } from "../dialect.ts";
import { type Frame, learnPattern, type TextPattern, type TextRun } from "../frames.ts";
import { innerError, unreadableRecord } from "../refusals/upstream-error.ts";
import { startEvent } from "../reply/start.ts";
import { ReplyCallIds } from "../tools/counted-ids.ts";
import {
  type Block,
  fragmentText,
  initialSignature,
  initialText,
  inputText,
  makeAnswerable,
  readBlockStart,
  readWholeBlock,
} from "./blocks.ts";
import { citedIn } from "./citations.ts";
import { placeDelta } from "./delta-place.ts";
import { type Ending, readFinish } from "./stop-reason.ts";
import { largerUsage, readApart, readUsage } from "./usage.ts";

/**
 * An open block: how it began, its first content, for tools and opaque blocks the input that came in fragments, and for text how much has come and
 * what it rests on.
 */
type OpenBlock = {
  start: BlockStart;
  block: Block;
  fragments: boolean;
  json: string;
  length: number;
  cited: Cited[];
};
type OpenSlot = Slot<Event, OpenBlock>;

/** The record by which a block begins. */
const BLOCK_START = "content_block_start";

const BLOCK_END: Event = { type: "block-end" };

/** Records that may come behind a message_stop, keep-alives say, before another message begins; with more the reply has ended. */
const MAX_BEHIND_STOP = 16;

/** Records that carry nothing: keep-alives, and the other dialect's terminator that some proxies append. */
export const isEmptyFrame = (frame: Frame): boolean =>
  frame.event === "ping" || frame.data === "" || frame.data.trim() === "[DONE]";

/** The word that says what a record is: in its data, else on its event line. */
export const typeOf = (value: Record<string, unknown>, frame: Frame): string | undefined =>
  typeof value["type"] === "string" ? value["type"] : frame.event;

/** The message_start of one more message behind a message_stop; undefined for any other record there. Never throws. */
export function readAnother(frame: Frame): Record<string, unknown> | undefined {
  if (isEmptyFrame(frame)) return undefined;
  try {
    const { value } = frame;
    return isObject(value) && typeOf(value, frame) === "message_start" ? value : undefined;
  } catch {
    // Torn off behind the end: it takes nothing from a reply that is whole.
    return undefined;
  }
}

/** An opaque block as a whole: input fragments folded into it, since it is shown only when complete. */
function foldOpaque(open: OpenBlock): BlockStart {
  if (open.json === "") return open.start;
  let input: unknown = open.json;
  try {
    input = JSON.parse(open.json);
  } catch {
    // Eager streaming may cut the input anywhere (dialects.md 2.5): the text stays as it came.
  }
  return { kind: "opaque", dialect: "messages", value: { ...open.block, input } };
}

/**
 * Reads one stream of this dialect by the grammar of dialects.md 2.5, with the deviations of 4.8. Several messages in one body are one reply
 * (#42), so only the end of the body, or what cannot belong to it, is the end.
 */
class MessagesDecoder implements Decoder {
  done = false;
  /** After message_stop, until another message begins. A stop reason alone ends nothing here: without its terminator a stream is truncated. */
  finishing = false;
  pattern: TextPattern | undefined;
  #started = false;
  /** The id of the message. */
  #seed: unknown;
  readonly #ids: ReplyCallIds;
  #behindStop = 0;
  #calledTool = false;
  #lane = new BlockLane<Event, OpenBlock>(charactersOf);
  /** The block that text was last added to, which is that of a run. */
  #written: OpenSlot | undefined;
  readonly #citer = new BlockCiter();
  /** What the messages before this one came to. */
  #earlier: Usage = NO_USAGE;
  #usage: Usage = NO_USAGE;
  #reported: Usage = NO_USAGE;
  /** Of this message's output more was told than its start says. */
  #isOutputTold = false;
  /** What the vendor bills beside this message, and beside those before it. */
  #apart: readonly Usage[] | undefined;
  #earlierApart: readonly Usage[] | undefined;
  #reportedApart: number | undefined;
  #ending: Ending = {};
  #container: unknown;

  constructor({ usedCallIds }: DecodeContext) {
    this.#ids = new ReplyCallIds(usedCallIds);
  }

  get untold(): Usage | undefined {
    // Nothing can be ended sooner behind the reason why it ended: its counts are told with the end of its block.
    if (this.#ending.stop_reason !== undefined) return undefined;
    const usage = this.#allUsage;
    return sameUsage(usage, this.#reported) ? undefined : usage;
  }

  push(frame: Frame): Event[] {
    if (frame.run) return this.#readRun(frame.run);
    const out = this.#readFrame(frame);
    // A record that did nothing but add text is what the next ones will look like; after any other, and among several blocks, nothing is known.
    if (this.#lane.crowded) this.pattern = undefined;
    else if (out.length > 0) {
      const [only] = out;
      this.pattern = out.length === 1 && only?.type === "block-delta" ? learnPattern(frame, only.text) : undefined;
    }
    return out;
  }

  #readRun(run: TextRun): Event[] {
    if (this.done) return [];
    try {
      if (run.text === "") return [];
      if (this.#written) this.#written.state.length += run.text.length;
      return [{ type: "block-delta", text: run.text }];
    } catch (cause) {
      return this.#fail(unreadableRecord(cause));
    }
  }

  #readFrame(frame: Frame): Event[] {
    if (this.done) return [];
    if (this.finishing && !readAnother(frame)) return this.#passBehind(frame);
    if (isEmptyFrame(frame)) return [];
    let value: unknown;
    try {
      // Some servers give the whole input with the start of its block, and some name no record (dialects.md 4.8 #43).
      const isExact = (frame.event ?? BLOCK_START) !== BLOCK_START || !mayBeInexact(frame.data);
      value = isExact ? frame.value : parseExactly(frame.data);
    } catch (cause) {
      return this.#fail(unreadableRecord(cause));
    }
    if (!isObject(value)) return this.#fail(new GatewayError("upstream_error", "The vendor sent a broken record."));
    const out: Event[] = [];
    const error = this.#read(typeOf(value, frame), value, out);
    if (error) out.push(...this.#fail(error));
    return out;
  }

  #passBehind(frame: Frame): Event[] {
    this.#behindStop++;
    return this.#behindStop > MAX_BEHIND_STOP || frame.data.trim() === "[DONE]" ? this.end() : [];
  }

  end(): Event[] {
    if (this.done) return [];
    if (this.finishing) return this.#finish();
    return this.#fail(streamTruncated());
  }

  #fail(error: GatewayError): Event[] {
    this.done = true;
    const out: Event[] = [];
    // What it counted until then is paid, also inside a block that never ended (contract 5).
    this.#tell(out);
    out.push({ type: "error", error });
    return out;
  }

  /** Reads one record into `out`; returns the error it means, if it means one. */
  #read(type: string | undefined, value: Block, out: Event[]): GatewayError | undefined {
    switch (type) {
      case "content_block_delta":
        // With each piece by NVIDIA's Dynamo, which knows no more than an estimate at the beginning (ai-dynamo/dynamo #12473).
        if (value["usage"]) this.#readCounts(value["usage"]);
        this.#delta(value, out);
        break;
      case BLOCK_START:
        this.#blockStart(value, out);
        break;
      case "content_block_stop":
        for (const slot of this.#lane.all(value["index"])) this.#close(slot, out);
        break;
      case "message_start":
        this.#messageStart(value["message"], out);
        break;
      case "message_delta":
        this.#messageDelta(value, out);
        break;
      case "message_stop":
        this.#stop(out);
        return undefined;
      default:
        if (type === "error" || isObject(value["error"])) {
          this.#usage = readUsage(value["usage"], this.#usage);
          return innerError(value);
        }
    }
    this.#report(out);
    return this.#lane.overfull
      ? new GatewayError("upstream_error", "The vendor's stream keeps too many blocks open at once.")
      : undefined;
  }

  #start(out: Event[], message: Block = {}): void {
    if (this.#started) return;
    this.#started = true;
    out.push(startEvent(message["id"], message["model"]));
  }

  /**
   * The first begins the reply; another one, from a proxy that starts anew or behind a whole message, is merged into it (dialects.md 4.8
   * #42). What a message before it came to is added up; one that was not whole counted the same tokens.
   */
  #messageStart(message: unknown, out: Event[]): void {
    const fields = isObject(message) ? message : {};
    this.#closeAll(out);
    if (this.finishing) {
      this.finishing = false;
      this.#behindStop = 0;
      this.#earlier = sumUsage(this.#earlier, this.#usage);
      this.#usage = NO_USAGE;
      this.#isOutputTold = false;
      this.#earlierApart = this.#allApart;
      this.#apart = undefined;
    }
    const usage = readUsage(fields["usage"], this.#started ? this.#usage : NO_USAGE);
    this.#usage = largerUsage(this.#usage, usage);
    this.#start(out, fields);
    this.#seed = fields["id"];
    const content = fields["content"];
    if (Array.isArray(content)) {
      // What comes with the content has counted it.
      if (content.length > 0) this.#isOutputTold = true;
      for (const block of content) {
        if (!isObject(block)) continue;
        this.#calledTool ||= block["type"] === "tool_use";
        readWholeBlock(makeAnswerable(block, this.#seed, this.#ids), this.#citer, out);
      }
    }
    this.#noteStop(fields);
  }

  #blockStart(value: Block, out: Event[]): void {
    this.#start(out);
    const index = value["index"];
    if (index !== undefined) for (const earlier of this.#lane.all(index)) this.#close(earlier, out);
    this.#open(index, isObject(value["content_block"]) ? value["content_block"] : {}, out);
  }

  #open(index: unknown, given: Block, out: Event[]): OpenSlot {
    const block = makeAnswerable(given, this.#seed, this.#ids);
    const start = readBlockStart(block);
    if (start.kind === "tool-call") this.#calledTool = true;
    const text = initialText(block);
    const cited = start.kind === "text" ? citedIn(block["citations"]) : [];
    const slot = this.#lane.open(index, { start, block, fragments: false, json: "", length: text.length, cited });
    if (start.kind === "opaque") return slot;
    this.#lane.write(slot, { type: "block-start", block: start }, out);
    if (text !== "") this.#lane.write(slot, { type: "block-delta", text }, out);
    const signature = initialSignature(block);
    if (signature !== "") this.#lane.write(slot, { type: "block-signature", signature }, out);
    return slot;
  }

  #delta(value: Block, out: Event[]): void {
    const delta = value["delta"];
    if (!isObject(delta)) return;
    const place = placeDelta(this.#lane, value["index"], delta);
    if (place) this.#append("slot" in place ? place.slot : this.#begin(value["index"], place, out), delta, out);
  }

  #begin(index: unknown, { block, ended }: { block: Block; ended: readonly OpenSlot[] }, out: Event[]): OpenSlot {
    this.#start(out);
    for (const slot of ended) this.#close(slot, out);
    return this.#open(index, block, out);
  }

  #append(slot: OpenSlot, delta: Block, out: Event[]): void {
    const { kind } = slot.state.start;
    const type = delta["type"];
    if (type === "input_json_delta") {
      const text = fragmentText(delta["partial_json"]);
      if (text === "") return;
      if (kind === "opaque") slot.state.json += text;
      else if (kind === "tool-call") {
        slot.state.fragments = true;
        this.#lane.write(slot, { type: "block-delta", text }, out);
      }
      return;
    }
    if (kind !== "text" && kind !== "reasoning") return;
    const text = type === "text_delta" ? delta["text"] : type === "thinking_delta" ? delta["thinking"] : undefined;
    if (typeof text === "string" && text !== "") {
      slot.state.length += text.length;
      this.#written = slot;
      this.#lane.write(slot, { type: "block-delta", text }, out);
    }
    const { cited } = slot.state;
    if (type === "citations_delta" && kind === "text" && cited.length < MAX_CITED) {
      cited.push(...citedIn([delta["citation"]]));
    }
    const signature = type === "signature_delta" && kind === "reasoning" ? delta["signature"] : undefined;
    if (typeof signature === "string" && signature !== "") {
      this.#lane.write(slot, { type: "block-signature", signature }, out);
    }
  }

  #close(slot: OpenSlot, out: Event[]): void {
    const { start, block, fragments, length, cited } = slot.state;
    if (start.kind === "text") for (const event of this.#citer.end(length, cited)) this.#lane.write(slot, event, out);
    if (start.kind === "opaque") this.#lane.write(slot, { type: "block-start", block: foldOpaque(slot.state) }, out);
    // Some servers give the whole input with the start of the block and no fragments.
    const whole = start.kind === "tool-call" && !fragments ? inputText(block["input"]) : "";
    if (whole !== "") this.#lane.write(slot, { type: "block-delta", text: whole }, out);
    this.#lane.close(slot, BLOCK_END, out);
  }

  #closeAll(out: Event[]): void {
    for (const slot of this.#lane.openSlots()) this.#close(slot, out);
  }

  #noteStop(fields: Block): void {
    this.#container = fields["container"] ?? this.#container;
    if (typeof fields["stop_reason"] === "string") this.#ending = fields;
  }

  /** May come several times: counts are cumulative and the last one wins (dialects.md 2.5). */
  #messageDelta(value: Block, out: Event[]): void {
    this.#start(out);
    const told = value["usage"];
    this.#readCounts(told);
    this.#apart = readApart(told) ?? this.#apart;
    if (isObject(value["delta"])) this.#noteStop(value["delta"]);
  }

  #readCounts(told: unknown): void {
    this.#usage = readUsage(told, this.#usage);
    this.#isOutputTold ||= isObject(told) && readCount(told["output_tokens"]) !== undefined;
  }

  /** Usage stands between blocks only, so a count that comes inside one waits for its end. */
  #report(out: Event[]): void {
    if (this.#lane.idle) this.#tell(out);
  }

  #tell(out: Event[]): void {
    const usage = this.#allUsage;
    const apart = this.#allApart;
    if (sameUsage(usage, this.#reported) && apart?.length === this.#reportedApart) return;
    this.#reported = usage;
    this.#reportedApart = apart?.length;
    out.push(apart ? { type: "usage", usage, apart } : { type: "usage", usage });
  }

  /** What all messages so far came to. */
  get #allUsage(): Usage {
    return this.#earlier === NO_USAGE ? this.#usage : sumUsage(this.#earlier, this.#usage);
  }

  get #allApart(): readonly Usage[] | undefined {
    return this.#earlierApart ? [...this.#earlierApart, ...(this.#apart ?? [])] : this.#apart;
  }

  #stop(out: Event[]): void {
    this.#start(out);
    this.#closeAll(out);
    this.#report(out);
    // Some proxies know the counts at the beginning alone, where a vendor writes one token of output.
    if (!this.#isOutputTold && this.#usage.output > 0) {
      const apart = this.#allApart;
      out.push({ type: "usage", usage: this.#reported, ...(apart && { apart }), begun: true });
    }
    this.finishing = true;
  }

  #finish(): Event[] {
    this.finishing = false;
    this.done = true;
    const ending = { ...this.#ending, container: this.#container };
    return [{ type: "finish", finish: readFinish(ending, this.#calledTool) }];
  }
}

/** A reader for one upstream stream of this dialect. It never throws, and ends with `finish` only behind a message_stop. */
export function decodeStream(context: DecodeContext): Decoder {
  return new MessagesDecoder(context);
}
