import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { startApp, vendorAt } from "../support/app.ts";
import { manualClock, settle } from "../support/clock.ts";
import { chatReply, json, neverAnswer, sse, startUpstream } from "../support/upstream.ts";
import { gate, until } from "../support/wait.ts";
import { ask, expectFinished, PATH, readFailure } from "./lab.ts";
import {
  costOf,
  DEAR,
  estimateOf,
  GRATIS,
  holdOf,
  type PayingLab,
  PREMIUM,
  PRICED,
  startPayingLab,
  TWO_WAYS,
  UNPRICED,
  UNPROVEN,
} from "./paying.ts";
import { readAlong } from "./reading.ts";
import {
  HIDDEN_MODEL,
  INPUT,
  MODES,
  OUTPUT,
  PIECES,
  readRecords,
  SAID,
  SIDES,
  type Side,
  saidIn,
  soundAnswer,
  soundStream,
  WIRES,
} from "./wires.ts";

/** USD 1. */
const DOLLAR = 1_000_000_000n;
/** Tokens of what was said before the break, by the gateway's own count: one for four characters. */
const SAID_TOKENS = Math.ceil(PIECES[0].length / 4);

let lab: PayingLab;
beforeEach(async () => {
  lab = await startPayingLab();
});
afterEach(() => lab.stop());

/** Waits until nothing runs any more, then compares the whole account with what it should have come to. */
async function expectCharged(funded: bigint, charged: bigint, rows: Record<string, unknown>[]): Promise<void> {
  const { app } = lab.gateway;
  await until(() => app.running.count === 0 && lab.wallet().held === 0n, "the end of every request");
  expect(lab.rows()).toMatchObject(rows);
  expect(lab.rows()).toHaveLength(rows.length);
  expect(lab.wallet()).toEqual({ posted: funded - charged, held: 0n });
  expect(app.book.verify()).toEqual([]);
}

const play = (side: Side, parts: Parameters<typeof sse>[0], finish?: "cut" | "silence") =>
  lab.vendors[side].answer(PATH[side], sse(parts, finish ? { finish } : {}));
const calls = () => lab.vendors.chat.calls.length + lab.vendors.messages.calls.length;

const WAYS = SIDES.flatMap((client) =>
  SIDES.flatMap((upstream) =>
    MODES.map((mode) => ({ client, upstream, mode, name: `${client} from ${upstream}, ${mode}` })),
  ),
);
const OWN_WAYS = WAYS.filter(({ client, upstream }) => client === upstream);
const STREAMS = WAYS.filter(({ mode }) => mode === "stream");

describe("completed: the vendor's usage", () => {
  test.each(WAYS)("$name", async ({ client, upstream, mode }) => {
    await lab.fund(DOLLAR);
    lab.vendors[upstream].answer(PATH[upstream], soundAnswer(WIRES[upstream], mode));
    const response = await lab.gateway.post(PATH[client], ask(client, PRICED[upstream], mode));
    const text = await response.text();
    const cost = costOf(INPUT, OUTPUT);
    expect(cost).toBe(138_000n);
    if (mode === "stream") {
      expectFinished(client, readRecords(text));
      expect(text).toContain(": x-sluice-cost-usd: 0.000138000\n\n");
    } else expect(response.headers.get("x-sluice-cost-usd")).toBe("0.000138000");
    expect([text.includes("x-sluice-stop"), response.headers.get("x-sluice-stop")]).toEqual([false, null]);
    const row = {
      outcome: "completed",
      input: INPUT,
      output: OUTPUT,
      estimated: false,
      costNano: cost,
      chargedNano: cost,
    };
    await expectCharged(DOLLAR, cost, [{ ...row, flags: 0 }]);
    const receipt = lab.gateway.app.book.receipt(lab.rows()[0]?.requestId ?? "");
    expect(receipt?.legs).toEqual([{ from: "wallet", amountNano: cost }]);
    expect(receipt?.price?.prices).toEqual({ input: 3_000_000n, output: 15_000_000n });
  });

  test.each(SIDES)("told by a single line to SDKs that take a blank line for a record: %s", async (side) => {
    await lab.fund(DOLLAR);
    lab.vendors[side].answer(PATH[side], soundAnswer(WIRES[side], "stream"));
    const headers = { "x-stainless-lang": "go" };
    const text = await (await lab.gateway.post(PATH[side], ask(side, PRICED[side], "stream"), { headers })).text();
    expectFinished(side, readRecords(text));
    expect(text).toMatch(/\n\n: x-sluice-cost-usd: 0\.000138000\n(?!\n)/);
  });

  test("the charge is in the books before the client hears the end", async () => {
    await lab.fund(DOLLAR);
    const wire = WIRES.chat;
    const more = gate();
    const rest = wire.text(PIECES[1]) + wire.finish() + wire.usage() + wire.terminator;
    play("chat", [wire.head() + wire.text(PIECES[0]), more.opened, rest]);
    const reading = readAlong(await lab.gateway.post(PATH.chat, ask("chat", PRICED.chat, "stream")));
    await reading.has(PIECES[0]);
    expect(lab.wallet().held).toBeGreaterThan(0n);
    expect(lab.wallet().posted).toBe(DOLLAR);
    more.open();
    await reading.has("[DONE]");
    expect(lab.wallet().posted).toBe(DOLLAR - costOf(INPUT, OUTPUT));
    await reading.end();
  });
});

