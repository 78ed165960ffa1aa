import { newId } from "../lib/id.ts";

const ids = new WeakMap<Request, string>();

/** The request's own id, `req_…`: made at the first asking, the same for every later one (contract 6: `x-request-id`, `request-id`). */
export function requestIdOf(request: Request): string {
  let id = ids.get(request);
  if (id === undefined) {
    id = newId("req");
    ids.set(request, id);
  }
  return id;
}

/**
 * The path of a URL, absolute or not, still encoded and without query: "/" when there is none. Cuts text only: it is safe before the Host is
 * checked, when `new URL` would throw or be led astray (runtime.md 0).
 */
export function pathOf(url: string): string {
  // What stands in a query, an address say, is no scheme.
  const scheme = url.startsWith("/") ? -1 : url.indexOf("://");
  const start = scheme < 0 ? url.indexOf("/") : url.indexOf("/", scheme + 3);
  if (start < 0) return "/";
  let end = start;
  while (end < url.length && url.charCodeAt(end) !== 63 && url.charCodeAt(end) !== 35) end++;
  return url.slice(start, end);
}
