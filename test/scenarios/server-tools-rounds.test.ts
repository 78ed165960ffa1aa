import { afterEach, describe, expect, test } from "bun:test";
import type { Config } from "../../src/config/load.ts";
import { JsonText } from "../../src/lib/json-text.ts";
import { FINISHING_MS } from "../../src/relay/reply/stream-reader.ts";
import { SILENCE_MS } from "../../src/relay/stream-open.ts";
import { estimateInputTokens } from "../../src/relay/tokens/estimate.ts";
import { chatStream, chunk } from "../dialects/crossing.ts";
import { answerOf, upstreamModel } from "../sdk/lab.ts";
import { CLOCK_BY_HAND, insideOnly } from "../support/black-box-config.ts";
import { manualClock, settle } from "../support/clock.ts";
import { json, neverAnswer, type Script, sse } from "../support/upstream.ts";
import { until, within } from "../support/wait.ts";
import {
  beginPaying,
  DEPOSIT,
  modelOf,
  playAt,
  type ServedLab,
  says,
  searches,
  spent,
  startServedLab,
} from "./server-tools.lab.ts";

type Wire = Record<string, unknown>;
type Client = "chat" | "messages";

/** USD for a million tokens, of prompts up to 100 tokens and of longer ones; the output after a long one costs more too. */
const PRICING = { input: 3, output: 15, tiers: [{ input_tokens_above: 100, input: 6, output: 22.5 }] };
const short = (input: number, output: number) => BigInt(input) * 3_000n + BigInt(output) * 15_000n;
const long = (input: number, output: number) => BigInt(input) * 6_000n + BigInt(output) * 22_500n;

let lab: ServedLab | undefined;
afterEach(async () => {
  await lab?.stop();
  lab = undefined;
});

/** A gateway whose account pays for tokens, or is only counted; searches are free. */
async function start(row: Wire, metered: boolean): Promise<ServedLab> {
  const fast = { requests_per_minute: 1_000_000, concurrent_generations: 1_000, web_calls_per_minute: 1_000 };
  const trial = { ...fast, web_calls_concurrent: 100, web_calls_per_day: 1_000, metered };
  const capabilities = { tools: true, vision: true, reasoning: false };
  const routes = [{ vendor: "lab-chat", model: upstreamModel("chat", "plain") }];
  const models = [{ id: modelOf("chat"), pricing: PRICING, capabilities, routes, ...row }];
  lab = await startServedLab({ plans: { trial }, models: models as unknown as Config["models"] });
  await beginPaying(lab);
  return lab;
}

/** Plays these in turn, the last one again and again. */
const play = ({ vendors }: ServedLab, ...scripts: Script[]) => playAt(vendors.chat, ...scripts);

/** A whole answer that counts so much. */
const counting =
  ({ vendors: { chat } }: ServedLab, reply: ReturnType<typeof says>, prompt: number, output: number): Script =>
  (call) => {
    const whole = chat.wire.whole(reply, chat.wire.asks(call).model) as Wire;
    const usage = { prompt_tokens: prompt, completion_tokens: output, total_tokens: prompt + output };
    return json({ ...whole, usage });
  };

const ask = ({ gateway }: ServedLab, client: Client, stream: boolean, init: RequestInit = {}, fields: Wire = {}) => {
  const shared = { model: modelOf("chat"), messages: [{ role: "user", content: "When?" }], stream, ...fields };
  const tools = [{ type: "web_search_20250305", name: "web_search" }];
  return client === "messages"
    ? gateway.post("/v1/messages", { max_tokens: 50_000, ...shared, tools }, init)
    : gateway.post("/v1/chat/completions", { ...shared, web_search_options: {} }, init);
};

const rowOf = ({ gateway }: ServedLab) => gateway.rows().find(({ model }) => model === modelOf("chat"));

const cases = (["chat", "messages"] as const).flatMap((client) => [[client, false] as const, [client, true] as const]);

