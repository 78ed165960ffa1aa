import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { SILENCE_MS } from "../../src/relay/stream-open.ts";
import { chatStream, chunk } from "../dialects/crossing.ts";
import { answerOf } from "../sdk/lab.ts";
import { COUNTS } from "../sdk/replies.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { insideOnly } from "../support/black-box-config.ts";
import { type ManualClock, manualClock, settle } from "../support/clock.ts";
import {
  chatReply,
  json,
  neverAnswer,
  responsesReply,
  type Script,
  sse,
  startUpstream,
  type Upstream,
} from "../support/upstream.ts";
import { gate, until } from "../support/wait.ts";
import { startBlackHole } from "./fault-sockets.ts";
import { costOf } from "./paying.ts";
import {
  beginPaying,
  modelOf,
  playAt,
  type ServedLab,
  says,
  searches,
  spent,
  startServedLab,
  TWO_WAYS,
} from "./server-tools.lab.ts";
import { WIRES } from "./wires.ts";

/** Plenty for any wait between two requests, ms. */
const LONG_MS = 6_000;
const STEP_MS = 50;
const CALL = 10_000_000n;
const SEARCH = [{ type: "web_search_20250305", name: "web_search" }];
const OVERLOADED = json({ error: { message: "busy", type: "overloaded_error" } }, { status: 503 });

let lab: ServedLab | undefined;
let clock: ManualClock;
afterEach(async () => {
  await lab?.stop();
  lab = undefined;
});

/** A gateway whose account pays for tokens and for each search. */
async function start(): Promise<ServedLab> {
  clock = manualClock();
  const fast = { requests_per_minute: 1_000_000, concurrent_generations: 1_000, web_calls_per_minute: 1_000 };
  const trial = { ...fast, web_calls_concurrent: 100, web_calls_per_day: 0, web_call_usd: 0.01 };
  lab = await startServedLab({ plans: { trial } }, false, clock);
  await beginPaying(lab);
  return lab;
}

/** Plays these in turn, the last one again and again. */
const play = ({ vendors }: ServedLab, ...scripts: Script[]) => playAt(vendors.chat, ...scripts);

/** The first round, which searches, whole or as a stream, and the last. */
const rounds = ({ vendors: { chat } }: ServedLab): { first: Script; last: Script } => ({
  first: answerOf(chat.wire, searches("sluice gates")),
  last: answerOf(chat.wire, says("At dawn.")),
});

/** Asks, and turns the clock on until it is answered. */
async function ask(
  { gateway }: ServedLab,
  dialect: "chat" | "messages",
  stream: boolean,
  model = modelOf("chat"),
): Promise<{ response: Response; text: string }> {
  const shared = { model, messages: [{ role: "user", content: "When do the gates open?" }], stream };
  const asked =
    dialect === "messages"
      ? gateway.post("/v1/messages", { ...shared, max_tokens: 500, tools: SEARCH })
      : gateway.post("/v1/chat/completions", { ...shared, web_search_options: {} });
  let answer: { response: Response; text: string } | undefined;
  const read = asked.then(async (response) => {
    answer = { response, text: await response.text() };
  });
  const turn = async () => {
    for (let waited = 0; !answer && waited < LONG_MS; waited += STEP_MS) await clock.advance(STEP_MS);
  };
  await Promise.all([read, turn()]);
  return answer as { response: Response; text: string };
}

const chatRow = ({ gateway }: ServedLab) => gateway.rows().find(({ model }) => model === modelOf("chat"));
const costOfRounds = (count: number) => costOf(count * (COUNTS.fresh + COUNTS.cached), count * COUNTS.output);

