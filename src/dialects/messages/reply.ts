import { GatewayError } from "../../canon/errors.ts";
import type { BlockStart, Event, Finish } from "../../canon/events.ts";
import { NO_USAGE, sameUsage, type Usage } from "../../canon/usage.ts";
import { isObject } from "../../lib/json.ts";
import { BlockCiter } from "../cited.ts";
import { ReplyCallIds } from "../counted-ids.ts";
import type { DecodeContext, ReplyContext } from "../dialect.ts";
import { unseenPicture } from "../pictures.ts";
import { startEvent } from "../reply-start.ts";
import { innerError } from "../upstream-error.ts";
import { type Block, readWholeBlock, withDistinctId } from "./blocks.ts";
import { citationOf, serverToolUsage } from "./citations.ts";
import { shownSignature, startOfBlock } from "./encode-stream.ts";
import { messageIdOf } from "./records.ts";
import { readFinish, writeFinish } from "./stop-reason.ts";
import { toInput } from "./tool-input.ts";
import { readApart, readUsage, writeUsage } from "./usage.ts";

/**
 * A whole reply as events, `finish` last (dialects.md 2.4). Throws GatewayError (upstream_error) when it is no message, and what an
 * error object inside a 200 means (dialects.md 4.8 #22).
 */
export function decodeReply(body: unknown, { usedCallIds }: DecodeContext): Event[] {
  if (isObject(body) && (body["type"] === "error" || isObject(body["error"]))) {
    throw innerError(body);
  }
  if (!isObject(body) || !Array.isArray(body["content"])) {
    throw new GatewayError("upstream_error", "The vendor's answer is not a message.");
  }
  const events: Event[] = [startEvent(body["id"], body["model"])];
  const citer = new BlockCiter();
  const ids = new ReplyCallIds(usedCallIds);
  let calledTool = false;
  for (const block of body["content"]) {
    if (!isObject(block)) continue;
    calledTool ||= isToolUse(block);
    readWholeBlock(withDistinctId(block, body["id"], ids), citer, events);
  }
  const usage = readUsage(body["usage"], NO_USAGE);
  const apart = readApart(body["usage"]);
  if (apart) events.push({ type: "usage", usage, apart });
  else if (!sameUsage(usage, NO_USAGE)) events.push({ type: "usage", usage });
  events.push({ type: "finish", finish: readFinish(body, calledTool) });
  return events;
}

const isToolUse = (block: Block): boolean => block["type"] === "tool_use";

/** A finished block from how it began, its text, its signature and what its text rests on. */
function assembleBlock(
  start: BlockStart,
  text: string,
  signature: string,
  citations: Block[],
  context: ReplyContext,
): Block | undefined {
  if (start.kind === "text") return citations.length > 0 ? { type: "text", text, citations } : { type: "text", text };
  if (start.kind === "image") return { type: "text", text: unseenPicture(start) };
  const block = startOfBlock(start, context);
  if (block && start.kind === "reasoning")
    return { ...block, thinking: text, signature: shownSignature(signature, context) };
  if (start.kind === "tool-call") return { ...block, input: toInput(text) };
  return block && text !== "" ? { ...block, input: toInput(text) } : block;
}

/** Events of a finished reply as a message (interface 2.4). Blocks of other dialects are left out. */
export function encodeReply(events: readonly Event[], context: ReplyContext): Record<string, unknown> {
  const content: Block[] = [];
  let start: BlockStart | undefined;
  let text = "";
  let signature = "";
  let citations: Block[] = [];
  let usage: Usage | undefined;
  let finish: Finish = { reason: "stop" };
  for (const event of events) {
    if (event.type === "block-start") {
      start = event.block;
      text = "";
      signature = "";
      if (citations.length > 0) citations = [];
    } else if (event.type === "block-delta") text += event.text;
    else if (event.type === "block-signature") signature = event.signature;
    else if (event.type === "block-citation") citations.push(citationOf(event.citation));
    else if (event.type === "block-end" && start) {
      const block = assembleBlock(start, text, signature, citations, context);
      if (block) content.push(block);
      start = undefined;
    } else if (event.type === "usage") usage = event.usage;
    else if (event.type === "finish") finish = event.finish;
  }
  // Only a vendor that counts nothing leaves it to the estimate.
  const counted = writeUsage(usage ?? { ...NO_USAGE, input: context.estimatedInputTokens });
  return {
    id: messageIdOf(context),
    type: "message",
    role: "assistant",
    model: context.model,
    content,
    ...writeFinish(finish, content.some(isToolUse)),
    usage: context.webCalls ? { ...counted, ...serverToolUsage(context) } : counted,
  };
}