describe.each(cases)("each round is billed by itself, as its vendor bills it: %s, stream %p", (client, stream) => {
  test.each([true, false])("paid %p: rounds of short prompts cost what short prompts cost", async (metered) => {
    const started = await start({}, metered);
    play(started, counting(started, searches("gates"), 80, 7), counting(started, says("At dawn."), 100, 9));
    await (await ask(started, client, stream)).text();
    const row = rowOf(started);
    expect(row).toMatchObject({ input: 180, output: 16, costNano: short(180, 16) });
    expect([row?.chargedNano, spent(started)]).toEqual(metered ? [short(180, 16), short(180, 16)] : [0n, 0n]);
    expect(started.gateway.app.book.verify()).toEqual([]);
  });

  test("a long prompt in the last round alone makes that round dear, and the receipt tells both", async () => {
    const started = await start({}, true);
    const { gateway } = started;
    play(started, counting(started, searches("gates"), 80, 7), counting(started, says("At dawn."), 300, 9));
    await (await ask(started, client, stream)).text();
    const cost = short(80, 7) + long(300, 9);
    expect(rowOf(started)).toMatchObject({ input: 380, output: 16, costNano: cost, chargedNano: cost });
    expect(spent(started)).toBe(cost);
    expect(gateway.app.book.verify()).toEqual([]);
    const headers = { authorization: `Bearer ${gateway.key}` };
    const receipt = (await (await gateway.call(`/v1/usage/${rowOf(started)?.requestId}`, { headers })).json()) as {
      lines: { bucket: string; count: number; usd_per_1m: number; usd: string }[];
      price: Wire;
      cost: string;
    };
    const counted = receipt.lines.filter(({ count }) => count > 0);
    expect(counted.map(({ bucket, count, usd_per_1m }) => [bucket, count, usd_per_1m])).toEqual([
      ["input", 80, 3],
      ["output", 7, 15],
      ["input", 300, 6],
      ["output", 9, 22.5],
    ]);
    const sum = counted.reduce((pico, { usd }) => pico + BigInt(usd.replace(".", "")), 0n);
    expect([sum / 1_000n, BigInt(receipt.cost.replace(".", ""))]).toEqual([cost, cost]);
    expect(receipt.price).toMatchObject({ input: 6, output: 22.5 });
    // What was kept of the rounds is looked at too.
    gateway.store.database.run("UPDATE usage_round SET input = input + 1 WHERE number = 1");
    expect(gateway.app.book.verify()).toMatchObject([{ invariant: "I10" }]);
    gateway.store.database.run("UPDATE usage_kept SET rows_from_ms = 9000000000000");
    gateway.store.database.run("DELETE FROM usage WHERE request_id = ?", [rowOf(started)?.requestId ?? ""]);
    expect(gateway.store.database.query("SELECT count(*) AS n FROM usage_round").get()).toEqual({ n: 0n });
  });

  test("each has the model's whole window, and only what is beyond that is not believed", async () => {
    for (const [prompt, believed] of [
      [2_000, 6_000],
      [9_000, 6_000],
    ] as const) {
      const started = await start({ context_length: 1_000 }, true);
      const looks = (name: string) => counting(started, searches(name, name), prompt, 7);
      play(started, looks("one"), looks("two"), counting(started, says("At dawn."), prompt, 9));
      await (await ask(started, client, stream)).text();
      const row = rowOf(started);
      expect(row).toMatchObject({ input: believed, output: 23, flags: prompt > 2_000 ? 2 : 0 });
      expect(row?.chargedNano).toBe(long(believed, 23));
      expect(started.gateway.app.book.verify()).toEqual([]);
      await started.stop();
      lab = undefined;
    }
  });
});