describe.each(["chat", "messages"] as const)(
  "a round behind a search that fails before anything came of it: %s",
  (dialect) => {
    test.each([
      [
        "an overload",
        json(
          { error: { message: "busy", type: "overloaded_error" } },
          { status: 503, headers: { "retry-after": "4" } },
        ),
        4_000,
      ],
      [
        "a limit that ends soon",
        json({ error: { message: "slow down" } }, { status: 429, headers: { "retry-after": "2" } }),
        2_000,
      ],
    ])("%s is waited for, and the round is sent once more", async (_, failure, waitMs) => {
      for (const stream of [false, true]) {
        const started = await start();
        const { first, last } = rounds(started);
        play(started, first, failure, last);
        const { response, text } = await ask(started, dialect, stream);
        expect([response.status, text.includes("At dawn.")]).toEqual([200, true]);
        const { calls } = started.vendors.chat.upstream;
        expect(calls).toHaveLength(3);
        expect(calls[2]?.text).toBe(calls[1]?.text as string);
        if (!stream) expect(response.headers.get("x-sluice-attempts")).toBe("2");
        // What was waited for behind the call is no part of it.
        const receipt = await started.gateway.call(`/v1/usage/${response.headers.get("x-request-id")}`, {
          headers: { authorization: `Bearer ${started.gateway.key}` },
        });
        const { attempt_list: attempts } = (await receipt.json()) as { attempt_list: { duration_ms: number }[] };
        expect(attempts).toHaveLength(2);
        expect(attempts[0]?.duration_ms).toBeLessThan(waitMs);
        expect(chatRow(started)).toMatchObject({ outcome: "completed", attempts: 2, output: 2 * COUNTS.output });
        expect(chatRow(started)?.chargedNano).toBeLessThanOrEqual(costOfRounds(2));
        expect(spent(started)).toBe(CALL + (chatRow(started)?.chargedNano ?? 0n));
        expect(started.gateway.app.book.verify()).toEqual([]);
        expect(started.gateway.log.filter(({ event }) => event === "retry")).toHaveLength(1);
        await started.stop();
        lab = undefined;
      }
    });

    test("not a second time", async () => {
      for (const stream of [false, true]) {
        const started = await start();
        play(started, rounds(started).first, OVERLOADED);
        const { response, text } = await ask(started, dialect, stream);
        expect(response.status).toBe(stream ? 200 : dialect === "messages" ? 529 : 503);
        expect(text).toContain("upstream_overloaded");
        expect(started.vendors.chat.upstream.calls).toHaveLength(3);
        expect(chatRow(started)).toMatchObject({ outcome: "upstream-failed", attempts: 2, output: COUNTS.output });
        expect(started.gateway.app.book.balance(started.gateway.accountId).heldNano).toBe(0n);
        // Two calls failed, and two are known of.
        const metrics = await (await started.gateway.call("/metrics")).text();
        expect(metrics).toMatch(/sluice_vendor_calls_total\{vendor="lab-chat",result="failed"\} 2\n/);
        await started.stop();
        lab = undefined;
      }
    });

    test.each([
      ["a request that is wrong", json({ error: { message: "bad" } }, { status: 400 })],
      ["work that may have been done", json({ error: { message: "broken" } }, { status: 500 })],
      ["a limit that lasts", json({ error: { message: "no" } }, { status: 429, headers: { "retry-after": "60" } })],
    ])("%s is not sent again", async (_, failure) => {
      const started = await start();
      play(started, rounds(started).first, failure);
      const { response } = await ask(started, dialect, false);
      expect(response.ok).toBe(false);
      expect(started.vendors.chat.upstream.calls).toHaveLength(2);
      expect(started.gateway.log.filter(({ event }) => event === "retry")).toEqual([]);
    });
  },
);

