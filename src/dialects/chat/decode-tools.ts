import type { Tool, ToolChoice } from "../../canon/prompt.ts";
import { isObject, listOf, stringOf } from "../../lib/json.ts";
import { unknownPaths } from "../loss/unknown-fields.ts";
import { notOffered } from "../refusals/not-offered.ts";
import { customTool } from "../tools/custom-tools.ts";

type Wire = Record<string, unknown>;

/** Fields of a tool, of the function in it and of the custom one (dialects.md 1.1). */
const TOOL_FIELDS: ReadonlySet<string> = new Set(["type", "function", "custom", "cache_control"]);
const FUNCTION_FIELDS: ReadonlySet<string> = new Set(["name", "description", "parameters", "strict", "cache_control"]);
const CUSTOM_FIELDS: ReadonlySet<string> = new Set(["name", "description", "format"]);
const FORMAT_FIELDS: ReadonlySet<string> = new Set(["type", "grammar"]);

/**
 * Whether a tool, or a call of one, is of a kind that only its vendor knows, such as Moonshot's `builtin_function`: it may have a function's
 * form, but it goes by the vendor's own name, `$web_search` say (platform.kimi.ai, "Use the Web Search Tool").
 */
export const isVendorsOwn = ({ type }: Wire): boolean => Boolean(type) && type !== "function" && type !== "custom";

/** Arguments' schema with an object at its root: an absent one takes no arguments (dialects.md 4.1, 4.8 #32). */
function schemaOf(parameters: unknown): Wire {
  if (!isObject(parameters)) return { type: "object", properties: {} };
  return parameters["type"] === undefined ? { type: "object", ...parameters } : parameters;
}

function decodeFunction(called: Wire, cache: unknown, place: string): Tool {
  const { name, description, parameters, strict } = called;
  const tool: Tool = { name: stringOf(name), schema: schemaOf(parameters), place };
  if (typeof description === "string") tool.description = description;
  if (typeof strict === "boolean") tool.strict = strict;
  if (cache != null) tool.cache = cache;
  return tool;
}

/** One entry of `tools`; undefined for one of a kind that only its vendor knows. What of it nobody else knows is named in `dropped`. */
function readTool(tool: unknown, path: string, dropped: string[]): Tool | undefined {
  if (!isObject(tool) || isVendorsOwn(tool)) return undefined;
  const { function: called, custom, cache_control: cache } = tool;
  if (!isObject(called) && !isObject(custom)) return undefined;
  dropped.push(...unknownPaths(tool, TOOL_FIELDS, path));
  if (isObject(called)) {
    dropped.push(...unknownPaths(called, FUNCTION_FIELDS, `${path}.function`));
    return decodeFunction(called, cache ?? called["cache_control"], `${path}.function`);
  }
  const { name, description, format } = custom as Wire;
  dropped.push(...unknownPaths(custom, CUSTOM_FIELDS, `${path}.custom`));
  dropped.push(...unknownPaths(format, FORMAT_FIELDS, `${path}.custom.format`));
  return customTool(stringOf(name), stringOf(description), format, `${path}.custom`);
}

/** `tools`, and the older `functions`, as tools; those of other kinds are the vendor's own and are dropped by name (dialects.md 1.1). */
export function decodeTools(body: Wire, dropped: string[]): Tool[] {
  const tools: Tool[] = [];
  const listed = listOf(body["tools"]);
  for (let index = 0; index < listed.length; index++) {
    const path = `tools[${index}]`;
    const tool = readTool(listed[index], path, dropped);
    if (tool) tools.push(tool);
    else dropped.push(path);
  }
  for (const [at, called] of listOf(body["functions"]).entries()) {
    if (!isObject(called)) continue;
    tools.push(decodeFunction(called, undefined, `functions[${at}]`));
    dropped.push(...unknownPaths(called, FUNCTION_FIELDS, `functions[${at}]`));
  }
  return tools;
}

/** The tool that an object names: `{function:{name}}`, `{custom:{name}}`, or the older `{name}`. */
function nameIn(value: unknown): string {
  if (!isObject(value)) return "";
  const inner = value["function"] ?? value["custom"];
  return isObject(inner) ? stringOf(inner["name"]) : stringOf(value["name"]);
}

function choiceOfWord(word: unknown): ToolChoice | undefined {
  if (word === "auto" || word === "none" || word === "required") return { type: word };
  return word === "any" ? { type: "required" } : undefined;
}

/** The field that makes the choice. */
const choiceField = (body: Wire): string => (body["tool_choice"] == null ? "function_call" : "tool_choice");

/** The names under which a body offers tools; undefined where one is of a kind that has none, and may bring tools of its own. */
function offeredNames(body: Wire): string[] | undefined {
  const names = [...listOf(body["functions"]), ...listOf(body["tools"])].map(nameIn);
  return names.includes("") ? undefined : names;
}

/** Throws GatewayError (invalid_request) for a choice of a tool that is not there, which every vendor refuses. A search that is asked for is one. */
export function checkToolChoice(body: Wire): void {
  const choice = body["tool_choice"] ?? body["function_call"];
  const name = nameIn(choice);
  const isDemand = choiceOfWord(choice)?.type === "required";
  if (name === "" && !isDemand) return;
  if (isDemand && isObject(body["web_search_options"])) return;
  const names = offeredNames(body);
  if (!names) return;
  if (isDemand ? names.length === 0 : !names.includes(name)) throw notOffered(choiceField(body), isDemand);
}

/**
 * `tool_choice`, and the older `function_call`, of a checked body (dialects.md 4.1). `allowed_tools` leaves only the tools it names. Without
 * tools there is nothing to choose; what of it nobody knows is named in `dropped`.
 */
export function decodeToolChoice(
  body: Wire,
  tools: Tool[],
  dropped: string[],
): { tools: Tool[]; toolChoice: ToolChoice | undefined } {
  const choice = body["tool_choice"] ?? body["function_call"];
  if (choice == null || tools.length === 0) return { tools, toolChoice: undefined };
  const allowed = isObject(choice) ? choice["allowed_tools"] : undefined;
  if (isObject(allowed) && Array.isArray(allowed["tools"])) {
    const names = new Set(allowed["tools"].map(nameIn));
    const left = tools.filter((tool) => names.has(tool.name));
    if (left.length < names.size) dropped.push("tool_choice.allowed_tools");
    return { tools: left, toolChoice: left.length > 0 ? choiceOfWord(allowed["mode"]) : undefined };
  }
  const name = nameIn(choice);
  if (name === "") {
    const toolChoice = choiceOfWord(choice);
    if (!toolChoice) dropped.push(choiceField(body));
    return { tools, toolChoice };
  }
  // A tool of a kind that only another vendor knows has gone, and its choice with it.
  const isThere = tools.some((tool) => tool.name === name);
  if (!isThere) dropped.push(choiceField(body));
  return { tools, toolChoice: isThere ? { type: "tool", name } : undefined };
}
