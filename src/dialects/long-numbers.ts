import type { Event } from "../canon/events.ts";
import type { Turn } from "../canon/prompt.ts";
import { mayBeInexact } from "../lib/json-numbers.ts";

/** Whether arguments of a call in these events may hold a number that reading has changed. */
export function callsInexactly(events: readonly Event[]): boolean {
  let inCall = false;
  for (const event of events) {
    if (event.type === "block-start") inCall = event.block.kind === "tool-call";
    else if (inCall && event.type === "block-delta" && mayBeInexact(event.text)) return true;
  }
  return false;
}

/** The same of a client's earlier turns. */
export const calledInexactly = (turns: readonly Turn[]): boolean =>
  turns.some(({ parts }) => parts.some((part) => part.type === "tool-call" && mayBeInexact(part.arguments)));
