import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { json } from "../support/upstream.ts";
import { ask, ONE_ROUTE, PATH, type ScenarioLab, startScenarioLab } from "./lab.ts";
import { HIDDEN_MODEL, type Mode, SIDES, type Side, soundAnswer, WIRES } from "./wires.ts";

setDefaultTimeout(60_000);

let lab: ScenarioLab;
beforeAll(async () => {
  lab = await startScenarioLab();
});
afterAll(() => lab.stop());
afterEach(() => lab.reset());

/** Sends a body as text on the diagonal and gives the call that the vendor got. */
async function send(side: Side, text: string, mode: Mode = "blocking", headers: Record<string, string> = {}) {
  const vendor = lab.vendors[side];
  vendor.reset();
  vendor.answer(PATH[side], soundAnswer(WIRES[side], mode));
  const response = await lab.gateway.post(PATH[side], text, { headers });
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  const [call, ...more] = vendor.calls;
  expect(more).toEqual([]);
  if (!call) throw new Error("the vendor was not called");
  return call;
}

const oddities = (side: Side) => `{
  "future" : {"z":1,"a":[1.0,1e2,12345678901234567890,0.1000000000000000055511151231257827]},
  "model":"${ONE_ROUTE[side]}",\t"messages":[{"content":"\\u00e9\\/ 日本 \\ud83d\\ude00","role":"user","x-mine":{"b":2,"a":1}}]
  ,"max_tokens" : 64 , "metadata":{"user_id":"u"},"temperature":0.70,
  "emptyArray":[ ],"emptyObject":{ },"nothing":null }`;

describe("the client's own bytes", () => {
  test("messages: all but the model's name", async () => {
    const text = oddities("messages");
    expect((await send("messages", text)).text).toBe(text.replace(ONE_ROUTE.messages, HIDDEN_MODEL));
  });

  test("messages, streamed: all but the model's name", async () => {
    const text = oddities("messages").replace(/ }$/, ', "stream" : true }');
    expect((await send("messages", text, "stream")).text).toBe(text.replace(ONE_ROUTE.messages, HIDDEN_MODEL));
  });

  test("chat: all but the model's name and the newer name of the ceiling", async () => {
    const text = oddities("chat").replace('"max_tokens"', '"max_completion_tokens"');
    expect((await send("chat", text)).text).toBe(text.replace(ONE_ROUTE.chat, HIDDEN_MODEL));
  });

  test("chat, streamed: the usage is asked for behind the client's back", async () => {
    const text = `{"model":"${ONE_ROUTE.chat}","big":12345678901234567890,"messages":[{"role":"user","content":"Hi"}],"stream":true}`;
    const sent = (await send("chat", text, "stream")).text;
    expect(sent).toBe(
      `${text.replace(ONE_ROUTE.chat, HIDDEN_MODEL).slice(0, -1)},"stream_options":{"include_usage":true}}`,
    );
  });

  test.each(SIDES)("a model's name that also stands elsewhere is exchanged in its own place only: %s", async (side) => {
    const model = ONE_ROUTE[side];
    const ceiling = side === "messages" ? ',"max_tokens":64' : "";
    const text = `{"messages":[{"role":"user","content":"\\"model\\":\\"${model}\\"","model":"${model}"}],"x":{"model":"${model}"},"model":"${model}"${ceiling}}`;
    const at = text.lastIndexOf(model);
    const expected = text.slice(0, at) + HIDDEN_MODEL + text.slice(at + model.length);
    expect((await send(side, text)).text).toBe(expected);
  });

  test.each(SIDES)("a field that is given twice cannot smuggle another model in: %s", async (side) => {
    const ceiling = side === "messages" ? ',"max_tokens":64' : "";
    for (const first of ['"model":"vendor-dead/other"', '"mod\\u0065l":"vendor-dead/other"']) {
      const text = `{${first},"messages":[{"role":"user","content":"Hi"}],"model":"${ONE_ROUTE[side]}"${ceiling}}`;
      expect((await send(side, text)).text).not.toContain("vendor-dead");
    }
  });

  test("whatever JSON stands beside them, known fields arrive and the rest keeps its bytes", async () => {
    const value = fc.json({ maxDepth: 4 }).filter((text) => !text.includes("__proto__"));
    const name = fc.string({ unit: "grapheme", maxLength: 12 }).map((text) => `x-${text}`);
    await fc.assert(
      fc.asyncProperty(name, value, fc.constantFrom(...SIDES), async (field, text, side) => {
        const extra = `${JSON.stringify(field)}:${text}`;
        const body = `{${extra}, ${JSON.stringify(ask(side, ONE_ROUTE[side], "blocking")).slice(1)}`;
        const sent = (await send(side, body.replace('"max_tokens"', '"max_tokens"'))).text;
        expect(sent).toBe(body.replace(`"model":"${ONE_ROUTE[side]}"`, `"model":"${HIDDEN_MODEL}"`));
      }),
      { numRuns: 150 },
    );
  });
});

