import type { Memories, ReasoningMemory } from "../../canon/memory.ts";
import { isObject, listOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { detailFields, detailsOf } from "../reasoning/details.ts";
import { Anchor, type Conversation, type ReplayHalf, restoreMessages, type SpokenTurn } from "../reasoning/replay.ts";
import { contentText, reasoningSignature, reasoningText, thoughtField } from "./delta.ts";

type Wire = Record<string, unknown>;

function callIdsOf(message: Wire): string[] {
  const ids: string[] = [];
  for (const call of listOf(message["tool_calls"])) {
    if (isObject(call) && typeof call["id"] === "string" && call["id"] !== "") ids.push(call["id"]);
  }
  return ids;
}

function carries(message: Wire): SpokenTurn["carries"] {
  if (reasoningSignature(message) !== undefined) return "proof";
  return reasoningText(message) === "" ? "nothing" : "text";
}

function read(body: Wire, texts: boolean): Conversation {
  const turns: SpokenTurn[] = [];
  const anchor = new Anchor(texts);
  for (const message of listOf(body["messages"])) {
    if (!isObject(message)) continue;
    const { role } = message;
    if (role === "assistant") {
      const text = texts ? contentText(message["content"]) : "";
      const turn: SpokenTurn = { callIds: callIdsOf(message), text, carries: carries(message), anchor: anchor.value };
      if (detailsOf(message)) turn.hasDetails = true;
      turns.push(turn);
    } else if (role === "user" && texts) anchor.add(contentText(message["content"]));
  }
  return { turns, anchor: anchor.value };
}

/** Where an assistant turn carries its reasoning (dialects.md 1.1). JSON leaves out what is undefined. */
export const REPLAYED = ["reasoning_content", "reasoning", "reasoning_details"] as const;

/** Whether a turn of the model's holds nothing but what it thought: its user stopped it there. */
export const isLoneThought = (message: Record<string, unknown>): boolean =>
  message["role"] === "assistant" &&
  !message["content"] &&
  !message["tool_calls"] &&
  !message["refusal"] &&
  REPLAYED.some((field) => message[field]);

/** The reasoning text of a reply, blank where there was none: this dialect has one field for it. */
function textOf(memory: ReasoningMemory): string {
  return memory.map((block) => (block.kind === "reasoning" ? block.text : "")).join("");
}

/** The reasoning of a reply as its vendor wants it back: its details, which hold the text too, else the text in `field`. */
function fieldsOf(memory: ReasoningMemory, field: string): Wire {
  const details = memory.find((block) => block.kind === "details");
  return details ? detailFields(details.items) : { [field]: textOf(memory) };
}

/** Writes reasoning into the field in which this vendor wants it back (dialects.md 4.8 #8). */
function restore(body: Wire, memories: Memories, field: string | undefined): Edits {
  if (field === undefined) return {};
  return restoreMessages(body, memories, (message, memory) => ({ ...message, ...fieldsOf(memory, field) }));
}

/** Stands for reasoning that is lost, where a vendor refuses a call without any: the shortest text that is not empty (dialects.md 4.8 #8). */
export const LOST_REASONING = " ";

/** Adds to `changes` reasoning that a client sends back under another name than the one that its vendor takes. */
export function renameReasoning(message: Wire, field: string, changes: Wire): void {
  const text = message[field] == null ? reasoningText(message) : "";
  if (text !== "") changes[field] = text;
}

const isThought = (part: unknown): boolean => isObject(part) && thoughtField(part) !== undefined;

/** Adds to `changes` the reasoning of a message as the first part of its content; of one that has nothing else it says nothing to anybody. */
export function addThoughtPart(message: Wire, changes: Wire): void {
  const { content } = message;
  const text = reasoningText(message);
  if (text === "" || (Array.isArray(content) && content.some(isThought))) return;
  const said = typeof content === "string" && content !== "" ? [{ type: "text", text: content }] : listOf(content);
  if (said.length === 0 && listOf(message["tool_calls"]).length === 0) return;
  changes["content"] = [{ type: "thinking", thinking: [{ type: "text", text }], closed: true }, ...said];
}

/** Whether a message has calls, and nothing readable of the reasoning that led to them. */
export function lacksReasoning(message: Wire): boolean {
  if (message["role"] !== "assistant" || listOf(message["tool_calls"]).length === 0) return false;
  const text = message["reasoning_content"];
  return typeof text !== "string" || text.trim() === "";
}

/** Chat clients keep text and calls of an answer, and nothing of its reasoning (dialects.md 4.8 #7). */
export const replay: ReplayHalf = { forgets: true, read, restore };