describe.each(cases)("a client that leaves in a further round: %s, stream %p", (client, stream) => {
  test("pays the input that its vendor is at work on, and not while it waits for a search", async () => {
    const started = await start({}, true);
    const { chat } = started.vendors;
    play(started, answerOf(chat.wire, searches("gates")), neverAnswer());
    const client_ = new AbortController();
    const asked = ask(started, client, stream, { signal: client_.signal }).then((response) => response.text());
    asked.catch(() => undefined);
    await until(() => chat.upstream.calls.length === 2, "the second round");
    client_.abort();
    await until(() => rowOf(started) !== undefined, "the settle");
    const row = rowOf(started);
    // Ten results of the search are in it.
    const sent = chat.upstream.calls[1]?.text.length ?? 0;
    expect(row).toMatchObject({ outcome: "client-left", output: 12, estimated: true });
    expect(row?.input).toBeGreaterThan(20 + sent / 8);
    expect(row?.input).toBeLessThan(20 + sent);
    expect(spent(started)).toBe(row?.chargedNano ?? 0n);
    expect(started.gateway.app.book.verify()).toEqual([]);
  });
});

test("a client that leaves in the midst of a further round pays what its vendor has counted by then", async () => {
  const started = await start({}, true);
  const usage = { prompt_tokens: 90, completion_tokens: 11, total_tokens: 101 };
  const said = chatStream({ ...chunk({ role: "assistant", content: "At da" }), usage }).replace("data: [DONE]\n\n", "");
  play(started, counting(started, searches("gates"), 80, 7), sse(said, { finish: "silence" }));
  const client = new AbortController();
  const response = await ask(started, "messages", true, { signal: client.signal });
  let text = "";
  const reading = (async () => {
    for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>)
      text += new TextDecoder().decode(piece);
  })();
  reading.catch(() => undefined);
  await until(() => text.includes("At da"), "the beginning of the answer");
  client.abort();
  await until(() => rowOf(started) !== undefined, "the settle");
  expect(rowOf(started)).toMatchObject({ outcome: "client-left", input: 170, output: 18, estimated: false });
  expect(spent(started)).toBe(short(170, 18));
});

test.each([
  ["before a block", {}],
  ["in the words of a first record", { role: "assistant", content: "" }],
])(
  "a client that leaves before anything of a further round is shown pays what its vendor has counted of it: %s",
  async (_, delta) => {
    const started = await start({}, true);
    const { chat } = started.vendors;
    const usage = { prompt_tokens: 90, completion_tokens: 0, total_tokens: 90 };
    const begun = chatStream({ ...chunk(delta), usage }).replace("data: [DONE]\n\n", "");
    play(started, counting(started, searches("gates"), 80, 7), sse(begun, { finish: "silence" }));
    const client = new AbortController();
    const asked = ask(started, "messages", true, { signal: client.signal }).then((response) => response.text());
    asked.catch(() => undefined);
    await until(() => chat.upstream.calls.length === 2, "the second round");
    await settle();
    client.abort();
    await until(() => rowOf(started) !== undefined, "the settle");
    expect(rowOf(started)).toMatchObject({ outcome: "client-left", input: 170, output: 7, estimated: false });
    expect(spent(started)).toBe(short(170, 7));
  },
);

