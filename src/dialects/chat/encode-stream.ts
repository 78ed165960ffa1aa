import type { GatewayError } from "../../canon/errors.ts";
import type { BlockStart, Event, Finish } from "../../canon/events.ts";
import { NO_USAGE, type Usage } from "../../canon/usage.ts";
import type { Encoder, ReplyContext } from "../dialect.ts";
import { errorFields } from "../refusals/openai-error.ts";
import { annotationOf } from "./citations.ts";
import { extraContentOf } from "./extra-content.ts";
import { writeFinish } from "./finish.ts";
import { pictureOf, withProof } from "./pictures.ts";
import { writeUsage } from "./usage.ts";

/** The dialect's terminator (contract 7). */
export const TERMINATOR = "data: [DONE]\n\n";

/** An error as a stream's last record; no terminator follows it (contract 7). */
export const encodeErrorFrame = (error: GatewayError): string =>
  `data: ${JSON.stringify({ error: errorFields(error) })}\n\n`;

/** What a chunk says it is. */
export const CHUNK = "chat.completion.chunk";

/** The id of a reply as this dialect shows it. */
export const replyIdOf = (context: ReplyContext) => `chatcmpl-${context.replyId}`;

const chunkHead = (context: ReplyContext, id: string, created: number) =>
  `data: {"id":${JSON.stringify(id)},"object":"${CHUNK}","created":${created},"model":${JSON.stringify(context.model)},"choices":[`;

/** The closing usage chunk: no choices, the id of all other chunks, without which SDKs do not take it, and their time (dialects.md 1.4). */
export function usageChunk(
  context: ReplyContext,
  usage: unknown,
  id = replyIdOf(context),
  created = context.created,
): string {
  return `${chunkHead(context, id, created)}],"usage":${JSON.stringify(usage)}}\n\n`;
}

/** Writes a chat stream in the canonical order of dialects.md 1.4. */
export class ChatEncoder implements Encoder {
  #context: ReplyContext;
  #head: string;
  #tail: string;
  #started = false;
  #kind: "text" | "refusal" | "reasoning" | "tool-call" | "custom-call" | "only-call" | "skipped" = "skipped";
  #calls = 0;
  #hasArguments = false;
  /** The open call's own proof, as JSON, which goes out with the next piece of its arguments. */
  #extra: string | undefined;
  #usage: Usage = NO_USAGE;
  #annotations: Record<string, unknown>[] | undefined;
  /** The open block's image, which goes out with its proof. */
  #picture: Record<string, unknown> | undefined;
  #pictures = 0;

  constructor(context: ReplyContext) {
    this.#context = context;
    const usage = context.wantsUsage ? ',"usage":null' : "";
    this.#head = `${chunkHead(context, replyIdOf(context), context.created)}{"index":0,"delta":`;
    this.#tail = `,"logprobs":null,"finish_reason":null}]${usage}}\n\n`;
  }

  push(event: Event): string {
    if (event.type === "block-delta") return this.#delta(event.text);
    if (event.type === "usage") this.#usage = event.usage;
    if (event.type === "block-signature") this.#keepProof(event.signature);
    if (event.type === "block-signature" || event.type === "usage" || event.type === "error") return "";
    const opening = this.#started ? "" : this.#open();
    if (event.type === "block-start") return opening + this.#startBlock(event.block);
    if (event.type === "block-end") return this.#endBlock();
    if (event.type === "finish") return opening + this.#annotate() + this.#finish(event.finish);
    if (event.type === "block-citation") {
      this.#annotations ??= [];
      this.#annotations.push(annotationOf(event.citation));
    }
    return opening;
  }

  end(): string {
    const usage = this.#context.wantsUsage ? usageChunk(this.#context, writeUsage(this.#usage)) : "";
    return usage + TERMINATOR;
  }

