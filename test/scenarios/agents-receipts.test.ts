import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { PLAIN_CONFIG, startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

const MESSAGES_REPLY = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "m",
  content: [{ type: "text", text: "Hello" }],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: { input_tokens: 5, output_tokens: 1 },
};
const CHAT_REPLY = {
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: "Hello" }, logprobs: null, finish_reason: "stop" }],
  usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
};

/** A header and an address of the kind an operator may write a secret into. */
const SECRETS = ["vendor-key-of-claude", "token-in-a-header", "user-in-the-address", "key-in-the-query"];
const SIGNED_SECRETS = ["AKIAEXAMPLE", "signing-secret", "session-secret"];

let upstream: Upstream;
let gateway: TestApp;

const routes = (vendor: string) => [{ vendor, model: "m" }];

function secretive(): Vendor {
  const vendor = vendorAt(upstream, "messages", "claude");
  return {
    ...vendor,
    baseUrl: vendor.baseUrl.replace("http://", "http://user-in-the-address:pw@"),
    query: "api-version=7&key=key-in-the-query",
    headers: { "anthropic-version": "2023-06-01", "x-proxy-token": "token-in-a-header" },
  };
}

/** A model that always thinks, and cannot be told to do so less than a little. */
const deep = (id: string, form: "effort" | "adaptive-effort", to: ReturnType<typeof routes>) => ({
  ...{ id, pricing: "free" as const, routes: to },
  reasoning_efforts: { levels: ["low", "high"], default: "high" },
  reasoning: { form, reasons_by_default: true, no_off: true },
});

beforeAll(async () => {
  upstream = startUpstream();
  upstream.always("/v1/messages", () => json(MESSAGES_REPLY));
  upstream.always("/v1/chat/completions", () => json(CHAT_REPLY));
  const signed: Vendor = {
    ...vendorAt(upstream, "messages", "aws"),
    auth: "sigv4",
    apiKey: "AKIAEXAMPLE",
    credentials: { secretAccessKey: "signing-secret", sessionToken: "session-secret" },
    region: "eu-west-1",
    paths: { whole: "/model/{model}/invoke", stream: "/model/{model}/invoke-with-response-stream" },
    quirks: { versionInBody: "bedrock-2023-05-31" },
  };
  gateway = await startApp({
    vendors: [vendorAt(upstream, "messages"), vendorAt(upstream, "chat"), secretive(), signed],
    models: [
      { id: "lab/two", pricing: "free", routes: [...routes("messages"), ...routes("chat")] },
      { id: "lab/still", pricing: "free", capabilities: { reasoning: false }, routes: routes("messages") },
      deep("lab/deep-chat", "effort", routes("chat")),
      deep("lab/deep-messages", "adaptive-effort", routes("messages")),
      { id: "lab/secret", pricing: "free", routes: routes("claude") },
      { id: "lab/signed", pricing: "free", routes: routes("aws") },
    ],
    config: { server: { ...PLAIN_CONFIG.server, corsOrigins: ["https://chat.example"] } },
  });
});

afterAll(async () => {
  await gateway?.stop();
  upstream.close();
});

type Shown = {
  object: string;
  dialect: string;
  model: string;
  stream: boolean;
  reasoning: unknown;
  routes: {
    vendor: string;
    model: string;
    dialect: string;
    method: string;
    url: string;
    headers: Record<string, string>;
    body: Record<string, unknown>;
    reasoning: unknown;
    dropped: string[];
    error?: { code: string; param: string | null };
  }[];
};

const chat = (more: Record<string, unknown> = {}) => ({
  model: "lab/two",
  messages: [{ role: "user", content: "Hi" }],
  ...more,
});

async function show(dialect: string, body: unknown, headers: Record<string, string> = {}) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const response = await gateway.post("/v1/debug/translate", `{"dialect":"${dialect}","body":${text}}`, { headers });
  return { status: response.status, text: await response.text() };
}

async function shown(dialect: string, body: unknown, headers: Record<string, string> = {}): Promise<Shown> {
  const { status, text } = await show(dialect, body, headers);
  expect([status, text.slice(0, 200)]).toEqual([200, text.slice(0, 200)]);
  return JSON.parse(text) as Shown;
}