describe("headers", () => {
  const OFFERED = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "interleaved-thinking-2025-05-14,context-1m",
    "anthropic-user-profile-id": "uprof_1",
    // The gateway's own account at the vendor is for nobody else to choose.
    "anthropic-workspace-id": "wrkspc_1",
    "openai-beta": "assistants=v2",
    "openai-organization": "org-mine",
    "openai-project": "proj-mine",
    "x-stainless-lang": "js",
    cookie: "session=1",
    referer: "http://localhost/secret",
    "x-forwarded-for": "10.0.0.7",
    forwarded: "for=10.0.0.7",
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "idempotency-key": "mine",
    "user-agent": "client/1",
    "accept-language": "de",
    "x-api-version": "9",
    te: "trailers",
  };
  const OURS = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "user-agent",
    "x-client-request-id",
  ];
  const PASSED: Record<Side, string[]> = {
    chat: ["openai-beta"],
    messages: ["anthropic-beta", "anthropic-user-profile-id", "anthropic-version"],
  };
  const AUTH: Record<Side, string> = { chat: "authorization", messages: "x-api-key" };

  test.each(SIDES)("on the diagonal only those that the dialect knows cross: %s", async (side) => {
    const { key } = lab.gateway;
    const body = JSON.stringify(ask(side, ONE_ROUTE[side], "blocking"));
    const { headers } = await send(side, body, "blocking", { ...OFFERED, "x-api-key": key });
    expect(Object.keys(headers).sort()).toEqual([...OURS, ...PASSED[side], AUTH[side]].sort());
    for (const name of PASSED[side]) expect(headers[name]).toBe(OFFERED[name as keyof typeof OFFERED]);
    expect(headers[AUTH[side]]).toEndWith(`vendor-key-of-vendor-${side}`);
    expect(headers["user-agent"]).toStartWith("sluice/");
    expect(JSON.stringify(headers)).not.toContain(key);
  });

  const cited = { type: "text", text: "t", citations: [{ type: "char_location", cited_text: "t", document_index: 0 }] };
  const found = { type: "search_result", source: "s", title: "t", content: [cited] };
  const document = { type: "document", source: { type: "text", media_type: "text/plain", data: "d" } };
  const user = (...content: unknown[]) => ({ role: "user", content });
  const call = { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "f", input: {} }] };
  /** What version 2026-10-21 refuses, and what it takes (dialects.md 2.0). */
  const VERSIONED: [string, string, Record<string, unknown>][] = [
    ["temperature", "2023-06-01", { temperature: 1 }],
    ["top_p", "2023-06-01", { top_p: 0.9 }],
    ["top_k", "2023-06-01", { top_k: 5 }],
    [
      "a document of the assistant's",
      "2023-06-01",
      { messages: [user(document), { role: "assistant", content: [document] }, user(document)] },
    ],
    ["a user's text that cites", "2023-06-01", { messages: [user(cited)] }],
    ["a search result that cites", "2023-06-01", { messages: [user(found)] }],
    [
      "a tool's search result that cites",
      "2023-06-01",
      { messages: [user(document), call, user({ type: "tool_result", tool_use_id: "toolu_1", content: [found] })] },
    ],
    [
      "nothing of it",
      "2026-10-21",
      { messages: [user({ ...document, citations: { enabled: true } }, { ...cited, citations: [] })] },
    ],
    [
      "an assistant's text that cites",
      "2026-10-21",
      { messages: [user(document), { role: "assistant", content: [cited] }, user(document)] },
    ],
  ];
  test.each(VERSIONED)(
    "the client's newer version goes on unless that refuses what we take: %s",
    async (_what, version, more) => {
      const body = JSON.stringify({ ...(ask("messages", ONE_ROUTE.messages, "blocking") as object), ...more });
      const { headers, json: sent } = await send("messages", body, "blocking", { "anthropic-version": "2026-10-21" });
      expect(headers["anthropic-version"]).toBe(version);
      expect(sent).toMatchObject(more);
    },
  );

  test("a header without a value is none: the vendor is told the version of its row, and no betas", async () => {
    const body = JSON.stringify(ask("messages", ONE_ROUTE.messages, "blocking"));
    const empty = { "anthropic-version": "", "anthropic-beta": "" };
    const { headers } = await send("messages", body, "blocking", empty);
    expect(headers["anthropic-version"]).toBe("2023-06-01");
    expect(headers).not.toContainKey("anthropic-beta");
  });

  test.each(SIDES)("across dialects none does: to %s", async (upstream) => {
    const client = upstream === "chat" ? "messages" : "chat";
    lab.vendors[upstream].answer(PATH[upstream], json(WIRES[upstream].reply()));
    const body = ask(client, ONE_ROUTE[upstream], "blocking");
    const response = await lab.gateway.post(PATH[client], body, {
      headers: { ...OFFERED, "idempotency-key": `mine, to ${upstream}` },
    });
    expect(response.status).toBe(200);
    const { headers, text } = await lab.vendors[upstream].called();
    // The vendor's own version is sent by its row, whatever the client said.
    const ours = upstream === "messages" ? [...OURS, "anthropic-version"] : OURS;
    expect(Object.keys(headers).sort()).toEqual([...ours, AUTH[upstream]].sort());
    expect(JSON.stringify(headers) + text).not.toContain(lab.gateway.key);
  });

  test.each(SIDES)("nothing of the vendor's headers reaches the client: %s", async (side) => {
    const headers = {
      "x-ratelimit-limit-requests": "3",
      "set-cookie": "a=b",
      server: "vendor",
      "openai-organization": "org-x",
    };
    lab.vendors[side].answer(PATH[side], json(WIRES[side].reply(), { headers }));
    const response = await lab.gateway.post(PATH[side], ask(side, ONE_ROUTE[side], "blocking"));
    // Over a socket the server itself adds two.
    const names = [...response.headers.keys()].filter((name) => name !== "date" && name !== "content-length");
    expect(names.sort()).toEqual(["content-type", "request-id", "x-content-type-options", "x-request-id"]);
  });
});
