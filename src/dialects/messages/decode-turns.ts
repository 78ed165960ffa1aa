import type {
  DocumentPart,
  ImagePart,
  Part,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from "../../canon/prompt.ts";
import { entryOf, isObject, listOf, stringOf } from "../../lib/json.ts";
import { unknownFields, unknownPaths } from "../loss/unknown-fields.ts";
import { asShown, isUnsigned, unsignedMaker } from "../reasoning/proof.ts";
import { cleanText, isVisible, textOfUnknown } from "../text.ts";
import { decodeSource } from "./media.ts";
import { textOfServed } from "./server-tools.ts";
import { isToolChange } from "./tool-changes.ts";
import { isCleared, lastUserTurn } from "./turn-settings.ts";

type Block = Record<string, unknown>;
/** Adds what a block means to `parts`. */
type Reader = (block: Block, parts: Part[], path: string, dropped: string[]) => void;

/** A part, or a tool, with the cache breakpoint of its block, if that has one. */
export function withMark<T extends { cache?: unknown }>(part: T, block: Block): T {
  const mark = block["cache_control"];
  if (mark !== undefined && mark !== null) part.cache = mark;
  return part;
}

/** Fields of a message, and what a reply is beside its content, which some clients send back as it came (dialects.md 2.4). */
const MESSAGE_FIELDS: ReadonlySet<string> = new Set([
  ...["role", "content", "id", "type", "model", "stop_reason", "stop_sequence", "stop_details", "usage"],
  ...["container", "context_management", "parsed_output", "clear_at", "output_config"],
]);
/** What a system turn may set that counts for all of what comes behind it, and is read as such. */
const SET_FIELDS: ReadonlySet<string> = new Set(["effort"]);
/** Fields of the blocks that have a meaning elsewhere: those that cross, those that are told apart, and what a reply says of its own text and calls. */
const BLOCK_FIELDS: ReadonlySet<string> = new Set([
  ...["type", "text", "citations", "source", "title", "context", "transformations", "thinking", "signature", "data"],
  ...["id", "name", "input", "caller", "toolset_name", "tool_use_id", "content", "is_error", "cache_control"],
  ...["parsed_output", "parsed", "encrypted_content"],
]);

/** Fields of a source (dialects.md 2.2). */
const SOURCE_FIELDS: ReadonlySet<string> = new Set(["type", "media_type", "data", "url", "file_id", "content"]);

/** A text, if there is any. */
function addText(text: string, parts: Part[], block?: Block): void {
  const clean = cleanText(text);
  if (clean === "") return;
  const part: TextPart = { type: "text", text: clean };
  parts.push(block ? withMark(part, block) : part);
}

/** Words that stand for a block in an assistant's turn, and are not the model's own. */
function addApart(text: string, parts: Part[], block: Block): void {
  const before = parts.length;
  addText(text, parts, block);
  const part = parts[before];
  if (part?.type === "text") part.isApart = true;
}

/** Title and context of a document, as the line that stands above its text. */
function headerOf(block: Block): string {
  const lines = [stringOf(block["title"]), stringOf(block["source"]), stringOf(block["context"])];
  return lines.filter((line) => line !== "").join("\n");
}

/** Names citations that were asked for: no other vendor gives any. */
function nameLostCitations(block: Block, path: string, dropped: string[]): void {
  if (isObject(block["citations"]) && block["citations"]["enabled"] === true) dropped.push(`${path}.citations`);
}

/** Names that an image must not be made smaller: the only thing that its own vendor can be told of it, beside what it does anyway. */
function nameLostTransformations({ transformations }: Block, path: string, dropped: string[]): void {
  if (isObject(transformations) && transformations["oversized_image"] === "error")
    dropped.push(`${path}.transformations`);
}

/** A document: one part, or, when its source is made of blocks, their parts under a header (dialects.md 4.2). */
function readDocument(block: Block, parts: Part[], path: string, dropped: string[]): void {
  nameLostCitations(block, path, dropped);
  const source = block["source"];
  if (isObject(source) && source["type"] === "content") {
    addText(headerOf({ title: block["title"], context: block["context"] }), parts);
    addContent(source["content"], parts, `${path}.source.content`, dropped);
    return;
  }
  const title = stringOf(block["title"]);
  const context = stringOf(block["context"]);
  const part: DocumentPart = { type: "document", source: decodeSource(source, `${path}.source`), place: path };
  if (title !== "") part.title = title;
  if (context !== "") part.context = context;
  parts.push(withMark(part, block));
}

function readThinking(block: Block, parts: Part[]): void {
  const part: ReasoningPart = { type: "reasoning", text: stringOf(block["thinking"]) };
  const signature = asShown(stringOf(block["signature"]));
  if (isUnsigned(signature)) part.maker = unsignedMaker(signature);
  else if (signature !== "") part.signature = signature;
  parts.push(part);
}

function readToolUse(block: Block, parts: Part[]): void {
  const part: ToolCallPart = {
    type: "tool-call",
    id: stringOf(block["id"]),
    name: stringOf(block["name"]),
    arguments: JSON.stringify(block["input"] ?? {}),
  };
  parts.push(withMark(part, block));
}

function readToolResult(block: Block, parts: Part[], path: string, dropped: string[]): void {
  const part: ToolResultPart = {
    type: "tool-result",
    callId: stringOf(block["tool_use_id"]),
    parts: decodeContent(block["content"], `${path}.content`, dropped).map(textOfUnknown),
  };
  if (block["is_error"] === true) part.isError = true;
  parts.push(withMark(part, block));
}

const READERS: Record<string, Reader> = {
  text: (block, parts) => addText(stringOf(block["text"]), parts, block),
  image: (block, parts, path, dropped) => {
    nameLostTransformations(block, path, dropped);
    const source = decodeSource(block["source"], `${path}.source`);
    parts.push(withMark<ImagePart>({ type: "image", source, place: path }, block));
  },
  document: readDocument,
  search_result: (block, parts, path, dropped) => {
    nameLostCitations(block, path, dropped);
    addText(headerOf(block), parts);
    addContent(block["content"], parts, `${path}.content`, dropped);
  },
  thinking: readThinking,
  redacted_thinking: (block, parts) => {
    parts.push({ type: "redacted-reasoning", data: stringOf(block["data"]) });
  },
  // What its vendor has made of all that was said before, which some clients send no more.
  compaction: (block, parts) => {
    const summary = stringOf(block["content"]);
    if (isVisible(summary)) addApart(`Summary of the conversation so far:\n${summary}`, parts, block);
  },
  tool_use: readToolUse,
  tool_result: readToolResult,
};

/** Adds a string or blocks to `parts`; blocks of an unknown type become opaque parts that carry their path as name. */
function addContent(content: unknown, parts: Part[], path: string, dropped: string[]): void {
  if (typeof content === "string") addText(content, parts);
  if (!Array.isArray(content)) return;
  for (let at = 0; at < content.length; at++) {
    const block: unknown = content[at];
    if (!isObject(block)) continue;
    const type = stringOf(block["type"]);
    const blockPath = `${path}[${at}]`;
    const served = textOfServed(block);
    if (served !== undefined) {
      addApart(served, parts, block);
      continue;
    }
    const read = entryOf(READERS, type);
    if (read) {
      read(block, parts, blockPath, dropped);
      dropped.push(...unknownPaths(block, BLOCK_FIELDS, blockPath));
      if ("source" in block) dropped.push(...unknownPaths(block["source"], SOURCE_FIELDS, `${blockPath}.source`));
    } else parts.push({ type: "opaque", dialect: "messages", name: blockPath, value: block });
  }
}

/** Content as parts; blocks that nobody else knows are opaque, under their path. Throws GatewayError as {@link decodeTurns} does. */
export function decodeContent(content: unknown, path: string, dropped: string[]): Part[] {
  const parts: Part[] = [];
  addContent(content, parts, path, dropped);
  return parts;
}

/** Names what a system turn holds beside text: no other dialect has a place for it there. Changes of the tools are made where the tools are read. */
function nameUnsaid(parts: readonly Part[], dropped: string[]): void {
  for (const part of parts) {
    if (part.type === "opaque" && !isToolChange(part.value)) dropped.push(part.name);
    else if ((part.type === "image" || part.type === "document") && part.place) dropped.push(part.place);
  }
}

const isResult = (part: Part): boolean => part.type === "tool-result";

const roleOf = (role: unknown): Turn["role"] => (role === "assistant" || role === "system" ? role : "user");

/**
 * `messages` as turns (dialects.md 4.2). In a user turn the tool results stand first, whatever the order was.
 * Throws GatewayError (invalid_request, with param) for an image or document without a readable source.
 */
export function decodeTurns(messages: unknown, dropped: string[]): Turn[] {
  const turns: Turn[] = [];
  const given = listOf(messages);
  const lastUser = lastUserTurn(given);
  for (let at = 0; at < given.length; at++) {
    const message = given[at];
    if (!isObject(message)) continue;
    const { content } = message;
    for (const field of unknownFields(message, MESSAGE_FIELDS)) dropped.push(`messages[${at}].${field}`);
    if ("output_config" in message)
      dropped.push(...unknownPaths(message["output_config"], SET_FIELDS, `messages[${at}].output_config`));
    if (isCleared(message, at, lastUser)) continue;
    // Of text alone nobody asks where it stood.
    const path = typeof content === "string" ? "" : `messages[${at}].content`;
    const parts = decodeContent(content, path, dropped);
    const role = roleOf(message["role"]);
    if (role === "system") nameUnsaid(parts, dropped);
    turns.push({ role, parts: role === "user" && parts.some(isResult) ? resultsFirst(parts) : parts });
  }
  return turns;
}

const resultsFirst = (parts: readonly Part[]): Part[] => [
  ...parts.filter(isResult),
  ...parts.filter((part) => !isResult(part)),
];
