import { GROUPINGS, type Grouping, type ReportRow, summarise } from "../ledger/usage-report.ts";
import { withBooks } from "./context.ts";
import type { UsageOptions } from "./options.ts";
import { type Column, Failure, formatCount, formatTable, print, printJson } from "./output.ts";
import { readSince } from "./since.ts";

const COUNTS = ["requests", "input", "cacheRead", "cacheWrite", "output", "reasoning"] as const;

function formatReport(rows: readonly ReportRow[], by: Grouping): string[] {
  const titles = ["requests", "input", "cache read", "cache write", "output", "reasoning"];
  const columns: Column[] = [{ title: by }, ...titles.map((title): Column => ({ title, align: "right" }))];
  const cells = rows.map((row) => [row.label, ...COUNTS.map((count) => formatCount(row[count]))]);
  if (rows.length > 1) {
    const total = (count: (typeof COUNTS)[number]) => rows.reduce((sum, row) => sum + row[count], 0);
    cells.push(["total", ...COUNTS.map((count) => formatCount(total(count)))]);
  }
  return formatTable(columns, cells);
}

const toPublic = (row: ReportRow, by: Grouping) => ({
  [by]: row.group,
  ...(by === "key" && { name: row.label }),
  requests: row.requests,
  input_tokens: row.input,
  cache_read_tokens: row.cacheRead,
  cache_write_tokens: row.cacheWrite,
  output_tokens: row.output,
  reasoning_tokens: row.reasoning,
  estimated_requests: row.estimated,
});

/** `sluice usage`: requests and tokens by model, key or UTC day since a time. `--json` prints an array (contract 1). */
export async function showUsage(options: UsageOptions): Promise<number> {
  const sinceMs = readSince(options.since, Date.now());
  const by = GROUPINGS.find((grouping) => grouping === options.by) ?? "model";
  return withBooks(options, ({ store, accounts }) => {
    const account = options.account === undefined ? undefined : accounts.find(options.account);
    if (options.account !== undefined && !account) {
      throw new Failure(`there is no account ${JSON.stringify(options.account)}`);
    }
    const rows = summarise(store, { accountId: account?.id, sinceMs, groupBy: by });
    if (options.json) printJson(rows.map((row) => toPublic(row, by)));
    else if (rows.length === 0) print(`No usage since ${new Date(sinceMs).toISOString()}.`);
    else print(...formatReport(rows, by));
    return 0;
  });
}
