import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { GENERATION_PATH as PATHS } from "../support/app.ts";
import { countWork } from "../support/wait.ts";
import { CLAUDE, modelOf, type ServedLab, says, searches, startServedLab, TOOLLESS } from "./server-tools.lab.ts";

type Wire = Record<string, unknown>;
type Client = "chat" | "messages" | "responses";

let lab: ServedLab;
beforeEach(async () => {
  const fast = { requests_per_minute: 1_000_000, concurrent_generations: 1_000, web_calls_per_minute: 1_000 };
  const plans = {
    paying: { ...fast, web_calls_per_day: 0, web_call_usd: 0.01 },
    counted: { ...fast, metered: false, web_calls_per_day: 5 },
  };
  lab = await startServedLab({ plans }, true);
  await lab.gateway.app.book.deposit({
    accountId: lab.gateway.accountId,
    amountNano: 1_000_000_000n,
    reference: "first",
  });
});
afterEach(() => lab.stop());

function join(plan: string): void {
  lab.gateway.store.database.run("UPDATE account SET plan = ? WHERE id = ?", [plan, lab.gateway.accountId]);
  lab.gateway.app.keys.reload();
}

const QUESTION = "When do the gates open?";
const SEARCH: Record<Client, Wire> = {
  chat: { web_search_options: {} },
  messages: { tools: [{ type: "web_search_20250305", name: "web_search" }], max_tokens: 500 },
  responses: { tools: [{ type: "web_search" }] },
};
const CLIENTS = Object.keys(PATHS) as Client[];

async function ask(client: Client, extra: Wire = {}, headers: Record<string, string> = {}) {
  const said = client === "responses" ? { input: QUESTION } : { messages: [{ role: "user", content: QUESTION }] };
  const body = { model: modelOf(client), ...said, ...SEARCH[client], ...extra };
  const response = await lab.gateway.post(PATHS[client], body, { headers });
  const text = await response.text();
  const sent = lab.vendors[client].upstream.calls.map((call) => JSON.parse(call.text) as Wire);
  return { status: response.status, dropped: response.headers.get("x-sluice-dropped"), text, sent };
}

const searchRows = () => lab.gateway.rows().filter(({ model }) => !model.startsWith("lab/"));

describe("a vendor that searches itself", () => {
  test.each(CLIENTS)("searches for whom nothing is counted: %s", async (client) => {
    lab.vendors[client].play(says("At dawn."));
    const { status, dropped, sent } = await ask(client);
    expect([status, dropped, sent.length, searchRows().length]).toEqual([200, null, 1, 0]);
    expect(sent[0]).toMatchObject(SEARCH[client]);
  });

  test.each(CLIENTS.flatMap((client) => [false, true].map((stream) => [client, stream] as const)))(
    "does not for who pays, since its bill comes to the operator: the gateway does, and is paid by the call: %s, stream %p",
    async (client, stream) => {
      join("paying");
      lab.vendors[client].play(searches("sluice gates"), says("At dawn."));
      const { status, sent, text } = await ask(client, { stream });
      expect([status, sent.length]).toEqual([200, 2]);
      expect(text).toContain("At dawn.");
      for (const body of sent)
        expect(JSON.stringify(body)).not.toMatch(/web_search_(?:20250305|options)|"type":"web_search"/);
      expect(searchRows()).toMatchObject([{ chargedNano: 10_000_000n }]);
      expect(lab.gateway.app.book.verify()).toEqual([]);
    },
  );

  test.each(CLIENTS)("nor for whose calls of a day are counted: %s", async (client) => {
    join("counted");
    lab.vendors[client].play(searches("sluice gates"), says("At dawn."));
    expect(await ask(client)).toMatchObject({ status: 200, dropped: null });
    const { accountId, app } = lab.gateway;
    expect(app.book.allowance(accountId, "web", 5)).toMatchObject({ used: 1, remaining: 4 });
  });

  test.each(CLIENTS)("nor for a key that may use no web tools: %s", async (client) => {
    const { accountId, app } = lab.gateway;
    const { key } = await app.keys.create({ accountId, name: "narrow", kind: "api", endpoints: [client] });
    lab.vendors[client].play(says("I cannot search."));
    const demand = { tool_choice: client === "messages" ? { type: "any" } : "required" };
    const { status, dropped, sent } = await ask(client, demand, { authorization: `Bearer ${key}` });
    const place = client === "chat" ? "web_search_options" : "tools[0]";
    expect([status, dropped, sent.length]).toEqual([200, place, 1]);
    for (const field of ["tools", "web_search_options", "tool_choice"]) expect(sent[0]).not.toContainKey(field);
  });

  test("does for a key that may use them, of a model that the gateway can serve none", async () => {
    const { accountId, app } = lab.gateway;
    const limits = { name: "narrow", kind: "api" as const, endpoints: ["chat" as const, "web" as const] };
    const { key } = await app.keys.create({ accountId, ...limits });
    lab.vendors.chat.play(says("At dawn."));
    const asked = await ask("chat", { model: TOOLLESS }, { authorization: `Bearer ${key}` });
    expect([asked.status, asked.dropped]).toEqual([200, null]);
    expect(asked.sent[0]).toMatchObject(SEARCH.chat);
  });

  test("may be demanded where it is all that is offered: of the first round alone", async () => {
    join("paying");
    lab.vendors.chat.play(searches("sluice gates"), says("At dawn."));
    const { status, sent } = await ask("chat", { tool_choice: "required" });
    expect([status, sent.map((body) => body["tool_choice"])]).toEqual([200, ["required", "auto"]]);
  });
});

