import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { GENERATION_PATH as PATHS, startApp, type TestApp, vendorAt } from "../support/app.ts";
import { givenExecutable } from "../support/binary.ts";
import { manualClock } from "../support/clock.ts";
import { type Listening, listen } from "../support/listening.ts";
import { chatReply, json, sse, startUpstream } from "../support/upstream.ts";
import { until } from "../support/wait.ts";
import { PNG } from "../vendors/image-lab.ts";

type Wire = Record<string, unknown>;

/** What a gateway of this kind lists (interface 2.3). */
const LISTED = {
  ...{ id: "big/thinker", object: "model", created: 0, display_name: "Thinker", owned_by: "Big", modality: "chat" },
  ...{ access_tier: "paid", context_length: 200_000, max_output_tokens: 64_000 },
  capabilities: { vision: true, tools: true, reasoning: true },
  reasoning_efforts: { levels: ["none", "low", "high", "max"], default: "high" },
};

const upstream = startUpstream();
const apps: TestApp[] = [];
const servers: Listening[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop();
  for (const app of apps.splice(0)) await app.stop();
  upstream.reset();
});
afterAll(() => upstream.close());

const rows = { chat: "c", messages: "m", responses: "r" } as const;
type Dialect = keyof typeof rows;
const content = "Hi";
const turns = { messages: [{ role: "user", content }] };

/** A gateway whose vendor is another one, by a row of each dialect. */
async function nearGateway(): Promise<TestApp> {
  upstream.always("/v1/models", json({ object: "list", data: [LISTED, { ...LISTED, id: "big/other" }] }));
  const vendors = (["chat", "messages", "responses"] as const).map((dialect) => ({
    ...vendorAt(upstream, dialect, rows[dialect]),
    models: "discover" as const,
  }));
  const app = await startApp({ vendors });
  apps.push(app);
  // An executable asks at its start.
  if (!givenExecutable()) await app.app.discovery.askAll();
  await until(async () => (await entries(app)).length === 6, "the models of all rows");
  return app;
}

async function entries(app: TestApp): Promise<Wire[]> {
  const { data } = (await (await app.call("/v1/models")).json()) as { data: Wire[] };
  return data.filter(({ owned_by: owner }) => owner !== "sluice" && owner !== "Sluice");
}

describe("a gateway behind a gateway", () => {
  test("what the far one lists of a model is told on", async () => {
    const app = await nearGateway();
    const { context_length, max_output_tokens, capabilities, reasoning_efforts } = LISTED;
    for (const entry of await entries(app))
      expect(entry).toMatchObject({ context_length, max_output_tokens, capabilities, reasoning_efforts });
  });

  const ASKS: Record<Dialect, (effort: string) => Wire> = {
    chat: (effort) => ({ ...turns, reasoning_effort: effort }),
    messages: (effort) => ({ ...turns, max_tokens: 9_000, thinking: { type: "adaptive" }, output_config: { effort } }),
    responses: (effort) => ({ input: content, reasoning: { effort } }),
  };
  const READS: Record<Dialect, (body: Wire) => unknown> = {
    chat: ({ reasoning_effort: effort }) => effort,
    messages: ({ output_config: config }) => (config as Wire | undefined)?.["effort"],
    responses: ({ reasoning }) => (reasoning as Wire | undefined)?.["effort"],
  };
  const DIALECTS = ["chat", "messages", "responses"] as const;
  const across = DIALECTS.flatMap((client) => DIALECTS.map((vendor) => [client, vendor] as const));

  test.each(across)("a wish of a %s client for reasoning reaches a %s row", async (client, vendor) => {
    const app = await nearGateway();
    const path = PATHS[vendor];
    upstream.always(path, json({ error: { message: "Enough." } }, { status: 400 }));
    for (const [asked, told] of [
      ["high", "high"],
      ["max", "max"],
      // Its own dialect says all that it wants, and the far one brings that to the model.
      ["medium", client === vendor ? "medium" : "low"],
    ] as const) {
      await app.post(PATHS[client], { model: `${rows[vendor]}/big/thinker`, ...ASKS[client](asked) });
      const { json: body } = upstream.calls.at(-1) ?? { json: {} };
      expect([asked, READS[vendor](body as Wire)]).toEqual([asked, told]);
    }
  });

  test("a budget stays as it is on its way to a row of the client's dialect", async () => {
    const app = await nearGateway();
    upstream.always("/v1/messages", json({ error: { message: "Enough." } }, { status: 400 }));
    const thinking = { type: "enabled", budget_tokens: 5_000 };
    await app.post("/v1/messages", { model: "m/big/thinker", max_tokens: 9_000, thinking, ...turns });
    expect(upstream.calls.at(-1)?.json).toMatchObject({ max_tokens: 9_000, thinking });
  });

  test.each([
    [{}, 64_000],
    [{ max_completion_tokens: 90_000 }, 90_000],
  ])(
    "a row of the messages dialect is asked for as much as its list says, or as the client wants: %j",
    async (more, most) => {
      const app = await nearGateway();
      upstream.always("/v1/messages", json({ error: { message: "Enough." } }, { status: 400 }));
      await app.post("/v1/chat/completions", { model: "m/big/thinker", ...more, ...turns });
      expect(upstream.calls.at(-1)?.json).toMatchObject({ max_tokens: most });
    },
  );
});

