import type { Event } from "../../canon/events.ts";

const isFilled = (value: unknown): value is string => typeof value === "string" && value !== "";

/** The event by which a reply begins, from what its vendor says of it. `created`: whole Unix seconds. */
export function startEvent(id: unknown, model: unknown, created?: number): Event {
  return {
    type: "start",
    ...(isFilled(id) && { id }),
    ...(isFilled(model) && { model }),
    ...(created !== undefined && { created }),
  };
}
