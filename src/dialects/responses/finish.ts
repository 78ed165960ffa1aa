import type { Finish, FinishReason } from "../../canon/events.ts";
import { isObject } from "../../lib/json.ts";

/** What each `incomplete_details.reason` means; one that nobody knows is a natural end that was cut by the vendor's own rules. */
const INCOMPLETE: Readonly<Record<string, FinishReason>> = {
  max_output_tokens: "length",
  max_tokens: "length",
  content_filter: "content-filter",
};

/** The finish of a response that ended well or incomplete (dialects.md 4.5). `calledTool`: a function call was in it. */
export function readFinish(response: Record<string, unknown>, incomplete: boolean, calledTool: boolean): Finish {
  const natural: FinishReason = calledTool ? "tool-calls" : "stop";
  if (!incomplete) return { reason: natural, raw: "completed" };
  const details = response["incomplete_details"];
  const raw = isObject(details) && typeof details["reason"] === "string" ? details["reason"] : "incomplete";
  if (raw === "incomplete") return { reason: "length", raw };
  return { reason: (Object.hasOwn(INCOMPLETE, raw) ? INCOMPLETE[raw] : undefined) ?? natural, raw };
}

/** Status and `incomplete_details` of a finish. */
export function writeFinish(finish: Finish): { status: string; incomplete_details: { reason: string } | null } {
  if (finish.reason === "length") return { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } };
  if (finish.reason === "content-filter")
    return { status: "incomplete", incomplete_details: { reason: "content_filter" } };
  return { status: "completed", incomplete_details: null };
}
