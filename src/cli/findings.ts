import { paint } from "./output.ts";
import { type Column, formatTable } from "./table.ts";

/** What one check of the doctor came to. Only a fault keeps the gateway from working as it should. */
export type Finding = {
  check: string;
  state: "ok" | "note" | "fault";
  detail: string;
  /** What to do about it, as a sentence or a command. */
  advice?: string;
};

const COLOURS = { ok: "green", note: "yellow", fault: "red" } as const;

const finding =
  (state: Finding["state"]) =>
  (check: string, detail: string, advice?: string): Finding => ({ check, state, detail, ...(advice && { advice }) });

/** All is well with what `check` looked at. */
export const ok = (check: string, detail: string): Finding => ({ check, state: "ok", detail });
/** What may surprise an operator, and what he can do about it. */
export const note = finding("note");
/** What will not work, and what he can do about it. */
export const fault = finding("fault");

const COLUMNS: readonly Column[] = [{ title: "state" }, { title: "check" }, { title: "finding" }];

/** Findings as lines: a table, then what to do about those that need it. */
export function formatFindings(findings: readonly Finding[]): string[] {
  const rows = findings.map(({ state, check, detail }) => [state, check, detail]);
  const lines = formatTable(COLUMNS, rows).map((line, index) => {
    const state = findings[index - 1]?.state;
    return state ? paint(state, COLOURS[state]) + line.slice(state.length) : line;
  });
  const advised = findings.filter(({ advice }) => advice !== undefined);
  // Several faults of one kind are often told the same.
  const advice = new Set(advised.map(({ check, advice }) => `  ${check}: ${advice}`));
  return advice.size > 0 ? [...lines, "", "What to do:", ...advice] : lines;
}