describe.each(["chat", "messages"] as const)("what a further round's vendor counted that then failed: %s", (client) => {
  /** A stream to a client that wants none, which counts a prompt and fails. */
  const failed = () => {
    const counts = {
      ...chunk({}),
      choices: [],
      usage: { prompt_tokens: 5_000, completion_tokens: 0, total_tokens: 5_000 },
    };
    const busy = { error: { message: "busy", type: "overloaded_error", code: 503 } };
    return sse(`data: ${JSON.stringify(counts)}\n\ndata: ${JSON.stringify(busy)}\n\n`);
  };

  test("is not charged where it is asked once more, and counts nothing then", async () => {
    const started = await start({}, true);
    started.gateway.app.services.pause = () => Promise.resolve();
    const { wire } = started.vendors.chat;
    const uncounted: Script = (call) =>
      json({ ...(wire.whole(says("At dawn."), wire.asks(call).model) as Wire), usage: undefined });
    play(started, counting(started, searches("gates"), 80, 7), failed(), uncounted);
    expect(await (await ask(started, client, false)).text()).toContain("At dawn.");
    const row = rowOf(started);
    expect(row).toMatchObject({ outcome: "completed", output: 9, estimated: true, attempts: 2 });
    expect(row?.input).toBeLessThan(2_500);
    expect(spent(started)).toBe(row?.chargedNano ?? 0n);
  });

  test("is not charged where nothing comes of it at last", async () => {
    const started = await start({}, true);
    started.gateway.app.services.pause = () => Promise.resolve();
    play(started, counting(started, searches("gates"), 80, 7), failed());
    expect((await ask(started, client, false)).status).toBeGreaterThan(500);
    expect(rowOf(started)).toMatchObject({ outcome: "upstream-failed", input: 80, output: 7, estimated: false });
    expect(spent(started)).toBe(short(80, 7));
  });

  test("is not charged where the client leaves while it is asked once more", async () => {
    const started = await start({}, true);
    started.gateway.app.services.pause = () => Promise.resolve();
    const { chat } = started.vendors;
    play(started, counting(started, searches("gates"), 80, 7), failed(), neverAnswer());
    const leaving = new AbortController();
    const asked = ask(started, client, false, { signal: leaving.signal });
    asked.catch(() => undefined);
    await until(() => chat.upstream.calls.length === 3, "the second try");
    await settle();
    leaving.abort();
    await until(() => rowOf(started) !== undefined, "the settle");
    const row = rowOf(started);
    expect(row).toMatchObject({ outcome: "client-left", output: 7, estimated: true });
    expect(row?.input).toBeLessThan(2_500);
    expect(spent(started)).toBe(row?.chargedNano ?? 0n);
  });
});

test("the output of all rounds together is watched, as their vendor counts it: money that is there for one ends the reply", async () => {
  const started = await start({ pricing: { input: 3, output: 15 } }, true);
  const { gateway } = started;
  // The first round thinks unseen; the second one says more than is left.
  const pieces = Array.from({ length: 170 }, () => chunk({ content: "words ".repeat(12) }));
  const usage = { prompt_tokens: 90, completion_tokens: 2_040, total_tokens: 2_130 };
  const answer = sse(chatStream(...pieces, chunk({}, "stop"), { ...chunk({}), choices: [], usage }), { chunk: 4_096 });
  play(started, counting(started, searches("gates"), 80, 3_500), answer);
  const balance = 4_600n * 15_000n;
  const amountNano = balance - DEPOSIT;
  await gateway.app.book.correct({ accountId: gateway.accountId, amountNano, reference: "smaller", detail: "smaller" });
  const text = await (await ask(started, "messages", true)).text();
  expect(text).toContain('"stop_reason":"max_tokens"');
  expect(text).toContain(": x-sluice-stop: balance");
  const row = rowOf(started);
  expect(row).toMatchObject({ outcome: "completed", finish: "length", flags: 4 });
  expect(row?.output).toBeLessThan(4_600);
  expect(started.vendors.chat.upstream.calls).toHaveLength(2);
  expect(gateway.app.book.balance(gateway.accountId).postedNano).toBeGreaterThanOrEqual(0n);
  expect(gateway.app.book.verify()).toEqual([]);
});

test.each([1, 2])("what is read beyond the money is not shown, be it in one piece: round %p", async (round) => {
  const started = await start({ pricing: { input: 3, output: 15 } }, true);
  const { gateway } = started;
  const pieces = Array.from({ length: 1_000 }, () => chunk({ content: "words ".repeat(12) }));
  const long = sse(chatStream({ ...chunk({ role: "assistant" }) }, ...pieces, chunk({}, "stop")));
  play(started, ...(round === 2 ? [counting(started, searches("gates"), 80, 7)] : []), long);
  const tokens = 6_000n;
  const amountNano = tokens * 15_000n - DEPOSIT;
  await gateway.app.book.correct({ accountId: gateway.accountId, amountNano, reference: "smaller", detail: "smaller" });
  const text = await (await ask(started, "messages", true)).text();
  expect(text).toContain('"stop_reason":"max_tokens"');
  expect(text.split("words ").length).toBeLessThan(6_100);
  const row = rowOf(started);
  expect(row).toMatchObject({ outcome: "completed", finish: "length" });
  expect(gateway.app.book.balance(gateway.accountId)).toMatchObject({ heldNano: 0n });
  expect(gateway.app.book.balance(gateway.accountId).postedNano).toBeGreaterThanOrEqual(0n);
  expect(gateway.app.book.verify()).toEqual([]);
});

