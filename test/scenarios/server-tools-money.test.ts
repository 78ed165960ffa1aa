import { afterEach, describe, expect, test } from "bun:test";
import type { Config } from "../../src/config/load.ts";
import { sealText } from "../../src/dialects/messages/server-tools.ts";
import { answerOf } from "../sdk/lab.ts";
import { COUNTS, type Reply } from "../sdk/replies.ts";
import { startApp, vendorAt } from "../support/app.ts";
import { json, startUpstream } from "../support/upstream.ts";
import { until } from "../support/wait.ts";
import { costOf, holdOf } from "./paying.ts";
import { modelOf, type ServedLab, SMALL, SMALL_OUTPUT, says, searches, startServedLab } from "./server-tools.lab.ts";

type Wire = Record<string, unknown>;

let lab: ServedLab | undefined;
afterEach(async () => {
  const started = lab;
  lab = undefined;
  if (!started) return;
  const faults = Object.values(started.vendors).flatMap((vendor) => vendor.faults);
  await started.stop();
  expect(faults).toEqual([]);
});

/** A lab whose account is on a plan of these figures. */
async function start(figures: Config["plans"][string], config: Partial<Config> = {}): Promise<ServedLab> {
  const fast = { requests_per_minute: 1_000_000, concurrent_generations: 1_000, web_calls_per_minute: 1_000 };
  lab = await startServedLab({ plans: { trial: { ...fast, web_calls_concurrent: 100, ...figures } }, ...config });
  const { gateway } = lab;
  gateway.store.database.run("UPDATE account SET plan = 'trial' WHERE id = ?", [gateway.accountId]);
  gateway.app.keys.reload();
  return lab;
}

const ask = (fields: Wire = {}) => ({
  model: modelOf("chat"),
  max_tokens: 60,
  messages: [{ role: "user", content: "When do the gates open?" }],
  tools: [{ type: "web_search_20250305", name: "web_search" }],
  ...fields,
});

const blocksOf = (body: Wire) => body["content"] as Wire[];
const errorsOf = (body: Wire) =>
  blocksOf(body)
    .filter(({ type }) => type === "web_search_tool_result")
    .map(({ content }) => (content as Wire)["error_code"]);

describe("the allowance of web calls", () => {
  test("used up: an error block, the reset time for the model, and a reply all the same", async () => {
    const { gateway, vendors } = await start({ metered: false, web_calls_per_day: 1 });
    vendors.chat.play(searches("one", "one"), searches("two", "two"), says("That is all."));
    const response = await gateway.post("/v1/messages", ask({ max_tokens: 500 }));
    const body = (await response.json()) as Wire;
    expect([response.status, body["stop_reason"]]).toEqual([200, "end_turn"]);
    expect(errorsOf(body)).toEqual([undefined, "too_many_requests"]);
    expect(vendors.chat.upstream.calls[2]?.text).toMatch(/are used up.*begin anew at \d{4}-/);
    expect(gateway.app.book.allowance(gateway.accountId, "web", 1)).toMatchObject({ used: 1, remaining: 0 });
  });

  test("calls in one round may not be more at a time than the plan allows two of", async () => {
    const { gateway, vendors } = await start({ metered: false, web_calls_concurrent: 2 });
    const many = ["a", "b", "c", "d", "e"].flatMap((name) => searches(name, name, name).steps);
    vendors.chat.play({ steps: many, finish: "calls" }, says("Done."));
    const body = (await (await gateway.post("/v1/messages", ask({ max_tokens: 500 }))).json()) as Wire;
    expect(errorsOf(body)).toEqual(Array.from({ length: 5 }));
  });

  test("without a search engine the tool is not to be had, and the reply is", async () => {
    const { gateway, vendors } = await start({ metered: false }, { search: [] });
    vendors.chat.play(searches("one"), says("I cannot search."));
    const response = await gateway.post("/v1/messages", ask());
    const body = (await response.json()) as Wire;
    expect([response.status, errorsOf(body)]).toEqual([200, ["unavailable"]]);
    expect(gateway.rows().map(({ model }) => model)).toEqual([modelOf("chat")]);
  });
});

