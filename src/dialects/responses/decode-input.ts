import { invalidField } from "../../canon/errors.ts";
import type { Part, ReasoningPart, RedactedReasoningPart, TextPart, ToolCallPart, Turn } from "../../canon/prompt.ts";
import { isObject, listOf, stringOf } from "../../lib/json.ts";
import { unknownFields } from "../loss/unknown-fields.ts";
import { carriedIn } from "../reasoning/proof.ts";
import { cleanText, textOfUnknown } from "../text.ts";
import { wrapInput } from "../tools/custom-tools.ts";
import { addToUserTurn, isResult } from "../turns.ts";
import { callIdIn, clientAnswer, clientCall, FOUND_TOOLS } from "./client-tools.ts";
import { decodeContent, isKnownPart } from "./content.ts";
import { BROUGHT_TOOLS } from "./decode-tools.ts";
import {
  agentText,
  argumentsText,
  type Item,
  isAgentMessage,
  isUncalledOutput,
  PICTURE,
  pictureIn,
  reasoningSignature,
  reasoningText,
} from "./items.ts";
import { joinName, spokenName } from "./namespaces.ts";
import { textOfServed } from "./server-tools.ts";

/** Fields of the items that have a meaning elsewhere: those that cross, what a reply says of its own, and what OpenAI's SDK reads out of that. */
const ITEM_FIELDS: ReadonlySet<string> = new Set([
  ...["type", "id", "role", "content", "status", "phase", "call_id", "name", "namespace", "arguments"],
  ...["input", "output"],
  ...["summary", "encrypted_content", "caller", "async", "created_by", "tools", "execution", "parsed_arguments"],
  ...["result", "output_format", "revised_prompt", "action", "background", "quality", "size"],
  ...["results", "operation", "environment", "max_output_length", "author", "recipient", "encrypted_function_args"],
]);
/** Fields of a content part. */
const PART_FIELDS: ReadonlySet<string> = new Set([
  ...["type", "text", "refusal", "annotations", "logprobs", "image_url", "file_id", "detail", "filename", "file_data"],
  ...["file_url", "input_audio", "prompt_cache_breakpoint", "parsed"],
]);

/** Asks for the conversation in a sealed item in place of an answer: Codex, of every provider that calls itself OpenAI (openai/codex #22809). */
const COMPACTING = "compaction_trigger";
const NO_COMPACTING =
  "A compaction_trigger asks for a conversation that OpenAI seals, and this model's vendor has none. Codex compacts by itself where its model provider is not named OpenAI.";

/** Reads the input item by item: what one side said in a row is one turn, tool results stand at the head of the user's. */
class InputReader {
  readonly system: TextPart[] = [];
  readonly turns: Turn[] = [];
  /** The ids of the items of calls of the client's own tools, by which some clients answer them, and of the calls. */
  readonly #callIds = new Map<string, string>();

  constructor(readonly dropped: string[]) {}

  read(item: Item, path: string): void {
    if (!this.#readKnown(item, path)) {
      this.dropped.push(path);
      return;
    }
    for (const field of unknownFields(item, ITEM_FIELDS)) this.dropped.push(`${path}.${field}`);
  }

