import { isObject } from "../../../src/lib/json.ts";
import { COUNTS, type Reply, type Step } from "../replies.ts";
import { openaiError } from "./chat.ts";
import { Checker, isAddress, isBetween, isJsonObject, isText, isThinker, type Value } from "./checker.ts";
import { asksByBody, type VendorWire } from "./wire.ts";

const USAGE = {
  input_tokens: COUNTS.fresh + COUNTS.cached,
  input_tokens_details: { cached_tokens: COUNTS.cached },
  output_tokens: COUNTS.output,
  output_tokens_details: { reasoning_tokens: COUNTS.reasoning },
  total_tokens: COUNTS.fresh + COUNTS.cached + COUNTS.output,
};

/** What this vendor encrypts of its reasoning; it takes back nothing else. */
export const encryptedOf = (id: string) => `gAAAAABoLab7QkZ1vXw${id}==`;
/** What stands in an item while it is still being written: it must not come back either. */
const DRAFT = "gAAAAABoDraftDraft==";

const idOf = (id: string) => `call_7QkZ1vXwLab4kc669${id}`;

const responseOf = (model: string, status: string, output: readonly Value[], incomplete: string | null) => ({
  id: "resp_0a1b2c3d4e5f60718293a4b5c6d7e8f9",
  object: "response",
  created_at: 1_754_432_626,
  status,
  background: false,
  error: null,
  incomplete_details: incomplete === null ? null : { reason: incomplete },
  instructions: null,
  max_output_tokens: null,
  model,
  output,
  parallel_tool_calls: true,
  previous_response_id: null,
  reasoning: { effort: null, summary: null },
  store: false,
  temperature: 1,
  text: { format: { type: "text" }, verbosity: "medium" },
  tool_choice: "auto",
  tools: [],
  top_p: 1,
  truncation: "disabled",
  usage: status === "in_progress" ? null : USAGE,
  user: null,
  metadata: {},
});

const textPart = (text: string) => ({ type: "output_text", annotations: [], logprobs: [], text });
const summaryPart = (text: string) => ({ type: "summary_text", text });

/** No two items of a conversation share an id. */
const itemId = (prefix: string, step: Step, index: number) =>
  `${prefix}_${Bun.hash(JSON.stringify(step)).toString(16)}${index}`;

/** An item as it is announced and as it is when done. */
function itemOf(step: Step, index: number, cut: boolean): { added: Value; done: Value } {
  const text = step.pieces.join("");
  const status = cut ? "incomplete" : "completed";
  if (step.kind === "reasoning") {
    const head = { id: itemId("rs", step, index), type: "reasoning" };
    return {
      added: { ...head, encrypted_content: DRAFT, summary: [] },
      done: { ...head, encrypted_content: encryptedOf(step.id), summary: [summaryPart(text)] },
    };
  }
  if (step.kind === "text") {
    const head = { id: itemId("msg", step, index), type: "message", role: "assistant" };
    return {
      added: { ...head, status: "in_progress", content: [] },
      done: { ...head, status, content: [textPart(text)] },
    };
  }
  const { name, namespace } = step;
  const head = {
    ...{ id: itemId("fc", step, index), type: "function_call", call_id: idOf(step.id), name },
    ...(namespace && { namespace }),
  };
  return { added: { ...head, status: "in_progress", arguments: "" }, done: { ...head, status, arguments: text } };
}

/** What of an item comes between its announcement and its end, each without its place. */
function eventsOf(step: Step): Value[] {
  const text = step.pieces.join("");
  if (step.kind === "call") {
    const type = "response.function_call_arguments";
    const deltas = step.pieces.map((delta) => ({ type: `${type}.delta`, delta, obfuscation: "xY7" }));
    return [...deltas, { type: `${type}.done`, name: step.name, arguments: text }];
  }
  if (step.kind === "reasoning") {
    const type = "response.reasoning_summary";
    const at = { summary_index: 0 };
    return [
      { type: `${type}_part.added`, ...at, part: summaryPart("") },
      ...step.pieces.map((delta) => ({ type: `${type}_text.delta`, ...at, delta, obfuscation: "q" })),
      { type: `${type}_text.done`, ...at, text },
      { type: `${type}_part.done`, ...at, part: summaryPart(text) },
    ];
  }
  const at = { content_index: 0 };
  return [
    { type: "response.content_part.added", ...at, part: textPart("") },
    ...step.pieces.map((delta) => ({
      type: "response.output_text.delta",
      ...at,
      delta,
      logprobs: [],
      obfuscation: "",
    })),
    { type: "response.output_text.done", ...at, text, logprobs: [] },
    { type: "response.content_part.done", ...at, part: textPart(text) },
  ];
}