describe("the money of all rounds", () => {
  const rounds = (count: number) => costOf(count * (COUNTS.fresh + COUNTS.cached), count * COUNTS.output);

  test.each([false, true])("stream %p: both rounds and the call are paid, and nothing stays held", async (stream) => {
    const { gateway, vendors } = await start({ web_calls_per_day: 0, web_call_usd: 0.01 });
    const { book } = gateway.app;
    const deposit = 1_000_000_000n;
    await book.deposit({ accountId: gateway.accountId, amountNano: deposit, reference: "first" });
    vendors.chat.play(searches("sluice gates"), says("At dawn."));
    await (await gateway.post("/v1/messages", ask({ stream }))).text();
    const { postedNano, heldNano } = book.balance(gateway.accountId);
    const row = gateway.rows().find(({ model }) => model === modelOf("chat"));
    expect(heldNano).toBe(0n);
    expect(row?.chargedNano).toBeGreaterThan(0n);
    expect(row?.chargedNano).toBeLessThanOrEqual(rounds(2));
    expect(deposit - postedNano).toBe(10_000_000n + (row?.chargedNano ?? 0n));
    expect(book.verify()).toEqual([]);
  });

  test.each([false, true])(
    "stream %p: too little for the next round ends the reply as one that ran out",
    async (stream) => {
      const { gateway, vendors } = await start({ web_calls_per_day: 10 });
      const { book } = gateway.app;
      const body = ask({ stream });
      const amountNano = holdOf(body as never, 60, 1) + 1_000n;
      await book.deposit({ accountId: gateway.accountId, amountNano, reference: "first" });
      vendors.chat.play(searches("sluice gates"), says("At dawn."));
      const response = await gateway.post("/v1/messages", body);
      const text = await response.text();
      expect([response.status, vendors.chat.upstream.calls.length]).toEqual([200, 1]);
      expect(text).toContain('"stop_reason":"max_tokens"');
      expect(text).toContain("web_search_tool_result");
      if (stream) expect(text).toContain(": x-sluice-stop: balance");
      else expect(response.headers.get("x-sluice-stop")).toBe("balance");
      const row = gateway.rows().find(({ model }) => model === modelOf("chat"));
      expect(row).toMatchObject({ outcome: "completed", output: COUNTS.output, finish: "length" });
      expect(book.balance(gateway.accountId).heldNano).toBe(0n);
      expect(book.verify()).toEqual([]);
    },
  );

  /** As many counted tokens of output in each round. */
  const counted = ({ vendors }: ServedLab, output: number, ...replies: Reply[]) => {
    const { wire } = vendors.chat;
    let round = 0;
    vendors.chat.script((call) => {
      const whole = wire.whole(replies[round++]!, wire.asks(call).model) as Wire;
      return json({ ...whole, usage: { prompt_tokens: 20, completion_tokens: output, total_tokens: 20 + output } });
    });
  };

  test("a model's own ceiling is one of each round: what the rounds of a stream come to together is paid", async () => {
    const lab = await start({ web_calls_per_day: 10 });
    const { gateway, vendors } = lab;
    const { book } = gateway.app;
    await book.deposit({ accountId: gateway.accountId, amountNano: 1_000_000_000n, reference: "first" });
    counted(lab, 800, searches("one", "one"), searches("two", "two"), says("At dawn."));
    const text = await (
      await gateway.post("/v1/messages", ask({ model: SMALL, max_tokens: 4_000, stream: true }))
    ).text();
    expect(text).toContain('"output_tokens":2400');
    const asked = vendors.chat.upstream.calls.map(({ json }) => (json as Wire)["max_tokens"]);
    expect(asked).toEqual([SMALL_OUTPUT, SMALL_OUTPUT, SMALL_OUTPUT]);
    const row = gateway.rows().find(({ model }) => model === SMALL);
    expect(row).toMatchObject({ output: 2_400, chargedNano: costOf(60, 2_400), flags: 0 });
    expect(book.balance(gateway.accountId).heldNano).toBe(0n);
    expect(book.verify()).toEqual([]);
  });

  test.each(["account", "key"])(
    "its %s's money is looked after in a further round as in the first one",
    async (whose) => {
      const lab = await start({ ...(whose === "key" && { metered: false }), web_calls_per_day: 10 });
      const { gateway, vendors } = lab;
      const { accountId } = gateway;
      const body = ask({ model: SMALL, max_tokens: 4_000, stream: true });
      // For all that the first round may come to, and for the input of a second one.
      const most = holdOf(body as never, SMALL_OUTPUT, 1) + 10_000_000n;
      const created = await gateway.app.keys.create({
        ...{ accountId, name: "capped", kind: "api" as const },
        ...(whose === "key" && { capDayNano: most }),
      });
      if (whose === "account") await gateway.app.book.deposit({ accountId, amountNano: most, reference: "first" });
      const many = Array.from({ length: 700 }, (_, at) => `word${at} `);
      vendors.chat.play(searches("sluice gates", "look", "I will look. ".repeat(30)), says(...many));
      const headers = { authorization: `Bearer ${created.key}` };
      const text = await (await gateway.post("/v1/messages", body, { headers })).text();
      expect(vendors.chat.upstream.calls).toHaveLength(2);
      expect(text).toContain('"stop_reason":"max_tokens"');
      expect(text).toContain("word0 ");
      expect(text).not.toContain("word699 ");
    },
  );

  test("what a first round came to is money that a further one has no more, and is watched with it", async () => {
    const { gateway, vendors } = await start({ web_calls_per_day: 10 });
    const body = ask({ model: SMALL, max_tokens: 4_000, stream: true });
    const amountNano = holdOf(body as never, SMALL_OUTPUT, 1) + 5_000_000n;
    await gateway.app.book.deposit({ accountId: gateway.accountId, amountNano, reference: "first" });
    const { wire } = vendors.chat;
    const look = searches("sluice gates");
    const later = answerOf(wire, says(...Array.from({ length: 400 }, (_, at) => `word${at} `)));
    vendors.chat.script((call) => {
      if (vendors.chat.upstream.calls.length > 1) return typeof later === "function" ? later(call) : later;
      const usage = { prompt_tokens: 20, completion_tokens: 800, total_tokens: 820 };
      return json({ ...(wire.whole(look, wire.asks(call).model) as Wire), usage });
    });
    const text = await (await gateway.post("/v1/messages", body)).text();
    expect(text).toContain('"stop_reason":"max_tokens"');
    expect(text).toContain("word0 ");
    expect(text).not.toContain("word150 ");
    expect(gateway.app.book.verify()).toEqual([]);
  });

  test("a reply that is wanted whole and watched as a stream is watched in a further round too", async () => {
    const { gateway, vendors } = await start({ web_calls_per_day: 10 });
    const body = ask({ max_tokens: 20_000 });
    // Little enough that the whole of it is not held, and for less than the second round would come to.
    const amountNano = holdOf(body as never, 4_096, 1) + 6_000_000n;
    await gateway.app.book.deposit({ accountId: gateway.accountId, amountNano, reference: "first" });
    vendors.chat.play(searches("sluice gates"), says(...Array.from({ length: 3_000 }, (_, at) => `word${at} `)));
    const response = await gateway.post("/v1/messages", body);
    const text = await response.text();
    expect(vendors.chat.upstream.calls.map(({ json }) => (json as Wire)["stream"])).toEqual([true, true]);
    expect(response.headers.get("x-sluice-stop")).toBe("balance");
    expect(text).toContain("word0 ");
    expect(text).not.toContain("word2999 ");
    const { heldNano, postedNano } = gateway.app.book.balance(gateway.accountId);
    expect(heldNano).toBe(0n);
    expect(postedNano).toBeGreaterThanOrEqual(0n);
    expect(gateway.app.book.verify()).toEqual([]);
  });

  test("a key that has one request left for the day may end a reply of several rounds with it", async () => {
    const { gateway, vendors } = await start({ metered: false, web_calls_per_day: 10 });
    const { accountId } = gateway;
    const caps = { capRequestsDay: 2 };
    const { key } = await gateway.app.keys.create({ accountId, name: "capped", kind: "api", ...caps });
    const headers = { authorization: `Bearer ${key}` };
    vendors.chat.play(searches("sluice gates"), says("At dawn."));
    const body = (await (await gateway.post("/v1/messages", ask(), { headers })).json()) as Wire;
    expect([body["stop_reason"], errorsOf(body)]).toEqual(["end_turn", [undefined]]);
    const refused = await gateway.post("/v1/messages", ask(), { headers });
    expect(refused.status).toBe(429);
  });

  test("a further round takes no request of its key's day from another one meanwhile", async () => {
    const { gateway, vendors } = await start({ metered: false, web_calls_per_day: 10 });
    const caps = { capRequestsDay: 4 };
    const { key } = await gateway.app.keys.create({
      ...{ accountId: gateway.accountId, name: "capped", kind: "api" as const },
      ...caps,
    });
    const headers = { authorization: `Bearer ${key}` };
    const { wire, upstream } = vendors.chat;
    const held = Promise.withResolvers<void>();
    const replies = [searches("sluice gates"), says("At dawn."), says("Hello.")];
    let calls = 0;
    vendors.chat.script(async (call) => {
      const at = calls++;
      if (at === 1) await held.promise;
      const answer = answerOf(wire, replies[Math.min(at, 2)]!);
      return typeof answer === "function" ? answer(call) : answer;
    });
    const first = gateway.post("/v1/messages", ask(), { headers });
    await until(() => upstream.calls.length === 2, "the second round");
    // One generation and one search are made: two are left.
    const { tools: _tools, ...plain } = ask();
    const statuses: number[] = [];
    for (let at = 0; at < 3; at++) statuses.push((await gateway.post("/v1/messages", plain, { headers })).status);
    held.resolve();
    expect([(await first).status, ...statuses]).toEqual([200, 200, 200, 429]);
  });

  test.each([false, true])(
    "stream %p: a key whose money of the day is used up by its rounds ends the reply",
    async (stream) => {
      const { gateway, vendors } = await start({ metered: false, web_calls_per_day: 10 });
      const body = ask({ stream });
      const capDayNano = holdOf(body as never, 60, 1) + 1_000n;
      const { key } = await gateway.app.keys.create({
        ...{ accountId: gateway.accountId, name: "capped", kind: "api" as const },
        capDayNano,
      });
      vendors.chat.play(searches("sluice gates"), says("At dawn."));
      const response = await gateway.post("/v1/messages", body, { headers: { authorization: `Bearer ${key}` } });
      expect(await response.text()).toContain('"stop_reason":"max_tokens"');
      expect(vendors.chat.upstream.calls).toHaveLength(1);
    },
  );

  test.each([false, true])("stream %p: a vendor without counts is estimated round by round", async (stream) => {
    const { gateway, vendors } = await start({ metered: false, web_calls_per_day: 10 });
    const { wire } = vendors.chat;
    let round = 0;
    vendors.chat.script((call) => {
      const reply = round++ === 0 ? searches("sluice gates") : says("At dawn.");
      const whole = wire.whole(reply, wire.asks(call).model) as Wire;
      delete whole["usage"];
      return json(whole);
    });
    await (await gateway.post("/v1/messages", ask({ stream }))).text();
    const row = gateway.rows().find(({ model }) => model === modelOf("chat"));
    const [first = "", second = ""] = vendors.chat.upstream.calls.map(({ text }) => text);
    expect(row?.estimated).toBe(true);
    // The second round's input holds all of the first one's, and ten results.
    expect(second.length).toBeGreaterThan(first.length + 1_000);
    expect(row?.input).toBeGreaterThan(first.length / 4 + 500);
  });
});