describe("reasoning that a model is asked for of which nobody knows how it is steered", () => {
  const said = { model: "chat/some-model", max_tokens: 50, messages: [{ role: "user", content: "hi" }] };
  const thinking = { type: "enabled", budget_tokens: 2_048 };

  test.each([
    ["/v1/messages", { ...said, thinking }, "thinking"],
    ["/v1/messages", { ...said, output_config: { effort: "high" } }, "output_config.effort"],
    ["/v1/responses", { model: said.model, input: "hi", reasoning: { effort: "low" } }, "reasoning.effort"],
    ["/v1/messages", said, null],
  ])("%s across dialects names what is left out", async (path, body, dropped) => {
    const response = await gateway.post(path, body);
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, dropped]);
    await response.text();
    const calls = upstream.calls.length;
    const strict = await gateway.post(path, body, { headers: { "x-sluice-strict": "1" } });
    expect(strict.status).toBe(dropped === null ? 200 : 400);
    await strict.text();
    expect(upstream.calls.length).toBe(dropped === null ? calls + 1 : calls);
  });

  test("leaves what is sampled by alone where it does not cross: nothing thinks for it", async () => {
    const response = await gateway.post("/v1/messages", { ...said, thinking, temperature: 0.3, top_p: 0.5 });
    expect(response.headers.get("x-sluice-dropped")).toBe("thinking");
    await response.text();
    expect(upstream.calls.at(-1)?.json).toMatchObject({ temperature: 0.3, top_p: 0.5 });
  });

  test("a form of answer that only some servers know is named where it is left out", async () => {
    const shownRoutes = (await shown("chat", chat({ response_format: { type: "grammar" } }))).routes;
    expect(shownRoutes.map(({ dialect, dropped }) => [dialect, dropped])).toEqual([
      ["messages", ["response_format"]],
      ["chat", []],
    ]);
    const plain = (await shown("chat", chat({ response_format: { type: "text" } }))).routes;
    expect(plain.map(({ dropped }) => dropped)).toEqual([[], []]);
  });

  test("crosses as it is where client and vendor speak the same", async () => {
    const body = { ...chat({ reasoning_effort: "high" }), model: "chat/some-model" };
    const same = await gateway.post("/v1/chat/completions", body);
    expect([same.status, same.headers.get("x-sluice-dropped")]).toEqual([200, null]);
    await same.text();
    expect(JSON.parse(upstream.calls.at(-1)?.text ?? "")).toMatchObject({ reasoning_effort: "high" });
  });
});

