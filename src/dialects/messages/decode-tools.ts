import { GatewayError } from "../../canon/errors.ts";
import type { Tool } from "../../canon/prompt.ts";
import { isObject } from "../../lib/json.ts";
import { clientTool, isClientToolset } from "./client-tools.ts";
import { withMark } from "./decode-turns.ts";

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

/** Names what steers a tool's use at its own vendor and is lost elsewhere: examples, late loading, callers other than the model. */
function nameLost(entry: Record<string, unknown>, path: string, dropped: string[]): void {
  const { input_examples: examples, defer_loading: late, allowed_callers: callers } = entry;
  if (Array.isArray(examples) && examples.length > 0) dropped.push(`${path}.input_examples`);
  if (late === true) dropped.push(`${path}.defer_loading`);
  if (Array.isArray(callers) && callers.some((caller) => caller !== "direct")) dropped.push(`${path}.allowed_callers`);
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
    if (tool) decoded.push(withMark({ ...tool, place: `tools[${at}]` }, entry));
    else dropped.push(`tools[${at}]`);
  }
  return decoded;
}