test.each(cases)("a reply of two rounds is one answer of its vendor: %s, stream %p", async (client, stream) => {
  const started = await start({}, false);
  play(started, counting(started, searches("gates"), 80, 7), counting(started, says("At dawn."), 90, 9));
  expect(await (await ask(started, client, stream)).text()).toContain("At dawn.");
  const { health } = started.gateway.app.services;
  expect(health.of("lab-chat")).toMatchObject({ served: 1, failed: 0 });
});

test.each(["chat", "messages"] as const)(
  "a further round of which nothing comes ends the reply: %s",
  async (client) => {
    const started = await start({}, true);
    const usage = { prompt_tokens: 90, completion_tokens: 1, total_tokens: 91 };
    const nothing = chatStream(chunk({ role: "assistant" }), chunk({}, "stop"), { ...chunk({}), choices: [], usage });
    play(started, counting(started, searches("gates"), 80, 7), sse(nothing));
    const text = await (await ask(started, client, true)).text();
    expect(text).toMatch(/"(?:stop_reason":"end_turn|finish_reason":"stop)"/);
    expect(rowOf(started)).toMatchObject({ outcome: "completed", finish: "stop", input: 170, output: 8 });
    expect(spent(started)).toBe(short(170, 8));
  },
);

test.each(cases)(
  "a ceiling that the first round uses up is told in the books too: %s, stream %p",
  async (client, stream) => {
    const started = await start({}, true);
    play(started, counting(started, searches("gates"), 80, 60));
    const text = await (await ask(started, client, stream, {}, { max_tokens: 60 })).text();
    expect(text).toMatch(/"(?:stop_reason":"max_tokens|finish_reason":"length)"/);
    expect(started.vendors.chat.upstream.calls).toHaveLength(1);
    expect(rowOf(started)).toMatchObject({ outcome: "completed", finish: "length", input: 80, output: 60 });
    expect(spent(started)).toBe(short(80, 60));
  },
);

/** A vendor that counts what the gateway does, and less: as much as it is asked, and a few words. */
function countAsAsked(started: ServedLab): void {
  const { chat } = started.vendors;
  chat.script((call) => {
    const isLast = call.text.includes('"role":"tool"');
    const estimate = estimateInputTokens(new JsonText(call.text), modelOf("chat"));
    const counts = Math.floor(estimate * 0.8);
    const script = counting(started, isLast ? says("At dawn.") : searches("gates"), counts, 20);
    return typeof script === "function" ? script(call) : script;
  });
}

