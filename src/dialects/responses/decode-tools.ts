import type { Tool, ToolChoice } from "../../canon/prompt.ts";
import { isObject, listOf, objectsOf, stringOf } from "../../lib/json.ts";
import { unknownPaths } from "../loss/unknown-fields.ts";
import { customTool } from "../tools/custom-tools.ts";
import { CLIENT_TOOL_FIELDS, clientTool, FOUND_TOOLS, TOOL_SEARCH } from "./client-tools.ts";
import type { Item } from "./items.ts";
import { isCallable, joinName } from "./namespaces.ts";

/** Fields of a tool that cross or are told apart, of a namespace of tools, and of what a custom tool's input is like. */
const TOOL_FIELDS: ReadonlySet<string> = new Set([
  ...["type", "name", "description", "parameters", "strict", "format"],
  ...["defer_loading", "async", "allowed_callers", "output_schema"],
]);
const NAMESPACE_FIELDS: ReadonlySet<string> = new Set(["type", "name", "description", "tools"]);
const FORMAT_FIELDS: ReadonlySet<string> = new Set(["type", "syntax", "definition"]);

/**
 * Names what is lost of a tool elsewhere: what steers its use (callers other than the model, calls that nobody waits for), and what nobody knows.
 */
function nameLost(entry: Item, place: string, dropped: string[]): void {
  const { allowed_callers: callers, output_schema: result } = entry;
  if (entry["async"] === true) dropped.push(`${place}.async`);
  if (listOf(callers).some((caller) => caller !== "direct")) dropped.push(`${place}.allowed_callers`);
  if (isObject(result)) dropped.push(`${place}.output_schema`);
  dropped.push(...unknownPaths(entry, TOOL_FIELDS, place));
  dropped.push(...unknownPaths(entry["format"], FORMAT_FIELDS, `${place}.format`));
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

/** Whether an entry is a client's own search for tools: the vendor runs the others. */
const isSearch = (entry: unknown): boolean =>
  isObject(entry) && entry["type"] === TOOL_SEARCH && clientTool(entry, "") !== undefined;

/** A list of tools that stands at `path`. `isFound`: a search has found them. */
type ToolList = { entries: readonly unknown[]; path: string; isFound: boolean };

/** Reads lists of tools. `searches`: the client's own search is among them, so that tools which are loaded late are held back until it finds them. */
class ToolReader {
  readonly decoded: Tool[] = [];
  readonly found = new Set<Tool>();
  /** What the search can load, as a model is told of it. */
  readonly #late: string[] = [];

  constructor(
    readonly dropped: string[],
    readonly searches: boolean,
  ) {}

  /** Reads a list, perhaps one inside the namespace `space`. The result: whether any of its tools is held back. */
  read({ entries, path, isFound }: ToolList, space?: string): boolean {
    let heldBack = false;
    for (const [at, entry] of entries.entries()) {
      const isHeld = isObject(entry) && this.#readEntry(entry, `${path}[${at}]`, isFound, space);
      heldBack ||= isHeld;
      if (isHeld && space === undefined)
        this.#late.push(`- ${stringOf(entry["name"])}: ${stringOf(entry["description"])}`);
    }
    return heldBack;
  }

  #readEntry(entry: Item, place: string, isFound: boolean, space: string | undefined): boolean {
    const { type } = entry;
    if (isCallable(entry)) return this.#readCallable(entry, place, isFound, space);
    const own = space === undefined ? clientTool(entry, place) : undefined;
    if (own) {
      this.decoded.push(own);
      this.dropped.push(...unknownPaths(entry, CLIENT_TOOL_FIELDS, place));
    } else if (type === "namespace" && space === undefined) {
      const list = { entries: listOf(entry["tools"]), path: `${place}.tools`, isFound };
      const isHeld = this.read(list, stringOf(entry["name"]));
      if (entry["description"] && !isHeld) this.dropped.push(`${place}.description`);
      this.dropped.push(...unknownPaths(entry, NAMESPACE_FIELDS, place));
      return isHeld;
    } else this.dropped.push(place);
    return false;
  }

  #readCallable(entry: Item, place: string, isFound: boolean, space: string | undefined): boolean {
    const isLate = entry["defer_loading"] === true && !isFound;
    if (isLate && !this.searches) this.dropped.push(`${place}.defer_loading`);
    nameLost(entry, place, this.dropped);
    if (isLate && this.searches) return true;
    const name = joinName(space, stringOf(entry["name"]));
    const tool =
      entry["type"] === "custom"
        ? customTool(name, stringOf(entry["description"]), entry["format"], place)
        : decodeFunction(name, entry, place);
    this.decoded.push(tool);
    if (isFound) this.found.add(tool);
    return false;
  }

  /** The tools that were read. The search says what it can load: its vendor shows a model the names and descriptions of that. */
  tools(): Tool[] {
    if (this.#late.length === 0) return this.decoded;
    const told = `It can load:\n${this.#late.join("\n")}`;
    return this.decoded.map((tool) =>
      tool.form === TOOL_SEARCH
        ? { ...tool, description: tool.description ? `${tool.description}\n\n${told}` : told }
        : tool,
    );
  }
}

