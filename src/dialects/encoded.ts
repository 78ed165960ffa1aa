import type { Encoded } from "./dialect.ts";
import { watchable } from "./stop-watch.ts";

/**
 * A written body with what its reply must be changed back in: names of tools that were written otherwise (upstream's → client's), and stop
 * sequences that the upstream is not told. What can neither be told nor watched for is added to `dropped`.
 */
export function encodedBody(
  body: Record<string, unknown>,
  dropped: string[],
  toolNames: ReadonlyMap<string, string> | undefined,
  unsaidStops: readonly string[],
): Encoded {
  const stops = watchable(unsaidStops, dropped);
  if (!toolNames && stops.length === 0) return { body, dropped };
  return { body, dropped, changes: { ...(toolNames && { toolNames }), ...(stops.length > 0 && { stops }) } };
}