test("what the gateway cited before is cited to no vendor for which it searches, of the client's own dialect either", async () => {
  const { gateway, vendors } = await start({ metered: false, web_calls_per_day: 10 });
  vendors.messages.play(says("At dawn."));
  const citations = [{ type: "web_search_result_location", url: "https://t.example/", encrypted_index: sealText("x") }];
  const before = { role: "assistant", content: [{ type: "text", text: "At dawn.", citations }] };
  const asked = ask({ model: modelOf("messages") });
  await gateway.post("/v1/messages", { ...asked, messages: [...asked.messages, before, ...asked.messages] });
  const [sent] = vendors.messages.upstream.calls;
  expect(sent?.json).toMatchObject({ messages: [{}, { content: [{ type: "text", text: "At dawn." }] }, {}] });
  expect(sent?.text).not.toContain("sluice.");
});

test("a vendor that runs the tools itself is sent the request as it is, and its blocks come back as they are", async () => {
  const upstream = startUpstream();
  const vendor = vendorAt(upstream, "messages", "own", { webTools: true });
  const gateway = await startApp({
    vendors: [vendor],
    models: [{ id: "own/model", pricing: "free", routes: [{ vendor: "own", model: "hidden" }] }],
    config: { search: [{ engine: "fixture" }] },
  });
  try {
    const content = [
      { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "x" } },
      { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] },
      { type: "text", text: "Done." },
    ];
    const usage = { input_tokens: 5, output_tokens: 3, server_tool_use: { web_search_requests: 1 } };
    const reply = { id: "msg_1", type: "message", role: "assistant", model: "hidden", content };
    upstream.always("/v1/messages", json({ ...reply, stop_reason: "end_turn", stop_sequence: null, usage }));
    const asked = ask({ model: "own/model" });
    const body = (await (await gateway.post("/v1/messages", asked)).json()) as Wire;
    expect(JSON.parse(upstream.calls[0]?.text ?? "")).toEqual({ ...asked, model: "hidden" });
    expect([body["content"], body["usage"]]).toEqual([content, usage]);
    expect(gateway.rows().map(({ model }) => model)).toEqual(["own/model"]);
    // What the gateway showed of a search of its own, when another model was asked, is text to this vendor.
    const served = [
      { type: "server_tool_use", id: "srvtoolu_9", name: "web_search", input: { query: "gates" } },
      {
        ...{ type: "web_search_tool_result", tool_use_id: "srvtoolu_9" },
        content: [
          { type: "web_search_result", title: "T", url: "https://t.example/", encrypted_content: sealText("dawn") },
        ],
      },
      {
        type: "text",
        text: "At dawn.",
        citations: [{ type: "web_search_result_location", encrypted_index: sealText("x") }],
      },
    ];
    const turns = (before: unknown[]) => [...asked.messages, { role: "assistant", content: before }, ...asked.messages];
    await gateway.post("/v1/messages", { ...asked, messages: turns([...content, ...served]) });
    const sent = upstream.calls[1]?.text ?? "";
    expect(JSON.parse(sent).messages[1].content).toEqual([
      ...content,
      { type: "text", text: "Searched the web for: gates" },
      { type: "text", text: expect.stringContaining("https://t.example/\n   dawn") },
      { type: "text", text: "At dawn." },
    ]);
    expect(sent).not.toContain("sluice.");
    // Also when no web tool is offered any more.
    const { tools: _offered, ...plain } = asked;
    await gateway.post("/v1/messages", { ...plain, messages: turns(served) });
    const later = upstream.calls[2]?.text ?? "";
    expect(JSON.parse(later).messages[1].content).toHaveLength(3);
    expect(later).not.toContain("sluice.");
    const again = { ...plain, messages: turns(served) };
    const shown = await (await gateway.post("/v1/debug/translate", { dialect: "messages", body: again })).json();
    expect(shown).toMatchObject({ routes: [{ body: JSON.parse(later) }] });
  } finally {
    await gateway.stop();
    upstream.close();
  }
});

test.each(["messages", "responses"] as const)(
  "a server of one's own that speaks %s and says nothing of web tools is told of a function",
  async (dialect) => {
    const upstream = startUpstream();
    const gateway = await startApp({
      vendors: [vendorAt(upstream, dialect, "own")],
      models: [{ id: "own/model", pricing: "free", routes: [{ vendor: "own", model: "hidden" }] }],
      config: { search: [{ engine: "fixture" }] },
    });
    try {
      const asked = {
        messages: ask({ model: "own/model" }),
        responses: { model: "own/model", input: "Hi", tools: [{ type: "web_search" }] },
      };
      await (await gateway.post(`/v1/${dialect}`, asked[dialect])).text();
      const [sent] = upstream.calls;
      expect(sent?.json).toMatchObject({ tools: [{ name: "web_search" }] });
      expect(sent?.text).not.toMatch(/"type":"web_search/);
    } finally {
      await gateway.stop();
      upstream.close();
    }
  },
);
