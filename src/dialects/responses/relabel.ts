import type { GatewayError } from "../../canon/errors.ts";
import type { Event, Finish } from "../../canon/events.ts";
import type { Usage } from "../../canon/usage.ts";
import { isEmpty, isObject } from "../../lib/json.ts";
import { type Edits, editInside, editObject, type ObjectText } from "../../lib/json-text.ts";
import type { Relabeler, ReplyContext } from "../dialect.ts";
import { type Frame, recordWith } from "../frames.ts";
import { wholeSeconds } from "../openai-fields.ts";
import { isEmptyFrame, isTerminal, typeOf } from "./decode-stream.ts";
import { encodeFailure } from "./errors.ts";
import { writeFinish } from "./finish.ts";
import type { Item } from "./items.ts";
import { record } from "./records.ts";
import { estimatedUsage, type ResponseState, writeResponse } from "./response-object.ts";
import { soundItem, soundOutput, soundRecord } from "./sound-output.ts";
import { readUsage, soundUsage, writeUsage } from "./usage.ts";

/** A whole reply with the client's model ID, every other byte as it was. `body` is known to be an object. */
export function relabelReply(body: ObjectText, context: ReplyContext): string {
  const { usage } = body.value;
  const counts = soundUsage(usage);
  const edits = { ...wholeTime(body.value), ...soundOutput(body.value), ...(counts !== usage && { usage: counts }) };
  return body.edit({ model: context.model, ...edits });
}

/** The time of a response as clients take it. What is told without parts is, too: its bytes may say 1786588600.0. */
function wholeTime(response: Record<string, unknown>): Edits {
  const created = wholeSeconds(response["created_at"]);
  return created === undefined ? {} : { created_at: created };
}

const lastUsage = (events: readonly Event[]): Usage | undefined =>
  events.findLast((event) => event.type === "usage")?.usage;

/** The usage to put into a last response whose vendor counted nothing, in text, or some of its output beside the rest; undefined where it did, or where nobody knows better. */
function otherUsage(response: unknown, events: readonly Event[]): Record<string, unknown> | undefined {
  if (!isObject(response)) return undefined;
  const counts = soundUsage(response["usage"]);
  if (readUsage(counts)) return isObject(counts) && counts !== response["usage"] ? counts : undefined;
  const usage = lastUsage(events);
  return usage && { ...(isObject(response["usage"]) && response["usage"]), ...writeUsage(usage) };
}

/** Forwards a stream frame by frame: the model ID inside `response` is exchanged, and what clients need and a record lacks is added: its type, its number, a call's name, a last response's output. */
class ResponsesRelabeler implements Relabeler {
  #terminal = "";
  /** The items that are done, by their places. */
  readonly #items = new Map<unknown, unknown>();
  /** The number of the next record, and the vendor's name for the response. */
  #sequence = 0;
  #id: unknown;

  constructor(readonly context: ReplyContext) {}

  push(frame: Frame, events: readonly Event[]): string {
    // The error itself is written by whoever ends the stream.
    for (const event of events) if (event.type === "error") return "";
    if (isEmptyFrame(frame)) return frame.event === "keepalive" ? `${frame.raw}\n\n` : "";
    // The decoder has read this frame without an error, so it is JSON.
    const { value } = frame;
    if (this.#terminal !== "" || !isObject(value)) return "";
    const type = typeOf(value, frame);
    const { sequence_number: sequence } = value;
    if (typeof sequence === "number") this.#sequence = sequence;
    if (type === "response.output_item.done") this.#items.set(value["output_index"], soundItem(value["item"]));
    this.#id ??= isObject(value["response"]) ? value["response"]["id"] : undefined;
    if (!isTerminal(type)) return this.#forward(frame, value, type);
    this.#terminal = this.#forward(frame, value, type, this.#lastEdits(value["response"], events));
    return "";
  }

  end(events: readonly Event[]): string {
    if (this.#terminal !== "") return this.#terminal;
    let finish: Finish = { reason: "stop" };
    for (const event of events) if (event.type === "finish") finish = event.finish;
    const usage = lastUsage(events) ?? estimatedUsage(this.context);
    const state = { ...writeFinish(finish), output: this.#output, usage };
    const response = this.#write(state);
    return record({ type: `response.${state.status}`, sequence_number: this.#sequence, response });
  }

  fail(error: GatewayError): string {
    return encodeFailure(error, this.#write({ status: "failed", output: this.#output }), this.#sequence);
  }

  /** The response as it stands, by the name that its vendor has given it. */
  #write(state: ResponseState): Record<string, unknown> {
    const response = writeResponse(this.context, state);
    return typeof this.#id === "string" ? { ...response, id: this.#id } : response;
  }

  /** The items that are done, in the order of their places. */
  get #output(): Item[] {
    const placed = [...this.#items].sort(([one], [other]) => Number(one) - Number(other));
    return placed.map(([, item]) => item).filter(isObject);
  }

  /** What a last response lacks: counts, and the items that have come before it, of which some servers repeat none (decolua/9router #705). */
  #lastEdits(response: unknown, events: readonly Event[]): Edits {
    const usage = otherUsage(response, events);
    const said = isObject(response) ? response["output"] : undefined;
    const isBare = !Array.isArray(said) || (said.length === 0 && this.#items.size > 0);
    return { ...(usage && { usage }), ...(isBare && { output: this.#output }) };
  }

  #forward(frame: Frame, value: Record<string, unknown>, type: string, edits: Edits = {}): string {
    const { response, sequence_number: number } = value;
    const changed: Edits = isObject(response)
      ? { model: this.context.model, ...wholeTime(response), ...soundOutput(response), ...edits }
      : edits;
    const added = {
      ...soundRecord(value, type),
      ...(value["type"] === undefined && type !== "" && { type }),
      ...(typeof number !== "number" && { sequence_number: this.#sequence }),
    };
    this.#sequence++;
    if (isEmpty(changed) && isEmpty(added)) return `${frame.raw}\n\n`;
    const data = isEmpty(changed) ? frame.data : editInside(frame.data, "response", changed);
    return recordWith(frame, isEmpty(added) ? data : editObject(data, added));
  }
}

/** A forwarder for one stream of this dialect. */
export function relabelStream(context: ReplyContext): Relabeler {
  return new ResponsesRelabeler(context);
}
