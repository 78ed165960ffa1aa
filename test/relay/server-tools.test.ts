import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { isAllowed } from "../../src/relay/server-tools/call.ts";
import { Sources } from "../../src/relay/server-tools/cite.ts";
import { MAX_CALLS, MAX_ROUNDS } from "../../src/relay/server-tools/loop.ts";
import { expectFinished } from "../scenarios/lab.ts";
import { FIRST, modelOf, type ServedLab, says, searches, startServedLab } from "../scenarios/server-tools.lab.ts";
import { readRecords } from "../scenarios/wires.ts";
import { DIALECTS } from "../sdk/lab.ts";
import type { Reply, Step } from "../sdk/replies.ts";
import { insideOnly, oneProcessOnly } from "../support/black-box-config.ts";
import { json, redirect, sse, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

let lab: ServedLab;
let web: Upstream;
beforeAll(async () => {
  web = startUpstream();
  lab = await startServedLab({ web: { fetch: { allow_hosts: [new URL(web.url).host] } } });
});
afterAll(async () => {
  await lab.stop();
  web.close();
});
afterEach(() => {
  web.reset();
  lab.gateway.log.length = 0;
  lab.gateway.app.services.health.forgetTrouble();
  const faults = DIALECTS.flatMap((dialect) => lab.vendors[dialect].faults.map((fault) => `${dialect}: ${fault}`));
  for (const dialect of DIALECTS) lab.vendors[dialect].reset();
  expect(faults).toEqual([]);
});

const SEARCH = { type: "web_search_20250305", name: "web_search" };
const FETCH = { type: "web_fetch_20250910", name: "web_fetch" };
const WEATHER = { name: "get_weather", input_schema: { type: "object", properties: { city: { type: "string" } } } };
const QUESTION = { role: "user", content: "When do the gates open?" };

const askMessages = (fields: Wire, dialect: (typeof DIALECTS)[number] = "chat") => ({
  model: modelOf(dialect),
  max_tokens: 500,
  messages: [QUESTION],
  tools: [SEARCH],
  ...fields,
});

async function post(path: string, body: Wire): Promise<{ status: number; body: Wire; headers: Headers }> {
  const response = await lab.gateway.post(path, body);
  return { status: response.status, body: (await response.json()) as Wire, headers: response.headers };
}

/** Breakers that were opened, by the log. */
const opened = () => lab.gateway.log.filter(({ event }) => event === "route-opened");
const contentOf = (body: Wire) => body["content"] as Wire[];
const typesOf = (body: Wire) => contentOf(body).map(({ type }) => type);
const bodiesOf = (dialect: (typeof DIALECTS)[number]) =>
  lab.vendors[dialect].upstream.calls.map(({ text }) => JSON.parse(text) as Wire);

const call = (name: string, input: unknown, id = name): Step => ({
  kind: "call",
  id,
  name,
  pieces: [JSON.stringify(input)],
});
const calls = (...steps: Step[]): Reply => ({ steps, finish: "calls" });

/** More hosts than an engine is told. */
const MANY = Array.from({ length: 21 }, (_, at) => `d${at}.example`);

describe("the client's bounds", () => {
  test("max_uses: what is beyond is an error block, and the model is told to answer", async () => {
    lab.vendors.chat.play(searches("a", "one"), searches("b", "two"), says("Enough."));
    const { status, body } = await post("/v1/messages", askMessages({ tools: [{ ...SEARCH, max_uses: 1 }] }));
    expect(status).toBe(200);
    const results = contentOf(body).filter(({ type }) => type === "web_search_tool_result");
    expect(results).toHaveLength(2);
    expect(results[0]?.["content"]).toBeArray();
    expect(results[1]?.["content"]).toEqual({ type: "web_search_tool_result_error", error_code: "max_uses_exceeded" });
    expect(body["stop_reason"]).toBe("end_turn");
    expect((body["usage"] as Wire)["server_tool_use"]).toEqual({ web_search_requests: 1, web_fetch_requests: 0 });
  });

  test("max_tool_calls of a responses request, which its vendor is not told", async () => {
    lab.vendors.chat.play(searches("a", "one"), searches("b", "two"), says("Enough."));
    const asked = { model: modelOf("chat"), input: "Hi", tools: [{ type: "web_search_preview" }], max_tool_calls: 1 };
    const { body } = await post("/v1/responses", asked);
    const items = (body["output"] as Wire[]).filter(({ type }) => type === "web_search_call");
    expect(items.map(({ status }) => status)).toEqual(["completed", "failed"]);
    expect(body["max_tool_calls"]).toBe(1);
  });

  test("allowed domains keep to their hosts and paths, in what the model reads too", async () => {
    const tools = [{ ...SEARCH, allowed_domains: ["gates.example/open/*", "https://locks.example"] }];
    lab.vendors.chat.play(searches("sluice"), says("Done."));
    const { body } = await post("/v1/messages", askMessages({ tools }));
    const result = contentOf(body).find(({ type }) => type === "web_search_tool_result");
    const urls = ((result?.["content"] ?? []) as Wire[]).map(({ url }) => String(url));
    expect(urls.length).toBeGreaterThan(0);
    for (const url of urls) expect(url).toStartWith("https://locks.example/");
    expect(JSON.stringify(bodiesOf("chat")[1])).not.toContain("gates.example");
  });

  test("allowed and blocked together are refused with their place, and nobody is asked", async () => {
    const tools = [WEATHER, { ...SEARCH, allowed_domains: ["a.example"], blocked_domains: ["b.example"] }];
    const { status, body } = await post("/v1/messages", askMessages({ tools }));
    expect([status, (body["error"] as Wire)["param"]]).toEqual([400, "tools[1].blocked_domains"]);
    expect(lab.vendors.chat.upstream.calls).toEqual([]);
  });

  test("the user's place is told to the model that writes the query", async () => {
    lab.vendors.chat.play(says("Done."));
    const place = { type: "approximate", approximate: { city: "Delft", country: "NL", timezone: "Europe/Amsterdam" } };
    await post("/v1/chat/completions", {
      ...{ model: modelOf("chat"), messages: [QUESTION] },
      web_search_options: { user_location: place },
    });
    expect(JSON.stringify(bodiesOf("chat")[0]?.["tools"])).toContain("Delft, NL, time zone Europe/Amsterdam");
  });

  test("what the tools are told of them: hosts that are blocked whole, the country, how many results, how much of a page", async () => {
    insideOnly("what a tool is asked");
    const { services } = lab.gateway.app;
    const { runWebTool } = services;
    const told: unknown[] = [];
    services.runWebTool = (asked) => {
      told.push(asked.arguments);
      return Promise.resolve({ kind: "fault", fault: "unavailable", message: "Not now." });
    };
    const user_location = { type: "approximate", country: "NL" };
    const blocked_domains = ["a.example", "b.example/private"];
    const web_search_options = { search_context_size: "low" };
    for (const [path, body] of [
      ["/v1/messages", askMessages({ tools: [{ ...SEARCH, blocked_domains, user_location }] })],
      ["/v1/messages", askMessages({ tools: [{ ...SEARCH, allowed_domains: ["https://www.a.example/open/*"] }] })],
      ["/v1/messages", askMessages({})],
      ["/v1/chat/completions", { model: modelOf("chat"), messages: [QUESTION], web_search_options }],
    ] as const) {
      lab.vendors.chat.play(searches("sluice"), says("Done."));
      expect((await post(path, body)).status).toBe(200);
    }
    lab.vendors.chat.play(calls(call("web_fetch", { url: "https://a.example/" })), says("Done."));
    await post("/v1/messages", askMessages({ tools: [{ ...FETCH, max_content_tokens: 500 }] }));
    services.runWebTool = runWebTool;
    expect(told).toEqual([
      { query: "sluice", search_domain_filter: ["-a.example"], country: "NL" },
      { query: "sluice", search_domain_filter: ["a.example"] },
      { query: "sluice" },
      { query: "sluice", max_results: expect.any(Number) },
      { urls: ["https://a.example/"], max_content_tokens: 500 },
    ]);
  });

  test.each([
    ["https://a.example/x", ["a.example"], [], true],
    ["https://b.a.example/x", ["a.example"], [], true],
    ["https://xa.example/x", ["a.example"], [], false],
    ["https://a.example/blog/1", ["a.example/blog"], [], true],
    ["https://a.example/shop", ["a.example/blog"], [], false],
    ["https://www.a.example/", ["A.example"], [], true],
    ["https://a.example/x", [], ["a.example"], false],
    ["https://a.example/x", [], ["a.example/y"], true],
    ["https://xn--bcher-kva.example/x", ["Bücher.example"], [], true],
    ["https://xn--bcher-kva.example/x", [], ["bücher.example"], false],
    ["https://a.example/gr%C3%B6%C3%9Fe/1", ["a.example/größe/*"], [], true],
    ["https://a.example/gr%C3%B6%C3%9Fe", [], ["https://a.example/größe"], false],
    ["https://a.example/%73ecret", [], ["a.example/secret"], false],
    ["https://a.example./x", [], ["a.example"], false],
    ["https://b.a.example/x", ["*.a.example:443"], [], true],
    ["https://a.example/caf%E9", ["a.example/caf%E9"], [], true],
    ["https://a.example/x", [""], [], false],
    ["nonsense", [], [], false],
  ])("%s with allowed %p and blocked %p: %p", (url, allowed, blocked, may) => {
    const none = { country: undefined, near: undefined, maxUses: undefined, maxResults: undefined, lost: [] };
    expect(
      isAllowed(url, { tool: "web_fetch", place: "tools[0]", ...none, maxContentTokens: undefined, allowed, blocked }),
    ).toBe(may);
  });

  test("max_tokens is for all rounds together: the next one is asked for what is left", async () => {
    lab.vendors.chat.play(searches("a"), says("Done."));
    await post("/v1/messages", askMessages({ max_tokens: 20 }));
    const ceilings = bodiesOf("chat").map((body) => body["max_tokens"]);
    expect(ceilings).toEqual([20, 8]);
  });

  test("nothing left of max_tokens: no further round, and the reply says so", async () => {
    lab.vendors.chat.play(searches("a"), says("Done."));
    const { body } = await post("/v1/messages", askMessages({ max_tokens: 12 }));
    expect(body["stop_reason"]).toBe("max_tokens");
    expect(typesOf(body)).toEqual(["text", "server_tool_use", "web_search_tool_result"]);
    expect(lab.vendors.chat.upstream.calls).toHaveLength(1);
  });

  test.each([
    [{ type: "any" }, { type: "function", function: { name: "web_search" } }],
    [
      { type: "tool", name: "web_search" },
      { type: "function", function: { name: "web_search" } },
    ],
  ])("a forced choice %p binds the first round alone", async (choice) => {
    lab.vendors.chat.play(searches("a"), says("Done."));
    await post("/v1/messages", askMessages({ tool_choice: choice }));
    const [first, second] = bodiesOf("chat");
    expect(first?.["tool_choice"]).not.toBe("auto");
    expect(first?.["tool_choice"]).toBeDefined();
    expect(second?.["tool_choice"]).toBe("auto");
  });
});

describe("what else a request says of its tools", () => {
  test("a responses request that chooses its search, and what it wants included of it", async () => {
    lab.vendors.chat.play(searches("sluice gates"), says("Done."));
    const { status, headers, body } = await post("/v1/responses", {
      ...{ model: modelOf("chat"), input: "Hi", tools: [{ type: "web_search_preview" }] },
      ...{ tool_choice: { type: "web_search_preview" }, include: ["web_search_call.action.sources"] },
    });
    expect([status, headers.get("x-sluice-dropped")]).toEqual([200, null]);
    const [first, second] = bodiesOf("chat");
    expect([first?.["tool_choice"], second?.["tool_choice"]]).toEqual([
      { type: "function", function: { name: "web_search" } },
      "auto",
    ]);
    expect(body["tool_choice"]).toEqual({ type: "web_search_preview" });
    expect(body["tools"]).toEqual([{ type: "web_search_preview" }]);
  });

  test.each(["chat", "responses"] as const)(
    "a responses request that allows its search among other tools, in the words of %s",
    async (dialect) => {
      lab.vendors[dialect].play(searches("sluice gates"), says("Done."));
      const own = { type: "function", name: "f", parameters: { type: "object", properties: {} }, strict: false };
      const allowed = [{ type: "web_search_preview" }];
      const { headers, body } = await post("/v1/responses", {
        ...{ model: modelOf(dialect), input: "Hi", tools: [{ type: "web_search_preview" }, own] },
        tool_choice: { type: "allowed_tools", mode: "required", tools: allowed },
      });
      expect(headers.get("x-sluice-dropped")).toBeNull();
      const search = [{ type: "function", name: "web_search" }];
      const told =
        dialect === "chat"
          ? ["required", "auto"]
          : ["required", "auto"].map((mode) => ({ type: "allowed_tools", mode, tools: search }));
      expect(bodiesOf(dialect).map(({ tool_choice }) => tool_choice)).toEqual(told);
      expect((body["output"] as Wire[]).map(({ type }) => type)).toEqual(["message", "web_search_call", "message"]);
    },
  );

  test.each(["chat", "responses"] as const)(
    "a response repeats what its client wrote, whatever its vendor was told: one of %s",
    async (dialect) => {
      const said = {
        ...{ instructions: "Be brief.", metadata: { run: "7" }, tools: [{ type: "web_search" }], max_tool_calls: 3 },
        ...{ tool_choice: { type: "web_search" }, max_output_tokens: 300, temperature: 0.5 },
      };
      const asked = { model: modelOf(dialect), input: "Hi", ...said };
      lab.vendors[dialect].play(searches("sluice gates"), says("Done."), searches("sluice gates"), says("Done."));
      expect((await post("/v1/responses", asked)).body).toMatchObject(said);
      const streamed = await lab.gateway.post("/v1/responses", { ...asked, stream: true });
      const responses = readRecords(await streamed.text()).flatMap(({ data }) =>
        data.includes('"response":{') ? [(JSON.parse(data) as { response: Wire }).response] : [],
      );
      expect(responses.map(({ status }) => status)).toEqual(["in_progress", "in_progress", "completed"]);
      for (const response of responses) expect(response).toMatchObject(said);
    },
  );

  test("several answers with a search are refused, and nobody is asked", async () => {
    const asked = { model: modelOf("chat"), messages: [QUESTION], web_search_options: {}, n: 2 };
    const { status, body } = await post("/v1/chat/completions", asked);
    expect([status, (body["error"] as Wire)["param"]]).toEqual([400, "n"]);
    expect(lab.vendors.chat.upstream.calls).toEqual([]);
  });

  test("likelihoods are named as lost, on the diagonal too", async () => {
    lab.vendors.chat.play(says("Done."));
    const asked = { model: modelOf("chat"), messages: [QUESTION], web_search_options: {}, logprobs: true };
    const { headers } = await post("/v1/chat/completions", asked);
    expect(headers.get("x-sluice-dropped")).toBe("logprobs");
    // Its vendor is told all the same; that of this lab has none.
    expect(lab.vendors.chat.faults.splice(0)).toEqual(["body.logprobs is unknown to this dialect"]);
    // Who asks for none loses none; and what else is lost is named with them.
    const dropped = async (fields: Wire) => {
      lab.vendors.chat.play(says("Done."));
      const answer = await post("/v1/chat/completions", { ...asked, ...fields });
      lab.vendors.chat.faults.length = 0;
      return answer.headers.get("x-sluice-dropped");
    };
    expect(await dropped({ logprobs: false, top_logprobs: 0 })).toBeNull();
    expect(await dropped({ web_search_options: { x: 1 } })).toBe("web_search_options.x, logprobs");
    const shown = await post("/v1/debug/translate", { dialect: "chat", body: asked });
    expect((shown.body["routes"] as { request: Wire }[])[0]).toMatchObject({ dropped: ["logprobs"] });
    // Who wants to lose nothing is refused before anything is done, and paid.
    const before = lab.vendors.chat.upstream.calls.length;
    const strict = await lab.gateway.post("/v1/chat/completions", asked, { headers: { "x-sluice-strict": "1" } });
    const { error } = (await strict.json()) as { error: Wire };
    expect([strict.status, error["param"]]).toEqual([400, "logprobs"]);
    expect(lab.vendors.chat.upstream.calls).toHaveLength(before);
  });

  test.each<[string, Wire, string]>([
    // Codex asks for its vendor's index alone unless told otherwise.
    ["responses", { tools: [{ type: "web_search", external_web_access: false }] }, "tools[0].external_web_access"],
    [
      "responses",
      {
        tools: [
          { type: "web_search", external_web_access: true, search_content_types: ["text", "image"], filters: { x: 1 } },
        ],
      },
      "tools[0].filters.x, tools[0].search_content_types",
    ],
    [
      "messages",
      { tools: [SEARCH, { ...FETCH, url_sources: { user: true }, use_cache: false, citations: { enabled: true } }] },
      "tools[1].url_sources, tools[1].citations, tools[1].use_cache",
    ],
    ["messages", { tools: [{ ...SEARCH, allowed_callers: ["code_execution_20260521"] }] }, "tools[0].allowed_callers"],
    [
      "messages",
      {
        tools: [
          { ...SEARCH, allowed_domains: MANY },
          { ...FETCH, allowed_domains: MANY },
        ],
      },
      "tools[0].allowed_domains",
    ],
    [
      "responses",
      { tools: [{ type: "web_search", filters: { allowed_domains: MANY } }] },
      "tools[0].filters.allowed_domains",
    ],
    ["chat", { web_search_options: { search_context_size: "low", x: 1 } }, "web_search_options.x"],
  ])(
    "%s: what only the vendor's own tool heeds is named where the gateway runs it: %j",
    async (client, asked, lost) => {
      lab.vendors.chat.play(says("Done."), says("Done."));
      const bodies: Record<string, [string, Wire]> = {
        chat: ["/v1/chat/completions", { messages: [QUESTION] }],
        messages: ["/v1/messages", { messages: [QUESTION], max_tokens: 500 }],
        responses: ["/v1/responses", { input: "Hi" }],
      };
      const [path, body] = bodies[client]!;
      const whole = { model: modelOf("chat"), ...body, ...asked };
      const { status, headers } = await post(path, whole);
      expect([status, headers.get("x-sluice-dropped")]).toEqual([200, lost]);
      const streamed = await lab.gateway.post(path, { ...whole, stream: true });
      await streamed.text();
      expect(streamed.headers.get("x-sluice-dropped")).toBe(lost);
      const shown = await post("/v1/debug/translate", { dialect: client, body: whole });
      expect((shown.body["routes"] as { request: Wire }[])[0]).toMatchObject({ dropped: lost.split(", ") });
    },
  );

  test("a tool of the client's own keeps its name", async () => {
    lab.vendors.messages.play(calls(call("web_search", { q: 1 })));
    const tools = [{ type: "function", function: { name: "web_search", parameters: { type: "object" } } }];
    const { body } = await post("/v1/chat/completions", {
      ...{ model: modelOf("messages"), messages: [QUESTION], tools, web_search_options: {} },
    });
    const [choice] = body["choices"] as Wire[];
    expect(((choice?.["message"] ?? {}) as Wire)["tool_calls"]).toHaveLength(1);
    expect(lab.vendors.messages.upstream.calls).toHaveLength(1);
    expect(JSON.stringify(bodiesOf("messages")[0])).toContain('"web_search_2"');
  });
});

describe("a round's end", () => {
  test.each(DIALECTS)(
    "a call of a round that was cut off is not run, and nothing more is asked for: %s",
    async (dialect) => {
      const searched = () => lab.gateway.rows().filter(({ model }) => model === "web_search").length;
      const before = searched();
      lab.vendors[dialect].play({ ...searches("sluice"), finish: "length" }, says("Not asked for."));
      const { body } = await post("/v1/messages", askMessages({ max_tokens: 5_000 }, dialect));
      const [result] = contentOf(body).filter(({ type }) => type === "web_search_tool_result");
      expect(result?.["content"]).toMatchObject({ error_code: "unavailable" });
      expect(body["stop_reason"]).toBe("max_tokens");
      expect(lab.vendors[dialect].upstream.calls).toHaveLength(1);
      expect(searched()).toBe(before);
    },
  );

  test("text behind a call ends before that one's result begins", async () => {
    const looks = searches("sluice");
    lab.vendors.chat.play({ ...looks, steps: [...looks.steps, { kind: "text", pieces: ["Wait."] }] }, says("Done."));
    const records = await (await lab.gateway.post("/v1/messages", askMessages({ stream: true }))).text();
    expectFinished("messages", readRecords(records));
    expect([...(records.match(/(?<="content_block":\{"type":")\w+/g) ?? [])]).toEqual([
      ...["text", "server_tool_use", "text", "web_search_tool_result", "text"],
    ]);
  });
});

describe("what a further round is told", () => {
  test.each(DIALECTS)("the call with its arguments, as its model made it: %s", async (dialect) => {
    for (const stream of [false, true]) {
      lab.vendors[dialect].play(searches("sluice"), says("Done."));
      const response = await lab.gateway.post("/v1/messages", askMessages({ stream }, dialect));
      expect([response.status, (await response.text()).includes("Done.")]).toEqual([200, true]);
      const sent = JSON.stringify(bodiesOf(dialect).at(-1)).replaceAll("\\", "");
      expect(sent).toMatch(/"(?:arguments|input|args)":"?\{"query":"sluice"\}/);
    }
  });

  test.each(DIALECTS)(
    "calls that their vendor counts anew in each round are several to the client: %s",
    async (dialect) => {
      lab.vendors[dialect].play(searches("a", "one"), searches("b", "one"), says("Done."));
      const { body } = await post("/v1/messages", askMessages({}, dialect));
      const ids = (field: string) => contentOf(body).flatMap((block) => block[field] ?? []);
      expect(new Set(ids("id")).size).toBe(2);
      expect(ids("tool_use_id")).toEqual(ids("id"));
    },
  );
});

describe("the gateway's own bounds", () => {
  test("a model that never stops calling is asked for an answer in the last round", async () => {
    lab.vendors.chat.play(searches("again"));
    const { body } = await post("/v1/messages", askMessages({ max_tokens: 10_000 }));
    const asked = bodiesOf("chat");
    expect(asked).toHaveLength(MAX_ROUNDS);
    expect(asked.map((each) => each["tool_choice"] === "none")).toEqual(
      Array.from({ length: MAX_ROUNDS }, (_, at) => at === MAX_ROUNDS - 1),
    );
    expect(body["stop_reason"]).toBe("pause_turn");
    // Every call that was shown has its result.
    const shown = contentOf(body)
      .filter(({ type }) => type === "server_tool_use")
      .map(({ id }) => id);
    const given = contentOf(body).filter(({ type }) => type === "web_search_tool_result");
    expect(given.map(({ tool_use_id }) => tool_use_id)).toEqual(shown);
    expect(new Set(shown).size).toBe(MAX_ROUNDS);
  });

  test.each([
    ["of one tool", [SEARCH]],
    ["of one that may be used more often", [{ ...SEARCH, max_uses: 100 }]],
    ["of one of two", [SEARCH, FETCH]],
  ])("calls beyond those of one reply are not run: %s", async (_, tools) => {
    const many = Array.from({ length: MAX_CALLS + 5 }, (_, at) => call("web_search", { query: `q${at}` }, `c${at}`));
    lab.vendors.chat.play(calls(...many), says("Done."));
    const before = lab.gateway.rows().length;
    const { body } = await post("/v1/messages", askMessages({ tools }));
    const results = contentOf(body).filter(({ type }) => type === "web_search_tool_result");
    const failed = results.filter(({ content }) => !Array.isArray(content));
    expect([results.length, failed.length]).toEqual([MAX_CALLS + 5, 5]);
    expect(
      lab.gateway
        .rows()
        .slice(before)
        .filter(({ model }) => model === "web_search"),
    ).toHaveLength(MAX_CALLS);
  });

  test.each([
    ["no JSON", ['{"query":'], "invalid_tool_input"],
    ["no query", ["{}"], "invalid_tool_input"],
    ["a long query", [JSON.stringify({ query: "x".repeat(401) })], "query_too_long"],
  ])("%s is an error block, and no call of the tool", async (_name, pieces, code) => {
    const before = lab.gateway.rows().length;
    lab.vendors.chat.play(calls({ kind: "call", id: "bad", name: "web_search", pieces }), says("Done."));
    const { status, body } = await post("/v1/messages", askMessages({}));
    const result = contentOf(body).find(({ type }) => type === "web_search_tool_result");
    expect([status, ((result?.["content"] ?? {}) as Wire)["error_code"]]).toEqual([200, code]);
    expect(
      lab.gateway
        .rows()
        .slice(before)
        .filter(({ model }) => model === "web_search"),
    ).toEqual([]);
  });
});

describe("fetching pages", () => {
  const page = { "content-type": "text/markdown" };

  test("a page is a document in its result, and its row counts one page", async () => {
    const before = lab.gateway.rows().length;
    web.always("/gates", { headers: page, parts: ["# Gates\n\nThey open at dawn."], framing: "length", finish: "end" });
    const url = `${web.url}/gates`;
    lab.vendors.messages.play(calls(call("web_fetch", { url })), says("At dawn."));
    const { body } = await post("/v1/messages", askMessages({ tools: [FETCH] }, "messages"));
    const result = contentOf(body).find(({ type }) => type === "web_fetch_tool_result");
    expect(result?.["content"]).toMatchObject({
      type: "web_fetch_result",
      url,
      content: {
        type: "document",
        source: { type: "text", media_type: "text/plain", data: expect.stringContaining("dawn") },
      },
      retrieved_at: expect.stringMatching(/^\d{4}-.*Z$/),
    });
    expect((body["usage"] as Wire)["server_tool_use"]).toEqual({ web_search_requests: 0, web_fetch_requests: 1 });
    expect(JSON.stringify(bodiesOf("messages")[1])).toContain("They open at dawn.");
    const rows = lab.gateway
      .rows()
      .slice(before)
      .filter(({ model }) => model === "web_fetch");
    expect(rows.map(({ units }) => units)).toEqual([1]);
  });

  test("room for more tokens than a page is ever given is that of the largest page", async () => {
    web.always("/long", { headers: page, parts: ["# Long"], framing: "length", finish: "end" });
    lab.vendors.messages.play(calls(call("web_fetch", { url: `${web.url}/long` })), says("Done."));
    const tools = [{ ...FETCH, max_content_tokens: 200_000 }];
    const { body } = await post("/v1/messages", askMessages({ tools }, "messages"));
    const result = contentOf(body).find(({ type }) => type === "web_fetch_tool_result");
    expect(result?.["content"]).toMatchObject({ type: "web_fetch_result", content: { source: { data: "# Long" } } });
  });

  test("a domain with a port, or of other letters than ASCII, is one for searches too", async () => {
    lab.vendors.chat.play(searches("sluice"), says("Done."));
    const tools = [{ ...SEARCH, allowed_domains: ["locks.example:443", "schleuße.example"] }];
    const { body } = await post("/v1/messages", askMessages({ tools }));
    const result = contentOf(body).find(({ type }) => type === "web_search_tool_result");
    const hosts = new Set(((result?.["content"] ?? []) as Wire[]).map(({ url }) => new URL(String(url)).hostname));
    expect([...hosts].sort()).toEqual(["locks.example", new URL("http://schleuße.example").hostname]);
  });

  test("blocked and allowed domains bind what may be fetched: nothing is asked of the page's server", async () => {
    const url = `${web.url}/gates`;
    for (const bound of [{ blocked_domains: ["127.0.0.1"] }, { allowed_domains: ["gates.example"] }]) {
      lab.vendors.messages.play(calls(call("web_fetch", { url })), says("Not to be had."));
      const { body } = await post("/v1/messages", askMessages({ tools: [{ ...FETCH, ...bound }] }, "messages"));
      const result = contentOf(body).find(({ type }) => type === "web_fetch_tool_result");
      expect(((result?.["content"] ?? {}) as Wire)["error_code"]).toBe("url_not_allowed");
    }
    expect(web.calls).toEqual([]);
  });

  test("a redirect does not lead out of them: neither the client nor the model is shown what is there", async () => {
    web.always("/gates/moved", redirect("/inside"));
    web.always("/inside", json({ secret: "plans of the lock" }));
    lab.vendors.messages.play(calls(call("web_fetch", { url: `${web.url}/gates/moved` })), says("Not to be had."));
    const tools = [{ ...FETCH, blocked_domains: ["127.0.0.1/inside"] }];
    const { body } = await post("/v1/messages", askMessages({ tools }, "messages"));
    const result = contentOf(body).find(({ type }) => type === "web_fetch_tool_result");
    expect(((result?.["content"] ?? {}) as Wire)["error_code"]).toBe("url_not_allowed");
    expect(JSON.stringify([body, ...bodiesOf("messages")])).not.toContain("plans of the lock");
  });

  test.each([
    ["file:///etc/passwd", "url_not_allowed"],
    ["http://127.0.0.1:9/", "url_not_allowed"],
    ["http://169.254.169.254/latest/meta-data", "url_not_allowed"],
    [`https://a.example/${"x".repeat(3_000)}`, "url_too_long"],
    ["", "invalid_tool_input"],
  ])("%s is refused in a block, uncharged", async (url, code) => {
    const before = lab.gateway.rows().length;
    lab.vendors.messages.play(calls(call("web_fetch", { url })), says("Not to be had."));
    const { status, body } = await post("/v1/messages", askMessages({ tools: [FETCH] }, "messages"));
    const result = contentOf(body).find(({ type }) => type === "web_fetch_tool_result");
    expect([status, ((result?.["content"] ?? {}) as Wire)["error_code"]]).toEqual([200, code]);
    expect(
      lab.gateway
        .rows()
        .slice(before)
        .map(({ model }) => model),
    ).toEqual([modelOf("messages")]);
    expect(web.calls).toEqual([]);
  });
});

describe("calls of the client's own beside served ones", () => {
  const both = calls(
    call("get_weather", { city: "Delft" }, "own"),
    call("web_search", { query: "sluice gates" }, "served"),
  );

  test.each(DIALECTS)(
    "messages over %s: results now, the own call at the end, and the next turn goes on",
    async (dialect) => {
      lab.vendors[dialect].play(both);
      const tools = [WEATHER, SEARCH];
      const first = await post("/v1/messages", askMessages({ tools }, dialect));
      const types = typesOf(first.body).filter((type) => type !== "thinking");
      expect(types.toSorted()).toEqual(["server_tool_use", "tool_use", "web_search_tool_result"]);
      expect(first.body["stop_reason"]).toBe("tool_use");
      expect(lab.vendors[dialect].upstream.calls).toHaveLength(1);
      const own = contentOf(first.body).find(({ type }) => type === "tool_use");
      lab.vendors[dialect].play(says("Dry, and open."));
      const messages = [
        QUESTION,
        { role: "assistant", content: first.body["content"] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: own?.["id"], content: "18 °C" }] },
      ];
      const second = await post("/v1/messages", askMessages({ tools, messages }, dialect));
      expect(second.status).toBe(200);
      const sent = JSON.stringify(bodiesOf(dialect).at(-1));
      for (const held of [FIRST.url, "Made-up text number 1", "18 °C", "sluice gates"]) expect(sent).toContain(held);
      expect(sent).not.toContain("srvtoolu_");
      expect(sent).not.toContain("web_search_tool_result");
    },
  );

  test("chat: no place for a result, so the model is asked again, and its own call is the last one", async () => {
    lab.vendors.messages.play(both, calls(call("get_weather", { city: "Delft" }, "again")));
    const tools = [{ type: "function", function: { name: "get_weather", parameters: WEATHER.input_schema } }];
    const { body } = await post("/v1/chat/completions", {
      ...{ model: modelOf("messages"), messages: [QUESTION], tools },
      web_search_options: {},
    });
    const [choice] = body["choices"] as Wire[];
    expect(choice?.["finish_reason"]).toBe("tool_calls");
    expect(((choice?.["message"] ?? {}) as Wire)["tool_calls"]).toHaveLength(1);
    const second = JSON.stringify(bodiesOf("messages")[1]);
    expect(second).toContain(FIRST.url);
    expect(second).not.toContain('"Delft"');
  });
});

describe("what a vendor runs itself beside a served call", () => {
  const ran = {
    messages: [
      { type: "server_tool_use", id: "srvtoolu_01", name: "bash_code_execution", input: { command: "date" } },
      {
        type: "bash_code_execution_tool_result",
        tool_use_id: "srvtoolu_01",
        content: { type: "bash_code_execution_result", stdout: "May", stderr: "", return_code: 0, content: [] },
      },
    ],
    responses: [
      {
        type: "mcp_call",
        id: "mcp_01",
        server_label: "mail",
        name: "send",
        arguments: "{}",
        output: "sent",
        error: null,
      },
    ],
  };
  const asked = {
    messages: askMessages({ tools: [SEARCH, { type: "code_execution_20250825", name: "code_execution" }] }, "messages"),
    responses: {
      ...{ model: modelOf("responses"), input: "When?" },
      tools: [{ type: "web_search" }, { type: "mcp", server_label: "mail", server_url: "https://mail.example/mcp" }],
    },
  };
  const paths = { messages: "/v1/messages", responses: "/v1/responses" };
  const listOf = { messages: "content", responses: "output" };

  test.each(["messages", "responses"] as const)(
    "is told in the next round: its model would do it again (%s)",
    async (dialect) => {
      const { wire, script, upstream } = lab.vendors[dialect];
      const list = listOf[dialect];
      const replies = [searches("sluice gates"), says("In May.")];
      script((call) => {
        const round = upstream.calls.length - 1;
        const whole = wire.whole(replies[round]!, wire.asks(call).model) as Wire;
        return json(round > 0 ? whole : { ...whole, [list]: [...ran[dialect], ...(whole[list] as Wire[])] });
      });
      const { status, body } = await post(paths[dialect], asked[dialect]);
      const shown = (body[list] as Wire[]).map(({ type }) => type);
      expect([status, shown.slice(0, ran[dialect].length)]).toEqual([200, ran[dialect].map(({ type }) => type)]);
      const told = bodiesOf(dialect)[1] ?? {};
      const turn = dialect === "messages" ? (told["messages"] as Wire[])[1]?.["content"] : told["input"];
      expect((turn as Wire[]).filter(({ type }) => ran[dialect].some((one) => one.type === type))).toEqual(
        ran[dialect],
      );
      // The vendors of this lab know of functions alone.
      lab.vendors[dialect].faults.length = 0;
    },
  );

  const container = { id: "container_01", expires_at: "2026-12-01T10:00:00Z", skills: null };
  const skills = [{ type: "anthropic", skill_id: "xlsx", version: "latest" }];
  test.each([
    [false, undefined, "container_01"],
    [true, undefined, "container_01"],
    [false, { skills }, { skills, id: "container_01" }],
    [true, "container_00", "container_01"],
  ])(
    "where it ran code is told to the client, and the next round finds its files there (streaming: %p, asked %j)",
    async (stream, named, wanted) => {
      const { wire, script, upstream } = lab.vendors.messages;
      const replies = [searches("sluice gates"), says("In May.")];
      script((call) => {
        const first = upstream.calls.length === 1;
        const reply = replies[first ? 0 : 1]!;
        const { model } = wire.asks(call);
        if (!stream) return json({ ...(wire.whole(reply, model) as Wire), ...(first && { container }) });
        const records = wire.records(reply, model).join("");
        const ran = first ? `"delta":{"container":${JSON.stringify(container)},` : '"delta":{"container":null,';
        return sse(records.replace(/"delta":\{(?="stop_reason")/, ran));
      });
      const body = { ...asked.messages, container: named } as never;
      const reply = await (stream
        ? lab.anthropic.messages.stream(body).finalMessage()
        : lab.anthropic.messages.create(body));
      expect(JSON.parse(JSON.stringify(reply))).toMatchObject({ stop_reason: "end_turn", container });
      expect(bodiesOf("messages").map((sent) => sent["container"])).toEqual([named, wanted]);
      lab.vendors.messages.faults.length = 0;
    },
  );

  test.each([
    { type: "local_shell_call", id: "lsh_01", call_id: "c1", action: { type: "exec", command: ["date"], env: {} } },
    { type: "shell_call", id: "sh_01", call_id: "c1", action: { commands: ["date"] } },
    { type: "apply_patch_call", id: "apc_01", call_id: "c1", operation: { type: "delete_file", path: "a" } },
    { type: "computer_call", id: "cu_01", call_id: "c1", action: { type: "screenshot" }, pending_safety_checks: [] },
    { type: "mcp_approval_request", id: "mcpr_01", server_label: "mail", name: "send", arguments: "{}" },
  ])("is the client's where it is told by a name of its dialect: $type ends the reply", async (own) => {
    const { wire, script, upstream } = lab.vendors.responses;
    script((call) => {
      const whole = wire.whole(searches("sluice gates"), wire.asks(call).model) as Wire;
      return json({ ...whole, output: [own, ...(whole["output"] as Wire[])] });
    });
    const { status, body } = await post("/v1/responses", asked.responses);
    const shown = (body["output"] as Wire[]).map(({ type }) => type);
    expect([status, shown]).toEqual([200, [own.type, "message", "web_search_call"]]);
    expect(upstream.calls).toHaveLength(1);
    lab.vendors.responses.faults.length = 0;
  });
});

describe("tools in a namespace, over a vendor that knows of them", () => {
  const namespace = "mcp__web";
  const query = JSON.stringify({ query: "the client's" });
  const one: Step = { kind: "call", id: "own", name: "web_search", pieces: [query], namespace };
  const parameters = { type: "object", properties: {} };
  const offered = { type: "function", name: "web_search", parameters, strict: false };
  const asked: Wire = {
    ...{ model: modelOf("responses"), input: "Hi", max_output_tokens: 5_000 },
    tools: [{ type: "namespace", name: namespace, description: "d", tools: [offered] }, { type: "web_search" }],
  };
  const found = (output: unknown) =>
    (output as Wire[]).filter(({ type }) => type !== "message" && type !== "reasoning");

  test.each([false, true])(
    "a client's own call keeps it, and is not run by the gateway (stream: %p)",
    async (stream) => {
      lab.vendors.responses.play(calls(one));
      const response = await lab.gateway.post("/v1/responses", { ...asked, stream });
      const text = await response.text();
      const last = stream ? JSON.parse(readRecords(text).at(-1)?.data ?? "{}").response : JSON.parse(text);
      const own = { type: "function_call", namespace, name: "web_search", arguments: query };
      expect(found(last.output)).toMatchObject([own]);
      expect(lab.vendors.responses.upstream.calls).toHaveLength(1);
    },
  );

  test("the next turn, and a round behind a served search, tell the vendor so", async () => {
    const served = call("web_search", { query: "sluice gates" }, "served");
    lab.vendors.responses.play(calls(served), calls(one));
    const { body } = await post("/v1/responses", asked);
    expect(found(body["output"]).map(({ type }) => type)).toEqual(["web_search_call", "function_call"]);
    const own = found(body["output"]).at(-1);
    lab.vendors.responses.play(says("So."));
    const output = { type: "function_call_output", call_id: own?.["call_id"], output: "r" };
    const next = await post("/v1/responses", { ...asked, input: [QUESTION, ...(body["output"] as Wire[]), output] });
    expect(next.status).toBe(200);
    const sent = (bodiesOf("responses").at(-1)?.["input"] ?? []) as Wire[];
    expect(sent.filter((item) => item["namespace"] === namespace)).toMatchObject([{ name: "web_search" }]);
  });
});

describe("earlier turns", () => {
  test.each(DIALECTS)("a finished search is the call and the result of a function to %s", async (dialect) => {
    lab.vendors[dialect].play(searches("sluice gates"), says("At dawn."), says("And close at dusk."));
    const first = await post("/v1/messages", askMessages({}, dialect));
    const messages = [
      QUESTION,
      { role: "assistant", content: first.body["content"] },
      { role: "user", content: "And when do they close?" },
    ];
    const second = await post("/v1/messages", askMessages({ messages }, dialect));
    expect(second.status).toBe(200);
    expect(second.headers.get("x-sluice-dropped")).toBeNull();
    const sent = JSON.stringify(bodiesOf(dialect)[2]);
    for (const held of [FIRST.url, "Made-up text number 1", "At dawn."]) expect(sent).toContain(held);
  });

  test.each(DIALECTS)("a search item is one to %s too", async (dialect) => {
    lab.vendors[dialect].play(searches("sluice gates"), says("At dawn."), says("At dusk."));
    const asked = { model: modelOf(dialect), tools: [{ type: "web_search" }] };
    const first = await post("/v1/responses", { ...asked, input: "When?" });
    const input = [
      { role: "user", content: "When?" },
      ...(first.body["output"] as Wire[]),
      { role: "user", content: "And?" },
    ];
    const second = await post("/v1/responses", { ...asked, input });
    expect(second.status).toBe(200);
    const sent = JSON.stringify(bodiesOf(dialect)[2]);
    for (const held of [FIRST.url, "Made-up text number 1"]) expect(sent).toContain(held);
    expect(sent).not.toContain("web_search_call");
  });

  test.each(DIALECTS)("what was found is text to %s where the search is not offered any more", async (dialect) => {
    lab.vendors[dialect].play(searches("sluice gates"), says("At dawn."), says("At dusk."));
    const first = await post("/v1/responses", {
      ...{ model: modelOf(dialect), input: "When?", tools: [{ type: "web_search" }] },
    });
    const input = [
      ...[{ role: "user", content: "When?" }, ...(first.body["output"] as Wire[])],
      { role: "user", content: "And?" },
    ];
    const second = await post("/v1/responses", { model: modelOf(dialect), input });
    expect([second.status, second.headers.get("x-sluice-dropped")]).toEqual([200, null]);
    const item = JSON.stringify(bodiesOf(dialect)[2]);
    for (const held of ["Searched the web for: sluice gates", FIRST.url, "number 1", "At dawn."])
      expect(item).toContain(held);
    expect(item).not.toContain("web_search_call");

    lab.vendors[dialect].play(searches("sluice gates"), says("At dawn."), says("At dusk."));
    const { tools: _offered, ...asked } = askMessages({}, dialect);
    const shown = await post("/v1/messages", askMessages({}, dialect));
    const messages = [
      ...[QUESTION, { role: "assistant", content: shown.body["content"] }],
      { role: "user", content: "And when do they close?" },
    ];
    const later = await post("/v1/messages", { ...asked, messages });
    expect([later.status, later.headers.get("x-sluice-dropped")]).toEqual([200, null]);
    const blocks = JSON.stringify(bodiesOf(dialect).at(-1));
    for (const held of ["Searched the web for: sluice gates", FIRST.url, "number 1", "At dawn."])
      expect(blocks).toContain(held);
  });

  test("a search that OpenAI ran goes back to it as it came, with the results that were asked for", async () => {
    lab.vendors.responses.play(says("At dusk."));
    const item = {
      ...{ type: "web_search_call", id: `ws_${"67ccf18f64008190".repeat(3)}`, status: "completed" },
      ...{ action: { type: "search", query: "gates" }, results: [{ url: "https://t.example/", title: "T" }] },
    };
    const input = [{ role: "user", content: "When?" }, item, { role: "user", content: "And?" }];
    const { status, headers } = await post("/v1/responses", { model: modelOf("responses"), input });
    expect([status, headers.get("x-sluice-dropped")]).toEqual([200, null]);
    expect((bodiesOf("responses")[0] as { input: unknown[] }).input).toEqual(input);
    // This vendor runs no search of its own, and says that it knows no such item.
    expect(lab.vendors.responses.faults.splice(0)).toEqual(["input[1] is of type web_search_call"]);
  });

  test("so is a page that was read", async () => {
    lab.vendors.chat.play(says("At dusk."));
    const page = {
      type: "document",
      source: { type: "text", media_type: "text/plain", data: "Ten feet." },
      title: "T",
    };
    const content = [
      { type: "server_tool_use", id: "srvtoolu_1", name: "web_fetch", input: { url: "https://t.example/" } },
      {
        ...{ type: "web_fetch_tool_result", tool_use_id: "srvtoolu_1" },
        content: { type: "web_fetch_result", url: "https://t.example/", content: page },
      },
      { type: "text", text: "It is deep." },
    ];
    const { tools: _offered, ...asked } = askMessages({
      messages: [QUESTION, { role: "assistant", content }, { role: "user", content: "How deep?" }],
    });
    const { headers } = await post("/v1/messages", asked);
    expect(headers.get("x-sluice-dropped")).toBeNull();
    const sent = JSON.stringify(bodiesOf("chat")[0]);
    for (const held of ["Read on the web: https://t.example/", "Ten feet.", "It is deep."])
      expect(sent).toContain(held);
  });

  test("another vendor's own results are read as far as they can be", async () => {
    lab.vendors.chat.play(says("Yes."));
    const block = {
      type: "web_search_result",
      title: "Lock",
      url: "https://lock.example/",
      encrypted_content: "EqgfCi",
      page_age: null,
    };
    const content = [
      { type: "server_tool_use", id: "srvtoolu_01A", name: "web_search", input: { query: "lock" } },
      { type: "web_search_tool_result", tool_use_id: "srvtoolu_01A", content: [block] },
      { type: "text", text: "A lock." },
    ];
    const messages = [QUESTION, { role: "assistant", content }, { role: "user", content: "Sure?" }];
    await post("/v1/messages", askMessages({ messages }));
    const sent = JSON.stringify(bodiesOf("chat")[0]);
    expect(sent).toContain("https://lock.example/");
    expect(sent).not.toContain("EqgfCi");
  });
});

describe("streams", () => {
  test.each(DIALECTS)("over %s: one start, one end, blocks in a row", async (dialect) => {
    lab.vendors[dialect].play(searches("one", "one"), searches("two", "two"), says("Three", " rounds."));
    const asked = askMessages({ stream: true, max_tokens: 5_000 }, dialect);
    const messages = readRecords(await (await lab.gateway.post("/v1/messages", asked)).text());
    expectFinished("messages", messages);
    const chat = { model: modelOf(dialect), messages: [QUESTION], web_search_options: {}, stream: true };
    lab.vendors[dialect].play(searches("one", "one"), searches("two", "two"), says("Three", " rounds."));
    const records = readRecords(await (await lab.gateway.post("/v1/chat/completions", chat)).text());
    expectFinished("chat", records);
    const annotated = records.filter(({ data }) => data.includes('"annotations"'));
    // The text names none of the pages, so all are told, in one record.
    expect(annotated).toHaveLength(1);
    expect(JSON.stringify(records)).not.toContain("tool_calls");
  });

  test.each([
    ["text", '"tides"'],
    ["no JSON", "tides"],
    ["names without quotes", '{query: "tides"}'],
    ["a bracket too many", '{"query":"tides"}}'],
    ["a line break in a text", '{"query":"tides\nof today"}'],
    ["a list", "[]"],
    ["cut off", '{"query":"ti'],
    ["nothing", ""],
  ])(
    "a call whose arguments are no object (%s) leaves a stream that clients can read, and the model is told",
    async (_name, text) => {
      const made: Step = { kind: "call", id: "odd", name: "web_search", pieces: [text] };
      const body = askMessages({}, "chat") as never;
      lab.vendors.chat.play(calls(made), says("So be it."));
      const whole = await lab.anthropic.messages.create(body);
      lab.vendors.chat.play(calls(made), says("So be it."));
      const streamed = await lab.anthropic.messages.stream(body).finalMessage();
      expect(JSON.parse(JSON.stringify(streamed.content))).toEqual(JSON.parse(JSON.stringify(whole.content)));
      expect(streamed.content).toMatchObject([
        { type: "server_tool_use", name: "web_search" },
        { type: "web_search_tool_result", content: { error_code: "invalid_tool_input" } },
        { type: "text", text: "So be it." },
      ]);
    },
  );

  test("a stream comes to the same as a blocking reply, whatever the model does (random)", async () => {
    const text = fc
      .string({ minLength: 1, maxLength: 20 })
      .map((piece): Step => ({ kind: "text", pieces: [`${piece.toWellFormed()}.`] }));
    const query = fc.string({ minLength: 1, maxLength: 20 }).map((piece) => `q${piece.toWellFormed()}`);
    let made = 0;
    const served = query.map((each) => call("web_search", { query: each }, `s${made++}`));
    const own = fc.constant("get_weather").map((name) => call(name, { city: "Delft" }, `o${made++}`));
    const working = fc.tuple(
      fc.array(text, { maxLength: 2 }),
      fc.array(fc.oneof(served, served, own), { minLength: 1, maxLength: 3 }),
    );
    const rounds = fc.array(
      working.map(([said, made]): Reply => ({ steps: [...said, ...made], finish: "calls" })),
      { maxLength: 3 },
    );
    await fc.assert(
      fc.asyncProperty(rounds, text, fc.constantFrom(...DIALECTS), async (worked, last, dialect) => {
        const replies: Reply[] = [...worked, { steps: [last], finish: "stop" }];
        const body = askMessages({ tools: [WEATHER, SEARCH], max_tokens: 5_000 }, dialect) as never;
        lab.vendors[dialect].play(...replies);
        const whole = await lab.anthropic.messages.create(body);
        const asked = lab.vendors[dialect].upstream.calls.length;
        lab.vendors[dialect].play(...replies);
        const streamed = await lab.anthropic.messages.stream(body).finalMessage();
        expect(lab.vendors[dialect].upstream.calls.length).toBe(2 * asked);
        lab.vendors[dialect].upstream.calls.length = 0;
        // Some vendors name no calls: then the gateway does, anew each time.
        const told = ({ content, stop_reason, usage }: typeof whole): unknown => {
          const names = new Map<string, string>();
          const named = JSON.stringify(content).replace(/(?:srvtoolu_)?call_[0-9A-Za-z]{24}/g, (id) => {
            if (!names.has(id)) names.set(id, `call ${names.size}`);
            return names.get(id) as string;
          });
          return [JSON.parse(named), stop_reason, JSON.parse(JSON.stringify(usage))];
        };
        expect(told(streamed as typeof whole)).toEqual(told(whole as typeof whole));
      }),
      { numRuns: 40 },
    );
  });

  test("a vendor that fails in the second round ends the stream with an error, and what was made is charged", async () => {
    const before = lab.gateway.rows().length;
    const { wire, upstream } = lab.vendors.chat;
    let round = 0;
    lab.vendors.chat.script((asked) => {
      round++;
      const { model } = wire.asks(asked);
      if (round === 1) {
        const parts = [wire.records(searches("a"), model).join("")];
        return { headers: { "content-type": "text/event-stream" }, parts, framing: "chunked", finish: "end" };
      }
      return { status: 500, parts: ['{"error":{"message":"broken"}}'], framing: "length", finish: "end" };
    });
    const response = await lab.gateway.post("/v1/messages", askMessages({ stream: true }));
    const records = readRecords(await response.text());
    expect(records.at(-1)?.event).toBe("error");
    expect(records.filter(({ event }) => event === "message_stop")).toEqual([]);
    const row = lab.gateway
      .rows()
      .slice(before)
      .find(({ model }) => model === modelOf("chat"));
    expect(row).toMatchObject({ outcome: "upstream-failed", output: 12 });
    expect(upstream.calls.length).toBeGreaterThan(1);
  });

  test.each([false, true])("a vendor that fails in each second round is left alone (streaming: %p)", async (stream) => {
    oneProcessOnly("a breaker");
    const { wire } = lab.vendors.chat;
    lab.vendors.chat.script((asked) => {
      if (asked.text.includes('"role":"tool"')) return json({ error: { message: "broken" } }, { status: 500 });
      const { model } = wire.asks(asked);
      return stream ? sse(wire.records(searches("a"), model)) : json(wire.whole(searches("a"), model));
    });
    for (let count = 0; count < 5; count++) {
      expect(opened()).toHaveLength(0);
      await (await lab.gateway.post("/v1/messages", askMessages({ stream }))).text();
    }
    expect(opened()).toHaveLength(1);
  });

  test("a vendor that leaves its stream open after its calls is not waited for", async () => {
    const { wire } = lab.vendors.chat;
    let round = 0;
    lab.vendors.chat.script((asked) => {
      const { model } = wire.asks(asked);
      const records = wire.records(round++ === 0 ? searches("a") : says("Done."), model);
      const open = round === 1;
      const parts = [(open ? records.slice(0, -1) : records).join("")];
      return {
        headers: { "content-type": "text/event-stream" },
        parts,
        framing: "chunked",
        finish: open ? "silence" : "end",
      };
    });
    const records = readRecords(await (await lab.gateway.post("/v1/messages", askMessages({ stream: true }))).text());
    expectFinished("messages", records);
    expect(JSON.stringify(records)).toContain("Done.");
  });

  test("the client leaving between two rounds ends the work and is charged for the first", async () => {
    const before = lab.gateway.rows().length;
    const { wire } = lab.vendors.chat;
    const arrived = Promise.withResolvers<void>();
    const never = new Promise<never>(() => {});
    let round = 0;
    lab.vendors.chat.script((asked) => {
      const { model } = wire.asks(asked);
      if (round++ > 0) {
        arrived.resolve();
        return { parts: [], framing: "chunked", finish: "silence", headersAfter: never };
      }
      const parts = [wire.records(searches("a"), model).join("")];
      return { headers: { "content-type": "text/event-stream" }, parts, framing: "chunked", finish: "end" };
    });
    const leaving = new AbortController();
    const response = await lab.gateway.post("/v1/messages", askMessages({ stream: true }), { signal: leaving.signal });
    // Over a socket, who has left hears no end.
    const read = response.text().catch(() => "");
    await arrived.promise;
    leaving.abort();
    expect(await read).not.toContain("message_stop");
    await lab.gateway.app.running.idle();
    const row = lab.gateway
      .rows()
      .slice(before)
      .find(({ model }) => model === modelOf("chat"));
    expect(row).toMatchObject({ outcome: "client-left", output: 12 });
    expect(lab.vendors.chat.upstream.calls).toHaveLength(2);
  });
});

describe("what is not served", () => {
  test("a request without such tools is not touched", async () => {
    lab.vendors.chat.play(says("Hi."));
    const { body } = await post("/v1/messages", askMessages({ tools: [WEATHER] }));
    expect(typesOf(body)).toEqual(["text"]);
    expect((body["usage"] as Wire)["server_tool_use"]).toBeUndefined();
    expect(JSON.stringify(bodiesOf("chat")[0])).not.toContain("web_search");
  });

  test("a key that may not use the web gets its request without the tool, and is told", async () => {
    const { keys } = lab.gateway.app;
    const { key } = await keys.create({
      ...{ accountId: lab.gateway.accountId, name: "narrow", kind: "api" },
      endpoints: ["messages"],
    });
    lab.vendors.chat.play(says("Hi."));
    const response = await lab.gateway.post("/v1/messages", askMessages({}), {
      headers: { authorization: `Bearer ${key}` },
    });
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, "tools[0]"]);
    expect(JSON.stringify(bodiesOf("chat")[0])).not.toContain("web_search");
  });

  test("who asks for the translation is shown the function", async () => {
    const response = await lab.gateway.post("/v1/debug/translate", { dialect: "messages", body: askMessages({}) });
    const text = await response.text();
    expect(text).toContain("web_search");
    expect(text).not.toContain("web_search_20250305");
    expect(lab.vendors.chat.upstream.calls).toEqual([]);
  });
});

describe("citations", () => {
  const url = fc.constantFrom(
    "https://a.example/1",
    "https://a.example/10",
    "https://b.example/?q=1",
    "https://c.example/",
  );
  const piece = fc.oneof(
    url,
    url.map((each) => `[a page](${each})`),
    fc.string({ maxLength: 12 }),
    fc.constant(" "),
  );

  test("stand where the text names a page, in order, and nowhere else", () => {
    fc.assert(
      fc.property(
        fc.array(url, { minLength: 1, maxLength: 4 }),
        fc.array(piece, { maxLength: 20 }),
        (known, pieces) => {
          const sources = new Sources();
          const results = known.map((each) => ({ title: "t", url: each, snippet: "s", source: "", date: null }));
          sources.add({ call: undefined as never, subject: "", text: "", kind: "results", results });
          const text = pieces.join("");
          let last = 0;
          for (const { start, end, url: cited, before } of sources.cited(text, 7)) {
            expect(text.slice(start, end)).toContain(cited);
            expect(known as string[]).toContain(cited);
            expect([start >= last, end <= text.length, before]).toEqual([true, true, 7]);
            last = start;
          }
        },
      ),
    );
  });

  test("an address that is the beginning of a longer one is not named by it", () => {
    const sources = new Sources();
    const result = { title: "t", url: "https://a.example/1", snippet: "s", source: "", date: null };
    sources.add({ call: undefined as never, subject: "", text: "", kind: "results", results: [result] });
    expect(sources.cited("See https://a.example/10.", 0)).toEqual([]);
    expect(sources.cited("See https://a.example/1.", 0)).toHaveLength(1);
    expect(sources.cited("See [it](https://a.example/1).", 0)[0]).toMatchObject({ start: 4, end: 29 });
    for (const longer of ["/install", ".html", "/?q=2", ":80/", "'s-hook", "@next"]) {
      expect(sources.cited(`See https://a.example/1${longer} for more.`, 0)).toEqual([]);
    }
  });

  test("an address is named with a slash at its end and without", () => {
    const sources = new Sources();
    const results = ["https://a.example/1", "https://b.example/"].map((url) => ({
      ...{ title: "t", url, snippet: "s", source: "", date: null },
    }));
    sources.add({ call: undefined as never, subject: "", text: "", kind: "results", results });
    const text =
      "See [one](https://a.example/1/), https://b.example. Or https://b.example/, not https://b.example.org/.";
    const cited = sources.cited(text, 0).map(({ url, start, end }) => [url, text.slice(start, end)]);
    expect(cited).toEqual([
      ["https://a.example/1", "[one](https://a.example/1/)"],
      ["https://b.example/", "https://b.example"],
      ["https://b.example/", "https://b.example/"],
    ]);
  });
});
