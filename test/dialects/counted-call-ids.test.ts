import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, sse, startUpstream, type Upstream } from "../support/upstream.ts";
import type { Wire } from "./crossing.ts";

let upstream: Upstream;
let gateway: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  gateway = await startApp({ vendors: [vendorAt(upstream, "chat", "plain")] });
});
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});
afterEach(() => upstream.reset());

/** A reply with two calls under the ids of a model that counts within its turn, or these. */
function reply(number: number, stream: boolean, own: readonly string[] = ["functions.f:0", "functions.f:1"]) {
  const call = (index: number) => ({
    ...{ index, ...(own[index] && { id: own[index] }), type: "function" },
    function: { name: "f", arguments: `{"n":${number}}` },
  });
  const head = { id: `chatcmpl-${number}`, created: 1, model: "m" };
  const calls = [call(0), call(1)];
  if (!stream) {
    const message = { role: "assistant", content: null, tool_calls: calls };
    return json({ ...head, choices: [{ index: 0, message, finish_reason: "tool_calls" }] });
  }
  const chunks = [
    ...calls.map((one) => ({ ...head, choices: [{ index: 0, delta: { tool_calls: [one] }, finish_reason: null }] })),
    { ...head, choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] },
  ];
  return sse(`${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("")}data: [DONE]\n\n`);
}

const SCHEMA = { type: "object", properties: { n: { type: "integer" } } };
const USER = { role: "user", content: "Hi" };
type Client = { path: string; ask: Wire; history: string; id: string; turn(ids: readonly string[]): Wire[] };

const CLIENTS: Record<string, Client> = {
  chat: {
    path: "/v1/chat/completions",
    ask: { tools: [{ type: "function", function: { name: "f", parameters: SCHEMA } }] },
    history: "messages",
    id: "id",
    turn: (ids) => [
      {
        role: "assistant",
        content: null,
        tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "f", arguments: "{}" } })),
      },
      ...ids.map((id) => ({ role: "tool", tool_call_id: id, content: "x" })),
    ],
  },
  messages: {
    path: "/v1/messages",
    ask: { max_tokens: 64, tools: [{ name: "f", input_schema: SCHEMA }] },
    history: "messages",
    id: "id",
    turn: (ids) => [
      { role: "assistant", content: ids.map((id) => ({ type: "tool_use", id, name: "f", input: {} })) },
      { role: "user", content: ids.map((id) => ({ type: "tool_result", tool_use_id: id, content: "x" })) },
    ],
  },
  responses: {
    path: "/v1/responses",
    ask: { tools: [{ type: "function", name: "f", parameters: SCHEMA }] },
    history: "input",
    id: "call_id",
    turn: (ids) => [
      ...ids.map((id) => ({ type: "function_call", call_id: id, name: "f", arguments: "{}" })),
      ...ids.map((id) => ({ type: "function_call_output", call_id: id, output: "x" })),
    ],
  },
};

describe.each(Object.keys(CLIENTS))("a %s client of a model that counts its calls within a turn", (name) => {
  const client = CLIENTS[name] as Client;

  test.each([false, true])(
    "knows each call by an id of its own, and the model by the one that it gave: stream %p",
    async (stream) => {
      const history: Wire[] = [USER];
      const seen: string[] = [];
      for (const number of [1, 2, 3]) {
        upstream.answer("/v1/chat/completions", reply(number, stream));
        const model = number === 3 ? "plain/other" : "plain/kimi-k3";
        const response = await gateway.post(client.path, { ...client.ask, model, stream, [client.history]: history });
        const text = await response.text();
        const found = [...text.matchAll(new RegExp(`"${client.id}":"(functions[^"]*)"`, "g"))].map(([, id]) =>
          String(id),
        );
        const ids = [...new Set(found)];
        expect(ids).toEqual([
          expect.stringMatching(/^functions\.f:0_[0-9A-Za-z]{8}$/),
          expect.stringMatching(/^functions\.f:1_[0-9A-Za-z]{8}$/),
        ]);
        history.push(...client.turn(ids));
        seen.push(...ids);
      }
      expect(new Set(seen).size).toBe(6);
      const sent = upstream.calls.map(({ text }) =>
        [...text.matchAll(/"(?:id|tool_call_id)":"([^"]*)"/g)].map(([, id]) => id),
      );
      const own = ["functions.f:0", "functions.f:1"];
      // A model of another family has them as the client does.
      expect(sent).toEqual([
        [],
        [...own, ...own],
        [...seen.slice(0, 2), ...seen.slice(0, 2), ...seen.slice(2, 4), ...seen.slice(2, 4)],
      ]);
    },
  );

  test.each([
    [false, "functions.f:0"],
    [true, "functions.f:0"],
    [false, "functions_f_0"],
    [true, "functions_f_0"],
  ])("knows two calls of one id by two, and so does the model: stream %p, %s", async (stream, own) => {
    upstream.answer("/v1/chat/completions", reply(1, stream, [own, own]), reply(2, stream));
    const ask = { ...client.ask, model: "plain/kimi-k3", stream };
    const response = await gateway.post(client.path, { ...ask, [client.history]: [USER] });
    const found = [...(await response.text()).matchAll(new RegExp(`"${client.id}":"(functions[^"]*)"`, "g"))];
    const ids = [...new Set(found.map(([, id]) => String(id)))];
    expect(ids.length).toBe(2);
    await (await gateway.post(client.path, { ...ask, [client.history]: [USER, ...client.turn(ids)] })).text();
    const [, again] = upstream.calls;
    const sent = [...String(again?.text).matchAll(/"(?:id|tool_call_id)":"([^"]*)"/g)].map(([, id]) => id);
    expect(sent).toEqual([own, ids[1], own, ids[1]]);
  });

  test.each([
    [false, [1, 2, 3], ["call_0", "call_1"]],
    [true, [1, 2, 3], ["call_0", "call_1"]],
    [false, [1, 1, 1], ["call_0", "call_1"]],
    [true, [1, 1, 1], ["call_0", "call_1"]],
    [false, [1, 1, 1], []],
    [true, [1, 1, 1], []],
  ])(
    "knows calls apart that their vendor does not, from turn to turn: stream %p, replies %p, ids %p",
    async (stream, numbers, own) => {
      const history: Wire[] = [USER];
      const seen: string[] = [];
      for (const number of numbers) {
        upstream.answer("/v1/chat/completions", reply(number, stream, own));
        const ask = { ...client.ask, model: "plain/other", stream, [client.history]: history };
        const text = await (await gateway.post(client.path, ask)).text();
        const found = [...text.matchAll(new RegExp(`"${client.id}":"(call_[^"]*)"`, "g"))];
        const ids = [...new Set(found.map(([, id]) => String(id)))];
        history.push(...client.turn(ids));
        seen.push(...ids);
      }
      // The first are nobody's yet.
      if (own.length > 0) expect(seen.slice(0, 2)).toEqual(own);
      expect(new Set(seen).size).toBe(6);
      const sent = [...String(upstream.calls[2]?.text).matchAll(/"(?:id|tool_call_id)":"([^"]*)"/g)].map(
        ([, id]) => id,
      );
      const [first, second] = [seen.slice(0, 2), seen.slice(2, 4)];
      expect(sent).toEqual([...first, ...first, ...second, ...second]);
    },
  );
});
