import type { Edits } from "../../lib/json-text.ts";
import type { ReplyChanges } from "../dialect.ts";
import { watchable } from "../reply/stop-watch.ts";
import { isVisible } from "../text.ts";

type Body = Readonly<Record<string, unknown>>;

const NONE: readonly string[] = [];

/** A client's stop sequences of white space alone, which its own vendor refuses (dialects.md 2.1). */
function blankStops({ stop_sequences: stops }: Body): readonly string[] {
  return Array.isArray(stops) ? stops.filter((stop) => typeof stop === "string" && !isVisible(stop)) : NONE;
}

/** Takes them out of what the vendor is told: adds that to `edits`. */
export function editStops(body: Body, edits: Edits): void {
  if (blankStops(body).length === 0) return;
  const kept = (body["stop_sequences"] as unknown[]).filter((stop) => typeof stop !== "string" || isVisible(stop));
  edits["stop_sequences"] = kept.length > 0 ? kept : undefined;
}

/** The gateway watches for them itself, so that they are no loss (dialects.md 4.1). */
export function watchBlankStops(body: Body): ReplyChanges | undefined {
  const stops = watchable(blankStops(body), []);
  return stops.length > 0 ? { stops } : undefined;
}

/** Names, in `lost`, those that are too long to be watched for. */
export function nameLostStops(body: Body, lost: string[]): void {
  watchable(blankStops(body), lost);
}
