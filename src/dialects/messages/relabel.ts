import type { Event, Finish } from "../../canon/events.ts";
import { NO_USAGE, type Usage } from "../../canon/usage.ts";
import { entryOf, isEmpty, isObject, listOf, objectsOf, stringOf } from "../../lib/json.ts";
import { mayBeInexact, parseExactly } from "../../lib/json-numbers.ts";
import { type Edits, editObject, type ObjectText } from "../../lib/json-text.ts";
import { BlockLane, type Slot } from "../block-lane.ts";
import { withNumbers } from "../count-texts.ts";
import type { Relabeler, ReplyContext } from "../dialect.ts";
import { Frame, oneLine } from "../frames.ts";
import { type RecordWriter, RunWriter } from "../run-writer.ts";
import { ReplyCallIds } from "../tools/counted-ids.ts";
import { type Block, fragmentText, inputText, isCall, makeAnswerable } from "./blocks.ts";
import { isEmptyFrame, readAnother, typeOf } from "./decode-stream.ts";
import { placeDelta } from "./delta-place.ts";
import {
  blockDelta,
  blockStart,
  blockStop,
  MESSAGE_STOP,
  messageDelta,
  messageIdOf,
  messageStart,
  record,
} from "./records.ts";
import { fittingStopReason } from "./stop-reason.ts";
import { writeUsage } from "./usage.ts";

const isFilled = (value: unknown): boolean => typeof value === "string" && value !== "";

/** Texts that a block begins with, empty or not: clients with checked types refuse one without them. */
const FIRST_TEXTS: Record<string, readonly string[]> = { text: ["text"], thinking: ["thinking", "signature"] };

/** What the beginning of a block lacks, or must not say yet, as edits of its record; undefined where it is as it should be. `seed`: the reply's name. `ids`: those of its calls. */
function startEdits(block: unknown, seed: unknown, ids: ReplyCallIds): Edits | undefined {
  if (!isObject(block)) return undefined;
  if (block["type"] === "tool_use") {
    const { input } = block;
    const named = makeAnswerable(block, seed, ids);
    const isBare = isObject(input) && inputText(input) === "";
    if (isBare) return named === block ? undefined : { content_block: named };
    return { content_block: { ...named, input: {} } };
  }
  const missing = entryOf(FIRST_TEXTS, stringOf(block["type"]))?.filter((field) => typeof block[field] !== "string");
  if (!missing || missing.length === 0) return undefined;
  return { content_block: { ...block, ...Object.fromEntries(missing.map((field) => [field, ""])) } };
}

/** The arguments that a call begins with, from what a vendor wrote in their place: clients take an object for granted. */
function inputOf(input: unknown): Block {
  try {
    const value: unknown = typeof input === "string" ? parseExactly(input) : undefined;
    return isObject(value) ? value : {};
  } catch {
    // No JSON: what the call really asks comes in pieces, or not at all.
    return {};
  }
}

/**
 * The arguments that the beginning of a call says, as JSON text, their numbers digit for digit; "" where it says none. Claude Code and others take them
 * from the pieces alone, and one that begins with what it found there has them twice.
 */
function firstInput(frame: Frame, value: Block): string {
  const { content_block: block } = value;
  if (!isCall(block) || !isObject(block["input"])) return isCall(block) ? inputText(inputOf(block["input"])) : "";
  if (!mayBeInexact(frame.data)) return inputText(block["input"]);
  return inputText((parseExactly(frame.data) as { content_block: Block }).content_block["input"]);
}

/** Where each kind of delta has its text: SDKs join whatever stands there, and a null is the word "null" to them. */
const DELTA_TEXTS: Record<string, string> = {
  text_delta: "text",
  thinking_delta: "thinking",
  signature_delta: "signature",
  input_json_delta: "partial_json",
};

/** A delta that clients can join to its block: itself, or with its arguments as JSON text; undefined where it says nothing. */
function soundDelta(delta: unknown): Block | undefined {
  if (!isObject(delta)) return undefined;
  const field = entryOf(DELTA_TEXTS, stringOf(delta["type"]));
  if (field === undefined || typeof delta[field] === "string") return delta;
  const text = field === "partial_json" ? fragmentText(delta[field]) : "";
  return text === "" ? undefined : { ...delta, [field]: text };
}

const lacksInput = (block: unknown): boolean => isCall(block) && !isObject(block["input"]);

const isUnanswerable = (block: unknown, seed: unknown, ids: ReplyCallIds): boolean =>
  isCall(block) && makeAnswerable(block, seed, ids) !== block;

