import { GatewayError } from "../../canon/errors.ts";
import type { Event } from "../../canon/events.ts";
import { NO_USAGE, sameUsage } from "../../canon/usage.ts";
import { isObject } from "../../lib/json.ts";
import { BlockCiter } from "../cited.ts";
import type { DecodeContext, ReplyContext } from "../dialect.ts";
import { unseenPicture } from "../media/pictures.ts";
import { innerError } from "../refusals/upstream-error.ts";
import { gatherReply, type WholeBlock } from "../reply/gather.ts";
import { startEvent } from "../reply/start.ts";
import { ReplyCallIds } from "../tools/counted-ids.ts";
import { toCalledInput, toInput } from "../tools/tool-input.ts";
import { type Block, isCall, makeAnswerable, readWholeBlock } from "./blocks.ts";
import { citationOf, serverToolUsage } from "./citations.ts";
import { shownSignature, startOfBlock } from "./encode-stream.ts";
import { messageIdOf } from "./records.ts";
import { readFinish, writeFinish } from "./stop-reason.ts";
import { readApart, readUsage, writeUsage } from "./usage.ts";

/**
 * A whole reply as events, `finish` last (dialects.md 2.4). Throws GatewayError (upstream_error) when it is no message, and what an
 * error object inside a 200 means (dialects.md 4.8 #22).
 */
export function decodeReply(body: unknown, { usedCallIds }: DecodeContext): Event[] {
  if (isObject(body) && (body["type"] === "error" || isObject(body["error"]))) {
    throw innerError(body);
  }
  if (!isObject(body) || !isContent(body["content"])) {
    throw new GatewayError("upstream_error", "The vendor's answer is not a message.");
  }
  const events: Event[] = [startEvent(body["id"], body["model"])];
  const citer = new BlockCiter();
  const ids = new ReplyCallIds(usedCallIds);
  let calledTool = false;
  for (const block of body["content"] ?? []) {
    if (!isObject(block)) continue;
    calledTool ||= isCall(block);
    readWholeBlock(makeAnswerable(block, body["id"], ids), citer, events);
  }
  const usage = readUsage(body["usage"], NO_USAGE);
  const apart = readApart(body["usage"]);
  if (apart) events.push({ type: "usage", usage, apart });
  else if (!sameUsage(usage, NO_USAGE)) events.push({ type: "usage", usage });
  events.push({ type: "finish", finish: readFinish(body, calledTool) });
  return events;
}

/** Ollama writes the blocks of a model that says nothing as null (its `anthropic/anthropic.go`, `ToMessagesResponse`). */
const isContent = (content: unknown): content is unknown[] | null => content === null || Array.isArray(content);

/** A finished block; undefined for one of another dialect, and for reasoning that is not shown. */
function writeBlock(
  { start, text, signature, citations }: WholeBlock,
  position: number,
  context: ReplyContext,
): Block | undefined {
  if (start.kind === "text") {
    return { type: "text", text, ...(citations.length > 0 && { citations: citations.map(citationOf) }) };
  }
  if (start.kind === "image") return { type: "text", text: unseenPicture(start) };
  const block = startOfBlock(start, context);
  if (block && start.kind === "reasoning")
    return { ...block, thinking: text, signature: shownSignature(signature, position, context) };
  if (start.kind === "tool-call") return { ...block, input: toCalledInput(text) };
  return block && text !== "" ? { ...block, input: toInput(text) } : block;
}

/** Events of a finished reply as a message (interface 2.4). Blocks of other dialects are left out. */
export function encodeReply(events: readonly Event[], context: ReplyContext): Record<string, unknown> {
  const { blocks, usage, finish } = gatherReply(events);
  const content: Block[] = [];
  for (const block of blocks) {
    const written = writeBlock(block, content.length, context);
    if (written) content.push(written);
  }
  // Only a vendor that counts nothing leaves it to the estimate.
  const counted = writeUsage(usage ?? { ...NO_USAGE, input: context.estimatedInputTokens });
  return {
    id: messageIdOf(context),
    type: "message",
    role: "assistant",
    model: context.model,
    content,
    ...writeFinish(finish, content.some(isCall)),
    usage: context.webCalls ? { ...counted, ...serverToolUsage(context) } : counted,
  };
}
