import type { Part, ReasoningPart, RedactedReasoningPart, Turn } from "../../canon/prompt.ts";
import { makerOf } from "./proof.ts";

/** The name of lost reasoning of earlier turns, in the chat dialect's words. */
export const EARLIER_REASONING = "reasoning_content";

/** What stands at one place of a conversation: the user's words, results of tools (and words beside them), or the assistant's. */
export type Said = "words" | "results" | "answer" | undefined;

/**
 * Where the tool loop begins that a conversation of `count` turns or items stands in; `count` when its end gives no results. Words of the
 * user beside results do not end it (dialects.md 4.8 #1), and all of it counts as one turn of the assistant (2.9).
 */
export function loopBegin(count: number, saidAt: (at: number) => Said): number {
  let begin = count;
  let hasResults = false;
  let isAnswer = false;
  for (let at = count - 1; at >= 0; at--) {
    const said = saidAt(at);
    if (said === "answer") {
      if (!hasResults) break;
      begin = at;
    } else if (said) hasResults = said === "results" || (hasResults && !isAnswer);
    if (said) isAnswer = said === "answer";
  }
  return begin;
}

function saidIn({ role, parts }: Turn): Said {
  if (role !== "user") return role === "assistant" ? "answer" : undefined;
  return parts.some((part) => part.type === "tool-result") ? "results" : "words";
}

/**
 * Whether a part is reasoning of which something can be lost. A model's own without a proof is none where its vendor does not want it back
 * (dialects.md 4.2), nor is a bare text in a dialect whose vendors have none (4.3).
 */
function isReasoning(
  part: Part,
  upstreamModel: string,
  plainCounts: boolean,
): part is ReasoningPart | RedactedReasoningPart {
  if (part.type !== "reasoning") return part.type === "redacted-reasoning";
  return part.signature !== undefined || (plainCounts && part.text !== "" && part.maker !== makerOf(upstreamModel));
}

/**
 * Marks, in place, the reasoning of the tool loop that the conversation stands in: what was thought before it every vendor leaves out
 * (dialects.md 2.9). `plainCounts`: reasoning without a vendor's proof counts too, unless the model that is asked has made it.
 */
export function markNeeded(turns: readonly Turn[], upstreamModel: string, plainCounts: boolean): void {
  const begin = loopBegin(turns.length, (at) => saidIn(turns[at] as Turn));
  for (let at = begin; at < turns.length; at++) {
    for (const part of (turns[at] as Turn).parts) {
      if (isReasoning(part, upstreamModel, plainCounts)) part.isNeeded = true;
    }
  }
}

/** Names reasoning that an encoder leaves out, if it is needed. */
export function nameLostReasoning(part: Part, dropped: string[]): void {
  if ("isNeeded" in part) dropped.push(EARLIER_REASONING);
}