describe("what a model behind a far gateway has thought", () => {
  const PATH = "/v1/messages";
  // As that one packs what it has of a vendor of another dialect.
  const thought = { type: "thinking", thinking: "Hm.", signature: "rs:WyJyc18xIiwiRU5DIl0" };
  const call = { type: "tool_use", id: "toolu_1", name: "f", input: {} };
  const reply = (content: Wire[]) => ({
    ...{ id: "msg_1", type: "message", role: "assistant", model: "big/thinker", content, stop_reason: "tool_use" },
    ...{ stop_sequence: null, usage: { input_tokens: 3, output_tokens: 2 } },
  });
  const thinking = { type: "enabled", budget_tokens: 2_000 };
  const asked = { max_tokens: 9_000, thinking, tools: [{ name: "f", input_schema: { type: "object" } }] };
  const results = { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "42" }] };
  const later = { messages: [...turns.messages, { role: "assistant", content: [thought, call] }, results] };

  test("goes back as it came, and thinking stays on; to another model it does not, nor where it was never seen", async () => {
    const app = await nearGateway();
    upstream.always(PATH, json(reply([thought, call])));
    await app.post(PATH, { model: "m/big/thinker", ...asked, ...later });
    expect(upstream.calls.at(-1)?.json).toMatchObject({ thinking: { type: "disabled" } });
    await app.post(PATH, { model: "m/big/thinker", ...asked, ...turns });
    const told = await app.post(PATH, { model: "m/big/thinker", ...asked, ...later });
    expect(told.headers.get("x-sluice-dropped")).toBeNull();
    expect(upstream.calls.at(-1)?.json).toMatchObject({ thinking, messages: later.messages });
    await app.post(PATH, { model: "m/big/other", ...asked, ...later });
    expect(JSON.stringify(upstream.calls.at(-1)?.json)).not.toContain(thought.signature);
  });
});

describe("what is lost behind a far gateway", () => {
  const PATH = "/v1/chat/completions";

  test.each([false, true])("is named here too, beside what was lost before (stream: %p)", async (stream) => {
    const app = await nearGateway();
    const headers = { "x-sluice-dropped": "seed, stop" };
    const reply = stream
      ? sse('data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n', {
          headers,
        })
      : json(chatReply("Hi"), { headers });
    upstream.always(PATH, reply);
    const response = await app.post(PATH, { model: "c/big/thinker", ...turns, stream, reasoning_effort: "ultra" });
    await response.text();
    expect(response.headers.get("x-sluice-dropped")).toBe("reasoning_effort, seed, stop");
  });
});

