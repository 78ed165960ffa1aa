import { asc, eq } from "drizzle-orm";
import type { Store } from "../db/open.ts";
import { attempt } from "../db/schema-routes.ts";
import type { Writer } from "../db/writer.ts";
import type { Attempt } from "../observe/request-facts.ts";

/** Calls of one request that are kept at the most. */
const MAX_KEPT = 50;

/** Keeps the calls of a request that took several, for its receipt. In the writer's order: before the settle that follows. Rejects as it does. */
export async function keepAttempts(
  store: Store,
  writer: Writer,
  requestId: string,
  attempts: readonly Attempt[],
): Promise<void> {
  const rows = attempts.slice(0, MAX_KEPT).map(({ vendor, model, key, outcome, ms }, at) => {
    return { requestId, number: at + 1, vendor, model, key, outcome, durationMs: ms };
  });
  await writer.run(() => store.query.insert(attempt).values(rows).onConflictDoNothing().run());
}

/** The calls of a request that took several, in their order; none for any other. */
export function findAttempts(store: Store, requestId: string): Attempt[] {
  const rows = store.query
    .select()
    .from(attempt)
    .where(eq(attempt.requestId, requestId))
    .orderBy(asc(attempt.number))
    .all();
  return rows.map(({ vendor, model, key, outcome, durationMs: ms }) => ({ vendor, model, key, outcome, at: 0, ms }));
}
