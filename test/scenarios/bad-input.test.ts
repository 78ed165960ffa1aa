import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { connect } from "node:net";
import { BAD_MEDIA, held, PLACES } from "../dialects/bad-media.ts";
import { CLIENTS } from "../dialects/crossing.ts";
import { sendRaw } from "../http/raw-request.ts";
import { startApp, vendorAt } from "../support/app.ts";
import { type Listening, listen } from "../support/listening.ts";
import { until, within, workBelow } from "../support/wait.ts";
import { ask, ONE_ROUTE, PATH, readError, readFailure, type ScenarioLab, startScenarioLab } from "./lab.ts";
import { SIDES, type Side } from "./wires.ts";

setDefaultTimeout(30_000);

let lab: ScenarioLab;
let listening: Listening;
let port = 0;
beforeAll(async () => {
  lab = await startScenarioLab();
  listening = listen(lab.gateway);
  port = listening.port;
});
afterAll(async () => {
  await listening.stop();
  await lab.stop();
});
afterEach(() => {
  const calls = [lab.vendors.chat, lab.vendors.messages, lab.spare].flatMap((upstream) => upstream.calls);
  const rows = lab.rows();
  const log = JSON.stringify(lab.gateway.log);
  lab.reset();
  expect([calls, rows, lab.gateway.app.running.count]).toEqual([[], [], 0]);
  expect(log).not.toContain(lab.gateway.key);
});

/** Contract 6 for what is the client's own fault: status, and the type in each dialect. */
const ERRORS = {
  invalid_request: { status: 400, chat: "invalid_request_error", messages: "invalid_request_error" },
  invalid_api_key: { status: 401, chat: "invalid_request_error", messages: "authentication_error" },
  permission_denied: { status: 403, chat: "permission_error", messages: "permission_error" },
  model_not_found: { status: 404, chat: "invalid_request_error", messages: "not_found_error" },
  not_found: { status: 404, chat: "invalid_request_error", messages: "not_found_error" },
  method_not_allowed: { status: 405, chat: "invalid_request_error", messages: "invalid_request_error" },
  request_too_large: { status: 413, chat: "invalid_request_error", messages: "request_too_large" },
  unsupported_media_type: { status: 415, chat: "invalid_request_error", messages: "invalid_request_error" },
  vendor_not_configured: { status: 503, chat: "server_error", messages: "api_error" },
} as const;
type Code = keyof typeof ERRORS;

async function expectRefusal(side: Side, response: Response, code: Code, param: string | null = null): Promise<string> {
  const told = await readFailure(side, response);
  const { status, [side]: type } = ERRORS[code];
  // Claude Code asks again at a 401 that does not say otherwise.
  const retry = status >= 500 || status === 401 ? "false" : null;
  expect(told).toMatchObject({ status, type, code, param, retry, retryAfter: null });
  return told.message;
}

const both = <T extends { name: string }>(rows: readonly T[]) =>
  SIDES.flatMap((side) => rows.map((row) => ({ ...row, side, name: `${side}: ${row.name}` })));

/** A sound request with one field set, as JSON text. */
const withField = (side: Side, more: Record<string, unknown>) =>
  JSON.stringify(ask(side, ONE_ROUTE[side], "blocking", more));

const deep = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;

