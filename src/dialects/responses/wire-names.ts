import { isObject, listOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import type { ReplyChanges } from "../dialect.ts";
import { OPENAI_NAMES, type Rename, renameBy, renamed, SaidNames, withOriginalNames } from "../tools/tool-names.ts";
import { type Item, isCallType } from "./items.ts";

type Named = Item & { name: string };

/** What is called by the client's name for it: functions and custom tools, offered or chosen. */
const isNamed = (tool: unknown): tool is Named =>
  isObject(tool) && (tool["type"] === "function" || tool["type"] === "custom") && typeof tool["name"] === "string";

const isCall = (item: unknown): item is Named =>
  isObject(item) && isCallType(item["type"]) && typeof item["name"] === "string";

/** The tools among which a choice leaves the model free. */
const allowedIn = (choice: unknown): readonly unknown[] => listOf(isObject(choice) ? choice["tools"] : undefined);

/** Every tool name that a body says: offered, forced, allowed, and called in earlier turns. */
function namesIn({ tools, tool_choice: choice, input }: Item): SaidNames {
  const names = new SaidNames(OPENAI_NAMES);
  const add = ({ name }: Named) => names.add(name);
  for (const tool of listOf(tools)) if (isNamed(tool)) add(tool);
  if (isNamed(choice)) add(choice);
  for (const tool of allowedIn(choice)) if (isNamed(tool)) add(tool);
  for (const item of listOf(input)) if (isCall(item)) add(item);
  return names;
}

const mapOf = (body: Item): ReadonlyMap<string, string> | undefined => namesIn(body).map();

const renameTools = (tools: readonly unknown[], rename: Rename): unknown[] =>
  tools.map((tool) => (isNamed(tool) ? renamed(tool, rename) : tool));

const renameItem = (item: unknown, rename: Rename): unknown => (isCall(item) ? renamed(item, rename) : item);

function renameChoice(choice: Item, rename: Rename): Item {
  if (isNamed(choice)) return renamed(choice, rename);
  return Array.isArray(choice["tools"]) ? { ...choice, tools: renameTools(choice["tools"], rename) } : choice;
}

/**
 * Edits of a client's body in which tools are called as OpenAI takes it, in definitions, choice and history alike (dialects.md 4.3 "Tool
 * names"); undefined where all names are so already.
 */
export function nameEdits(body: Item): Edits | undefined {
  const mapped = mapOf(body);
  if (!mapped) return undefined;
  const rename = renameBy(mapped);
  const { tools, tool_choice: choice, input } = body;
  return {
    ...(Array.isArray(tools) && { tools: renameTools(tools, rename) }),
    ...(isObject(choice) && { tool_choice: renameChoice(choice, rename) }),
    ...(Array.isArray(input) && { input: input.map((item) => renameItem(item, rename)) }),
  };
}

/** Edits of a response, in which its calls, and the tools of the request that it repeats, have other names. */
function renameResponse({ output, tools, tool_choice: choice }: Item, rename: Rename): Edits {
  return {
    ...(Array.isArray(output) && { output: output.map((item) => renameItem(item, rename)) }),
    ...(Array.isArray(tools) && { tools: renameTools(tools, rename) }),
    ...(isObject(choice) && { tool_choice: renameChoice(choice, rename) }),
  };
}

/** The record that says a call's name beside its arguments. */
const ARGUMENTS_DONE = "response.function_call_arguments.done";

/** {@link renameResponse} of a whole reply, or the like of a record of one. */
export function renameReply(value: Item, rename: Rename): Edits {
  const { type, name, item, response } = value;
  if (isObject(response)) return { response: { ...response, ...renameResponse(response, rename) } };
  if (item !== undefined) return { item: renameItem(item, rename) };
  if (type === ARGUMENTS_DONE && typeof name === "string") return { name: rename(name) };
  return renameResponse(value, rename);
}

/** The way back of what {@link nameEdits} renames: the vendor's name → the client's. */
export const withToolNames = (body: Item): ReplyChanges | undefined => withOriginalNames(mapOf(body), undefined);