describe.each(["chat", "messages"] as const)("a round behind a search of a model with two ways: %s", (dialect) => {
  const busy = json({ error: { message: "busy" } }, { status: 503 });
  const refused = json({ error: { message: "no such key" } }, { status: 401 });
  const broken = json({ error: { message: "broken" } }, { status: 500 });

  test.each([
    ["an overload", busy],
    ["a key that is refused", refused],
    ["a limit", json({ error: { message: "slow down" } }, { status: 429, headers: { "retry-after": "60" } })],
    ["a server error, early", broken],
  ])("%s leads to the other one, and what was said and searched stays", async (_, failure) => {
    for (const stream of [false, true]) {
      const started = await start();
      const { chat, gemini } = started.vendors;
      play(started, rounds(started).first, failure);
      playAt(gemini, answerOf(gemini.wire, says("At dawn.")));
      const { response, text } = await ask(started, dialect, stream, TWO_WAYS);
      expect([response.status, text.includes("I will look."), text.includes("At dawn.")]).toEqual([200, true, true]);
      expect([chat.upstream.calls.length, gemini.upstream.calls.length]).toEqual([2, 1]);
      // It is told what the first vendor's model said, and what came of its search.
      expect(gemini.upstream.calls[0]?.text).toContain("I will look.");
      expect(gemini.upstream.calls[0]?.text).toContain("sluice gates: result 1");
      if (!stream) expect(response.headers.get("x-sluice-attempts")).toBe("2");
      const row = started.gateway.rows().find(({ model }) => model === TWO_WAYS);
      expect(row).toMatchObject({ outcome: "completed", attempts: 2, vendor: "lab-gemini", output: 2 * COUNTS.output });
      expect(spent(started)).toBe(CALL + (row?.chargedNano ?? 0n));
      expect(row?.chargedNano).toBeLessThanOrEqual(costOfRounds(2));
      expect(started.gateway.app.book.verify()).toEqual([]);
      expect(started.gateway.log.filter(({ event }) => event === "failover")).toHaveLength(1);
      const metrics = await (await started.gateway.call("/metrics")).text();
      expect(metrics).toMatch(/sluice_upstream_attempts_total\{vendor="lab-chat",outcome="\w+"\} 1\n/);
      expect(metrics).toMatch(/sluice_upstream_attempts_total\{vendor="lab-gemini",outcome="served"\} 1\n/);
      expect(metrics).not.toMatch(/sluice_vendor_calls_total\{vendor="lab-gemini",result="failed"\} [1-9]/);
      await started.stop();
      lab = undefined;
    }
  });

  test("a vendor that takes the call and fails inside its answer leads to the other one too", async () => {
    const error = { message: "busy", type: "overloaded_error" };
    for (const stream of [false, true]) {
      const started = await start();
      const { chat, gemini } = started.vendors;
      play(started, rounds(started).first, stream ? sse(`data: ${JSON.stringify({ error })}\n\n`) : json({ error }));
      playAt(gemini, answerOf(gemini.wire, says("At dawn.")));
      const { response, text } = await ask(started, dialect, stream, TWO_WAYS);
      expect([response.status, text.includes("At dawn."), text.includes("busy")]).toEqual([200, true, false]);
      expect([chat.upstream.calls.length, gemini.upstream.calls.length]).toEqual([2, 1]);
      const row = started.gateway.rows().find(({ model }) => model === TWO_WAYS);
      expect(row).toMatchObject({ outcome: "completed", attempts: 2, vendor: "lab-gemini", output: 2 * COUNTS.output });
      expect(spent(started)).toBe(CALL + (row?.chargedNano ?? 0n));
      await started.stop();
      lab = undefined;
    }
  });

  test.each([false, true])(
    "where there is no other one a failure counts once against its vendor (stream: %s)",
    async (stream) => {
      insideOnly("a breaker");
      const started = await start();
      play(started, rounds(started).first, broken);
      const { text } = await ask(started, dialect, stream);
      expect(text).toContain("upstream_error");
      const { breakers } = started.gateway.app.services.health;
      expect(breakers.states()).toMatchObject([{ open: false, failures: 1 }]);
    },
  );

  test.each([true, false])(
    "what broke off in the midst of a round is not asked for again (stream: %p)",
    async (stream) => {
      const started = await start();
      const { chat, gemini } = started.vendors;
      const said = chatStream(chunk({ role: "assistant", content: "At da" }));
      // Some vendors stream to everybody.
      play(started, rounds(started).first, sse(said.replace("data: [DONE]\n\n", "")));
      const { response, text } = await ask(started, dialect, stream, TWO_WAYS);
      expect([response.status, text.includes("At da")]).toEqual(stream ? [200, true] : [502, false]);
      expect([chat.upstream.calls.length, gemini.upstream.calls.length]).toEqual([2, 0]);
      const row = started.gateway.rows().find(({ model }) => model === TWO_WAYS);
      expect(row).toMatchObject({ outcome: "upstream-failed", attempts: 1 });
      expect(spent(started)).toBe(CALL + (row?.chargedNano ?? 0n));
    },
  );

  test("repeats of rounds that were answered are under way no more: the next ones are made", async () => {
    const started = await start();
    const { first, last } = rounds(started);
    const turns = 5;
    play(started, ...Array.from({ length: turns }, () => [first, OVERLOADED, last]).flat());
    for (let turn = 0; turn < turns; turn++)
      expect((await ask(started, dialect, turn % 2 === 0)).text).toContain("At dawn.");
    expect(started.vendors.chat.upstream.calls).toHaveLength(3 * turns);
  });

  /** Asks for a stream, as a client that may leave. */
  const begin = ({ gateway }: ServedLab) => {
    const leaving = new AbortController();
    const init = { signal: leaving.signal };
    const shared = { model: modelOf("chat"), messages: [{ role: "user", content: "When?" }], stream: true };
    const asked =
      dialect === "messages"
        ? gateway.post("/v1/messages", { ...shared, max_tokens: 500, tools: SEARCH }, init)
        : gateway.post("/v1/chat/completions", { ...shared, web_search_options: {} }, init);
    const read = asked.then((response) => response.text()).catch(() => "");
    return async () => {
      leaving.abort();
      await read;
      await gateway.app.running.idle();
    };
  };

  test("who leaves while a round that was refused waits to be sent again does not pay it", async () => {
    const started = await start();
    const failure = { message: "busy", type: "overloaded_error" };
    play(started, rounds(started).first, json({ error: failure }, { status: 503, headers: { "retry-after": "4" } }));
    const leave = begin(started);
    await until(() => started.vendors.chat.upstream.calls.length === 2, "the round");
    await clock.armed(4_000);
    await leave();
    expect(chatRow(started)).toMatchObject({ outcome: "client-left", input: COUNTS.fresh, output: COUNTS.output });
    expect(chatRow(started)?.chargedNano).toBeLessThanOrEqual(costOfRounds(1));
  });

  test("who leaves while a round is sent once more takes nobody's place in the budget", async () => {
    const started = await start();
    const { first, last } = rounds(started);
    const turns = 4;
    const left = Array.from({ length: turns }, () => [first, OVERLOADED, neverAnswer()]).flat();
    play(started, ...left, first, OVERLOADED, last);
    const { calls } = started.vendors.chat.upstream;
    for (let turn = 1; turn <= turns; turn++) {
      const leave = begin(started);
      while (calls.length < 3 * turn) await clock.advance(STEP_MS);
      await leave();
    }
    expect((await ask(started, dialect, true)).text).toContain("At dawn.");
  });

  test("what breaks off in the midst of a round is a failure of the vendor that the round went to", async () => {
    const started = await start();
    play(started, rounds(started).first, busy);
    const begun = { candidates: [{ content: { role: "model", parts: [{ text: "At da" }] } }] };
    playAt(started.vendors.gemini, sse(`data: ${JSON.stringify(begun)}\n\n`));
    const { text } = await ask(started, dialect, true, TWO_WAYS);
    expect([text.includes("At da"), text.includes("stream_truncated")]).toEqual([true, true]);
    const metrics = await (await started.gateway.call("/metrics")).text();
    for (const vendor of ["lab-chat", "lab-gemini"])
      expect(metrics).toContain(`sluice_vendor_calls_total{vendor="${vendor}",result="failed"} 1\n`);
  });

  test("a refused key stays refused where the other way's limit is told in its place", async () => {
    insideOnly("a vendor's rests");
    for (const stream of [false, true]) {
      const started = await start();
      const { health } = started.gateway.app.services;
      const limited = json({ error: { message: "slow down" } }, { status: 429, headers: { "retry-after": "20" } });
      playAt(started.vendors.gemini, limited);
      const refused = json({ error: { message: "no such key" } }, { status: 401 });
      play(started, OVERLOADED, rounds(started).first, refused);
      expect((await ask(started, dialect, false, TWO_WAYS)).response.status).toBe(429);
      expect((await ask(started, dialect, stream, TWO_WAYS)).text).toContain("rate_limit");
      expect(started.vendors.chat.upstream.calls).toHaveLength(3);
      expect(health.troubles("lab-chat")).toEqual(["lab-chat#1"]);
      await started.stop();
      lab = undefined;
    }
  });

  test("where both fail, the last one's failure is told, and what was made is charged", async () => {
    for (const stream of [false, true]) {
      const started = await start();
      const { chat, gemini } = started.vendors;
      play(started, rounds(started).first, busy);
      playAt(gemini, json({ error: { message: "broken", status: "INTERNAL" } }, { status: 500 }));
      const { response, text } = await ask(started, dialect, stream, TWO_WAYS);
      expect([response.ok, text.includes("server error")]).toEqual([stream, true]);
      expect([chat.upstream.calls.length, gemini.upstream.calls.length]).toEqual([2, 1]);
      const row = started.gateway.rows().find(({ model }) => model === TWO_WAYS);
      expect(row).toMatchObject({
        outcome: "upstream-failed",
        attempts: 2,
        vendor: "lab-gemini",
        output: COUNTS.output,
      });
      const { accountId, app } = started.gateway;
      expect(app.book.balance(accountId).heldNano).toBe(0n);
      expect(spent(started)).toBe(CALL + (row?.chargedNano ?? 0n));
      await started.stop();
      lab = undefined;
    }
  });

  test("a request that is wrong is told at once", async () => {
    const started = await start();
    play(started, rounds(started).first, json({ error: { message: "bad" } }, { status: 400 }));
    const { response } = await ask(started, dialect, false, TWO_WAYS);
    expect(response.status).toBe(400);
    expect(started.vendors.gemini.upstream.calls).toEqual([]);
  });
});