const INCOMPLETE: Partial<Record<Reply["finish"], string>> = { length: "max_output_tokens", filter: "content_filter" };

function finalOf(reply: Reply, model: string): Value {
  const incomplete = INCOMPLETE[reply.finish] ?? null;
  const output = reply.steps.map((step, index) => itemOf(step, index, incomplete !== null).done);
  return responseOf(model, incomplete === null ? "completed" : "incomplete", output, incomplete);
}

function recordsOf(reply: Reply, model: string): string[] {
  const begun = responseOf(model, "in_progress", [], null);
  const final = finalOf(reply, model);
  const items = reply.steps.flatMap((step, index): Value[] => {
    const { added, done } = itemOf(step, index, INCOMPLETE[reply.finish] !== undefined);
    const inside = eventsOf(step).map((event) => ({ ...event, item_id: added["id"], output_index: index }));
    return [
      { type: "response.output_item.added", output_index: index, item: added },
      ...inside,
      { type: "response.output_item.done", output_index: index, item: done },
    ];
  });
  const events: Value[] = [
    { type: "response.created", response: begun },
    { type: "response.in_progress", response: begun },
    ...items,
    { type: `response.${String(final["status"])}`, response: final },
  ];
  return events.map(
    (event, sequence) =>
      `event: ${String(event["type"])}\ndata: ${JSON.stringify({ ...event, sequence_number: sequence })}\n\n`,
  );
}

const FIELDS =
  "model input instructions max_output_tokens stream stream_options store tools tool_choice parallel_tool_calls reasoning include text temperature top_p safety_identifier prompt_cache_key metadata truncation service_tier".split(
    " ",
  );

function checkTools(checker: Checker, body: Value): void {
  const choice = body["tool_choice"];
  if (body["tools"] === undefined) {
    checker.require(choice === undefined || choice === "auto", "tool_choice without tools");
    return;
  }
  const names = new Set<unknown>();
  const told = checker.objects(body["tools"], "tools");
  const inSpaces = told.flatMap((tool) =>
    tool["type"] === "namespace" ? checker.objects(tool["tools"], "tools") : [],
  );
  for (const tool of [...told.filter(({ type }) => type !== "namespace"), ...inSpaces]) {
    names.add(tool["name"]);
    checker.only(tool, ["type", "name", "description", "parameters", "strict"], "tool");
    checker.require(tool["type"] === "function", "a tool is no function");
    checker.require(/^[\w-]{1,64}$/.test(String(tool["name"])), "a tool's name is malformed");
    const { parameters } = tool;
    checker.require(isObject(parameters) && parameters["type"] === "object", "a tool's parameters");
    // Absent means strict to this vendor, and a strict schema must be closed.
    if (tool["strict"] !== false) checker.closed(parameters, "a strict tool");
  }
  const named = isObject(choice) && choice["type"] === "function" && isText(choice["name"]);
  const allows = isObject(choice) && choice["type"] === "allowed_tools" && isText(choice["mode"]);
  if (allows)
    for (const { type, name } of checker.objects(choice["tools"], "tool_choice.tools"))
      checker.require(type === "function" && names.has(name), "tool_choice allows a tool that there is not");
  const known = choice === undefined || named || allows || ["none", "auto", "required"].includes(String(choice));
  checker.require(known, "tool_choice is malformed");
}

function checkContent(checker: Checker, content: unknown, role: unknown, path: string): void {
  if (isText(content)) return;
  for (const part of checker.objects(content, path)) {
    const type = String(part["type"]);
    const types = role === "assistant" ? ["output_text", "refusal"] : ["input_text", "input_image", "input_file"];
    checker.require(types.includes(type), `${path}: a part of type ${type} of ${String(role)}`);
    if (type.endsWith("_text")) checker.require(isText(part["text"]), `${path}: an empty text`);
    if (type === "input_image")
      checker.require(isAddress(part["image_url"], "image/\\w+"), `${path}: a malformed image`);
    if (type === "input_file") {
      const whole = isText(part["filename"]) && isAddress(part["file_data"], "application/pdf");
      checker.require(whole, `${path}: a malformed file`);
    }
  }
}

