import { isObject } from "../../src/lib/json.ts";
import type { Call } from "../support/upstream.ts";

/** Faults of a request that reached a vendor, in words; none when the vendor would have taken it. */
export type Faults = string[];

type Value = Record<string, unknown>;

/** Collects faults under a path. */
class Checker {
  readonly faults: Faults = [];

  require(holds: boolean, fault: string): void {
    if (!holds) this.faults.push(fault);
  }

  only(value: Value, allowed: readonly string[], path: string): void {
    for (const key of Object.keys(value))
      this.require(allowed.includes(key), `${path}.${key} is unknown to this dialect`);
  }

  objects(value: unknown, path: string): Value[] {
    if (!Array.isArray(value) || value.length === 0) {
      this.faults.push(`${path} is no list with something in it`);
      return [];
    }
    for (const each of value) this.require(isObject(each), `${path} holds something other than objects`);
    return value.filter(isObject);
  }
}

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
const isBetween = (value: unknown, least: number, most: number) =>
  value === undefined || (typeof value === "number" && value >= least && value <= most);
const isCount = (value: unknown) => Number.isInteger(value) && (value as number) > 0;

const CHAT_FIELDS =
  "model messages max_tokens max_completion_tokens temperature top_p stop n stream stream_options tools tool_choice parallel_tool_calls response_format seed user frequency_penalty presence_penalty logit_bias reasoning_effort".split(
    " ",
  );

/** Checks what reaches a chat vendor as that vendor would (dialects.md 1.1, 1.2). */
export function checkChatRequest(call: Call, apiKey: string): Faults {
  const checker = new Checker();
  checkHeaders(checker, call, ["authorization"], `Bearer ${apiKey}`);
  if (!isObject(call.json)) return [...checker.faults, "the body is no JSON object"];
  const body = call.json;
  checker.only(body, CHAT_FIELDS, "body");
  checker.require(isText(body["model"]) && !body["model"].includes("/"), "model is not the vendor's own name");
  for (const field of ["max_tokens", "max_completion_tokens"]) {
    checker.require(body[field] === undefined || isCount(body[field]), `${field} is no count`);
  }
  checker.require(!("max_tokens" in body && "max_completion_tokens" in body), "two ceilings");
  checker.require(isBetween(body["temperature"], 0, 2), "temperature is not within 0..2");
  checker.require(body["stream_options"] === undefined || body["stream"] === true, "stream_options without stream");
  if (body["stream"] === true) {
    const options = body["stream_options"];
    checker.require(
      isObject(options) && options["include_usage"] === true,
      "the usage of the stream was not asked for",
    );
  }
  checkChatTools(checker, body);
  checkChatMessages(checker, checker.objects(body["messages"], "messages"));
  return checker.faults;
}

function checkChatTools(checker: Checker, body: Value): void {
  if (body["tools"] === undefined) {
    checker.require(body["tool_choice"] === undefined, "tool_choice without tools");
    checker.require(body["parallel_tool_calls"] === undefined, "parallel_tool_calls without tools");
    return;
  }
  for (const tool of checker.objects(body["tools"], "tools")) {
    const definition = tool["function"];
    checker.require(tool["type"] === "function" && isObject(definition), "a tool is no function");
    if (!isObject(definition)) continue;
    checker.require(/^[\w-]{1,64}$/.test(String(definition["name"])), "a tool's name is malformed");
    const parameters = definition["parameters"];
    checker.require(
      isObject(parameters) && parameters["type"] === "object",
      "a tool's parameters are no object schema",
    );
  }
  const choice = body["tool_choice"];
  const named = isObject(choice) && choice["type"] === "function" && isObject(choice["function"]);
  checker.require(
    choice === undefined || named || ["none", "auto", "required"].includes(String(choice)),
    "tool_choice is malformed",
  );
}

function checkChatMessages(checker: Checker, messages: Value[]): void {
  let open = new Set<unknown>();
  messages.forEach((message, index) => {
    const path = `messages[${index}]`;
    const { role, content } = message;
    if (role === "tool") {
      checker.require(open.delete(message["tool_call_id"]), `${path} answers a call that is not open`);
      checker.require(typeof content === "string" || isTextParts(content), `${path}.content is no text`);
      return;
    }
    checker.require(open.size === 0, `${path} comes before every call is answered`);
    if (role === "assistant") {
      open = new Set(checkChatCalls(checker, message, path));
      checker.require(isText(content) || isTextParts(content) || open.size > 0, `${path} says nothing`);
    } else if (role === "system" || role === "developer") {
      checker.require(isText(content) || isTextParts(content), `${path}.content is no text`);
    } else {
      checker.require(role === "user", `${path}.role is ${String(role)}`);
      if (!isText(content)) checkChatParts(checker, checker.objects(content, `${path}.content`), path);
    }
  });
  checker.require(open.size === 0, "a call is left unanswered");
}

const isTextParts = (content: unknown) =>
  Array.isArray(content) && content.length > 0 && content.every((part) => isObject(part) && part["type"] === "text");

function checkChatCalls(checker: Checker, message: Value, path: string): string[] {
  if (message["tool_calls"] === undefined) return [];
  return checker.objects(message["tool_calls"], `${path}.tool_calls`).map((each) => {
    const called = each["function"];
    checker.require(each["type"] === "function" && isObject(called), `${path}: a call is no function`);
    const text = isObject(called) ? called["arguments"] : undefined;
    checker.require(typeof text === "string" && isObject(JSON.parse(text)), `${path}: arguments are no JSON object`);
    return String(each["id"]);
  });
}

