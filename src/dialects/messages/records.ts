import type { Finish } from "../../canon/events.ts";
import type { Usage } from "../../canon/usage.ts";
import type { ReplyContext } from "../dialect.ts";
import { writeFinish } from "./stop-reason.ts";
import { writeUsage } from "./usage.ts";

/** One SSE record: both lines, as clients drop a record without its event line (dialects.md 2.5). `json` is one line. */
export const record = (type: string, json: string): string => `event: ${type}\ndata: ${json}\n\n`;

export const MESSAGE_STOP = record("message_stop", '{"type":"message_stop"}');
/** Spelled as its own vendor does. */
export const PING = record("ping", '{"type": "ping"}');

/** The id of a reply as this dialect shows it. */
export const messageIdOf = (context: ReplyContext) => `msg_${context.replyId}`;

/** The first record: an empty message with the client's model ID and an estimate of the input (contract 7). */
export function messageStart(context: ReplyContext): string {
  const message = {
    id: messageIdOf(context),
    type: "message",
    role: "assistant",
    model: context.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: {
      input_tokens: context.estimatedInputTokens,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      output_tokens: 0,
    },
  };
  return record("message_start", `{"type":"message_start","message":${JSON.stringify(message)}}`);
}

export const blockStart = (position: number, block: Record<string, unknown>): string =>
  record(
    "content_block_start",
    `{"type":"content_block_start","index":${position},"content_block":${JSON.stringify(block)}}`,
  );

/** A delta whose one field besides `type` is a string. */
export const blockDelta = (position: number, type: string, field: string, text: string): string =>
  `event: content_block_delta\ndata: {"type":"content_block_delta","index":${position},"delta":{"type":"${type}","${field}":${JSON.stringify(text)}}}\n\n`;

export const citationDelta = (position: number, citation: Record<string, unknown>): string =>
  record(
    "content_block_delta",
    `{"type":"content_block_delta","index":${position},"delta":{"type":"citations_delta","citation":${JSON.stringify(citation)}}}`,
  );

export const blockStop = (position: number): string =>
  record("content_block_stop", `{"type":"content_block_stop","index":${position}}`);

/** The one record that tells why the reply ended and what the whole of it cost; `more`: counts that are no tokens. */
export function messageDelta(
  finish: Finish,
  calledTool: boolean,
  usage: Usage,
  more?: Record<string, unknown>,
): string {
  const delta = JSON.stringify(writeFinish(finish, calledTool));
  return record(
    "message_delta",
    `{"type":"message_delta","delta":${delta},"usage":${JSON.stringify({ ...writeUsage(usage), ...more })}}`,
  );
}
