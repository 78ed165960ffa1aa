import type { Edits } from "../lib/json-text.ts";
import type { Encoded, ReplyChanges } from "./dialect.ts";
import { watchable } from "./reply/stop-watch.ts";

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

/** Fields that hold stop sequences, in any dialect that has them. */
const CHAT_STOPS = "stop";
const MESSAGES_STOPS = "stop_sequences";

/**
 * Stop sequences that `edits` take out of an encoded body because this model refuses them: the gateway watches for them itself, so they
 * are no loss. Gives the field they stood in, and the changes with them.
 */
export function watchRefusedStops(
  {
    body,
    dropped,
    changes,
  }: { body: Readonly<Record<string, unknown>>; dropped: string[]; changes?: ReplyChanges | undefined },
  edits: Edits,
): { field: string; changes: ReplyChanges | undefined } | undefined {
  const field = Object.hasOwn(edits, CHAT_STOPS) ? CHAT_STOPS : MESSAGES_STOPS;
  if (!Object.hasOwn(edits, field) || edits[field] !== undefined) return undefined;
  const refused = body[field];
  if (refused == null) return undefined;
  const said = (Array.isArray(refused) ? refused : [refused]).filter(
    (stop): stop is string => typeof stop === "string",
  );
  const stops = watchable([...said, ...(changes?.stops ?? [])], dropped);
  return { field, changes: stops.length > 0 ? { ...changes, stops } : changes };
}
