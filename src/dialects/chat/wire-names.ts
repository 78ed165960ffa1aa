import { isObject, listOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import type { Quirks, ReplyChanges } from "../dialect.ts";
import { chatNames, type Rename, renameBy, SaidNames, withOriginalNames } from "../tools/tool-names.ts";
import { isVendorsOwn } from "./decode-tools.ts";

type Wire = Record<string, unknown>;
type Names = { add(name: string): unknown };

/** Where a chat body keeps the name of a tool: inside `function` and `custom`, or, in the older form, right there (dialects.md 1.1). */
const HOLDERS = ["function", "custom"] as const;

function addName(holder: unknown, names: Names): void {
  const name = isObject(holder) ? holder["name"] : undefined;
  if (typeof name === "string" && name !== "") names.add(name);
}

/** Adds the names of the client's tools among `tools`, or of the vendor's `own`. */
function addNames(tools: unknown, names: Names, own = false): void {
  if (!Array.isArray(tools)) return;
  for (const tool of tools) {
    if (!isObject(tool) || isVendorsOwn(tool) !== own) continue;
    for (const holder of HOLDERS) if (holder in tool) addName(tool[holder], names);
  }
}

const allowedIn = (choice: unknown): unknown =>
  isObject(choice) && isObject(choice["allowed_tools"]) ? choice["allowed_tools"]["tools"] : undefined;

/** Every tool name of the client's that a body says: offered, forced, and called in earlier turns. */
function namesIn(body: Wire, quirks: Quirks): SaidNames {
  const names = new SaidNames(chatNames(quirks));
  addNames(body["tools"], names);
  for (const called of listOf(body["functions"])) addName(called, names);
  addName(body["function_call"], names);
  if (isObject(body["tool_choice"])) addNames([body["tool_choice"]], names);
  addNames(allowedIn(body["tool_choice"]), names);
  for (const message of listOf(body["messages"])) {
    if (!isObject(message)) continue;
    addNames(message["tool_calls"], names);
    addName(message["function_call"], names);
    if (message["role"] === "function") addName(message, names);
  }
  return names;
}

/** Whether a body may say a name at all: most do not, and nothing is gathered of those. */
function maySayNames(body: Wire): boolean {
  const { tools, functions, tool_choice: choice, function_call: call } = body;
  if (tools != null || functions != null || choice != null || call != null) return true;
  for (const message of listOf(body["messages"])) {
    if (!isObject(message)) continue;
    if (message["tool_calls"] != null || message["function_call"] != null || message["role"] === "function")
      return true;
  }
  return false;
}

function mapOf(body: Wire, quirks: Quirks): ReadonlyMap<string, string> | undefined {
  const mapped = maySayNames(body) ? namesIn(body, quirks).map() : undefined;
  if (!mapped) return undefined;
  // The names of the vendor's own tools stay, also where a client calls them as any function.
  const own = new Set<string>();
  addNames(body["tools"], own, true);
  for (const name of own) mapped.delete(name);
  return mapped.size > 0 ? mapped : undefined;
}

function renameHolder(holder: unknown, rename: Rename): unknown {
  return isObject(holder) && typeof holder["name"] === "string" ? { ...holder, name: rename(holder["name"]) } : holder;
}

function renameTool(tool: unknown, rename: Rename): unknown {
  if (!isObject(tool)) return tool;
  const renamed = { ...tool };
  for (const holder of HOLDERS) if (holder in tool) renamed[holder] = renameHolder(tool[holder], rename);
  return renamed;
}

function renameChoice(choice: unknown, rename: Rename): unknown {
  if (!isObject(choice)) return choice;
  const renamed = renameTool(choice, rename) as Wire;
  if (!Array.isArray(allowedIn(choice))) return renamed;
  const allowed = choice["allowed_tools"] as Wire;
  return { ...renamed, allowed_tools: { ...allowed, tools: renameTools(allowed["tools"], rename) } };
}

const renameTools = (tools: unknown, rename: Rename): unknown =>
  Array.isArray(tools) ? tools.map((tool: unknown) => renameTool(tool, rename)) : tools;

function renameMessage(message: unknown, rename: Rename): unknown {
  if (!isObject(message)) return message;
  const isResult = message["role"] === "tool" || message["role"] === "function";
  if (!isResult && !Array.isArray(message["tool_calls"]) && !isObject(message["function_call"])) return message;
  return {
    ...(isResult ? (renameHolder(message, rename) as Wire) : message),
    ...(Array.isArray(message["tool_calls"]) && { tool_calls: renameTools(message["tool_calls"], rename) }),
    ...(isObject(message["function_call"]) && { function_call: renameHolder(message["function_call"], rename) }),
  };
}

/** How each field of a body that may say names is written with other ones. */
const FIELDS: Readonly<Record<string, (value: unknown, rename: Rename) => unknown>> = {
  tools: renameTools,
  functions: (value, rename) => listOf(value).map((called) => renameHolder(called, rename)),
  tool_choice: renameChoice,
  function_call: renameHolder,
  messages: (value, rename) => listOf(value).map((message) => renameMessage(message, rename)),
};

/**
 * Edits of a client's body in which tools are called as the vendor takes it, in definitions, choice and history alike (dialects.md 4.3 "Tool
 * names"); undefined where all names are so already.
 */
export function nameEdits(body: Wire, quirks: Quirks): Edits | undefined {
  const mapped = mapOf(body, quirks);
  if (!mapped) return undefined;
  const rename = renameBy(mapped);
  const edits: Edits = {};
  for (const [field, write] of Object.entries(FIELDS)) {
    if (body[field] != null) edits[field] = write(body[field], rename);
  }
  return edits;
}

const renameChosen = (choice: unknown, rename: Rename): unknown =>
  isObject(choice)
    ? {
        ...choice,
        ...("message" in choice && { message: renameMessage(choice["message"], rename) }),
        ...("delta" in choice && { delta: renameMessage(choice["delta"], rename) }),
      }
    : choice;

/** Edits of a reply, or of a chunk, in which its calls have other names. */
export const renameReply = ({ choices }: Wire, rename: Rename): Edits =>
  Array.isArray(choices) ? { choices: choices.map((choice) => renameChosen(choice, rename)) } : {};

/** `changes` with the way back of what {@link nameEdits} renames: the vendor's name → the client's. */
export const withToolNames = (
  body: Wire,
  quirks: Quirks,
  changes: ReplyChanges | undefined,
): ReplyChanges | undefined => withOriginalNames(mapOf(body, quirks), changes);