describe("what a strict client would lose behind a far gateway", () => {
  /** A far gateway, whose model is to be had in another dialect alone, and a near one with a way to it and one that goes past it. */
  async function farAndNear(): Promise<TestApp> {
    const far = await startApp({
      vendors: [vendorAt(upstream, "messages", "lab")],
      models: [{ id: "lab/m", pricing: "free", routes: [{ vendor: "lab", model: "m" }] }],
    });
    const server = listen(far);
    const row = vendorAt({ url: `http://127.0.0.1:${server.port}` }, "chat", "far");
    const ways = [
      { vendor: "far", model: "lab/m" },
      { vendor: "direct", model: "m" },
    ];
    const near = await startApp({
      vendors: [{ ...row, apiKey: far.key }, vendorAt(upstream, "chat", "direct")],
      models: [
        { id: "far/m", pricing: "free", routes: ways.slice(0, 1) },
        { id: "far/two", pricing: "free", routes: ways },
      ],
    });
    servers.push(server);
    apps.push(near, far);
    return near;
  }

  const strictly = (app: TestApp, model: string) =>
    app.post(PATHS.chat, { model, ...turns, seed: 7 }, { headers: { "x-sluice-strict": "1" } });

  test("is refused there before anybody is asked, and told here", async () => {
    const response = await strictly(await farAndNear(), "far/m");
    const { error } = (await response.json()) as { error: Record<string, string> };
    expect([response.status, error["code"], error["param"]]).toEqual([400, "invalid_request", "seed"]);
    expect(upstream.calls).toEqual([]);
  });

  test("has it go another way, on which nothing is lost", async () => {
    upstream.always(PATHS.chat, json(chatReply("Hi")));
    const response = await strictly(await farAndNear(), "far/two");
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
    await response.text();
    expect(upstream.calls.map(({ path, json: body }) => [path, (body as Wire)["seed"]])).toEqual([[PATHS.chat, 7]]);
  });
});

test("a far gateway that goes by another host name does not read as one that refuses the key", async () => {
  const app = await nearGateway();
  // As its guard tells who names a host that it does not know.
  const message = "This host name is not served here.";
  const error = { message, type: "permission_error", param: null, code: "permission_denied" };
  upstream.always(PATHS.chat, json({ error }, { status: 403 }));
  const response = await app.post(PATHS.chat, { model: "c/big/thinker", ...turns });
  const { error: told } = (await response.json()) as { error: Wire };
  expect([response.status, told["code"]]).toEqual([502, "upstream_auth"]);
  expect(told["message"]).toStartWith("The vendor does not allow this gateway what was asked.");
});

