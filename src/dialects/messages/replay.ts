import type { Memories } from "../../canon/memory.ts";
import { objectsOf, stringOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { asShown, isUnsigned } from "../reasoning/proof.ts";
import {
  Anchor,
  type Conversation,
  type Loom,
  type ReplayHalf,
  restoreMessages,
  type SpokenTurn,
  weave,
} from "../reasoning/replay.ts";
import { isThinking } from "./tool-loop.ts";

type Block = Record<string, unknown>;

/** The blocks of a message; a string is one text block. */
function blocksOf(content: unknown): Block[] {
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: content }];
  return objectsOf(content);
}

const textOf = (blocks: readonly Block[]): string =>
  blocks.map((block) => (block["type"] === "text" ? stringOf(block["text"]) : "")).join("");

function callIdOf(block: Block): string | undefined {
  return block["type"] === "tool_use" ? stringOf(block["id"]) : undefined;
}

const isProof = (signature: string): boolean => signature !== "" && !isUnsigned(asShown(signature));

/**
 * One pass over an assistant's blocks: long conversations have thousands. A proof behind something else counts as its text: some clients
 * (Spring AI) write the text first, where Claude refuses a turn that its thinking does not open, so what is remembered is put back in its place.
 */
function readTurn(blocks: readonly Block[], text: string, anchor: bigint): SpokenTurn {
  const turn: SpokenTurn = { callIds: [], text, carries: "nothing", anchor };
  const opens = isThinking(blocks[0]);
  for (const block of blocks) {
    const { type } = block;
    if (type === "tool_use") {
      const id = stringOf(block["id"]);
      if (id !== "") turn.callIds.push(id);
    } else if (isThinking(block)) {
      if (opens && (type === "redacted_thinking" || isProof(stringOf(block["signature"])))) turn.carries = "proof";
      else if (turn.carries === "nothing") turn.carries = "text";
    }
  }
  return turn;
}

function read(body: Block, texts: boolean): Conversation {
  const turns: SpokenTurn[] = [];
  const anchor = new Anchor(texts);
  for (const message of objectsOf(body["messages"])) {
    if (message["role"] === "assistant") {
      const blocks = blocksOf(message["content"]);
      turns.push(readTurn(blocks, texts ? textOf(blocks) : "", anchor.value));
    } else if (message["role"] === "user" && texts) anchor.add(textOf(blocksOf(message["content"])));
  }
  return { turns, anchor: anchor.value };
}

const BLOCKS: Loom<Block> = {
  isText: (block) => block["type"] === "text",
  isReasoning: isThinking,
  callIdOf,
  make(block) {
    if (block.kind === "redacted-reasoning") return { type: "redacted_thinking", data: block.data };
    if (block.kind === "details" || block.signature === undefined) return undefined;
    return { type: "thinking", thinking: block.text, signature: block.signature };
  },
  sign: (block) => block,
};

const restore = (body: Block, memories: Memories): Edits =>
  restoreMessages(body, memories, (message, memory) => ({
    ...message,
    content: weave(memory, blocksOf(message["content"]), BLOCKS),
  }));

/** Clients of this dialect send its blocks back as they came; some leave thinking out of a tool loop all the same. */
export const replay: ReplayHalf = { forgets: false, bareTexts: true, read, restore };
