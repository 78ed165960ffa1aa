import { isObject } from "../../../src/lib/json.ts";
import { COUNTS, type Reply } from "../replies.ts";
import {
  Checker,
  isAddress,
  isBetween,
  isCount,
  isJsonObject,
  isText,
  isTextParts,
  isThinker,
  type Value,
} from "./checker.ts";
import { asksByBody, type VendorFault, type VendorWire } from "./wire.ts";

const HEAD = { id: "chatcmpl-Lab7QkZ1", created: 1_754_432_626, system_fingerprint: "fp_ff25b2783a" };
const USAGE = {
  prompt_tokens: COUNTS.fresh + COUNTS.cached,
  completion_tokens: COUNTS.output,
  total_tokens: COUNTS.fresh + COUNTS.cached + COUNTS.output,
  prompt_tokens_details: { cached_tokens: COUNTS.cached, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: COUNTS.reasoning, audio_tokens: 0 },
};
const FINISH: Record<Reply["finish"], string> = {
  stop: "stop",
  length: "length",
  "stop-sequence": "stop",
  calls: "tool_calls",
  filter: "content_filter",
};

const idOf = (id: string) => `call_4kc6691zCzjPnOuEt${id}`;

/** `choices[0].delta` of every chunk after the role. */
function deltasOf(reply: Reply): Value[] {
  let calls = 0;
  return reply.steps.flatMap((step): Value[] => {
    if (step.kind === "text") return step.pieces.map((content) => ({ content }));
    if (step.kind === "reasoning") return step.pieces.map((text) => ({ reasoning_content: text }));
    const index = calls++;
    const head = { index, id: idOf(step.id), type: "function", function: { name: step.name, arguments: "" } };
    const rest = step.pieces.map((piece) => ({ index, function: { arguments: piece } }));
    return [head, ...rest].map((call) => ({ tool_calls: [call] }));
  });
}