describe("refused before dispatch: nothing", () => {
  const refusals = [
    { name: "no money", money: 0n, model: undefined, status: 402, fault: { code: "insufficient_quota" } },
    { name: "too little money", money: 100_000n, model: undefined, status: 402, fault: { code: "insufficient_quota" } },
    {
      ...{ name: "no such model", money: DOLLAR, model: "lab/none", status: 404 },
      fault: { code: "model_not_found", param: "model" },
    },
    {
      ...{ name: "no price", money: DOLLAR, model: UNPRICED, status: 503 },
      fault: { code: "model_unpriced", param: "model" },
    },
  ];
  const table = OWN_WAYS.flatMap((way) =>
    refusals.map((each) => ({ ...way, ...each, name: `${each.name}, ${way.name}` })),
  );
  test.each(table)("$name", async ({ client, mode, money, model, status, fault }) => {
    if (money > 0n) await lab.fund(money);
    const response = await lab.gateway.post(PATH[client], ask(client, model ?? PRICED[client], mode));
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ error: fault });
    expect(calls()).toBe(0);
    await expectCharged(money, 0n, []);
  });

  /** Letters one after another in no order that a vocabulary knows: it counts about as many tokens as this of 100,000 of them. */
  const odd = (letters: string) => {
    const list = [...letters];
    return Array.from({ length: 100_000 }, (_, at) => list[(at * at + (at >> 3)) % list.length]).join("");
  };
  test.each([
    ["marks", odd("!@#$%^&*()-_=+[]{};:',.<>?|`~"), 60_000],
    ["runes", odd("ᚠᚡᚢᚣᚤᚥᚦᚧᚨᚩᚪ"), 290_000],
    ["Mongolian letters", odd("ᠠᠡᠢᠣᠤᠥᠦᠧᠨᠩᠪ"), 290_000],
    ["Braille", odd("⠁⠂⠃⠄⠅⠆⠇⠈⠉⠊⠋"), 290_000],
    ["Greek with all its accents", odd("ἀἁἂἃἄἅἆἇἐἑἒ"), 180_000],
  ])("whoever has a quarter of what a prompt of %s costs is not let in", async (_what, text, tokens) => {
    await lab.fund(costOf(tokens / 4, 0));
    const body = { model: PRICED.chat, max_tokens: 1, messages: [{ role: "user", content: text }] };
    const response = await lab.gateway.post(PATH.chat, body);
    expect([response.status, calls(), lab.wallet().held]).toEqual([402, 0, 0n]);
  });

  test.each(SIDES)("a 402 says what could be paid for, and that repeating it is in vain: %s", async (client) => {
    const body = ask(client, PRICED[client], "stream", { max_tokens: 5_000 });
    await lab.fund(holdOf(body, 255));
    const response = await lab.gateway.post(PATH[client], body);
    expect([response.status, response.headers.get("x-should-retry")]).toEqual([402, "false"]);
    const { error } = (await response.json()) as { error: Record<string, unknown> };
    expect(error).toMatchObject({ affordable_output_tokens: 255, code: "insufficient_quota" });
    expect(error["type"]).toBe(client === "chat" ? "insufficient_quota" : "billing_error");
  });

  test.each(SIDES)("so does one for a key that may cost no more, whatever its account has: %s", async (client) => {
    const body = ask(client, PRICED[client], "stream", { max_tokens: 5_000 });
    await lab.fund(DOLLAR);
    const { app, accountId } = lab.gateway;
    const capTotalNano = holdOf(body, 255);
    const { key } = await app.keys.create({ accountId, name: "capped", kind: "api", capTotalNano });
    const response = await lab.gateway.post(PATH[client], body, { headers: { authorization: `Bearer ${key}` } });
    expect([response.status, response.headers.get("x-should-retry")]).toEqual([402, "false"]);
    expect(await response.json()).toMatchObject({
      error: { affordable_output_tokens: 255, code: "insufficient_quota" },
    });
    await expectCharged(DOLLAR, 0n, []);
  });

  test("a body that is no request", async () => {
    await lab.fund(DOLLAR);
    const response = await lab.gateway.post(PATH.chat, { model: PRICED.chat, messages: "Hi" });
    expect(response.status).toBe(400);
    expect(calls()).toBe(0);
    await expectCharged(DOLLAR, 0n, []);
  });

  test("a premium model asks for a deposit; a promotion is none", async () => {
    await lab.fund(DOLLAR, "promote");
    const refused = await lab.gateway.post(PATH.chat, ask("chat", PREMIUM, "blocking"));
    expect(await readFailure("chat", refused)).toMatchObject({ status: 403, code: "deposit_required" });
    expect(calls()).toBe(0);
    await lab.fund(1n);
    lab.vendors.chat.answer(PATH.chat, soundAnswer(WIRES.chat, "blocking"));
    expect((await lab.gateway.post(PATH.chat, ask("chat", PREMIUM, "blocking"))).status).toBe(200);
    await expectCharged(DOLLAR + 1n, costOf(INPUT, OUTPUT), [{ model: PREMIUM }]);
  });

  test("a dear model is premium only where its row says so: without that it asks for no deposit", async () => {
    await lab.fund(10n * DOLLAR, "promote");
    lab.vendors.chat.answer(PATH.chat, soundAnswer(WIRES.chat, "blocking"));
    expect((await lab.gateway.post(PATH.chat, ask("chat", DEAR, "blocking"))).status).toBe(200);
    await expectCharged(10n * DOLLAR, 100n * costOf(INPUT, OUTPUT), [{ model: DEAR }]);
  });
});

/** What a reply that broke off costs: the vendor's input where it was told (messages tell it first), and what was made of the output. */
function partial(upstream: Side, body: { model: string }) {
  const input = upstream === "messages" ? INPUT : estimateOf(body);
  const cost = costOf(input, SAID_TOKENS);
  return { cost, row: { input, output: SAID_TOKENS, estimated: true, costNano: cost, chargedNano: cost } };
}

/** A piece of text with what its vendor has counted until then, as Perplexity has it, or NVIDIA's Dynamo in the messages dialect. */
function countedPiece(side: Side, text: string, output: number): string {
  if (side === "messages") {
    const usage = { input_tokens: INPUT, output_tokens: output, total_tokens: INPUT + output };
    const delta = { type: "text_delta", text };
    const record = { type: "content_block_delta", index: 0, delta, usage };
    return `event: content_block_delta\ndata: ${JSON.stringify(record)}\n\n`;
  }
  const usage = { prompt_tokens: INPUT, completion_tokens: output, total_tokens: INPUT + output };
  const choices = [{ index: 0, delta: { content: text }, finish_reason: null }];
  return `data: ${JSON.stringify({ id: "c1", model: "m", choices, usage })}\n\n`;
}

describe("the vendor dies after output", () => {
  test.each(STREAMS)("its usage, where that came before: $name", async ({ client, upstream, mode }) => {
    await lab.fund(DOLLAR);
    const wire = WIRES[upstream];
    const { terminator: _, ...sound } = wire;
    const all = sound.head() + PIECES.map(sound.text).join("") + sound.finish() + sound.usage();
    play(upstream, all + (upstream === "chat" ? "data: {broken\n\n" : wire.errorRecord("api_error", "No.")));
    await (await lab.gateway.post(PATH[client], ask(client, PRICED[upstream], mode))).text();
    const cost = costOf(INPUT, OUTPUT);
    await expectCharged(DOLLAR, cost, [{ input: INPUT, output: OUTPUT, estimated: false, chargedNano: cost }]);
  });
});

