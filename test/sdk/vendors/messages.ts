import { isObject } from "../../../src/lib/json.ts";
import { COUNTS, type Reply, type Step } from "../replies.ts";
import { Checker, isBase64, isBetween, isCount, isText, isTextParts, isThinker, type Value } from "./checker.ts";
import { asksByBody, type VendorFault, type VendorWire } from "./wire.ts";

const USAGE = {
  input_tokens: COUNTS.fresh,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: COUNTS.cached,
  output_tokens: COUNTS.output,
  service_tier: "standard",
};
const STOP: Record<Reply["finish"], string> = {
  stop: "end_turn",
  length: "max_tokens",
  "stop-sequence": "stop_sequence",
  calls: "tool_use",
  filter: "refusal",
};

/** How this vendor signs its reasoning; it takes back no other signature, and none on another text. */
export const signatureOf = (id: string) => `EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk+${id}`;
const idOf = (id: string) => `toolu_01QzvKfzUQ4Lab7${id}`;

type Block = { start: Value; deltas: Value[]; whole: Value };

function blockOf(step: Step): Block {
  const text = step.pieces.join("");
  if (step.kind === "text") {
    const deltas = step.pieces.map((piece) => ({ type: "text_delta", text: piece }));
    return { start: { type: "text", text: "" }, deltas, whole: { type: "text", text, citations: null } };
  }
  if (step.kind === "reasoning") {
    const signature = signatureOf(step.id);
    const thoughts = step.pieces.map((piece) => ({ type: "thinking_delta", thinking: piece }));
    return {
      start: { type: "thinking", thinking: "", signature: "" },
      deltas: [...thoughts, { type: "signature_delta", signature }],
      whole: { type: "thinking", thinking: text, signature },
    };
  }
  const head = { type: "tool_use", id: idOf(step.id), name: step.name };
  return {
    start: { ...head, input: {} },
    deltas: ["", ...step.pieces].map((piece) => ({ type: "input_json_delta", partial_json: piece })),
    whole: { ...head, input: JSON.parse(text) as unknown },
  };
}

const event = (type: string, fields: Value) => `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;

const headOf = (model: string) => ({
  id: "msg_01LabQC4g3HwBThD4BaNtBck",
  type: "message",
  role: "assistant",
  model,
});

/** A stream with a ping in the middle, as the vendor sends it. */
function recordsOf(reply: Reply, model: string): string[] {
  const head = { ...headOf(model), content: [], stop_reason: null, stop_sequence: null };
  const blocks = reply.steps
    .map(blockOf)
    .flatMap((block, index) => [
      event("content_block_start", { index, content_block: block.start }),
      ...(index === 0 ? [event("ping", {})] : []),
      ...block.deltas.map((delta) => event("content_block_delta", { index, delta })),
      event("content_block_stop", { index }),
    ]);
  const delta = { stop_reason: STOP[reply.finish], stop_sequence: reply.stopSequence ?? null };
  return [
    event("message_start", { message: { ...head, usage: { ...USAGE, output_tokens: 1 } } }),
    ...blocks,
    event("message_delta", { delta, usage: USAGE }),
    event("message_stop", {}),
  ];
}

const ERRORS: Record<VendorFault, { status: number; type: string }> = {
  refused: { status: 400, type: "invalid_request_error" },
  key: { status: 401, type: "authentication_error" },
  limit: { status: 429, type: "rate_limit_error" },
  fault: { status: 500, type: "api_error" },
  overloaded: { status: 529, type: "overloaded_error" },
};

function errorOf(fault: VendorFault, message: string) {
  const { status, type } = ERRORS[fault];
  return { status, body: { type: "error", error: { type, message }, request_id: "req_011Lab" } };
}

const FIELDS =
  "model messages max_tokens system stream temperature top_p top_k stop_sequences tools tool_choice thinking output_config metadata service_tier".split(
    " ",
  );
/** Both are in use: SDKs before and from 1.0 (dialects.md 2.0). */
const VERSIONS = ["2023-06-01", "2026-10-21"];

function checkTools(checker: Checker, body: Value): void {
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
    const types = blocks.map((block) => block["type"]);
    const results = blocks.filter((block) => block["type"] === "tool_result");
    for (const result of results) {
      checker.require(open.delete(result["tool_use_id"]), `${path} answers a call that is not open`);
    }
    checker.require(types.lastIndexOf("tool_result") === results.length - 1, `${path}: results do not come first`);
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
  if (type === "thinking") {
    const signature = String(block["signature"]);
    checker.require(signature.startsWith(signatureOf("")), `${path}: thinking without this vendor's signature`);
    checker.require(typeof block["thinking"] === "string", `${path}: thinking without its text`);
  }
  if (type === "tool_result" && Array.isArray(block["content"]))
    for (const inner of block["content"].filter(isObject)) checkBlock(checker, inner, "user", `${path}: a result`);
  if (type === "image" || type === "document") checkSource(checker, block["source"], String(type), path);
}