/** Every call has its one output, every output its call, and reasoning is followed by what came of it. */
function checkInput(checker: Checker, items: Value[], thinker: boolean): void {
  const calls = new Map<unknown, number>();
  items.forEach((item, index) => {
    const path = `input[${index}]`;
    const type = item["type"] ?? "message";
    const follower = items[index + 1];
    if (type === "message") {
      const { role } = item;
      checker.require(["user", "assistant", "system", "developer"].includes(String(role)), `${path}.role`);
      checkContent(checker, item["content"], role, `${path}.content`);
    } else if (type === "function_call") {
      checker.require(/^.{1,64}$/.test(String(item["call_id"])), `${path}.call_id`);
      checker.require(item["id"] === undefined || String(item["id"]).startsWith("fc_"), `${path}.id`);
      checker.require(isJsonObject(item["arguments"]), `${path}.arguments are no JSON object`);
      checker.require(!calls.has(item["call_id"]), `${path} repeats a call`);
      calls.set(item["call_id"], 0);
    } else if (type === "function_call_output") {
      const id = item["call_id"];
      checker.require(calls.get(id) === 0, `${path} answers a call that is not open`);
      calls.set(id, 1);
      if (typeof item["output"] !== "string") checkContent(checker, item["output"], "tool", `${path}.output`);
    } else if (type === "reasoning") {
      checker.require(thinker, `${path} is reasoning, shown to a model without any`);
      const encrypted = String(item["encrypted_content"]);
      checker.require(encrypted.startsWith(encryptedOf("").slice(0, -2)), `${path} is not this vendor's reasoning`);
      checker.require(item["id"] === undefined || String(item["id"]).startsWith("rs_"), `${path}.id`);
      const acts = follower?.["type"] === "function_call" || follower?.["role"] === "assistant";
      checker.require(acts || follower?.["type"] === "reasoning", `${path} is not followed by what came of it`);
    } else checker.faults.push(`${path} is of type ${String(type)}`);
  });
  checker.require(![...calls.values()].includes(0), "a call is left unanswered");
}

function checkReasoning(checker: Checker, body: Value): void {
  const { reasoning, include } = body;
  const thinker = isThinker(body["model"]);
  const effort = isObject(reasoning) ? reasoning["effort"] : undefined;
  const known = effort === undefined || ["low", "medium", "high"].includes(String(effort));
  checker.require(reasoning === undefined || (thinker && isObject(reasoning) && known), "reasoning is malformed");
  const encrypted = Array.isArray(include) && include.includes("reasoning.encrypted_content");
  checker.require(include === undefined || (thinker && encrypted), "include asks what this model has not");
  // Without it nothing of the reasoning could ever be carried back (dialects.md 5.1).
  checker.require(!thinker || encrypted, "the encrypted reasoning was not asked for");
  if (!thinker) return;
  for (const field of ["temperature", "top_p"]) checker.require(!(field in body), `${field} to a model that reasons`);
}

function checkText(checker: Checker, text: unknown): void {
  const format = isObject(text) ? text["format"] : undefined;
  if (format === undefined) return;
  if (!isObject(format) || !["text", "json_schema"].includes(String(format["type"]))) {
    checker.require(false, "text.format is malformed");
    return;
  }
  if (format["type"] === "text") return;
  checker.require(/^[\w-]{1,64}$/.test(String(format["name"])), "the format's name is malformed");
  if (format["strict"] === true) checker.closed(format["schema"], "text.format");
}

/** What reaches a vendor of this dialect, checked as that vendor would (dialects.md 1.6, 4.3, 5.1, and the SDK's types). */
function check(call: Parameters<VendorWire["check"]>[0], apiKey: string) {
  const checker = new Checker();
  checker.headers(call, "authorization", `Bearer ${apiKey}`);
  if (!isObject(call.json)) return [...checker.faults, "the body is no JSON object"];
  const body = call.json;
  checker.only(body, FIELDS, "body");
  checker.require(isText(body["model"]) && !body["model"].includes("/"), "model is not the vendor's own name");
  checker.require(body["store"] === false, "the vendor would store it");
  checker.require(isBetween(body["max_output_tokens"], 16, 1_000_000), "max_output_tokens is below its least");
  checker.require(isBetween(body["temperature"], 0, 2), "temperature is not within 0..2");
  checkTools(checker, body);
  checkReasoning(checker, body);
  checkText(checker, body["text"]);
  if (!isText(body["input"])) checkInput(checker, checker.objects(body["input"], "input"), isThinker(body["model"]));
  return checker.faults;
}

export const responses: VendorWire = {
  path: () => "/v1/responses",
  base: (url) => `${url}/v1`,
  auth: "bearer",
  check,
  asks: asksByBody,
  records: recordsOf,
  whole: finalOf,
  error: openaiError,
  brokenRecord: `event: error\ndata: ${JSON.stringify({
    type: "error",
    code: "server_is_overloaded",
    message: "Overloaded",
    param: null,
    sequence_number: 7,
  })}\n\n`,
};