describe("the client leaves", () => {
  test.each(STREAMS)("a stream: the input and what was made, $name", async ({ client, upstream, mode }) => {
    await lab.fund(DOLLAR);
    const wire = WIRES[upstream];
    play(upstream, wire.head() + wire.text(PIECES[0]), "silence");
    const body = ask(client, PRICED[upstream], mode);
    const leaving = new AbortController();
    const reading = readAlong(await lab.gateway.post(PATH[client], body, { signal: leaving.signal }));
    await reading.has(PIECES[0]);
    leaving.abort();
    void reading.cancel();
    await lab.vendors[upstream].calls[0]?.whenAborted;
    const { cost, row } = partial(upstream, body);
    await expectCharged(DOLLAR, cost, [{ ...row, outcome: "client-left" }]);
  });

  test.each(STREAMS)(
    "a stream whose vendor counts with each piece: its counts, $name",
    async ({ client, upstream, mode }) => {
      await lab.fund(DOLLAR);
      const pieces = PIECES.map((piece, at) => countedPiece(upstream, piece, (at + 1) * 20));
      play(upstream, WIRES[upstream].head({ input: 1, output: 0 }) + pieces.join(""), "silence");
      const leaving = new AbortController();
      const body = ask(client, PRICED[upstream], mode);
      const reading = readAlong(await lab.gateway.post(PATH[client], body, { signal: leaving.signal }));
      await reading.has(PIECES[1]);
      leaving.abort();
      void reading.cancel();
      const row = { outcome: "client-left", input: INPUT, output: 40, estimated: false };
      await expectCharged(DOLLAR, costOf(INPUT, 40), [row]);
    },
  );

  test.each(STREAMS)(
    "a stream that is not read for a minute, of a vendor that counts with each piece: its counts, $name",
    async ({ client, upstream, mode }) => {
      await lab.stop();
      const clock = manualClock();
      lab = await startPayingLab(clock);
      await lab.fund(DOLLAR);
      const said = WIRES[upstream].head({ input: 1, output: 0 }) + countedPiece(upstream, PIECES[0], 20);
      play(upstream, said, "silence");
      const { body } = await lab.gateway.post(PATH[client], ask(client, PRICED[upstream], mode));
      await settle();
      await clock.advance(61_000);
      await until(() => lab.rows().length === 1, "the settle");
      await body?.cancel();
      const row = { outcome: "client-left", input: INPUT, output: 20, estimated: false };
      await expectCharged(DOLLAR, costOf(INPUT, 20), [row]);
    },
  );

  test.each(SIDES)("a blocking request that runs: the input, %s", async (client) => {
    await lab.fund(DOLLAR);
    lab.vendors[client].always(PATH[client], neverAnswer());
    const leaving = new AbortController();
    const body = ask(client, PRICED[client], "blocking");
    const asked = lab.gateway.post(PATH[client], body, { signal: leaving.signal });
    await lab.vendors[client].called();
    leaving.abort();
    await asked.catch(() => undefined);
    const input = estimateOf(body);
    const cost = costOf(input, 0);
    await expectCharged(DOLLAR, cost, [
      { outcome: "client-left", input, output: 0, estimated: true, chargedNano: cost },
    ]);
  });

  test("while a second vendor is asked: the input by our own count, whatever the first one counted that failed", async () => {
    await lab.fund(DOLLAR);
    const counts = { usage: { prompt_tokens: 5_000, completion_tokens: 900 } };
    const refused = { ...WIRES.chat.error("server_error", "No."), ...counts };
    play("chat", `data: ${JSON.stringify(refused)}\n\n`);
    lab.vendors.messages.always(PATH.messages, neverAnswer());
    const leaving = new AbortController();
    const body = ask("chat", TWO_WAYS, "stream");
    const asked = lab.gateway.post(PATH.chat, body, { signal: leaving.signal });
    await lab.vendors.messages.called();
    leaving.abort();
    await asked.catch(() => undefined);
    const input = estimateOf(body);
    const row = { outcome: "client-left", input, output: 0, estimated: true };
    await expectCharged(DOLLAR, costOf(input, 0), [row]);
  });

  test.each(MODES)("while the connection to the vendor has yet to come about: nothing, %s", async (mode) => {
    await lab.fund(DOLLAR);
    const leaving = new AbortController();
    const asked = lab.gateway.post(PATH.chat, ask("chat", UNPROVEN, mode), { signal: leaving.signal });
    await lab.knocked;
    leaving.abort();
    await asked.catch(() => undefined);
    await expectCharged(DOLLAR, 0n, []);
    expect(lab.gateway.log).toMatchObject([{ event: "generate", status: 499, outcome: "client-left", attempts: 1 }]);
  });

  test.each(MODES)("while a request that the vendor refused waits to be sent again: nothing, %s", async (mode) => {
    await lab.stop();
    const clock = manualClock();
    lab = await startPayingLab(clock);
    delete lab.gateway.app.services.pause;
    await lab.fund(DOLLAR);
    lab.vendors.chat.answer(PATH.chat, json({}, { status: 429, headers: { "retry-after": "3" } }));
    const leaving = new AbortController();
    const asked = lab.gateway.post(PATH.chat, ask("chat", PRICED.chat, mode), { signal: leaving.signal });
    await clock.armed(3_000);
    leaving.abort();
    await asked.catch(() => undefined);
    await expectCharged(DOLLAR, 0n, []);
  });
});

test("one that is cut off while the connection to the vendor has yet to come about: nothing", async () => {
  await lab.stop();
  const clock = manualClock();
  lab = await startPayingLab(clock);
  await lab.fund(DOLLAR);
  const asked = lab.gateway.post(PATH.chat, ask("chat", UNPROVEN, "blocking"));
  await lab.knocked;
  await clock.advance(95_000);
  const response = await asked;
  expect([response.status, response.headers.get("x-should-retry")]).toEqual([504, "false"]);
  await expectCharged(DOLLAR, 0n, []);
});

test.each(SIDES)(
  "a blocking request cut off after 95 s: the input, and no word of trying again: %s",
  async (client) => {
    await lab.stop();
    const clock = manualClock();
    lab = await startPayingLab(clock);
    await lab.fund(DOLLAR);
    lab.vendors[client].always(PATH[client], neverAnswer());
    const body = ask(client, PRICED[client], "blocking");
    const asked = lab.gateway.post(PATH[client], body);
    await lab.vendors[client].called();
    await clock.advance(95_000);
    const response = await asked;
    expect([response.status, response.headers.get("x-should-retry")]).toEqual([504, "false"]);
    const cost = costOf(estimateOf(body), 0);
    await expectCharged(DOLLAR, cost, [{ outcome: "timed-out", output: 0, estimated: true, chargedNano: cost }]);
    expect(lab.vendors[client].calls).toHaveLength(1);
  },
);

const SO_FAR = WIRES.chat.head() + WIRES.chat.text(PIECES[0]);
const COUNTED = `data: ${JSON.stringify({
  ...{ id: "c1", created: 1, model: HIDDEN_MODEL, choices: [{ index: 0, delta: { content: PIECES[0] } }] },
  usage: { prompt_tokens: INPUT, completion_tokens: OUTPUT, total_tokens: INPUT + OUTPUT },
})}\n\n`;

