import type { Prompt, Tool } from "../../canon/prompt.ts";
import { isObject, put } from "../../lib/json.ts";
import type { Quirks } from "../dialect.ts";
import { toFunctionSchema } from "../schema/function-schema.ts";
import { fitStrict } from "../schema/strict-schema.ts";
import { cleanText } from "../text.ts";
import { lostFormats } from "../tools/custom-tools.ts";
import { placeOf } from "../tools/tool-place.ts";

type Wire = Record<string, unknown>;

/** `strict` is written always: left out, this dialect's vendor makes the schema strict by itself, which no other one does. */
function encodeFunction(tool: Tool, dropped: string[]): Wire {
  const asked = toFunctionSchema(tool.schema);
  const { schema, strict } = fitStrict(asked, tool.strict, `${placeOf(tool)}.strict`, dropped);
  return {
    type: "function",
    name: tool.name,
    ...(tool.description !== undefined && { description: cleanText(tool.description) }),
    parameters: schema,
    strict: strict ?? false,
  };
}

function encodeCustom({ name, description, custom }: Tool): Wire {
  return {
    type: "custom",
    name,
    ...(description && { description }),
    ...(custom?.format && { format: formatOf(custom.format) }),
  };
}

/** A grammar as it stands here: the chat dialect has it one level deeper. */
function formatOf(format: Wire): Wire {
  const { grammar, ...rest } = format;
  return isObject(grammar) ? { ...rest, ...grammar } : format;
}

/** Adds the tools of a prompt to a body, and which of them is chosen. */
export function addTools(prompt: Prompt, quirks: Quirks, body: Wire, dropped: string[]): void {
  const { tools, toolChoice, parallelToolCalls } = prompt;
  if (tools.length === 0) return;
  const isCustom = (tool: Tool) => quirks.customTools !== false && tool.custom !== undefined;
  if (quirks.customTools === false) dropped.push(...lostFormats(tools));
  const typeOf = (name: string) => (tools.some((tool) => tool.name === name && isCustom(tool)) ? "custom" : "function");
  const choice =
    toolChoice?.type === "tool" ? { type: typeOf(toolChoice.name), name: toolChoice.name } : toolChoice?.type;
  body["tools"] = tools.map((tool) => (isCustom(tool) ? encodeCustom(tool) : encodeFunction(tool, dropped)));
  put(body, "tool_choice", choice);
  put(body, "parallel_tool_calls", parallelToolCalls);
}
