import { invalidField } from "../../canon/errors.ts";
import type { Tool } from "../../canon/prompt.ts";
import { isObject, stringOf } from "../../lib/json.ts";
import { unknownPaths } from "../loss/unknown-fields.ts";
import { clientTool, isClientToolset } from "./client-tools.ts";
import { withMark } from "./decode-turns.ts";
import { isDefinition, toolChanges } from "./tool-changes.ts";

/** Fields of a tool that cross, are told apart, or mean nothing elsewhere: how its input is streamed, and what is known of its type anyway. */
const TOOL_FIELDS: ReadonlySet<string> = new Set([
  ...["type", "name", "description", "input_schema", "strict", "cache_control", "eager_input_streaming"],
  ...["input_examples", "defer_loading", "allowed_callers"],
  ...["display_width_px", "display_height_px", "display_number"],
]);

/** A tool that its caller describes: only the fields another vendor knows, as strict servers refuse others (dialects.md 4.8 #33). */
function decodeCustomTool(entry: Record<string, unknown>, place: string): Tool {
  const schema = entry["input_schema"];
  const tool: Tool = {
    name: stringOf(entry["name"]),
    schema: isObject(schema) ? schema : { type: "object", properties: {} },
    place,
  };
  if (typeof entry["description"] === "string") tool.description = entry["description"];
  if (typeof entry["strict"] === "boolean") tool.strict = entry["strict"];
  return withMark(tool, entry);
}

/** Names what is lost of a tool elsewhere: what steers its use (examples, late loading, callers other than the model), and what nobody knows. */
function nameLost(entry: Record<string, unknown>, path: string, dropped: string[]): void {
  const { input_examples: examples, defer_loading: late, allowed_callers: callers } = entry;
  if (Array.isArray(examples) && examples.length > 0) dropped.push(`${path}.input_examples`);
  if (late === true) dropped.push(`${path}.defer_loading`);
  if (Array.isArray(callers) && callers.some((caller) => caller !== "direct")) dropped.push(`${path}.allowed_callers`);
  dropped.push(...unknownPaths(entry, TOOL_FIELDS, path));
}

/**
 * One entry of `tools`, which stands at `place`; undefined for one that the vendor's own servers run, which is named in `dropped`. One that the
 * client runs becomes a function. Throws GatewayError (invalid_request) for client-run toolsets, which no single function can stand for.
 */
function readTool(entry: unknown, place: string, dropped: string[]): Tool | undefined {
  if (!isObject(entry)) return undefined;
  const type = entry["type"];
  if (typeof type !== "string" || type === "custom") {
    nameLost(entry, place, dropped);
    return decodeCustomTool(entry, place);
  }
  if (isClientToolset(type)) {
    throw invalidField(place, `The tool ${type.slice(0, 64)} works only with its own vendor's models.`);
  }
  const tool = clientTool(type, entry);
  if (!tool) {
    dropped.push(place);
    return undefined;
  }
  nameLost(entry, place, dropped);
  return withMark({ ...tool, place }, entry);
}

/** `tools` as canonical tools (dialects.md 2.3), each as {@link readTool} reads it. Throws GatewayError as that does. */
export function decodeTools(tools: unknown, dropped: string[]): Tool[] {
  if (!Array.isArray(tools)) return [];
  const decoded: Tool[] = [];
  for (let at = 0; at < tools.length; at++) {
    const tool = readTool(tools[at], `tools[${at}]`, dropped);
    if (tool) decoded.push(tool);
  }
  return decoded;
}

/**
 * The tools as they stand at a conversation's end: elsewhere a request says them once, for the answer that it asks for. A change that names
 * no tool which has crossed (one of an MCP server, say) is named in `dropped`. Throws GatewayError as {@link readTool} does.
 */
export function changeTools(tools: Tool[], messages: unknown, dropped: string[]): Tool[] {
  const changes = toolChanges(messages);
  if (changes.length === 0) return tools;
  const known = new Map(tools.map((tool) => [tool.name, tool]));
  const offered = new Map(known);
  for (const change of changes) {
    const { path, isAddition, tool } = change;
    const defined = isDefinition(change);
    const named = tool["type"] === "tool_reference" ? known.get(stringOf(tool["name"])) : undefined;
    const meant = defined ? readTool(tool["definition"], `${path}.tool.definition`, dropped) : named;
    if (!meant) {
      if (!defined) dropped.push(path);
    } else if (isAddition) {
      known.set(meant.name, meant);
      offered.set(meant.name, meant);
    } else offered.delete(meant.name);
  }
  return [...offered.values()];
}
