import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import {
  type Call,
  chatReply,
  json,
  messagesReply,
  responsesReply,
  startUpstream,
  type Upstream,
} from "../support/upstream.ts";

type Wire = Record<string, unknown>;

let upstream: Upstream;
let gateway: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  const rows = [vendorAt(upstream, "responses"), vendorAt(upstream, "messages"), vendorAt(upstream, "chat")];
  gateway = await startApp({ vendors: rows });
});
afterEach(() => upstream.reset());
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});

const turns = { messages: [{ role: "user", content: "Hi" }] };
const named = { name: "Artifact", description: "Keeps a page" };

/** How each dialect says the schema of a tool's arguments, and an answer in it. */
const DIALECTS = {
  responses: {
    path: "/v1/responses",
    ask: (parameters: Wire) => ({ input: "Hi", tools: [{ type: "function", ...named, parameters }] }),
    reply: responsesReply("ok"),
  },
  messages: {
    path: "/v1/messages",
    ask: (schema: Wire) => ({ ...turns, max_tokens: 90, tools: [{ ...named, input_schema: schema }] }),
    reply: messagesReply("ok"),
  },
  chat: {
    path: "/v1/chat/completions",
    ask: (parameters: Wire) => ({ ...turns, tools: [{ type: "function", function: { ...named, parameters } }] }),
    reply: chatReply("ok"),
  },
} as const;
type Dialect = keyof typeof DIALECTS;

/** Of Claude Code's own tool. */
const CLASSES = '^(?!__.*__$)[^\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}"\\\\./[\\]]{1,200}$';
const text = { type: "string", description: "A text" };
/** A schema with texts that are bound by a pattern at several places, and by their lengths. One argument is called as the keyword is. */
const schema = ({ pattern, ...lengths }: Wire, items: Wire = {}) => ({
  type: "object",
  properties: {
    pattern: { ...text, ...(pattern !== undefined && { pattern }), ...lengths },
    to: { type: "array", items: { anyOf: [{ ...text, ...(pattern !== undefined && { pattern }) }] }, ...items },
  },
  required: ["pattern"],
});
const whole = schema({ pattern: CLASSES, maxLength: 2000, minLength: 1 }, { minItems: 1, maxItems: 2000 });
const unpatterned = schema({ maxLength: 2000, minLength: 1 }, { minItems: 1, maxItems: 2000 });
const unbound = schema({});

const schemaIn = ({ json: body }: Call): unknown => {
  const [tool] = (body as { tools: Wire[] }).tools;
  const { parameters, input_schema: input } = (tool?.["function"] ?? tool) as Wire;
  return input ?? parameters;
};

/** The vendor refuses schemas that hold `refused`, in these words. */
function refusing(dialect: Dialect, words: string, refused: string) {
  const { path, reply } = DIALECTS[dialect];
  const refusal = json({ error: { message: words, type: "invalid_request_error" } }, { status: 400 });
  upstream.always(path, ({ text: body }) => (body.includes(refused) ? refusal : json(reply)));
}

const ask = (client: Dialect, model: string, parameters: Wire = whole) => {
  const { path, ask: write } = DIALECTS[client];
  return gateway.post(path, { model, ...write(parameters) });
};

describe("a tool whose texts are bound by what its server cannot read is told without that", () => {
  test.each<[Dialect, string]>([
    // OpenAI's words, DeepSeek's, Groq's and llama.cpp's.
    ["responses", `Invalid schema for function 'Artifact': '${CLASSES}' is not a 'regex'.`],
    ["responses", "Invalid JSON schema: regex lookaround is not supported. Found at $.properties.pattern.pattern"],
    ["messages", `Invalid schema for function 'Artifact': "${CLASSES}" is not a "regex"`],
    ["chat", `Invalid schema for function 'Artifact': "${CLASSES}" is not a "regex"`],
    ["chat", `invalid JSON schema for tool Artifact, tools[0].function.parameters: '${CLASSES}' is not valid 'regex'`],
    [
      "chat",
      "Unable to generate parser for this template. Automatic parser generation failed: JSON schema conversion failed:\nPattern must start with '^' and end with '$'",
    ],
  ])("%s: %s", async (vendor, words) => {
    for (const client of ["messages", "responses", "chat"] as const) {
      const model = `${vendor}/${client}-${words.length}`;
      refusing(vendor, words, "(?!");
      const answer = await ask(client, model);
      expect(answer.status).toBe(200);
      expect(answer.headers.get("x-sluice-dropped")).toBe("tools.Artifact.patterns");
      expect(upstream.calls.map(schemaIn)).toEqual([whole, unpatterned]);
      // Later requests are told so at once.
      await ask(client, model);
      expect(upstream.calls.slice(2).map(schemaIn)).toEqual([unpatterned]);
      upstream.reset();
    }
  });

  test("lengths go where a grammar cannot be made without the patterns either", async () => {
    refusing("chat", "Failed to initialize samplers: failed to parse grammar", "2000");
    const answer = await ask("messages", "chat/grammar");
    expect(answer.status).toBe(200);
    expect(answer.headers.get("x-sluice-dropped")).toBe("tools.Artifact.bounds");
    expect(upstream.calls.map(schemaIn)).toEqual([whole, unpatterned, unbound]);
  });

  test("tools in a namespace are tools too", async () => {
    refusing("responses", "Invalid JSON schema: regex lookaround is not supported.", "(?!");
    const held = { type: "function", ...named, parameters: whole };
    const tools = [{ type: "namespace", name: "mail", description: "Mail", tools: [held] }];
    const answer = await gateway.post("/v1/responses", { model: "responses/held", input: "Hi", tools });
    expect(answer.status).toBe(200);
    expect(answer.headers.get("x-sluice-dropped")).toBe("tools.mail.patterns");
    const [, last] = upstream.calls as [Call, Call];
    expect((last.json as { tools: unknown }).tools).toEqual([
      { ...tools[0], tools: [{ ...held, parameters: unpatterned }] },
    ]);
  });

  test("what is refused of the form of an answer is the client's to mend", async () => {
    refusing("chat", `Invalid schema for response_format 'x': '${CLASSES}' is not a 'regex'.`, "(?!");
    const format = { type: "json_schema", json_schema: { name: "x", schema: whole } };
    const answer = await gateway.post("/v1/chat/completions", {
      model: "chat/form",
      ...turns,
      response_format: format,
    });
    expect(answer.status).toBe(400);
    expect(upstream.calls).toHaveLength(1);
  });
});

