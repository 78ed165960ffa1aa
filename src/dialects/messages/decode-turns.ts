import type { DocumentPart, Part, TextPart, Turn } from "../../canon/prompt.ts";
import { isObject } from "../../lib/json.ts";
import { isUnsigned } from "../reasoning-proof.ts";
import { cleanText } from "../text.ts";
import { decodeSource } from "./media.ts";

type Block = Record<string, unknown>;
type Reader = (block: Block, path: string, dropped: string[]) => Part[];

/** The cache breakpoint of a block or tool, if it has one. */
export function markOf(block: Block): { cache?: unknown } {
  const mark = block["cache_control"];
  return mark === undefined || mark === null ? {} : { cache: mark };
}

const stringOf = (value: unknown): string => (typeof value === "string" ? value : "");

function textParts(text: unknown, mark: { cache?: unknown } = {}): TextPart[] {
  const clean = cleanText(stringOf(text));
  return clean === "" ? [] : [{ type: "text", text: clean, ...mark }];
}

/** Title and context of a document, as the line that stands above its text. */
function headerOf(block: Block): string {
  const lines = [stringOf(block["title"]), stringOf(block["source"]), stringOf(block["context"])];
  return lines.filter((line) => line !== "").join("\n");
}

/** A document: one part, or, when its source is made of blocks, their parts under a header (dialects.md 4.2). */
function decodeDocument(block: Block, path: string, dropped: string[]): Part[] {
  if (isObject(block["citations"]) && block["citations"]["enabled"] === true) dropped.push(`${path}.citations`);
  const source = block["source"];
  if (isObject(source) && source["type"] === "content") {
    const header = textParts(headerOf({ title: block["title"], context: block["context"] }));
    return [...header, ...decodeContent(source["content"], `${path}.source.content`, dropped)];
  }
  const title = stringOf(block["title"]);
  const context = stringOf(block["context"]);
  const part: DocumentPart = {
    type: "document",
    source: decodeSource(source, `${path}.source`),
    place: path,
    ...(title !== "" && { title }),
    ...(context !== "" && { context }),
    ...markOf(block),
  };
  return [part];
}

const READERS: Record<string, Reader> = {
  text: (block) => textParts(block["text"], markOf(block)),
  image: (block, path) => [
    { type: "image", source: decodeSource(block["source"], `${path}.source`), place: path, ...markOf(block) },
  ],
  document: decodeDocument,
  search_result: (block, path, dropped) => [
    ...textParts(headerOf(block)),
    ...decodeContent(block["content"], `${path}.content`, dropped),
  ],
  thinking: (block) => {
    const signature = stringOf(block["signature"]);
    const proves = signature !== "" && !isUnsigned(signature);
    return [{ type: "reasoning", text: stringOf(block["thinking"]), ...(proves && { signature }) }];
  },
  redacted_thinking: (block) => [{ type: "redacted-reasoning", data: stringOf(block["data"]) }],
  tool_use: (block) => [
    {
      type: "tool-call",
      id: stringOf(block["id"]),
      name: stringOf(block["name"]),
      arguments: JSON.stringify(block["input"] ?? {}),
      ...markOf(block),
    },
  ],
  tool_result: (block, path, dropped) => [
    {
      type: "tool-result",
      callId: stringOf(block["tool_use_id"]),
      parts: decodeContent(block["content"], `${path}.content`, dropped).map(textOfUnknown),
      ...(block["is_error"] === true && { isError: true }),
      ...markOf(block),
    },
  ],
};

/** Inside a tool result a model must see everything it asked for: blocks that nobody else knows are shown as their JSON. */
function textOfUnknown(part: Part): Part {
  return part.type === "opaque" ? { type: "text", text: cleanText(JSON.stringify(part.value)) } : part;
}

/** String or blocks as parts; blocks of an unknown type become opaque parts that carry their path as name. */
function decodeContent(content: unknown, path: string, dropped: string[]): Part[] {
  if (typeof content === "string") return textParts(content);
  if (!Array.isArray(content)) return [];
  const parts: Part[] = [];
  for (const [at, block] of content.entries()) {
    if (!isObject(block)) continue;
    const type = stringOf(block["type"]);
    const blockPath = `${path}[${at}]`;
    const read = Object.hasOwn(READERS, type) ? READERS[type] : undefined;
    if (read) parts.push(...read(block, blockPath, dropped));
    else parts.push({ type: "opaque", dialect: "messages", name: blockPath, value: block });
  }
  return parts;
}

const isResult = (part: Part): boolean => part.type === "tool-result";

const roleOf = (role: unknown): Turn["role"] => (role === "assistant" || role === "system" ? role : "user");

/**
 * `messages` as turns (dialects.md 4.2). In a user turn the tool results stand first, whatever the order was.
 * Throws GatewayError (invalid_request, with param) for an image or document without a readable source.
 */
export function decodeTurns(messages: unknown, dropped: string[]): Turn[] {
  if (!Array.isArray(messages)) return [];
  return messages.filter(isObject).map((message, at) => {
    const parts = decodeContent(message["content"], `messages[${at}].content`, dropped);
    const role = roleOf(message["role"]);
    if (role !== "user" || !parts.some(isResult)) return { role, parts };
    const results = parts.filter(isResult);
    return { role, parts: [...results, ...parts.filter((part) => !isResult(part))] };
  });
}