test.each([
  ["the gateway: the input and what was made", true, SO_FAR, undefined],
  ["its vendor, unasked: the input and what was made", false, SO_FAR, undefined],
  ["its vendor, which counted as it went: what it counted", false, COUNTED, INPUT],
])(
  "a whole reply that came as a stream when it was cut off, by the wish of %s",
  async (_name, wished, stream, told) => {
    await lab.stop();
    const clock = manualClock();
    lab = await startPayingLab(clock);
    const body = ask("chat", PRICED.chat, "blocking", { max_tokens: 60_000 });
    const funded = holdOf(body, 60_000) * (wished ? 1n : 100n);
    await lab.fund(funded);
    play("chat", stream, "silence");
    const asked = lab.gateway.post(PATH.chat, body);
    await lab.vendors.chat.called();
    expect(lab.vendors.chat.calls[0]?.text.includes('"stream":true')).toBe(wished);
    // A few turns of the loop, until the words are with the gateway.
    await clock.advance(1_000);
    await clock.advance(94_000);
    expect((await asked).status).toBe(504);
    const [input, output] = told === undefined ? [estimateOf(body), SAID_TOKENS] : [told, OUTPUT];
    const cost = costOf(input, output);
    const row = { outcome: "timed-out", input, output, estimated: told === undefined, chargedNano: cost };
    await expectCharged(funded, cost, [row]);
  },
);