function checkChatParts(checker: Checker, parts: Value[], path: string): void {
  for (const part of parts) {
    if (part["type"] === "text") checker.require(isText(part["text"]), `${path}: an empty text`);
    else if (part["type"] === "image_url") {
      const image = part["image_url"];
      const url = isObject(image) ? String(image["url"]) : "";
      checker.require(
        /^(https?:\/\/|data:image\/\w+;base64,[A-Za-z0-9+/]+=*$)/.test(url),
        `${path}: a malformed image`,
      );
    } else checker.faults.push(`${path}: a part of type ${String(part["type"])}`);
  }
}

const MESSAGES_FIELDS =
  "model messages max_tokens system stream temperature top_p top_k stop_sequences tools tool_choice thinking output_config metadata service_tier".split(
    " ",
  );

/** Both are in use: SDKs before and from 1.0 (dialects.md 2.0). */
const MESSAGES_VERSIONS = ["2023-06-01", "2026-10-21"];

/** Checks what reaches a messages vendor as that vendor would (dialects.md 2.1–2.3). */
export function checkMessagesRequest(call: Call, apiKey: string): Faults {
  const checker = new Checker();
  checkHeaders(checker, call, ["x-api-key"], apiKey);
  checker.require(
    MESSAGES_VERSIONS.includes(String(call.headers["anthropic-version"])),
    "anthropic-version is missing",
  );
  if (!isObject(call.json)) return [...checker.faults, "the body is no JSON object"];
  const body = call.json;
  checker.only(body, MESSAGES_FIELDS, "body");
  checker.require(isText(body["model"]) && !body["model"].includes("/"), "model is not the vendor's own name");
  checker.require(isCount(body["max_tokens"]), "max_tokens is no count");
  checker.require(isBetween(body["temperature"], 0, 1), "temperature is not within 0..1");
  const { system } = body;
  checker.require(system === undefined || isText(system) || isTextParts(system), "system is no text");
  checkMessagesTools(checker, body);
  checkTurns(checker, checker.objects(body["messages"], "messages"));
  return checker.faults;
}

function checkMessagesTools(checker: Checker, body: Value): void {
  const choice = body["tool_choice"];
  if (body["tools"] === undefined) {
    checker.require(choice === undefined, "tool_choice without tools");
    return;
  }
  for (const tool of checker.objects(body["tools"], "tools")) {
    checker.require(/^[\w-]{1,128}$/.test(String(tool["name"])), "a tool's name is malformed");
    const schema = tool["input_schema"];
    checker.require(isObject(schema) && schema["type"] === "object", "a tool's input_schema is no object schema");
  }
  if (choice === undefined) return;
  const type = isObject(choice) ? choice["type"] : undefined;
  checker.require(["auto", "any", "none", "tool"].includes(String(type)), "tool_choice is malformed");
  if (isObject(choice) && type === "tool") checker.require(isText(choice["name"]), "tool_choice names no tool");
}

function checkTurns(checker: Checker, turns: Value[]): void {
  let open = new Set<unknown>();
  let before: unknown;
  turns.forEach((turn, index) => {
    const path = `messages[${index}]`;
    const { role, content } = turn;
    checker.only(turn, ["role", "content"], path);
    checker.require(role === "user" || role === "assistant", `${path}.role is ${String(role)}`);
    checker.require(role !== before, `${path}: two turns of ${String(role)} in a row`);
    checker.require(index > 0 || role === "user", "the first turn is not the user's");
    before = role;
    const blocks = isText(content) ? [] : checker.objects(content, `${path}.content`);
    const results = blocks.filter((block) => block["type"] === "tool_result");
    for (const result of results) {
      checker.require(open.delete(result["tool_use_id"]), `${path} answers a call that is not open`);
    }
    checker.require(open.size === 0, `${path}: calls are left unanswered`);
    open = new Set(blocks.filter((block) => block["type"] === "tool_use").map((block) => block["id"]));
    for (const block of blocks) checkBlock(checker, block, String(role), path);
  });
}

function checkBlock(checker: Checker, block: Value, role: string, path: string): void {
  const { type } = block;
  const ofUser = ["text", "image", "document", "tool_result"];
  const ofAssistant = ["text", "thinking", "redacted_thinking", "tool_use"];
  const fits = (role === "user" ? ofUser : ofAssistant).includes(String(type));
  checker.require(fits, `${path}: a ${role} block of type ${String(type)}`);
  if (type === "text") checker.require(isText(block["text"]), `${path}: an empty text`);
  if (type === "tool_use") {
    checker.require(isObject(block["input"]), `${path}: a call's input is no object`);
    checker.require(/^[\w-]+$/.test(String(block["id"])), `${path}: a call's id is malformed`);
  }
  if (type === "thinking") checker.require(isText(block["signature"]), `${path}: thinking without a signature`);
  if (type !== "image") return;
  const { source } = block;
  const base64 =
    isObject(source) && source["type"] === "base64" && isText(source["media_type"]) && isText(source["data"]);
  const url = isObject(source) && source["type"] === "url" && /^https?:\/\//.test(String(source["url"]));
  checker.require(base64 || url, `${path}: a malformed image`);
}

/** Headers that a client's key could leak through: only the vendor's own may carry anything, and only its key. */
function checkHeaders(checker: Checker, call: Call, own: readonly string[], value: string): void {
  checker.require(call.method === "POST", `the method is ${call.method}`);
  checker.require(String(call.headers["content-type"]).startsWith("application/json"), "the content type is not JSON");
  for (const name of ["authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"]) {
    checker.require(call.headers[name] === (own.includes(name) ? value : undefined), `the header ${name} is wrong`);
  }
  for (const [name, sent] of Object.entries(call.headers)) {
    checker.require(!sent.includes("sk-sluice-"), `the header ${name} carries the client's key`);
    checker.require(!name.startsWith("x-stainless"), `the client's header ${name} went upstream`);
  }
}
