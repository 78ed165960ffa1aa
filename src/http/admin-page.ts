import { badCursor, queryOf, readCursor, readLimit, writeCursor } from "./query.ts";

/**
 * One page of a list that is in memory whole, in its own order. The cursor is the last entry's id; an entry that is gone since ends the list with
 * an error, never with a repetition. Throws GatewayError (invalid_request) for a bad cursor or limit.
 */
export function cutList<T extends { id: string }, View>(request: Request, rows: readonly T[], view: (row: T) => View) {
  const query = queryOf(request);
  const limit = readLimit(query);
  const after = readCursor(query);
  const at = after === undefined ? 0 : rows.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && at === 0) throw badCursor();
  const shown = rows.slice(at, at + limit);
  const last = shown.at(-1);
  const hasMore = at + limit < rows.length;
  return {
    object: "list" as const,
    data: shown.map(view),
    has_more: hasMore,
    next_cursor: hasMore && last ? writeCursor(last.id) : null,
  };
}
