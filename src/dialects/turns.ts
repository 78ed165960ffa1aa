import type { Part, Turn } from "../canon/prompt.ts";

const isSystem = ({ role }: Turn): boolean => role === "system";

/**
 * Neighbouring turns of one role as one, system turns left out: writers that lift them elsewhere use this (dialects.md 4.1). A turn that has
 * no such neighbour is itself.
 */
export const mergeTurns = (turns: readonly Turn[]): readonly Turn[] =>
  mergeNeighbours(turns.some(isSystem) ? turns.filter((turn) => !isSystem(turn)) : turns);

/** {@link mergeTurns} with the system's turns, each right before the assistant speaks next, or at the end: neither results nor the user's words are parted. */
export function mergeAroundSystem(turns: readonly Turn[]): readonly Turn[] {
  const ordered: Turn[] = [];
  let held: Turn[] = [];
  for (const turn of turns) {
    if (isSystem(turn)) {
      held.push(turn);
      continue;
    }
    if (turn.role === "assistant") {
      ordered.push(...held);
      held = [];
    }
    ordered.push(turn);
  }
  return mergeNeighbours([...ordered, ...held]);
}

/**
 * Turns for a dialect that knows no system in mid-conversation: what the system said before the model first spoke, to be lifted, and the rest with its
 * later turns in their places as in {@link mergeAroundSystem}. Were these lifted too, each new one would change the beginning of all that the vendor
 * has cached: Claude Code writes one for each word of a hook.
 */
export function partOpening(turns: readonly Turn[]): { opening: Part[]; spoken: readonly Turn[] } {
  const first = turns.findIndex(({ role }) => role === "assistant");
  const before = first < 0 ? turns : turns.slice(0, first);
  const opening = before.filter(isSystem).flatMap(({ parts }) => parts);
  const spoken = before.filter((turn) => !isSystem(turn));
  return { opening, spoken: mergeAroundSystem(first < 0 ? spoken : [...spoken, ...turns.slice(first)]) };
}

function mergeNeighbours(turns: readonly Turn[]): readonly Turn[] {
  const merged: Turn[] = [];
  /** The last one, where it was made here and may take more parts. */
  let growing: Turn | undefined;
  for (const turn of turns) {
    const last = merged.at(-1);
    if (last?.role !== turn.role) {
      growing = undefined;
      merged.push(turn);
      continue;
    }
    if (!growing) {
      growing = { role: last.role, parts: [...last.parts] };
      merged[merged.length - 1] = growing;
    }
    growing.parts.push(...turn.parts);
  }
  return merged;
}

export const isResult = (part: Part | undefined): boolean => part?.type === "tool-result";

/** Adds what the user says to `turns`: results of tools and what is said after them are one turn (dialects.md 4.3, 4.8 #2). */
export function addToUserTurn(turns: Turn[], parts: Part[]): void {
  const last = turns.at(-1);
  // Results stand at a turn's head: where the last part is one, all are.
  if (last?.role === "user" && isResult(last.parts.at(-1))) last.parts.push(...parts);
  else turns.push({ role: "user", parts });
}
