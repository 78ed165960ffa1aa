import type { Finish, FinishReason } from "../../canon/events.ts";
import { entryOf, isObject } from "../../lib/json.ts";

/** What each word of `stop_reason` means (dialects.md 2.4, 4.5). */
const MEANING: Readonly<Record<string, FinishReason>> = {
  end_turn: "stop",
  max_tokens: "length",
  stop_sequence: "stop-sequence",
  tool_use: "tool-calls",
  pause_turn: "stop",
  compaction: "stop",
  refusal: "content-filter",
  model_context_window_exceeded: "length",
};

const WORD: Readonly<Record<FinishReason, string>> = {
  stop: "end_turn",
  length: "max_tokens",
  "stop-sequence": "stop_sequence",
  "tool-calls": "tool_use",
  "content-filter": "refusal",
};

/** A call that was made is to be answered, and one that was not cannot be, whatever the vendor's word was (dialects.md 4.5). */
function consistent(reason: FinishReason, calledTool: boolean): FinishReason {
  if (calledTool && (reason === "stop" || reason === "stop-sequence")) return "tool-calls";
  return !calledTool && reason === "tool-calls" ? "stop" : reason;
}

/**
 * The stop reason to put in place of one that does not fit the blocks that were sent, or is none, though the reply has ended; undefined where the
 * vendor's own does.
 */
export function fittingStopReason(word: unknown, calledTool: boolean): string | undefined {
  if (typeof word !== "string" || word === "") return WORD[calledTool ? "tool-calls" : "stop"];
  if (calledTool && (word === "end_turn" || word === "stop_sequence")) return "tool_use";
  return !calledTool && word === "tool_use" ? "end_turn" : undefined;
}

/** How a reply ended, as a message and the `delta` of a `message_delta` tell it. */
export type Ending = {
  readonly [field in "stop_reason" | "stop_sequence" | "stop_details" | "container"]?: unknown;
};

/**
 * The finish that `stop_reason` and `stop_sequence` tell; null or absent counts as a natural end, as does a word nobody knows.
 * `stop_details` say why a model declined. `calledTool`: a tool call was in the reply.
 */
export function readFinish(ending: Ending, calledTool: boolean): Finish {
  const { stop_reason: word, stop_sequence: sequence, stop_details: details, container } = ending;
  const raw = typeof word === "string" && word !== "" ? word : undefined;
  const meaning = raw === undefined ? undefined : entryOf(MEANING, raw);
  const reason = consistent(meaning ?? "stop", calledTool);
  const finish: Finish = { reason };
  if (raw !== undefined) finish.raw = raw;
  if (reason === "stop-sequence" && typeof sequence === "string") finish.stopSequence = sequence;
  const explanation = reason === "content-filter" && isObject(details) ? details["explanation"] : undefined;
  if (typeof explanation === "string" && explanation !== "") finish.explanation = explanation;
  if (isObject(container)) finish.container = container;
  return finish;
}

/**
 * `stop_reason` and `stop_sequence` of a finish, the vendor's own word where it is one of this dialect's and says the same; `stop_details` where it was said
 * why, and `container` where code was run.
 */
export function writeFinish(finish: Finish, calledTool: boolean): Ending {
  const reason = consistent(finish.reason, calledTool);
  const own = finish.raw !== undefined && entryOf(MEANING, finish.raw) === reason;
  return {
    stop_reason: own && finish.raw !== undefined ? finish.raw : WORD[reason],
    stop_sequence: reason === "stop-sequence" ? (finish.stopSequence ?? null) : null,
    ...(finish.explanation !== undefined && {
      stop_details: { type: "refusal", category: null, explanation: finish.explanation },
    }),
    ...(finish.container && { container: finish.container }),
  };
}
