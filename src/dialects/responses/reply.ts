import { GatewayError } from "../../canon/errors.ts";
import type { Event } from "../../canon/events.ts";
import { isObject } from "../../lib/json.ts";
import { BlockCiter } from "../cited.ts";
import type { ReplyContext } from "../dialect.ts";
import { gatherReply } from "../reply/gather.ts";
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
  const { blocks, usage, finish } = gatherReply(events);
  const output: Item[] = [];
  /** Where the last block's item stands, if that may be cut off. */
  let cutAt: number | undefined;
  for (const { start, text, signature, citations } of blocks) {
    const item = startItem(start, `${context.replyId}_${output.length}`, context);
    cutAt = item && mayBeCut(start, text) ? output.length : undefined;
    if (item) output.push(finishItem(item, start, text, signature, context, citations.map(annotationOf)));
    if (start.kind === "text" && isProof(signature)) {
      output.push(proofItem(`${context.replyId}_${output.length}`, signature, context));
    }
  }
  if (cutAt !== undefined) output[cutAt] = endItem(output[cutAt] ?? {}, finish);
  // Only a vendor that counts nothing leaves it to the estimate.
  return writeResponse(context, { ...writeFinish(finish), output, usage: usage ?? estimatedUsage(context) });
}