describe("a tool that a vendor runs for money of its own", () => {
  const OWN = { type: "function", name: "look", parameters: { type: "object", properties: {} } };
  const DRAW = { type: "image_generation" };

  test("is left out for who pays, with the choice of it; what is the client's own stays", async () => {
    join("paying");
    lab.vendors.responses.play(says("I cannot draw."), says("Nor can I."));
    const tools = [DRAW, OWN, { type: "code_interpreter", container: { type: "auto" } }, { type: "x_search" }];
    const { status, dropped, sent } = await ask("responses", { tools, tool_choice: DRAW });
    expect([status, dropped]).toEqual([200, "tools[0], tools[2], tools[3]"]);
    expect(sent[0]).toMatchObject({ tools: [OWN] });
    expect(sent[0]).not.toContainKey("tool_choice");
    const alone = await ask("responses", { tools: [DRAW], parallel_tool_calls: false });
    expect([alone.status, alone.dropped]).toEqual([200, "tools[0]"]);
    expect(alone.sent[1]).not.toContainKeys(["tools", "parallel_tool_calls"]);
  });

  test.each(["fetch_url", "people_search", "finance_search", "image_search", "sandbox", "a tool of next year"])(
    "is whatever no client runs, as Perplexity's are: %p",
    async (type) => {
      join("paying");
      lab.vendors.responses.play(says("Done."));
      const clients = [
        "namespace",
        "tool_search",
        "programmatic_tool_calling",
        "local_shell",
        "apply_patch",
        "computer",
      ];
      const kept = [
        OWN,
        ...clients.map((type) => (type === "namespace" ? { type, name: "mine", tools: [OWN] } : { type })),
      ];
      const { status, dropped, sent } = await ask("responses", { tools: [{ type }, ...kept] });
      expect([status, dropped, sent[0]?.["tools"]]).toEqual([200, "tools[0]", kept]);
    },
  );

  test("comes with no preset that a vendor keeps", async () => {
    join("paying");
    lab.vendors.responses.play(says("Done."));
    const { status, dropped, sent } = await ask("responses", { tools: [OWN], preset: "high" });
    expect([status, dropped]).toEqual([200, "preset"]);
    expect(sent[0]).not.toContainKey("preset");
  });

  test("is a shell in a container of the vendor's, and not one at the client", async () => {
    join("paying");
    lab.vendors.responses.play(says("Done."));
    const at = (environment: Wire) => ({ type: "shell", environment });
    const tools = [at({ type: "container_auto" }), at({ type: "local" }), { type: "shell" }];
    const { status, dropped, sent } = await ask("responses", { tools });
    expect([status, dropped, sent[0]?.["tools"]]).toEqual([200, "tools[0]", tools.slice(1)]);
  });

  test("stands beside a search that the gateway runs", async () => {
    join("paying");
    lab.vendors.responses.play(searches("sluice gates"), says("At dawn."));
    const { status, dropped, sent } = await ask("responses", { tools: [DRAW, { type: "web_search" }, OWN] });
    expect([status, dropped]).toEqual([200, "tools[0]"]);
    expect((sent[0]?.["tools"] as Wire[] | undefined)?.map(({ name }) => name)).toEqual(["web_search", "look"]);
    expect(searchRows().length).toBe(1);
  });

  test("is shown as it is sent", async () => {
    join("paying");
    lab.vendors.responses.play(says("At dawn."));
    const tools = [DRAW, { type: "web_search" }, OWN];
    const { sent } = await ask("responses", { tools });
    const body = { model: modelOf("responses"), input: QUESTION, tools };
    const shown = await (await lab.gateway.post("/v1/debug/translate", { dialect: "responses", body })).json();
    const { routes } = shown as { routes: { dropped: string[]; body: Wire }[] };
    expect(routes[0]?.dropped).toEqual(["tools[0]"]);
    expect(routes[0]?.body["tools"]).toEqual(sent[0]?.["tools"]);
  });

  test("goes on for who does not pay", async () => {
    lab.vendors.responses.play(says("Here."));
    const { dropped, sent } = await ask("responses", { tools: [DRAW], tool_choice: DRAW });
    expect([dropped, sent[0]?.["tools"], sent[0]?.["tool_choice"]]).toEqual([null, [DRAW], DRAW]);
  });

  const MOONSHOTS = { type: "builtin_function", function: { name: "$web_search" } };
  test.each([
    ["Moonshot's", MOONSHOTS],
    ["Z.ai's", { type: "web_search", web_search: { enable: true } }],
    ["OpenRouter's", { type: "openrouter:web_search" }],
    ["OpenRouter's (it draws)", { type: "openrouter:image_generation" }],
    ["OpenRouter's (it asks other models)", { type: "openrouter:fusion" }],
    ["Groq's", { type: "browser_search" }],
  ])("a tool of a chat body of %s own type as well", async (_whose, tool) => {
    const CALLED = { type: "function", function: { name: "look", parameters: { type: "object", properties: {} } } };
    const asked = { tools: [tool, CALLED], web_search_options: undefined };
    lab.vendors.chat.play(says("Yes."), says("No."));
    const free = await ask("chat", asked);
    expect([free.dropped, free.sent[0]?.["tools"]]).toEqual([null, asked.tools]);
    join("paying");
    const paid = await ask("chat", asked);
    expect([paid.status, paid.dropped, paid.sent[1]?.["tools"]]).toEqual([200, "tools[0]", [CALLED]]);
  });

  test.each<Client>(["messages", "responses"])(
    "a tool of OpenRouter's in the other dialects as well: %s",
    async (client) => {
      const tools = [{ type: "openrouter:image_generation" }];
      lab.vendors[client].play(says("Yes."), says("No."));
      const free = await ask(client, { tools });
      expect([free.dropped, free.sent[0]?.["tools"]]).toEqual([null, tools]);
      join("paying");
      const paid = await ask(client, { tools });
      expect([paid.status, paid.dropped, paid.sent[1]?.["tools"]]).toEqual([200, "tools[0]", undefined]);
    },
  );

  test("a server of tools that the client names is none, nor is a function without a type: they go on for who pays", async () => {
    const called = { function: { name: "look", parameters: { type: "object", properties: {} } } };
    const named = { type: "mcp", server_label: "own", server_url: "https://tools.example" };
    const tools = [named, called, { type: null, ...called }];
    join("paying");
    lab.vendors.chat.play(says("Yes."));
    const { dropped, sent } = await ask("chat", { tools, web_search_options: undefined });
    expect([dropped, sent[0]?.["tools"]]).toEqual([null, tools]);
  });

  test.each([
    ["plugins", [{ id: "web" }]],
    ["search_parameters", { mode: "on" }],
    ["enable_search", true],
  ])("%s of a chat body as well", async (field, value) => {
    lab.vendors.chat.play(says("Yes."), says("No."));
    const free = await ask("chat", { [field]: value, web_search_options: undefined });
    expect([free.dropped, free.sent[0]?.[field]]).toEqual([null, value]);
    join("paying");
    const paid = await ask("chat", { [field]: value, web_search_options: undefined });
    expect([paid.status, paid.dropped, paid.sent[1]?.[field]]).toEqual([200, field, undefined]);
  });
});

