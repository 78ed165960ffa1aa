import { randomBase62 } from "../../lib/id.ts";
import { isObject } from "../../lib/json.ts";
import { countPrompt, lastToolResult, lastUserText, messagesOf } from "./conversation.ts";
import { exampleOf } from "./example.ts";
import { countTokens, piecesOf } from "./pieces.ts";
import { AT_ONCE, type Block, type Play, refuse } from "./play.ts";

const GREETING = "Hello! I am sluice/echo: send me a text and I answer with it.";

/** Levels at which nothing is thought aloud; every other one says a sentence or two (contract 10). */
const QUIET = new Set(["none", "minimal", "off", "disabled"]);

/**
 * The model `sluice/echo` (contract 10): answers with the last user text, or with the tool result the conversation ends in, or with a
 * call when `tool_choice` forces one. Takes a chat body. Throws Refusal when the forced tool does not exist.
 */
export function playEcho(body: Record<string, unknown>): Play {
  const messages = messagesOf(body);
  const asked = lastUserText(messages);
  const result = lastToolResult(messages);
  const thought = thinkAloud(body["reasoning_effort"], asked);
  const tool = result === undefined ? forcedTool(body) : undefined;
  const answer = tool ? undefined : untilStop(result || asked || GREETING, stopsOf(body["stop"]));

  const blocks: Block[] = [];
  let left = ceilingOf(body);
  const say = (chunks: string[]) => {
    const said = chunks.slice(0, left);
    left -= said.length;
    return said;
  };
  const thoughts = piecesOf(thought);
  const words = piecesOf(tool ? JSON.stringify(argumentsFor(tool, asked)) : (answer?.text ?? ""));
  const reasoning = say(thoughts);
  if (reasoning.length > 0) blocks.push({ type: "reasoning", chunks: reasoning });
  const cut = left < words.length || reasoning.length < thoughts.length;
  const said = say(words);
  if (tool && said.length > 0) {
    blocks.push({ type: "tool_call", id: `call_${randomBase62(24)}`, name: nameOf(tool), chunks: said });
  } else if (said.length > 0) {
    blocks.push({ type: "text", chunks: said });
  }
  const finish = cut ? "length" : tool ? "tool_calls" : "stop";
  return {
    blocks,
    finish,
    ...(finish === "stop" && answer?.stop !== undefined && { stopReason: answer.stop }),
    usage: {
      input: countPrompt(messages),
      cacheRead: 0,
      cacheWrite: 0,
      output: Math.max(1, reasoning.length + said.length),
      reasoning: reasoning.length,
    },
    timing: AT_ONCE,
  };
}

/** The reasoning text for an effort; "" where none is asked for. */
function thinkAloud(effort: unknown, asked: string): string {
  if (typeof effort !== "string" || QUIET.has(effort)) return "";
  return `The user sent ${countTokens(asked)} words and wants effort ${effort}. An echo repeats them.`;
}

/** The most tokens the client wants, reasoning included; Infinity where it set none. */
function ceilingOf(body: Record<string, unknown>): number {
  for (const field of ["max_completion_tokens", "max_tokens"]) {
    const value = body[field];
    if (typeof value === "number" && value >= 1) return Math.floor(value);
  }
  return Infinity;
}

/** Stop sequences that are looked for: each costs a pass over the text, and a client can send half a million. */
const MAX_STOPS = 16;

function stopsOf(stop: unknown): string[] {
  const list = Array.isArray(stop) ? stop.slice(0, MAX_STOPS) : [stop];
  return list.filter((sequence): sequence is string => typeof sequence === "string" && sequence !== "");
}

/** `text` up to its earliest stop sequence, and which one that was; of two at one place the first named. */
function untilStop(text: string, stops: readonly string[]): { text: string; stop?: string } {
  let at = text.length;
  let found: string | undefined;
  for (const stop of stops) {
    const index = text.indexOf(stop);
    if (index < 0 || index >= at) continue;
    at = index;
    found = stop;
  }
  return found === undefined ? { text } : { text: text.slice(0, at), stop: found };
}

type ToolFunction = Record<string, unknown>;

const nameOf = (tool: ToolFunction) => String(tool["name"]);

/** The function of the tool that `tool_choice` forces: the named one, or the first when any will do; undefined when none is forced. */
function forcedTool(body: Record<string, unknown>): ToolFunction | undefined {
  const choice = body["tool_choice"];
  const tools = (Array.isArray(body["tools"]) ? body["tools"] : [])
    .map((tool) => (isObject(tool) ? tool["function"] : undefined))
    .filter((tool): tool is ToolFunction => isObject(tool) && typeof tool["name"] === "string");
  if (choice === "required" || choice === "any") {
    if (tools[0]) return tools[0];
    throw refuse("tool_choice is 'required', but the request has no tools.");
  }
  if (!isObject(choice) || choice["type"] !== "function" || !isObject(choice["function"])) return undefined;
  const wanted = choice["function"]["name"];
  const tool = tools.find((candidate) => candidate["name"] === wanted);
  if (!tool)
    throw refuse(`tool_choice names the tool '${String(wanted).slice(0, 100)}', which the request does not have.`);
  return tool;
}

/** Arguments that a tool's schema accepts; none where the schema is not that of an object. */
function argumentsFor(tool: ToolFunction, text: string): Record<string, unknown> {
  const value = exampleOf(tool["parameters"] ?? { type: "object" }, text);
  return isObject(value) ? value : {};
}
