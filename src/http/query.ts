import { invalidField } from "../canon/errors.ts";
import { readInstant } from "../lib/instant.ts";

/** Entries of a page when no limit is asked for, and at the most. */
export const DEFAULT_PAGE = 100;
export const MAX_PAGE = 1_000;
/** Longest value of a parameter, characters. */
const MAX_VALUE = 300;

/** The request's query string; empty where there is none. */
export function queryOf(request: Request): URLSearchParams {
  const mark = request.url.indexOf("?");
  return new URLSearchParams(mark < 0 ? "" : request.url.slice(mark + 1));
}

/** A parameter's value; undefined where it is not asked for. Throws GatewayError (invalid_request) for an empty or overlong one. */
export function readValue(query: URLSearchParams, param: string): string | undefined {
  const text = query.get(param);
  if (text === null) return undefined;
  if (text === "" || text.length > MAX_VALUE) throw invalidField(param, `${param} has 1 to ${MAX_VALUE} characters.`);
  return text;
}

/** Unix seconds. Eight digits are a date without its dashes: as seconds they would be one of the early seventies. */
const UNIX_SECONDS = /^(?!\d{8}$)\d{1,11}$/;

/** A time, Unix ms: a date (UTC), a date and time, or Unix seconds. Throws GatewayError (invalid_request) for anything else. */
export function readTime(query: URLSearchParams, param: string): number | undefined {
  const text = query.get(param);
  if (text === null) return undefined;
  if (UNIX_SECONDS.test(text)) return Number(text) * 1_000;
  // A plus sign of a time zone arrives as a blank from who does not encode it.
  const at = readInstant(text.replace(" ", "+"));
  if (at !== undefined) return at;
  throw invalidField(
    param,
    `${param} must be a date such as 2026-01-31, a time such as 2026-01-31T10:00:00Z, or Unix seconds.`,
  );
}

/** One of these words; undefined where none is asked for. Throws GatewayError (invalid_request) for another one. */
export function readWord<T extends string>(query: URLSearchParams, param: string, words: readonly T[]): T | undefined {
  const text = query.get(param);
  if (text === null) return undefined;
  const word = words.find((known) => known === text);
  if (word) return word;
  throw invalidField(param, `${param} must be one of ${words.join(", ")}.`);
}

/** The page's size: `usual` where none is asked for. Throws GatewayError (invalid_request) for anything but a whole number from 1 to `most`. */
export function readLimit(query: URLSearchParams, usual = DEFAULT_PAGE, most = MAX_PAGE): number {
  const text = query.get("limit");
  if (text === null) return usual;
  const limit = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= most) return limit;
  throw invalidField("limit", `limit must be a whole number from 1 to ${most}.`);
}

/** A cursor as it was given out; undefined at the first page. Throws GatewayError (invalid_request) for text that is none. */
export function readCursor(query: URLSearchParams): string | undefined {
  const text = query.get("cursor");
  if (text === null) return undefined;
  const read = /^[A-Za-z0-9_-]{1,1000}$/.test(text) ? Buffer.from(text, "base64url").toString("utf8") : "";
  if (read !== "" && writeCursor(read) === text) return read;
  throw badCursor();
}

/** The error of a cursor that cannot be read (invalid_request). */
export const badCursor = () => invalidField("cursor", "cursor is none that this endpoint gave out.");

/** How a page of a list ends: `next` is the cursor of the following one, null behind the last. */
export const pageEnd = (next: string | null) => ({ has_more: next !== null, next_cursor: next });

/** Text as a cursor: opaque, and safe in a query string. */
export function writeCursor(text: string): string {
  return Buffer.from(text).toString("base64url");
}
