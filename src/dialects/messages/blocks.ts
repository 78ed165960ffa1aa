import type { BlockStart, Event } from "../../canon/events.ts";
import { newId } from "../../lib/id.ts";
import { isObject, stringOf } from "../../lib/json.ts";
import type { BlockCiter } from "../cited.ts";
import type { ReplyCallIds } from "../tools/counted-ids.ts";
import { UNNAMED_TOOL } from "../tools/tool-names.ts";
import { citedIn } from "./citations.ts";

export type Block = Record<string, unknown>;

/** A call of a tool that the client runs. */
export const isCall = (block: unknown): block is Block => isObject(block) && block["type"] === "tool_use";

/** What such a call came to. */
export const isResult = (block: unknown): block is Block => isObject(block) && block["type"] === "tool_result";

/**
 * A block with a name, and under an id that no other call has, in its reply or another, where it is a call: some servers leave the id out, but without one no
 * result can be given back (dialects.md 4.8 #14), and that of others only counts within its turn. `seed`: the id of its message. `ids`: those of its reply.
 */
export function makeAnswerable(block: Block, seed: unknown, ids: ReplyCallIds): Block {
  if (!isCall(block)) return block;
  const given = stringOf(block["id"]);
  const id = given === "" ? newId("toolu") : ids.take(given, stringOf(seed) || undefined);
  const isNamed = stringOf(block["name"]) !== "";
  if (id === given && isNamed) return block;
  return { ...block, id, ...(!isNamed && { name: UNNAMED_TOOL }) };
}

/** How a block of this dialect, a call under its {@link makeAnswerable}, begins in canonical events; a type nobody knows is opaque (dialects.md 2.2, 2.4). */
export function readBlockStart(block: Block): BlockStart {
  const type = block["type"];
  if (type === "text") return { kind: "text" };
  if (type === "thinking") return { kind: "reasoning" };
  if (type === "redacted_thinking") return { kind: "redacted-reasoning", data: stringOf(block["data"]) };
  if (type === "tool_use") return { kind: "tool-call", id: stringOf(block["id"]), name: stringOf(block["name"]) };
  return { kind: "opaque", dialect: "messages", value: block };
}

/** The text a text or thinking block already holds; "" for others. */
export function initialText(block: Block): string {
  return stringOf(block["type"] === "text" ? block["text"] : block["type"] === "thinking" ? block["thinking"] : "");
}

/** The signature a thinking block already holds, or "". */
export const initialSignature = (block: Block): string =>
  block["type"] === "thinking" ? stringOf(block["signature"]) : "";

/** A tool's whole input as JSON text, or "" when there are no arguments. */
export function inputText(input: unknown): string {
  if (typeof input === "string") return input;
  if (input === undefined || input === null) return "";
  if (isObject(input) && Object.keys(input).length === 0) return "";
  return JSON.stringify(input);
}

/** A piece of a tool's input as text: a few servers send the whole input as an object in its place (dialects.md 4.8 #11). "" for anything else. */
export const fragmentText = (piece: unknown): string => (isObject(piece) ? inputText(piece) : stringOf(piece));

/** Adds a whole block's events to `events`. `citer`: that of its reply. */
export function readWholeBlock(block: Block, citer: BlockCiter, events: Event[]): void {
  const start = readBlockStart(block);
  events.push({ type: "block-start", block: start });
  const text = start.kind === "tool-call" ? inputText(block["input"]) : initialText(block);
  if (text !== "") events.push({ type: "block-delta", text });
  const signature = initialSignature(block);
  if (signature !== "") events.push({ type: "block-signature", signature });
  if (start.kind === "text") events.push(...citer.end(text.length, citedIn(block["citations"])));
  events.push({ type: "block-end" });
}
