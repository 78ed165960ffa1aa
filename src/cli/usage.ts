import { type ExportPages, writeCsv, writeJson } from "../http/usage/export.ts";
import { ENTRY_COLUMNS, exportEntries, exportGroups, GROUP_COLUMNS } from "../http/usage/list.ts";
import { toGroup } from "../http/usage/shape.ts";
import { formatUsd } from "../ledger/price.ts";
import {
  GROUPINGS,
  type Grouping,
  type ReportRow,
  summarise,
  sumUp,
  type UsageFilter,
} from "../ledger/usage-report.ts";
import { type Books, findAccount, withBooks } from "./context.ts";
import type { UsageOptions } from "./options.ts";
import { print, printJson, printPieces, toSafeJson, WrongUsage, warn } from "./output.ts";
import { readSince } from "./since.ts";
import { type Column, formatCount, formatTable } from "./table.ts";

const COUNTS = ["requests", "input", "cacheRead", "cacheWrite", "output", "reasoning", "units"] as const;
const TITLES = [
  "requests",
  "input",
  "cache read",
  "cache write",
  "output",
  "reasoning",
  "images, calls",
  "cost USD",
  "paid USD",
];

function formatReport(rows: readonly ReportRow[], by: Grouping): string[] {
  const columns: Column[] = [{ title: by }, ...TITLES.map((title): Column => ({ title, align: "right" }))];
  const sum: ReportRow = { group: "", label: "total", ...sumUp(rows) };
  const cells = [...rows, ...(rows.length > 1 ? [sum] : [])].map((row) => [
    row.label,
    ...COUNTS.map((count) => formatCount(row[count])),
    formatUsd(row.costNano),
    formatUsd(row.chargedNano),
  ]);
  return formatTable(columns, cells);
}

/** A group in `--json`: counts of tokens by the names of `GET /v1/usage`, amounts as exact text. */
function toPublic(row: ReportRow, by: Grouping) {
  const { object: _object, group, name, ...rest } = toGroup(row, formatUsd);
  return { [by]: group, ...((by === "key" || by === "account") && { name }), ...rest };
}

function* toSafe(pieces: Iterable<string>): Generator<string> {
  for (const piece of pieces) yield toSafeJson(piece);
}

/** All requests, one by one, read from the store only as they are consumed. */
function writeRequests({ store }: Books, filter: UsageFilter, csv: boolean): Promise<void> {
  const pages: ExportPages = exportEntries(store, filter);
  return printPieces(csv ? writeCsv(ENTRY_COLUMNS, pages) : toSafe(writeJson(pages)));
}

async function writeGroups(
  { store }: Books,
  filter: UsageFilter & { sinceMs: number },
  by: Grouping,
  options: UsageOptions,
): Promise<void> {
  const rows = await summarise(store, { ...filter, groupBy: by });
  if (options.csv) {
    await printPieces(writeCsv(GROUP_COLUMNS, exportGroups(rows)));
  } else if (options.json) printJson(rows.map((row) => toPublic(row, by)));
  else if (rows.length === 0) {
    const until = filter.untilMs === undefined ? "" : ` until ${new Date(filter.untilMs).toISOString()}`;
    print(`No usage since ${new Date(filter.sinceMs).toISOString()}${until}.`);
  } else {
    print(...formatReport(rows, by));
    const { unpriced } = sumUp(rows);
    // Else what nobody knows the price of would look as if it were free.
    const what = unpriced === 1 ? "1 request of a model" : `${formatCount(unpriced)} requests of models`;
    if (unpriced > 0) warn(`Not in these costs: ${what} without a known price.`);
  }
}

/**
 * `sluice usage`: requests, tokens and cost by model, key, UTC day or account since a time and before another, or request by request. `--json` prints an array
 * (contract 1), `--csv` a table for spreadsheets.
 */
export async function showUsage(options: UsageOptions): Promise<number> {
  const now = Date.now();
  const sinceMs = readSince(options.since, now);
  const untilMs = options.until === undefined ? undefined : readSince(options.until, now, "--until");
  if (untilMs !== undefined && untilMs <= sinceMs) throw new WrongUsage("--until: expected a time after --since");
  const what = options.group ?? options.by ?? "model";
  return withBooks(options, async (books) => {
    const accountId = options.account === undefined ? undefined : findAccount(books, options.account).id;
    const filter = { accountId, sinceMs, untilMs };
    const by = GROUPINGS.find((grouping) => grouping === what);
    if (by) await writeGroups(books, filter, by, options);
    else await writeRequests(books, filter, options.json !== true);
    return 0;
  });
}
