import { paint } from "./output.ts";

/** Characters that a terminal takes as commands, or that turn or hide the text around them. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is being taken out.
const UNSEEN = /[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

export type Column = { title: string; align?: "left" | "right" };

/** Rows under titles, in aligned columns two spaces apart, without lines. Control characters in cells, and those that turn or hide text, become `?`. */
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

/** A count with separated thousands: 1,234,567. */
export function formatCount(count: number | undefined): string {
  return count === undefined ? "-" : count.toLocaleString("en-US");
}

/** A time (Unix ms) for people, to the minute: 2026-01-31 14:05 UTC. */
export function formatTime(at: number): string {
  return `${new Date(at).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}
