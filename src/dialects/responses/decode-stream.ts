import { GatewayError, streamTruncated } from "../../canon/errors.ts";
import type { BlockStart, Event } from "../../canon/events.ts";
import { isObject, objectsOf, stringOf } from "../../lib/json.ts";
import { BlockLane, charactersOf, type Slot } from "../block-lane.ts";
import { BlockCiter } from "../cited.ts";
import type { Decoder } from "../dialect.ts";
import type { Frame } from "../frames.ts";
import { statusOfRawError } from "../refusals/meant-status.ts";
import { isErrorBody, readRawError } from "../refusals/raw-error.ts";
import { unreadableRecord, upstreamError } from "../refusals/upstream-error.ts";
import { readFinish } from "./finish.ts";
import {
  callText,
  citedIn,
  type Item,
  isCallType,
  messageText,
  PARAGRAPH,
  readWholeItem,
  reasoningSignature,
  startOfCall,
  startOfReply,
} from "./items.ts";
import { phaseSignature } from "./phase.ts";
import { readUsage } from "./usage.ts";

/**
 * An output item on its way. `began`: its block-start is written. `source`: which of two spellings of its text is taken, and which part. `length`: of
 * the answer's text so far.
 */
type OpenItem = {
  type: string;
  item: Item;
  began: boolean;
  wrote: boolean;
  source: string;
  part: unknown;
  length: number;
};
/** A piece of the lane is a run of events, so that an item without content can end with none. */
type OpenSlot = Slot<Event[], OpenItem>;

/** Records that carry nothing: keep-alives, and the chat dialect's terminator that some servers append. */
export function isEmptyFrame({ data, event }: Frame): boolean {
  if (event === "keepalive") return true;
  if (data.startsWith("{")) return false;
  const word = data.trim();
  return word === "" || word === "[DONE]";
}

/** The word that says what a record is: in its data, else on its event line. */
export const typeOf = (value: Item, frame: Frame): string => stringOf(value["type"]) || (frame.event ?? "");

/** Records that tell of a response, and of no item. */
const BEGINNINGS: ReadonlySet<string> = new Set(["response.created", "response.queued", "response.in_progress"]);

/**
 * Whether clients can follow a stream that comes to this record: they put it together by the places of its items, and official SDKs break off where a
 * server tells none (llama.cpp, ggml-org/llama.cpp #20607). Such servers number no record either. Nor by the parts of a message whose content is null as it
 * begins, and records that only their vendor knows: Perplexity's, whose `truncation` is a word that the dialect does not have.
 */
export function canFollow(frame: Frame): boolean | undefined {
  if (isEmptyFrame(frame) || !isObject(frame.value)) return undefined;
  const { value } = frame;
  if (isObject(value["response"]) && value["response"]["truncation"] === "") return false;
  if (typeof value["sequence_number"] === "number" || typeof value["output_index"] === "number") return true;
  return BEGINNINGS.has(typeOf(value, frame)) ? undefined : false;
}

/** A refusal is text too (dialects.md 4.8 #26), in a block of its own. */
const REFUSAL_DELTA = "response.refusal.delta";

/** Text deltas: the type of item they belong to. */
const TEXT_DELTAS: Readonly<Record<string, "message" | "reasoning">> = {
  "response.output_text.delta": "message",
  [REFUSAL_DELTA]: "message",
  "response.reasoning_summary_text.delta": "reasoning",
  "response.reasoning_text.delta": "reasoning",
};

/** Deltas of a call: a function's arguments, a custom tool's input. */
const CALL_DELTAS = new Set(["response.function_call_arguments.delta", "response.custom_tool_call_input.delta"]);

const TERMINAL = new Set(["response.completed", "response.incomplete", "response.failed", "response.cancelled"]);

/** Whether a record ends the stream, well or badly. */
export const isTerminal = (type: string): boolean => TERMINAL.has(type);

/** The error of a response that failed, or of what stands in the place of one; undefined when it did not. */
export function failureOf(response: Item, type = ""): GatewayError | undefined {
  const status = stringOf(response["status"]);
  const failed = status === "failed" || type === "response.failed" || isErrorBody(response);
  const cancelled = status === "cancelled" || type === "response.cancelled";
  if (!failed && !cancelled) return undefined;
  if (cancelled && !isObject(response["error"])) {
    return new GatewayError("upstream_error", "The vendor cancelled the reply.");
  }
  return errorIn(isErrorBody(response) ? response : undefined);
}

/** The error that a record, a reply or a part of them tells. */
function errorIn(value: unknown): GatewayError {
  const raw = readRawError(value);
  return upstreamError(statusOfFailure(raw.code, statusOfRawError(raw)), raw);
}

