import { GatewayError } from "../../canon/errors.ts";
import type { Tool } from "../../canon/prompt.ts";
import { isObject } from "../../lib/json.ts";
import { unknownPaths } from "../unknown-fields.ts";
import { clientTool, isClientToolset } from "./client-tools.ts";
import { withMark } from "./decode-turns.ts";

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
    name: String(entry["name"] ?? ""),
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
 * `tools` as canonical tools (dialects.md 2.3). Tools that the vendor's own servers run are named in `dropped`, those that the client
 * runs become functions. Throws GatewayError (invalid_request) for client-run toolsets, which no single function can stand for.
 */
export function decodeTools(tools: unknown, dropped: string[]): Tool[] {
  if (!Array.isArray(tools)) return [];
  const decoded: Tool[] = [];
  for (let at = 0; at < tools.length; at++) {
    const entry: unknown = tools[at];
    if (!isObject(entry)) continue;
    const type = entry["type"];
    if (typeof type !== "string" || type === "custom") {
      decoded.push(decodeCustomTool(entry, `tools[${at}]`));
      nameLost(entry, `tools[${at}]`, dropped);
      continue;
    }
    if (isClientToolset(type)) {
      throw new GatewayError(
        "invalid_request",
        `The tool ${type.slice(0, 64)} works only with its own vendor's models.`,
        {
          param: `tools[${at}]`,
        },
      );
    }
    const tool = clientTool(type, entry);
    if (tool) {
      decoded.push(withMark({ ...tool, place: `tools[${at}]` }, entry));
      nameLost(entry, `tools[${at}]`, dropped);
    } else dropped.push(`tools[${at}]`);
  }
  return decoded;
}
