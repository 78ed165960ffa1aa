import { isObject, listOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { mapListIn } from "../../lib/map-changed.ts";
import type { Quirks, ReplyChanges } from "../dialect.ts";
import {
  messagesNames,
  type NameRule,
  type Rename,
  renameBy,
  renamed,
  SaidNames,
  withOriginalNames,
} from "../tools/tool-names.ts";

type Body = Record<string, unknown>;
type Named = Body & { name: string };

/** A tool that the client named: typed ones have the vendor's own names. */
const isNamed = (tool: unknown): tool is Named =>
  isObject(tool) && (tool["type"] == null || tool["type"] === "custom") && typeof tool["name"] === "string";

const isForced = (choice: unknown): choice is Named =>
  isObject(choice) && choice["type"] === "tool" && typeof choice["name"] === "string";

const isCall = (block: unknown): block is Named =>
  isObject(block) && block["type"] === "tool_use" && typeof block["name"] === "string";

const blocksOf = (message: unknown): readonly unknown[] => listOf(isObject(message) ? message["content"] : undefined);

/** Every tool name that a body says: offered, forced, and called in earlier turns. */
function namesIn(body: Body, rule: NameRule): SaidNames {
  const names = new SaidNames(rule);
  const add = ({ name }: Named) => names.add(name);
  for (const tool of listOf(body["tools"])) if (isNamed(tool)) add(tool);
  if (isForced(body["tool_choice"])) add(body["tool_choice"]);
  for (const message of listOf(body["messages"])) for (const block of blocksOf(message)) if (isCall(block)) add(block);
  return names;
}

const mapOf = (body: Body, quirks: Quirks): ReadonlyMap<string, string> | undefined =>
  namesIn(body, messagesNames(quirks)).map();

const renameCalls = (message: unknown, rename: Rename): unknown =>
  isObject(message)
    ? mapListIn(message, "content", (block) => (isCall(block) ? renamed(block, rename) : block))
    : message;

/**
 * Edits of a client's body in which tools are called as Anthropic takes it, in definitions, choice and history alike (dialects.md 2.3, 4.3
 * "Tool names"); undefined where all names are so already.
 */
export function nameEdits(body: Body, quirks: Quirks): Edits | undefined {
  const mapped = mapOf(body, quirks);
  if (!mapped) return undefined;
  const rename = renameBy(mapped);
  const { tools, tool_choice: choice, messages } = body;
  return {
    ...(Array.isArray(tools) && { tools: tools.map((tool) => (isNamed(tool) ? renamed(tool, rename) : tool)) }),
    ...(isForced(choice) && { tool_choice: renamed(choice, rename) }),
    ...(Array.isArray(messages) && { messages: messages.map((message) => renameCalls(message, rename)) }),
  };
}

/** Edits of a reply, or of a record of one, in which its calls have other names. */
export function renameReply(value: Body, rename: Rename): Edits {
  const { content_block: block, message } = value;
  if (isCall(block)) return { content_block: renamed(block, rename) };
  if (isObject(message)) return { message: renameCalls(message, rename) };
  return Array.isArray(value["content"]) ? { content: (renameCalls(value, rename) as Body)["content"] } : {};
}

/** `changes` with the way back of what {@link nameEdits} renames: the vendor's name → the client's. */
export const withToolNames = (
  body: Body,
  quirks: Quirks,
  changes: ReplyChanges | undefined,
): ReplyChanges | undefined => withOriginalNames(mapOf(body, quirks), changes);