/** Bodies that are no request in any dialect. `param` is what the error points at. */
const BODIES: { name: string; body: (side: Side) => string | Uint8Array<ArrayBuffer>; param?: string }[] = [
  { name: "nothing", body: () => "" },
  { name: "blanks", body: () => "  \n" },
  { name: "a word", body: () => "hello" },
  { name: "a form", body: () => "model=lab%2Fone&messages=hi" },
  { name: "JSON cut off", body: (side) => withField(side, {}).slice(0, -5) },
  { name: "JSON with a tail", body: (side) => `${withField(side, {})}]` },
  { name: "two documents", body: (side) => withField(side, {}) + withField(side, {}) },
  { name: "a trailing comma", body: (side) => `${withField(side, {}).slice(0, -1)},}` },
  { name: "single quotes", body: (side) => withField(side, {}).replaceAll('"', "'") },
  { name: "a comment", body: (side) => `/* hi */${withField(side, {})}` },
  { name: "NaN", body: (side) => withField(side, { temperature: 7 }).replace(":7", ":NaN") },
  { name: "1e400", body: (side) => withField(side, { temperature: 7 }).replace(":7", ":1e400") },
  { name: "null", body: () => "null" },
  { name: "an array", body: () => "[]" },
  { name: "a number", body: () => "42" },
  { name: "a string", body: () => '"hello"' },
  { name: "65 levels", body: (side) => withField(side, { x: 1 }).replace('"x":1', `"x":${deep(64)}`) },
  { name: "a million levels", body: (side) => withField(side, { x: 1 }).replace('"x":1', `"x":${deep(1_000_000)}`) },
  { name: "a million levels that never close", body: () => `{"model":${"[".repeat(1_000_000)}` },
  {
    name: "600,000 parts",
    body: (side) => withField(side, { x: 1 }).replace('"x":1', `"x":[${"1,".repeat(600_000)}1]`),
  },
  {
    name: "__proto__ at the top",
    body: (side) => withField(side, { x: 1 }).replace('"x":1', '"__proto__":{"admin":true}'),
    param: "__proto__",
  },
  {
    name: "__proto__ inside a message",
    body: (side) => withField(side, {}).replace('"role"', '"__proto__":{"x":1},"role"'),
    param: "messages[0].__proto__",
  },
  {
    name: "__proto__ in escapes",
    body: (side) => withField(side, { x: 1 }).replace('"x":1', '"\\u005f_prot\\u006f__":1'),
    param: "__proto__",
  },
  { name: "bytes that are no UTF-8", body: () => new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]) },
  {
    name: "half a surrogate in UTF-8",
    body: () => new Uint8Array([0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x3a, 0x31, 0x7d]),
  },
  { name: "UTF-16", body: (side) => new Uint8Array(Buffer.from(withField(side, {}), "utf16le")) },
];

describe("bodies that are no request", () => {
  test.each(both(BODIES))("$name", async ({ side, body, param }) => {
    const headers = { "content-type": "application/json", authorization: `Bearer ${lab.gateway.key}` };
    const bytes = body(side);
    const refuse = async () => {
      const response = await lab.gateway.call(PATH[side], { method: "POST", headers, body: bytes });
      await expectRefusal(side, response, "invalid_request", param ?? null);
    };
    expect(await workBelow(500, refuse)).toBeLessThan(500);
  });

  test.each(SIDES)("33 MB: %s", async (side) => {
    const response = await lab.gateway.post(PATH[side], withField(side, { x: "x".repeat(33 * 1024 * 1024) }));
    await expectRefusal(side, response, "request_too_large");
  });
});

const WRONG: unknown[] = [42, "text", true, [], {}, [1], { x: 1 }, -1, 1.5, ""];

/** Fields and which of the wrong values above are right after all. */
const FIELDS: Record<Side, Record<string, (value: unknown) => boolean>> = {
  chat: {
    model: () => false,
    messages: () => false,
    stream: (value) => typeof value === "boolean",
    stream_options: (value) => typeof value === "object" && !Array.isArray(value),
    max_tokens: (value) => value === 42,
    max_completion_tokens: (value) => value === 42,
    temperature: (value) => typeof value === "number",
    top_p: (value) => typeof value === "number",
    n: (value) => value === 42,
    stop: (value) => typeof value === "string" || (Array.isArray(value) && value.length === 0),
    tools: (value) => Array.isArray(value) && value.length === 0,
    tool_choice: (value) => typeof value === "string" || (typeof value === "object" && !Array.isArray(value)),
    parallel_tool_calls: (value) => typeof value === "boolean",
    response_format: () => false,
    user: (value) => typeof value === "string",
  },
  messages: {
    model: () => false,
    messages: () => false,
    max_tokens: (value) => value === 42,
    stream: (value) => typeof value === "boolean",
    system: (value) => typeof value === "string" || (Array.isArray(value) && value.length === 0),
    // Interface 4.5: 0 to 1, where the other dialect takes 0 to 2 and leaves the rest to the vendor.
    temperature: () => false,
    top_p: (value) => typeof value === "number",
    top_k: (value) => Number.isInteger(value),
    stop_sequences: (value) => Array.isArray(value) && value.length === 0,
    tools: (value) => Array.isArray(value) && value.length === 0,
    tool_choice: () => false,
    metadata: (value) => typeof value === "object" && !Array.isArray(value),
  },
};

