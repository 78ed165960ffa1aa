import type { Tool, ToolChoice } from "../../canon/prompt.ts";
import { isObject } from "../../lib/json.ts";
import type { DroppedPaths } from "../chat/dropped.ts";
import { customTool } from "../custom-tools.ts";
import { type Item, stringOf } from "./items.ts";

/** `tools` as canonical tools: functions and custom ones; those that the vendor runs are named in `dropped`. */
export function decodeTools(tools: unknown, dropped: DroppedPaths): Tool[] {
  if (!Array.isArray(tools)) return [];
  const decoded: Tool[] = [];
  for (const [at, entry] of tools.entries()) {
    if (!isObject(entry)) continue;
    const name = stringOf(entry["name"]);
    if (entry["type"] === "custom" && name !== "") {
      decoded.push(customTool(name, stringOf(entry["description"]), entry["format"], `tools[${at}]`));
      continue;
    }
    if (entry["type"] !== "function" || name === "") {
      dropped.add(`tools[${at}]`);
      continue;
    }
    const { description, parameters, strict } = entry;
    decoded.push({
      name,
      ...(typeof description === "string" && { description }),
      schema: isObject(parameters) ? parameters : { type: "object", properties: {} },
      ...(typeof strict === "boolean" && { strict }),
    });
  }
  return decoded;
}

export type Choice = { tools: Tool[]; toolChoice?: ToolChoice };

/** `allowed_tools` as fewer tools and a mode (dialects.md 4.1). */
function decodeAllowed(choice: Item, tools: Tool[], dropped: DroppedPaths): Choice {
  const allowed = Array.isArray(choice["tools"]) ? choice["tools"].filter(isObject) : [];
  const kept = tools.filter((tool) => allowed.some((entry) => entry["name"] === tool.name));
  if (kept.length < allowed.length) dropped.add("tool_choice.tools");
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
