import { GatewayError, streamTruncated } from "../../canon/errors.ts";
import type { BlockStart, Event, Finish } from "../../canon/events.ts";
import type { Usage } from "../../canon/usage.ts";
import { newId } from "../../lib/id.ts";
import { isObject, listOf, stringOf } from "../../lib/json.ts";
import { mayBeInexact, parseExactly } from "../../lib/json-numbers.ts";
import { BlockCiter, type Cited } from "../cited.ts";
import type { Decoder } from "../dialect.ts";
import type { Frame } from "../frames.ts";
import { unreadableRecord } from "../refusals/upstream-error.ts";
import { startEvent } from "../reply/start.ts";
import { errorInside } from "./errors.ts";
import { blockedFinish, failureOf, finishWord, readFinish } from "./finish.ts";
import { AnswerText, citedIn, isCiting } from "./grounding.ts";
import { PartialArguments } from "./partial-arguments.ts";
import { type Place, packProof } from "./proof.ts";
import { NO_RAW_USAGE, type RawUsage, readUsage, sameUsage, toUsage } from "./usage.ts";

type Part = Record<string, unknown>;

const NO_RECORD: Part = Object.freeze({});

/** Every record with a call contains this. */
const CALL = '"functionCall"';

/** The first candidate: the gateway never asks for more than one. */
function candidateOf(value: Part): Part | undefined {
  for (const candidate of listOf(value["candidates"])) {
    if (isObject(candidate) && (candidate["index"] ?? 0) === 0) return candidate;
  }
  return undefined;
}

function partsOf(candidate: Part | undefined): readonly unknown[] {
  const content = candidate?.["content"];
  return listOf(isObject(content) ? content["parts"] : undefined);
}

/**
 * Reads one reply of this dialect (dialects.md 3.2, 3.3). Each record has the form of a whole reply and holds the next piece of it. The end of the
 * body is the terminator, if a finish reason or a block reason came before it.
 */
export class GeminiDecoder implements Decoder {
  done = false;
  #started = false;
  #open: BlockStart["kind"] | undefined;
  /** The arguments of the open call, where they come in pieces. */
  #partial: PartialArguments | undefined;
  #calledTool = false;
  #usage: RawUsage = NO_RAW_USAGE;
  #reported: RawUsage = NO_RAW_USAGE;
  #finish: Finish | undefined;
  /** The vendor's finish reason. */
  #word: string | undefined;
  /** The vendor's `finishMessage` beside it. */
  #message: unknown;
  readonly #answer = new AnswerText();
  /** The last candidate with sources since the last block of text: each repeats those of the ones before it. */
  #citing: Part | undefined;
  readonly #citer = new BlockCiter();

  get finishing(): boolean {
    return this.#word !== undefined || this.#finish !== undefined;
  }

  get untold(): Usage | undefined {
    return sameUsage(this.#usage, this.#reported) ? undefined : toUsage(this.#usage);
  }

  push(frame: Frame): Event[] {
    if (this.done || frame.data === "" || frame.data.trim() === "[DONE]") return [];
    let value: unknown;
    try {
      // Arguments come as an object here, whose numbers must keep all their digits (dialects.md 4.8 #43).
      value = frame.data.includes(CALL) && mayBeInexact(frame.data) ? parseExactly(frame.data) : frame.value;
    } catch (cause) {
      return this.#fail(unreadableRecord(cause));
    }
    return this.read(value);
  }

  /** Reads one record's value, or a list of them as they come without `alt=sse`. */
  read(value: unknown): Event[] {
    const out: Event[] = [];
    if (!Array.isArray(value)) this.#take(value, out);
    else for (const record of value as unknown[]) this.#take(record, out);
    return out;
  }

  #take(record: unknown, out: Event[]): void {
    if (this.done) return;
    const error = this.#readRecord(record, out);
    if (error) out.push(...this.#fail(error));
  }

  end(): Event[] {
    if (this.done) return [];
    const finish = this.#word === undefined ? this.#finish : readFinish(this.#word, this.#calledTool, this.#message);
    if (!finish) {
      return this.#fail(streamTruncated());
    }
    const out: Event[] = [];
    this.#start(NO_RECORD, out);
    this.#close(out);
    this.#report(out);
    out.push({ type: "finish", finish });
    this.done = true;
    return out;
  }

  #fail(error: GatewayError): Event[] {
    const out: Event[] = [];
    if (this.#started) {
      // Each record's counts include those before it: what a reply used until it broke off is known, and charged (contract 5).
      this.#partial = undefined;
      this.#close(out);
      this.#report(out);
    }
    this.done = true;
    out.push({ type: "error", error });
    return out;
  }

  #readRecord(record: unknown, out: Event[]): GatewayError | undefined {
    if (!isObject(record)) return new GatewayError("upstream_error", "The vendor sent a broken record.");
    this.#usage = readUsage(record["usageMetadata"], this.#usage);
    const error = errorInside(record);
    if (error) return error;
    this.#start(record, out);
    const candidate = candidateOf(record);
    if (candidate && isCiting(candidate)) this.#citing = candidate;
    for (const part of partsOf(candidate)) {
      const broken = isObject(part) ? this.#readPart(part, out) : undefined;
      if (broken) return broken;
    }
    const word = finishWord(candidate?.["finishReason"]);
    const failure = word === undefined ? undefined : failureOf(word, candidate?.["finishMessage"]);
    if (failure) return failure;
    if (word !== undefined && this.#word === undefined) {
      this.#word = word;
      this.#message = candidate?.["finishMessage"];
    }
    const feedback = record["promptFeedback"];
    const blocked = isObject(feedback) ? stringOf(feedback["blockReason"]) : "";
    if (!candidate && isObject(feedback) && blocked !== "" && blocked !== "BLOCK_REASON_UNSPECIFIED")
      this.#finish ??= blockedFinish(blocked, feedback["blockReasonMessage"]);
    if (this.#open === undefined) this.#report(out);
    return undefined;
  }

