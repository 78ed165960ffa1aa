import { describe, expect, test } from "bun:test";
import type { Quirks } from "../../src/dialects/dialect.ts";
import { registry } from "../../src/vendors/registry.ts";
import { reply, send, type Wire } from "./crossing.ts";

const quirks: Quirks = registry.find((row) => row.id === "perplexity")?.quirks ?? {};
const orders = { reasoning: { kind: "nothing" } } as const;
const fromChat = { from: "chat", to: "responses", quirks, orders } as const;
const fromResponses = { from: "responses", to: "responses", quirks, orders } as const;
const schema = { type: "object", properties: { a: { type: "string" } }, required: ["a"], additionalProperties: false };
const messages = [{ role: "user", content: "Hi" }];

/** What its documentation says that it takes; it refuses a request for any other field. */
const KNOWN = new Set(
  "model input instructions max_output_tokens temperature top_p stream reasoning tools tool_choice parallel_tool_calls store metadata truncation response_format".split(
    " ",
  ),
);

describe("a vendor with terms of its own in the responses dialect (Perplexity's Agent API)", () => {
  test("is asked for an answer's form in a field that it knows, by clients of either dialect", () => {
    const format = { type: "json_schema", json_schema: { name: "o", schema, strict: true } };
    const chat = send(fromChat, { messages, response_format: format, max_tokens: 99, temperature: 0.5 });
    const text = { format: { type: "json_schema", name: "o", schema, strict: true }, verbosity: "low" };
    const own = send(fromResponses, { input: "Hi", text });
    for (const { body } of [chat, own]) {
      expect(body["response_format"]).toEqual(format);
      expect(Object.keys(body).filter((field) => !KNOWN.has(field))).toEqual([]);
    }
    expect([chat.dropped, own.dropped]).toEqual([[], ["text.verbosity"]]);
    const plain = send(fromResponses, { input: "Hi", text: { format: { type: "text" } } });
    expect([plain.body, plain.dropped]).toEqual([{ model: "up-1", input: "Hi", store: false }, []]);
  });

  test("is asked in words for JSON without a schema, which it does not know, by clients of either dialect", () => {
    const words = "Answer with one JSON object and nothing else: no other text, no code fence.";
    const chat = send(fromChat, { messages, response_format: { type: "json_object" } });
    const own = send(fromResponses, {
      instructions: "Be brief.",
      input: "Hi",
      text: { format: { type: "json_object" } },
    });
    expect([chat.body["instructions"], own.body["instructions"]]).toEqual([words, `Be brief.\n\n${words}`]);
    for (const { body, dropped } of [chat, own]) {
      expect(Object.keys(body).filter((field) => !KNOWN.has(field))).toEqual([]);
      expect([body["response_format"], dropped]).toEqual([undefined, []]);
    }
  });

  test("is told functions under names that its own tools do not have, and the client gets its names back", () => {
    const call = { id: "c1", type: "function", function: { name: "web_search", arguments: "{}" } };
    const f = (name: string) => ({ type: "function", function: { name, parameters: schema } });
    const asked = {
      messages: [
        ...messages,
        { role: "assistant", tool_calls: [call] },
        { role: "tool", tool_call_id: "c1", content: "x" },
      ],
      tools: ["web_search", "fetch_url", "run"].map(f),
      tool_choice: { type: "function", function: { name: "web_search" } },
    };
    const { body, changes } = send(fromChat, asked);
    const namesOf = (tools: unknown) => (tools as Wire[]).map(({ name }) => name);
    expect(namesOf(body["tools"])).toEqual(["t_web_search", "t_fetch_url", "run"]);
    expect(body["tool_choice"]).toEqual({ name: "t_web_search" });
    expect(body["input"]).toContainEqual(expect.objectContaining({ type: "function_call", name: "t_web_search" }));
    const output = [{ type: "function_call", call_id: "c2", name: "t_web_search", arguments: "{}" }];
    const answer = reply(fromChat, { id: "r", status: "completed", output }, changes) as { choices: Wire[] };
    expect(answer.choices).toMatchObject([{ message: { tool_calls: [{ function: { name: "web_search" } }] } }]);
    const own = send(fromResponses, {
      input: "Hi",
      tools: [{ type: "function", name: "sandbox", parameters: schema, strict: false }],
    });
    expect(namesOf(own.body["tools"])).toEqual(["t_sandbox"]);
  });

  test("is told the hosts of a search in its own words, and what it has no word for is named", () => {
    const tools = [
      {
        type: "web_search_preview",
        search_context_size: "low",
        external_web_access: false,
        filters: { allowed_domains: ["a.example"], blocked_domains: ["b.example"], search_recency_filter: "day" },
        user_location: { type: "approximate", country: "SE", timezone: "Europe/Stockholm" },
      },
      { type: "web_search", external_web_access: true },
    ];
    const { body, dropped } = send(fromResponses, { input: "Hi", tools, tool_choice: { type: "web_search_preview" } });
    expect(body["tools"]).toEqual([
      {
        type: "web_search",
        search_context_size: "low",
        filters: { search_recency_filter: "day", search_domain_filter: ["a.example", "-b.example"] },
        user_location: { country: "SE" },
      },
      { type: "web_search" },
    ]);
    expect(body["tool_choice"]).toEqual({ type: "web_search" });
    expect(dropped).toEqual(["tools[0].external_web_access", "tools[0].user_location.timezone"]);
  });
});