const hole = startBlackHole();
afterAll(() => hole?.close());

test.skipIf(!hole)("who leaves while a later round's connection has yet to come about does not pay it", async () => {
  insideOnly("the way that is tried");
  const upstream = startUpstream();
  const vendors = [vendorAt(upstream, "chat", "near"), vendorAt({ url: hole?.url ?? "" }, "chat", "far")];
  const routes = vendors.map(({ id }) => ({ vendor: id, model: "m" }));
  const gateway = await startApp({
    vendors,
    models: [{ id: "own/model", pricing: { input: 3, output: 15 }, routes }],
    config: { search: [{ engine: "fixture" }] },
  });
  try {
    const called = { name: "web_search", arguments: '{"query":"gates"}' };
    const message = { role: "assistant", tool_calls: [{ id: "call_1", type: "function", function: called }] };
    const first = {
      choices: [{ index: 0, message, finish_reason: "tool_calls" }],
      usage: { prompt_tokens: 20, completion_tokens: 12 },
    };
    upstream.answer("/v1/chat/completions", json(first), OVERLOADED);
    const leaving = new AbortController();
    const body = { model: "own/model", max_tokens: 500, messages: [{ role: "user", content: "When?" }], tools: SEARCH };
    const asked = gateway.post("/v1/messages", body, { signal: leaving.signal }).catch(() => undefined);
    await until(() => gateway.log.some(({ event }) => event === "failover"), "the other way");
    await settle();
    leaving.abort();
    await asked;
    await gateway.app.running.idle();
    const row = { outcome: "client-left", input: 20, output: 12, estimated: false };
    expect(gateway.rows().find(({ model }) => model === "own/model")).toMatchObject(row);
  } finally {
    await gateway.stop();
    upstream.close();
  }
});