const WRONG_FIELDS = SIDES.flatMap((side) =>
  Object.entries(FIELDS[side]).flatMap(([field, isRight]) =>
    WRONG.filter((value) => !isRight(value)).map((value) => ({
      side,
      field,
      value,
      name: `${side}: ${field} = ${JSON.stringify(value)}`,
    })),
  ),
);

describe("fields of the wrong type", () => {
  test.each(WRONG_FIELDS)("$name", async ({ side, field, value }) => {
    // A model that is a word is no wrong type but an unknown model.
    const unknown = field === "model" && value === "text";
    const response = await lab.gateway.post(PATH[side], ask(side, ONE_ROUTE[side], "blocking", { [field]: value }));
    const told = await readFailure(side, response);
    expect(told).toMatchObject({ status: unknown ? 404 : 400, code: unknown ? "model_not_found" : "invalid_request" });
    // The path of the field itself, or of what is wrong inside it.
    expect(told.param?.replace(/[.[].*$/, "")).toBe(field);
  });
});

/** What a fault of type or bounds is told in, by the path, the field and its value. */
const WORDS: [path: string, field: string, value: unknown, words: string][] = [
  [PATH.chat, "model", 5, "model must be a string: the ID of a model, such as <vendor>/<model_name>."],
  [PATH.chat, "model", null, "model is required: the ID of a model, such as <vendor>/<model_name>."],
  [PATH.chat, "max_tokens", -1, "max_tokens must be a whole number of at least 1, or null"],
  [PATH.chat, "n", 1.5, "n must be a whole number of at least 1, or null"],
  [PATH.chat, "tools", "all", "tools must be a list, or null"],
  [PATH.chat, "stream", "yes", "stream must be true or false, or null"],
  [PATH.chat, "temperature", "hot", "temperature must be a number, or null"],
  [PATH.chat, "stop", 5, "stop must be a string or an array of strings, or null"],
  [PATH.chat, "function_call", 5, "function_call must be a string or an object, or null"],
  [PATH.chat, "response_format", "json", "response_format must be an object, or null"],
  [PATH.chat, "messages", "Hi", "messages must be a list of at least 1 item"],
  [PATH.messages, "model", 5, "model must be a string: a model ID such as <vendor>/<model_name>"],
  [PATH.messages, "max_tokens", -1, "max_tokens must be a whole number of at least 0"],
  [PATH.messages, "tools", "all", "tools must be a list, or null"],
  [PATH.messages, "stream", "yes", "stream must be true or false, or null"],
  [PATH.messages, "top_k", "few", "top_k must be a whole number, or null"],
  [PATH.messages, "temperature", 1.5, "temperature must be a number from 0 to 1, or null"],
  [PATH.messages, "stop_sequences", "end", "stop_sequences must be a list of strings, or null"],
  [PATH.messages, "system", 5, "system must be a string or an array of text blocks, or null"],
  ["/v1/responses", "model", 5, "model must be a string: a model ID such as <vendor>/<model_name>"],
  ["/v1/responses", "max_output_tokens", -1, "max_output_tokens must be a whole number of at least 1, or null"],
  ["/v1/responses", "tools", "all", "tools must be a list, or null"],
  ["/v1/responses", "stream", "yes", "stream must be true or false, or null"],
  ["/v1/responses", "instructions", 5, "instructions must be a string, or null"],
  ["/v1/responses", "input", 5, "input must be a string or an array of input items, or null"],
];

describe("a fault says what type and bounds are wanted", () => {
  test.each(WORDS)("%s: %s = %p", async (path, field, value, words) => {
    const side = path === PATH.messages ? "messages" : "chat";
    const body =
      path === "/v1/responses"
        ? { model: ONE_ROUTE.chat, input: "Hi", [field]: value }
        : ask(side, ONE_ROUTE[side], "blocking", { [field]: value });
    const told = await readFailure(side, await lab.gateway.post(path, body));
    expect([told.status, told.param, told.message]).toEqual([400, field, words]);
  });
});

describe("a choice of a tool that is not offered", () => {
  const offered = { name: "look", input_schema: { type: "object" } };
  const called = { type: "function", name: "look", parameters: { type: "object" } };
  const input = { model: ONE_ROUTE.chat, input: "Hi" };
  const named = { type: "function", function: { name: "look" } };
  test.each([
    ["messages", PATH.messages, { tools: [offered], tool_choice: { type: "tool", name: "seek" } }],
    ["messages", PATH.messages, { tool_choice: { type: "tool", name: "look" } }],
    ["chat", "/v1/responses", { tools: [called], tool_choice: { type: "function", name: "seek" } }],
    ["chat", "/v1/responses", { tools: [called], tool_choice: { type: "custom", name: "look" } }],
    ["chat", PATH.chat, { tools: [named], tool_choice: { type: "function", function: { name: "seek" } } }],
    ["chat", PATH.chat, { tools: [], tool_choice: named }],
    ["chat", PATH.chat, { tool_choice: { type: "custom", custom: { name: "look" } } }],
  ] as const)("is refused before its vendor is asked: %s shape, %s, %p", async (side, path, fields) => {
    const body = path === "/v1/responses" ? { ...input, ...fields } : ask(side, ONE_ROUTE[side], "blocking", fields);
    const told = await readFailure(side, await lab.gateway.post(path, body));
    expect([told.status, told.param, told.message]).toEqual([
      400,
      "tool_choice",
      "tool_choice names a tool that is not offered",
    ]);
    expect(lab.gateway.rows()).toEqual([]);
  });

  test.each([
    ["tool_choice", { tool_choice: "required" }],
    ["tool_choice", { tools: [], tool_choice: "any" }],
    ["function_call", { functions: [{ name: "look" }], function_call: { name: "seek" } }],
  ] as const)("%s, and none is there: %p", async (param, fields) => {
    await expectRefusal(
      "chat",
      await lab.gateway.post(PATH.chat, ask("chat", ONE_ROUTE.chat, "blocking", fields)),
      "invalid_request",
      param,
    );
    expect(lab.gateway.rows()).toEqual([]);
  });
});

const message = (fields: Record<string, unknown>) => ({ messages: [fields] });

/** Requests with something missing or wrong inside, and the path that the error names. */
const INSIDE: { side: Side; param: string; fields: Record<string, unknown> }[] = [
  { side: "chat", param: "messages", fields: { messages: undefined } },
  { side: "chat", param: "messages[0].role", fields: message({ content: "Hi" }) },
  { side: "chat", param: "messages[0].role", fields: message({ role: "robot", content: "Hi" }) },
  { side: "chat", param: "messages[0].content", fields: message({ role: "user" }) },
  { side: "chat", param: "messages[0].content", fields: message({ role: "user", content: null }) },
  { side: "chat", param: "messages[0].content[0].type", fields: message({ role: "user", content: [{ text: "Hi" }] }) },
  {
    side: "chat",
    param: "messages[0].content[0].text",
    fields: message({ role: "user", content: [{ type: "text" }] }),
  },
  {
    side: "chat",
    param: "messages[0].content[0].image_url",
    fields: message({ role: "user", content: [{ type: "image_url" }] }),
  },
  { side: "chat", param: "messages[0].tool_call_id", fields: message({ role: "tool", content: "4" }) },
  { side: "chat", param: "tools[0].function", fields: { tools: [{ type: "function" }] } },
  { side: "chat", param: "tools[0].function.name", fields: { tools: [{ type: "function", function: {} }] } },
  { side: "messages", param: "messages", fields: { messages: undefined } },
  { side: "messages", param: "max_tokens", fields: { max_tokens: undefined } },
  { side: "messages", param: "messages[0].role", fields: message({ content: "Hi" }) },
  { side: "messages", param: "messages[0].role", fields: message({ role: "tool", content: "Hi" }) },
  { side: "messages", param: "messages[0].content", fields: message({ role: "user" }) },
  {
    side: "messages",
    param: "messages[0].content[0].text",
    fields: message({ role: "user", content: [{ type: "text" }] }),
  },
  {
    side: "messages",
    param: "messages[0].content[0].tool_use_id",
    fields: message({ role: "user", content: [{ type: "tool_result", content: "4" }] }),
  },
  {
    side: "messages",
    param: "messages[0].content[0]",
    fields: message({ role: "user", content: [{ type: "tool_use", id: "t", name: "f", input: {} }] }),
  },
  {
    side: "chat",
    param: "messages[0].tool_calls[0].function",
    fields: message({ role: "assistant", tool_calls: [{ id: "c" }] }),
  },
  { side: "messages", param: "system[0].text", fields: { system: [{ type: "text" }] } },
];

describe("what is missing or wrong inside", () => {
  const rows = INSIDE.map((row) => ({ ...row, name: `${row.side}: ${row.param} ${JSON.stringify(row.fields)}` }));
  test.each(rows)("$name", async ({ side, param, fields }) => {
    const response = await lab.gateway.post(PATH[side], ask(side, ONE_ROUTE[side], "stream", fields));
    await expectRefusal(side, response, "invalid_request", param);
  });

  test.each(SIDES)("no model: %s", async (side) => {
    const response = await lab.gateway.post(PATH[side], ask(side, "", "blocking", { model: undefined }));
    await expectRefusal(side, response, "invalid_request", "model");
  });
});

describe("media that no vendor can read", () => {
  const paths = { ...PATH, responses: "/v1/responses" };
  const requests = CLIENTS.flatMap((client) => BAD_MEDIA[client].map((row) => [client, ...row] as const));

  test.each(requests)("%s: %s", async (client, _what, part, field) => {
    const side = client === "messages" ? "messages" : "chat";
    for (const place of PLACES) {
      const { body, path } = held(client, place, part);
      for (const model of Object.values(ONE_ROUTE)) {
        for (const stream of [false, true]) {
          const asked = { model, ...(client === "messages" && { max_tokens: 64 }), ...body, stream };
          const response = await lab.gateway.post(paths[client], asked);
          await expectRefusal(side, response, "invalid_request", `${path}.${field}`);
        }
      }
    }
  });

  test.each(BAD_MEDIA.messages)("is not counted: %s", async (_what, part, field) => {
    const { body, path } = held("messages", "said", part);
    const response = await lab.gateway.post(`${PATH.messages}/count_tokens`, { model: ONE_ROUTE.messages, ...body });
    await expectRefusal("messages", response, "invalid_request", `${path}.${field}`);
  });

  test.each(CLIENTS)("is not shown translated: %s", async (dialect) => {
    const [[, part, field] = ["", {}, ""]] = BAD_MEDIA[dialect];
    const { body, path } = held(dialect, "said", part);
    const asked = { dialect, body: { model: ONE_ROUTE.chat, max_tokens: 64, ...body } };
    const response = await lab.gateway.post("/v1/debug/translate", asked);
    await expectRefusal("chat", response, "invalid_request", `${path}.${field}`);
  });
});

/** Model IDs that nobody serves. */
const MODELS: { name: string; model: string; code: Code }[] = [
  { name: "no prefix", model: "gpt-4o", code: "model_not_found" },
  { name: "an empty prefix", model: "/gpt-4o", code: "model_not_found" },
  { name: "a prefix alone", model: "lab/", code: "model_not_found" },
  { name: "an unknown model", model: "lab/none", code: "model_not_found" },
  { name: "an unknown vendor", model: "nobody/none", code: "model_not_found" },
  { name: "another case", model: "LAB/one-chat", code: "model_not_found" },
  { name: "a blank behind", model: "lab/one-chat ", code: "model_not_found" },
  { name: "__proto__", model: "__proto__/__proto__", code: "model_not_found" },
  { name: "constructor", model: "constructor/name", code: "model_not_found" },
  { name: "10,000 characters", model: `lab/${"x".repeat(10_000)}`, code: "model_not_found" },
  { name: "an image model", model: "sluice/sketch", code: "invalid_request" },
  { name: "a known vendor without a key", model: "anthropic/claude-fable-5", code: "vendor_not_configured" },
];

describe("models that cannot be had", () => {
  test.each(both(MODELS))("$name", async ({ side, model, code }) => {
    const response = await lab.gateway.post(PATH[side], ask(side, model, "stream"));
    const words = await expectRefusal(side, response, code, "model");
    expect(words.length).toBeLessThan(400);
  });
});

const JSON_TYPE = { "content-type": "application/json" };

describe("credentials", () => {
  const rows: { name: string; headers: (key: string) => Record<string, string>; query?: (key: string) => string }[] = [
    { name: "none", headers: () => ({}) },
    { name: "a stranger's", headers: () => ({ authorization: `Bearer sk-sluice-${"a".repeat(38)}` }) },
    { name: "another vendor's", headers: () => ({ authorization: "Bearer sk-proj-abcdefghijklmnop" }) },
    { name: "two different ones", headers: (key) => ({ authorization: `Bearer ${key}`, "x-api-key": `${key}x` }) },
    { name: "the key in the query string", headers: () => ({}), query: (key) => `?key=${key}&api_key=${key}` },
    { name: "the key as a user name", headers: (key) => ({ authorization: `Basic ${btoa(`${key}:`)}` }) },
    { name: "the key in a cookie", headers: (key) => ({ cookie: `key=${key}` }) },
    { name: "the key with its last letter changed", headers: (key) => ({ "x-api-key": `${key.slice(0, -1)}~` }) },
  ];
  /** A refusal of credentials comes before every other: the body is not even looked at. */
  const bodies: [string, (side: Side) => string][] = [
    ["a sound body", (side) => withField(side, {})],
    ["a body that is no JSON", () => "{"],
    ["an unknown model", (side) => withField(side, { model: "nobody/none" })],
  ];
  const cases = both(rows).flatMap((row) =>
    bodies.map(([what, body]) => ({ ...row, body, name: `${row.name}, ${what}` })),
  );

  test.each(cases)("$name", async ({ side, headers, query, body }) => {
    const { key } = lab.gateway;
    const response = await lab.gateway.call(PATH[side] + (query?.(key) ?? ""), {
      method: "POST",
      headers: { ...JSON_TYPE, ...headers(key) },
      body: body(side),
    });
    expect(response.headers.get("www-authenticate")).toBe("Bearer");
    const words = await expectRefusal(side, response, "invalid_api_key");
    expect(words).not.toContain(key.slice(0, 20));
  });

  test.each(SIDES)("a wrong key is told in the words by which LiteLLM knows one: %s", async (side) => {
    const headers = { ...JSON_TYPE, authorization: `Bearer sk-sluice-${"x".repeat(38)}` };
    const response = await lab.gateway.call(PATH[side], { method: "POST", headers, body: "{}" });
    expect(await expectRefusal(side, response, "invalid_api_key")).toContain("Incorrect API key provided");
  });

  test("a refusal of credentials comes before the media type and the size", async () => {
    for (const headers of [{ "content-type": "text/plain" }, { ...JSON_TYPE, "content-length": "99999999" }]) {
      const response = await lab.gateway.call(PATH.messages, { method: "POST", headers, body: "x" });
      await expectRefusal("messages", response, "invalid_api_key");
    }
  });
});

test("a known model whose vendors are all off says which variable switches each of them on", async () => {
  const told = async (path: string, body: object) => {
    const response = await lab.gateway.post(path, body);
    return [response.status, ((await response.json()) as { error: { message: string } }).error.message];
  };
  const message = (model: string, vendors: string) => [
    503,
    `The model ${model} is known, but no vendor that serves it is switched on here: ${vendors}.`,
  ];
  const [chat, image] = ["anthropic/claude-fable-5", "recraft/recraft-v4.1"];
  const claude = message(chat, "anthropic (ANTHROPIC_API_KEY), openrouter (OPENROUTER_API_KEY)");
  for (const side of SIDES) expect(await told(PATH[side], ask(side, chat, "blocking"))).toEqual(claude);
  expect(await told("/v1/images/generations", { model: image, prompt: "x" })).toEqual(
    message(image, "openrouter (OPENROUTER_API_KEY)"),
  );
});

test("a model that nobody has told of, of a vendor that is off or a local server that was not there at the start, says so", async () => {
  const told = async (path: string, body: object) => {
    const response = await lab.gateway.post(path, body);
    return [response.status, ((await response.json()) as { error: { message: string } }).error.message];
  };
  const message = (model: string, why: string, list = "GET /v1/models") => [
    404,
    `The model ${model} does not exist here${why}. ${list} lists those that do.`,
  ];
  const late = ": no Ollama was found when the gateway started; start it again once Ollama runs";
  for (const side of SIDES) {
    const of = (model: string) => told(PATH[side], ask(side, model, "blocking"));
    expect(await of("ollama/llama3.2")).toEqual(message("ollama/llama3.2", late));
    const off = ": groq (GROQ_API_KEY) is not switched on";
    expect(await of("groq/came-out-today")).toEqual(message("groq/came-out-today", off));
    expect(await of("sluice/nothing")).toEqual(message("sluice/nothing", ""));
    expect(await of("nobody/nothing")).toEqual(message("nobody/nothing", ""));
  }
  const images = await told("/v1/images/generations", { model: "comfyui/sdxl", prompt: "x" });
  const why = ": no ComfyUI was found when the gateway started; start it again once ComfyUI runs";
  expect(images).toEqual(message("comfyui/sdxl", why, "GET /v1/models?modality=image"));
});

test("a model that the configured list of its vendor's models leaves out is not said to lack a vendor", async () => {
  const vendor = { ...vendorAt(lab.spare, "chat", "listed"), models: ["other"] };
  const gateway = await startApp({ vendors: [vendor], models: [{ id: "listed/one", pricing: "free" }] });
  try {
    for (const side of SIDES) {
      const response = await gateway.post(PATH[side], ask(side, "listed/one", "blocking"));
      const message = await expectRefusal(side, response, "vendor_not_configured", "model");
      expect(message).toBe(
        "The model listed/one is known, but the configured lists of its vendors' models leave it out.",
      );
    }
  } finally {
    await gateway.stop();
  }
});

describe("the order of refusals behind the credentials", () => {
  test.each(SIDES)("the model comes before the body's other faults: %s", async (side) => {
    const wrong = { messages: "no", max_tokens: "many" };
    const post = (model: string) => lab.gateway.post(PATH[side], ask(side, model, "blocking", wrong));
    await expectRefusal(side, await post("nobody/none"), "model_not_found", "model");
    await expectRefusal(side, await post("anthropic/claude-fable-5"), "vendor_not_configured", "model");
    expect((await readFailure(side, await post(ONE_ROUTE[side]))).code).toBe("invalid_request");
  });
});

describe("headers", () => {
  const types = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""];
  test.each(both(types.map((type) => ({ name: `content-type ${JSON.stringify(type)}`, type }))))(
    "$name",
    async ({ side, type }) => {
      const headers = { "content-type": type };
      const response = await lab.gateway.post(PATH[side], withField(side, {}), { headers });
      await expectRefusal(side, response, "unsupported_media_type");
    },
  );

  test.each(both(["gzip", "br", "zstd", "x"].map((coding) => ({ name: `content-encoding ${coding}`, coding }))))(
    "$name",
    async ({ side, coding }) => {
      const headers = { "content-encoding": coding };
      const response = await lab.gateway.post(PATH[side], withField(side, {}), { headers });
      await expectRefusal(side, response, "unsupported_media_type");
    },
  );
});

