import type { Place } from "../../ledger/usage-page.ts";
import type { UsageFilter } from "../../ledger/usage-report.ts";
import { badCursor, readTime, readValue, readWord, writeCursor } from "../query.ts";

/** A cursor's place among rows. Throws GatewayError (invalid_request) when it is none. */
export function readPlace(cursor: string | undefined): Place | undefined {
  if (cursor === undefined) return undefined;
  const match = /^(\d{1,16})\.([\x21-\x7e]{0,200})$/.exec(cursor);
  if (!match) throw badCursor();
  return { atMs: Number(match[1]), requestId: match[2] ?? "" };
}

/** The cursor of a place, for {@link readPlace}. */
export const writePlace = ({ atMs, requestId }: Place) => writeCursor(`${atMs}.${requestId}`);

/** What both forms of the endpoint are narrowed by. */
export function readFilter(query: URLSearchParams): UsageFilter {
  return {
    keyId: readValue(query, "key"),
    model: readValue(query, "model"),
    sinceMs: readTime(query, "since"),
    untilMs: readTime(query, "until"),
  };
}

export const FORMATS = ["csv", "json"] as const;

/** The format of an export; undefined: a page. `?format=` wins over an `Accept` of text/csv. */
export function readFormat(query: URLSearchParams, request: Request): (typeof FORMATS)[number] | undefined {
  const asked = readWord(query, "format", FORMATS);
  if (asked) return asked;
  const accepted = (request.headers.get("accept") ?? "").split(",").map((type) => type.split(";", 1)[0]?.trim());
  return accepted.includes("text/csv") ? "csv" : undefined;
}