test("a way that refuses the proof of what another one's model thought before its search is told the round without it", async () => {
  const upstreams = [startUpstream(), startUpstream()] as const;
  const vendors = upstreams.map((upstream, at) => vendorAt(upstream, "messages", `own${at}`, { webTools: false }));
  const routes = vendors.map(({ id }) => ({ vendor: id, model: "m" }));
  const gateway = await startApp({
    vendors,
    models: [{ id: "own/model", pricing: "free", routes }],
    config: { search: [{ engine: "fixture" }] },
  });
  try {
    const reply = (content: unknown[], stop: string) =>
      json({
        ...{ id: "msg_1", type: "message", role: "assistant", model: "m", content, stop_reason: stop },
        ...{ stop_sequence: null, usage: { input_tokens: 5, output_tokens: 3 } },
      });
    const thought = { type: "thinking", thinking: "I must look.", signature: "c2lnbmF0dXJl" };
    const look = { type: "tool_use", id: "toolu_1", name: "web_search", input: { query: "gates" } };
    const [first, second] = upstreams;
    first.answer("/v1/messages", reply([thought, look], "tool_use"), OVERLOADED);
    const message = "messages.1.content.0: Invalid `signature` in `thinking` block";
    const error = { type: "error", error: { type: "invalid_request_error", message } };
    second.answer(
      "/v1/messages",
      json(error, { status: 400 }),
      reply([{ type: "text", text: "At dawn." }], "end_turn"),
    );
    const response = await gateway.post("/v1/messages", {
      ...{ model: "own/model", max_tokens: 500, messages: [{ role: "user", content: "When?" }] },
      tools: [{ type: "web_search_20250305", name: "web_search" }],
    });
    expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([200, "3"]);
    expect(await response.text()).toContain("At dawn.");
    expect(second.calls.map(({ text }) => text.includes("c2lnbmF0dXJl"))).toEqual([true, false]);
    expect(gateway.rows().at(-1)).toMatchObject({
      outcome: "completed",
      attempts: 3,
      vendor: "own1",
      input: 10,
      output: 6,
    });
  } finally {
    await gateway.stop();
    for (const upstream of upstreams) upstream.close();
  }
});

