import { isEmptyList, isObject, objectsOf, stringOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { mapChanged } from "../../lib/map-changed.ts";
import type { Quirks, ReplyChanges } from "../dialect.ts";
import { knowsLess } from "../knows-all.ts";
import { customTool, wrapInput } from "../tools/custom-tools.ts";
import { inventCallId } from "./tool-calls.ts";

type Wire = Record<string, unknown>;

const NO_PLACES: string[] = [];

const isCustom = (tool: Wire): boolean => tool["type"] === "custom" && isObject(tool["custom"]);

/** Whether a client's tools stand in the older form, which this vendor does not know any more (dialects.md 1.1). */
const hasOlder = (body: Wire, quirks: Quirks): boolean =>
  !quirks.legacyFunctions && objectsOf(body["functions"]).length > 0;

/** Whether a client's tools hold custom ones, which are functions to this vendor. */
const hasCustom = (body: Wire, quirks: Quirks): boolean =>
  quirks.customTools === false && objectsOf(body["tools"]).some(isCustom);

/** What a chat client's forms of tools, where its chat vendor is told others, mean for the reply; undefined where all stays as it is. */
export function replyChanges(body: Wire, quirks: Quirks): ReplyChanges | undefined {
  const legacy = hasOlder(body, quirks);
  const custom = hasCustom(body, quirks);
  if (!legacy && !custom) return undefined;
  const names = objectsOf(body["tools"]).flatMap((tool) =>
    isObject(tool["custom"]) ? [stringOf(tool["custom"]["name"])] : [],
  );
  const inOlderForm = legacy && objectsOf(body["tools"]).length === 0;
  return { ...(inOlderForm && { legacyFunctions: true }), ...(custom && { customTools: new Set(names) }) };
}

function toFunctionTool(tool: Wire, at: number): Wire {
  if (!isCustom(tool)) return tool;
  const { name, description, format } = tool["custom"] as Wire;
  const made = customTool(stringOf(name), stringOf(description), format, `tools[${at}].custom`);
  const called = {
    name: made.name,
    ...(made.description && { description: made.description }),
    parameters: made.schema,
  };
  return { type: "function", function: called };
}

/** Places of grammars that a client's custom tools have and a vendor of functions alone is told in words only. */
export function lostGrammars(body: Wire, quirks: Quirks): string[] {
  if (quirks.customTools !== false || !Array.isArray(body["tools"])) return NO_PLACES;
  return body["tools"].flatMap((tool: unknown, at) => {
    const format = isObject(tool) && isObject(tool["custom"]) ? tool["custom"]["format"] : undefined;
    return isObject(format) && format["type"] !== "text" ? [`tools[${at}].custom.format`] : [];
  });
}

/** A choice that names a custom tool, names the function that it became; also inside `allowed_tools`. */
function toFunctionChoice(choice: unknown): unknown {
  if (!isObject(choice)) return choice;
  if (isCustom(choice)) return { type: "function", function: { name: (choice["custom"] as Wire)["name"] } };
  const allowed = choice["allowed_tools"];
  if (!isObject(allowed) || !Array.isArray(allowed["tools"])) return choice;
  return { ...choice, allowed_tools: { ...allowed, tools: allowed["tools"].map(toFunctionChoice) } };
}

function toFunctionCall(call: unknown): unknown {
  if (!isObject(call) || !isObject(call["custom"])) return call;
  const { custom, ...rest } = call;
  const { name, input } = custom;
  return { ...rest, type: "function", function: { name, arguments: wrapInput(stringOf(input)) } };
}

/** The older choice of a function as today's. */
function toToolChoice(choice: unknown): unknown {
  return isObject(choice) ? { type: "function", function: { name: choice["name"] } } : choice;
}

const isNone = (value: unknown): boolean => value == null || isEmptyList(value);
/** A choice that forces nothing. */
const isFree = (choice: unknown): boolean => choice === "auto" || choice === "none";

/** Null, where a client with checked types writes every field that it knows, to a vendor that does not know this one: Mistral refuses the word alone. */
const isUnknownNull = (value: unknown, quirks: Quirks): boolean => value === null && knowsLess(quirks);

/** Empty lists of tools, and what only goes with tools where there are none: OpenAI refuses each of them, and they ask for nothing. */
function withoutNoTools(body: Wire, quirks: Quirks): Edits {
  const { tools, functions, tool_choice: choice, function_call: call, parallel_tool_calls: parallel } = body;
  const edits: Edits = {};
  if (isEmptyList(tools)) edits["tools"] = undefined;
  if (isEmptyList(functions) || isUnknownNull(functions, quirks)) edits["functions"] = undefined;
  if (isUnknownNull(call, quirks)) edits["function_call"] = undefined;
  if (!isNone(tools) || !isNone(functions)) return edits;
  if (isFree(choice) || (choice != null && isEmptyList(tools))) edits["tool_choice"] = undefined;
  if (isFree(call)) edits["function_call"] = undefined;
  if (parallel != null) edits["parallel_tool_calls"] = undefined;
  return edits;
}

/** The name of a tool in any of its forms. */
const nameOf = (tool: Wire): unknown => {
  const called = tool["function"] ?? tool["custom"];
  return isObject(called) ? called["name"] : undefined;
};

/** A vendor that takes no other choice than by a word, whatever else is known of it, has none for some of the tools either. */
const knowsAllowed = (quirks: Quirks): boolean => !knowsLess(quirks) && quirks.toolChoiceRequired === undefined;

/**
 * A choice that leaves only some of the tools, which nobody but OpenAI knows, as these tools and what else it says; undefined for every other one
 * (dialects.md 4.1).
 */
function onlyAllowed({ tools, tool_choice: choice }: Wire, quirks: Quirks): Edits | undefined {
  const allowed = isObject(choice) ? choice["allowed_tools"] : undefined;
  if (knowsAllowed(quirks) || !isObject(allowed) || !Array.isArray(allowed["tools"])) return undefined;
  const names = new Set(objectsOf(allowed["tools"]).map(nameOf));
  const left = objectsOf(tools).filter((tool) => nameOf(tool) !== undefined && names.has(nameOf(tool)));
  return { tools: left, tool_choice: left.length > 0 ? (allowed["mode"] ?? "auto") : undefined };
}

/** Edits that tell a vendor of today's functions alone about a client's older or custom tools, and nothing of no tools. */
export function toolEdits(body: Wire, quirks: Quirks): Edits {
  const allowed = onlyAllowed(body, quirks);
  if (allowed) return { ...allowed, ...toolEdits({ ...body, ...allowed }, quirks) };
  const legacy = hasOlder(body, quirks);
  if (!legacy && !hasCustom(body, quirks)) return withoutNoTools(body, quirks);
  const tools = objectsOf(body["tools"]).map(toFunctionTool);
  if (legacy) tools.push(...objectsOf(body["functions"]).map((called) => ({ type: "function", function: called })));
  const choice = body["tool_choice"] ?? (legacy ? toToolChoice(body["function_call"]) : undefined);
  return {
    ...(tools.length > 0 && { tools }),
    ...(choice != null && tools.length > 0 && { tool_choice: toFunctionChoice(choice) }),
    ...(legacy ? { functions: undefined, function_call: undefined } : withoutNoTools(body, quirks)),
    // The older form has place for one call a turn.
    ...(legacy && tools.length > 0 && !objectsOf(body["tools"]).length && { parallel_tool_calls: false }),
  };
}

/** A call of the older form carries no id: it and the result that follows get the same one, made of their place. */
const legacyId = (count: number) => inventCallId("function_call", count);

/** Writes the messages of a client whose vendor knows today's functions alone. */
class MessageWriter {
  /** Calls of the older form so far. */
  #calls = 0;

  constructor(readonly quirks: Quirks) {}

  /** The message in today's form; itself where it is so already. */
  write(message: Wire): Wire {
    const { role } = message;
    if (role === "function" && !this.quirks.legacyFunctions) {
      const { name: _name, ...rest } = message;
      return { ...rest, role: "tool", tool_call_id: legacyId(this.#calls), content: message["content"] ?? "" };
    }
    return role === "assistant" ? this.#writeAssistant(message) : message;
  }

  #writeAssistant(message: Wire): Wire {
    if (isObject(message["function_call"]) && !this.quirks.legacyFunctions) {
      const { function_call: called, ...rest } = message;
      return { ...rest, tool_calls: [{ id: legacyId(++this.#calls), type: "function", function: called }] };
    }
    const { tool_calls: calls } = message;
    const custom = this.quirks.customTools === false && objectsOf(calls).some((call) => isObject(call["custom"]));
    return custom ? { ...message, tool_calls: (calls as unknown[]).map(toFunctionCall) } : message;
  }
}

/** Messages with calls in the forms that a vendor of today's functions alone knows; the same array where there is none of others. */
export function toFunctionMessages(messages: readonly unknown[], quirks: Quirks): readonly unknown[] {
  const writer = new MessageWriter(quirks);
  return mapChanged(messages, (message) => (isObject(message) ? writer.write(message) : message));
}
