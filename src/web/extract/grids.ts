import { type Element, elementsOf, walkElements } from "../page-tree.ts";

const roleOf = ({ attributes }: Element): string => attributes["role"] ?? "";
const classOf = ({ attributes }: Element): string => attributes["class"] ?? "";

const TABLE_ROLES = /^(?:table|grid|treegrid)$/;

/** The nearest elements below `element` with one of these roles. Those of a table inside it are that one's own. */
function* nearestOf(element: Element, roles: RegExp): Generator<Element> {
  for (const child of elementsOf(element)) {
    if (roles.test(roleOf(child))) yield child;
    else if (!TABLE_ROLES.test(roleOf(child))) yield* nearestOf(child, roles);
  }
}

const ROW_ROLES = /^row$/;
const CELL_ROLES = /^(?:cell|gridcell|columnheader|rowheader)$/;

/** What {@link letters} found of each element: tables may stand in tables. */
const known = new WeakMap<Element, number>();

/** The characters below an element that are no white space. */
function letters(element: Element): number {
  let sum = known.get(element);
  if (sum !== undefined) return sum;
  sum = 0;
  for (const child of element.children)
    sum += typeof child === "string" ? child.replace(/\s+/g, "").length : letters(child);
  known.set(element, sum);
  return sum;
}

/** Whether these elements, which stand below `whole`, hold all of its text: any other would be lost with what is around them. */
const holdAll = (elements: readonly Element[], whole: Element): boolean =>
  elements.reduce((sum, element) => sum + letters(element), 0) === letters(whole);

/** A row: its cells, and the attributes of the element that was one, which may be hidden. */
type Row = { cells: Element[]; attributes: Element["attributes"] };

/** The rows of a table by its roles (WAI-ARIA); undefined where it is none, or has text outside of its cells, or rows that are links. */
function rowsByRole(table: Element): Row[] | undefined {
  if (table.name === "table" || !TABLE_ROLES.test(roleOf(table))) return undefined;
  const elements = [...nearestOf(table, ROW_ROLES)];
  if (elements.length < 2 || elements.some(({ name }) => name === "a")) return undefined;
  const rows = elements.map((row) => ({ cells: [...nearestOf(row, CELL_ROLES)], attributes: row.attributes }));
  const cells = rows.flatMap((row) => row.cells);
  return holdAll(cells, table) ? rows : undefined;
}

const isHeading = (cell: Element): boolean =>
  /header$/.test(roleOf(cell)) || /(?:^|\s)table-header(?:$|\s)/.test(classOf(cell));

/** The rows of a summary in Javadoc's pages since Java 16: headings first, one for each column, then the cells, row after row; undefined for anything else. */
function rowsOfSummary(grid: Element): Row[] | undefined {
  if (!/(?:^|\s)summary-table(?:$|\s)/.test(classOf(grid)) || grid.name !== "div") return undefined;
  const cells = [...elementsOf(grid)];
  const columns = cells.findIndex((cell) => !isHeading(cell));
  if (columns < 1 || cells.length % columns !== 0 || !holdAll(cells, grid)) return undefined;
  return Array.from({ length: cells.length / columns }, (_, row) => ({
    cells: cells.slice(row * columns, (row + 1) * columns),
    attributes: {},
  }));
}

/** A cell of a table around an element, which may be a link or hidden. */
const inCell = (element: Element): Element => ({
  name: isHeading(element) ? "th" : "td",
  attributes: {},
  children: [element],
});

/**
 * Makes tables of those that a page makes of other elements: by WAI-ARIA's roles, and Javadoc's summaries. As a series of paragraphs their cells would not tell
 * which column they are of. Changes `root`.
 */
export function nameTables(root: Element): void {
  for (const element of walkElements(root)) {
    const rows = rowsByRole(element) ?? rowsOfSummary(element);
    if (!rows) continue;
    element.name = "table";
    element.children = rows.map(({ cells, attributes }) => ({ name: "tr", attributes, children: cells.map(inCell) }));
  }
}