/** Codes of a failed response that mean the request was at fault and that no general rule knows. */
function statusOfFailure(code: string, general: number): number {
  return /^(?:invalid_|image_|empty_image|unsupported_|failed_to_download|context_length)|_policy/.test(code)
    ? 400
    : general;
}

/** Whether what an item says just now is its answer's text. */
const isAnswer = ({ type, source }: OpenItem): boolean => type === "message" && source !== REFUSAL_DELTA;

const isNamedCall = ({ type, item }: OpenItem): boolean => isCallType(type) && stringOf(item["name"]) !== "";

/** Reads one stream of this dialect. Items are taken in the order in which they began, whatever interleaves (contract 7). */
class ResponsesDecoder implements Decoder {
  done = false;
  readonly finishing = false;
  #started = false;
  #calledTool = false;
  #sawItem = false;
  #lane = new BlockLane<Event[], OpenItem>((events) => events.reduce((sum, event) => sum + charactersOf(event), 0));
  readonly #citer = new BlockCiter();

  push(frame: Frame): Event[] {
    if (this.done || isEmptyFrame(frame)) return [];
    let value: unknown;
    try {
      value = frame.value;
    } catch (cause) {
      return this.#fail(unreadableRecord(cause));
    }
    if (!isObject(value)) return this.#fail(new GatewayError("upstream_error", "The vendor sent a broken record."));
    const pieces: Event[][] = [];
    const error = this.#read(typeOf(value, frame), value, pieces);
    const out = pieces.flat();
    if (error) out.push(...this.#fail(error));
    return out;
  }

  end(): Event[] {
    if (this.done) return [];
    return this.#fail(streamTruncated());
  }

  #fail(error: GatewayError): Event[] {
    this.done = true;
    return [{ type: "error", error }];
  }