describe("what is asked of reasoning and has no effect is named (interface 4.8 rules 2 and 4)", () => {
  const uncharted = (body: Record<string, unknown>) => ({ ...chat(body), model: "chat/some-model" });
  const turns = { max_tokens: 50, messages: [{ role: "user", content: "hi" }] };
  test.each<[string, Record<string, unknown>, string | null]>([
    ["/v1/chat/completions", uncharted({ reasoning_effort: "hard" }), "reasoning_effort"],
    ["/v1/chat/completions", uncharted({ thinking: "on" }), "thinking"],
    ["/v1/chat/completions", { ...chat({ reasoning_effort: "high" }), model: "lab/still" }, "reasoning_effort"],
    ["/v1/chat/completions", chat({ reasoning: { effort: "deep" } }), "reasoning"],
    ["/v1/chat/completions", { ...chat({ reasoning_effort: "none" }), model: "lab/still" }, null],
    ["/v1/messages", { ...turns, model: "lab/still", thinking: { type: "adaptive" } }, "thinking"],
    ["/v1/messages", { ...turns, model: "lab/two", thinking: "on" }, "thinking"],
    ["/v1/messages", { ...turns, model: "lab/two", thinking: { type: "enabled", budget_tokens: "x" } }, "thinking"],
    ["/v1/messages", { ...turns, model: "messages/some-model", thinking: "on" }, "thinking"],
    ["/v1/messages", { ...turns, model: "lab/two", thinking: { type: "disabled" } }, null],
    ["/v1/responses", { model: "lab/two", input: "hi", reasoning: { effort: "deep" } }, "reasoning.effort"],
  ])("%s %j", async (path, body, dropped) => {
    const response = await gateway.post(path, body);
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, dropped]);
    await response.text();
    const sent = upstream.calls.at(-1)?.json as Record<string, unknown>;
    for (const field of ["reasoning_effort", "reasoning", "output_config"]) expect(sent[field]).toBeUndefined();
    if (dropped !== null) expect(sent["thinking"]).toBeUndefined();
  });

  const off = { thinking: { type: "disabled" } };
  test.each<[string, Record<string, unknown>, string | null]>([
    ["/v1/chat/completions", { ...chat({ reasoning_effort: "none" }), model: "lab/deep-chat" }, "reasoning_effort"],
    ["/v1/chat/completions", { ...chat({ reasoning_effort: "minimal" }), model: "lab/deep-chat" }, "reasoning_effort"],
    ["/v1/chat/completions", { ...chat({ reasoning_effort: "none" }), model: "lab/deep-messages" }, "reasoning_effort"],
    ["/v1/messages", { ...turns, ...off, model: "lab/deep-chat" }, "thinking"],
    ["/v1/messages", { ...turns, ...off, model: "lab/deep-messages" }, "thinking"],
    ["/v1/messages", { ...turns, ...off, output_config: { effort: "low" }, model: "lab/deep-messages" }, "thinking"],
    ["/v1/responses", { model: "lab/deep-chat", input: "hi", reasoning: { effort: "none" } }, "reasoning.effort"],
    ["/v1/chat/completions", { ...chat({}), model: "lab/deep-chat" }, null],
    ["/v1/chat/completions", { ...chat({ reasoning_effort: "max" }), model: "lab/deep-chat" }, null],
  ])("of a model that cannot be switched off: %s %j", async (path, body, dropped) => {
    const response = await gateway.post(path, body);
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, dropped]);
    await response.text();
    const sent = upstream.calls.at(-1)?.json as Record<string, unknown>;
    expect([sent["thinking"], sent["output_config"]]).toEqual([undefined, body["output_config"]]);
    expect(sent["reasoning_effort"]).toBe(dropped === null && body["reasoning_effort"] ? "high" : undefined);
  });
});

describe("x-sluice-strict", () => {
  const lossy = { logit_bias: { "50256": -100 }, seed: 7 };
  /** Of a model that is to be had in one dialect alone. */
  const losing = { ...chat(lossy), model: "messages/some-model" };

  test.each(["1", "true", "yes"])(
    "%s: what would be dropped is refused instead: all of it named, nothing sent, nothing charged",
    async (value) => {
      const [calls, rows] = [upstream.calls.length, gateway.rows().length];
      const response = await gateway.post("/v1/chat/completions", losing, {
        headers: { "x-sluice-strict": value },
      });
      const { error } = (await response.json()) as { error: Record<string, string> };
      expect([response.status, error["code"], error["type"]]).toEqual([
        400,
        "invalid_request",
        "invalid_request_error",
      ]);
      expect(error["param"]).toBe("logit_bias");
      expect(error["message"]).toContain("logit_bias");
      expect(error["message"]).toContain("seed");
      expect(response.headers.get("x-sluice-dropped")).toBeNull();
      expect(upstream.calls.length).toBe(calls);
      expect(gateway.rows().length).toBe(rows);
    },
  );

  test("a stream is refused with a status too, not inside a 200", async () => {
    const calls = upstream.calls.length;
    const body = { ...losing, stream: true };
    const response = await gateway.post("/v1/chat/completions", body, { headers: { "x-sluice-strict": "1" } });
    expect(response.status).toBe(400);
    await response.text();
    expect(upstream.calls.length).toBe(calls);
  });

  test("of a model's ways it goes the one on which nothing is lost", async () => {
    const response = await gateway.post("/v1/chat/completions", chat(lossy), { headers: { "x-sluice-strict": "1" } });
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
    await response.text();
    expect(upstream.calls.at(-1)?.path).toBe("/v1/chat/completions");
    expect(upstream.calls.at(-1)?.json).toMatchObject(lossy);
  });

  test.each([undefined, "0", "false", ""])(
    "with the header %p the answer comes, and names what was left out",
    async (value) => {
      const headers: Record<string, string> = value === undefined ? {} : { "x-sluice-strict": value };
      const response = await gateway.post("/v1/chat/completions", chat(lossy), { headers });
      expect(response.status).toBe(200);
      expect(response.headers.get("x-sluice-dropped")).toBe("logit_bias, seed");
      await response.text();
    },
  );

  test.each([
    ["yes", "1"],
    ["0", undefined],
  ])("a request that loses nothing passes, and a vendor is told the wish: %p", async (value, told) => {
    const response = await gateway.post("/v1/chat/completions", chat(), { headers: { "x-sluice-strict": value } });
    expect(response.status).toBe(200);
    await response.text();
    expect(upstream.calls.at(-1)?.headers["x-sluice-strict"]).toBe(told);
  });

  test("a browser may send it, and read what was left out and who counted", async () => {
    const origin = "https://chat.example";
    const preflight = await gateway.call("/v1/messages", {
      method: "OPTIONS",
      headers: { origin, "access-control-request-method": "POST" },
    });
    expect(preflight.headers.get("access-control-allow-headers")).toContain("x-sluice-strict");
    const exposed = preflight.headers.get("access-control-expose-headers");
    for (const name of ["x-sluice-dropped", "x-sluice-token-count"]) expect(exposed).toContain(name);
  });

  test("the document tells of it", async () => {
    const document = (await (await gateway.call("/openapi/json")).json()) as {
      paths: Record<string, { post: { parameters?: { name: string }[] } }>;
    };
    for (const path of ["/v1/chat/completions", "/v1/messages", "/v1/responses"]) {
      expect(document.paths[path]?.post.parameters?.map(({ name }) => name)).toContain("x-sluice-strict");
    }
    expect(document.paths["/v1/debug/translate"]).toBeDefined();
  });
});