function checkSource(checker: Checker, source: unknown, type: string, path: string): void {
  const mediaType = isObject(source) ? String(source["media_type"]) : "";
  const types = type === "image" ? /^image\/(png|jpeg|gif|webp)$/ : /^application\/pdf$/;
  const good =
    isObject(source) &&
    ((source["type"] === "base64" && types.test(mediaType) && isBase64(source["data"])) ||
      (source["type"] === "url" && /^https?:\/\//.test(String(source["url"]))) ||
      (source["type"] === "text" && mediaType === "text/plain" && isText(source["data"]) && type === "document"));
  checker.require(good, `${path}: a malformed ${type}`);
}

/** Reasoning as a model of the newer kind takes it: adaptive with an effort, or none (dialects.md 2.9). */
function checkReasoning(checker: Checker, body: Value): void {
  const { thinking, output_config: config } = body;
  const type = isObject(thinking) ? thinking["type"] : undefined;
  const thinker = isThinker(body["model"]);
  checker.require(
    thinking === undefined || type === "disabled" || (thinker && type === "adaptive"),
    "thinking is malformed",
  );
  const effort = isObject(config) ? config["effort"] : undefined;
  checker.require(effort === undefined || (thinker && ["low", "medium", "high"].includes(String(effort))), "effort");
  if (type === "adaptive")
    for (const field of ["temperature", "top_p", "top_k"]) checker.require(!(field in body), `${field} while thinking`);
  const format = isObject(config) ? config["format"] : undefined;
  if (format === undefined) return;
  checker.require(isObject(format) && format["type"] === "json_schema", "output_config.format is malformed");
  if (isObject(format)) checker.closed(format["schema"], "output_config.format");
}

/** What reaches a messages vendor, checked as that vendor would (dialects.md 2.1–2.3). */
function check(call: Parameters<VendorWire["check"]>[0], apiKey: string) {
  const checker = new Checker();
  checker.headers(call, "x-api-key", apiKey);
  checker.require(VERSIONS.includes(String(call.headers["anthropic-version"])), "anthropic-version is missing");
  if (!isObject(call.json)) return [...checker.faults, "the body is no JSON object"];
  const body = call.json;
  checker.only(body, FIELDS, "body");
  checker.require(isText(body["model"]) && !body["model"].includes("/"), "model is not the vendor's own name");
  checker.require(isCount(body["max_tokens"]), "max_tokens is no count");
  checker.require(isBetween(body["temperature"], 0, 1), "temperature is not within 0..1");
  const { system } = body;
  checker.require(system === undefined || typeof system === "string" || isTextParts(system), "system is no text");
  checkTools(checker, body);
  checkReasoning(checker, body);
  checkTurns(checker, checker.objects(body["messages"], "messages"));
  return checker.faults;
}

export const messages: VendorWire = {
  path: () => "/v1/messages",
  base: (url) => url,
  auth: "x-api-key",
  check,
  asks: asksByBody,
  records: recordsOf,
  whole: (reply, model) => ({
    ...headOf(model),
    content: reply.steps.map((step) => blockOf(step).whole),
    stop_reason: STOP[reply.finish],
    stop_sequence: reply.stopSequence ?? null,
    usage: USAGE,
  }),
  error: errorOf,
  brokenRecord: event("error", errorOf("overloaded", "Overloaded").body),
};