describe("the time of a request grows with its tools, not with their square", () => {
  const FEW = 250;
  const MANY = 4_000;
  /** Sixteen times as many may take so many times as long; the square would be 256. */
  const MOST = 60;
  /** Below this a measure is noise, ms. */
  const NOISE = 20;
  const CODE = { type: "code_interpreter", container: { type: "auto" } };
  const SEARCHING = { type: "web_search" };
  const listed = (count: number, tool: Wire): Wire[] => Array.from({ length: count }, () => tool);
  const brought = (tools: Wire[]) => ({ type: "additional_tools", role: "developer", tools });

  const shapes: [string, Client, (count: number) => Wire][] = [
    [
      "web tools of one kind, each of which gets a name of its own",
      "responses",
      (count) => ({ tools: listed(count, SEARCHING) }),
    ],
    [
      "tools that are left out, all of them allowed",
      "responses",
      (count) => ({
        tools: listed(8 * count, CODE),
        tool_choice: {
          type: "allowed_tools",
          mode: "auto",
          tools: listed(8 * count, { type: "function", name: "none" }),
        },
      }),
    ],
    [
      "searches that a conversation brings",
      "responses",
      (count) => ({
        tools: listed(count, SEARCHING),
        input: [brought(listed(count, SEARCHING)), { role: "user", content: QUESTION }],
      }),
    ],
  ];
  test.each(shapes)("%s", async (_what, client, make) => {
    join("paying");
    const { accountId, app } = lab.gateway;
    await app.book.deposit({ accountId, amountNano: 1_000_000_000_000n, reference: "more" });
    const timeOf = async (count: number): Promise<number> => {
      let least = Number.POSITIVE_INFINITY;
      for (let run = 0; run < 3; run++) {
        lab.vendors[client].play(says("At dawn."));
        const work = countWork();
        expect((await ask(client, make(count))).status).toBe(200);
        least = Math.min(least, work());
      }
      return least;
    };
    const few = await timeOf(FEW);
    expect((await timeOf(MANY)) / Math.max(few, NOISE)).toBeLessThan(MOST);
  });
});