/** Blocks with the arguments of each call as the object that clients take for granted, their numbers digit for digit, and under an id of its own. */
function withSoundCalls(body: ObjectText, { usedCallIds }: ReplyContext): unknown[] {
  const { content, id } = parseExactly(body.text) as { content: unknown[]; id: unknown };
  const ids = new ReplyCallIds(usedCallIds);
  return content.map((block) => {
    if (!isCall(block)) return block;
    const named = makeAnswerable(block, id, ids);
    return lacksInput(block) ? { ...named, input: inputOf(block["input"]) } : named;
  });
}

/** What says that no stop sequence ended a reply, where its vendor leaves that out: vLLM does (vllm-project/vllm#56371), and who checks types refuses it. */
const unstopped = ({ stop_sequence: stop }: Block): Block => (stop === undefined ? { stop_sequence: null } : {});

/**
 * A whole reply with the client's model ID, what every message says of itself, calls that can be made and a stop reason that fits its blocks, every
 * other byte as it was. `body` is known to be an object.
 */
export function relabelReply(body: ObjectText, context: ReplyContext): string {
  const { id, type, role, content, stop_reason: word, usage } = body.value;
  const blocks = listOf(content);
  const ids = new ReplyCallIds(context.usedCallIds);
  const fitting = fittingStopReason(word, blocks.some(isCall));
  const counts = withNumbers(usage);
  return body.edit({
    model: context.model,
    ...(!isFilled(id) && { id: messageIdOf(context) }),
    ...(!isFilled(type) && { type: "message" }),
    ...(!isFilled(role) && { role: "assistant" }),
    ...(content === null && { content: [] }),
    ...(blocks.some((block) => lacksInput(block) || isUnanswerable(block, id, ids)) && {
      content: withSoundCalls(body, context),
    }),
    ...(fitting !== undefined && { stop_reason: fitting }),
    ...unstopped(body.value),
    ...(counts !== usage && { usage: counts }),
  });
}

/** Records that are nothing without their data. */
const OWN_NAMES = new Set([
  "message_start",
  "content_block_start",
  "content_block_delta",
  "content_block_stop",
  "message_delta",
  "message_stop",
  "error",
]);

/** A record that was torn off behind its name: an SDK dies of it, and who reads names alone would take it for the terminator. */
const isTorn = (frame: Frame): boolean => frame.event !== undefined && OWN_NAMES.has(frame.event);

/** The frame as it came, or with edits and what a client needs to see it: an event line that says the type (dialects.md 2.5). */
function forward(frame: Frame, value: Block, edits?: Edits): string {
  const type = typeOf(value, frame);
  const missingType = type !== undefined && value["type"] !== type;
  if (!edits && !missingType) {
    if (frame.event === type) return `${frame.raw}\n\n`;
    if (frame.event === undefined) return `event: ${type}\n${frame.raw}\n\n`;
  }
  const json = editObject(frame.data, { ...edits, ...(missingType && { type }) });
  return record(type ?? "message", oneLine(json));
}

/** The frame with the model spliced into its text, or undefined when that did not put it where it belongs. */
function spliceModel(frame: Frame, before: string, model: string): Frame | undefined {
  if (!frame.raw.includes(frame.data)) return undefined;
  for (const key of ['"model":', '"model": ']) {
    const literal = key + JSON.stringify(before);
    const at = frame.data.indexOf(literal);
    if (at < 0) continue;
    const data = frame.data.slice(0, at) + key + JSON.stringify(model) + frame.data.slice(at + literal.length);
    const spliced = new Frame(
      frame.raw.replace(frame.data, () => data),
      frame.event,
      data,
    );
    const { value } = spliced;
    if (isObject(value) && isObject(value["message"]) && value["message"]["model"] === model) return spliced;
  }
  return undefined;
}

/** message_start with the client's model ID, and with the id, content and usage that SDKs build upon (dialects.md 2.5). */
function relabelStart(frame: Frame, value: Block, message: Block, context: ReplyContext): string {
  const counts = withNumbers(message["usage"]);
  const hasCounts = isObject(counts) && counts === message["usage"];
  const sound = isFilled(message["id"]) && Array.isArray(message["content"]) && hasCounts;
  if (sound && message["model"] === context.model) return forward(frame, value);
  const before = message["model"];
  const spliced = sound && typeof before === "string" ? spliceModel(frame, before, context.model) : undefined;
  if (spliced) return forward(spliced, value);
  const repaired = {
    type: "message",
    role: "assistant",
    stop_reason: null,
    stop_sequence: null,
    ...message,
    ...(!isFilled(message["id"]) && { id: messageIdOf(context) }),
    model: context.model,
    ...(!Array.isArray(message["content"]) && { content: [] }),
    usage: isObject(counts) ? counts : { input_tokens: context.estimatedInputTokens, output_tokens: 0 },
  };
  return forward(frame, value, { message: repaired });
}

/** Of an open block: how it began, and the arguments that its beginning said, until pieces of them come. */
type OpenBlock = { block: Block; input: string };
type OpenSlot = Slot<string, OpenBlock>;