test("what a model of the responses dialect thought before its search stands in the next round without the id that it got here", async () => {
  const upstream = startUpstream();
  const gateway = await startApp({
    vendors: [vendorAt(upstream, "responses", "own", { customTools: true, webTools: false })],
    models: [{ id: "own/model", pricing: "free", routes: [{ vendor: "own", model: "m" }] }],
    config: { search: [{ engine: "fixture" }] },
  });
  try {
    const reply = (...output: unknown[]) => json({ id: "resp_1", object: "response", status: "completed", output });
    const thought = { type: "reasoning", id: "rs_0a1b2c3d4e5f", summary: [], encrypted_content: "gAAA" };
    const look = { type: "function_call", id: "fc_1", call_id: "call_1", name: "web_search" };
    const content = [{ type: "output_text", text: "At dawn.", annotations: [] }];
    const search = reply(thought, { ...look, arguments: '{"query":"gates"}' });
    const last = reply({ type: "message", id: "msg_1", status: "completed", role: "assistant", content });
    upstream.answer("/v1/responses", search, search, last);
    const input = [{ role: "user", content: "When?" }];
    const asked = { model: "own/model", input, tools: [{ type: "web_search" }] };
    expect((await gateway.post("/v1/responses", asked)).status).toBe(200);
    const { id: _id, ...nameless } = thought;
    const inputs = upstream.calls.map((call) => (call.json as { input: { type?: string }[] }).input);
    const thoughts = inputs.map((items) => items.filter(({ type }) => type === "reasoning"));
    expect(thoughts).toEqual([[], [nameless], [nameless, nameless]] as typeof inputs);
  } finally {
    await gateway.stop();
    upstream.close();
  }
});

/** A whole reply of a messages vendor, and its call of the search. */
const reply = (stop: string, ...content: unknown[]) =>
  json({
    ...{ id: "msg_1", type: "message", role: "assistant", model: "m", content, stop_reason: stop },
    ...{ stop_sequence: null, usage: { input_tokens: 5, output_tokens: 3 } },
  });
const look = { type: "tool_use", id: "toolu_1", name: "web_search", input: { query: "gates" } };

const thought = { type: "thinking", thinking: "I must ask.", signature: "c2lnbmF0dXJl" };

/** A gateway whose model thinks, and searches by it. */
function startThinker(upstream: Upstream): Promise<TestApp> {
  const thinker = { form: "adaptive-effort" as const, omitted: "nothing" as const };
  return startApp({
    vendors: [vendorAt(upstream, "messages", "own", { webTools: false })],
    models: [
      {
        ...{ id: "own/model", pricing: "free", reasoning: thinker },
        capabilities: { tools: true, vision: true, reasoning: true },
        reasoning_efforts: { levels: ["low", "high"], default: "low" },
        routes: [{ vendor: "own", model: "m" }],
      },
    ],
    config: { search: [{ engine: "fixture" }] },
  });
}

test("a round behind a search is told what its model thought before it, however long it takes to keep that", async () => {
  insideOnly("a slow store");
  const upstream = startUpstream();
  const gateway = await startThinker(upstream);
  try {
    const { shelf } = gateway.app.services.reasoning;
    const put = shelf.put.bind(shelf);
    const kept = gate();
    shelf.put = async (...given) => {
      await kept.opened;
      await put(...given);
    };
    upstream.answer(
      "/v1/messages",
      reply("tool_use", thought, look),
      reply("end_turn", { type: "text", text: "Dawn" }),
    );
    const shared = { model: "own/model", reasoning_effort: "high", web_search_options: {} };
    const asked = gateway.post("/v1/chat/completions", { ...shared, messages: [{ role: "user", content: "When?" }] });
    await until(() => gateway.rows().some(({ model }) => model === "web_search"), "the search");
    await settle();
    kept.open();
    expect(await (await asked).text()).toContain("Dawn");
    expect(upstream.calls.map(({ text }) => text.includes(thought.signature))).toEqual([false, true]);
  } finally {
    await gateway.stop();
    upstream.close();
  }
});