describe("paths and methods", () => {
  const paths: { path: string; side: Side }[] = [
    { path: "/v1/v1/chat/completions", side: "chat" },
    { path: "/v1/v1/messages", side: "messages" },
    { path: "/v1/v1/messages/count_tokens", side: "messages" },
    { path: "/messages", side: "messages" },
    { path: "/chat/completions", side: "chat" },
    { path: "/v1/chat/completions/", side: "chat" },
    { path: "/v1/chat", side: "chat" },
    { path: "/v1/completions", side: "chat" },
    { path: "/v1/messages/batches", side: "messages" },
    { path: "/V1/messages", side: "chat" },
    { path: "/v1/%6dessages", side: "chat" },
    { path: "/.well-known/oauth-authorization-server", side: "chat" },
    { path: "/../etc/passwd", side: "chat" },
    { path: "/v1/../../etc/passwd", side: "chat" },
    { path: "/%2e%2e/%2e%2e/etc/passwd", side: "chat" },
    { path: "/%", side: "chat" },
    { path: "/%00", side: "chat" },
    { path: "/__proto__", side: "chat" },
  ];
  test.each(paths)("$path", async ({ path, side }) => {
    for (const method of ["POST", "GET"]) {
      const response =
        method === "POST" ? await lab.gateway.post(path, withField("chat", {})) : await lab.gateway.call(path);
      await expectRefusal(side, response, "not_found");
    }
  });

  const methods = ["GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
  test.each(both(methods.map((method) => ({ name: method, method }))))("$name", async ({ side, method }) => {
    const headers = { authorization: `Bearer ${lab.gateway.key}` };
    const response = await lab.gateway.call(PATH[side], { method, headers });
    expect(response.headers.get("allow")).toBe("POST");
    expect(response.status).toBe(405);
    const text = await response.text();
    if (method !== "HEAD") expect(readError(side, JSON.parse(text)).code).toBe("method_not_allowed");
  });
});

describe("over a socket", () => {
  const head = (side: Side, lines: string) =>
    `POST ${PATH[side]} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n${lines}`;
  const send = (text: string) => within(sendRaw(port, text), "an answer");

  const controls = ["\x00", "\x01", "\x07", "\x1b", "\x7f"];
  test.each(SIDES)("a header with a control character is refused, and never a fault of ours: %s", async (side) => {
    const body = withField(side, { model: "nobody/none" });
    for (const control of controls) {
      for (const name of ["X-Api-Key", "Anthropic-Beta", "X-Anything"]) {
        const lines = `${name}: a${control}b\r\nAuthorization: Bearer ${lab.gateway.key}\r\nContent-Length: ${body.length}\r\n\r\n`;
        const { status } = await send(head(side, lines) + body);
        expect([control, name, status >= 400 && status < 500]).toEqual([control, name, true]);
      }
    }
  });

  test.each([
    ["a length that is no number", "Content-Length: ten\r\n"],
    ["a negative length", "Content-Length: -1\r\n"],
    ["two lengths", "Content-Length: 2\r\nContent-Length: 3\r\n"],
    ["a length beside chunks", "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"],
    ["an unknown transfer coding", "Transfer-Encoding: zstd\r\n"],
    ["a header without a colon", "Nonsense\r\n"],
    ["a blank before the colon", "Content-Length : 2\r\n"],
  ])("%s never reaches a vendor and is no fault of ours", async (_name, lines) => {
    const { status } = await send(`${head("chat", `Authorization: Bearer ${lab.gateway.key}\r\n${lines}\r\n`)}{}`);
    expect(status === 0 || (status >= 400 && status < 500)).toBe(true);
  });

  test("a chunk size that is no number ends the request", async () => {
    const lines = `Authorization: Bearer ${lab.gateway.key}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n`;
    const { status } = await send(head("chat", lines));
    expect(status === 0 || (status >= 400 && status < 500)).toBe(true);
  });

  test.each(SIDES)("a body of 40 MB that is announced is refused before it comes: %s", async (side) => {
    const lines = `Authorization: Bearer ${lab.gateway.key}\r\nContent-Length: 41000000\r\n\r\n{`;
    const { status } = await send(head(side, lines));
    expect(status).toBe(413);
  });

  test("a client that hangs up in the middle of its body leaves nothing behind", async () => {
    for (let round = 0; round < 20; round++) {
      await new Promise<void>((resolve, reject) => {
        const lines = `Authorization: Bearer ${lab.gateway.key}\r\nContent-Length: 500000\r\n\r\n{"model":`;
        const socket = connect(port, "127.0.0.1", () => socket.write(head("chat", lines), () => socket.destroy()));
        socket.on("close", () => resolve());
        socket.on("error", reject);
      });
    }
    await until(() => lab.gateway.app.running.count === 0, "every request to end");
    const answer = await fetch(`http://127.0.0.1:${port}/healthz`);
    expect(answer.status).toBe(200);
  });
});

describe("bodies made to be expensive to refuse", () => {
  const many = (count: number, value: unknown) => Array.from({ length: count }, () => value);
  const bodies: { name: string; text: (side: Side) => string; param: string }[] = [
    {
      name: "half a million wrong parts",
      text: (side) => withField(side, { messages: [{ role: "user", content: many(480_000, 1) }] }),
      param: "messages[0].content[0]",
    },
    {
      name: "a hundred thousand parts without their text",
      text: (side) => withField(side, { messages: [{ role: "user", content: many(110_000, { type: "text" }) }] }),
      param: "messages[0].content[0].text",
    },
    {
      name: "half a million wrong messages",
      text: (side) => withField(side, { messages: many(480_000, 1) }),
      param: "messages[0]",
    },
    {
      name: "a key of 5 MB that the error would have to name",
      text: () => `{"${"k".repeat(5_000_000)}":{"__proto__":1}}`,
      param: "k".repeat(300),
    },
  ];
  test.each(both(bodies))("$name", async ({ side, text, param }) => {
    const body = text(side);
    const responses: Response[] = [];
    const ask = async () => responses.push(await lab.gateway.post(PATH[side], body));
    // Twenty times what it takes; naming every fault of such a body took more than a second.
    expect(await workBelow(400, ask)).toBeLessThan(400);
    const words = await expectRefusal(side, responses[0]!, "invalid_request", param);
    expect(words.length).toBeLessThan(500);
  });
});