describe("the money is used up", () => {
  /** Ten tokens or so: letters that are no word. */
  const words = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do ";

  test.each(STREAMS)("a stream ends as one that reached its ceiling: $name", async ({ client, upstream, mode }) => {
    const body = ask(client, PRICED[upstream], mode, { max_tokens: 100_000 });
    await lab.fund(holdOf(body, 400));
    const wire = WIRES[upstream];
    // Some sixty tokens at a time, the next ones once the client has these.
    const gates = Array.from({ length: 15 }, gate);
    const spoken = wire.text(words).repeat(4);
    play(upstream, [wire.head(), ...gates.flatMap(({ opened }) => [spoken, opened]), wire.finish()]);
    const response = await lab.gateway.post(PATH[client], body);
    expect(response.status).toBe(200);
    const reading = readAlong(response);
    for (const [at, { open }] of gates.entries()) {
      await until(() => reading.ended || reading.text.split(words).length > (at + 1) * 4, "the next words");
      // From here on the vendor says nothing more by itself: only the gateway can end it.
      if (reading.ended) break;
      open();
    }
    const text = await reading.end();
    const records = readRecords(text);
    expectFinished(client, records);
    expect(text).toContain(": x-sluice-stop: balance\n\n");
    expect(text).toContain(client === "chat" ? '"finish_reason":"length"' : '"stop_reason":"max_tokens"');
    expect(text.trimEnd().endsWith(client === "chat" ? "data: [DONE]" : '{"type":"message_stop"}')).toBe(true);
    // The vendor was stopped, and the client has all that was made until then.
    await lab.vendors[upstream].calls[0]?.whenAborted;
    const said = saidIn(client, records);
    expect(said.length).toBeGreaterThan(300 * 4);
    expect(said.length).toBeLessThanOrEqual(400 * 4);
    const output = Math.ceil(said.length / 4);
    const input = upstream === "messages" ? INPUT : estimateOf(body);
    const row = { outcome: "completed", finish: "length", input, output, estimated: true, flags: 4 };
    await expectCharged(holdOf(body, 400), costOf(input, output), [{ ...row, chargedNano: costOf(input, output) }]);
    expect(lab.wallet().posted).toBeGreaterThanOrEqual(0n);
    // What the client asked of the vendor stays as it was: the gateway itself keeps the bound.
    expect(lab.vendors[upstream].calls[0]?.json).toMatchObject({ max_tokens: 100_000 });
  });

  test.each([...STREAMS, ...OWN_WAYS.filter(({ mode }) => mode === "blocking")])(
    "a vendor that says everything in one breath takes no more than there is: $name",
    async ({ client, upstream, mode }) => {
      const body = ask(client, PRICED[upstream], mode, { max_tokens: 60_000 });
      // More than a slice, so that a blocking request streams towards its vendor too.
      const funded = holdOf(body, 5_000);
      await lab.fund(funded);
      const wire = WIRES[upstream];
      play(upstream, wire.head() + wire.text("words ").repeat(12_000) + wire.finish());
      const response = await lab.gateway.post(PATH[client], body);
      expect(response.status).toBe(200);
      const text = await response.text();
      expect(text).toContain(client === "chat" ? '"finish_reason":"length"' : '"stop_reason":"max_tokens"');
      await until(() => lab.gateway.app.running.count === 0 && lab.wallet().held === 0n, "the end of the request");
      expect(lab.rows()).toMatchObject([{ finish: "length", estimated: true, flags: 4 }]);
      // Neither overdrawn nor cut off long before the end, and what was paid for is what was said.
      expect(lab.wallet().posted).toBeGreaterThanOrEqual(0n);
      expect(lab.wallet().posted).toBeLessThan(costOf(0, 1_000));
      const said = text.split("words ").length - 1;
      expect(Math.abs(said * 1.5 - (lab.rows()[0]?.output ?? 0))).toBeLessThanOrEqual(2);
    },
  );

  test.each(STREAMS)("nor more than the little that there is: $name", async ({ client, upstream, mode }) => {
    const body = ask(client, PRICED[upstream], mode, { max_tokens: 60_000 });
    const funded = holdOf(body, 400);
    await lab.fund(funded);
    const wire = WIRES[upstream];
    play(upstream, wire.head() + wire.text("words ").repeat(4_000) + wire.finish());
    const response = await lab.gateway.post(PATH[client], body);
    expect(await response.text()).toContain(": x-sluice-stop: balance\n\n");
    await until(() => lab.gateway.app.running.count === 0 && lab.wallet().held === 0n, "the end of the request");
    expect(lab.rows()).toMatchObject([{ finish: "length", flags: 4 }]);
    expect(lab.wallet().posted).toBeGreaterThanOrEqual(0n);
  });

  test.each(STREAMS)(
    "a vendor that counts with each piece is paid what it counted until then: $name",
    async ({ client, upstream, mode }) => {
      const body = ask(client, PRICED[upstream], mode, { max_tokens: 60_000 });
      await lab.fund(holdOf(body, 400));
      const pieces = Array.from({ length: 390 }, (_piece, at) => countedPiece(upstream, "word ", (at + 1) * 2));
      play(upstream, WIRES[upstream].head({ input: 1, output: 0 }) + pieces.join(""), "silence");
      const text = await (await lab.gateway.post(PATH[client], body)).text();
      expect(text).toContain(": x-sluice-stop: balance\n\n");
      await until(() => lab.gateway.app.running.count === 0 && lab.wallet().held === 0n, "the end of the request");
      const output = (text.split("word ").length - 1) * 2;
      expect(output).toBeGreaterThanOrEqual(350);
      expect(output).toBeLessThanOrEqual(400);
      const row = { finish: "length", flags: 4, input: INPUT, output, estimated: false };
      await expectCharged(holdOf(body, 400), costOf(INPUT, output), [row]);
    },
  );

  test("a messages vendor that tells why it stopped, and its counts, before the end of its last block has ended all the same", async () => {
    const body = ask("messages", PRICED.messages, "stream", { max_tokens: 60_000 });
    await lab.fund(holdOf(body, 400));
    const wire = WIRES.messages;
    const [stop = "", delta = ""] = wire.finish({ input: INPUT, output: 500 }).split(/(?=event: message_delta)/);
    play("messages", wire.head() + wire.text("words ") + delta + stop + wire.terminator);
    const text = await (await lab.gateway.post(PATH.messages, body)).text();
    expect(text).toContain('"stop_reason":"end_turn"');
    expect(text).not.toContain("x-sluice-stop");
    await until(() => lab.gateway.app.running.count === 0 && lab.wallet().held === 0n, "the end of the request");
    expect(lab.rows()).toMatchObject([{ finish: "stop", input: INPUT, output: 500, flags: 1 }]);
  });

  describe("by the vendor's own count, which is ahead of what is shown, and of what the gateway counts", () => {
    /** Two tokens to a word by this vendor, of which one is reasoning that nobody sees; all of it is sent at once. */
    const PIECES_SENT = 12_000;
    const breath = (contentAt: (at: number) => string) =>
      Array.from({ length: PIECES_SENT }, (_piece, at) => {
        const completion_tokens = (at + 1) * 2;
        const details = { completion_tokens_details: { reasoning_tokens: at + 1 } };
        const usage = { prompt_tokens: INPUT, completion_tokens, total_tokens: INPUT + completion_tokens, ...details };
        const choices = [{ index: 0, delta: { content: contentAt(at) }, finish_reason: null }];
        return `data: ${JSON.stringify({ id: "c1", model: "m", choices, usage })}\n\n`;
      }).join("");
    const ways = [...STREAMS, ...OWN_WAYS.filter(({ mode }) => mode === "blocking")].filter(
      ({ upstream }) => upstream === "chat",
    );

    test.each(ways.flatMap((way) => ["the account", "a key's cap"].map((payer) => ({ ...way, payer }))))(
      "what was read beyond the end is not charged: $name, $payer",
      async ({ client, upstream, mode, payer }) => {
        const { app, accountId } = lab.gateway;
        const body = ask(client, PRICED[upstream], mode, { max_tokens: 60_000 });
        const paid = holdOf(body, 5_000);
        let headers = {};
        if (payer === "the account") await lab.fund(paid);
        else {
          await lab.fund(DOLLAR * 1_000n);
          const { key } = await app.keys.create({ accountId, name: "capped", kind: "api", capTotalNano: paid });
          headers = { authorization: `Bearer ${key}` };
        }
        play(
          upstream,
          breath(() => "words "),
          "silence",
        );
        const response = await lab.gateway.post(PATH[client], body, { headers });
        const text = await response.text();
        await until(() => lab.gateway.app.running.count === 0 && lab.wallet().held === 0n, "the end of the request");
        const shown = text.split("words ").length - 1;
        // As far as the money goes, but for the margin in which the vendor is stopped.
        expect(shown * 2).toBeGreaterThan(4_480);
        expect(shown * 2).toBeLessThanOrEqual(5_000);
        const cost = costOf(INPUT, shown * 2);
        expect(cost).toBeLessThanOrEqual(paid);
        const row = { finish: "length", flags: 4, input: INPUT, output: shown * 2, reasoning: shown, estimated: false };
        await expectCharged(payer === "the account" ? paid : DOLLAR * 1_000n, cost, [{ ...row, chargedNano: cost }]);
      },
    );

    test.each(ways)("nor is reasoning that nobody sees gone on with: $name", async ({ client, upstream, mode }) => {
      const body = ask(client, PRICED[upstream], mode, { max_tokens: 60_000 });
      const paid = holdOf(body, 5_000);
      await lab.fund(paid);
      play(
        upstream,
        breath((at) => (at === 0 ? "words " : "")),
        "silence",
      );
      const text = await (await lab.gateway.post(PATH[client], body)).text();
      expect(text).toContain("words ");
      await until(() => lab.gateway.app.running.count === 0 && lab.wallet().held === 0n, "the end of the request");
      const output = lab.rows()[0]?.output ?? 0;
      expect(output).toBeGreaterThan(4_480);
      expect(output).toBeLessThanOrEqual(5_000);
      const row = { finish: "length", flags: 4, input: INPUT, reasoning: output / 2, estimated: false };
      await expectCharged(paid, costOf(INPUT, output), [row]);
    });
  });

  test.each(OWN_WAYS.filter(({ mode }) => mode === "blocking"))(
    "a blocking request asks its vendor for what is paid for, and says so: $name",
    async ({ client }) => {
      const body = ask(client, PRICED[client], "blocking", { max_tokens: 50_000 });
      await lab.fund(holdOf(body, 300));
      const reply = WIRES[client].reply();
      const cut =
        client === "chat"
          ? {
              ...reply,
              choices: [{ index: 0, message: { role: "assistant", content: SAID }, finish_reason: "length" }],
            }
          : { ...reply, stop_reason: "max_tokens" };
      lab.vendors[client].answer(PATH[client], json(cut));
      const response = await lab.gateway.post(PATH[client], body);
      expect([response.status, response.headers.get("x-sluice-stop")]).toEqual([200, "balance"]);
      expect(lab.vendors[client].calls[0]?.json).toMatchObject({ max_tokens: 300 });
      await expectCharged(holdOf(body, 300), costOf(INPUT, OUTPUT), [{ finish: "length", flags: 4 }]);
    },
  );

  test.each(OWN_WAYS.filter(({ mode }) => mode === "blocking"))(
    "a reply that needed less than the little that was paid for is whole, and nothing else is said of it: $name",
    async ({ client }) => {
      const body = ask(client, PRICED[client], "blocking", { max_tokens: 50_000 });
      await lab.fund(holdOf(body, 300));
      lab.vendors[client].answer(PATH[client], json(WIRES[client].reply()));
      const response = await lab.gateway.post(PATH[client], body);
      expect([response.status, response.headers.get("x-sluice-stop")]).toEqual([200, null]);
      await expectCharged(holdOf(body, 300), costOf(INPUT, OUTPUT), [{ finish: "stop", flags: 0 }]);
    },
  );

  describe("a blocking request whose whole ceiling would lock the wallet", () => {
    const big = (client: Side, upstream: Side) => ask(client, PRICED[upstream], "blocking", { max_tokens: 60_000 });

    test.each(
      SIDES.flatMap((client) => SIDES.map((upstream) => ({ client, upstream, name: `${client} from ${upstream}` }))),
    )("is asked for as a stream and put together: $name", async ({ client, upstream }) => {
      const body = big(client, upstream);
      const funded = holdOf(body, 60_000) * 2n;
      await lab.fund(funded);
      const wire = WIRES[upstream];
      const held: bigint[] = [];
      lab.vendors[upstream].answer(PATH[upstream], () => {
        held.push(lab.wallet().held);
        return soundAnswer(wire, "stream");
      });
      const response = await lab.gateway.post(PATH[client], body);
      expect([response.status, response.headers.get("content-type")]).toEqual([200, "application/json"]);
      expect(response.headers.get("x-sluice-stop")).toBeNull();
      const text = await response.text();
      expect(text).toContain(SAID);
      expect(held).toEqual([holdOf(body, 4_096)]);
      expect(lab.vendors[upstream].calls[0]?.json).toMatchObject({ stream: true });
      const cost = costOf(INPUT, OUTPUT);
      await expectCharged(funded, cost, [
        { stream: false, input: INPUT, output: OUTPUT, estimated: false, chargedNano: cost },
      ]);
    });

    test.each(["application/json", "text/plain", ""])(
      "also by a proxy before its vendor that does not call it a stream: %p",
      async (type) => {
        await lab.fund(holdOf(big("chat", "chat"), 60_000) * 2n);
        const stream = sse(soundStream(WIRES.chat), { headers: { "content-type": type } });
        lab.vendors.chat.answer(PATH.chat, stream);
        const response = await lab.gateway.post(PATH.chat, big("chat", "chat"));
        expect([response.status, lab.vendors.chat.calls[0]?.json]).toMatchObject([200, { stream: true }]);
        expect(await response.text()).toContain(SAID);
        expect(lab.rows()).toMatchObject([{ input: INPUT, output: OUTPUT, estimated: false }]);
      },
    );

    test.each(["text/plain", ""])("so with what is told as another thing than it is: %p", async (type) => {
      const headers = { "content-type": type };
      const { answer } = lab.vendors.chat;
      const small = (shape: "blocking" | "stream") => ask("chat", PRICED.chat, shape, { max_tokens: 300 });
      await lab.fund(holdOf(small("blocking"), 300) * 4n);
      // A stream to who wants a whole reply, and a whole reply to who wants a stream.
      answer(PATH.chat, sse(soundStream(WIRES.chat), { headers }));
      expect(await (await lab.gateway.post(PATH.chat, small("blocking"))).text()).toContain(SAID);
      answer(PATH.chat, json(WIRES.chat.reply(), { headers }));
      const text = await (await lab.gateway.post(PATH.chat, small("stream"))).text();
      expect(text).toContain(SAID);
      expect(text).toEndWith(WIRES.chat.terminator);
      expect(lab.rows()).toMatchObject([{ output: OUTPUT }, { output: OUTPUT }]);
    });

    test.each([
      ["of the account", {}],
      ["of the account, by a key that is capped in requests alone", { capRequestsDay: 100 }],
    ])("ends at its ceiling when the money is used up, and the vendor is stopped: %s", async (_name, caps) => {
      const { app, accountId } = lab.gateway;
      const { key } = await app.keys.create({ accountId, name: "one more", kind: "api", ...caps });
      const body = big("chat", "chat");
      const funded = holdOf(body, 4_096);
      await lab.fund(funded);
      const never = gate();
      play("chat", [WIRES.chat.head(), WIRES.chat.text(words.repeat(250)), never.opened]);
      const response = await lab.gateway.post(PATH.chat, body, { headers: { authorization: `Bearer ${key}` } });
      expect([response.status, response.headers.get("x-sluice-stop")]).toEqual([200, "balance"]);
      const reply = (await response.json()) as { choices: { finish_reason: string; message: { content: string } }[] };
      expect(reply.choices[0]?.finish_reason).toBe("length");
      await lab.vendors.chat.calls[0]?.whenAborted;
      expect(lab.vendors.chat.calls[0]?.json).toMatchObject({ stream: true });
      const output = Math.ceil((reply.choices[0]?.message.content.length ?? 0) / 4);
      expect(output).toBeGreaterThan(3_584);
      const row = { finish: "length", output, estimated: true, flags: 4 };
      await expectCharged(funded, costOf(estimateOf(body), output), [row]);
    });

    test("costs nothing where it breaks off, since the client gets nothing of it", async () => {
      const body = big("chat", "chat");
      const funded = holdOf(body, 60_000);
      await lab.fund(funded);
      play("chat", WIRES.chat.head() + WIRES.chat.text(PIECES[0]) + WIRES.chat.errorRecord("api_error", "No."));
      const response = await lab.gateway.post(PATH.chat, body);
      expect(response.status).toBe(502);
      await expectCharged(funded, 0n, []);
    });

    test("is not shortened by what another way said before it broke off: nothing of that is paid", async () => {
      const body = { ...big("chat", "chat"), model: TWO_WAYS };
      const funded = holdOf(body, 4_096);
      await lab.fund(funded);
      const said = words.repeat(127);
      play("chat", WIRES.chat.head() + WIRES.chat.text(words.repeat(190)) + WIRES.chat.errorRecord("api_error", "No."));
      lab.vendors.messages.answer(
        PATH.messages,
        sse(soundStream(WIRES.messages).replace(JSON.stringify(PIECES[0]).slice(1, -1), said)),
      );
      const response = await lab.gateway.post(PATH.chat, body);
      const reply = (await response.json()) as { choices: { finish_reason: string; message: { content: string } }[] };
      expect([calls(), response.headers.get("x-sluice-stop")]).toEqual([2, null]);
      expect(reply.choices[0]).toMatchObject({
        finish_reason: "stop",
        message: { content: expect.stringContaining(said) },
      });
      await expectCharged(funded, costOf(INPUT, OUTPUT), [{ attempts: 2, vendor: "vendor-messages", flags: 0 }]);
    });

    test("is asked for whole where a stream could not carry all of it, or the money is plenty", async () => {
      lab.vendors.chat.always(PATH.chat, soundAnswer(WIRES.chat, "blocking"));
      const body = { ...big("chat", "chat"), logprobs: true };
      await lab.fund(holdOf(body, 60_000));
      await lab.gateway.post(PATH.chat, body);
      await lab.fund(holdOf(body, 60_000) * 4n);
      await lab.gateway.post(PATH.chat, big("chat", "chat"));
      expect(lab.vendors.chat.calls.map(({ json }) => (json as { stream?: boolean }).stream ?? false)).toEqual([
        false,
        false,
      ]);
    });

    test("twenty at once, each with a large ceiling, are served from a wallet that could hold one", async () => {
      const body = big("chat", "chat");
      const funded = holdOf(body, 60_000) * 2n;
      await lab.fund(funded);
      lab.vendors.chat.always(PATH.chat, soundAnswer(WIRES.chat, "stream"));
      const answers = await Promise.all(Array.from({ length: 20 }, () => lab.gateway.post(PATH.chat, body)));
      expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
      await Promise.all(answers.map((answer) => answer.text()));
      await expectCharged(
        funded,
        costOf(INPUT, OUTPUT) * 20n,
        Array.from({ length: 20 }, () => ({ outcome: "completed" })),
      );
    });

    test.each(["paying", "local"])(
      "and under a key's cap that could hold one, whatever else the account has: plan %s",
      async (plan) => {
        const { app, accountId } = lab.gateway;
        const body = big("chat", "chat");
        const capTotalNano = holdOf(body, 60_000) * 2n;
        await lab.fund(DOLLAR * 1_000n);
        await lab.join(plan);
        const { key } = await app.keys.create({ accountId, name: "capped", kind: "api", capTotalNano });
        lab.vendors.chat.always(PATH.chat, soundAnswer(WIRES.chat, "stream"));
        const headers = { authorization: `Bearer ${key}` };
        const post = () => lab.gateway.post(PATH.chat, body, { headers });
        const answers = await Promise.all(Array.from({ length: 20 }, post));
        expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
        const texts = await Promise.all(answers.map((answer) => answer.text()));
        for (const text of texts) expect(text).toContain(SAID);
        const cost = costOf(INPUT, OUTPUT) * 20n;
        const account = await lab.gateway.call("/v1/account", { headers });
        expect(await account.json()).toMatchObject({ key: { cap_total_usd: { used: Number(cost) / 1e9 } } });
        await expectCharged(
          DOLLAR * 1_000n,
          plan === "local" ? 0n : cost,
          Array.from({ length: 20 }, () => ({ outcome: "completed", costNano: costOf(INPUT, OUTPUT) })),
        );
      },
    );

    test("and ends at its ceiling when a key's cap is used up", async () => {
      const { app, accountId } = lab.gateway;
      const body = big("chat", "chat");
      await lab.join("local");
      const capTotalNano = holdOf(body, 4_096);
      const { key } = await app.keys.create({ accountId, name: "capped", kind: "api", capTotalNano });
      const never = gate();
      play("chat", [WIRES.chat.head(), WIRES.chat.text(words.repeat(250)), never.opened]);
      const response = await lab.gateway.post(PATH.chat, body, { headers: { authorization: `Bearer ${key}` } });
      const reply = (await response.json()) as { choices: { finish_reason: string; message: { content: string } }[] };
      expect([response.status, reply.choices[0]?.finish_reason]).toEqual([200, "length"]);
      await lab.vendors.chat.calls[0]?.whenAborted;
      const output = Math.ceil((reply.choices[0]?.message.content.length ?? 0) / 4);
      expect(output).toBeGreaterThan(3_584);
      await expectCharged(0n, 0n, [{ finish: "length", output, estimated: true }]);
    });
  });

  test("a long stream holds more as it goes, and a deposit in the middle lets it go on", async () => {
    const body = ask("chat", PRICED.chat, "stream", { max_tokens: 64_000 });
    const first = holdOf(body, 4_096);
    await lab.fund(first);
    const wire = WIRES.chat;
    const some = gate();
    const rest = gate();
    const slice = wire.text(words.repeat(200));
    play("chat", [wire.head() + slice, some.opened, slice, rest.opened, wire.finish(), wire.usage(), wire.terminator]);
    const reading = readAlong(await lab.gateway.post(PATH.chat, body));
    await reading.has(words);
    expect(lab.wallet().held).toBe(first);
    await lab.fund(DOLLAR);
    some.open();
    await until(() => lab.wallet().held > first, "more money held");
    expect(lab.wallet().held).toBe(holdOf(body, 4_096 + 8_192));
    rest.open();
    expectFinished("chat", readRecords(await reading.end()));
    await expectCharged(first + DOLLAR, costOf(INPUT, OUTPUT), [{ outcome: "completed", finish: "stop", flags: 0 }]);
  });
});

