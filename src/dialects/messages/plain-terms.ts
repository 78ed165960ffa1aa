import type { DocumentPart, Part } from "../../canon/prompt.ts";
import { isObject, listOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import type { Quirks } from "../dialect.ts";
import { textOfUnknown } from "../text.ts";
import { isResult } from "./blocks.ts";
import { decodeTools } from "./decode-tools.ts";
import { decodeContent } from "./decode-turns.ts";
import { encodeImageSource } from "./media.ts";

type Wire = Record<string, unknown>;

/** Blocks of a turn that every server of the dialect knows (vLLM refuses the whole request for any other). */
const BLOCKS: ReadonlySet<unknown> = new Set(
  "text image tool_use tool_result tool_reference thinking redacted_thinking".split(" "),
);

/** A result is as plain as what it holds: RAG tools give search results. */
const isPlainBlock = (block: unknown): boolean =>
  !isObject(block) || (BLOCKS.has(block["type"]) && (!isResult(block) || listOf(block["content"]).every(isPlainBlock)));
const isPlainTool = (tool: unknown): boolean => !isObject(tool) || (tool["type"] ?? "custom") === "custom";

/** A document's words under its title; undefined for bytes and addresses, of which there is no other way to tell. */
function textOfDocument({ source, title = "", context = "" }: DocumentPart): string | undefined {
  if (source.kind !== "text") return undefined;
  return [title, context, source.text].filter((line) => line !== "").join("\n");
}

function plainBlock(part: Part, block: unknown): unknown[] {
  if (part.type === "text") return [{ type: "text", text: part.text }];
  if (part.type === "image") return [{ type: "image", source: encodeImageSource(part) }];
  const text = part.type === "document" ? textOfDocument(part) : undefined;
  return [text === undefined ? block : { type: "text", text }];
}

/** The blocks of a turn, or of a result: of that, a model must see everything it asked for. */
function plainContent(content: unknown, path: string, dropped: string[], inResult = false): unknown[] {
  return listOf(content).flatMap((block, index): unknown[] => {
    if (isPlainBlock(block)) return [block];
    const place = `${path}[${index}]`;
    if (isResult(block)) {
      return [{ ...block, content: plainContent(block["content"], `${place}.content`, dropped, true) }];
    }
    const lost: string[] = [];
    const parts = decodeContent([block], "", lost);
    const plain = parts.flatMap((part) => {
      if (part.type !== "opaque" || inResult) return plainBlock(textOfUnknown(part), block);
      lost.push(part.name);
      return [];
    });
    dropped.push(...lost.map((name) => place + name.replace(/^\[0\]/, "")));
    return plain;
  });
}

/** System turns are seen to where they are lifted up. */
const isPlainMessage = (message: unknown): boolean =>
  !isObject(message) || message["role"] === "system" || listOf(message["content"]).every(isPlainBlock);

function plainMessage(message: unknown, at: number, dropped: string[]): unknown {
  if (!isObject(message) || isPlainMessage(message)) return message;
  return { ...message, content: plainContent(message["content"], `messages[${at}].content`, dropped) };
}

/** One tool as a function; none for one that only the dialect's own vendor runs. */
function plainTool(tool: unknown, at: number, dropped: string[]): unknown[] {
  if (isPlainTool(tool)) return [tool];
  const lost: string[] = [];
  const functions = decodeTools([tool], lost);
  dropped.push(...lost.map((place) => place.replace(/^tools\[0\]/, `tools[${at}]`)));
  return functions.map(({ name, description, schema }) => ({ name, description, input_schema: schema }));
}

type PlainTerms = { edits: Edits; dropped: string[] };

/**
 * What is told a server that knows the dialect, and not all that its own vendor has added to it (vLLM, DeepSeek): tools that the client runs as functions,
 * documents, search results and what a vendor's tools have found as text. Undefined for a body without any, and for a vendor that is told all.
 */
export function plainTerms(body: Wire, { plainBlocks }: Quirks): PlainTerms | undefined {
  if (plainBlocks !== true) return undefined;
  const messages = listOf(body["messages"]);
  const tools = listOf(body["tools"]);
  const isPlain = messages.every(isPlainMessage);
  if (isPlain && tools.every(isPlainTool)) return undefined;
  const dropped: string[] = [];
  const edits: Edits = {};
  if (!isPlain) edits["messages"] = messages.map((message, at) => plainMessage(message, at, dropped));
  if (!tools.every(isPlainTool)) {
    const functions = tools.flatMap((tool, at) => plainTool(tool, at, dropped));
    edits["tools"] = functions.length > 0 ? functions : undefined;
    if (functions.length === 0) edits["tool_choice"] = undefined;
  }
  return { edits, dropped };
}

/** See {@link UpstreamDialect.plainer}. A vendor that runs the dialect's own tools, counts as its maker does or has it in the body is told all. */
export function plainer(body: Wire, quirks: Quirks): Quirks | undefined {
  if (quirks.plainBlocks !== undefined || quirks.webTools || quirks.versionInBody !== undefined) return undefined;
  const plain: Quirks = { ...quirks, plainBlocks: true };
  return plainTerms(body, plain) ? plain : undefined;
}
