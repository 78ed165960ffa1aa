import { GatewayError } from "../../canon/errors.ts";
import type { Finish, FinishReason } from "../../canon/events.ts";
import { entryOf } from "../../lib/json.ts";
import { scrub } from "../scrub.ts";

const FILTERED = "content-filter";

/** What each `finishReason` that ends a reply means (dialects.md 3.2). */
const MEANING: Readonly<Record<string, FinishReason>> = {
  STOP: "stop",
  MAX_TOKENS: "length",
  CONTINUATION: "length",
  SAFETY: FILTERED,
  RECITATION: FILTERED,
  BLOCKLIST: FILTERED,
  PROHIBITED_CONTENT: FILTERED,
  SPII: FILTERED,
  IMAGE_SAFETY: FILTERED,
  IMAGE_PROHIBITED_CONTENT: FILTERED,
  IMAGE_RECITATION: FILTERED,
  MODEL_ARMOR: FILTERED,
  // "Request was filtered by an escalation rule" (@google/genai 3.3, FinishReason).
  ESCALATION: FILTERED,
};

/** Finish reasons of an answer that failed at the vendor; to ask again, or another vendor, may help (dialects.md 3.2). */
const FAILURES: ReadonlySet<string> = new Set([
  "MALFORMED_FUNCTION_CALL",
  "UNEXPECTED_TOOL_CALL",
  "TOO_MANY_TOOL_CALLS",
  "MALFORMED_RESPONSE",
  "MISSING_THOUGHT_SIGNATURE",
  "LANGUAGE",
  "OTHER",
  "NO_IMAGE",
  "IMAGE_OTHER",
  // This gateway's account is limited there (@google/genai 3.3, FinishReason).
  "PUP_LIMITED_DISABLED",
]);

/** The finish reason of a candidate; undefined while there is none. */
export const finishWord = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" && value !== "FINISH_REASON_UNSPECIFIED" ? value : undefined;

/**
 * The error that a finish reason means; undefined where it means none. `message`: the candidate's `finishMessage`. The error repeats it: nothing else says
 * why a call fails in the same way each time.
 */
export function failureOf(word: string, message: unknown): GatewayError | undefined {
  if (!FAILURES.has(word)) return undefined;
  const why = typeof message === "string" ? scrub(message) : "";
  const text = `The vendor ended its answer with ${word}${why === "" ? "." : `: ${why}`}`;
  return new GatewayError("upstream_error", text, { cause: { finish: word } });
}

const explained = (finish: Finish, message: unknown): Finish =>
  finish.reason === FILTERED && typeof message === "string" && message !== ""
    ? { ...finish, explanation: message }
    : finish;

/**
 * The finish that a finish reason means. An unknown one counts as a natural end, and a natural end behind a tool call as `tool-calls` (dialects.md 4.5).
 * `message`: the candidate's `finishMessage`.
 */
export function readFinish(word: string, calledTool: boolean, message: unknown): Finish {
  const reason = entryOf(MEANING, word) ?? "stop";
  return explained({ reason: reason === "stop" && calledTool ? "tool-calls" : reason, raw: word }, message);
}

/** The finish of a prompt that the vendor blocked: an answer without content (dialects.md 3.2). `message`: its `blockReasonMessage`. */
export const blockedFinish = (blockReason: string, message: unknown): Finish =>
  explained({ reason: FILTERED, raw: blockReason }, message);