describe("a tool by which a vendor asks another model", () => {
  const READ = { name: "read", input_schema: { type: "object", properties: {} } };
  const ADVISER = { type: "advisor_20260301", name: "advisor", model: "dearer" };
  const tools = [READ, ADVISER];

  test("goes on for who may call every model and pays for none", async () => {
    lab.vendors.messages.play(says("At dawn."));
    const { status, dropped, sent } = await ask("messages", { tools });
    expect([status, dropped, sent[0]?.["tools"]]).toEqual([200, null, tools]);
  });

  test("names it as the vendor does, where the client has its ID", async () => {
    lab.vendors.messages.play(says("At dawn."));
    const asked = { tools: [READ, { ...ADVISER, model: CLAUDE }], fallbacks: [{ model: CLAUDE }, { model: "other" }] };
    const { sent } = await ask("messages", asked);
    expect([sent[0]?.["tools"], sent[0]?.["fallbacks"]]).toEqual([
      [READ, { ...ADVISER, model: "claude-opus-5" }],
      [{ model: "claude-opus-5" }, { model: "other" }],
    ]);
  });

  test("is left out for who pays: what the other one costs is not known", async () => {
    join("paying");
    lab.vendors.messages.play(says("At dawn."));
    const { status, dropped, sent } = await ask("messages", { tools });
    expect([status, dropped, sent[0]?.["tools"]]).toEqual([200, "tools[1]", [READ]]);
  });

  test("is left out for a key that may not call every model", async () => {
    const { accountId, app } = lab.gateway;
    const { key } = await app.keys.create({ accountId, name: "narrow", kind: "api", models: ["lab/*"] });
    lab.vendors.messages.play(says("At dawn."));
    const asked = { tools, tool_choice: { type: "tool", name: "advisor" } };
    const { status, dropped, sent } = await ask("messages", asked, { authorization: `Bearer ${key}` });
    expect([status, dropped, sent[0]?.["tools"]]).toEqual([200, "tools[1]", [READ]]);
    expect(sent[0]).not.toContainKey("tool_choice");
  });

  test.each(["advisor", "fusion", "subagent"])("so is one of OpenRouter's that names none: %s", async (name) => {
    const { accountId, app } = lab.gateway;
    const { key } = await app.keys.create({ accountId, name: "narrow", kind: "api", models: ["lab/*"] });
    const asked = { tools: [{ type: `openrouter:${name}` }, { type: "openrouter:datetime" }] };
    lab.vendors.chat.play(says("At dawn."), says("At dawn."));
    const { status, dropped, sent } = await ask(
      "chat",
      { ...asked, web_search_options: undefined },
      { authorization: `Bearer ${key}` },
    );
    expect([status, dropped, sent[0]?.["tools"]]).toEqual([200, "tools[0]", asked.tools.slice(1)]);
    const free = await ask("chat", { ...asked, web_search_options: undefined });
    expect([free.dropped, free.sent[1]?.["tools"]]).toEqual([null, asked.tools]);
  });
});

