import { badCursor, pageEnd, queryOf, readCursor, readLimit, writeCursor } from "../query.ts";

/**
 * One page of a list that is in memory whole, in its own order. The cursor is the last entry's id; an entry that is gone since ends the list with
 * an error, never with a repetition. Throws GatewayError (invalid_request) for a bad cursor or limit.
 */
export function cutList<T extends { id: string }, View>(request: Request, rows: readonly T[], view: (row: T) => View) {
  const read = ({ after, limit }: Wanted) => {
    const at = after === undefined ? 0 : rows.findIndex(({ id }) => id === after) + 1;
    return after !== undefined && at === 0 ? undefined : rows.slice(at, at + limit);
  };
  return readList(request, read, view);
}

/** What a page is made of: at most `limit` entries, from the one behind the entry `after` on. */
type Wanted = { after: string | undefined; limit: number };

/** {@link cutList} of a list that `read` has a part of; undefined: it has no entry `after`. */
export function readList<T extends { id: string }, View>(
  request: Request,
  read: (wanted: Wanted) => readonly T[] | undefined,
  view: (row: T) => View,
) {
  const query = queryOf(request);
  const limit = readLimit(query);
  // One more tells whether anything follows.
  const rows = read({ after: readCursor(query), limit: limit + 1 });
  if (!rows) throw badCursor();
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const next = rows.length > limit && last ? writeCursor(last.id) : null;
  return { object: "list" as const, data: shown.map(view), ...pageEnd(next) };
}