  /** Reads one record into `out`; returns the error it means, if it means one. */
  #read(type: string, value: Item, out: Event[][]): GatewayError | undefined {
    if (Object.hasOwn(TEXT_DELTAS, type)) this.#text(TEXT_DELTAS[type] ?? "", type, value, out);
    else if (CALL_DELTAS.has(type)) this.#arguments(value, out);
    else if (type === "response.output_item.added") this.#added(value, out);
    else if (type === "response.output_item.done") this.#itemDone(value, out);
    else if (type === "error" || isErrorBody(value)) return errorIn(value);
    else if (isTerminal(type)) return this.#terminal(type, value, out);
    else if (type === "response.created" || type === "response.in_progress") this.#start(value["response"], out);
    return this.#lane.overfull
      ? new GatewayError("upstream_error", "The vendor's stream keeps too many items open at once.")
      : undefined;
  }

  #start(response: unknown, out: Event[][]): void {
    if (this.#started) return;
    this.#started = true;
    out.push([startOfReply(isObject(response) ? response : {})]);
  }

  #open(index: unknown, type: string, item: Item, out: Event[][]): OpenSlot {
    this.#start(undefined, out);
    this.#sawItem = true;
    return this.#lane.open(index, { type, item, began: false, wrote: false, source: "", part: undefined, length: 0 });
  }

  #added(value: Item, out: Event[][]): void {
    const item = value["item"];
    if (!isObject(item)) return;
    const index = value["output_index"];
    const earlier = index === undefined ? undefined : this.#lane.find(index);
    if (earlier) this.#close(earlier, earlier.state.item, out);
    const slot = this.#open(index, stringOf(item["type"]), item, out);
    // One that is whole as it is announced may be the vendor's own, and end as what that brought (Perplexity's search): its end tells.
    if (isNamedCall(slot.state) && callText(item) === "") this.#beginCall(slot, item, out);
  }

  #beginCall(slot: OpenSlot, item: Item, out: Event[][]): void {
    if (slot.state.began) return;
    slot.state.began = true;
    this.#calledTool = true;
    this.#lane.write(slot, [{ type: "block-start", block: startOfCall(item) }], out);
  }

  #text(itemType: string, type: string, value: Item, out: Event[][]): void {
    const text = value["delta"];
    if (typeof text !== "string" || text === "") return;
    const index = value["output_index"];
    const slot = this.#lane.find(index) ?? this.#open(index, itemType, { type: itemType }, out);
    const { state } = slot;
    if (state.type !== itemType) return;
    const part = value["summary_index"];
    const isSummary = type === "response.reasoning_summary_text.delta";
    // A vendor that sends the reasoning and its summary says the same twice: the first spelling is taken (dialects.md 4.8 #24).
    if (itemType === "reasoning" && state.source !== "" && state.source !== type) return;
    const newPart = isSummary && state.wrote && part !== state.part;
    const turns = state.began && state.source !== type;
    state.source = type;
    state.part = part;
    this.#write(slot, newPart ? PARAGRAPH + text : text, turns, out);
  }

  /** `turns`: from the answer to a refusal or back, which are blocks of their own. */
  #write(slot: OpenSlot, text: string, turns: boolean, out: Event[][]): void {
    const { state } = slot;
    const events: Event[] = [];
    if (turns) {
      // What it rests on is told with the item's end, and this block's is now.
      if (!isAnswer(state)) events.push(...this.#citer.end(state.length, []));
      state.length = 0;
      events.push({ type: "block-end" });
    }
    if (!state.began || turns) {
      state.began = true;
      const kind = state.type === "reasoning" ? "reasoning" : "text";
      const block: BlockStart = state.source === REFUSAL_DELTA ? { kind: "text", refusal: true } : { kind };
      events.push({ type: "block-start", block });
    }
    state.wrote = true;
    if (isAnswer(state)) state.length += text.length;
    events.push({ type: "block-delta", text });
    this.#lane.write(slot, events, out);
  }

  #arguments(value: Item, out: Event[][]): void {
    const text = value["delta"];
    const slot = this.#lane.find(value["output_index"]);
    // A call that was never announced has no name: its done record brings it whole.
    if (typeof text !== "string" || text === "" || !slot || !isNamedCall(slot.state)) return;
    this.#beginCall(slot, slot.state.item, out);
    slot.state.wrote = true;
    this.#lane.write(slot, [{ type: "block-delta", text }], out);
  }

  #itemDone(value: Item, out: Event[][]): void {
    const item = isObject(value["item"]) ? value["item"] : {};
    const type = stringOf(item["type"]);
    const slot = this.#lane.find(value["output_index"]) ?? this.#open(value["output_index"], type, item, out);
    this.#close(slot, item, out);
  }

  /** Ends an item: whatever its deltas did not bring is taken from the item as a whole. */
  #close(slot: OpenSlot, item: Item, out: Event[][]): void {
    const { state } = slot;
    if (!state.began && !state.wrote) {
      const type = stringOf(item["type"]) || state.type;
      if (isCallType(type)) this.#calledTool = true;
      this.#lane.close(slot, this.#eventsOf({ ...item, type }), out);
      return;
    }
    if (!state.wrote) {
      const text = isCallType(state.type) ? callText({ ...item, type: state.type }) : messageText(item);
      if (text !== "") this.#lane.write(slot, [{ type: "block-delta", text }], out);
    }
    const signature = state.type === "reasoning" ? reasoningSignature(item) : phaseSignature(item);
    const proof: Event[] = signature === "" ? [] : [{ type: "block-signature", signature }];
    const citations = isAnswer(state) ? this.#citer.end(state.length, citedIn(item)) : [];
    this.#lane.close(slot, [...proof, ...citations, { type: "block-end" }], out);
  }

  #terminal(type: string, value: Item, out: Event[][]): GatewayError | undefined {
    const response = isObject(value["response"]) ? value["response"] : {};
    const usage = readUsage(response["usage"]);
    const failure = failureOf(response, type);
    if (failure) {
      // What a vendor counted is paid, however its reply ended (contract 5).
      if (usage) out.push([{ type: "usage", usage }]);
      return failure;
    }
    this.#start(response, out);
    const items = objectsOf(response["output"]);
    for (const slot of this.#lane.openSlots()) {
      const whole = items.find((item) => item["id"] !== undefined && item["id"] === slot.state.item["id"]);
      this.#close(slot, whole ?? slot.state.item, out);
    }
    // A server without item records still shows its items here, and its calls one that streams the text alone (BerriAI/litellm #19368; vllm-project/vllm #36435).
    const untold = this.#sawItem ? items.filter(({ type }) => !this.#calledTool && isCallType(type)) : items;
    for (const item of untold) {
      this.#calledTool ||= isCallType(item["type"]);
      out.push(this.#eventsOf(item));
    }
    if (usage) out.push([{ type: "usage", usage }]);
    const incomplete = type === "response.incomplete" || response["status"] === "incomplete";
    out.push([{ type: "finish", finish: readFinish(response, incomplete, this.#calledTool) }]);
    this.done = true;
    return undefined;
  }

  #eventsOf(item: Item): Event[] {
    const events: Event[] = [];
    readWholeItem(item, this.#citer, events);
    return events;
  }
}

/** A reader for one upstream stream of this dialect. It never throws, and ends with `finish` only on a terminal record. */
export function decodeStream(): Decoder {
  return new ResponsesDecoder();
}