/** A message_delta that waits for the end: its frame, or where several were merged only what they say. */
type Closing = { frame?: Frame; value: Block };

const fieldsOf = (value: unknown): Block => (isObject(value) ? value : {});

/** What a later message_delta leaves of an earlier one: what it does not say itself, and the stop reason where it tells none. */
function mergeClosing(earlier: Block, later: Block): Block {
  const [before, after] = [fieldsOf(earlier["delta"]), fieldsOf(later["delta"])];
  const told = typeof after["stop_reason"] === "string" ? after : before;
  const { stop_reason = null, stop_sequence = null } = told;
  const counts = Object.entries(fieldsOf(later["usage"])).filter(([, count]) => count !== null);
  return {
    ...earlier,
    ...later,
    delta: { ...before, ...after, stop_reason, stop_sequence },
    usage: { ...fieldsOf(earlier["usage"]), ...Object.fromEntries(counts) },
  };
}

/**
 * Forwards a stream frame by frame, and repairs only what an SDK would choke on (dialects.md 2.5). Several messages in one body go out as
 * one (4.8 #42): hence the only message_delta waits for the end, as the terminator does.
 */
class MessagesRelabeler implements Relabeler, RecordWriter {
  #started = false;
  /** The vendor's id of the message. */
  #seed: unknown;
  readonly #ids: ReplyCallIds;
  #stop = "";
  #closing: Closing | undefined;
  /** More than one message, so the counts that were told are not those of the whole. */
  #isMerged = false;
  #usage: Usage = NO_USAGE;
  #finish: Finish | undefined;
  /** The message began with the reason of its stop: it was all there at once. */
  #toldStop = false;
  #calledTool = false;
  #lane = new BlockLane<string, OpenBlock>((record) => record.length);
  readonly #runs = new RunWriter(this);

  constructor(readonly context: ReplyContext) {
    this.#ids = new ReplyCallIds(context.usedCallIds);
  }

  writeRecord(record: Frame): string {
    return this.push(record, []);
  }

  writeRaw(raw: string): string {
    return raw;
  }

  push(frame: Frame, events: readonly Event[]): string {
    if (frame.run) return this.#runs.write(frame, frame.run, events);
    for (const event of events) {
      if (event.type === "error") return "";
      this.#note(event);
    }
    if (this.#stop !== "") return this.#another(frame);
    if (frame.data.trim() === "[DONE]") return "";
    if (isEmptyFrame(frame)) return isTorn(frame) ? "" : `${frame.raw}\n\n`;
    // The decoder has read this frame without an error, so it is a JSON object.
    const value = frame.value;
    return isObject(value) ? this.#write(frame, value) : "";
  }

  end(events: readonly Event[]): string {
    for (const event of events) this.#note(event);
    const out: string[] = [];
    if (!this.#started) out.push(messageStart(this.context));
    this.#closeAll(out);
    // Counts that come only now are not the vendor's: it sent none.
    const isOwn = events.some((event) => event.type === "usage");
    if (this.#closing) out.push(this.#messageDelta(this.#closing, isOwn || this.#isMerged));
    else if (this.#finish && (!this.#toldStop || this.#isMerged || isOwn)) {
      out.push(messageDelta(this.#finish, this.#finish.reason === "tool-calls", this.#usage));
    }
    out.push(this.#stop || MESSAGE_STOP);
    return out.join("");
  }

  /** Behind a message_stop: another message of the same reply, or what nobody misses. */
  #another(frame: Frame): string {
    const value = readAnother(frame);
    if (!value) return "";
    this.#stop = "";
    this.#isMerged = true;
    return this.#write(frame, value);
  }

  #note(event: Event): void {
    if (event.type === "usage") this.#usage = event.usage;
    else if (event.type === "finish") this.#finish = event.finish;
    else if (event.type === "block-start") this.#calledTool ||= event.block.kind === "tool-call";
  }

  #write(frame: Frame, value: Block): string {
    const out: string[] = [];
    switch (typeOf(value, frame)) {
      case "content_block_delta":
        this.#delta(frame, value, out);
        break;
      case "content_block_start":
        this.#blockStart(frame, value, out);
        break;
      case "content_block_stop":
        for (const slot of this.#lane.all(value["index"]))
          this.#closeBlock(slot, this.#placed(frame, value, slot), out);
        break;
      case "message_start":
        this.#messageStart(frame, value, out);
        break;
      case "message_delta":
        this.#begin(out);
        this.#close(frame, value);
        break;
      case "message_stop":
        this.#stop = forward(frame, value);
        break;
      default:
        out.push(forward(frame, value));
    }
    return out.length === 1 && out[0] !== undefined ? out[0] : out.join("");
  }

  /** A stream without message_start would be lost to the SDK as a whole: it gets one. */
  #begin(out: string[]): void {
    if (this.#started) return;
    this.#started = true;
    out.push(messageStart(this.context));
  }

  #messageStart(frame: Frame, value: Block, out: string[]): void {
    const message = isObject(value["message"]) ? value["message"] : {};
    const content = objectsOf(message["content"]);
    this.#seed = message["id"];
    if (typeof message["stop_reason"] === "string") this.#toldStop = true;
    if (!this.#started && isObject(value["message"])) {
      this.#started = true;
      for (const _block of content) this.#lane.skip();
      out.push(relabelStart(frame, value, message, this.context));
      return;
    }
    this.#begin(out);
    this.#closeAll(out);
    for (const block of content) {
      const position = this.#lane.skip();
      out.push(blockStart(position, block), blockStop(position));
    }
  }

  /** The frame under the block's place in the reply, which differs from the vendor's number only after a repair. */
  #placed(frame: Frame, value: Block, slot: OpenSlot, edits?: Edits): string {
    if (value["index"] === slot.position) return forward(frame, value, edits);
    return forward(frame, value, { ...edits, index: slot.position });
  }

  #blockStart(frame: Frame, value: Block, out: string[]): void {
    this.#begin(out);
    const index = value["index"];
    if (index !== undefined) this.#endAll(this.#lane.all(index), out);
    const slot = this.#lane.open(index, { block: fieldsOf(value["content_block"]), input: firstInput(frame, value) });
    this.#lane.write(
      slot,
      this.#placed(frame, value, slot, startEdits(value["content_block"], this.#seed, this.#ids)),
      out,
    );
  }

