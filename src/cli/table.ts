import { paint } from "./output.ts";

/** What a terminal obeys, or turns and hides what stands beside it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is being taken out.
const UNSEEN = /[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

export type Column = { title: string; align?: "left" | "right" };

/** Rows under titles, in aligned columns two spaces apart, no lines drawn. Of cells, control characters and those that turn or hide text are not passed to the terminal. */
export function formatTable(columns: readonly Column[], rows: readonly (readonly string[])[]): string[] {
  const clean = rows.map((row) => row.map((cell) => cell.replace(UNSEEN, "?")));
  const widths = columns.map((column, index) =>
    Math.max(column.title.length, ...clean.map((row) => Bun.stringWidth(row[index] ?? ""))),
  );
  const line = (cells: readonly string[]) =>
    columns
      .map((column, index) => {
        const cell = cells[index] ?? "";
        const space = " ".repeat(Math.max(0, widths[index]! - Bun.stringWidth(cell)));
        return column.align === "right" ? space + cell : cell + space;
      })
      .join("  ")
      .trimEnd();
  return [paint(line(columns.map((column) => column.title)), "bold"), ...clean.map(line)];
}

/** A count with its thousands apart: 1,234,567. */
export function formatCount(count: number | undefined): string {
  return count === undefined ? "-" : count.toLocaleString("en-US");
}

/** A time as people read it, UTC, to the minute, which it says itself: 2026-01-31 14:05 UTC. */
export function formatTime(at: number): string {
  return `${new Date(at).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}
