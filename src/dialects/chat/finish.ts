import type { ErrorCode } from "../../canon/errors.ts";
import type { Finish, FinishReason } from "../../canon/events.ts";
import { entryOf } from "../../lib/json.ts";

/** Every vendor's word for the end of a reply, lower case (dialects.md 1.3 and 4.5). What is not here is a natural end. */
const REASONS: Readonly<Record<string, FinishReason>> = {
  length: "length",
  max_tokens: "length",
  model_length: "length",
  model_context_window_exceeded: "length",
  stop_sequence: "stop-sequence",
  tool_calls: "tool-calls",
  tool_call: "tool-calls",
  tool_use: "tool-calls",
  function_call: "tool-calls",
  content_filter: "content-filter",
  sensitive: "content-filter",
  safety: "content-filter",
  refusal: "content-filter",
  guardrail_intervened: "content-filter",
  recitation: "content-filter",
  blocklist: "content-filter",
  prohibited_content: "content-filter",
  spii: "content-filter",
};

/** Words that say the reply failed rather than ended. */
const FAILURES: Readonly<Record<string, ErrorCode>> = {
  error: "upstream_error",
  network_error: "upstream_error",
  insufficient_system_resource: "upstream_overloaded",
  // vLLM and SGLang end a reply so that their engine gave up, as when it goes to sleep.
  abort: "upstream_error",
  // A call that its model wrote no one can read (dialects.md 3.2).
  function_call_filter: "upstream_error",
  malformed_function_call: "upstream_error",
};

/**
 * What a table says of a vendor's word. Google's endpoint in this dialect puts its own word behind the dialect's: `content_filter: RECITATION`,
 * `function_call_filter: MALFORMED_FUNCTION_CALL`.
 */
const meaningOf = <T>(table: Readonly<Record<string, T>>, word: string): T | undefined =>
  entryOf(table, word.toLowerCase().split(":", 1)[0] ?? "");

/** Vendors that fill `stop_reason` beside `finish_reason` with a plain word and not with the text that matched. */
const PLAIN_WORDS = new Set(["stop", "eos", "eos_token", "end_turn", "complete", ...Object.keys(REASONS)]);

/** The error a finish reason stands for, if it is one (dialects.md 1.3). */
function failureOf(raw: string): ErrorCode | undefined {
  return meaningOf(FAILURES, raw);
}

/**
 * The error with which a choice ends, if it does. OpenRouter calls an end `stop` where its vendor broke off, and says so in that vendor's own word alone
 * (earendil-works/pi #8511, can1357/oh-my-pi #9415).
 */
export function failureIn({ finish_reason: finish, native_finish_reason: native }: Record<string, unknown>) {
  const words = [finish, native].filter((word) => typeof word === "string");
  return words.map(failureOf).find((failure) => failure !== undefined);
}

/**
 * The stop text that a choice shows to have matched: SGLang's `matched_stop`, whose texts are never anything else, or vLLM's `stop_reason`
 * (dialects.md 4.8 #29), which others fill with plain words, and vLLM itself with `repetition_detected` beside an end of that name.
 */
export function matchedStop(choice: Record<string, unknown>): string | undefined {
  const { matched_stop: matched, stop_reason: reason, finish_reason: finish } = choice;
  if (typeof matched === "string" && matched !== "") return matched;
  if (finish === "repetition" || typeof reason !== "string" || reason === "") return undefined;
  return PLAIN_WORDS.has(reason.toLowerCase()) ? undefined : reason;
}

/**
 * The meaning of an upstream's finish. Calls that were made win over any word but length and content filter (dialects.md 4.5);
 * a stop sequence is reported only with evidence.
 */
export function readFinish(raw: string | undefined, hasCalls: boolean, stopSequence: string | undefined): Finish {
  const reason = reasonOf(raw, hasCalls, stopSequence !== undefined);
  const finish: Finish = { reason };
  if (raw !== undefined) finish.raw = raw;
  if (reason === STOPPED && stopSequence !== undefined) finish.stopSequence = stopSequence;
  return finish;
}

const STOPPED = "stop-sequence";

function reasonOf(raw: string | undefined, hasCalls: boolean, stopped: boolean): FinishReason {
  const reason = meaningOf(REASONS, raw ?? "") ?? "stop";
  if (reason === "length" || reason === "content-filter") return reason;
  if (hasCalls) return "tool-calls";
  if (stopped) return STOPPED;
  return reason === "tool-calls" ? "stop" : reason;
}

const WORDS: Readonly<Record<FinishReason, string>> = {
  stop: "stop",
  "stop-sequence": "stop",
  length: "length",
  "tool-calls": "tool_calls",
  "content-filter": "content_filter",
};

/** The dialect's own words; clients with typed readers fail on any other (dialects.md 1.3). */
const OWN_WORDS = new Set([...Object.values(WORDS), "function_call"]);

/**
 * The word to put in place of one that does not fit what was sent: clients answer calls that a reply says it ends with, and wait for no
 * others (dialects.md 4.5); or of one that only its vendor knows. Undefined where the word fits, or tells of a failure.
 */
export function fittingWord(word: string, hasCalls: boolean): string | undefined {
  if (failureOf(word)) return undefined;
  const reason = meaningOf(REASONS, word) ?? "stop";
  if (hasCalls && (reason === "stop" || reason === "stop-sequence")) return "tool_calls";
  if (!hasCalls && reason === "tool-calls") return "stop";
  return OWN_WORDS.has(word) ? undefined : WORDS[reason];
}

/** The chat dialect's word for a finish (dialects.md 4.5). `legacy`: the client called its tools functions. */
export function writeFinish(finish: Finish, legacy = false): string {
  return legacy && finish.reason === "tool-calls" ? "function_call" : WORDS[finish.reason];
}
