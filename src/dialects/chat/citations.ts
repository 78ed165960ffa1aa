import type { Citation } from "../../canon/events.ts";

/** A citation as an annotation of a message (dialects.md 1.3): its place is counted in all of the message's text. */
export function annotationOf({ url, title, start, end, before }: Citation): Record<string, unknown> {
  return { type: "url_citation", url_citation: { start_index: before + start, end_index: before + end, title, url } };
}
