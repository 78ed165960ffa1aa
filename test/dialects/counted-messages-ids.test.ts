import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, sse, startUpstream, type Upstream } from "../support/upstream.ts";

let upstream: Upstream;
let gateway: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  gateway = await startApp({ vendors: [vendorAt(upstream, "messages", "lab")] });
});
afterEach(() => upstream.reset());
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});

const unnamed = { type: "tool_use", name: "f", input: {} };

function reply(number: number, stream: boolean, ...blocks: Record<string, unknown>[]) {
  const head = { id: `msg_${number}`, type: "message", role: "assistant", model: "m" };
  const usage = { input_tokens: 3, output_tokens: 2 };
  if (!stream) return json({ ...head, content: blocks, stop_reason: "tool_use", usage });
  const records = [
    { type: "message_start", message: { ...head, content: [], usage } },
    ...blocks.flatMap((block, index) => [
      { type: "content_block_start", index, content_block: block },
      { type: "content_block_stop", index },
    ]),
    { type: "message_delta", delta: { stop_reason: "tool_use" }, usage },
    { type: "message_stop" },
  ];
  return sse(records.map((record) => `event: ${record.type}\ndata: ${JSON.stringify(record)}\n\n`).join(""));
}

const WAYS: [string, boolean][] = [
  ["/v1/messages", false],
  ["/v1/messages", true],
  ["/v1/chat/completions", false],
  ["/v1/chat/completions", true],
  ["/v1/responses", false],
  ["/v1/responses", true],
];
const counted = { ...unnamed, id: "functions.f:0" };

test.each([
  ...WAYS.map((way) => ["counted within its turn", ...way, counted, /^functions\.f:0_[0-9A-Za-z]{8}$/] as const),
  ...WAYS.map((way) => ["named by nobody", ...way, unnamed, /^toolu_\w{24}$/] as const),
  ...WAYS.map((way) => ["named by a null", ...way, { ...unnamed, id: null }, /^toolu_\w{24}$/] as const),
])("a call that is %s has an id of its own in each reply: %s, stream %p", async (_how, path, stream, block, own) => {
  const ids: (string | undefined)[] = [];
  for (const number of [1, 2]) {
    upstream.answer("/v1/messages", reply(number, stream, block));
    const messages = [{ role: "user", content: "Hi" }];
    const body = { model: "lab/kimi-k3", max_tokens: 64, stream, messages, input: messages };
    const text = await (await gateway.post(path, body)).text();
    ids.push(/"(?:call_)?id":"((?:functions|toolu)[^"]*)"/.exec(text)?.[1]);
  }
  for (const id of ids) expect(id).toMatch(own);
  expect(new Set(ids).size).toBe(2);
});

test.each(WAYS)("two calls of one id are two, in each reply others: %s, stream %p", async (path, stream) => {
  const found: string[][] = [];
  for (const number of [1, 2]) {
    upstream.answer("/v1/messages", reply(number, stream, counted, counted));
    const messages = [{ role: "user", content: "Hi" }];
    const body = { model: "lab/kimi-k3", max_tokens: 64, stream, messages, input: messages };
    const text = await (await gateway.post(path, body)).text();
    found.push([...new Set([...text.matchAll(/"(?:call_)?id":"(functions[^"]*)"/g)].map(([, id]) => String(id)))]);
  }
  expect(found.map((ids) => ids.length)).toEqual([2, 2]);
  expect(new Set(found.flat()).size).toBe(4);
});

test.each(WAYS)("a call has no id that the conversation holds: %s, stream %p", async (path, stream) => {
  upstream.answer("/v1/messages", reply(1, stream, { ...unnamed, id: "call_0" }));
  const earlier: Record<string, unknown[]> = {
    "/v1/messages": [
      { role: "assistant", content: [{ ...unnamed, id: "call_0" }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "call_0", content: "x" }] },
    ],
    "/v1/chat/completions": [
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "call_0", type: "function", function: { name: "f", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "call_0", content: "x" },
    ],
    "/v1/responses": [
      { type: "function_call", call_id: "call_0", name: "f", arguments: "{}" },
      { type: "function_call_output", call_id: "call_0", output: "x" },
    ],
  };
  const messages = [{ role: "user", content: "Hi" }, ...(earlier[path] ?? [])];
  const body = { model: "lab/other", max_tokens: 64, stream, messages, input: messages };
  const text = await (await gateway.post(path, body)).text();
  expect(/"(?:call_)?id":"(call_0[^"]*)"/.exec(text)?.[1]).toMatch(/^call_0_[0-9A-Za-z]{8}$/);
});
