import type { Turn } from "../canon/prompt.ts";

/** Neighbouring turns of one role as one, system turns left out: writers that lift them elsewhere use this (dialects.md 4.1). */
export function mergeTurns(turns: readonly Turn[]): Turn[] {
  const merged: Turn[] = [];
  for (const turn of turns) {
    if (turn.role === "system") continue;
    const last = merged.at(-1);
    if (last?.role === turn.role) last.parts.push(...turn.parts);
    else merged.push({ role: turn.role, parts: [...turn.parts] });
  }
  return merged;
}
