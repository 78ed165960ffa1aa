import { fieldFault, invalidField } from "../../canon/errors.ts";
import { isObject } from "../../lib/json.ts";
import { ChatRequest } from "../../wire/chat.ts";
import { checker } from "../../wire/open.ts";
import { checkMedia } from "../media/check.ts";
import { refuseOtherArguments } from "../schema/check.ts";
import { checkToolChoice } from "./decode-tools.ts";
import { schemaHolder } from "./output-format.ts";
import { isOfOwnKind } from "./tool-calls.ts";

type Wire = Record<string, unknown>;

const findFault = checker(ChatRequest);

/** The field that each kind of part must carry; kinds that are not here are the vendor's business. */
const PART_FIELDS = new Map([
  ["text", "text"],
  ["image_url", "image_url"],
  ["input_audio", "input_audio"],
  ["file", "file"],
  ["refusal", "refusal"],
]);

/** `words`: what is wrong with the field, behind its path. */
function refuse(param: string, words: string): never {
  throw invalidField(param, `${param} ${words}`);
}

/** What a part stands for is at its vendor: Mistral's files by their id, and what vLLM has seen under a name. */
const isElsewhere = (part: Wire): boolean => typeof part["file_id"] === "string" || typeof part["uuid"] === "string";

function checkParts(parts: readonly unknown[], path: string): void {
  for (let index = 0; index < parts.length; index++) {
    const part = parts[index] as Wire;
    const field = PART_FIELDS.get(part["type"] as string);
    if (field !== undefined && part[field] == null && !isElsewhere(part)) {
      refuse(`${path}[${index}].${field}`, "is required");
    }
  }
}

const NO_CALLED = "is required: an object with a name";

/** A call of nothing: there is nobody it could be told to. */
function checkCalls(calls: readonly unknown[], path: string): void {
  for (let index = 0; index < calls.length; index++) {
    const call = calls[index] as Wire;
    if (isObject(call["function"]) || isObject(call["custom"]) || isOfOwnKind(call)) continue;
    refuse(`${path}[${index}].${call["type"] === "custom" ? "custom" : "function"}`, NO_CALLED);
  }
}

/** Rules between a message's fields, which a schema says badly (dialects.md 1.2). The schema has already been met. */
function checkMessage(message: Wire, index: number): void {
  const { role, content } = message;
  if (Array.isArray(content)) checkParts(content, `messages[${index}].content`);
  else if (content == null && role !== "assistant" && role !== "function") {
    refuse(`messages[${index}].content`, "is required: a string or an array of content parts");
  }
  if (role === "tool" && (message["tool_call_id"] == null || message["tool_call_id"] === "")) {
    refuse(`messages[${index}].tool_call_id`, "is required on role tool");
  }
  if (role === "assistant" && Array.isArray(message["tool_calls"])) {
    checkCalls(message["tool_calls"], `messages[${index}].tool_calls`);
  }
}

function checkTools(tools: readonly unknown[]): void {
  for (let index = 0; index < tools.length; index++) {
    const tool = tools[index] as Wire;
    if ((tool["type"] == null || tool["type"] === "function") && !isObject(tool["function"])) {
      refuse(`tools[${index}].function`, NO_CALLED);
    }
    if (tool["type"] === "custom" && !isObject(tool["custom"])) refuse(`tools[${index}].custom`, NO_CALLED);
    for (const field of ["function", "custom"]) {
      const called = tool[field];
      if (!isObject(called)) continue;
      if (called["name"] === "") refuse(`tools[${index}].${field}.name`, "must not be empty");
      refuseOtherArguments(called["parameters"], `tools[${index}].${field}.parameters`);
    }
  }
}

function checkFormat(format: unknown): void {
  if (!isObject(format) || format["type"] !== "json_schema") return;
  const param = "response_format.json_schema";
  const wrapped = schemaHolder(format);
  if (!wrapped) refuse(param, "is required: an object with a name and a schema");
  // Without one, any JSON is asked for.
  if (wrapped["schema"] != null && !isObject(wrapped["schema"])) {
    refuse(`${param}.schema`, "must be an object: a JSON Schema");
  }
}

/**
 * Throws GatewayError (invalid_request, with param) when a body is no chat request (dialects.md 1.1 and 1.2). Unknown fields, roles' extra
 * fields and unknown kinds of parts and tools pass.
 */
export function checkRequest(body: unknown): void {
  const fault = findFault(body);
  if (fault) throw fieldFault(fault);
  const request = body as Wire & { messages: Wire[] };
  for (let index = 0; index < request.messages.length; index++) {
    checkMessage(request.messages[index]!, index);
  }
  checkMedia(body);
  if (Array.isArray(request["tools"])) checkTools(request["tools"]);
  checkToolChoice(request);
  checkFormat(request["response_format"]);
}
