import { afterAll, afterEach, describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import type { Call } from "../support/upstream.ts";
import { CASES } from "./cases.ts";
import { apiKeyOf, CLIENTS, type DialectName, startVendor, TIMEOUT_MS, upstreamModel, WIRES } from "./lab.ts";
import { askChat, askMessages, askResponses, MODES } from "./outcomes.ts";
import { COUNTS } from "./replies.ts";
import type { Faults } from "./vendors/checker.ts";
import { proofOf } from "./vendors/gemini.ts";

const vendors = { chat: startVendor("chat"), messages: startVendor("messages"), responses: startVendor("responses") };
afterAll(() => {
  for (const vendor of Object.values(vendors)) vendor.upstream.close();
});
afterEach(() => {
  for (const vendor of Object.values(vendors)) vendor.reset();
});

/**
 * An SDK names itself, and carries its key, in headers that the gateway keeps to itself; asked directly, the vendor sees them. Nor do
 * these requests ask for what only the gateway's must: statelessness, and the ways a model of the lab takes reasoning.
 */
const ownBusiness = /header |store it|temperature|thinking|effort|encrypted|top_p|^reasoning is/;
const withoutSdkMatters = (faults: Faults) => faults.filter((fault) => !ownBusiness.test(fault));

const rows = CLIENTS.flatMap((client) =>
  CASES.flatMap((each) => MODES.map((mode) => [each.name, client, mode, each] as const)),
);

/** The mould is checked before anything is cast in it: without a gateway, the SDKs and these vendors must agree already. */
describe("the vendors of the lab are what the official SDKs expect", () => {
  test.each(rows)("%s: %s SDK, %s", async (_name, client, mode, each) => {
    const { upstream, faults, play, wire } = vendors[client];
    play(each.reply);
    const model = upstreamModel(client, each.model);
    const options = { apiKey: apiKeyOf(client), baseURL: wire.base(upstream.url), maxRetries: 0, timeout: TIMEOUT_MS };
    const ask = {
      chat: () => askChat(new OpenAI(options), model, each.requests.chat, mode),
      responses: () => askResponses(new OpenAI(options), model, each.requests.responses, mode),
      messages: () => askMessages(new Anthropic(options), model, each.requests.messages, mode),
    };
    const outcome = await ask[client]();
    expect(withoutSdkMatters(faults)).toEqual([]);
    const { tools, ...words } = each.outcome;
    const finish = outcome.stopSequence === null ? each.finish[client] : "stop_sequence";
    expect(outcome).toMatchObject({ ...words, finish });
    if (tools) expect(outcome.tools.map(({ name, input }) => ({ name, input }))).toEqual(tools);
    const { fresh, cached, output } = COUNTS;
    expect(outcome.usage).toEqual({ fresh, cached, output });
  });
});

type Body = Record<string, unknown>;

function callWith(dialect: DialectName, body: Body, headers: Record<string, string> = {}): Call {
  const model = upstreamModel(
    dialect,
    String(body["model"] ?? body["_model"] ?? "").includes("r1") ? "thinker" : "plain",
  );
  const { _model, ...json } = body;
  return {
    method: "POST",
    path: WIRES[dialect].path(model, body["stream"] === true),
    query: "",
    headers: { "content-type": "application/json", ...KEY_HEADERS[dialect], ...headers },
    text: "",
    json,
    aborted: false,
    finished: true,
    whenAborted: Promise.resolve(),
  };
}

const KEY_HEADERS: Record<DialectName, Record<string, string>> = {
  chat: { authorization: "Bearer k" },
  messages: { "x-api-key": "k", "anthropic-version": "2023-06-01" },
  responses: { authorization: "Bearer k" },
  gemini: { "x-goog-api-key": "k" },
};

const user = (content: unknown) => ({ role: "user", content });
const assistant = (...content: unknown[]) => ({ role: "assistant", content });
const asks = (...parts: unknown[]) => ({ role: "user", parts });
const tells = (...parts: unknown[]) => ({ role: "model", parts });

const chat = { model: "lab-1", messages: [user("Hi")] };
const messages = { model: "lab-1", max_tokens: 5, messages: [user("Hi")] };
const responses = { model: "lab-1", input: "Hi", store: false };
const gemini = { contents: [asks({ text: "Hi" })] };
const OPEN = { type: "object", properties: {} };

const chatCall = { id: "c1", type: "function", function: { name: "f", arguments: "{}" } };
const toolUse = { type: "tool_use", id: "t1", name: "f", input: {} };
const item = { type: "function_call", call_id: "c1", name: "f", arguments: "{}" };
const output = { type: "function_call_output", call_id: "c1", output: "x" };
const call = { functionCall: { name: "f", args: {} }, thoughtSignature: proofOf("x") };
const result = { functionResponse: { name: "f", response: { output: "x" } } };

const GOOD: Record<DialectName, Body[]> = {
  chat: [chat],
  messages: [messages],
  responses: [responses, { ...responses, input: [user("x"), item, output] }],
  gemini: [gemini, { contents: [asks({ text: "x" }), tells(call), asks(result)] }],
};

const BAD: Record<DialectName, [string, Body][]> = {
  chat: [
    ["a prefixed model", { ...chat, model: "lab/lab-1" }],
    ["a field of another dialect", { ...chat, max_tokens: 5, thinking: { type: "adaptive" } }],
    ["a stream without usage", { ...chat, stream: true }],
    ["stream options without a stream", { ...chat, stream_options: { include_usage: true } }],
    ["no messages", { ...chat, messages: [] }],
    ["an empty text", { ...chat, messages: [user("")] }],
    ["blocks of another dialect", { ...chat, messages: [user([{ type: "image", source: {} }])] }],
    ["an answer to no call", { ...chat, messages: [user("x"), { role: "tool", tool_call_id: "c1", content: "x" }] }],
    ["an open call", { ...chat, messages: [user("x"), { role: "assistant", tool_calls: [chatCall] }, user("x")] }],
    ["a choice without tools", { ...chat, tool_choice: "auto" }],
    ["tools of another dialect", { ...chat, tools: [{ name: "f", input_schema: OPEN }] }],
    ["an effort of a model without one", { ...chat, reasoning_effort: "low" }],
    [
      "an open strict schema",
      {
        ...chat,
        response_format: { type: "json_schema", json_schema: { name: "a", strict: true, schema: OPEN } },
      },
    ],
  ],
  messages: [
    ["no ceiling", { model: "lab-1", messages: [user("Hi")] }],
    ["a system turn", { ...messages, messages: [{ role: "system", content: "x" }, user("Hi")] }],
    ["two turns of one side", { ...messages, messages: [user("x"), user("y")] }],
    ["an empty text", { ...messages, messages: [user([{ type: "text", text: "" }])] }],
    ["a field of another dialect", { ...messages, reasoning_effort: "high" }],
    ["a temperature above 1", { ...messages, temperature: 1.5 }],
    ["an unanswered call", { ...messages, messages: [user("x"), assistant(toolUse), user("y")] }],
    ["thinking unsigned", { ...messages, messages: [user("x"), assistant({ type: "thinking", thinking: "x" })] }],
    [
      "thinking signed by somebody else",
      { ...messages, messages: [user("x"), assistant({ type: "thinking", thinking: "x", signature: "gm:call:x" })] },
    ],
    ["parts of another dialect", { ...messages, messages: [user([{ type: "image_url", image_url: { url: "x" } }])] }],
    ["a choice of another dialect", { ...messages, tools: [{ name: "f", input_schema: OPEN }], tool_choice: "auto" }],
    ["an open schema", { ...messages, output_config: { format: { type: "json_schema", schema: OPEN } } }],
    ["a budget", { ...messages, model: "lab-r1", thinking: { type: "enabled", budget_tokens: 2048 } }],
  ],
  responses: [
    ["to be stored", { ...responses, store: true }],
    ["messages of another dialect", { ...responses, messages: [user("Hi")] }],
    ["parts of another dialect", { ...responses, input: [user([{ type: "text", text: "x" }])] }],
    ["a user's part of an assistant", { ...responses, input: [assistant({ type: "input_text", text: "x" })] }],
    ["an unanswered call", { ...responses, input: [user("x"), item] }],
    ["an answer to no call", { ...responses, input: [user("x"), output] }],
    ["an answer given twice", { ...responses, input: [user("x"), item, output, output] }],
    ["a ceiling below the least", { ...responses, max_output_tokens: 5 }],
    ["a tool as another dialect has it", { ...responses, tools: [{ type: "function", function: { name: "f" } }] }],
    ["a strict tool left open", { ...responses, tools: [{ type: "function", name: "f", parameters: OPEN }] }],
    ["reasoning of a model without it", { ...responses, reasoning: { effort: "low" } }],
    ["sampling of a model that reasons", { ...responses, model: "lab-r1", temperature: 1 }],
    [
      "reasoning of somebody else",
      { ...responses, input: [{ type: "reasoning", encrypted_content: "EqQB", summary: [] }, item, output] },
    ],
    ["a stop sequence", { ...responses, stop: ["x"] }],
  ],
  gemini: [
    ["an empty content", { contents: [asks()] }],
    ["an empty text", { contents: [asks({ text: "" })] }],
    ["a first turn of the model", { contents: [tells({ text: "x" })] }],
    ["two turns of one side", { contents: [asks({ text: "x" }), asks({ text: "y" })] }],
    ["an unanswered call", { contents: [asks({ text: "x" }), tells(call)] }],
    ["an answer to no call", { contents: [asks(result)] }],
    ["an answer too few", { contents: [asks({ text: "x" }), tells(call, call), asks(result)] }],
    [
      "a call without proof",
      { contents: [asks({ text: "x" }), tells({ functionCall: call.functionCall }), asks(result)] },
    ],
    [
      "a foreign proof",
      { contents: [asks({ text: "x" }), tells({ ...call, thoughtSignature: "EqQBCgIYAhIM" }), asks(result)] },
    ],
    [
      "a result that is no object",
      {
        contents: [asks({ text: "x" }), tells(call), asks({ functionResponse: { name: "f", response: "x" } })],
      },
    ],
    ["a model in the body", { ...gemini, model: "lab-1" }],
    ["a picture on the web", { contents: [asks({ fileData: { fileUri: "https://a.test/b.png" } })] }],
    [
      "a schema word it does not know",
      {
        ...gemini,
        tools: [{ functionDeclarations: [{ name: "f", parametersJsonSchema: { $schema: "x" } }] }],
      },
    ],
    ["a choice without tools", { ...gemini, toolConfig: { functionCallingConfig: { mode: "AUTO" } } }],
    ["six stop sequences", { ...gemini, generationConfig: { stopSequences: [..."abcdef"] } }],
    ["thinking of a model without it", { ...gemini, generationConfig: { thinkingConfig: { thinkingLevel: "low" } } }],
    [
      "a level and a budget",
      { ...gemini, _model: "r1", generationConfig: { thinkingConfig: { thinkingLevel: "low", thinkingBudget: 1 } } },
    ],
  ],
};

describe("the vendors of the lab are strict", () => {
  const good = Object.entries(GOOD).flatMap(([name, bodies]) =>
    bodies.map((body) => [name as DialectName, body] as const),
  );
  test.each(good)("a %s vendor takes what is right: %p", (dialect, body) => {
    expect(WIRES[dialect].check(callWith(dialect, body), "k")).toEqual([]);
  });

  const bad = Object.entries(BAD).flatMap(([name, bodies]) =>
    bodies.map(([fault, body]) => [name as DialectName, fault, body] as const),
  );
  test.each(bad)("a %s vendor refuses %s", (dialect, _fault, body) => {
    expect(WIRES[dialect].check(callWith(dialect, body), "k")).not.toEqual([]);
  });

  const leaks: Record<string, string>[] = [
    { authorization: "Bearer other" },
    { authorization: "Bearer k", "x-api-key": "sk-sluice-client" },
    { authorization: "Bearer k", "x-other": "sk-sluice-client" },
    { authorization: "Bearer k", "x-stainless-lang": "js" },
    { authorization: "Bearer k", cookie: "a=b" },
  ];
  test.each(leaks)("a header that must not go upstream is found: %p", (leak) => {
    expect(WIRES.chat.check(callWith("chat", chat, leak), "k")).not.toEqual([]);
  });
});