describe("counts that cannot be", () => {
  test("a vendor's output beyond its ceiling is cut and flagged", async () => {
    await lab.fund(DOLLAR);
    lab.vendors.chat.answer(PATH.chat, json(WIRES.chat.reply({ input: INPUT, output: 5_000 })));
    await lab.gateway.post(PATH.chat, ask("chat", PRICED.chat, "blocking", { max_tokens: 100 }));
    const cost = costOf(INPUT, 116);
    await expectCharged(DOLLAR, cost, [{ output: 116, flags: 3, costNano: cost, chargedNano: cost }]);
    const told = lab.gateway.log.find(({ event }) => event === "generate");
    expect(told).toMatchObject({ level: "warn", flags: "overrun,usage_suspect" });
  });

  test("images at addresses are looked for in the wallet before they are sent", async () => {
    const part = { type: "image_url", image_url: { url: "https://pictures.example/a.png" } };
    const content = Array.from({ length: 50 }, () => part);
    const body = { ...ask("chat", PRICED.chat, "blocking", { max_tokens: 64 }), messages: [{ role: "user", content }] };
    await lab.fund(costOf(50 * 300, 64));
    expect((await lab.gateway.post(PATH.chat, body)).status).toBe(402);
    await expectCharged(costOf(50 * 300, 64), 0n, []);
  });

  test.each(SIDES)(
    "a long text beside a picture is looked for in the wallet wherever it stands, however it begins: %s",
    async (client) => {
      const text = `${"a1b2c3d4".repeat(8)}\n${"闸门从早到晚都开着".repeat(10_000)}`;
      const data = Buffer.from("89504e470d0a1a0a0000000d494844520000040000000300", "hex").toString("base64");
      const source = { type: "base64", media_type: "image/png", data };
      const asked = ask(client, PRICED[client], "blocking", { max_tokens: 64 });
      const picture = { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } };
      const shown = { role: "user", content: [client === "chat" ? picture : { type: "image", source }] };
      const body =
        client === "chat"
          ? { ...asked, messages: [{ role: "assistant", content: "a", reasoning_content: text }, shown] }
          : { ...asked, system: text, messages: [shown] };
      await lab.fund(costOf(20_000, 64));
      expect((await lab.gateway.post(PATH[client], body)).status).toBe(402);
      await expectCharged(costOf(20_000, 64), 0n, []);
    },
  );

  test("a text with blanks wherever samples of it might be taken evenly is looked for in the wallet", async () => {
    const asked = ask("chat", PRICED.chat, "blocking", { max_tokens: 64 });
    const costly = JSON.stringify({ ...asked, messages: [{ role: "user", content: "a1b2c3d4".repeat(20_000) }] });
    const blanks = Array.from({ length: 32 }, (_, sample) => Math.floor((sample * (costly.length - 64)) / 31));
    const end = costly.length - 160;
    const body = blanks
      .filter((at) => at > 200 && at < end)
      .reduce((text, at) => `${text.slice(0, at)}${" ".repeat(64)}${text.slice(at + 64)}`, costly);
    await lab.fund(costOf(40_000, 64));
    expect((await lab.gateway.post(PATH.chat, body)).status).toBe(402);
    await expectCharged(costOf(40_000, 64), 0n, []);
  });

  test("an input far beyond its estimate takes no more than the wallet has and a bound; the rest is the operator's", async () => {
    const body = ask("chat", PRICED.chat, "blocking", { max_tokens: 64 });
    const funded = holdOf(body, 64) + 5n;
    await lab.fund(funded);
    lab.vendors.chat.answer(PATH.chat, json(WIRES.chat.reply({ input: 1_500_000, output: 1 })));
    await lab.gateway.post(PATH.chat, body);
    const charged = funded + 20_000_000n;
    await expectCharged(funded, charged, [{ flags: 1, costNano: costOf(1_500_000, 1), chargedNano: charged }]);
    const again = await lab.gateway.post(PATH.chat, body);
    expect(again.status).toBe(402);
  });
});