describe("images at a gateway behind a gateway", () => {
  const ORDERS = "/v1/images/generations";
  const FAR = "01a21e9b-1b64-777d-a7e6-9d595e572587";
  const job = (status: string, more: Wire = {}) => ({
    ...{ id: FAR, object: "image.generation.job", status, created: 1, model: "big/painter", prompt: "a fox" },
    ...{ aspect_ratio: "1:1", style: null, ...more },
  });

  async function order(): Promise<{ app: TestApp; id: string; again(): Promise<void> }> {
    const clock = manualClock();
    const app = await startApp({ vendors: [vendorAt(upstream, "chat", "c")], clock });
    apps.push(app);
    upstream.always(ORDERS, json(job("processing"), { status: 202 }));
    const response = await app.post(ORDERS, { model: "c/big/painter", prompt: "a fox" });
    expect(response.status).toBe(202);
    await upstream.called();
    // Contract 8: every two seconds.
    const again = async () => {
      await clock.armed(2_000);
      await clock.advance(2_000);
    };
    return { app, id: ((await response.json()) as { id: string }).id, again };
  }

  const look = async (app: TestApp, id: string) => {
    const headers = { authorization: `Bearer ${app.key}` };
    return (await (await app.call(`${ORDERS}/${id}`, { headers })).json()) as Wire;
  };
  const ended = async (app: TestApp, id: string) => {
    await until(async () => (await look(app, id))["status"] !== "processing", "the job's end");
    return look(app, id);
  };
  const orders = () => upstream.calls.filter(({ method }) => method === "POST").length;

  test("are waited for there, and fetched from there", async () => {
    const { app, id, again } = await order();
    upstream.answer(`${ORDERS}/${FAR}`, json(job("processing")));
    upstream.always(
      `${ORDERS}/${FAR}`,
      json(job("succeeded", { data: [{ url: `${upstream.url}/v1/images/files/1` }] })),
    );
    const headers = { "content-type": "image/png" };
    upstream.always("/v1/images/files/1", { headers, parts: [PNG], framing: "length", finish: "end" });
    await again();
    await again();
    const { status, data } = await ended(app, id);
    expect([status, orders()]).toEqual(["succeeded", 1]);
    const [{ url } = { url: "" }] = data as { url: string }[];
    const file = await app.call(new URL(url).pathname);
    expect(Buffer.from(await file.arrayBuffer())).toEqual(Buffer.from(PNG));
  });

  test.each([
    [job("blocked", { error: { message: "No." } }), "blocked", "content grounds"],
    [job("failed", { error: { message: "The brush broke.", code: "upstream_error" } }), "failed", "The brush broke."],
  ])("end as they end there", async (there, status, words) => {
    const { app, id, again } = await order();
    upstream.always(`${ORDERS}/${FAR}`, json(there));
    await again();
    const here = await ended(app, id);
    expect([here["status"], orders()]).toEqual([status, 1]);
    expect((here["error"] as Wire)["message"]).toContain(words);
  });

  test("are cancelled there too", async () => {
    const { app, id, again } = await order();
    upstream.always(`${ORDERS}/${FAR}`, json(job("processing")));
    await again();
    await until(() => upstream.calls.some(({ method }) => method === "GET"), "the first question");
    await app.call(`${ORDERS}/${id}`, { method: "DELETE", headers: { authorization: `Bearer ${app.key}` } });
    await until(() => upstream.calls.some(({ method }) => method === "DELETE"), "the word that nobody waits");
    expect(upstream.calls.findLast(({ method }) => method === "DELETE")?.path).toBe(`${ORDERS}/${FAR}`);
  });
});

describe("a gateway whose list says of a model that it has to reason (OpenRouter)", () => {
  const REASONS = { mandatory: true, default_enabled: true, supported_efforts: ["max", "high", "low"] };
  const asked = async (reasoning: Wire, body: Wire) => {
    upstream.always("/v1/models", json({ data: [{ id: "a/b", supported_parameters: ["reasoning"], reasoning }] }));
    upstream.always(PATHS.chat, json(chatReply("ok")));
    const app = await startApp({ vendors: [{ ...vendorAt(upstream, "chat", "hub"), models: "discover" }] });
    apps.push(app);
    if (!givenExecutable()) await app.app.discovery.askAll();
    await until(async () => (await entries(app)).length === 1, "its model");
    const [{ reasoning_efforts: efforts } = {}] = await entries(app);
    const path = "thinking" in body ? PATHS.messages : PATHS.chat;
    const { status } = await app.post(path, { model: "hub/a/b", max_tokens: 90, ...turns, ...body });
    expect(status).toBe(200);
    const told = upstream.calls.at(-1)?.json as Wire;
    return { efforts, told: told["reasoning"] };
  };

  test.each<[Wire, unknown]>([
    [{ thinking: { type: "disabled" } }, undefined],
    [{ reasoning_effort: "none" }, undefined],
    [{}, undefined],
    [{ thinking: { type: "adaptive" } }, { effort: "max" }],
    [{ reasoning_effort: "medium" }, { effort: "low" }],
  ])("is not told to switch that off, and is asked for depths that it has: %j", async (body, told) => {
    const levels = ["low", "high", "max"];
    expect(await asked({ ...REASONS, default_effort: "max" }, body)).toEqual({
      efforts: { levels, default: "max" },
      told,
    });
  });

  test.each<[Wire, unknown]>([
    [{ thinking: { type: "disabled" } }, undefined],
    [{ reasoning_effort: "xhigh" }, { effort: "xhigh" }],
  ])("so where it does not say which those are: %j", async (body, told) => {
    const levels = ["low", "medium", "high", "xhigh"];
    expect(await asked({ mandatory: true, supported_efforts: null }, body)).toEqual({
      efforts: { levels, default: "medium" },
      told,
    });
  });
});
