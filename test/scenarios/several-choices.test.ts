import { afterEach, beforeEach, expect, test } from "bun:test";
import { type Answer, json, sse } from "../support/upstream.ts";
import { PATH } from "./lab.ts";
import { costOf, estimateOf, holdOf, type PayingLab, PRICED, startPayingLab } from "./paying.ts";

/** A gateway for each test: what a wallet holds at its beginning is the whole of it. */
let lab: PayingLab;
beforeEach(async () => {
  lab = await startPayingLab();
});
afterEach(() => lab.stop());

const CHOICES = 50;
const ask = (extra: Record<string, unknown> = {}) => ({
  model: PRICED.chat,
  n: CHOICES,
  messages: [{ role: "user", content: "Name a colour." }],
  ...extra,
});
const choices = (each: (index: number) => object) => Array.from({ length: CHOICES }, (_, index) => each(index));
const usage = { prompt_tokens: 10, completion_tokens: CHOICES * 40 };

function reply(counts?: object): Answer {
  const message = { role: "assistant", content: "Blue, as I said." };
  const all = choices((index) => ({ index, message, finish_reason: "stop" }));
  return json({ id: "c", object: "chat.completion", created: 1, model: "m", choices: all, ...counts });
}

function stream(counts?: object): Answer {
  const chunk = (body: object) => `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", ...body })}\n\n`;
  const delta = { role: "assistant", content: "Blue, as I said." };
  return sse([
    ...choices((index) => ({ choices: [{ index, delta, finish_reason: null }] })).map(chunk),
    ...choices((index) => ({ choices: [{ index, delta: {}, finish_reason: "stop" }] })).map(chunk),
    ...(counts ? [chunk({ choices: [], ...counts })] : []),
    "data: [DONE]\n\n",
  ]);
}

const MODES = [
  { mode: "whole", extra: {}, answer: reply },
  { mode: "stream", extra: { stream: true }, answer: stream },
];

test.each(MODES)("several replies at once are all paid for, and the ceiling is that of each: $mode", async (how) => {
  await lab.fund(10_000_000_000n);
  lab.vendors.chat.answer(PATH.chat, how.answer({ usage }));
  const response = await lab.gateway.post(PATH.chat, ask({ max_tokens: 50, ...how.extra }));
  expect(response.status).toBe(200);
  await response.text();
  expect(lab.vendors.chat.calls[0]?.json).toMatchObject({ n: CHOICES, max_tokens: 50 });
  const cost = costOf(10, CHOICES * 40);
  expect(lab.rows()[0]).toMatchObject({ output: CHOICES * 40, chargedNano: cost, flags: 0 });
  expect(lab.wallet()).toEqual({ posted: 10_000_000_000n - cost, held: 0n });
});

test.each(MODES)(
  "where the vendor counts nothing, each reply is taken to be as long as the first: $mode",
  async (how) => {
    await lab.fund(10_000_000_000n);
    lab.vendors.chat.answer(PATH.chat, how.answer());
    const body = ask({ max_tokens: 50, ...how.extra });
    const response = await lab.gateway.post(PATH.chat, body);
    await response.text();
    const output = CHOICES * 4;
    expect(lab.rows()[0]).toMatchObject({ output, estimated: true, chargedNano: costOf(estimateOf(body), output) });
  },
);

test.each(MODES)(
  "a wallet that does not pay for all of them is told so, and no vendor is asked: $mode",
  async (how) => {
    const body = ask({ max_tokens: 100, ...how.extra });
    await lab.fund(holdOf(body, CHOICES * 100) - 1n);
    const response = await lab.gateway.post(PATH.chat, body);
    expect(response.status).toBe(402);
    expect(lab.vendors.chat.calls).toEqual([]);
  },
);

test.each(MODES)("of a small wallet each reply gets its part, and the vendor is told: $mode", async (how) => {
  const body = ask(how.extra);
  await lab.fund(holdOf(body, CHOICES * 300));
  lab.vendors.chat.answer(PATH.chat, how.answer({ usage }));
  const response = await lab.gateway.post(PATH.chat, body);
  await response.text();
  expect(lab.vendors.chat.calls[0]?.json).toMatchObject({ n: CHOICES, max_tokens: 300 });
  expect(lab.rows()[0]).toMatchObject({ output: CHOICES * 40, chargedNano: costOf(10, CHOICES * 40) });
});

test("how many are asked for may be any number", async () => {
  await lab.fund(10_000_000_000n);
  for (const extra of [{ n: 1e300 }, { n: 1e300, max_tokens: 1e308 }]) {
    const response = await lab.gateway.post(PATH.chat, ask(extra));
    expect(response.status).toBe(402);
  }
  lab.vendors.chat.always(PATH.chat, reply({ usage: { prompt_tokens: 10, completion_tokens: 4 } }));
  for (const n of [null, 0, -1, 1, 1.5, "3"]) {
    const response = await lab.gateway.post(PATH.chat, ask({ n, max_tokens: 50 }));
    expect([200, 400]).toContain(response.status);
  }
});