test.each([false, true])(
  "what a model thinks behind its search goes back with its client's next turn: stream %p",
  async (stream) => {
    const upstream = startUpstream();
    const gateway = await startThinker(upstream);
    try {
      const call = { type: "tool_use", id: "toolu_2", name: "get_weather", input: {} };
      const last = reply("end_turn", { type: "text", text: "At dawn." });
      upstream.answer("/v1/messages", reply("tool_use", look), reply("tool_use", thought, call), last);
      const parameters = { type: "object", properties: {} };
      const tools = [{ type: "function", function: { name: "get_weather", parameters } }];
      const say = async (...more: unknown[]) => {
        const messages = [{ role: "user", content: "When?" }, ...more];
        const shared = {
          model: "own/model",
          reasoning_effort: "high",
          web_search_options: {},
          tools,
          stream,
          messages,
        };
        return (await gateway.post("/v1/chat/completions", shared)).text();
      };
      const [, id = ""] = /"id":"([^"]+)","type":"function"/.exec(await say()) ?? [];
      const called = { id, type: "function", function: { name: "get_weather", arguments: "{}" } };
      const answered = { role: "tool", tool_call_id: id, content: "Fine." };
      expect(await say({ role: "assistant", content: null, tool_calls: [called] }, answered)).toContain("At dawn.");
      expect(upstream.calls.map(({ text }) => text.includes(thought.signature))).toEqual([false, false, true]);
    } finally {
      await gateway.stop();
      upstream.close();
    }
  },
);

test("what a client has handed on to its vendor is handed on in the later rounds of a stream too", async () => {
  const upstream = startUpstream();
  const gateway = await startApp({
    vendors: [vendorAt(upstream, "messages", "own", { webTools: false })],
    models: [{ id: "own/model", pricing: "free", routes: [{ vendor: "own", model: "m" }] }],
    config: { search: [{ engine: "fixture" }] },
  });
  try {
    const said = [{ type: "text", text: "I will look." }, look];
    upstream.answer("/v1/messages", reply("tool_use", ...said), reply("end_turn", { type: "text", text: "At dawn." }));
    const body = { model: "own/model", max_tokens: 500, stream: true, messages: [{ role: "user", content: "When?" }] };
    const beta = "context-management-2025-06-27";
    const response = await gateway.post(
      "/v1/messages",
      { ...body, tools: [{ type: "web_search_20250305", name: "web_search" }] },
      { headers: { "anthropic-beta": beta } },
    );
    expect(await response.text()).toContain("At dawn.");
    expect(upstream.calls.map(({ headers }) => headers["anthropic-beta"])).toEqual([beta, beta]);
  } finally {
    await gateway.stop();
    upstream.close();
  }
});

test("the silence of a vendor that failed in a later round is not the next one's", async () => {
  const started = await start();
  const { first } = rounds(started);
  const { chat, gemini } = started.vendors;
  const gates = [gate(), gate()] as const;
  playAt(chat, first, async () => {
    await gates[0].opened;
    return OVERLOADED;
  });
  playAt(gemini, async (call) => {
    await gates[1].opened;
    const answer = answerOf(gemini.wire, says("At dawn."));
    return typeof answer === "function" ? answer(call) : answer;
  });
  const shared = { model: TWO_WAYS, messages: [{ role: "user", content: "When?" }], stream: true, max_tokens: 500 };
  const tools = [{ type: "web_search_20250305", name: "web_search" }];
  const answered = started.gateway.post("/v1/messages", { ...shared, tools }).then((response) => response.text());
  // Where the case is left out in its middle, nobody waits for it.
  answered.catch(() => undefined);
  await until(() => chat.upstream.calls.length === 2, "the second round");
  await clock.advance(SILENCE_MS - 1_000);
  gates[0].open();
  await until(() => gemini.upstream.calls.length === 1, "the other vendor");
  await clock.advance(SILENCE_MS - 1_000);
  gates[1].open();
  const text = await answered;
  expect(text).toContain("At dawn.");
  expect(text).not.toContain("event: error");
});

