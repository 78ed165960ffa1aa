import type { Prompt } from "../../canon/prompt.ts";
import { isObject, listOf, stringOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import type { Quirks, ReplyChanges } from "../dialect.ts";
import { knowsLess } from "../knows-all.ts";
import { joinTexts } from "../text.ts";
import { fitToolNames, responsesNames } from "../tools/tool-names.ts";
import { decodeInput } from "./decode-input.ts";
import { changesFor } from "./decode-request.ts";
import { decodeToolChoice, decodeTools } from "./decode-tools.ts";
import { InputWriter } from "./encode-input.ts";
import { addTools } from "./encode-tools.ts";
import type { Item } from "./items.ts";

/** A client's body as any server of this dialect takes it: functions are its only tools, and messages, calls, their outputs and reasoning its only items. */
export type PlainTerms = { edits: Edits; dropped: readonly string[]; changes: ReplyChanges };

const PARTS: ReadonlySet<unknown> = new Set(["input_text", "output_text", "input_image", "input_file", "input_audio"]);

const holdsOnly = (parts: unknown, isKnown: (part: Item) => boolean): boolean =>
  listOf(parts).every((part) => !isObject(part) || isKnown(part));

/** Whether every server of the dialect takes an item as it is. Those that are strict want to be told of each what it is. */
function isPlainItem(item: unknown, { noDeveloperRole }: Quirks): boolean {
  if (!isObject(item)) return true;
  const { type, role } = item;
  if (type === "reasoning") return true;
  if (type === "function_call") return item["namespace"] == null;
  if (type === "function_call_output") return holdsOnly(item["output"], (part) => part["type"] === "input_text");
  if (type === undefined ? role === "assistant" : type !== "message") return false;
  return !(noDeveloperRole && role === "developer") && holdsOnly(item["content"], (part) => PARTS.has(part["type"]));
}

/** Tools that only OpenAI knows, or runs: a server that has others of its own (xAI's x_search, Groq's browser_search, mcp) is told those as they are. */
const OPENAIS: ReadonlySet<unknown> = new Set([
  ...["custom", "namespace", "tool_search", "local_shell", "shell", "apply_patch", "image_generation"],
  ...["computer", "computer_use_preview", "programmatic_tool_calling", "allowed_tools"],
]);

const isOpenAIs = (tool: unknown, { webTools }: Quirks): boolean =>
  isObject(tool) &&
  (OPENAIS.has(tool["type"]) || (webTools !== true && stringOf(tool["type"]).startsWith("web_search")));

/** Whether a function has a name that this vendor does not take, where it takes fewer than others. */
const isMisnamed = (tool: unknown, quirks: Quirks): boolean =>
  isObject(tool) && tool["type"] === "function" && !responsesNames(quirks).legal.test(stringOf(tool["name"]));

function isPlain({ input, tools, tool_choice: choice }: Item, quirks: Quirks): boolean {
  if (quirks.agentTerms && listOf(tools).some((tool) => isMisnamed(tool, quirks))) return false;
  if ([choice, ...listOf(tools)].some((tool) => isOpenAIs(tool, quirks))) return false;
  return listOf(input).every((item) => isPlainItem(item, quirks));
}

function tellPlainly(body: Item, quirks: Quirks): PlainTerms {
  const dropped: string[] = [];
  const { system, turns } = decodeInput(body["input"], dropped);
  const isOwn = (tool: unknown) => isObject(tool) && tool["type"] !== "function" && !isOpenAIs(tool, quirks);
  const own = listOf(body["tools"]).filter(isOwn);
  const others = { ...body, tools: listOf(body["tools"]).map((tool) => (isOwn(tool) ? undefined : tool)) };
  const { tools, toolChoice } = decodeToolChoice(body["tool_choice"], decodeTools(others, dropped), dropped);
  const said: Prompt = { system, turns, tools, stop: [], ...(toolChoice && { toolChoice }) };
  const { prompt, toolNames } = fitToolNames(said, responsesNames(quirks), dropped);
  // Templates of many models take one system message, as the first.
  const instructions = joinTexts([{ type: "text", text: stringOf(body["instructions"]) }, ...system]);
  const written: Item = { input: new InputWriter(quirks, dropped, true).write(prompt.turns) };
  addTools(prompt, quirks, written, dropped);
  const changes = { ...changesFor(body, tools), ...(toolNames && { toolNames }) };
  const functions = [...listOf(written["tools"]), ...own];
  const edits: Edits = { input: written["input"], tools: functions, tool_choice: written["tool_choice"] };
  if (instructions !== "") edits["instructions"] = instructions;
  if (functions.length === 0) {
    edits["tools"] = undefined;
    edits["parallel_tool_calls"] = undefined;
  }
  return { edits, dropped, changes };
}

/** What was found of a body, for whom: it is asked for the request, for what is lost and for the reply. */
const known = new WeakMap<Item, { quirks: Quirks; told: PlainTerms | undefined }>();

/**
 * What is told a server that knows the dialect, and not all that its own vendor has added to it (vLLM, llama.cpp, Ollama, OpenRouter): they refuse custom
 * tools, namespaces and their items, or leave them out without a word. Undefined for a vendor that knows them, and for a body without any.
 */
export function plainTerms(body: Item, quirks: Quirks): PlainTerms | undefined {
  if (!knowsLess(quirks)) return undefined;
  const found = known.get(body);
  if (found?.quirks === quirks) return found.told;
  const told = isPlain(body, quirks) ? undefined : tellPlainly(body, quirks);
  known.set(body, { quirks, told });
  return told;
}
