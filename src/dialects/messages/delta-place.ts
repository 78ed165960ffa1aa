import { entryOf, stringOf } from "../../lib/json.ts";
import type { BlockLane, Slot } from "../block-lane.ts";
import type { Block } from "./blocks.ts";

/** What is said, thought or called: the kinds of blocks, and of the deltas that they are made of (dialects.md 2.5). Other types are let be. */
const BLOCKS: Readonly<Record<string, "said" | "thought" | "called">> = {
  text: "said",
  thinking: "thought",
  tool_use: "called",
  server_tool_use: "called",
  mcp_tool_use: "called",
};
const DELTAS: typeof BLOCKS = { text_delta: "said", thinking_delta: "thought", input_json_delta: "called" };

const kindOf = (block: Block) => entryOf(BLOCKS, stringOf(block["type"]));

function fits(block: Block, delta: Block): boolean {
  const kind = entryOf(DELTAS, stringOf(delta["type"]));
  return kind === undefined || (kindOf(block) ?? kind) === kind;
}

/** The block that a delta belongs to when the vendor never began it, or undefined when the delta does not tell. */
function blockOf(delta: Block): Block | undefined {
  if (delta["type"] === "text_delta") return { type: "text", text: "" };
  if (delta["type"] === "thinking_delta" || delta["type"] === "signature_delta")
    return { type: "thinking", thinking: "", signature: "" };
  return undefined;
}

const saysNothing = ({ text, thinking }: Block): boolean => !text && !thinking;

/** The block that a delta belongs to: one that is open, or one to begin, and those that end before it. */
type Place<Piece, State> = { slot: Slot<Piece, State> } | { block: Block; ended: readonly Slot<Piece, State>[] };

/**
 * Where a delta goes. Some servers write what a model thinks into the text block that they began beforehand, or its words into a call
 * (BerriAI/litellm #32357, #33224; sgl-project/sglang #24293): clients break off there, or lose it. It gets a block of its own; a call may go on
 * in front of it. Undefined for a delta that says nothing, or does not tell where it belongs.
 */
export function placeDelta<Piece, State extends { readonly block: Block }>(
  lane: BlockLane<Piece, State>,
  index: unknown,
  delta: Block,
): Place<Piece, State> | undefined {
  const last = lane.find(index);
  if (last && fits(last.state.block, delta)) return { slot: last };
  const all = last ? lane.all(index) : [];
  const slot = all.findLast(({ state }) => fits(state.block, delta));
  if (slot) return { slot };
  const block = last && saysNothing(delta) ? undefined : blockOf(delta);
  return block && { block, ended: all.filter(({ state }) => kindOf(state.block) !== "called") };
}
