import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { PLAIN_MS } from "../../src/relay/lessons/plain-servers.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { manualClock } from "../support/clock.ts";
import { type Answer, chatReply, json, sse, startUpstream, type Upstream } from "../support/upstream.ts";
import { PNG } from "../vendors/image-lab.ts";

type Wire = Record<string, unknown>;

const PATH = "/v1/chat/completions";
const user = { role: "user", content: "Hi" };
const parameters = { type: "object", properties: {} };
const called = { name: "f", parameters };
const tool = { type: "function", function: called };
const named = (name: string) => ({ ...tool, function: { ...called, name } });
const call = { id: "call_abcdefghijk", type: "function", function: { name: "f", arguments: "{}" } };
const result = { role: "tool", tool_call_id: "call_abcdefghijk", content: "found" };
const SCHEMA = { type: "object", properties: {}, additionalProperties: false };

/** A custom tool's one argument, where it stands as a function. */
const INPUT_SCHEMA = {
  type: "object",
  properties: { input: { type: "string", description: "The whole input of the tool, as plain text." } },
  required: ["input"],
  additionalProperties: false,
};

/** What a vendor says who refuses a request, and how. */
type Refusal =
  | { status?: number; words: string }
  | { status?: number; body: Wire }
  | { record: Wire }
  | { text: string };
const refuse = (refusal: Refusal): Answer => {
  if ("text" in refusal) {
    const headers = { "content-type": "text/plain; charset=utf-8" };
    return { status: 422, headers, parts: [refusal.text], framing: "length", finish: "end" };
  }
  if ("record" in refusal) return { ...sse(`data:${JSON.stringify(refusal.record)}\n\n`), status: 400 };
  const error = "words" in refusal ? { error: { message: refusal.words, type: "invalid_request_error" } } : undefined;
  return json(error ?? ("body" in refusal ? refusal.body : {}), { status: refusal.status ?? 400 });
};

const messagesOf = (body: Wire) => body["messages"] as Wire[];
const somewhere = (is: (message: Wire, at: number) => boolean) => (body: Wire) => messagesOf(body).some(is);
const has = (field: string) => (body: Wire) => Object.hasOwn(body, field);
const isLate = somewhere(({ role }, at) => role === "system" && at > 0);
const isDeveloper = somewhere(({ role }) => role === "developer");

function isOutOfTurn(body: Wire): boolean {
  let before = "assistant";
  return messagesOf(body).some(({ role, tool_calls: calls }, at) => {
    if ((role === "system" && at === 0) || role === "tool" || calls) return false;
    const isOut = role === before || (role !== "user" && role !== "assistant");
    before = String(role);
    return isOut;
  });
}

const ask = (...messages: Wire[]): Wire => ({ messages });

const image = { type: "image_url", image_url: { url: `data:image/png;base64,${Buffer.from(PNG).toString("base64")}` } };
const seesImage = (body: Wire) => JSON.stringify(body).includes("image_url");
/** How vLLM, Ollama, LM Studio, llama.cpp, OpenRouter, mlx-lm, Venice and DeepSeek say that a model takes text alone, with their status. */
const BLIND: readonly [words: string, status?: number][] = [
  ["big/m is not a multimodal model None"],
  ["At most 0 image(s) may be provided in one prompt."],
  ["this model does not support image input (ref: b8bd630e-4a39-4b57-82af-9158ee9d5703)"],
  ["Model does not support images. Please use a model that does."],
  ["image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", 500],
  ["No endpoints found that support image input", 404],
  ["Only 'text' content type is supported.", 404],
  [
    "Error in iterating prediction stream: ValueError: Vision add-on is not loaded, but images were provided for processing",
    200,
  ],
  ["messages: Image content is not supported by this model. Please use a model that supports vision."],
  [
    "Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image_url`, expected `text` at line 1 column 265",
  ],
];
const PASSED_BACK = "in the thinking mode must be passed back to the API.";
/** An error of Xiaomi's servers. */
const paramIncorrect = (param: string) => ({ code: "400", message: "Param Incorrect", param, type: "" });
const UNTHOUGHT = { error: paramIncorrect(`The reasoning_content ${PASSED_BACK}`) };
const started = { role: "assistant", content: "I will" };
const NO_PREFILL = JSON.stringify({
  type: "error",
  error: {
    type: "invalid_request_error",
    message: "This model does not support assistant message prefill. The conversation must end with a user message.",
  },
});
const brief = { role: "developer", content: "Be brief." };

/** A list of faults as FastAPI's `str()` has it, and what stands behind it. */
const faults = (count: string, list: readonly string[]) =>
  `${count}:\n${list.map((fault) => `  ${fault}\n`).join("")}\n  File "/srv/app.py", line 376, in create_chat_completion\n    POST /v1/chat/completions`;
const ofKind = (kind: string, field: string) =>
  `'loc': ('body', 'messages', 1, 'ChatCompletionRequest${kind}Message', '${field}')`;
/** Of an assistant's message: it is no system's, and no user's. */
const UNLIKE = ["System", "User"].map(
  (kind) =>
    `{'type': 'literal_error', ${ofKind(kind, "role")}, 'msg': "Input should be '${kind.toLowerCase()}'", 'input': 'assistant', 'ctx': {'expected': "'${kind.toLowerCase()}'"}}`,
);
const NO_STRING = `{'type': 'string_type', ${ofKind("Assistant", "content")}, 'msg': 'Input should be a valid string', 'input': None}`;
const NO_FORM = `{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': "Input should be 'text' or 'json_object'", 'input': 'json_schema', 'ctx': {'expected': "'text' or 'json_object'"}}`;