/** The type of an item of the input that brings tools along: newer agents leave `tools` empty (openai/codex, "Responses Lite"). */
export const BROUGHT_TOOLS = "additional_tools";

/** The tools without those whose form has given them the name of another one, or that are there twice; those are named in `dropped`. */
function withoutNamesakes(tools: Tool[], dropped: string[]): Tool[] {
  if (!tools.some(({ form }) => form !== undefined)) return tools;
  const taken = new Set(tools.flatMap(({ form, name }) => (form === undefined ? [name] : [])));
  return tools.filter(({ form, name, place = "tools" }) => {
    if (form === undefined) return true;
    if (taken.has(name)) dropped.push(place);
    const isFree = !taken.has(name);
    taken.add(name);
    return isFree;
  });
}

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

/** The lists of tools in a body: its own, and those that items of the input bring or a search has found. */
function listsIn({ tools, input }: Item): ToolList[] {
  const brought = listOf(input).flatMap((item, at): ToolList[] => {
    if (!isObject(item) || (item["type"] !== BROUGHT_TOOLS && item["type"] !== FOUND_TOOLS)) return [];
    return [{ entries: listOf(item["tools"]), path: `input[${at}].tools`, isFound: item["type"] === FOUND_TOOLS }];
  });
  return [{ entries: listOf(tools), path: "tools", isFound: false }, ...brought];
}

/**
 * The tools of a body as canonical ones: functions and custom ones, those of namespaces under both names, and those that items of the input
 * bring or a search has found. Those that the vendor runs are named in `dropped`.
 */
export function decodeTools(body: Item, dropped: string[]): Tool[] {
  const lists = listsIn(body);
  const reader = new ToolReader(
    dropped,
    lists.some(({ entries }) => entries.some(isSearch)),
  );
  for (const list of lists) reader.read(list);
  return withoutNamesakes(withoutRepeated(reader.tools(), reader.found), dropped);
}

export type Choice = { tools: Tool[]; toolChoice?: ToolChoice };

/** `allowed_tools` as fewer tools and a mode (dialects.md 4.1). */
function decodeAllowed(choice: Item, tools: Tool[], dropped: string[]): Choice {
  // A tool that has no name of its own is called by its type.
  const allowed = new Set(objectsOf(choice["tools"]).map((entry) => entry["name"] ?? entry["type"]));
  const kept = tools.filter((tool) => allowed.has(tool.name));
  if (kept.length < allowed.size) dropped.push("tool_choice.tools");
  if (kept.length === 0) return { tools: kept };
  return { tools: kept, toolChoice: { type: choice["mode"] === "required" ? "required" : "auto" } };
}

/** `tool_choice` as far as the tools that crossed can still honour it; what they cannot is named in `dropped`. */
export function decodeToolChoice(choice: unknown, tools: Tool[], dropped: string[]): Choice {
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
    const own = tools.find(({ form }) => form !== undefined && form === choice["type"]);
    if (own) return { tools, toolChoice: { type: "tool", name: own.name } };
  }
  dropped.push("tool_choice");
  return { tools };
}