describe("a tool whose schema is not whole, at its root or in a list, is told as one", () => {
  const one = { a: { type: "string" } };
  const other = { b: { type: "number" } };
  const choice = {
    description: "One or the other",
    anyOf: [
      { type: "object", properties: one },
      { type: "object", properties: other },
    ],
  };
  const chosen = { description: "One or the other", type: "object", properties: { ...one, ...other } };
  const referring = { $ref: "#/$defs/Page", $defs: { Page: { type: "object", properties: one, required: ["a"] } } };
  const referred = { ...referring.$defs.Page, $defs: referring.$defs };
  const nothing = { type: "object", properties: {} };

  const ANTHROPIC =
    "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level";
  const OPENAI =
    "Invalid schema for function 'Artifact': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.";
  const UNTYPED = `Invalid schema for function 'Artifact': schema must be a JSON Schema of 'type: "object"', got 'type: "None"'.`;
  const XAI =
    "Artifact: tool parameter root must be an object type (root schema is an anyOf/oneOf union with a non-object branch)";

  const UNLISTED =
    "Invalid schema for function 'Artifact': In context=('properties', 'a'), array schema missing items.";
  const UNNAMED = "Invalid schema for function 'Artifact': In context=(), object schema missing properties.";
  const LM_STUDIO = JSON.stringify([
    {
      code: "invalid_union_discriminator",
      options: ["object"],
      path: [0, "function", "parameters", "type"],
      message: "Invalid discriminator value. Expected 'object'",
    },
  ]);
  const list = (items: Wire) => ({ a: { type: "object", properties: { b: { type: "array", ...items } } } });

  /** The vendor refuses every schema but this one. */
  function wanting(dialect: Dialect, words: string, wanted: Wire) {
    const { path, reply } = DIALECTS[dialect];
    const refusal = json({ error: { message: words, type: "invalid_request_error" } }, { status: 400 });
    upstream.always(path, (call) => (Bun.deepEquals(schemaIn(call), wanted) ? json(reply) : refusal));
  }

  test.each<[Dialect, string, Wire, Wire, string | null]>([
    ["messages", ANTHROPIC, choice, chosen, "tools.Artifact.choices"],
    ["messages", "tools.0.custom.input_schema.type: Field required", {}, nothing, null],
    ["responses", OPENAI, choice, chosen, "tools.Artifact.choices"],
    ["responses", OPENAI, referring, referred, null],
    ["responses", UNTYPED, {}, nothing, null],
    ["chat", OPENAI, choice, chosen, "tools.Artifact.choices"],
    ["chat", UNTYPED, { type: null, properties: one }, { type: "object", properties: one }, null],
    ["chat", XAI, choice, chosen, "tools.Artifact.choices"],
    ["chat", UNLISTED, { ...nothing, properties: list({}) }, { ...nothing, properties: list({ items: {} }) }, null],
    [
      "responses",
      UNLISTED,
      { ...nothing, properties: list({}) },
      { ...nothing, properties: list({ items: {} }) },
      null,
    ],
    ["responses", UNNAMED, { type: "object" }, nothing, null],
    ["chat", LM_STUDIO, { properties: one }, { type: "object", properties: one }, null],
  ])("%s: %s %j", async (dialect, words, given, wanted, dropped) => {
    const model = `${dialect}/${Bun.hash(words + JSON.stringify(given)).toString(36)}`;
    wanting(dialect, words, wanted);
    const answer = await ask(dialect, model, given);
    expect(answer.status).toBe(200);
    expect(answer.headers.get("x-sluice-dropped")).toBe(dropped);
    expect(upstream.calls.map(schemaIn)).toEqual([given, wanted]);
    // Later requests are told so at once; a schema that is an object goes as it is.
    await ask(dialect, model, given);
    expect(upstream.calls.slice(2).map(schemaIn)).toEqual([wanted]);
    wanting(dialect, words, whole);
    expect((await ask(dialect, model)).headers.get("x-sluice-dropped")).toBeNull();
    expect(upstream.calls.slice(3).map(schemaIn)).toEqual([whole]);
  });

  test("beside what else its server cannot read", async () => {
    const patterned = { anyOf: [whole] };
    const { path, reply } = DIALECTS.messages;
    const refuse = (message: string) => json({ error: { message, type: "invalid_request_error" } }, { status: 400 });
    upstream.always(path, ({ text: body }) => {
      if (body.includes('"input_schema":{"anyOf"')) return refuse(ANTHROPIC);
      return body.includes("(?!") ? refuse(`'${CLASSES}' is not a 'regex'.`) : json(reply);
    });
    const answer = await ask("messages", "messages/both", patterned);
    expect(answer.status).toBe(200);
    expect(answer.headers.get("x-sluice-dropped")).toBe("tools.Artifact.choices, tools.Artifact.patterns");
    const { required: _required, ...rest } = unpatterned;
    expect(schemaIn(upstream.calls.at(-1) as Call)).toEqual(rest);
  });
});
