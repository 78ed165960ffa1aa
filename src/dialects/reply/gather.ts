import type { BlockStart, Citation, Event, Finish } from "../../canon/events.ts";
import type { Usage } from "../../canon/usage.ts";

/** A block of a reply once it is whole. `signature`: "" where it has none. */
export type WholeBlock = { start: BlockStart; text: string; signature: string; citations: Citation[] };

/** A finished reply. `usage`: undefined where its vendor counted nothing. */
type WholeReply = { blocks: readonly WholeBlock[]; usage: Usage | undefined; finish: Finish };

/** The events of a finished reply put together. */
export function gatherReply(events: readonly Event[]): WholeReply {
  const blocks: WholeBlock[] = [];
  let last: WholeBlock | undefined;
  let usage: Usage | undefined;
  let finish: Finish = { reason: "stop" };
  for (const event of events) {
    if (event.type === "block-start") {
      last = { start: event.block, text: "", signature: "", citations: [] };
      blocks.push(last);
    } else if (event.type === "block-delta" && last) last.text += event.text;
    else if (event.type === "block-signature" && last) last.signature = event.signature;
    else if (event.type === "block-citation" && last) last.citations.push(event.citation);
    else if (event.type === "usage") usage = event.usage;
    else if (event.type === "finish") finish = event.finish;
  }
  return { blocks, usage, finish };
}