describe("a chat server of which nothing is known", () => {
  let upstream: Upstream;
  let gateway: TestApp;
  const clock = manualClock();
  let models = 0;

  beforeAll(async () => {
    upstream = startUpstream();
    const all = vendorAt(upstream, "chat", "all", { customTools: true });
    const routes = ["big", "small"].map((model) => ({ vendor: "lab", model }));
    const vendors = [vendorAt(upstream, "chat", "lab"), vendorAt(upstream, "chat", "other"), all];
    const both = ["lab", "other"].map((vendor) => ({ vendor, model: "big" }));
    const models = [
      { id: "lab/two-ways", routes },
      { id: "lab/two-vendors", routes: both },
    ];
    gateway = await startApp({ vendors, models, clock });
  });
  afterEach(() => upstream.reset());
  afterAll(async () => {
    await gateway.stop();
    upstream.close();
  });

  const refusing = (isRefused: (body: Wire) => boolean, refusal: Refusal) =>
    upstream.always(PATH, ({ json: body }) => (isRefused(body as Wire) ? refuse(refusal) : json(chatReply("ok"))));
  const post = (body: Wire, path = PATH, headers: Record<string, string> = {}) => gateway.post(path, body, { headers });
  const told = (at: number) => upstream.calls[at]?.json as Wire;

  test.each<[string, Wire, (body: Wire) => boolean, Refusal, Wire, string | null]>([
    [
      "an assistant's turn that is to be continued, as Claude does behind OpenRouter",
      ask(user, started),
      (body) => messagesOf(body).at(-1)?.["role"] === "assistant",
      { body: { error: { message: "Provider returned error", code: 400, metadata: { raw: NO_PREFILL } } } },
      { messages: [user, started, { role: "user", content: "(continue)" }] },
      "prefill",
    ],
    [
      "strict tools, as NInfer does",
      { ...ask(user), tools: [{ ...tool, function: { ...called, strict: true } }] },
      (body) => JSON.stringify(body).includes('"strict":true'),
      {
        words:
          "strict=true requires generated function arguments to satisfy the declared JSON Schema, which NInfer cannot guarantee",
      },
      { ...ask(user), tools: [tool] },
      "tools[0].function.strict",
    ],
    [
      "strict tools, as Cerebras does of some models",
      { ...ask(user), tools: [{ ...tool, function: { ...called, strict: true } }] },
      (body) => JSON.stringify(body).includes('"strict":true'),
      { words: "Tools with strict=True are not supported by this model" },
      { ...ask(user), tools: [tool] },
      "tools[0].function.strict",
    ],
    [
      "marks of OpenAI's for a cache, as pydantic names them",
      ask({ role: "user", content: [{ type: "text", text: "Hi", prompt_cache_breakpoint: { mode: "explicit" } }] }),
      (body) => JSON.stringify(body).includes("prompt_cache_breakpoint"),
      {
        status: 422,
        body: {
          detail: [
            {
              type: "extra_forbidden",
              loc: ["body", "messages", 0, "user", "content", "list[TextChunk]", 0, "prompt_cache_breakpoint"],
              msg: "Extra inputs are not permitted",
            },
          ],
        },
      },
      ask({ role: "user", content: [{ type: "text", text: "Hi" }] }),
      null,
    ],
    [
      "fields, as vLLM does in Python's notation",
      { ...ask(user), store: true, metadata: { a: "b" } },
      has("store"),
      {
        body: {
          object: "error",
          message:
            "[{'type': 'extra_forbidden', 'loc': ('body', 'store'), 'msg': 'Extra inputs are not permitted', 'input': True}, {'type': 'extra_forbidden', 'loc': ('body', 'metadata'), 'msg': 'Extra inputs are not permitted'}]",
        },
      },
      { store: undefined, metadata: undefined },
      "store, metadata",
    ],
    [
      "fields, as FastAPI does in a list",
      { ...ask(user), store: true },
      has("store"),
      {
        status: 422,
        body: { detail: [{ type: "extra_forbidden", loc: ["body", "store"], msg: "Extra inputs are not permitted" }] },
      },
      { store: undefined },
      "store",
    ],
    [
      "fields that are null, as llama.cpp does of the first one",
      { ...ask(user), temperature: null, top_p: null, seed: 7, tools: null },
      (body) => Object.values(body).includes(null),
      { words: "Field 'temperature': [json.exception.type_error.302] type must be number, but is null" },
      { temperature: undefined, top_p: undefined, seed: 7, tools: undefined },
      null,
    ],
    [
      "a ceiling that is null, as OpenAI's models do",
      { ...ask(user), max_completion_tokens: null },
      has("max_completion_tokens"),
      { words: "Invalid type for 'max_completion_tokens': expected an unsupported value, but got null instead." },
      { max_completion_tokens: undefined },
      null,
    ],
    [
      "null content, as llama-cpp-python does in a 500, behind what a message of another kind would have had to be",
      ask(user, { role: "assistant", content: null, tool_calls: [call] }, result),
      somewhere(({ content }) => content === null),
      { status: 500, body: { error: { message: faults("16 validation errors", [...UNLIKE, NO_STRING]), code: null } } },
      { messages: [user, { role: "assistant", content: "", tool_calls: [call] }, result] },
      null,
    ],
    [
      "null content beside no calls, as text-generation-webui does",
      ask(user, { role: "assistant", content: null, reasoning_content: "Hm" }, user),
      somewhere(({ content }) => content === null),
      {
        body: {
          error: { message: "messages: missing content", code: 400, type: "InvalidRequestError", param: "messages" },
        },
      },
      { messages: [user, { role: "assistant", content: "", reasoning_content: "Hm" }, user] },
      null,
    ],
    [
      "a temperature, as OpenAI's models do that reason",
      { ...ask(user), temperature: 0.2 },
      has("temperature"),
      {
        words:
          "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
      },
      { temperature: undefined },
      "temperature",
    ],
    ...[
      "Unsupported parameter: 'stop' is not supported with this model.",
      "Argument not supported on this model: stop",
      "'stop' is not supported",
    ].map((words): [string, Wire, (body: Wire) => boolean, Refusal, Wire, string | null] => [
      `a stop sequence, which the gateway looks for itself (OpenAI's models, xAI's, GPT4All: ${words.length})`,
      { ...ask(user), stop: ["k"] },
      has("stop"),
      { words },
      { stop: undefined },
      null,
    ]),
    [
      "an answer's form, as llama-cpp-python does",
      { ...ask(user), response_format: { type: "json_schema", json_schema: { name: "a", schema: SCHEMA } } },
      ({ response_format: form }) => (form as Wire | undefined)?.["type"] === "json_schema",
      { status: 500, body: { error: { message: faults("1 validation error", [NO_FORM]), code: null } } },
      { response_format: { type: "json_object" } },
      null,
    ],
    [
      "a field by a name of its own, as xAI does",
      { ...ask(user), reasoning_effort: "low" },
      has("reasoning_effort"),
      { words: "Model grok-4.20-0309-non-reasoning does not support parameter reasoningEffort." },
      { reasoning_effort: undefined },
      "reasoning_effort",
    ],
    [
      "a field by a name of its own, as xAI does of others",
      { ...ask(user), presence_penalty: 0.5 },
      has("presence_penalty"),
      {
        body: {
          code: "Client specified an invalid argument",
          error: "Argument not supported on this model: presencePenalty",
        },
      },
      { presence_penalty: undefined },
      "presence_penalty",
    ],
    [
      "a field, as OpenCode does",
      { ...ask(user), store: true },
      has("store"),
      {
        words:
          "Error from provider (Console Go): Upstream request failed: [invalid_request_error] unknown parameter `store`",
      },
      { store: undefined },
      "store",
    ],
    ...[
      "unsupported request field(s): store",
      "Unknown field 'store'.",
      'JSON parse error: Unrecognized field "store" (class ChatRequest), not marked as ignorable',
      "1 validation error for ChatCompletionRequest\nstore\n  Extra inputs are not permitted [type=extra_forbidden, input_value=True, input_type=bool]",
    ].map((words): [string, Wire, (body: Wire) => boolean, Refusal, Wire, string | null] => [
      `a field, in words of its own (${words.length})`,
      { ...ask(user), store: true },
      has("store"),
      { words },
      { store: undefined },
      "store",
    ]),
    [
      "what a router told of its thoughts, as a strict proxy does",
      ask(user, { role: "assistant", content: "a", reasoning_details: [{ type: "reasoning.text", text: "t" }] }, user),
      ({ messages }) => JSON.stringify(messages).includes("reasoning_details"),
      {
        words:
          "INVALID_ARGUMENT unsafeParams: {unrecognizedProperty=reasoning_details} Request contained an unrecognized field",
      },
      { messages: [user, { role: "assistant", content: "a" }, user] },
      null,
    ],
    [
      "fields, as NIM does by their names",
      { ...ask(user), prompt_cache_key: "k", user: "u" },
      has("user"),
      { body: { title: "Bad Request", detail: "Validation: Unsupported parameter(s): `prompt_cache_key`, `user`" } },
      { prompt_cache_key: undefined, user: undefined },
      "prompt_cache_key, user",
    ],
    [
      "fields, as NIM does in lines",
      { ...ask(user), frequency_penalty: 1 },
      has("frequency_penalty"),
      {
        status: 422,
        body: { detail: "body -> frequency_penalty\n  Extra inputs are not permitted (type=extra_forbidden)" },
      },
      { frequency_penalty: undefined },
      "frequency_penalty",
    ],
    [
      "fields, as transformers serve does in a set",
      { ...ask(user), top_k: 5, min_p: 0.1 },
      has("top_k"),
      { status: 422, body: { detail: "Unexpected fields in the request: {'min_p', 'top_k'}" } },
      { top_k: undefined, min_p: undefined },
      "min_p, top_k",
    ],
    [
      "a key, as older transformers serve does",
      { ...ask(user), top_k: 5 },
      has("top_k"),
      { status: 422, body: { detail: "Unexpected keys in the request: {'top_k'}" } },
      { top_k: undefined },
      "top_k",
    ],
    [
      "a field that is not heeded, as transformers serve does that validates its input",
      { ...ask(user), user: "u" },
      has("user"),
      { status: 422, body: { detail: "Unused fields in the request: {'user'}" } },
      { user: undefined },
      "user",
    ],
    [
      "a field, as Fireworks does",
      { ...ask(user), store: true },
      has("store"),
      { words: "Extra inputs are not permitted, field: 'store', value: True" },
      { store: undefined },
      "store",
    ],
    [
      "a field, as Cohere does in a word",
      { ...ask(user), user: "u" },
      has("user"),
      { status: 422, body: { id: "1", message: "unprocessable entity: user is not supported" } },
      { user: undefined },
      "user",
    ],
    [
      "a field, as OpenAI does",
      { ...ask(user), reasoning_effort: "low" },
      has("reasoning_effort"),
      { words: "Unrecognized request argument supplied: reasoning_effort" },
      { reasoning_effort: undefined },
      "reasoning_effort",
    ],
    [
      "a value, as OpenAI does",
      { ...ask(user), temperature: 0.2 },
      has("temperature"),
      {
        words:
          "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) is supported.",
      },
      { temperature: undefined },
      "temperature",
    ],
    [
      "a field, as LiteLLM does for its vendors",
      { ...ask(user), reasoning_effort: "low" },
      has("reasoning_effort"),
      { words: "litellm.UnsupportedParamsError: groq does not support parameters: ['reasoning_effort'], for model=x" },
      { reasoning_effort: undefined },
      "reasoning_effort",
    ],
    [
      "reasoning, as Ollama does",
      { ...ask(user), reasoning_effort: "low" },
      has("reasoning_effort"),
      { words: '"tiny" does not support thinking' },
      { reasoning_effort: undefined },
      "reasoning_effort",
    ],
    [
      "a ceiling by its new name",
      { ...ask(user), max_completion_tokens: 9 },
      has("max_completion_tokens"),
      { words: "max_completion_tokens: Extra inputs are not permitted" },
      { max_completion_tokens: undefined, max_tokens: 9 },
      null,
    ],
    [
      "a ceiling by its old name (OpenAI's, under another name)",
      { ...ask(user), max_tokens: 9 },
      has("max_tokens"),
      {
        words:
          "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
      },
      { max_tokens: undefined, max_completion_tokens: 9 },
      null,
    ],
    [
      "what a reply had, sent back (Groq)",
      ask(user, { role: "assistant", content: "Yes?", annotations: [], reasoning_content: "hm" }, user),
      somewhere((message) => Object.hasOwn(message, "annotations")),
      {
        words:
          "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'annotations' is unsupported)]",
      },
      ask(user, { role: "assistant", content: "Yes?", reasoning_content: "hm" }, user),
      null,
    ],
    ...["role", "annotations"].map((field): [string, Wire, (body: Wire) => boolean, Refusal, Wire, string | null] => [
      `what a reply's message had, sent back in its text, as OpenAI's Agents SDK for JavaScript does (${field})`,
      ask(
        user,
        { role: "assistant", content: [{ type: "text", text: "Yes?", role: "assistant", annotations: [] }] },
        user,
      ),
      (body) => JSON.stringify(body).includes('"annotations"'),
      { words: `Unknown parameter: 'messages[1].content[0].${field}'.` },
      ask(user, { role: "assistant", content: [{ type: "text", text: "Yes?" }] }, user),
      null,
    ]),
    [
      "strictness of tools (Cohere)",
      { ...ask(user), tools: [{ type: "function", function: { ...called, strict: true } }] },
      (body) => JSON.stringify(body).includes('"strict"'),
      { status: 422, body: { message: "unknown field: parameter 'strict' is not a valid field." } },
      { tools: [tool] },
      "tools[0].function.strict",
    ],
    ...[
      '[\n  {\n    "code": "invalid_type",\n    "expected": "object",\n    "received": "undefined",\n    "path": [\n      0,\n      "function",\n      "parameters",\n      "properties"\n    ],\n    "message": "Required"\n  }\n]',
      "Invalid schema for function 'f': In context=(), object schema missing properties.",
    ].map((words): [string, Wire, (body: Wire) => boolean, Refusal, Wire, string | null] => [
      `a tool without properties (${words.length})`,
      { ...ask(user), tools: [{ type: "function", function: { name: "f", parameters: { type: "object" } } }, tool] },
      (body) => JSON.stringify(body["tools"]).includes('"parameters":{"type":"object"}'),
      { body: { error: words } },
      { tools: [tool, tool] },
      null,
    ]),
    ...[
      { words: "invalid params, function parameters is empty (2013)" },
      {
        status: 422,
        body: {
          detail: [{ type: "missing", loc: ["body", "tools", 0, "function", "parameters"], msg: "Field required" }],
        },
      },
      { words: 'Bad request: "parameters" is a required property for "function" object in parameter "tools"\n' },
    ].map((refusal, number): [string, Wire, (body: Wire) => boolean, Refusal, Wire, string | null] => [
      `a tool that says nothing of its parameters (${number})`,
      { ...ask(user), tools: [{ type: "function", function: { name: "f" } }, tool] },
      (body) => JSON.stringify(body["tools"]).includes('{"name":"f"}'),
      refusal,
      { tools: [tool, tool] },
      null,
    ]),
    ...[
      "invalid params, invalid tool type: (2013)",
      'Unsupported tool type: {"custom":{"name":"p"},"type":"custom"}',
      "[{'type': 'literal_error', 'loc': ('body', 'tools', 0, 'type'), 'msg': \"Input should be 'function'\", 'input': 'custom'}]",
      "Failed to deserialize the JSON body: tools[0].type: unknown variant `custom`, expected `function`",
      "'function' is a required property, expected an object - 'tools.0'",
    ].map((words): [string, Wire, (body: Wire) => boolean, Refusal, Wire, string | null] => [
      `a custom tool (${words.length})`,
      { ...ask(user), tools: [{ type: "custom", custom: { name: "p" } }] },
      (body) => JSON.stringify(body["tools"]).includes('"custom"'),
      { words },
      { tools: [{ type: "function", function: { name: "p", parameters: INPUT_SCHEMA } }] },
      null,
    ]),
    [
      "a developer, by its enum (DeepSeek)",
      ask(brief, user),
      isDeveloper,
      {
        words:
          "Failed to deserialize the JSON body: messages[0].role: unknown variant `developer`, expected one of `system`",
      },
      ask({ ...brief, role: "system" }, user),
      null,
    ],
    [
      "a developer, in plain text, as servers in Rust do",
      ask(brief, user),
      isDeveloper,
      {
        text: "Failed to deserialize the JSON body into the target type: messages[0].role: unknown variant `developer`, expected one of `system`, `user` at line 1 column 40",
      },
      ask({ ...brief, role: "system" }, user),
      null,
    ],
    [
      "a developer, by its template (Qwen)",
      ask(brief, user),
      isDeveloper,
      { words: "Unexpected message role." },
      ask({ ...brief, role: "system" }, user),
      null,
    ],
    [
      "a developer, by its field's name in quotes (Poe)",
      ask(brief, user),
      isDeveloper,
      { words: "Invalid 'role': Input should be 'system', 'user' or 'bot'" },
      ask({ ...brief, role: "system" }, user),
      null,
    ],
    [
      "a developer, by its template, as mlx-lm's server tells it",
      ask(brief, user),
      isDeveloper,
      { status: 404, body: { error: "Unexpected message role." } },
      ask({ ...brief, role: "system" }, user),
      null,
    ],
    [
      "a developer, by what it knows (FastAPI)",
      ask(brief, user),
      isDeveloper,
      {
        status: 422,
        body: { detail: [{ loc: ["body", "messages", 0, "role"], msg: "Input should be 'system' or 'user'" }] },
      },
      ask({ ...brief, role: "system" }, user),
      null,
    ],
    [
      "null as content (Cloudflare)",
      { ...ask(user, { role: "assistant", content: null, tool_calls: [call] }, result), tools: [tool] },
      somewhere(({ content }) => content === null),
      {
        body: {
          errors: {
            message:
              "AiError: Bad input: oneOf at '/' not met, Type mismatch of '/messages/1/content', 'null' not in 'string'",
          },
        },
      },
      ask(user, { role: "assistant", content: "", tool_calls: [call] }, result),
      null,
    ],
    ...[
      { message: "Invalid input: expected string, received null", param: "messages.1.content" },
      {
        message: "Invalid input",
        param: [{ code: "invalid_type", path: ["messages", 1, "content"], message: "Invalid input: expected string" }],
      },
    ].map((error): [string, Wire, (body: Wire) => boolean, Refusal, Wire, null] => [
      `null as content, told by its place beside Zod's sentence (Vercel: ${JSON.stringify(error).slice(0, 40)})`,
      { ...ask(user, { role: "assistant", content: null, tool_calls: [call] }, result), tools: [tool] },
      somewhere(({ content }) => content === null),
      { body: { error: { ...error, type: "invalid_request_error", code: "invalid_request_error" } } },
      ask(user, { role: "assistant", content: "", tool_calls: [call] }, result),
      null,
    ]),
    [
      "null as content, in a sentence beside the status (Fastify)",
      { ...ask(user, { role: "assistant", content: null, tool_calls: [call] }, result), tools: [tool] },
      somewhere(({ content }) => content === null),
      {
        body: {
          ...{ statusCode: 400, code: "FST_ERR_VALIDATION", error: "Bad Request" },
          message: "body/messages/1/content must be string",
        },
      },
      ask(user, { role: "assistant", content: "", tool_calls: [call] }, result),
      null,
    ],
    [
      "parts as content (DeepSeek)",
      ask(
        {
          role: "system",
          content: [
            { type: "text", text: "a" },
            { type: "text", text: "b" },
          ],
        },
        user,
      ),
      somewhere(({ content }) => Array.isArray(content)),
      {
        words: "Failed to deserialize the JSON body: messages[0]: invalid type: sequence, expected a string at line 1",
      },
      ask({ role: "system", content: "a\nb" }, user),
      null,
    ],
    [
      "a system that speaks later (Qwen's template, vLLM)",
      ask(
        { role: "system", content: "a" },
        user,
        { role: "assistant", content: "b" },
        { role: "system", content: "c" },
        user,
      ),
      isLate,
      { words: "System message must be at the beginning." },
      ask(
        { role: "system", content: "a" },
        user,
        { role: "assistant", content: "b" },
        { role: "user", content: "<system-reminder>\nc\n</system-reminder>" },
        user,
      ),
      null,
    ],
    [
      "a system that speaks before and after the model has answered (Qwen's template, vLLM)",
      ask(
        { role: "system", content: "a" },
        user,
        { role: "system", content: "b" },
        { role: "assistant", content: "c" },
        user,
        { role: "system", content: [{ type: "text", text: "d" }] },
        { role: "system", content: "<system-reminder>e</system-reminder>" },
      ),
      isLate,
      { words: "System message must be at the beginning." },
      ask(
        { role: "system", content: "a\nb" },
        user,
        { role: "assistant", content: "c" },
        user,
        { role: "user", content: [{ type: "text", text: "<system-reminder>\nd\n</system-reminder>" }] },
        { role: "user", content: "<system-reminder>e</system-reminder>" },
      ),
      null,
    ],
    [
      "a system that speaks later (Qwen's template, llama.cpp)",
      ask(user, { role: "system", content: "c" }),
      isLate,
      {
        status: 500,
        words:
          "\n------------\nWhile executing CallExpression:\n ^\nError: Jinja Exception: System message must be at the beginning.",
      },
      ask({ role: "system", content: "c" }, user),
      null,
    ],
    [
      "a system that speaks later (Cohere)",
      ask({ role: "system", content: "a" }, user, { role: "system", content: "c" }),
      isLate,
      { body: { message: "system turn must be the first in the list" } },
      ask({ role: "system", content: "a\nc" }, user),
      null,
    ],
    [
      "a tool's name with a dash in it (Cohere)",
      { ...ask(user), tools: [named("resolve-library-id"), named("21st"), named("sound_1")] },
      ({ tools }) => /"name":"(?:[^"]*-|\d)/.test(JSON.stringify(tools)),
      {
        body: {
          message:
            "invalid request: tool names can only contain certain characters (A-Za-z0-9_) and can't begin with a digit (provided name: 'resolve-library-id').",
        },
      },
      { ...ask(user), tools: [named("resolve_library_id"), named("_21st"), named("sound_1")] },
      null,
    ],
    [
      "a tool's name that no letter begins (Kimi, at hosts that have no row of its own)",
      { ...ask(user), tools: [named("21st"), named("resolve-library-id")] },
      ({ tools }) => /"name":"\d/.test(JSON.stringify(tools)),
      {
        words:
          "Invalid request: function name is invalid, must start with a letter and can contain letters, numbers, underscores, and dashes",
      },
      { ...ask(user), tools: [named("t_21st"), named("resolve-library-id")] },
      null,
    ],
    ...["invalid chat setting", "chat content has invalid message role: system"].map(
      (words): [string, Wire, (body: Wire) => boolean, Refusal, Wire, null] => [
        `several systems, as MiniMax does (${words})`,
        ask({ role: "system", content: "a" }, { role: "system", content: "b" }, user),
        isLate,
        {
          body: {
            type: "error",
            error: { type: "bad_request_error", message: `invalid params, ${words} (2013)`, http_code: "400" },
          },
        },
        ask({ role: "system", content: "a\nb" }, user),
        null,
      ],
    ),
    [
      "a role, as other makers' models do at Azure, in a list beside its sentence",
      ask(brief, user),
      isDeveloper,
      {
        status: 422,
        body: {
          error: {
            ...{ code: "Invalid input", status: 422, message: "invalid input error" },
            details: [
              {
                ...{ type: "enum", loc: ["body", "messages", 0, "role"], input: "developer" },
                msg: "Input should be 'system', 'user', 'assistant' or 'tool'",
              },
            ],
          },
        },
      },
      ask({ ...brief, role: "system" }, user),
      null,
    ],
    [
      "a field, as DeepSeek's models do at Azure",
      { ...ask(user), prompt_cache_key: "k" },
      has("prompt_cache_key"),
      { words: "Unrecognized request argument supplied: prompt_cache_key" },
      { prompt_cache_key: undefined },
      "prompt_cache_key",
    ],
    [
      "turns out of turn (Gemma's template)",
      ask(brief, user, user, { role: "system", content: "c" }, { role: "assistant", content: "b" }, user),
      isOutOfTurn,
      { words: "Conversation roles must alternate user/assistant/user/assistant/..." },
      ask(
        { role: "system", content: "Be brief.\nc" },
        { ...user, content: "Hi\nHi" },
        { role: "assistant", content: "b" },
        user,
      ),
      null,
    ],
    [
      "the system, as the template of Gemma 1 and 2 does",
      ask(
        brief,
        user,
        { role: "system", content: "c" },
        { role: "assistant", content: "b" },
        { role: "system", content: "d" },
        user,
      ),
      somewhere(({ role }) => role === "system" || role === "developer"),
      { words: "System role not supported" },
      ask(
        { ...user, content: "Be brief.\nc\nHi" },
        { role: "assistant", content: "b" },
        { ...user, content: "<system-reminder>\nd\n</system-reminder>\nHi" },
      ),
      null,
    ],
    [
      "the system, as TGI tells it of such a template",
      ask({ ...brief, role: "system" }, { ...user, content: [image] }),
      somewhere(({ role }) => role === "system"),
      {
        status: 422,
        body: {
          error: "Template error: invalid operation: System role not supported (in <string>:1)",
          error_type: "template_error",
        },
      },
      ask({ ...user, content: [{ type: "text", text: "Be brief." }, image] }),
      null,
    ],
    [
      "the system, as Google says it of Gemma 3",
      ask({ ...brief, role: "system" }, user),
      somewhere(({ role }) => role === "system" || role === "developer"),
      { words: "Developer instruction is not enabled for models/gemma-3-27b-it" },
      ask({ ...user, content: "Be brief.\nHi" }),
      null,
    ],
    [
      "penalties (Google)",
      { ...ask(user), frequency_penalty: 0.5, presence_penalty: 0.1 },
      (body) => has("frequency_penalty")(body) || has("presence_penalty")(body),
      { words: "Penalty is not enabled for this model" },
      { ...ask(user), frequency_penalty: undefined, presence_penalty: undefined },
      "frequency_penalty, presence_penalty",
    ],
    [
      "the system, since it is no turn of the user's (Mistral's first templates)",
      ask({ ...brief, role: "system" }, user),
      somewhere(({ role }) => role === "system"),
      { words: "Conversation roles must alternate user/assistant/user/assistant/..." },
      ask({ ...user, content: "Be brief.\nHi" }),
      null,
    ],
    [
      "turns out of turn, in Chinese (Tencent)",
      ask(brief, user, user, { role: "assistant", content: "b" }, user),
      isOutOfTurn,
      {
        body: {
          error: {
            id: "3d98282009c094e0c9b7b11afc919ada",
            message:
              "messages 中 user（tool） 和 assistant 角色需交替出现 (一问一答)，以 user 提问开始， user（tool）提问结束, tool 可以连续出现多次",
            type: "invalid_request_error",
            param: null,
            code: "1001",
          },
        },
      },
      ask(
        { role: "system", content: "Be brief." },
        { ...user, content: "Hi\nHi" },
        { role: "assistant", content: "b" },
        user,
      ),
      null,
    ],
    [
      "calls beside which nothing is said, be it null (Databricks' Claude)",
      { ...ask(user, { role: "assistant", content: null, tool_calls: [call] }, result), tools: [tool] },
      somewhere(({ content }) => content === null || content === ""),
      {
        body: { error_code: "BAD_REQUEST", message: '{"message":"messages: text content blocks must be non-empty"}' },
      },
      { ...ask(user, { role: "assistant", content: " ", tool_calls: [call] }, result), tools: [tool] },
      null,
    ],
    [
      "calls beside which nothing is said (the same)",
      { ...ask(user, { role: "assistant", content: "", tool_calls: [call] }, result), tools: [tool] },
      somewhere(({ content }) => content === null || content === ""),
      {
        body: { error_code: "BAD_REQUEST", message: '{"message":"messages: text content blocks must be non-empty"}' },
      },
      { ...ask(user, { role: "assistant", content: " ", tool_calls: [call] }, result), tools: [tool] },
      null,
    ],
    ...[
      "parameter check failed, max_completion_tokens range is [1, 12288]",
      "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 12288]",
      "`max_tokens` must be less than or equal to `12288`, the maximum value for `max_tokens` is less than the `context_window` for this model",
      "max_tokens is too large: 32000. This model supports at most 12288 completion tokens, whereas you provided 32000.",
      "max_completion_tokens is too large: 32000.This model supports at most 12288 completion tokens.",
    ].map((words): [string, Wire, (body: Wire) => boolean, Refusal, Wire, string | null] => [
      `a ceiling beyond its own (Qianfan, Alibaba, Groq, OpenAI's models, SGLang: ${words})`,
      { ...ask(user), max_tokens: 32_000 },
      ({ max_tokens: most }) => Number(most) > 12_288,
      { words },
      { ...ask(user), max_tokens: 12_288 },
      null,
    ]),
    ...[
      "enable thinking can not be support when `stream=False`.",
      "parameter.enable_thinking must be set to false for non-streaming calls",
      "<400> InternalError.Algo.InvalidParameter: This model only support stream mode, please enable the stream parameter to access the model. ",
    ].map((words): [string, Wire, (body: Wire) => boolean, Refusal, Wire, string | null] => [
      `a whole reply of what thinks (Qwen at ModelScope and elsewhere: ${words})`,
      ask(user),
      ({ stream }) => stream !== true,
      { words },
      { ...ask(user), stream: true },
      null,
    ]),
    [
      "a tool that is forced, in the words of a server behind GMI's edge",
      { ...ask(user), tools: [tool], tool_choice: "required" },
      (body) => body["tool_choice"] === "required",
      {
        body: {
          error: {
            ...{ message: "Backend request failed with status 400", type: "backend_error", code: 400 },
            details: JSON.stringify({
              error: {
                ...{ type: "invalid_request_error", code: "400001", source: "client" },
                message:
                  "The request is invalid: tool_choice required is not supported. Please check the request body, required fields, and request format.",
              },
            }),
          },
        },
      },
      { tool_choice: "auto" },
      null,
    ],
    [
      "fields, as Zod does in a list behind a sentence (Venice)",
      { ...ask(user), store: true, user: "u" },
      has("store"),
      {
        body: {
          details: { _errors: ["Unrecognized key(s) in object: 'store', 'user'"] },
          error: "Invalid request parameters",
          issues: [
            {
              code: "unrecognized_keys",
              keys: ["store", "user"],
              path: [],
              message: "Unrecognized key(s) in object: 'store', 'user'",
            },
          ],
        },
      },
      { store: undefined, user: undefined },
      "store, user",
    ],
    [
      "a field, as Google's address for this dialect does",
      { ...ask(user), store: true },
      has("store"),
      {
        body: {
          error: {
            code: 400,
            message: 'Invalid JSON payload received. Unknown name "store": Cannot find field.',
            status: "INVALID_ARGUMENT",
          },
        },
      },
      { store: undefined },
      "store",
    ],
    [
      "the user behind a tool (Mistral's reader)",
      { ...ask(user, { role: "assistant", content: null, tool_calls: [call] }, result, user), tools: [tool] },
      somewhere(({ role }, at) => role === "user" && at === 3),
      { words: "Unexpected role 'user' after role 'tool'" },
      ask(
        user,
        { role: "assistant", content: null, tool_calls: [call] },
        result,
        { role: "assistant", content: "OK." },
        user,
      ),
      null,
    ],
    [
      "a tool that is forced",
      { ...ask(user), tools: [tool], tool_choice: { type: "function", function: { name: "f" } } },
      (body) => typeof body["tool_choice"] === "object",
      { words: "tool_choice is not supported" },
      { tool_choice: "auto", ...ask({ role: "system", content: "Answer this time by calling the tool f." }, user) },
      null,
    ],
    [
      "a choice of some tools",
      {
        ...ask(user),
        tools: [tool, { type: "function", function: { ...called, name: "g" } }],
        tool_choice: { type: "allowed_tools", allowed_tools: { mode: "required", tools: [tool] } },
      },
      (body) => typeof body["tool_choice"] === "object",
      { words: "Unsupported tool_choice: allowed_tools." },
      {
        tools: [tool],
        tool_choice: "auto",
        ...ask({ role: "system", content: "Answer this time by calling one of the tools." }, user),
      },
      null,
    ],
    [
      "a schema (DeepSeek)",
      {
        ...ask(user),
        response_format: { type: "json_schema", json_schema: { name: "x", strict: true, schema: SCHEMA } },
      },
      (body) => (body["response_format"] as Wire)["type"] === "json_schema",
      { words: "This response_format type is unavailable now" },
      { response_format: { type: "json_object" } },
      "response_format.json_schema.strict",
    ],
    [
      "any JSON (LM Studio)",
      { ...ask(user), response_format: { type: "json_object" } },
      has("response_format"),
      { body: { error: "'response_format.type' must be 'json_schema' or 'text'" } },
      {
        response_format: undefined,
        ...ask({ role: "system", content: "Answer with one JSON object and nothing else." }, user),
      },
      null,
    ],
    [
      "any JSON (Google of Gemma 3)",
      { ...ask(user), response_format: { type: "json_object" } },
      has("response_format"),
      { words: "JSON mode is not enabled for models/gemma-3-27b-it" },
      {
        response_format: undefined,
        ...ask({ role: "system", content: "Answer with one JSON object and nothing else." }, user),
      },
      null,
    ],
    ...[
      `The \`reasoning_content\` ${PASSED_BACK}`,
      "Missing `reasoning_content` field in the assistant message at message index 2.",
    ].map((words): [string, Wire, (body: Wire) => boolean, Refusal, Wire, string | null] => [
      `a turn without what was thought (DeepSeek: ${words.slice(0, 8)})`,
      { ...ask(user, { role: "assistant", content: "ok" }, user, { role: "assistant", tool_calls: [call] }, result) },
      somewhere((message) => message["role"] === "assistant" && message["reasoning_content"] === undefined),
      { words },
      ask(
        ...[user, { role: "assistant", content: "ok", reasoning_content: "" }, user],
        ...[{ role: "assistant", tool_calls: [call], reasoning_content: "" }, result],
      ),
      "reasoning_content",
    ]),
    ...[{ body: UNTHOUGHT }, { record: UNTHOUGHT }].map(
      (refusal): [string, Wire, (body: Wire) => boolean, Refusal, Wire, string | null] => [
        `a turn without what was thought (MiMo, whose reason stands where others name a field, in a ${Object.keys(refusal)})`,
        ask(user, { role: "assistant", tool_calls: [call] }, result),
        somewhere(({ role, reasoning_content: thought }) => role === "assistant" && thought === undefined),
        refusal,
        ask(user, { role: "assistant", tool_calls: [call], reasoning_content: "" }, result),
        "reasoning_content",
      ],
    ),
    [
      "null as content (MiMo)",
      { ...ask(user, { role: "assistant", content: null, tool_calls: [call] }, result), tools: [tool] },
      somewhere(({ content }) => content === null),
      { body: { error: paramIncorrect("`text` is not present") } },
      ask(user, { role: "assistant", content: "", tool_calls: [call] }, result),
      null,
    ],
    [
      "a call without what was thought (Moonshot)",
      ask(user, { role: "assistant", tool_calls: [call] }, result),
      somewhere(({ tool_calls: calls, reasoning_content: thought }) => calls !== undefined && !thought),
      { words: "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1" },
      ask(user, { role: "assistant", tool_calls: [call], reasoning_content: " " }, result),
      "reasoning_content",
    ],
    [
      "a format beside tools (Groq)",
      { ...ask(user), tools: [tool], response_format: { type: "json_object" } },
      has("response_format"),
      { words: "json mode cannot be combined with tool/function calling" },
      { response_format: undefined, tools: [tool] },
      null,
    ],
    ...BLIND.map(([words, status = 400]): [string, Wire, (body: Wire) => boolean, Refusal, Wire, string | null] => [
      `an image that is not asked about (${words})`,
      ask(
        { ...user, content: [image, { type: "text", text: "What is it?" }] },
        { role: "assistant", content: "?" },
        user,
      ),
      seesImage,
      { words, status },
      ask(
        {
          ...user,
          content: [
            { type: "text", text: "[Left out here: an image. This model takes text alone.]" },
            { type: "text", text: "What is it?" },
          ],
        },
        { role: "assistant", content: "?" },
        user,
      ),
      "messages[0].content[0]",
    ]),
  ])(
    "that refuses %s, is told it again without, and the next ones so at once",
    async (_what, body, isRefused, refusal, again, dropped) => {
      refusing(isRefused, refusal);
      const model = `lab/m${models++}`;
      const before = gateway.rows().length;
      const response = await post({ model, ...body });
      expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([200, "2"]);
      expect(response.headers.get("x-sluice-dropped")).toBe(dropped);
      expect(told(0)).toMatchObject(body);
      for (const field in again) expect(told(1)[field]).toEqual(again[field]);
      expect(gateway.rows()).toHaveLength(before + 1);
      expect((await post({ model, ...body })).headers.get("x-sluice-attempts")).toBeNull();
      expect(upstream.calls).toHaveLength(3);
      await clock.advance(PLAIN_MS);
      expect((await post({ model, ...body })).headers.get("x-sluice-attempts")).toBe("2");
      // Who wants to lose nothing is told what would be lost.
      if (dropped !== null) {
        await clock.advance(PLAIN_MS);
        const strict = await post({ model, ...body }, PATH, { "x-sluice-strict": "1" });
        expect([strict.status, upstream.calls.length]).toEqual([400, 6]);
      }
      // Behind a server that knows all of the dialect there may be models that do not.
      const all = { ...body, model: model.replace("lab", "all") };
      expect((await post(all)).headers.get("x-sluice-attempts")).toBe(Object.hasOwn(body, "max_tokens") ? null : "2");
    },
  );

  test("that takes no image keeps its word for the one that is asked about", async () => {
    refusing(seesImage, { words: "m is not a multimodal model" });
    const model = `lab/m${models++}`;
    const asked = { model, ...ask({ ...user, content: [image] }) };
    const { error } = (await (await post(asked)).json()) as { error: Wire };
    expect(error["message"]).toContain("is not a multimodal model");
    expect(upstream.calls).toHaveLength(1);
    // Once that is known, nobody is asked.
    expect(
      (await post({ model, ...ask({ ...user, content: [image] }, { role: "assistant", content: "?" }, user) })).status,
    ).toBe(200);
    expect(upstream.calls).toHaveLength(3);
    const later = await post(asked);
    const { error: ours } = (await later.json()) as { error: Wire };
    expect([later.status, ours["param"]]).toEqual([400, "messages[0].content[0]"]);
    expect(upstream.calls).toHaveLength(3);
  });

  test("that refuses a stop sequence has its reply ended there by the gateway", async () => {
    refusing(has("stop"), { words: "Unsupported parameter: 'stop' is not supported with this model." });
    for (const _ of [0, 1]) {
      const reply = (await (await post({ model: "lab/stops", ...ask(user), stop: "k" })).json()) as Wire;
      expect(reply["choices"]).toMatchObject([{ message: { content: "o" }, finish_reason: "stop" }]);
    }
    expect(upstream.calls).toHaveLength(3);
  });

  test.each([
    "This model does not support images larger than 20 MB.",
    "The model does not support image inputs of type image/gif",
  ])("that takes other images is told of all: %s", async (words) => {
    refusing(seesImage, { words });
    const body = ask({ ...user, content: [image] }, { role: "assistant", content: "?" }, user);
    expect((await post({ model: `lab/m${models++}`, ...body })).status).toBe(400);
    expect(upstream.calls).toHaveLength(1);
  });

  test.each<[string, Wire, Wire, (body: Wire) => boolean, string]>([
    [
      "one value of several (OpenAI)",
      { reasoning_effort: "minimal" },
      { reasoning_effort: "high" },
      ({ reasoning_effort: effort }) => effort === "minimal",
      "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. Supported values are: 'low', 'medium', and 'high'.",
    ],
    [
      "a depth of reasoning that is none of its own (Ollama)",
      { reasoning_effort: "minimal" },
      { reasoning_effort: "high" },
      ({ reasoning_effort: effort }) => effort === "minimal",
      `invalid reasoning value: 'minimal' (must be "high", "medium", "low", or "none")`,
    ],
    ...["none", "minimal", "xhigh"].map((level): [string, Wire, Wire, (body: Wire) => boolean, string] => [
      `the level ${level} (LMDeploy)`,
      { reasoning_effort: level },
      { reasoning_effort: "high" },
      ({ reasoning_effort: effort }) => effort === level,
      "body.reasoning_effort: Input should be 'low', 'medium', 'high' or 'max'",
    ]),
    [
      "a call that is required (LMDeploy)",
      { tools: [tool], tool_choice: "required" },
      { tools: [tool], tool_choice: { type: "function", function: { name: "f" } } },
      ({ tool_choice: choice }) => choice === "required",
      "Response parser 'ResponseParser' does not support `tool_choice=\"required\"`.",
    ],
    ...[
      "[{'type': 'literal_error', 'loc': ('body', 'reasoning_effort'), 'msg': \"Input should be 'low', 'medium' or 'high'\", 'input': 'none', 'ctx': {'expected': \"'low', 'medium' or 'high'\"}}]",
      "`reasoning_effort` must be one of `low`, `medium`, or `high`",
      "Failed to format request body, reasoning_effort is none, not one of ['low', 'medium', 'high', 'xhigh', 'max'].",
      "reasoning_effort: Invalid enum value. Expected 'low' | 'medium' | 'high', received 'none'",
      'Validation error: reasoning_effort: Invalid option: expected one of "high"|"medium"|"low"',
      "Failed to deserialize the JSON body into the target type: reasoning_effort: unknown variant `none`, expected one of `low`, `medium`, `high` at line 1 column 90",
    ].map((words): [string, Wire, Wire, (body: Wire) => boolean, string] => [
      `a depth of reasoning that is none of its own (vLLM, Groq, Huawei, Zod, serde: ${words.slice(0, 40)})`,
      { reasoning_effort: "none" },
      { reasoning_effort: "high" },
      ({ reasoning_effort: effort }) => effort === "none",
      words,
    ]),
    [
      "thinking to be switched off (OpenRouter)",
      { reasoning_effort: "none" },
      { reasoning_effort: "high" },
      ({ reasoning_effort: effort }) => effort === "none",
      "Reasoning is mandatory for this endpoint and cannot be disabled.",
    ],
    [
      "one way to force a tool (LM Studio)",
      { tools: [tool], tool_choice: { type: "function", function: { name: "f" } } },
      { tools: [tool], tool_choice: "required" },
      ({ tool_choice: choice }) => typeof choice === "object",
      "Invalid tool_choice type: 'object'. Supported string values: none, auto, required",
    ],
    [
      "the other way to force a tool (vLLM)",
      { tools: [tool], tool_choice: "required" },
      { tools: [tool], tool_choice: { type: "function", function: { name: "f" } } },
      ({ tool_choice: choice }) => choice === "required",
      'Value error, `tool_choice` must either be a named tool, "auto", or "none".',
    ],
    [
      "one way to force a tool (hosts of OpenRouter's)",
      { tools: [tool], tool_choice: { type: "function", function: { name: "f" } } },
      { tools: [tool], tool_choice: "required" },
      ({ tool_choice: choice }) => typeof choice === "object",
      "No endpoints found that support the provided 'tool_choice' value. To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing",
    ],
    [
      "a forced tool while it thinks (DeepSeek)",
      { tools: [tool], tool_choice: "required", thinking: { type: "enabled" } },
      { tools: [tool], tool_choice: "required" },
      (body) => body["thinking"] !== undefined && body["tool_choice"] === "required",
      "Thinking mode does not support this tool_choice",
    ],
    [
      "a forced tool while it thinks (Qwen)",
      { tools: [tool], tool_choice: "required", enable_thinking: true },
      { tools: [tool], tool_choice: "required" },
      (body) => body["enable_thinking"] === true && body["tool_choice"] === "required",
      "The tool_choice parameter does not support being set to required or object in thinking mode",
    ],
    [
      "JSON while it thinks (Qwen)",
      { response_format: { type: "json_object" }, enable_thinking: true },
      { response_format: { type: "json_object" } },
      (body) => body["enable_thinking"] === true && Object.hasOwn(body, "response_format"),
      "Json mode response is not supported when enable_thinking is true",
    ],
    [
      "a field beside another one",
      { logprobs: true, tools: [tool] },
      { logprobs: true },
      (body) => body["tools"] !== undefined && body["logprobs"] === true,
      "`logprobs` is not supported with tools",
    ],
    [
      "to think behind calls that it did not think before (Claude behind LiteLLM, Poe)",
      { reasoning_effort: "low", ...ask(user, { role: "assistant", content: null, tool_calls: [call] }, result) },
      { reasoning_effort: "low" },
      (body) => body["reasoning_effort"] === "low" && messagesOf(body).some(({ role }) => role === "tool"),
      "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).",
    ],
    [
      "an effort beside tools (OpenAI)",
      { reasoning_effort: "low", tools: [tool] },
      { reasoning_effort: "low" },
      (body) => body["tools"] !== undefined && body["reasoning_effort"] === "low",
      "Function tools with reasoning_effort are not supported for gpt-5.2 in /v1/chat/completions.",
    ],
  ])(
    "that refuses %s, is told what else it takes as it came, and what it knows no more at once",
    async (_what, odd, taken, isRefused, words) => {
      const status = words.startsWith("No endpoints") ? 404 : 400;
      upstream.always(PATH, ({ json: body }) => {
        if (has("store")(body as Wire)) return refuse({ words: "property 'store' is unsupported" });
        return isRefused(body as Wire) ? refuse({ words, status }) : json(chatReply("ok"));
      });
      const model = `lab/m${models++}`;
      // What it does not know is learnt before and behind what it refuses of this request alone.
      upstream.answer(PATH, refuse({ words, status }));
      const first = await post({ model, ...ask(user), store: true, ...odd });
      expect([first.status, first.headers.get("x-sluice-attempts")]).toEqual([200, "3"]);
      const next = await post({ model, ...ask(user), store: true, ...taken });
      expect([next.headers.get("x-sluice-attempts"), next.headers.get("x-sluice-dropped")]).toEqual([null, "store"]);
      expect(told(3)).toMatchObject({ ...ask(user), ...taken });
      expect(told(3)["store"]).toBeUndefined();
      expect((await post({ model, ...ask(user), store: true, ...odd })).headers.get("x-sluice-attempts")).toBe("2");
    },
  );

  test("tells by one model nothing of another one, which the request goes to next", async () => {
    upstream.always(PATH, ({ json: body }) => {
      if ((body as Wire)["model"] === "small") return json(chatReply("ok"));
      return has("store")(body as Wire)
        ? refuse({ words: "property 'store' is unsupported" })
        : json({}, { status: 500 });
    });
    const response = await post({ model: "lab/two-ways", ...ask(user), store: true });
    expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([200, "3"]);
    expect(upstream.calls.map(({ json: body }) => (body as Wire)["store"])).toEqual([true, undefined, true]);
    await post({ model: "lab/small", ...ask(user), store: true });
    expect(told(3)["store"]).toBe(true);
  });

  test("tells nothing of another vendor's model of the same name", async () => {
    upstream.answer(PATH, refuse({ words: "property 'store' is unsupported" }), json({}, { status: 500 }));
    upstream.always(PATH, json(chatReply("ok")));
    const response = await post({ model: "lab/two-vendors", ...ask(user), store: true });
    expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([200, "3"]);
    expect(upstream.calls.map(({ json: body }) => (body as Wire)["store"])).toEqual([true, undefined, true]);
  });

  test("keeps what it teaches for good when it refuses one thing after the other, and one of them for this request alone", async () => {
    const ONCE =
      "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. Supported values are: 'low'.";
    upstream.always(PATH, ({ json: body }) => {
      const field = ["store", "user"].find((name) => has(name)(body as Wire));
      if (field) return refuse({ words: `property '${field}' is unsupported` });
      return (body as Wire)["reasoning_effort"] === "minimal" ? refuse({ words: ONCE }) : json(chatReply("ok"));
    });
    const body = { model: `lab/m${models++}`, ...ask(user), store: true, user: "u" };
    const first = await post({ ...body, reasoning_effort: "minimal" });
    expect([first.status, first.headers.get("x-sluice-attempts")]).toEqual([200, "4"]);
    const next = await post({ ...body, reasoning_effort: "low" });
    expect([next.headers.get("x-sluice-attempts"), next.headers.get("x-sluice-dropped")]).toEqual([
      null,
      "store, user",
    ]);
    expect(told(4)).toMatchObject({ reasoning_effort: "low" });
  });

  test("that does not know the model is told nothing again, whatever it says beside that", async () => {
    refusing(() => true, { status: 404, words: "property 'store' is unsupported" });
    const response = await post({ model: `other/m${models++}`, ...ask(user), store: true });
    expect([response.ok, upstream.calls.length]).toEqual([false, 1]);
  });

  test("teaches one thing after the other, to clients of every dialect, and what the gateway added goes too", async () => {
    upstream.always(PATH, ({ json: sent }) => {
      const known = new Set(["model", "messages", "stream", "max_tokens", "tools"]);
      const odd = Object.keys(sent as Wire).find((field) => !known.has(field));
      if (odd)
        return refuse({ body: { error_code: "BAD_REQUEST", message: `Bad request: json: unknown field "${odd}"` } });
      const record = {
        id: "c",
        choices: [{ index: 0, delta: { role: "assistant", content: "ok" }, finish_reason: "stop" }],
      };
      const parts = [`data: ${JSON.stringify(record)}\n\ndata: [DONE]\n\n`];
      return { headers: { "content-type": "text/event-stream" }, parts, framing: "length", finish: "end" };
    });
    const messages = { max_tokens: 9, stream: true, metadata: { user_id: "u" }, ...ask(user) };
    const ofMessages = await post({ model: "lab/go1", ...messages }, "/v1/messages");
    expect([ofMessages.status, ofMessages.headers.get("x-sluice-attempts")]).toEqual([200, "3"]);
    expect(ofMessages.headers.get("x-sluice-dropped")).toBe("metadata.user_id");
    expect(await ofMessages.text()).toContain("message_stop");
    expect(told(2)).toEqual({ model: "go1", messages: [user], max_tokens: 9, stream: true });
    const responses = {
      max_output_tokens: 9,
      input: "Hi",
      stream: true,
      parallel_tool_calls: false,
      tools: [{ type: "function", ...called }],
    };
    const ofResponses = await post({ model: "lab/go2", ...responses }, "/v1/responses");
    expect([ofResponses.status, ofResponses.headers.get("x-sluice-attempts")]).toEqual([200, "3"]);
    expect(ofResponses.headers.get("x-sluice-dropped")).toBe("parallel_tool_calls");
    expect(await ofResponses.text()).toContain("response.completed");
    // The ceiling goes by the name that every server reads, whatever the client calls it.
    for (const { json: sent } of upstream.calls) expect(sent).toMatchObject({ max_tokens: 9 });
  });

  test.each([
    ["what it is about", "property 'messages' is unsupported"],
    ["tools", '"tiny" does not support tools'],
    [
      "tools beside what it does not know",
      "litellm: ollama does not support parameters: ['user', 'tools'], for model=x",
    ],
    ["what an answer must look like", "Validation: Unsupported parameter(s): `guided_json`"],
    ["what the answer is made from", "body.documents: Extra inputs are not permitted"],
    ["a schema that is at fault", "Invalid schema for response_format 'x': 'additionalProperties' must be false"],
    ["without a reason that is known", "No."],
    ["a schema's words", "response_format: unsupported keyword in json_schema: uniqueItems"],
    ["a schema that it cannot compile", "Failed to compile json_schema: unsupported type 'foo'"],
    ["two forms of one answer (llama.cpp)", "Cannot use both json_schema and grammar"],
    ["two forms of one answer (SGLang)", "Only one of json_schema, regex, ebnf, or structural_tag can be set."],
    ["what was said", "Your content was flagged. This is invalid."],
    ["what was said, in other words", "Your content was flagged; none of it was processed."],
    ["a long message", "Invalid 'messages[1].content': string too long. Expected a string with maximum length 10"],
  ])("is asked once where it refuses %s", async (_what, words) => {
    refusing(() => true, { words });
    const format = { type: "json_schema", json_schema: { name: "x", schema: SCHEMA } };
    const parts = { role: "system", content: [{ type: "text", text: "a" }] };
    const own = { guided_json: SCHEMA, documents: ["a"], user: "u" };
    const body = { ...ask(parts, user), tools: [tool], response_format: format, ...own };
    expect((await post({ model: `lab/m${models++}`, ...body })).status).toBe(400);
    expect(upstream.calls).toHaveLength(1);
  });

  test("has what its model thought put back, once it has said that it wants that, for clients that leave it out", async () => {
    const missed = somewhere(
      (message) => message["role"] === "assistant" && message["reasoning_content"] === undefined,
    );
    let answers = 0;
    upstream.always(PATH, ({ json: sent }) => {
      if (missed(sent as Wire)) return refuse({ words: "The `reasoning_content` must be passed back to the API." });
      const number = ++answers;
      const reply = chatReply("");
      const message = {
        ...{ role: "assistant", content: null, reasoning_content: `Thought ${number}.` },
        tool_calls: [{ ...call, id: `call_thinker_${number}` }],
      };
      return json({ ...reply, choices: [{ index: 0, message, finish_reason: "tool_calls" }] });
    });
    const messages: Wire[] = [user];
    const model = `lab/m${models++}`;
    for (let round = 1; round <= 3; round++) {
      expect((await post({ model, messages })).status).toBe(200);
      const id = `call_thinker_${round}`;
      messages.push({ role: "assistant", tool_calls: [{ ...call, id }] }, { ...result, tool_call_id: id });
    }
    const thought = messagesOf(told(3)).flatMap((message) => message["reasoning_content"] ?? []);
    expect(thought).toEqual(["", "Thought 2."]);
  });

  /** Of vLLM's, which the conversation began at. */
  const longId = `chatcmpl-tool-${"0123456789abcdef".repeat(2)}`;
  const longCall = { ...call, id: longId };
  const TOO_LONG =
    "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 46 instead.";
  const NO_IMAGE =
    "Invalid 'messages[2]'. Image URLs are only allowed for messages with role 'user', but this message with role 'tool' contains an image URL.";
  const hasLongId = somewhere((message) => JSON.stringify(message).includes(longId));
  const showsInResult = somewhere(
    ({ role, content }) => role === "tool" && JSON.stringify(content).includes("image_url"),
  );

  test.each([
    ["lab", 2],
    ["all", 1],
  ])(
    "gets the long ids of another server's calls short, where it takes no more than forty characters (%s)",
    async (vendor, calls) => {
      refusing(hasLongId, { words: TOO_LONG });
      const messages = [user, { role: "assistant", content: null, tool_calls: [longCall, call] }];
      const results = [{ ...result, tool_call_id: longId }, result];
      const model = `${vendor}/m${models++}`;
      expect((await post({ model, messages: [...messages, ...results], tools: [tool] })).status).toBe(200);
      expect(upstream.calls).toHaveLength(calls);
      const [, asked = {}, first, second] = messagesOf(told(calls - 1));
      const ids = (asked["tool_calls"] as Wire[]).map(({ id }) => id);
      expect(ids).toEqual([expect.stringMatching(/^call_\w{20}$/), call.id]);
      expect([first?.["tool_call_id"], second?.["tool_call_id"]]).toEqual(ids);
      // The same one in the next request, which is refused no more.
      await post({ model, messages: [...messages, ...results, user], tools: [tool] });
      expect(upstream.calls).toHaveLength(calls + 1);
      expect(messagesOf(told(calls))[2]?.["tool_call_id"]).toBe(ids[0]);
    },
  );

  test.each([
    ["lab", 2],
    ["all", 1],
  ])(
    "gets the image of a tool's result as the user's, behind all results of the turn, where results are text alone (%s)",
    async (vendor, calls) => {
      refusing(showsInResult, { words: NO_IMAGE });
      const other = { ...call, id: "call_other" };
      const found = { type: "text", text: "found" };
      const messages = [
        user,
        { role: "assistant", content: null, tool_calls: [call, other] },
        { ...result, content: [found, image] },
        { ...result, tool_call_id: other.id },
        user,
      ];
      expect((await post({ model: `${vendor}/m${models++}`, messages, tools: [tool] })).status).toBe(200);
      expect(upstream.calls).toHaveLength(calls);
      expect(messagesOf(told(calls - 1)).slice(2)).toEqual([
        { ...result, content: [found, { type: "text", text: "[image 1 attached below]" }] },
        { ...result, tool_call_id: other.id },
        { role: "user", content: [{ type: "text", text: "[image 1 of the tool result above]" }, image] },
        user,
      ]);
    },
  );

  test("whose results may hold images gets them where they are", async () => {
    upstream.always(PATH, () => json(chatReply("ok")));
    const messages = [user, { role: "assistant", content: null, tool_calls: [call] }, { ...result, content: [image] }];
    await post({ model: `lab/m${models++}`, messages, tools: [tool] });
    expect(messagesOf(told(0))[2]).toEqual({ ...result, content: [image] });
  });

  test("is told nothing more than eight times again, and nothing is learnt of what it refuses for good", async () => {
    const fields = Object.fromEntries(Array.from({ length: 12 }, (_, at) => [`odd_${at}`, at]));
    upstream.always(PATH, ({ json: sent }) => {
      const odd = Object.keys(sent as Wire).find((field) => field.startsWith("odd_"));
      return refuse({ words: `property '${odd}' is unsupported` });
    });
    const model = `lab/m${models++}`;
    const before = gateway.rows().length;
    for (const calls of [9, 18]) {
      const response = await post({ model, ...ask(user), ...fields });
      expect([response.status, upstream.calls.length]).toEqual([400, calls]);
    }
    expect(told(9)).toMatchObject(fields);
    expect(gateway.rows()).toHaveLength(before);
  });
});
