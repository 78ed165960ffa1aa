import type { Quirks, ReplyChanges } from "../dialect.ts";
import { watchable } from "../reply/stop-watch.ts";

type Wire = Record<string, unknown>;

const NONE: string[] = [];

/** The stop sequences of a chat body, which may name one without a list (dialects.md 1.1). */
export function stopsOf(body: Wire): string[] {
  const { stop } = body;
  return (Array.isArray(stop) ? stop : [stop]).filter((one): one is string => typeof one === "string" && one !== "");
}

/** Those of them that are too many for this vendor; none where its row names no bound: clients keep to the dialect's own. */
function unsaidStops(body: Wire, { maxStopSequences: most }: Quirks): string[] {
  return most === undefined || !Array.isArray(body["stop"]) ? NONE : stopsOf(body).slice(most);
}

/**
 * `stop` as the vendor is told it: without those that are too many, which the gateway watches for (dialects.md 4.1), and without empty ones,
 * which ask for nothing and which vLLM refuses. Undefined where nothing is left, else the client's own value where it can stay.
 */
export function saidStops(body: Wire, quirks: Quirks): unknown {
  const { stop } = body;
  if (stop == null) return stop;
  const said = stopsOf(body).slice(0, Array.isArray(stop) ? quirks.maxStopSequences : undefined);
  if (said.length === (Array.isArray(stop) ? stop.length : 1)) return stop;
  return said.length > 0 ? said : undefined;
}

/** `changes` with the stop sequences that this vendor is not told, which the gateway looks for in the reply (dialects.md 4.1). */
export function withUnsaidStops(
  body: Wire,
  quirks: Quirks,
  changes: ReplyChanges | undefined,
): ReplyChanges | undefined {
  const unsaid = unsaidStops(body, quirks);
  return unsaid.length === 0 ? changes : { ...changes, stops: watchable(unsaid, []) };
}

/** Names, in `lost`, a stop sequence that this vendor is not told and that is too long to watch for. */
export function nameLostStops(body: Wire, quirks: Quirks, lost: string[]): void {
  watchable(unsaidStops(body, quirks), lost);
}
