import type { Store } from "../../db/open.ts";
import { formatUsd } from "../../ledger/price.ts";
import { type Place, readUsagePage } from "../../ledger/usage-page.ts";
import { type Grouping, type ReportRow, summarise, sumUp, type UsageFilter } from "../../ledger/usage-report.ts";
import { toUsd } from "../../lib/usd.ts";
import { toResponse } from "../answered.ts";
import { commonHeaders } from "../errors.ts";
import { ownJson } from "../own-json.ts";
import { badCursor, pageEnd, queryOf, readCursor, readLimit, readWord, writeCursor } from "../query.ts";
import { requestIdOf } from "../request.ts";
import { EXPORT_PAGE, type ExportPages, exportResponse } from "./export.ts";
import { readFilter, readFormat, readPlace, writePlace } from "./query.ts";
import { toEntry, toGroup } from "./shape.ts";

const COUNT_COLUMNS = [
  "input_tokens",
  "cache_read_tokens",
  "cache_write_tokens",
  "output_tokens",
  "reasoning_tokens",
  "units",
] as const;

/** The columns of an export, request by request. */
export const ENTRY_COLUMNS = [
  "request_id",
  "at",
  "account",
  "key",
  "dialect",
  "stream",
  "model",
  "vendor",
  "upstream_model",
  "outcome",
  "finish_reason",
  "error",
  "attempts",
  ...COUNT_COLUMNS,
  "estimated",
  "cost_usd",
  "charged_usd",
  "duration_ms",
  "first_token_ms",
  // Last, so that no column moved for those who read them by their place.
  "cache_write_1h_tokens",
] as const;

/** The columns of an export of groups. */
export const GROUP_COLUMNS = [
  "group",
  "name",
  "requests",
  "estimated_requests",
  "unpriced_requests",
  ...COUNT_COLUMNS,
  "cost_usd",
  "charged_usd",
] as const;

/** All rows of a filter, page by page, as an export writes them: amounts as text with nine decimals (reliability 3.1 rule 4). */
export function* exportEntries(store: Store, filter: UsageFilter): ExportPages & Generator {
  let after: Place | undefined;
  for (;;) {
    const { rows, next } = readUsagePage(store, filter, { limit: EXPORT_PAGE, after });
    yield rows.map((row) => toEntry(row, formatUsd));
    if (!next) return;
    after = next;
  }
}

/** The groups behind a cursor, as many as a page takes. Throws GatewayError (invalid_request) for a cursor of another list. */
function cutGroups(rows: readonly ReportRow[], cursor: string | undefined, limit: number) {
  if (cursor !== undefined && !cursor.startsWith("group:")) throw badCursor();
  const after = cursor?.slice("group:".length);
  const rest = after === undefined ? rows : rows.filter(({ group }) => group > after);
  const shown = rest.slice(0, limit);
  const last = shown.at(-1);
  const next = rest.length > limit && last ? writeCursor(`group:${last.group}`) : null;
  return { shown, next };
}

/** Groups as an export writes them, a page at a time. */
export function* exportGroups(rows: readonly ReportRow[]): ExportPages & Generator {
  for (let at = 0; at < rows.length; at += EXPORT_PAGE) {
    yield rows.slice(at, at + EXPORT_PAGE).map((row) => toGroup(row, formatUsd));
  }
}

function listGroups(rows: readonly ReportRow[], groupBy: Grouping, query: URLSearchParams) {
  const { shown, next } = cutGroups(rows, readCursor(query), readLimit(query));
  return {
    object: "list",
    group_by: groupBy,
    data: shown.map((row) => toGroup(row, toUsd)),
    // Of all groups, those of other pages included.
    total: toGroup({ group: "total", label: "total", ...sumUp(rows) }, toUsd),
    ...pageEnd(next),
  };
}

function listEntries(store: Store, filter: UsageFilter, query: URLSearchParams) {
  const after = readPlace(readCursor(query));
  const { rows, next } = readUsagePage(store, filter, { limit: readLimit(query), after });
  return { object: "list", data: rows.map((row) => toEntry(row, toUsd)), ...pageEnd(next ? writePlace(next) : null) };
}

/** Whose usage is shown, all accounts' where none is named. `groupings`: what it can be put together by. */
export type UsageScope = { accountId: string | undefined; groupings: readonly Grouping[] };

/**
 * `GET /v1/usage` and its like (contract 3): requests newest first, or groups, a page at a time; with `format=csv`, `format=json` or
 * `Accept: text/csv` all of it as one file. Throws GatewayError (invalid_request) with the query parameter at fault.
 */
export async function answerUsage(request: Request, store: Store, scope: UsageScope): Promise<Response> {
  const query = queryOf(request);
  const filter: UsageFilter = { ...readFilter(query), accountId: scope.accountId };
  const groupBy = readWord(query, "group_by", scope.groupings);
  const format = readFormat(query, request);
  const headers = { ...commonHeaders(requestIdOf(request)), "cache-control": "no-store" };
  const groups = groupBy && (await summarise(store, { ...filter, groupBy }, request.signal));
  if (format && groups) {
    return exportResponse(format, `usage-by-${groupBy}`, GROUP_COLUMNS, exportGroups(groups), headers);
  }
  if (format) return exportResponse(format, "usage", ENTRY_COLUMNS, exportEntries(store, filter), headers);
  const body = groups ? listGroups(groups, groupBy, query) : listEntries(store, filter, query);
  return toResponse(ownJson(body, requestIdOf(request)));
}
