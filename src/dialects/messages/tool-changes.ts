import { isObject, listOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { type BroughtTool, leavePlaces } from "../server-tools.ts";

type Wire = Record<string, unknown>;

const ADDITION = "tool_addition";
const REMOVAL = "tool_removal";

/** Whether this block of a system turn says which tools are offered from there on (Anthropic's betas of tool changes and of inline tools). */
export const isToolChange = (block: unknown): block is Wire =>
  isObject(block) && (block["type"] === ADDITION || block["type"] === REMOVAL);

/** One change of the tools: where its block stands, and what it says of which tool. */
type ToolChange = { path: string; isAddition: boolean; tool: Wire };

/** The changes that a conversation makes to its tools, in order. */
export function toolChanges(messages: unknown): ToolChange[] {
  const changes: ToolChange[] = [];
  const listed = listOf(messages);
  for (let at = 0; at < listed.length; at++) {
    const message = listed[at];
    if (!isObject(message) || message["role"] !== "system") continue;
    for (const [index, block] of listOf(message["content"]).entries()) {
      if (!isToolChange(block)) continue;
      const path = `messages[${at}].content[${index}]`;
      const tool = isObject(block["tool"]) ? block["tool"] : {};
      changes.push({ path, isAddition: block["type"] === ADDITION, tool });
    }
  }
  return changes;
}

/** Whether a change brings a tool that stands in it, and not in `tools`. */
export const isDefinition = ({ isAddition, tool }: ToolChange): boolean =>
  isAddition && tool["type"] === "tool_definition";

/** The tools that a conversation itself defines, as entries of `tools`. */
export const definedTools = (messages: unknown): unknown[] =>
  toolChanges(messages)
    .filter(isDefinition)
    .map(({ tool }) => tool["definition"]);

/** The tools that a conversation itself defines, each by the place of the block that brings it. */
export function broughtTools({ messages }: Wire): BroughtTool[] {
  return toolChanges(messages)
    .filter(isDefinition)
    .flatMap(({ path, tool: { definition } }) => (isObject(definition) ? [{ place: path, tool: definition }] : []));
}

/** Edits of a body without the blocks at `places`, and without turns in which nothing else was said. */
export const leaveBrought = (body: Wire, places: ReadonlySet<string>): Edits =>
  leavePlaces(body, ["messages", "content"], places);