describe("tools that a conversation brings itself", () => {
  const add = (definition: Wire) => ({ type: "tool_addition", tool: { type: "tool_definition", definition } });
  const READ = { name: "read", input_schema: { type: "object", properties: {} } };
  const ADVISER = { type: "advisor_20260301", name: "advisor", model: "dearer" };
  const SEARCHING = { type: "web_search_20260318", name: "web_search" };
  const DRAW = { type: "image_generation" };
  const CALLED = { type: "function", name: "read", parameters: { type: "object", properties: {} } };
  const user = { role: "user", content: QUESTION };
  const told = (...definitions: Wire[]) => [user, { role: "system", content: definitions.map(add) }];
  const brings = (type: string, ...tools: Wire[]) => [
    user,
    { type, tools, ...(type === "additional_tools" ? { role: "developer" } : { call_id: "c1" }) },
  ];
  const claude = (messages: Wire[], headers?: Record<string, string>) =>
    ask("messages", { model: CLAUDE, tools: undefined, messages }, headers);
  const codex = (input: Wire[]) => ask("responses", { tools: undefined, input });
  const lines = (body: Wire | undefined, field: string) => body?.[field] as Wire[] | undefined;

  test("go on for who neither pays nor is kept from a model", async () => {
    lab.vendors.messages.play(says("At dawn."));
    lab.vendors.responses.play(says("At dawn."));
    const messages = told(READ, ADVISER, SEARCHING);
    const claimed = await claude(messages);
    expect([claimed.status, claimed.dropped, claimed.sent[0]?.["messages"]]).toEqual([200, null, messages]);
    const input = brings("additional_tools", CALLED, DRAW, { type: "web_search" });
    const drawn = await codex(input);
    expect([drawn.status, drawn.dropped, drawn.sent[0]?.["input"]]).toEqual([200, null, input]);
  });

  test("are left out for who pays where they cost money that nobody could charge, and its searches are the gateway's", async () => {
    join("paying");
    lab.vendors.messages.play(searches("sluice gates"), says("At dawn."));
    const { status, dropped, sent } = await claude(told(READ, ADVISER, SEARCHING));
    expect([status, dropped, sent.length]).toEqual([200, "messages[1].content[1]", 2]);
    expect(lines(sent[0], "messages")).toEqual(told(READ));
    expect(lines(sent[0], "tools")?.map(({ name, type }) => [name, type])).toStrictEqual([["web_search", undefined]]);
    expect(searchRows()).toMatchObject([{ chargedNano: 10_000_000n }]);
  });

  test.each(["additional_tools", "tool_search_output"])("so are those of an item of the input: %s", async (type) => {
    join("paying");
    lab.vendors.responses.play(searches("sluice gates"), says("At dawn."));
    const { status, dropped, sent } = await codex(brings(type, CALLED, DRAW, { type: "web_search" }));
    expect([status, dropped, sent.length]).toEqual([200, "input[1].tools[1]", 2]);
    expect(lines(sent[0], "input")?.slice(0, 2)).toEqual(brings(type, CALLED));
    expect(lines(sent[0], "tools")?.map((tool) => [tool["name"], tool["type"]])).toEqual([["web_search", "function"]]);
    expect(searchRows()).toMatchObject([{ chargedNano: 10_000_000n }]);
  });

  test("keep their names, also where that is one of the gateway's own: calls of them are the client's", async () => {
    join("paying");
    lab.vendors.messages.play(searches("sluice gates"));
    lab.vendors.responses.play(searches("sluice gates"));
    const mine = { ...READ, name: "web_search" };
    const turned = await ask("messages", { model: CLAUDE, messages: told(mine) });
    expect(lines(turned.sent[0], "tools")?.map(({ name }) => name)).toEqual(["web_search_2"]);
    const found = brings("tool_search_output", { ...CALLED, name: "web_search" });
    const searched = await ask("responses", { input: found });
    expect(lines(searched.sent[0], "tools")?.map(({ name }) => name)).toEqual(["web_search_2"]);
    for (const { status, sent } of [turned, searched]) expect([status, sent.length]).toEqual([200, 1]);
    expect(searchRows()).toEqual([]);
  });

  test("are left out with the turn or the item that brought nothing else", async () => {
    join("paying");
    lab.vendors.messages.play(says("At dawn."));
    lab.vendors.responses.play(says("At dawn."));
    expect((await claude(told(ADVISER))).sent[0]?.["messages"]).toEqual([user]);
    expect((await codex(brings("additional_tools", DRAW))).sent[0]?.["input"]).toEqual([user]);
  });

  test("reach no model that a key may not call, and no web for one that may use none", async () => {
    const { accountId, app } = lab.gateway;
    const limits = { models: ["lab/*"], endpoints: ["messages" as const] };
    const { key } = await app.keys.create({ accountId, name: "narrow", kind: "api", ...limits });
    lab.vendors.messages.play(says("At dawn."));
    const { status, dropped, sent } = await claude(told(READ, ADVISER, SEARCHING), { authorization: `Bearer ${key}` });
    expect([status, dropped]).toEqual([200, "messages[1].content[1], messages[1].content[2]"]);
    expect(sent[0]?.["messages"]).toEqual(told(READ));
  });
});