describe("POST /v1/debug/translate", () => {
  test("shows for every route what would be sent, and sends, charges and writes nothing", async () => {
    const [calls, rows] = [upstream.calls.length, gateway.rows().length];
    const { routes: found, ...rest } = await shown("chat", chat({ reasoning_effort: "high", seed: 7, stream: true }));
    expect(rest).toEqual({
      object: "translation",
      dialect: "chat",
      model: "lab/two",
      stream: true,
      reasoning: { kind: "effort", effort: "high" },
    });
    expect(found.map(({ vendor, model, dialect, method }) => [vendor, model, dialect, method])).toEqual([
      ["messages", "m", "messages", "POST"],
      ["chat", "m", "chat", "POST"],
    ]);
    const [first, second] = found;
    expect([first?.url, second?.url]).toEqual([`${upstream.url}/v1/messages`, `${upstream.url}/v1/chat/completions`]);
    expect([first?.dropped, second?.dropped]).toEqual([["reasoning_effort", "seed"], []]);
    expect(first?.body).toMatchObject({ model: "m", stream: true, messages: [{ role: "user" }] });
    expect(second?.body).toMatchObject({ model: "m", seed: 7, messages: [{ role: "user", content: "Hi" }] });
    expect(first?.reasoning).toEqual({ kind: "keep" });
    expect([upstream.calls.length, gateway.rows().length]).toEqual([calls, rows]);
  });

  test.each(["chat", "messages"])("it is what a %s request then really sends, to the byte", async (dialect) => {
    const path = dialect === "chat" ? "/v1/chat/completions" : "/v1/messages";
    const body = `{"model":"lab/two","max_tokens":9,"messages":[{"role":"user","content":"Hi \\u00e9"}],"metadata":{"user_id":"u"},"big":12345678901234567890}`;
    const [route] = (await shown(dialect, body, { "anthropic-beta": "some-beta" })).routes;
    const { text } = await show(dialect, body);
    await (await gateway.post(path, body, { headers: { "anthropic-beta": "some-beta" } })).text();
    const call = upstream.calls.at(-1);
    expect(text).toContain(`"body":${call?.text}`);
    expect(JSON.stringify(route?.body)).toBe(JSON.stringify(call?.json));
    for (const [name, value] of Object.entries(route?.headers ?? {})) {
      if (name === "x-client-request-id") continue;
      if (value === "[secret]") expect(["x-api-key", "authorization"]).toContain(name);
      else expect([name, call?.headers[name]]).toEqual([name, value]);
    }
    expect(route?.url).toBe(`${upstream.url}${call?.path}`);
  });

  test("no secret is shown, wherever the operator wrote it", async () => {
    const { status, text } = await show("messages", {
      model: "lab/secret",
      max_tokens: 1,
      messages: [{ role: "user", content: "Hi" }],
    });
    expect(status).toBe(200);
    for (const secret of [...SECRETS, gateway.key]) expect(text).not.toContain(secret);
    const [route] = (JSON.parse(text) as Shown).routes;
    expect(route?.headers).toMatchObject({ "x-api-key": "[secret]", "x-proxy-token": "[secret]" });
    expect(route?.headers["anthropic-version"]).toBe("2023-06-01");
    expect(route?.url).toEndWith("/v1/messages?api-version=7&key=[secret]");
  });

  test("a signed vendor's request is shown without being signed", async () => {
    const { text } = await show("messages", {
      model: "lab/signed",
      max_tokens: 1,
      messages: [{ role: "user", content: "Hi" }],
    });
    for (const secret of SIGNED_SECRETS) expect(text).not.toContain(secret);
    const [route] = (JSON.parse(text) as Shown).routes;
    expect(route?.headers["authorization"]).toBe("[secret]");
    expect(route?.url).toEndWith("/model/m/invoke");
    expect(route?.body).toMatchObject({ anthropic_version: "bedrock-2023-05-31" });
    expect(route?.body).not.toHaveProperty("model");
  });

  test("what one vendor cannot be told is that route's error, and the others are shown", async () => {
    const audio = [{ role: "user", content: [{ type: "input_audio", input_audio: { data: "AAAA", format: "wav" } }] }];
    const { routes: found } = await shown("chat", chat({ messages: audio }));
    expect(found[0]?.error?.code).toBe("invalid_request");
    expect(found[0]).not.toHaveProperty("body");
    expect(found[1]?.error).toBeUndefined();
    expect(found[1]?.body["messages"]).toEqual(audio);
  });

  const faults: readonly (readonly [string, string, unknown, number, string, string | null])[] = [
    ["a dialect nobody speaks", "gemini", chat(), 400, "invalid_request", "dialect"],
    ["a body that is none", "chat", "7", 400, "invalid_request", "body"],
    ["a request that is none", "chat", { model: "lab/two" }, 400, "invalid_request", "messages"],
    ["a model that is not", "chat", chat({ model: "lab/none" }), 404, "model_not_found", "model"],
  ];
  for (const [name, dialect, body, status, code, param] of faults) {
    test(name, async () => {
      const told = await show(dialect, body);
      const { error } = JSON.parse(told.text) as { error: { code: string; param: string | null } };
      expect([told.status, error.code, error.param]).toEqual([status, code, param]);
    });
  }

  test("a key that is narrowed to other models is shown nothing of this one", async () => {
    const { key } = await gateway.app.keys.create({
      accountId: gateway.accountId,
      name: "narrow",
      kind: "api",
      models: ["lab/secret"],
    });
    const told = await show("chat", chat(), { authorization: `Bearer ${key}` });
    expect(told.status).toBe(403);
    expect(told.text).toContain("permission_denied");
    expect(told.text).not.toContain(upstream.url);
  });

  test("a picture that would be fetched is not fetched for showing", async () => {
    const calls = upstream.calls.length;
    const url = `${upstream.url}/picture.png`;
    const content = [{ type: "image_url", image_url: { url } }];
    const [route] = (await shown("chat", chat({ messages: [{ role: "user", content }] }))).routes;
    expect(route?.error).toBeUndefined();
    expect(JSON.stringify(route?.body)).toContain("base64");
    expect(upstream.calls.length).toBe(calls);
  });

  test("wants a key, and answers to POST alone", async () => {
    const open = await gateway.call("/v1/debug/translate", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{}",
    });
    expect(open.status).toBe(401);
    expect((await gateway.call("/v1/debug/translate")).status).toBe(405);
  });
});
