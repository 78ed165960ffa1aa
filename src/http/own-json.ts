import type { Whole } from "./answered.ts";
import { commonHeaders } from "./errors.ts";

/** JSON that nobody keeps: it is its caller's own, or changes with every request. */
export function ownJson(value: unknown, requestId: string, status = 200): Whole {
  const headers = commonHeaders(requestId);
  headers["cache-control"] = "no-store";
  headers["content-type"] = "application/json;charset=utf-8";
  return { status, headers, body: JSON.stringify(value) };
}
