import type { Tool, ToolChoice } from "../../canon/prompt.ts";
import { isObject, listOf, stringOf } from "../../lib/json.ts";
import type { DroppedPaths } from "../chat/dropped.ts";
import { customTool } from "../custom-tools.ts";
import { unknownPaths } from "../unknown-fields.ts";
import { FOUND_TOOLS, type Item, TOOL_SEARCH } from "./items.ts";
import { joinName } from "./namespaces.ts";

/** Fields of a tool that cross or are told apart, of a namespace of tools, and of what a custom tool's input is like. */
const TOOL_FIELDS: ReadonlySet<string> = new Set([
  ...["type", "name", "description", "parameters", "strict", "format"],
  ...["defer_loading", "async", "allowed_callers", "output_schema"],
]);
const SEARCH_FIELDS: ReadonlySet<string> = new Set(["type", "execution", "description", "parameters"]);
const NAMESPACE_FIELDS: ReadonlySet<string> = new Set(["type", "name", "description", "tools"]);
const FORMAT_FIELDS: ReadonlySet<string> = new Set(["type", "syntax", "definition"]);

/**
 * Names what is lost of a tool elsewhere: what steers its use (late loading, callers other than the model, calls that nobody waits for), and what nobody
 * knows. `isFound`: a search has loaded it by now.
 */
function nameLost(entry: Item, place: string, dropped: DroppedPaths, isFound: boolean): void {
  const { allowed_callers: callers, output_schema: result } = entry;
  if (entry["defer_loading"] === true && !isFound) dropped.add(`${place}.defer_loading`);
  if (entry["async"] === true) dropped.add(`${place}.async`);
  if (listOf(callers).some((caller) => caller !== "direct")) dropped.add(`${place}.allowed_callers`);
  if (isObject(result)) dropped.add(`${place}.output_schema`);
  dropped.addAll(unknownPaths(entry, TOOL_FIELDS, place));
  dropped.addAll(unknownPaths(entry["format"], FORMAT_FIELDS, `${place}.format`));
}

/** One function as a canonical tool. */
function decodeFunction(name: string, { description, parameters, strict }: Item, place: string): Tool {
  return {
    name,
    ...(typeof description === "string" && { description }),
    schema: isObject(parameters) ? parameters : { type: "object", properties: {} },
    ...(typeof strict === "boolean" && { strict }),
    place,
  };
}

/** Whether an entry is a tool that is called by its name. */
const isCallable = ({ type, name }: Item): boolean =>
  (type === "custom" || type === "function") && stringOf(name) !== "";

/** Adds the tools of a list that stands at `path`, perhaps inside a namespace, to `decoded`. `isFound`: a search has found them. */
function decodeList(
  tools: readonly unknown[],
  path: string,
  space: unknown,
  dropped: DroppedPaths,
  decoded: Tool[],
  isFound = false,
): void {
  for (const [at, entry] of tools.entries()) {
    if (!isObject(entry)) continue;
    const place = `${path}[${at}]`;
    const own = stringOf(entry["name"]);
    const name = joinName(space, own);
    if (isCallable(entry)) {
      decoded.push(
        entry["type"] === "custom"
          ? customTool(name, stringOf(entry["description"]), entry["format"], place)
          : decodeFunction(name, entry, place),
      );
      nameLost(entry, place, dropped, isFound);
    } else if (entry["type"] === "tool_search" && entry["execution"] === "client") {
      decoded.push({ ...decodeFunction(TOOL_SEARCH, entry, place), search: true });
      dropped.addAll(unknownPaths(entry, SEARCH_FIELDS, place));
    } else if (entry["type"] === "namespace" && space === undefined) {
      if (entry["description"]) dropped.add(`${place}.description`);
      dropped.addAll(unknownPaths(entry, NAMESPACE_FIELDS, place));
      decodeList(listOf(entry["tools"]), `${place}.tools`, own, dropped, decoded, isFound);
    } else dropped.add(place);
  }
}

/** The type of an item of the input that brings tools along: newer agents leave `tools` empty (openai/codex, "Responses Lite"). */
export const BROUGHT_TOOLS = "additional_tools";

/** The names of the functions and custom tools in a list, those of its namespaces among them. */
export const namesIn = (tools: unknown, space?: unknown): string[] =>
  listOf(tools).flatMap((entry) => {
    if (!isObject(entry)) return [];
    if (entry["type"] === "namespace")
      return space === undefined ? namesIn(entry["tools"], stringOf(entry["name"])) : [];
    return isCallable(entry) ? [joinName(space, stringOf(entry["name"]))] : [];
  });

/** The tools without those that a search found again: vendors refuse a name that is there twice. */
function withoutRepeated(tools: Tool[], found: ReadonlySet<Tool>): Tool[] {
  if (found.size === 0) return tools;
  const known = new Set<string>();
  return tools.filter((tool) => {
    const isRepeated = found.has(tool) && known.has(tool.name);
    known.add(tool.name);
    return !isRepeated;
  });
}

/**
 * The tools of a body as canonical ones: functions and custom ones, those of namespaces under both names, and those that items of the input
 * bring or a search has found. Those that the vendor runs are named in `dropped`.
 */
export function decodeTools({ tools, input }: Item, dropped: DroppedPaths): Tool[] {
  const decoded: Tool[] = [];
  const found = new Set<Tool>();
  decodeList(listOf(tools), "tools", undefined, dropped, decoded);
  for (const [at, item] of listOf(input).entries()) {
    if (!isObject(item) || (item["type"] !== BROUGHT_TOOLS && item["type"] !== FOUND_TOOLS)) continue;
    const before = decoded.length;
    const isFound = item["type"] === FOUND_TOOLS;
    decodeList(listOf(item["tools"]), `input[${at}].tools`, undefined, dropped, decoded, isFound);
    if (isFound) for (const tool of decoded.slice(before)) found.add(tool);
  }
  return withoutRepeated(decoded, found);
}

export type Choice = { tools: Tool[]; toolChoice?: ToolChoice };

/** `allowed_tools` as fewer tools and a mode (dialects.md 4.1). */
function decodeAllowed(choice: Item, tools: Tool[], dropped: DroppedPaths): Choice {
  const allowed = new Set(
    listOf(choice["tools"])
      .filter(isObject)
      .map((entry) => entry["name"]),
  );
  const kept = tools.filter((tool) => allowed.has(tool.name));
  if (kept.length < allowed.size) dropped.add("tool_choice.tools");
  if (kept.length === 0) return { tools: kept };
  return { tools: kept, toolChoice: { type: choice["mode"] === "required" ? "required" : "auto" } };
}

/** `tool_choice` as far as the tools that crossed can still honour it; what they cannot is named in `dropped`. */
export function decodeToolChoice(choice: unknown, tools: Tool[], dropped: DroppedPaths): Choice {
  if (choice === undefined || choice === null || choice === "auto") {
    return choice === "auto" && tools.length > 0 ? { tools, toolChoice: { type: "auto" } } : { tools };
  }
  if (choice === "none") return tools.length > 0 ? { tools, toolChoice: { type: "none" } } : { tools };
  if (choice === "required" && tools.length > 0) return { tools, toolChoice: { type: "required" } };
  if (isObject(choice)) {
    if (choice["type"] === "allowed_tools") return decodeAllowed(choice, tools, dropped);
    const name = stringOf(choice["name"]);
    if ((choice["type"] === "function" || choice["type"] === "custom") && tools.some((tool) => tool.name === name)) {
      return { tools, toolChoice: { type: "tool", name } };
    }
  }
  dropped.add("tool_choice");
  return { tools };
}
