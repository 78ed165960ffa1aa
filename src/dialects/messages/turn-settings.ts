import { isObject, listOf } from "../../lib/json.ts";
import { isResult } from "./blocks.ts";

/** What a system turn sets for the answers behind it, beside what it says (Anthropic's "Per-message effort" and "Mid-conversation system messages"). */
type Message = Record<string, unknown>;

const hasRole = (message: unknown, role: string): message is Message => isObject(message) && message["role"] === role;

export const isSystem = (message: unknown): message is Message => hasRole(message, "system");

/** Whether a turn says how the model answers from there on: it may then have no content (@anthropic-ai/sdk 1.14, BetaSystemMessageParam). */
export const setsOutput = ({ output_config: config }: Message): boolean =>
  isObject(config) && Object.keys(config).length > 0;

const effortOf = (message: Message): unknown =>
  isObject(message["output_config"]) ? message["output_config"]["effort"] : undefined;

/** A turn in which the user says something: results of tools alone are nothing new. */
const saysMore = (message: Message): boolean =>
  !Array.isArray(message["content"]) || !message["content"].every(isResult);

/**
 * The effort that a conversation's system turns have set for the answer that is asked for now: one that stands behind what the user has said counts
 * for the answer to that, any other one from the user's next words on. Undefined where none is set: the request's own counts.
 */
export function turnEffort(messages: unknown): unknown {
  const turns = listOf(messages);
  let userCameLater = false;
  // What was set since the turn that is looked at, where nobody has spoken in between.
  let waiting: unknown;
  for (let at = turns.length - 1; at >= 0; at--) {
    const turn = turns[at];
    if (isSystem(turn)) {
      const effort = effortOf(turn) ?? undefined;
      if (effort !== undefined && userCameLater) return effort;
      waiting ??= effort;
      continue;
    }
    if (hasRole(turn, "user") && saysMore(turn)) {
      if (waiting !== undefined) return waiting;
      userCameLater = true;
    }
    waiting = undefined;
  }
  return undefined;
}

/** The place of the user's last turn, behind which what was said for one turn alone is still to be seen. */
export const lastUserTurn = (messages: readonly unknown[]): number =>
  messages.findLastIndex((message) => hasRole(message, "user"));

/** Whether a system turn at `at` was said for one of the user's turns alone, and another one has come since: it stays there, and no model is shown it. */
export const isCleared = (message: Message, at: number, lastUser: number): boolean =>
  isSystem(message) && message["clear_at"] === "next_user_message" && at < lastUser;
