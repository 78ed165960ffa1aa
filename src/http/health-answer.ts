import type { Whole } from "./answered.ts";
import { ownJson } from "./own-json.ts";

export type Health = { ready(): boolean };

/** What is said of the process: 200 while it answers at all, or is ready where `path` asks for that, else 503 (contract 3). */
function isWell(path: string, health: Health): boolean | undefined {
  if (path === "/healthz") return true;
  return path === "/readyz" ? health.ready() : undefined;
}

/** The answer to GET /healthz and GET /readyz; undefined for another path. */
export function healthAnswer(path: string, health: Health, requestId: string): Whole | undefined {
  const well = isWell(path, health);
  if (well === undefined) return undefined;
  return ownJson({ status: well ? "ok" : "unavailable" }, requestId, well ? 200 : 503);
}
