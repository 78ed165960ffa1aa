import { afterAll, beforeAll, expect, test } from "bun:test";
import { isEmpty, isObject } from "../../src/lib/json.ts";
import { insideOnly } from "../support/black-box-config.ts";
import { misfit, resolve, type Schema } from "../support/json-schema.ts";
import { type McpLab, request, startMcpLab } from "../web/mcp-lab.ts";

let lab: McpLab;
let document: Schema;

beforeAll(async () => {
  lab = await startMcpLab();
  document = (await (await lab.gateway.call("/openapi/json")).json()) as Schema;
});
afterAll(() => lab.stop());

const at = (value: unknown, ...steps: string[]): unknown =>
  steps.reduce((found, step) => (isObject(found) ? found[step] : undefined), value);

/** Fields of a value that its schema does not name, by their paths. An object of which no field is named may hold anything. */
function unnamed(value: unknown, schema: Schema, path = ""): string[] {
  const { anyOf, items, properties } = resolve(schema, document);
  if (Array.isArray(anyOf)) {
    const fitting = (anyOf as Schema[]).filter((branch) => misfit(value, branch, document) === undefined);
    const told = fitting.map((branch) => unnamed(value, branch, path));
    return told.sort((one, other) => one.length - other.length)[0] ?? [];
  }
  if (Array.isArray(value)) {
    return isObject(items) ? value.flatMap((entry) => unnamed(entry, items, `${path}[]`)) : [];
  }
  if (!isObject(value) || !isObject(properties) || isEmpty(properties)) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const known = properties[name];
    return isObject(known) ? unnamed(inner, known, `${path}.${name}`) : [`${path}.${name}`];
  });
}

/** Holds an answer to what the document says of its operation: its status, its body, and each field of that. */
async function hold(path: string, method: string, response: Response, operation = path): Promise<void> {
  const text = await response.text();
  const told = at(document, "paths", operation, method, "responses", String(response.status));
  expect([operation, response.status, text, told]).toEqual([operation, response.status, text, expect.anything()]);
  const schema = at(told, "content", "application/json", "schema") as Schema;
  const body: unknown = JSON.parse(text);
  expect([path, misfit(body, schema, document)]).toEqual([path, undefined]);
  expect([path, [...new Set(unnamed(body, schema))]]).toEqual([path, []]);
}

const SCRIPT = JSON.stringify({
  blocks: [
    { type: "reasoning", text: "hm" },
    { type: "text", text: "Yes" },
    { type: "tool_call", name: "look", arguments: {} },
  ],
  usage: { input: 20, cache_read: 3, cache_write: 2, output: 9, reasoning: 2 },
});
const MESSAGES = [{ role: "user", content: SCRIPT }];
const MODEL = "sluice/script";

test.each([
  ["/v1/chat/completions", { model: MODEL, messages: MESSAGES }],
  ["/v1/messages", { model: MODEL, max_tokens: 100, messages: MESSAGES, thinking: { type: "adaptive" } }],
  ["/v1/messages/count_tokens", { model: MODEL, messages: MESSAGES }],
  ["/v1/responses", { model: MODEL, input: SCRIPT }],
  // Clients with checked types write what they leave out as null, and take a text without a format for no response.
  ["/v1/responses", { model: MODEL, input: SCRIPT, text: { format: null, verbosity: "low" }, reasoning: "often" }],
  ["/v1/web/search", { query: "tide tables" }],
  ["/v1/images/generations", { model: "sluice/sketch", prompt: "a fox" }],
  ["/v1/messages", { model: "none", max_tokens: 1, messages: MESSAGES }],
  ["/v1/chat/completions", { model: "none", messages: MESSAGES }],
])("each field of an answer of %s is in the document", async (path, body) => {
  await hold(path, "post", await lab.gateway.post(path, body));
});

test.each([
  ["initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "a", version: "1" } }],
  ["tools/list", {}],
  ["ping", {}],
  ["tools/call", { name: "web_search", arguments: { query: "tide tables" } }],
  ["tools/call", { name: "web_fetch", arguments: { urls: ["file:///etc/passwd"] } }],
  ["tools/call", { name: "none", arguments: {} }],
])("and of an answer of the MCP server to %s", async (method, params) => {
  await hold("/mcp/web", "post", await lab.gateway.post("/mcp/web", request(method, params)));
});

test("and of its refusal while nothing can be written down", async () => {
  insideOnly("a store that takes no writes: that is a matter of its connection");
  const { database } = lab.gateway.store;
  database.run("PRAGMA query_only = ON");
  const headers = { authorization: `Bearer ${lab.gateway.key}`, "idempotency-key": "once" };
  const call = request("tools/call", { name: "web_search", arguments: { query: "tide tables" } });
  const response = await lab.gateway.post("/mcp/web", call, { headers });
  database.run("PRAGMA query_only = OFF");
  expect(response.status).toBe(503);
  await hold("/mcp/web", "post", response);
});

test("and of what the gateway tells of itself, in both dialects", async () => {
  const headers = { authorization: `Bearer ${lab.gateway.key}` };
  const asked = await lab.gateway.post("/v1/chat/completions", { model: MODEL, messages: MESSAGES });
  const receipt = `/v1/usage/${asked.headers.get("x-request-id")}`;
  for (const path of ["/v1/account", "/v1/usage", "/v1/usage?group_by=model"]) {
    await hold(path, "get", await lab.gateway.call(path, { headers }), path.split("?")[0]);
  }
  await hold(receipt, "get", await lab.gateway.call(receipt, { headers }), "/v1/usage/{request_id}");
  for (const more of [{}, { "anthropic-version": "2023-06-01" }]) {
    const asker = { headers: { ...headers, ...more } as Record<string, string> };
    await hold("/v1/models", "get", await lab.gateway.call("/v1/models", asker));
    await hold(MODEL, "get", await lab.gateway.call(`/v1/models/${MODEL}`, asker), "/v1/models/{id}");
  }
});