describe("money for further rounds", () => {
  const SMALL = { pricing: { input: 3, output: 15 } };

  test.each(cases)(
    "is set aside, so that no such reply came to more than that: %s, stream %p",
    async (client, stream) => {
      const started = await start(SMALL, true);
      countAsAsked(started);
      await (await ask(started, client, stream, {}, { max_tokens: 50 })).text();
      expect(rowOf(started)).toMatchObject({ outcome: "completed", output: 40, flags: 0 });
      expect(started.gateway.log.filter(({ level }) => level === "warn")).toEqual([]);
    },
  );

  test.each(["chat", "messages"] as const)(
    "is set aside for what the gateway itself tells the first one's vendor: %s",
    async (client) => {
      const started = await start(SMALL, true);
      const { gateway, vendors } = started;
      const { wire, script } = vendors.chat;
      // All that the money pays for.
      script((call) => {
        const { max_tokens: output } = JSON.parse(call.text) as { max_tokens: number };
        const input = estimateInputTokens(new JsonText(call.text), modelOf("chat"));
        const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
        return json({ ...(wire.whole(says("At dawn."), wire.asks(call).model) as Wire), usage });
      });
      const amountNano = 6_000_000n - DEPOSIT;
      await gateway.app.book.correct({ accountId: gateway.accountId, amountNano, reference: "less", detail: "less" });
      await (await ask(started, client, false, {}, { max_tokens: 5_000 })).text();
      expect(rowOf(started)).toMatchObject({ outcome: "completed", flags: 0 });
      expect(gateway.app.book.balance(gateway.accountId).postedNano).toBeGreaterThanOrEqual(0n);
    },
  );

  test("is nobody else's before the request is settled: replies at the same time never take more than there is", async () => {
    const started = await start(SMALL, true);
    const { gateway } = started;
    const { book } = gateway.app;
    countAsAsked(started);
    const ends = new Map<string, number>();
    for (let life = 0; life < 12; life++) {
      const amountNano = 6_000_000n + BigInt(life) * 1_000_000n - book.balance(gateway.accountId).postedNano;
      await book.correct({
        accountId: gateway.accountId,
        amountNano,
        reference: `life-${life}`,
        detail: "another life",
      });
      const several = Array.from({ length: 6 }, async (_, at) => {
        const response = await ask(started, "messages", at % 2 === 0, {}, { max_tokens: 50 });
        const end = /"stop_reason":"(\w+)"/.exec(await response.text())?.[1] ?? String(response.status);
        ends.set(end, (ends.get(end) ?? 0) + 1);
      });
      await Promise.all(several);
      const { postedNano, heldNano } = book.balance(gateway.accountId);
      expect([postedNano >= 0n, heldNano]).toEqual([true, 0n]);
    }
    expect([...ends.keys()].sort()).toEqual(["402", "end_turn", "max_tokens"]);
    expect(gateway.rows().filter(({ flags }) => (flags & 1) !== 0)).toEqual([]);
    expect(book.verify()).toEqual([]);
  });
});

test("calls that take long one after the other are not the vendor's silence", async () => {
  const clock = manualClock();
  lab = await startServedLab({}, false, clock);
  const { gateway, vendors } = lab;
  const running: (() => void)[] = [];
  gateway.app.services.runWebTool = () =>
    new Promise((resolve) => {
      running.push(() => resolve({ kind: "fault", fault: "unavailable", message: "No." }));
    });
  const calls = ["a", "b", "c"].flatMap((id) => searches(id, id).steps);
  vendors.chat.play({ steps: calls, finish: "calls" }, says("At dawn."));
  const answered = ask(lab, "messages", true).then((response) => response.text());
  for (const many of [2, 1]) {
    await until(() => running.length === many, "the calls");
    await clock.advance(SILENCE_MS - 1_000);
    for (const end of running.splice(0)) end();
  }
  const text = await answered;
  expect(text).toContain("At dawn.");
  expect(text).not.toContain("event: error");
});

test.each(["chat", "messages"] as const)(
  "a later round that says nothing and leaves its stream open is not waited for (%s)",
  async (dialect) => {
    insideOnly(CLOCK_BY_HAND);
    const clock = manualClock();
    lab = await startServedLab({}, false, clock);
    const vendor = lab.vendors[dialect];
    const leftOpen: Script = (call) => {
      const records = vendor.wire.records({ steps: [], finish: "stop" }, vendor.wire.asks(call).model);
      // Of the chat dialect the terminator is missing as well.
      const sent = dialect === "chat" ? records.slice(0, -1) : records;
      return sse(sent, { finish: "silence" });
    };
    playAt(vendor, (call) => sse(vendor.wire.records(searches("a"), vendor.wire.asks(call).model)), leftOpen);
    const tools = [{ type: "web_search_20250305", name: "web_search" }];
    const messages = [{ role: "user", content: "When?" }];
    const body = { model: modelOf(dialect), max_tokens: 500, stream: true, tools, messages };
    const answered = lab.gateway.post("/v1/messages", body).then((response) => response.text());
    await until(() => vendor.upstream.calls.length === 2, "the later round");
    await within(clock.armed(FINISHING_MS), "the wait for its end");
    await clock.advance(FINISHING_MS);
    expect(await within(answered, "the answer")).toContain("event: message_stop");
  },
);
