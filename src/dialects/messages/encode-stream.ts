import type { BlockStart, Event } from "../../canon/events.ts";
import { NO_USAGE, type Usage } from "../../canon/usage.ts";
import type { Encoder, ReplyContext } from "../dialect.ts";
import { unseenPicture } from "../media/pictures.ts";
import { makerOf, markUnsigned } from "../reasoning/proof.ts";
import { InputStream } from "../tools/input-stream.ts";
import { citationOf, serverToolUsage } from "./citations.ts";
import {
  blockDelta,
  blockStart,
  blockStop,
  citationDelta,
  MESSAGE_STOP,
  messageDelta,
  messageStart,
} from "./records.ts";

/** How the deltas of a block are written: their type, and the field that holds the text. */
const DELTAS: Partial<Record<BlockStart["kind"], readonly [type: string, field: string]>> = {
  text: ["text_delta", "text"],
  reasoning: ["thinking_delta", "thinking"],
  opaque: ["input_json_delta", "partial_json"],
};

const isReasoning = ({ kind }: BlockStart): boolean => kind === "reasoning" || kind === "redacted-reasoning";

/**
 * A block as its content_block_start shows it, or undefined for one that is left out whole: of another dialect, or another vendor's reasoning for a
 * client that wants none.
 */
export function startOfBlock(block: BlockStart, context: ReplyContext): Record<string, unknown> | undefined {
  if (context.hidesReasoning && context.upstreamModel !== undefined && isReasoning(block)) return undefined;
  if (block.kind === "text" || block.kind === "image") return { type: "text", text: "" };
  if (block.kind === "reasoning") return { type: "thinking", thinking: "", signature: "" };
  if (block.kind === "redacted-reasoning") return { type: "redacted_thinking", data: block.data };
  if (block.kind === "tool-call") return { type: "tool_use", id: block.id, name: block.name, input: {} };
  return block.dialect === "messages" ? block.value : undefined;
}

/**
 * The signature of reasoning: the vendor's own, never one that could be taken for it. Where another dialect's vendor gave none, a word of
 * whose it is, by which it is known when it comes back (dialects.md 4.8 #6). `position`: the block's among those of the reply.
 */
export function shownSignature(signature: string, position: number, { upstreamModel, replyId }: ReplyContext): string {
  if (signature !== "" || upstreamModel === undefined) return signature;
  return markUnsigned(makerOf(upstreamModel), `${replyId}_${position}`);
}

/** Writes one client stream: blocks 0, 1, 2, … one at a time, one message_delta, and the terminator from `end` (contract 7). */
class MessagesEncoder implements Encoder {
  #position = -1;
  #kind: BlockStart["kind"] | undefined;
  #signature = "";
  #calledTool = false;
  /** That of the open block, if it is a call, and whether no piece of it has gone out yet. */
  #input: InputStream | undefined;
  #lacksInput = false;
  #usage: Usage;

  constructor(readonly context: ReplyContext) {
    // Until the vendor counts, the estimate stands: a reply that cost no input does not exist.
    this.#usage = { ...NO_USAGE, input: context.estimatedInputTokens };
  }

  push(event: Event): string {
    switch (event.type) {
      case "block-delta":
        return this.#delta(event.text);
      case "start":
        return messageStart(this.context);
      case "block-start":
        return this.#open(event.block);
      case "block-signature":
        if (this.#kind === "reasoning") this.#signature = event.signature;
        return "";
      case "block-citation":
        return this.#kind === "text" ? citationDelta(this.#position, citationOf(event.citation)) : "";
      case "block-end":
        return this.#close();
      case "usage":
        this.#usage = event.usage;
        return "";
      case "finish":
        return messageDelta(event.finish, this.#calledTool, this.#usage, serverToolUsage(this.context));
      case "error":
        // The edge writes it, since only that knows the request's id.
        return "";
    }
  }

  end(): string {
    return MESSAGE_STOP;
  }

  #open(block: BlockStart): string {
    const start = startOfBlock(block, this.context);
    if (!start) return "";
    this.#kind = block.kind;
    this.#lacksInput = block.kind === "tool-call";
    this.#input = this.#lacksInput ? new InputStream() : undefined;
    this.#calledTool ||= this.#lacksInput;
    this.#position++;
    const opening = blockStart(this.#position, start);
    if (block.kind !== "image") return opening;
    return opening + blockDelta(this.#position, "text_delta", "text", unseenPicture(block));
  }

  #delta(text: string): string {
    if (this.#input) return this.#writeInput(this.#input.add(text));
    const form = this.#kind === undefined ? undefined : DELTAS[this.#kind];
    return form ? blockDelta(this.#position, form[0], form[1], text) : "";
  }

  #writeInput(text: string): string {
    if (text === "") return "";
    this.#lacksInput = false;
    return blockDelta(this.#position, "input_json_delta", "partial_json", text);
  }

  /** The signature goes last. A call without arguments has one empty piece, as its own vendor sends it: an SDK asks for one. */
  #close(): string {
    if (this.#kind === undefined) return "";
    const signature = this.#kind === "reasoning" ? shownSignature(this.#signature, this.#position, this.context) : "";
    this.#kind = undefined;
    this.#signature = "";
    let last = this.#input ? this.#writeInput(this.#input.end()) : "";
    this.#input = undefined;
    if (this.#lacksInput) last = blockDelta(this.#position, "input_json_delta", "partial_json", "");
    else if (signature !== "") last = blockDelta(this.#position, "signature_delta", "signature", signature);
    return last + blockStop(this.#position);
  }
}

/** A writer for one client stream of this dialect. */
export function encodeStream(context: ReplyContext): Encoder {
  return new MessagesEncoder(context);
}
