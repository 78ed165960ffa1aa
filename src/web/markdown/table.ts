import { type Element, elementsOf, squeeze, textOf, walkElements } from "../page-tree.ts";
import { type PageContext, tidyLine, writeInline } from "./inline.ts";

/** Rows and columns that are written; the rest of a larger table is named by its number. */
const MAX_ROWS = 2_000;
const MAX_COLUMNS = 60;

type Cell = { element: Element; columns: number; rows: number };
/** `part`: the head, body or foot that it stands in, or the table itself. */
type Row = { cells: Cell[]; part: Element };

/** How many columns or rows a cell takes, as its attribute says: 1 to `most`. */
const span = (value: string | undefined, most: number) =>
  Math.min(Math.max(Number.parseInt(value ?? "1", 10) || 1, 1), most);

/** How many rows a cell takes. 0 means all that are left (HTML standard, `rowspan`). */
const rowSpan = (value: string | undefined) => (value?.trim() === "0" ? MAX_ROWS : span(value, MAX_ROWS));

const isInHead = ({ part }: Row) => part.name === "thead";

/** Rows of this table, not of those inside its cells. */
function rowsOf(table: Element): Row[] {
  const rows: Row[] = [];
  const read = (part: Element) => {
    for (const child of elementsOf(part)) {
      if (child.name === "tr") rows.push({ cells: cellsOf(child), part });
      else if (/^(?:thead|tbody|tfoot)$/.test(child.name)) read(child);
    }
  };
  read(table);
  return rows.filter(({ cells }) => cells.length > 0);
}

function cellsOf(row: Element): Cell[] {
  const cells: Cell[] = [];
  for (const element of elementsOf(row)) {
    if (element.name !== "td" && element.name !== "th") continue;
    const { colspan, rowspan } = element.attributes;
    cells.push({ element, columns: span(colspan, MAX_COLUMNS), rows: rowSpan(rowspan) });
  }
  return cells;
}

/** Elements that stand on lines of their own inside a cell. */
const LINES = /^(?:p|div|li|dt|dd|h[1-6]|tr|pre|blockquote)$/;

/** The lines of a cell: paragraphs and items of lists each on one. */
function linesOf(element: Element, context: PageContext): string[] {
  const lines: string[] = [];
  let line: Element["children"] = [];
  const flush = () => {
    lines.push(...tidyLine(writeInline({ ...element, children: line }, context)).split("\n"));
    line = [];
  };
  for (const child of element.children) {
    if (typeof child === "string") line.push(child);
    else if (LINES.test(child.name)) {
      flush();
      const own = linesOf(child, context);
      lines.push(...(child.name === "li" ? own.map((text, at) => (at === 0 ? `• ${text}` : text)) : own));
    } else if (/^(?:ul|ol|dl|table|tbody|thead|section|article)$/.test(child.name)) {
      flush();
      lines.push(...linesOf(child, context));
    } else line.push(child);
  }
  flush();
  return lines.map(squeeze).filter((text) => text !== "" && text !== "•");
}

const cellText = (element: Element, context: PageContext): string =>
  linesOf(element, context).join("<br>").replaceAll("|", "\\|");

/**
 * Cells laid out as a grid: a cell over several rows stands in each of them, but in none of another part of the table (HTML standard, "ending a row
 * group"); one over several columns in the first, or in all of a heading's.
 */
function layOut(rows: readonly Row[], context: PageContext): string[][] {
  const grid: string[][] = rows.map(() => []);
  rows.forEach((row, y) => {
    const inHead = isInHead(row);
    let x = 0;
    for (const { element, columns, rows: height } of row.cells) {
      while (grid[y]?.[x] !== undefined) x++;
      if (x >= MAX_COLUMNS) break;
      const text = cellText(element, context);
      for (let down = 0; down < height && rows[y + down]?.part === row.part; down++) {
        for (let right = 0; right < columns && x + right < MAX_COLUMNS; right++) {
          const line = grid[y + down];
          if (line) line[x + right] = right === 0 || inHead ? text : "";
        }
      }
      x += columns;
    }
  });
  return grid;
}

/** A grid without its empty columns, which only make room between others: in annual reports (EDGAR) most do. */
function dropEmpty(grid: readonly string[][]): string[][] {
  const used = new Set<number>();
  for (const row of grid) for (const [at, text = ""] of row.entries()) if (text !== "") used.add(at);
  const columns = [...used].sort((a, b) => a - b);
  return grid.map((row) => columns.map((at) => row[at] ?? ""));
}

/**
 * Headings and rows without each column that only repeats the links of an earlier one with the same heading, as pages have them for narrow screens (GitHub's
 * folders).
 */
function dropRepeated(heads: readonly string[], body: readonly string[][]): readonly string[][] {
  const says = (row: readonly string[], at: number, first: number) =>
    row[at] === "" || (row[at] === row[first] && row[at]?.includes("]("));
  const isRepeated = (head: string, at: number) => {
    const first = heads.indexOf(head);
    return head !== "" && first < at && body.every((row) => says(row, at, first));
  };
  const kept = [...heads.keys()].filter((at) => !isRepeated(heads[at] ?? "", at));
  return [heads, ...body].map((row) => kept.map((at) => row[at] ?? ""));
}

const isHeading = (row: Row) => isInHead(row) || row.cells.every(({ element }) => element.name === "th");

const writeRow = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;

/** Rows of headings as one: of each column its headings one after the other, equal ones once. */
const mergeHeadings = (rows: readonly string[][], width: number): string[] =>
  Array.from({ length: width }, (_, at) => [...new Set(rows.map((row) => row[at] ?? ""))].filter(Boolean).join(" "));

/** Whether there is something to read in a cell, be it only an image's description. */
const holdsSomething = ({ element }: Cell): boolean =>
  squeeze(textOf(element)) !== "" || [...walkElements(element)].some(({ attributes }) => attributes["alt"]);

/** Whether a table only arranges what is in it: its cells hold whole parts of a page, or no row has two with something in them. */
export function isLayout(table: Element): boolean {
  if (/^(?:presentation|none)$/.test(table.attributes["role"] ?? "")) return true;
  const rows = rowsOf(table);
  if (rows.every(({ cells }) => cells.length <= 1)) return true;
  for (const { name } of walkElements(table)) if (/^(?:table|pre|h[1-6]|article|section|form)$/.test(name)) return true;
  return rows.every(({ cells }) => cells.filter(holdsSomething).length <= 1);
}

/** A table of data in GitHub's form, its caption above it. "" for one that holds nothing. */
export function writeTable(table: Element, context: PageContext): string {
  const rows = rowsOf(table);
  const shown = rows.slice(0, MAX_ROWS);
  const grid = dropEmpty(layOut(shown, context));
  const width = grid[0]?.length ?? 0;
  if (width === 0) return "";
  const headings =
    shown[0] === undefined || !isHeading(shown[0])
      ? 0
      : Math.max(
          1,
          shown.findIndex((row) => !isInHead(row)),
        );
  const [head = [], ...body] = dropRepeated(mergeHeadings(grid.slice(0, headings), width), grid.slice(headings));
  const lines = [writeRow(head), `|${" --- |".repeat(head.length)}`, ...body.map(writeRow)];
  if (rows.length > shown.length) lines.push(`\n(${rows.length - shown.length} more rows)`);
  const caption = [...elementsOf(table)].find(({ name }) => name === "caption");
  const title = caption ? tidyLine(writeInline(caption, context)) : "";
  return title === "" ? lines.join("\n") : `**${title}**\n\n${lines.join("\n")}`;
}
