import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { type ManualClock, manualClock } from "../support/clock.ts";
import { type Part, sse } from "../support/upstream.ts";
import { gate, until, within } from "../support/wait.ts";
import {
  ask,
  charged,
  expectBroken,
  expectFinished,
  ONE_ROUTE,
  PATH,
  type ScenarioLab,
  startScenarioLab,
} from "./lab.ts";
import { readAlong } from "./reading.ts";
import { INPUT, MODES, OUTPUT, readRecords, SAID, SIDES, type Side, saidIn, soundStream, WIRES } from "./wires.ts";

const WHOLE = soundStream(WIRES.messages);
const FINISHING_MS = 2_000;
const SILENCE_MS = 90_000;

let clock: ManualClock;
let lab: ScenarioLab;
beforeEach(async () => {
  clock = manualClock();
  lab = await startScenarioLab(clock);
});
afterEach(async () => {
  const { unexpected } = lab.vendors.messages;
  await until(() => lab.gateway.app.running.count === 0, "every request to end");
  await lab.stop();
  expect(unexpected).toEqual([]);
});

const play = (parts: readonly Part[], finish: "end" | "silence" | "reset" = "end") =>
  lab.vendors.messages.answer(PATH.messages, sse(parts, { finish }));
const post = (client: Side, mode: "stream" | "blocking") =>
  lab.gateway.post(PATH[client], ask(client, ONE_ROUTE.messages, mode));

/** The counts a client's last record of them says. */
function toldIn(client: Side, text: string): unknown[] {
  const [input, output] =
    client === "chat" ? ["prompt_tokens", "completion_tokens"] : ["input_tokens", "output_tokens"];
  const counts = [...text.matchAll(new RegExp(`"${input}":(\\d+)(?:,"cache_\\w+":0)*,"${output}":(\\d+)`, "g"))].at(-1);
  return [Number(counts?.[1]), Number(counts?.[2])];
}

function textOf(client: Side, body: string): unknown {
  const reply = JSON.parse(body) as { choices?: { message: { content: string } }[]; content?: { text: string }[] };
  return client === "chat" ? reply.choices?.[0]?.message.content : reply.content?.map(({ text }) => text).join("");
}

describe("several messages in one body are one reply", () => {
  test.each(SIDES)("streaming, whenever the second one begins: %s", async (client) => {
    const [second, rest] = [gate(), gate()];
    const head = WIRES.messages.head();
    play([WHOLE, second.opened, head, rest.opened, WHOLE.slice(head.length)]);
    const reading = readAlong(await post(client, "stream"));
    await reading.has("world.");
    await within(clock.armed(FINISHING_MS), "the wait for more");
    await clock.advance(FINISHING_MS - 1);
    second.open();
    await within(clock.armed(SILENCE_MS), "the second message");
    await clock.advance(SILENCE_MS - 1);
    expect([reading.ended, lab.rows()]).toEqual([false, []]);
    rest.open();
    const records = readRecords(await reading.end());
    expectFinished(client, records);
    expect(saidIn(client, records)).toBe(SAID + SAID);
    const row = { outcome: "completed", input: 2 * INPUT, output: 2 * OUTPUT, estimated: false, attempts: 1 };
    expect(charged(lab.rows())).toMatchObject([row]);
  });

  test.each(SIDES)("blocking, where the vendor streams anyway: %s", async (client) => {
    play([WHOLE + WHOLE]);
    const body = await (await post(client, "blocking")).text();
    expect(textOf(client, body)).toBe(SAID + SAID);
    expect(toldIn(client, body)).toEqual([2 * INPUT, 2 * OUTPUT]);
    expect(charged(lab.rows())).toMatchObject([{ input: 2 * INPUT, output: 2 * OUTPUT, estimated: false }]);
  });

  test.each(SIDES)("a second one that is broken off is an error: %s", async (client) => {
    play([WHOLE, WIRES.messages.head()]);
    const told = expectBroken(client, readRecords(await (await post(client, "stream")).text()));
    expect(told.code).toBe("stream_truncated");
    expect(charged(lab.rows())).toMatchObject([{ outcome: "upstream-failed" }]);
  });
});

describe("behind the terminator", () => {
  const row = { outcome: "completed", input: INPUT, output: OUTPUT, estimated: false, attempts: 1, error: null };

  test.each(SIDES)("a body left open is given 2 s, streaming: %s", async (client) => {
    play([WHOLE], "silence");
    const reading = readAlong(await post(client, "stream"));
    await reading.has("world.");
    await within(clock.armed(FINISHING_MS), "the wait for more");
    await clock.advance(FINISHING_MS - 1);
    expect([reading.ended, lab.rows()]).toEqual([false, []]);
    await clock.advance(1);
    const records = readRecords(await reading.end());
    expectFinished(client, records);
    expect(saidIn(client, records)).toBe(SAID);
    expect(charged(lab.rows())).toMatchObject([row]);
  });

  test.each(SIDES)("and as many, blocking: %s", async (client) => {
    play([WHOLE], "silence");
    const answer = post(client, "blocking");
    await within(clock.armed(FINISHING_MS), "the wait for more");
    await clock.advance(FINISHING_MS - 1);
    expect(lab.rows()).toEqual([]);
    await clock.advance(1);
    const body = await (await answer).text();
    expect(textOf(client, body)).toBe(SAID);
    expect(charged(lab.rows())).toMatchObject([row]);
  });

  test.each(SIDES.flatMap((client) => MODES.map((mode) => ({ client, mode }))))(
    "a connection that is torn down takes nothing: $client $mode",
    async ({ client, mode }) => {
      const torn = gate();
      play([WHOLE, torn.opened], "reset");
      const answer = post(client, mode);
      await within(clock.armed(FINISHING_MS), "the wait for more");
      torn.open();
      const text = await (await answer).text();
      if (mode === "stream") expectFinished(client, readRecords(text));
      else expect(textOf(client, text)).toBe(SAID);
      expect(charged(lab.rows())).toMatchObject([row]);
    },
  );
});
