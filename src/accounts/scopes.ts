import { GatewayError } from "../canon/errors.ts";
import { SCOPES, type Scope } from "../wire/scopes.ts";
import type { Caller } from "./caller.ts";

/** The scope that each path needs; a path belongs to the first row that it equals or lies below. Counting tokens belongs to the dialect it is asked in. */
const PATHS: readonly (readonly [path: string, scope: Scope])[] = [
  ["/v1/chat", "chat"],
  ["/v1/messages", "messages"],
  ["/v1/responses", "responses"],
  ["/v1/images", "images"],
  ["/v1/web", "web"],
  ["/mcp", "web"],
  ["/v1/account", "account"],
  ["/v1/usage", "account"],
  ["/v1/debug/translate", "translate"],
  ["/v1/models", "models"],
];

/** Whether `text` names a scope. */
export function isScope(text: string): text is Scope {
  return SCOPES.some((scope) => scope === text);
}

/** The scopes of which a narrowed key needs one for this method and path (without query); none for a path that such keys never reach. */
export function scopesOf(method: string, path: string): readonly Scope[] {
  const scope = PATHS.find(([prefix]) => path === prefix || path.startsWith(`${prefix}/`))?.[1];
  if (scope === undefined) return [];
  const reads = method === "GET" || method === "HEAD";
  return scope === "images" && reads ? ["images", "images:read"] : [scope];
}

/**
 * Refuses a narrowed key outside of its endpoints (contract 4). `path` is without query. Throws GatewayError (permission_denied). A path
 * that no scope names is refused too: a new endpoint is closed to narrowed keys until it is given one.
 */
export function requireEndpoint(caller: Caller, method: string, path: string): void {
  const allowed = caller.narrow?.endpoints;
  if (allowed === undefined || scopesOf(method, path).some((scope) => allowed.includes(scope))) return;
  throw new GatewayError("permission_denied", `This key may be used for ${allowed.join(", ")} only.`);
}

/** Refuses a model that the caller's key is not for (contract 4). Throws GatewayError (permission_denied, param `model`). */
export function requireModel(caller: Caller, modelId: string): void {
  const patterns = caller.narrow?.models;
  if (patterns === undefined || patterns.some((pattern) => matchesPattern(pattern, modelId))) return;
  throw new GatewayError("permission_denied", `This key may not call the model ${modelId}.`, { param: "model" });
}

/** Whether a pattern fits a whole text; `*` stands for any characters, also none. Never more than quadratic in the text. */
export function matchesPattern(pattern: string, text: string): boolean {
  let at = 0;
  let of = 0;
  let star = -1;
  let resumeAt = 0;
  while (at < text.length) {
    if (of < pattern.length && pattern[of] === "*") {
      star = of++;
      resumeAt = at;
    } else if (of < pattern.length && pattern[of] === text[at]) {
      of++;
      at++;
    } else if (star >= 0) {
      // The last star takes one character more.
      of = star + 1;
      at = ++resumeAt;
    } else return false;
  }
  while (pattern[of] === "*") of++;
  return of === pattern.length;
}