  #open(): string {
    this.#started = true;
    return `${this.#head}{"role":"assistant","content":"","refusal":null}${this.#tail}`;
  }

  #startBlock(block: BlockStart): string {
    if (block.kind === "text" || block.kind === "reasoning") {
      this.#kind = block.kind === "text" && block.refusal ? "refusal" : block.kind;
      return "";
    }
    this.#kind = "skipped";
    if (block.kind === "image") this.#picture = pictureOf(block, this.#pictures++);
    return block.kind === "tool-call" ? this.#startCall(block) : "";
  }

  #startCall({ id, name, custom }: Extract<BlockStart, { kind: "tool-call" }>): string {
    this.#hasArguments = false;
    const index = this.#calls++;
    if (this.#context.changes?.legacyFunctions) {
      // The older form has place for one call a turn.
      if (index > 0) return "";
      this.#kind = "only-call";
      return `${this.#head}{"function_call":{"name":${JSON.stringify(name)},"arguments":""}}${this.#tail}`;
    }
    this.#kind = custom ? "custom-call" : "tool-call";
    const [type, field] = custom ? ["custom", "input"] : ["function", "arguments"];
    const called = `{"name":${JSON.stringify(name)},"${field}":""}`;
    const call = `{"index":${index},"id":${JSON.stringify(id)},"type":"${type}","${type}":${called}}`;
    return `${this.#head}{"tool_calls":[${call}]}${this.#tail}`;
  }

  #delta(text: string): string {
    if (this.#kind === "text") return `${this.#head}{"content":${JSON.stringify(text)}}${this.#tail}`;
    if (this.#kind === "reasoning") return `${this.#head}{"reasoning_content":${JSON.stringify(text)}}${this.#tail}`;
    if (this.#kind === "refusal") return `${this.#head}{"refusal":${JSON.stringify(text)}}${this.#tail}`;
    return this.#kind === "skipped" ? "" : this.#fragment(text);
  }

  #fragment(text: string): string {
    this.#hasArguments = true;
    const json = JSON.stringify(text);
    if (this.#kind === "only-call") return `${this.#head}{"function_call":{"arguments":${json}}}${this.#tail}`;
    const called = this.#kind === "custom-call" ? `"custom":{"input":${json}}` : `"function":{"arguments":${json}}`;
    const extra = this.#extra === undefined ? "" : `,"extra_content":${this.#extra}`;
    this.#extra = undefined;
    return `${this.#head}{"tool_calls":[{"index":${this.#calls - 1},${called}${extra}}]}${this.#tail}`;
  }

  /**
   * A call's own proof goes out beside a piece of its arguments, and one that says something: some clients take for granted that there are any, and
   * others take a piece with neither type nor arguments for another call (langchaingo).
   */
  #keepProof(signature: string): void {
    if (this.#picture) this.#picture = withProof(this.#picture, signature);
    const extra = this.#kind === "tool-call" ? extraContentOf(signature) : undefined;
    if (extra) this.#extra = JSON.stringify(extra);
  }

  /** Clients parse a call's arguments as JSON: a call without any gets an empty object (dialects.md 4.8 #10). */
  #endBlock(): string {
    const picture = this.#picture;
    this.#picture = undefined;
    if (picture) return `${this.#head}{"images":${JSON.stringify([picture])}}${this.#tail}`;
    const isFunction = this.#kind === "tool-call" || this.#kind === "only-call";
    // A proof that came behind the arguments has no piece of them left to go with.
    const rest = this.#hasArguments ? "" : "{}";
    const text = isFunction && (rest !== "" || this.#extra !== undefined) ? this.#fragment(rest) : "";
    this.#kind = "skipped";
    return text;
  }

  /** All in one chunk: SDKs cannot put together a list that comes in pieces without numbers. */
  #annotate(): string {
    return this.#annotations ? `${this.#head}{"annotations":${JSON.stringify(this.#annotations)}}${this.#tail}` : "";
  }

  #finish(finish: Finish): string {
    const usage = this.#context.wantsUsage ? ',"usage":null' : "";
    const word = writeFinish(finish, this.#context.changes?.legacyFunctions);
    const tier = finish.tier === undefined ? "" : `,"service_tier":${JSON.stringify(finish.tier)}`;
    return `${this.#head}{},"logprobs":null,"finish_reason":"${word}"}]${tier}${usage}}\n\n`;
  }
}
