import type { Whole } from "./answered.ts";
import { commonHeaders } from "./errors.ts";

/** JSON that is written already, with who may keep it. */
export function jsonText(body: string, requestId: string, cacheControl: string, status = 200): Whole {
  const headers = commonHeaders(requestId);
  headers["cache-control"] = cacheControl;
  headers["content-type"] = "application/json;charset=utf-8";
  return { status, headers, body };
}

/** JSON that nobody keeps: it is its caller's own, or changes with every request. */
export function ownJson(value: unknown, requestId: string, status = 200): Whole {
  return jsonText(JSON.stringify(value), requestId, "no-store", status);
}
