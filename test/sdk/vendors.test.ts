import { afterAll, afterEach, describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import type { Call } from "../support/upstream.ts";
import { CASES } from "./cases.ts";
import { API_KEY, startVendor, TIMEOUT_MS, UPSTREAM_MODEL } from "./lab.ts";
import { askAnthropic, askOpenAI, MODES } from "./outcomes.ts";
import { checkChatRequest, checkMessagesRequest, type Faults } from "./requests.ts";

const vendors = { chat: startVendor("chat"), messages: startVendor("messages") };
afterAll(() => {
  for (const vendor of Object.values(vendors)) vendor.upstream.close();
});
afterEach(() => {
  for (const vendor of Object.values(vendors)) vendor.reset();
});

/** An SDK names itself, and carries its key, in headers that the gateway keeps to itself; asked directly, the vendor sees them. */
const withoutSdkHeaders = (faults: Faults) => faults.filter((fault) => !fault.includes("header "));

const rows = CASES.flatMap((each) => MODES.map((mode) => [each.name, mode, each] as const));

/** The mould is checked before anything is cast in it: without a gateway, the SDKs and these vendors must agree already. */
describe("the vendors of the lab are what the official SDKs expect", () => {
  test.each(rows)("%s: openai SDK, %s", async (_name, mode, each) => {
    vendors.chat.play(each.reply);
    const client = new OpenAI({ apiKey: API_KEY.chat, baseURL: `${vendors.chat.upstream.url}/v1`, maxRetries: 0 });
    const outcome = await askOpenAI(client, UPSTREAM_MODEL[each.model], each.openai, mode);
    expect(withoutSdkHeaders(vendors.chat.faults)).toEqual([]);
    const { tools, ...words } = each.outcome;
    expect(outcome).toMatchObject({ ...words, finish: each.finish.openai });
    if (tools) expect(outcome.tools.map(({ name, input }) => ({ name, input }))).toEqual(tools);
    expect(outcome.usage).toEqual({ fresh: 20, cached: 5, output: 12 });
  });

  test.each(rows)("%s: anthropic SDK, %s", async (_name, mode, each) => {
    vendors.messages.play(each.reply);
    const client = new Anthropic({
      apiKey: API_KEY.messages,
      baseURL: vendors.messages.upstream.url,
      timeout: TIMEOUT_MS,
    });
    const outcome = await askAnthropic(client, UPSTREAM_MODEL[each.model], each.anthropic, mode);
    expect(withoutSdkHeaders(vendors.messages.faults)).toEqual([]);
    const { tools, ...words } = each.outcome;
    expect(outcome).toMatchObject({ ...words, finish: each.finish.anthropic.messages });
    if (tools) expect(outcome.tools.map(({ name, input }) => ({ name, input }))).toEqual(tools);
    expect(outcome.usage).toEqual({ fresh: 20, cached: 5, output: 12 });
  });
});

function callWith(body: Record<string, unknown>, headers: Record<string, string>): Call {
  return {
    method: "POST",
    path: "/",
    query: "",
    headers: { "content-type": "application/json", ...headers },
    text: "",
    json: body,
    aborted: false,
    finished: true,
    whenAborted: Promise.resolve(),
  };
}

const asUser = (content: unknown) => ({ role: "user", content });

describe("the vendors of the lab are strict", () => {
  const chat = { model: "lab-1", messages: [asUser("Hi")] };
  const call = { id: "c1", type: "function", function: { name: "f", arguments: "{}" } };
  const chatFaults: [string, Record<string, unknown>][] = [
    ["a prefixed model", { ...chat, model: "lab/lab-1" }],
    ["a field of the other dialect", { ...chat, max_tokens: 5, thinking: { type: "adaptive" } }],
    ["a stream without usage", { ...chat, stream: true }],
    ["stream options without a stream", { ...chat, stream_options: { include_usage: true } }],
    ["no messages", { ...chat, messages: [] }],
    ["an empty text", { ...chat, messages: [asUser("")] }],
    ["blocks of the other dialect", { ...chat, messages: [asUser([{ type: "image", source: {} }])] }],
    ["an answer to no call", { ...chat, messages: [asUser("x"), { role: "tool", tool_call_id: "c1", content: "x" }] }],
    [
      "an unanswered call",
      { ...chat, messages: [asUser("x"), { role: "assistant", tool_calls: [call] }, asUser("x")] },
    ],
    ["a choice without tools", { ...chat, tool_choice: "auto" }],
    ["tools of the other dialect", { ...chat, tools: [{ name: "f", input_schema: { type: "object" } }] }],
  ];
  test.each(chatFaults)("a chat vendor refuses %s", (_name, body) => {
    expect(checkChatRequest(callWith(chat, { authorization: "Bearer k" }), "k")).toEqual([]);
    expect(checkChatRequest(callWith(body, { authorization: "Bearer k" }), "k")).not.toEqual([]);
  });

  const messages = { model: "lab-1", max_tokens: 5, messages: [asUser("Hi")] };
  const use = { type: "tool_use", id: "t1", name: "f", input: {} };
  const says = (...content: unknown[]) => ({ role: "assistant", content });
  const messagesFaults: [string, Record<string, unknown>][] = [
    ["no ceiling", { model: "lab-1", messages: [asUser("Hi")] }],
    ["a system turn", { ...messages, messages: [{ role: "system", content: "x" }, asUser("Hi")] }],
    ["two turns of one side", { ...messages, messages: [asUser("x"), asUser("y")] }],
    ["an empty text", { ...messages, messages: [asUser([{ type: "text", text: "" }])] }],
    ["a field of the other dialect", { ...messages, reasoning_effort: "high" }],
    ["a temperature above 1", { ...messages, temperature: 1.5 }],
    ["an unanswered call", { ...messages, messages: [asUser("x"), says(use), asUser("y")] }],
    ["thinking without signature", { ...messages, messages: [asUser("x"), says({ type: "thinking", thinking: "x" })] }],
    [
      "parts of the other dialect",
      { ...messages, messages: [asUser([{ type: "image_url", image_url: { url: "x" } }])] },
    ],
    [
      "a choice of the other dialect",
      { ...messages, tools: [{ name: "f", input_schema: { type: "object" } }], tool_choice: "auto" },
    ],
  ];
  const headers = { "x-api-key": "k", "anthropic-version": "2023-06-01" };
  test.each(messagesFaults)("a messages vendor refuses %s", (_name, body) => {
    expect(checkMessagesRequest(callWith(messages, headers), "k")).toEqual([]);
    expect(checkMessagesRequest(callWith(body, headers), "k")).not.toEqual([]);
  });

  const leaks: Record<string, string>[] = [
    { authorization: "Bearer other" },
    { authorization: "Bearer k", "x-api-key": "sk-sluice-client" },
    { authorization: "Bearer k", "x-other": "sk-sluice-client" },
    { authorization: "Bearer k", "x-stainless-lang": "js" },
    { authorization: "Bearer k", cookie: "a=b" },
  ];
  test.each(leaks)("a header that must not go upstream is found: %p", (leak) => {
    expect(checkChatRequest(callWith(chat, leak), "k")).not.toEqual([]);
  });
});