  #start(record: Part, out: Event[]): void {
    if (this.#started) return;
    this.#started = true;
    out.push(startEvent(record["responseId"], record["modelVersion"]));
  }

  #begin(block: BlockStart, out: Event[]): void {
    this.#close(out);
    this.#open = block.kind;
    out.push({ type: "block-start", block });
  }

  /** Ends the open block, with the arguments that were collected for it. */
  #close(out: Event[]): void {
    if (this.#open === undefined) return;
    const json = this.#partial?.json ?? "";
    if (json !== "") out.push({ type: "block-delta", text: json });
    if (this.#open === "text") this.#endText(out);
    this.#partial = undefined;
    this.#open = undefined;
    out.push({ type: "block-end" });
  }

  /** The sources of the block of text that ends, each with its place in that block instead of in the whole answer. */
  #endText(out: Event[]): void {
    const { before } = this.#citer;
    const isHere = ({ end }: Cited) => end === undefined || end > before;
    const moved = ({ start, end, ...cited }: Cited): Cited =>
      start === undefined || end === undefined
        ? cited
        : { ...cited, start: Math.max(start - before, 0), end: end - before };
    const cited = this.#citing ? citedIn(this.#citing, this.#answer).filter(isHere).map(moved) : [];
    this.#citing = undefined;
    out.push(...this.#citer.end(this.#answer.length - before, cited));
  }

  /** Reports new counts. To be called between blocks only: usage events do not stand inside one. */
  #report(out: Event[]): void {
    if (sameUsage(this.#usage, this.#reported)) return;
    this.#reported = this.#usage;
    out.push({ type: "usage", usage: toUsage(this.#usage) });
  }

  #readPart(part: Part, out: Event[]): GatewayError | undefined {
    const call = part["functionCall"];
    const signature = stringOf(part["thoughtSignature"]);
    if (isObject(call)) return this.#readCall(call, signature, out);
    if (typeof part["text"] !== "string") {
      // An image that the model drew while it thought is not part of the answer (dialects.md 7).
      if (part["thought"] !== true) this.#readPicture(part["inlineData"], signature, out);
      return undefined;
    }
    if (part["thought"] === true) {
      this.#append("reasoning", part["text"], out);
      this.#sign("thought", signature, out);
      return undefined;
    }
    // A text's signature goes on the reasoning right before it, if there is any: clients send reasoning back.
    const onReasoning = this.#open === "reasoning";
    if (onReasoning) this.#sign("text", signature, out);
    this.#append("text", part["text"], out);
    if (!onReasoning && this.#open === "text") this.#sign("text", signature, out);
    return undefined;
  }

  #readPicture(inline: unknown, signature: string, out: Event[]): void {
    if (!isObject(inline)) return;
    const mediaType = stringOf(inline["mimeType"]);
    const data = stringOf(inline["data"]);
    if (!mediaType.startsWith("image/") || data === "") return;
    this.#begin({ kind: "image", mediaType, data }, out);
    if (signature !== "") out.push({ type: "block-signature", signature: packProof({ place: "image", signature }) });
    this.#close(out);
  }

  #append(kind: "text" | "reasoning", text: string, out: Event[]): void {
    if (text === "") return;
    if (this.#open !== kind) this.#begin({ kind }, out);
    if (kind === "text") this.#answer.add(text);
    out.push({ type: "block-delta", text });
  }

  /** Puts a signature on the open block. A text block's own is kept by the gateway alone: clients have no place for it. */
  #sign(place: Place, signature: string, out: Event[]): void {
    if (signature === "" || (this.#open !== "reasoning" && place !== "text")) return;
    out.push({ type: "block-signature", signature: packProof({ place, signature }) });
  }

  /** A call comes whole, or as its name, then pieces of its arguments, then an empty record, which may be missing (dialects.md 3.3). */
  #readCall(call: Part, signature: string, out: Event[]): GatewayError | undefined {
    const name = stringOf(call["name"]);
    if (name !== "") this.#beginCall(call, name, signature, out);
    if (this.#open !== "tool-call") return undefined;
    if (isObject(call["args"]) && Object.keys(call["args"]).length > 0) {
      out.push({ type: "block-delta", text: JSON.stringify(call["args"]) });
    }
    if ("partialArgs" in call) {
      this.#partial ??= new PartialArguments();
      if (!this.#partial.add(call["partialArgs"])) {
        return new GatewayError("upstream_error", "The vendor sent arguments of a tool call that cannot be read.");
      }
    }
    if (call["willContinue"] !== true) this.#close(out);
    return undefined;
  }

  /**
   * The vendor wants the signature of a call back (dialects.md 3.3), so it goes out twice: on the reasoning block before the call, which is made
   * where there is none, since clients of every dialect with reasoning send that back; and on the call itself.
   */
  #beginCall(call: Part, name: string, signature: string, out: Event[]): void {
    if (signature !== "") {
      if (this.#open !== "reasoning") this.#begin({ kind: "reasoning" }, out);
      this.#sign("call", signature, out);
    }
    this.#calledTool = true;
    this.#begin({ kind: "tool-call", id: stringOf(call["id"]) || newId("call"), name }, out);
    if (signature !== "") {
      out.push({ type: "block-signature", signature: packProof({ place: "call", signature }) });
    }
  }
}

/** A reader for one upstream stream of this dialect. It never throws. */
export function decodeStream(): Decoder {
  return new GeminiDecoder();
}