describe("plans", () => {
  test("the window pays first, then the wallet; a receipt tells both", async () => {
    await lab.join("windowed");
    await lab.fund(DOLLAR);
    for (let at = 0; at < 8; at++) {
      lab.vendors.chat.answer(PATH.chat, soundAnswer(WIRES.chat, "blocking"));
      await (await lab.gateway.post(PATH.chat, ask("chat", PRICED.chat, "blocking"))).text();
    }
    const cost = costOf(INPUT, OUTPUT);
    const window = 1_000_000n;
    const rows = lab.rows().map(() => ({ chargedNano: cost }));
    await expectCharged(DOLLAR, cost * 8n - window, rows);
    const { book } = lab.gateway.app;
    expect(book.window(lab.gateway.accountId, window)).toMatchObject({ availableNano: 0n, grantNano: window });
    const receipts = lab.rows().map(({ requestId }) => book.receipt(requestId)?.legs);
    expect(receipts[0]).toEqual([{ from: "window", amountNano: cost }]);
    expect(receipts[7]).toEqual([
      { from: "window", amountNano: window - cost * 7n },
      { from: "wallet", amountNano: cost * 8n - window },
    ]);
  });

  test("plan local counts, says what it would have cost, and pays nothing", async () => {
    await lab.join("local");
    lab.vendors.chat.always(PATH.chat, soundAnswer(WIRES.chat, "blocking"));
    for (const model of [PRICED.chat, PREMIUM, UNPRICED]) {
      const response = await lab.gateway.post(PATH.chat, ask("chat", model, "blocking"));
      expect([response.status, response.headers.get("x-sluice-cost-usd")]).toEqual([200, null]);
    }
    const cost = costOf(INPUT, OUTPUT);
    const rows = [{ costNano: cost }, { costNano: cost }, { costNano: null, priceId: null }];
    await expectCharged(
      0n,
      0n,
      rows.map((row) => ({ ...row, chargedNano: 0n })),
    );
    expect(lab.gateway.app.book.entries(lab.gateway.accountId)).toEqual([]);
  });

  test("a free model needs no money", async () => {
    lab.vendors.chat.answer(PATH.chat, soundAnswer(WIRES.chat, "blocking"));
    expect((await lab.gateway.post(PATH.chat, ask("chat", GRATIS, "blocking"))).status).toBe(200);
    await expectCharged(0n, 0n, [{ costNano: 0n, chargedNano: 0n }]);
  });
});