function messageOf({ steps }: Reply): Value {
  const text = (kind: string) =>
    steps
      .filter((step) => step.kind === kind)
      .flatMap((step) => step.pieces)
      .join("");
  const calls = steps.flatMap((step) =>
    step.kind === "call"
      ? [{ id: idOf(step.id), type: "function", function: { name: step.name, arguments: step.pieces.join("") } }]
      : [],
  );
  return {
    role: "assistant",
    content: text("text") || null,
    refusal: null,
    annotations: [],
    ...(text("reasoning") !== "" && { reasoning_content: text("reasoning") }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

function recordsOf(reply: Reply, model: string): string[] {
  const chunk = (choices: Value[], usage: Value | null) =>
    `data: ${JSON.stringify({ ...HEAD, object: "chat.completion.chunk", model, choices, usage })}\n\n`;
  const choice = (delta: Value, finish: string | null) =>
    chunk([{ index: 0, delta, logprobs: null, finish_reason: finish }], null);
  return [
    choice({ role: "assistant", content: "", refusal: null }, null),
    ...deltasOf(reply).map((delta) => choice(delta, null)),
    choice({}, FINISH[reply.finish]),
    chunk([], USAGE),
    "data: [DONE]\n\n",
  ];
}

/** Errors as this dialect's vendor words them (dialects.md 1.5); the newer dialect's are the same. */
const OPENAI_ERRORS: Record<VendorFault, { status: number; type: string; code: string | null }> = {
  refused: { status: 400, type: "invalid_request_error", code: "invalid_value" },
  key: { status: 401, type: "invalid_request_error", code: "invalid_api_key" },
  limit: { status: 429, type: "requests", code: "rate_limit_exceeded" },
  fault: { status: 500, type: "server_error", code: null },
  overloaded: { status: 503, type: "service_unavailable_error", code: "server_is_overloaded" },
};

export function openaiError(fault: VendorFault, message: string) {
  const { status, type, code } = OPENAI_ERRORS[fault];
  return { status, body: { error: { message, type, param: null, code } } };
}

const FIELDS =
  "model messages max_tokens max_completion_tokens temperature top_p stop n stream stream_options tools tool_choice parallel_tool_calls response_format seed user frequency_penalty presence_penalty logit_bias reasoning_effort".split(
    " ",
  );

function checkTools(checker: Checker, body: Value): void {
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

function checkMessages(checker: Checker, messages: Value[]): void {
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
      open = new Set(checkCalls(checker, message, path));
      const reasoning = message["reasoning_content"];
      const says = isText(content) || isTextParts(content) || open.size > 0 || isText(reasoning);
      checker.require(says, `${path} says nothing`);
      checker.require(reasoning === undefined || isText(reasoning), `${path}: malformed reasoning`);
    } else if (role === "system" || role === "developer") {
      checker.require(isText(content) || isTextParts(content), `${path}.content is no text`);
    } else {
      checker.require(role === "user", `${path}.role is ${String(role)}`);
      if (!isText(content)) checkParts(checker, checker.objects(content, `${path}.content`), path);
    }
  });
  checker.require(open.size === 0, "a call is left unanswered");
}

function checkCalls(checker: Checker, message: Value, path: string): string[] {
  if (message["tool_calls"] === undefined) return [];
  return checker.objects(message["tool_calls"], `${path}.tool_calls`).map((each) => {
    const called = each["function"];
    checker.require(each["type"] === "function" && isObject(called), `${path}: a call is no function`);
    checker.require(isObject(called) && isJsonObject(called["arguments"]), `${path}: arguments are no JSON object`);
    return String(each["id"]);
  });
}

function checkParts(checker: Checker, parts: Value[], path: string): void {
  for (const part of parts) {
    const { image_url: image, file } = part;
    if (part["type"] === "text") checker.require(isText(part["text"]), `${path}: an empty text`);
    else if (part["type"] === "image_url") {
      checker.require(isObject(image) && isAddress(image["url"], "image/\\w+"), `${path}: a malformed image`);
    } else if (part["type"] === "file") {
      const good = isObject(file) && isText(file["filename"]) && isAddress(file["file_data"], "application/pdf");
      checker.require(good && !String(file["file_data"]).startsWith("http"), `${path}: a malformed file`);
    } else checker.faults.push(`${path}: a part of type ${String(part["type"])}`);
  }
}

function checkFormat(checker: Checker, format: unknown): void {
  if (format === undefined) return;
  const wanted = isObject(format) ? format["json_schema"] : undefined;
  if (!isObject(format) || format["type"] !== "json_schema" || !isObject(wanted)) {
    checker.require(false, "response_format is malformed");
    return;
  }
  checker.require(/^[\w-]{1,64}$/.test(String(wanted["name"])), "the format's name is malformed");
  if (wanted["strict"] === true) checker.closed(wanted["schema"], "response_format");
}

/** What reaches a chat vendor, checked as that vendor would (dialects.md 1.1, 1.2). */
function check(call: Parameters<VendorWire["check"]>[0], apiKey: string) {
  const checker = new Checker();
  checker.headers(call, "authorization", `Bearer ${apiKey}`);
  if (!isObject(call.json)) return [...checker.faults, "the body is no JSON object"];
  const body = call.json;
  const thinker = isThinker(body["model"]);
  checker.only(body, FIELDS, "body");
  checker.require(isText(body["model"]) && !body["model"].includes("/"), "model is not the vendor's own name");
  for (const field of ["max_tokens", "max_completion_tokens"]) {
    checker.require(body[field] === undefined || isCount(body[field]), `${field} is no count`);
  }
  checker.require(!("max_tokens" in body && "max_completion_tokens" in body), "two ceilings");
  checker.require(isBetween(body["temperature"], 0, 2), "temperature is not within 0..2");
  const effort = body["reasoning_effort"];
  const known = thinker && ["low", "medium", "high"].includes(String(effort));
  checker.require(effort === undefined || known, "reasoning_effort is not one of the model's");
  checker.require(body["stream_options"] === undefined || body["stream"] === true, "stream_options without stream");
  if (body["stream"] === true) {
    const options = body["stream_options"];
    checker.require(isObject(options) && options["include_usage"] === true, "the stream's usage was not asked for");
  }
  checkTools(checker, body);
  checkFormat(checker, body["response_format"]);
  checkMessages(checker, checker.objects(body["messages"], "messages"));
  return checker.faults;
}

export const chat: VendorWire = {
  path: () => "/v1/chat/completions",
  base: (url) => `${url}/v1`,
  auth: "bearer",
  check,
  asks: asksByBody,
  records: recordsOf,
  whole: (reply, model) => ({
    ...HEAD,
    object: "chat.completion",
    model,
    choices: [{ index: 0, message: messageOf(reply), logprobs: null, finish_reason: FINISH[reply.finish] }],
    usage: USAGE,
  }),
  error: openaiError,
  brokenRecord: `data: ${JSON.stringify(openaiError("overloaded", "Overloaded").body)}\n\n`,
};