test("a repeat that breaks off in its midst leaves no place of its vendor's taken: other requests are repeated as before", async () => {
  insideOnly("the health of vendors");
  const started = await start();
  const { gateway } = started;
  const { first } = rounds(started);
  for (let asked = 0; asked < 3; asked++) {
    play(started, first, OVERLOADED, sse(WIRES.chat.text("At")));
    expect((await ask(started, "chat", false)).response.status).toBe(502);
    gateway.app.services.health.forgetTrouble();
  }
  play(started, OVERLOADED, json(chatReply("At dawn.")));
  const { response, text } = await ask(started, "chat", false);
  expect([response.status, text.includes("At dawn.")]).toEqual([200, true]);
});

test("what another vendor writes to its cache in a later round is not taken to be kept for an hour, which the first one was asked for", async () => {
  const upstreams = [startUpstream(), startUpstream()] as const;
  const vendors = upstreams.map((upstream, at) =>
    vendorAt(upstream, "chat", `own${at}`, { webTools: false, ...(at === 0 && { acceptsCacheControl: true }) }),
  );
  const routes = vendors.map(({ id }) => ({ vendor: id, model: "m" }));
  const pricing = { input: 3, output: 15, cache_write: 3.75, cache_write_1h: 6 };
  const gateway = await startApp({
    vendors,
    models: [{ id: "own/model", pricing, routes }],
    config: { search: [{ engine: "fixture" }] },
  });
  try {
    const [first, second] = upstreams;
    const called = { name: "web_search", arguments: '{"query":"gates"}' };
    const look = { role: "assistant", content: null, tool_calls: [{ id: "c1", type: "function", function: called }] };
    const path = "/v1/chat/completions";
    first.answer(path, json({ ...chatReply(""), choices: [{ index: 0, message: look, finish_reason: "tool_calls" }] }));
    first.always(path, OVERLOADED);
    const usage = { prompt_tokens: 1_000, completion_tokens: 5, prompt_tokens_details: { cache_write_tokens: 800 } };
    second.always(path, json({ ...chatReply("At dawn."), usage }));
    const text = { type: "text", text: "When?", cache_control: { type: "ephemeral", ttl: "1h" } };
    const messages = [{ role: "user", content: [text] }];
    const response = await gateway.post(path, { model: "own/model", messages, web_search_options: {} });
    expect(await response.text()).toContain("At dawn.");
    const counts = { input: 203, cacheWrite: 800, cacheWriteLong: 0, output: 7 };
    expect(gateway.rows().at(-1)).toMatchObject({ vendor: "own1", ...counts });
  } finally {
    await gateway.stop();
    for (const upstream of upstreams) upstream.close();
  }
});

test.each([false, true])(
  "a later round whose next vendor knows the model in its newer dialect alone is told in that: stream %p",
  async (stream) => {
    const upstreams = [startUpstream(), startUpstream()] as const;
    const vendors = upstreams.map((upstream, at) => vendorAt(upstream, "chat", `own${at}`, { webTools: false }));
    const routes = vendors.map(({ id }) => ({ vendor: id, model: "m" }));
    const gateway = await startApp({
      vendors,
      models: [{ id: "own/model", pricing: { input: 3, output: 15 }, routes }],
      config: { search: [{ engine: "fixture" }] },
    });
    gateway.app.services.pause = () => Promise.resolve();
    try {
      const [first, second] = upstreams;
      const called = { name: "web_search", arguments: '{"query":"gates"}' };
      const look = { role: "assistant", content: null, tool_calls: [{ id: "c1", type: "function", function: called }] };
      const path = "/v1/chat/completions";
      first.answer(
        path,
        json({ ...chatReply(""), choices: [{ index: 0, message: look, finish_reason: "tool_calls" }] }),
      );
      first.always(path, OVERLOADED);
      const message = "This model is only supported in v1/responses and not in v1/chat/completions.";
      second.always(path, json({ error: { message, type: "invalid_request_error" } }, { status: 404 }));
      second.always("/v1/responses", json(responsesReply("At dawn.")));
      const messages = [{ role: "user", content: "When?" }];
      const response = await gateway.post(path, { model: "own/model", messages, web_search_options: {}, stream });
      expect([response.status, (await response.text()).includes("At dawn.")]).toEqual([200, true]);
      expect(second.calls.map((call) => call.path)).toEqual([path, "/v1/responses"]);
      expect(gateway.rows().at(-1)).toMatchObject({ outcome: "completed", vendor: "own1", input: 6, output: 4 });
    } finally {
      await gateway.stop();
      for (const upstream of upstreams) upstream.close();
    }
  },
);
