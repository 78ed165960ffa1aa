import { GatewayError } from "../../canon/errors.ts";
import type { BlockStart, Event, Finish } from "../../canon/events.ts";
import type { Usage } from "../../canon/usage.ts";
import { isObject } from "../../lib/json.ts";
import { BlockCiter } from "../cited.ts";
import type { ReplyContext } from "../dialect.ts";
import { failureOf } from "./decode-stream.ts";
import { endItem, readFinish, writeFinish } from "./finish.ts";
import { type Item, isCallType, readWholeItem, startOfReply } from "./items.ts";
import { annotationOf, finishItem, mayBeCut, proofItem, startItem } from "./output-items.ts";
import { isProof } from "./phase.ts";
import { estimatedUsage, writeResponse } from "./response-object.ts";
import { readUsage } from "./usage.ts";

/**
 * A whole reply as events, `finish` last. Throws GatewayError (upstream_error) when it is no response or one that is not finished, and
 * what the error of a failed one means (dialects.md 4.8 #22).
 */
export function decodeReply(body: unknown): Event[] {
  if (!isObject(body)) throw new GatewayError("upstream_error", "The vendor's answer is not a response.");
  const failure = failureOf(body);
  if (failure) throw failure;
  const { output, status } = body;
  if (!Array.isArray(output) || status === "in_progress" || status === "queued") {
    throw new GatewayError("upstream_error", "The vendor's answer is not a finished response.");
  }
  const events: Event[] = [startOfReply(body)];
  const citer = new BlockCiter();
  let calledTool = false;
  for (const item of output) {
    if (!isObject(item)) continue;
    calledTool ||= isCallType(item["type"]);
    readWholeItem(item, citer, events);
  }
  const usage = readUsage(body["usage"]);
  if (usage) events.push({ type: "usage", usage });
  events.push({ type: "finish", finish: readFinish(body, status === "incomplete", calledTool) });
  return events;
}

/** Events of a finished reply as a response object. Blocks of other dialects are left out. */
export function encodeReply(events: readonly Event[], context: ReplyContext): Record<string, unknown> {
  const output: Item[] = [];
  let block: BlockStart | undefined;
  let text = "";
  let signature = "";
  let annotations: Item[] = [];
  let usage: Usage | undefined;
  let finish: Finish = { reason: "stop" };
  /** Where the last block's item stands, if that may be cut off. */
  let cutAt: number | undefined;
  for (const event of events) {
    if (event.type === "block-start") {
      block = event.block;
      text = "";
      signature = "";
      // Each item keeps its own: an empty one, too, is still pushed into while a later block is cited.
      annotations = [];
    } else if (event.type === "block-delta") text += event.text;
    else if (event.type === "block-signature") signature = event.signature;
    else if (event.type === "block-citation") annotations.push(annotationOf(event.citation));
    else if (event.type === "block-end" && block) {
      const item = startItem(block, `${context.replyId}_${output.length}`, context);
      cutAt = item && mayBeCut(block, text) ? output.length : undefined;
      if (item) output.push(finishItem(item, block, text, signature, context, annotations));
      if (block.kind === "text" && isProof(signature)) {
        output.push(proofItem(`${context.replyId}_${output.length}`, signature, context));
      }
      block = undefined;
    } else if (event.type === "usage") usage = event.usage;
    else if (event.type === "finish") finish = event.finish;
  }
  if (cutAt !== undefined) output[cutAt] = endItem(output[cutAt] ?? {}, finish);
  // Only a vendor that counts nothing leaves it to the estimate.
  return writeResponse(context, { ...writeFinish(finish), output, usage: usage ?? estimatedUsage(context) });
}