test("prices of long prompts count by their lengths, in whatever order they are written", async () => {
  const upstream = startUpstream();
  const tiers = [
    { input_tokens_above: 1_000, input: 12, output: 15 },
    { input_tokens_above: 100, input: 6, output: 15 },
  ];
  const routes = [{ vendor: "own", model: "m" }];
  const gateway = await startApp({
    vendors: [vendorAt(upstream, "chat", "own")],
    models: [{ id: "own/tiered", pricing: { input: 3, output: 15, tiers }, routes }],
  });
  const prompts = [50, 500, 5_000];
  for (const prompt of prompts) {
    const usage = { prompt_tokens: prompt, completion_tokens: 10, total_tokens: prompt + 10 };
    upstream.answer(PATH.chat, json({ ...chatReply("Yes."), usage }));
    await gateway.post(PATH.chat, { model: "own/tiered", messages: [{ role: "user", content: "Hi" }] });
  }
  const costs = [50n * 3_000n, 500n * 6_000n, 5_000n * 12_000n].map((input) => input + 10n * 15_000n);
  expect(gateway.rows().map(({ costNano }) => costNano)).toEqual(costs);
  await gateway.stop();
  upstream.close();
});

/** What is set aside beside the first slice for output that its model makes without showing it, tokens. */
test.each([
  ["effort", "none", 0],
  ["effort", "low", 4_096],
  ["effort", "high", 16_384],
  // Its thinking streams as it is made, and is watched.
  ["thinking-type", "high", 0],
  ["budget", "high", 20_000],
] as const)("a stream of a model that thinks unseen is held for that too: %s, %s", async (form, effort, unseen) => {
  const upstream = startUpstream();
  const [dialect, path] = form === "budget" ? (["messages", "/v1/messages"] as const) : (["chat", PATH.chat] as const);
  const gateway = await startApp({
    vendors: [vendorAt(upstream, dialect, "own")],
    models: [
      {
        ...{ id: "own/thinker", pricing: { input: 3, output: 15 }, reasoning: { form } },
        capabilities: { tools: true, vision: true, reasoning: true },
        reasoning_efforts: { levels: ["none", "low", "high"], default: "low" },
        routes: [{ vendor: "own", model: "m" }],
      },
    ],
    config: { plans: { paying: { requests_per_minute: 1_000, concurrent_generations: 10 } } },
  });
  const { book, keys } = gateway.app;
  const { accountId } = gateway;
  gateway.store.database.run("UPDATE account SET plan = 'paying' WHERE id = ?", [accountId]);
  keys.reload();
  await book.deposit({ accountId, amountNano: DOLLAR, reference: "first" });
  let held = 0n;
  upstream.answer(path, () => {
    held = book.balance(accountId).heldNano;
    return json({ error: { message: "Enough." } }, { status: 400 });
  });
  const messages = [{ role: "user", content: "Hi" }];
  await gateway.post(PATH.chat, { model: "own/thinker", stream: true, reasoning_effort: effort, messages });
  const output = 4_096 + unseen;
  const tokens = Number(held) / 15_000;
  expect([tokens > output, tokens < output + 20]).toEqual([true, true]);
  await gateway.stop();
  upstream.close();
});
