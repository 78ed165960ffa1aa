import type { Finish, FinishReason } from "../../canon/events.ts";
import { entryOf, isObject } from "../../lib/json.ts";
import { withTier } from "../openai-fields.ts";
import type { Item } from "./items.ts";

/** What each `incomplete_details.reason` means; one that nobody knows is a natural end that was cut by the vendor's own rules. */
const INCOMPLETE: Readonly<Record<string, FinishReason>> = {
  max_output_tokens: "length",
  max_tokens: "length",
  content_filter: "content-filter",
};

/** The word for a reason by which a response is incomplete. */
const WORDS: Partial<Record<FinishReason, string>> = {
  length: "max_output_tokens",
  "content-filter": "content_filter",
};

/** The finish of a response that ended well or incomplete (dialects.md 4.5). `calledTool`: a function call was in it. */
export function readFinish(response: Record<string, unknown>, incomplete: boolean, calledTool: boolean): Finish {
  return withTier(readEnd(response, incomplete, calledTool), response["service_tier"]);
}

function readEnd(response: Record<string, unknown>, incomplete: boolean, calledTool: boolean): Finish {
  const natural: FinishReason = calledTool ? "tool-calls" : "stop";
  if (!incomplete) return { reason: natural, raw: "completed" };
  const details = response["incomplete_details"];
  const raw = isObject(details) && typeof details["reason"] === "string" ? details["reason"] : "incomplete";
  if (raw === "incomplete") return { reason: "length", raw };
  return { reason: entryOf(INCOMPLETE, raw) ?? natural, raw };
}

/** The item that a reply ended in, as its finish leaves it: one that might be cut off is, where the reply is. */
export const endItem = (item: Item, { reason }: Finish): Item =>
  WORDS[reason] ? { ...item, status: "incomplete" } : item;

type WrittenFinish = { status: string; incomplete_details: { reason: string } | null; tier?: string };

/** Status, `incomplete_details` and tier of a finish. */
export function writeFinish({ reason, tier }: Finish): WrittenFinish {
  const word = WORDS[reason];
  const written = word
    ? { status: "incomplete", incomplete_details: { reason: word } }
    : { status: "completed", incomplete_details: null };
  return tier === undefined ? written : { ...written, tier };
}