  #delta(frame: Frame, value: Block, out: string[]): void {
    const delta = soundDelta(value["delta"]);
    if (!delta) return;
    const place = placeDelta(this.#lane, value["index"], delta);
    if (!place) return;
    const slot = "slot" in place ? place.slot : this.#beginBlock(value["index"], place, out);
    if (delta["type"] === "input_json_delta" && delta["partial_json"] !== "") slot.state.input = "";
    this.#lane.write(slot, this.#placed(frame, value, slot, delta === value["delta"] ? undefined : { delta }), out);
  }

  /** Begins a block that the vendor did not, behind those that end before it. */
  #beginBlock(index: unknown, { block, ended }: { block: Block; ended: readonly OpenSlot[] }, out: string[]): OpenSlot {
    this.#begin(out);
    this.#endAll(ended, out);
    const slot = this.#lane.open(index, { block, input: "" });
    this.#lane.write(slot, blockStart(slot.position, block), out);
    return slot;
  }

  /** Ends a block with its last record, behind the arguments of which no piece has come. */
  #closeBlock(slot: OpenSlot, last: string, out: string[]): void {
    const { input } = slot.state;
    if (input !== "") {
      this.#lane.write(slot, blockDelta(slot.position, "input_json_delta", "partial_json", input), out);
    }
    this.#lane.close(slot, last, out);
  }

  #endAll(slots: readonly OpenSlot[], out: string[]): void {
    for (const slot of slots) this.#closeBlock(slot, blockStop(slot.position), out);
  }

  #closeAll(out: string[]): void {
    this.#endAll(this.#lane.openSlots(), out);
  }

  #close(frame: Frame, value: Block): void {
    this.#closing = this.#closing ? { value: mergeClosing(this.#closing.value, value) } : { frame, value };
  }

  /** The message_delta as it came, but with a reason that fits, counts where it has none, and all of them with `isCounted`. */
  #messageDelta({ frame, value }: Closing, isCounted: boolean): string {
    const { delta } = value;
    const usage = withNumbers(value["usage"]);
    const edits: Edits = {};
    if (!isObject(delta)) edits["delta"] = { stop_reason: null, stop_sequence: null };
    else {
      const fitting = fittingStopReason(delta["stop_reason"], this.#calledTool);
      const repairs = { ...(fitting !== undefined && { stop_reason: fitting }), ...unstopped(delta) };
      if (!isEmpty(repairs)) edits["delta"] = { ...delta, ...repairs };
    }
    if (isCounted) edits["usage"] = { ...fieldsOf(usage), ...writeUsage(this.#usage) };
    else if (!isObject(usage) || typeof usage["output_tokens"] !== "number") {
      edits["usage"] = { ...fieldsOf(usage), output_tokens: this.#usage.output };
    } else if (usage !== value["usage"]) edits["usage"] = usage;
    if (!frame) return record("message_delta", JSON.stringify({ ...value, ...edits, type: "message_delta" }));
    return forward(frame, value, Object.keys(edits).length === 0 ? undefined : edits);
  }
}

/** A forwarder for one stream of this dialect. */
export function relabelStream(context: ReplyContext): Relabeler {
  return new MessagesRelabeler(context);
}
