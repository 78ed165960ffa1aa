import type { GatewayError } from "../../canon/errors.ts";
import type { BlockStart, Citation, Event, Finish } from "../../canon/events.ts";
import type { Usage } from "../../canon/usage.ts";
import type { Encoder, ReplyContext } from "../dialect.ts";
import { encodeFailure } from "./errors.ts";
import { endItem, writeFinish } from "./finish.ts";
import { CUSTOM_CALL, type Item, PICTURE } from "./items.ts";
import {
  annotationOf,
  finishItem,
  mayBeCut,
  proofItem,
  refusalPart,
  startItem,
  summaryPart,
  textPart,
} from "./output-items.ts";
import { isProof } from "./phase.ts";
import { record } from "./records.ts";
import { estimatedUsage, writeResponse } from "./response-object.ts";

/** The block being written: its item as announced, and all of its text. */
type Current = { block: BlockStart; item: Item; text: string; signature: string; annotations: Item[] };

/** A search that the gateway ran, or an image: records of their own tell that they were begun and done, by these words. */
const BEGUN: ReadonlyMap<unknown, readonly string[]> = new Map([
  ["web_search_call", ["in_progress", "searching"]],
  [PICTURE, ["in_progress", "generating"]],
]);

const declines = ({ block }: Current): boolean => block.kind === "text" && block.refusal === true;

const isCustom = ({ item }: Current): boolean => item["type"] === CUSTOM_CALL;

/** The client's other tools are none: there are no records here for what they are given, which stands in the item at its end. */
const isFunction = ({ item }: Current): boolean => item["type"] === "function_call";

/**
 * Writes one client stream: every item with its whole sequence of added, delta and done records, one item at a time, and the terminal
 * record with the whole response from `end` (contract 7).
 */
class ResponsesEncoder implements Encoder {
  #sequence = 0;
  #started = false;
  #output: Item[] = [];
  #current: Current | undefined;
  /** The current block has ended, and what follows tells whether it is whole. */
  #isEnding = false;
  #usage: Usage;
  #finish: Finish = { reason: "stop" };

  constructor(readonly context: ReplyContext) {
    this.#usage = estimatedUsage(context);
  }