  /** Whether other dialects have a word for the item. */
  #readKnown(item: Item, path: string): boolean {
    switch (item["type"] ?? "message") {
      case "message":
        this.#readMessage(item, path);
        break;
      case "function_call":
        this.#addCall(item, argumentsText(item["arguments"]));
        break;
      case "custom_tool_call":
        // A custom tool's text becomes the argument `input` (dialects.md 1.1).
        this.#addCall(item, wrapInput(stringOf(item["input"])), true);
        break;
      case "function_call_output":
      case "custom_tool_call_output":
        this.#readOutput(item, path);
        break;
      case "reasoning":
        this.#readReasoning(item);
        break;
      case PICTURE:
        return this.#readPicture(item, path);
      case BROUGHT_TOOLS:
        // Read with all other tools.
        break;
      case COMPACTING:
        throw invalidField(path, NO_COMPACTING);
      default:
        return this.#readServed(item) || this.#readAgentMessage(item, path) || this.#readClientTool(item);
    }
    return true;
  }

  /** The user's side speaks to the model that reads it, as other agents do. */
  #readAgentMessage(item: Item, path: string): boolean {
    if (!isAgentMessage(item)) return false;
    const { text, sealed } = agentText(item);
    for (const at of sealed) this.dropped.push(`${path}.content[${at}]`);
    if (text !== "") addToUserTurn(this.turns, [{ type: "text", text: cleanText(text) }]);
    return true;
  }

  #readServed(item: Item): boolean {
    const text = textOfServed(item);
    if (text !== undefined) this.#addAssistant([{ type: "text", text: cleanText(text), isApart: true }]);
    return text !== undefined;
  }

  /** What other dialects have no word for: unknown fields of parts, and how closely a document is to be looked at. */
  #nameDetails(content: unknown, path: string): void {
    for (const [at, part] of listOf(content).entries()) {
      if (!isObject(part) || !isKnownPart(part)) continue;
      for (const field of unknownFields(part, PART_FIELDS)) this.dropped.push(`${path}[${at}].${field}`);
      if (part["type"] !== "input_file") continue;
      if (part["detail"] != null && part["detail"] !== "auto") this.dropped.push(`${path}[${at}].detail`);
    }
  }

  #readMessage(item: Item, path: string): void {
    const { content } = item;
    this.#nameDetails(content, `${path}.content`);
    // Of text alone nobody asks where it stood.
    const parts = decodeContent(content, typeof content === "string" ? path : `${path}.content`);
    const role = item["role"];
    if (role === "assistant") this.#addAssistant(parts);
    else if (role === "system" || role === "developer") this.#addSystem(parts);
    else addToUserTurn(this.turns, parts);
  }

  #addSystem(parts: readonly Part[]): void {
    const isLeading = this.turns.length === 0;
    const texts: TextPart[] = isLeading ? this.system : [];
    for (const part of parts) {
      if (part.type === "text") texts.push(part);
      else if (part.type === "opaque") this.dropped.push(part.name);
      else if ("place" in part && part.place) this.dropped.push(part.place);
    }
    if (!isLeading && texts.length > 0) this.turns.push({ role: "system", parts: texts });
  }

  #addAssistant(parts: Part[]): void {
    const last = this.turns.at(-1);
    if (last?.role === "assistant") last.parts.push(...parts);
    else this.turns.push({ role: "assistant", parts });
  }

  #addCall(item: Item, text: string, custom = false): void {
    const call: ToolCallPart = {
      type: "tool-call",
      id: callIdIn(item),
      name: joinName(item["namespace"], stringOf(item["name"])),
      arguments: cleanText(text),
    };
    if (custom) call.custom = true;
    this.#addAssistant([call]);
  }

  #readOutput(item: Item, path: string): void {
    const parts = decodeContent(item["output"], `${path}.output`).map(textOfUnknown);
    this.#nameDetails(item["output"], `${path}.output`);
    if (!isUncalledOutput(item)) {
      this.#addResult(item, parts);
      return;
    }
    const tool = spokenName(joinName(item["namespace"], stringOf(item["name"])));
    addToUserTurn(this.turns, [{ type: "text", text: cleanText(`Result of the tool ${tool}:`) }, ...parts]);
  }

  /** A call of a tool that the client runs and that has items of its own, or the answer to one. */
  #readClientTool(item: Item): boolean {
    const call = clientCall(item);
    const answer = clientAnswer(item);
    if (call) {
      this.#callIds.set(stringOf(item["id"]), callIdIn(item));
      this.#addCall({ ...item, name: call.name }, call.arguments);
    } else if (answer !== undefined) this.#addResult(item, [{ type: "text", text: cleanText(answer) }]);
    // Tools that a vendor's own search has found are read with all others.
    return call !== undefined || answer !== undefined || item["type"] === FOUND_TOOLS;
  }

  #addResult(item: Item, parts: Part[]): void {
    const callId = callIdIn(item);
    const result: Part = { type: "tool-result", callId: this.#callIds.get(callId) ?? callId, parts };
    const last = this.turns.at(-1);
    if (last?.role !== "user") {
      this.turns.push({ role: "user", parts: [result] });
      return;
    }
    const at = last.parts.findLastIndex(isResult) + 1;
    last.parts.splice(at, 0, result);
  }

  /** An image that the model made before. One that is only named is in its vendor's store. */
  #readPicture(item: Item, place: string): boolean {
    const picture = pictureIn(item);
    if (picture) this.#addAssistant([{ type: "image", source: { kind: "base64", ...picture }, place }]);
    return picture !== undefined;
  }

  #readReasoning(item: Item): void {
    const part = readReasoning(item);
    if (part) this.#addAssistant([part]);
  }
}

function readReasoning(item: Item): ReasoningPart | RedactedReasoningPart | undefined {
  const carried = carriedIn(stringOf(item["encrypted_content"]));
  const made = carried?.maker === undefined ? {} : { maker: carried.maker };
  if (carried?.kind === "redacted") return { type: "redacted-reasoning", data: carried.text, ...made };
  const text = cleanText(reasoningText(item));
  const signature = reasoningSignature(item);
  if (text === "" && signature === "") return undefined;
  return { type: "reasoning", text, ...(signature !== "" && { signature }), ...made };
}

/**
 * `input` of a checked body as system text and turns. Items that only their own vendor understands are named in `dropped`.
 */
export function decodeInput(input: unknown, dropped: string[]): { system: TextPart[]; turns: Turn[] } {
  const reader = new InputReader(dropped);
  if (typeof input === "string") reader.read({ role: "user", content: input }, "input");
  const items = listOf(input);
  for (let at = 0; at < items.length; at++) {
    const item = items[at];
    if (isObject(item)) reader.read(item, `input[${at}]`);
  }
  return { system: reader.system, turns: reader.turns };
}