  push(event: Event): string {
    if (event.type === "block-delta") return this.#delta(event.text);
    if (event.type === "usage") this.#usage = event.usage;
    else if (event.type === "block-signature") {
      if (this.#current) this.#current.signature = event.signature;
    }
    // The edge writes an error, since only that knows the request's id.
    if (event.type === "usage" || event.type === "block-signature" || event.type === "error") return "";
    const opening = this.#open();
    if (event.type === "block-citation") return opening + this.#cite(event.citation);
    if (event.type === "block-end") {
      const current = this.#current;
      this.#isEnding = current !== undefined;
      return current && mayBeCut(current.block, current.text) ? opening : opening + this.#endBlock();
    }
    if (event.type === "finish") this.#finish = event.finish;
    const ended = opening + this.#endBlock();
    return event.type === "block-start" ? ended + this.#startBlock(event.block) : ended;
  }

  end(): string {
    const state = { ...writeFinish(this.#finish), output: this.#output, usage: this.#usage };
    const type = state.status === "completed" ? "response.completed" : "response.incomplete";
    return this.#write(type, { response: writeResponse(this.context, state) });
  }

  fail(error: GatewayError): string {
    const opening = this.#open() + this.#endBlock();
    const response = writeResponse(this.context, { status: "failed", output: this.#output });
    return opening + encodeFailure(error, response, this.#sequence);
  }

  #write(type: string, fields: Record<string, unknown>): string {
    return record({ type, sequence_number: this.#sequence++, ...fields });
  }

  #open(): string {
    if (this.#started) return "";
    this.#started = true;
    const response = writeResponse(this.context, { status: "in_progress", output: [] });
    return this.#write("response.created", { response }) + this.#write("response.in_progress", { response });
  }

  /** A record about the item being written, or about one part of it. */
  #about(current: Current, type: string, fields: Record<string, unknown>): string {
    return this.#write(type, { item_id: current.item["id"], output_index: this.#output.length, ...fields });
  }

  #startBlock(block: BlockStart): string {
    const item = startItem(block, this.#id(), this.context);
    if (!item) return "";
    this.#current = { block, item, text: "", signature: "", annotations: [] };
    const states = BEGUN.get(item["type"]);
    const shown = states ? { ...item, status: "in_progress" } : item;
    const added = this.#write("response.output_item.added", { output_index: this.#output.length, item: shown });
    if (states) return added + this.#tellStates(this.#current, states);
    if (block.kind !== "text") return added;
    const part = block.refusal ? refusalPart("") : textPart("");
    return added + this.#about(this.#current, "response.content_part.added", { content_index: 0, part });
  }

  /** What the next item is called by. */
  #id(): string {
    return `${this.context.replyId}_${this.#output.length}`;
  }

  #tellStates(current: Current, states: readonly string[]): string {
    return states
      .map((state) => this.#about(current, `response.${String(current.item["type"])}.${state}`, {}))
      .join("");
  }

  #cite(citation: Citation): string {
    const current = this.#current;
    if (current?.block.kind !== "text") return "";
    const annotation = annotationOf(citation);
    const index = current.annotations.push(annotation) - 1;
    const fields = { content_index: 0, annotation_index: index, annotation };
    return this.#about(current, "response.output_text.annotation.added", fields);
  }

  #delta(delta: string): string {
    const current = this.#current;
    if (!current) return "";
    const first = current.text === "";
    current.text += delta;
    if (declines(current)) return this.#about(current, "response.refusal.delta", { content_index: 0, delta });
    if (current.block.kind === "text") {
      return this.#about(current, "response.output_text.delta", { content_index: 0, delta, logprobs: [] });
    }
    if (isCustom(current)) return this.#about(current, "response.custom_tool_call_input.delta", { delta });
    if (isFunction(current)) return this.#about(current, "response.function_call_arguments.delta", { delta });
    if (current.block.kind !== "reasoning") return "";
    const part = first
      ? this.#about(current, "response.reasoning_summary_part.added", { summary_index: 0, part: summaryPart("") })
      : "";
    return part + this.#about(current, "response.reasoning_summary_text.delta", { summary_index: 0, delta });
  }

  /** The records by which the current block ends, if it has. */
  #endBlock(): string {
    const current = this.#current;
    if (!current || !this.#isEnding) return "";
    this.#isEnding = false;
    const isOpen = mayBeCut(current.block, current.text);
    const empty = isFunction(current) && current.text === "" ? this.#delta("{}") : "";
    const parts = this.#endParts(current);
    const { block, text, signature, annotations } = current;
    const whole = finishItem(current.item, block, text, signature, this.context, annotations);
    const item = isOpen ? endItem(whole, this.#finish) : whole;
    this.#current = undefined;
    return empty + parts + this.#finishItem(item) + (block.kind === "text" ? this.#proveText(signature) : "");
  }

  #finishItem(item: Item): string {
    const done = this.#write("response.output_item.done", { output_index: this.#output.length, item });
    this.#output.push(item);
    return done;
  }

  #proveText(signature: string): string {
    if (!isProof(signature)) return "";
    const item = proofItem(this.#id(), signature, this.context);
    const added = this.#write("response.output_item.added", { output_index: this.#output.length, item });
    return added + this.#finishItem(item);
  }

  #endParts(current: Current): string {
    const { text, annotations } = current;
    const { kind } = current.block;
    if (BEGUN.has(current.item["type"])) return this.#tellStates(current, ["completed"]);
    if (declines(current)) {
      return (
        this.#about(current, "response.refusal.done", { content_index: 0, refusal: text }) +
        this.#about(current, "response.content_part.done", { content_index: 0, part: refusalPart(text) })
      );
    }
    if (kind === "text") {
      return (
        this.#about(current, "response.output_text.done", { content_index: 0, text, logprobs: [] }) +
        this.#about(current, "response.content_part.done", { content_index: 0, part: textPart(text, annotations) })
      );
    }
    if (isCustom(current)) return this.#about(current, "response.custom_tool_call_input.done", { input: text });
    if (isFunction(current)) {
      const fields = { name: current.item["name"], arguments: text };
      return this.#about(current, "response.function_call_arguments.done", fields);
    }
    if (kind !== "reasoning" || text === "") return "";
    return (
      this.#about(current, "response.reasoning_summary_text.done", { summary_index: 0, text }) +
      this.#about(current, "response.reasoning_summary_part.done", { summary_index: 0, part: summaryPart(text) })
    );
  }
}

/** A writer for one client stream of this dialect. */
export function encodeStream(context: ReplyContext): Encoder {
  return new ResponsesEncoder(context);
}
