import { describe, expect, test } from "bun:test";
import { GatewayError } from "../../src/canon/errors.ts";
import type { Event } from "../../src/canon/events.ts";
import { NO_USAGE, type Usage } from "../../src/canon/usage.ts";
import { Meter } from "../../src/ledger/meter.ts";
import { manualClock } from "../support/clock.ts";

const text = (value: string): Event[] => [
  { type: "block-start", block: { kind: "text" } },
  { type: "block-delta", text: value },
  { type: "block-end" },
];
const reasoning = (value: string): Event[] => [
  { type: "block-start", block: { kind: "reasoning" } },
  { type: "block-delta", text: value },
  { type: "block-end" },
];
const call = (name: string, json: string): Event[] => [
  { type: "block-start", block: { kind: "tool-call", id: "call_1", name } },
  { type: "block-delta", text: json },
  { type: "block-end" },
];
const finish: Event = { type: "finish", finish: { reason: "stop" } };
const counts = (input: number, output: number, more = {}): Event => ({
  type: "usage",
  usage: { ...NO_USAGE, input, output, ...more },
});

/** Input tokens by the gateway's own estimate. */
const ESTIMATED = 50;

function metered(events: Event[]) {
  const meter = new Meter(manualClock());
  // One at a time and all at once must come to the same.
  const other = new Meter(manualClock());
  for (const event of events) meter.take([event]);
  other.take(events);
  expect(other.usage(() => ESTIMATED)).toEqual(meter.usage(() => ESTIMATED));
  return { meter, ...meter.usage(() => ESTIMATED) };
}

describe("usage", () => {
  test("the vendor's last counts win when the reply finished", () => {
    const { usage, estimated } = metered([
      counts(9, 1),
      ...text("x".repeat(400)),
      counts(10, 3, { reasoning: 2 }),
      finish,
    ]);
    expect(usage).toEqual({ ...NO_USAGE, input: 10, output: 3, reasoning: 2 });
    expect(estimated).toBe(false);
  });

  test("without counts: the estimate of the input, and a token for four characters, rounded up", () => {
    const { usage, estimated, meter } = metered([...reasoning("12345"), ...text("123"), ...call("look", "{}"), finish]);
    expect(usage).toEqual({ ...NO_USAGE, input: 50, output: 4, reasoning: 2 });
    expect(estimated).toBe(true);
    expect(meter.generated).toEqual({ text: 3, reasoning: 5, arguments: 6 });
  });

  test("characters that are tokens by themselves count as three letters: who leaves before the counts come does not pay a third", () => {
    for (const wide of ["\u6c49", "\u304b", "\ud55c", "\uff21"]) {
      expect(metered([...text(wide.repeat(40))]).usage.output).toBe(30);
      expect(metered([...text(`${wide.repeat(4)}abcd`)]).usage.output).toBe(4);
    }
    expect(metered([...text("\u00e9\u0434\u05d0\u0e01")]).usage.output).toBe(1);
  });

  test("a vendor that counts the input alone is believed in that; the output is estimated, where there is any", () => {
    expect(metered([counts(10, 0), ...text("abcdefgh"), finish])).toMatchObject({
      usage: { input: 10, output: 2 },
      estimated: true,
    });
    expect(metered([...text("abcdefgh"), counts(10, 1), finish])).toMatchObject({
      usage: { input: 10, output: 1 },
      estimated: false,
    });
    expect(metered([counts(10, 0), finish])).toMatchObject({ usage: { input: 10, output: 0 }, estimated: false });
  });

  test("counts that are all zero beside real output are none", () => {
    expect(metered([...text("abcdefgh"), counts(0, 0), finish])).toMatchObject({
      usage: { input: 50, output: 2 },
      estimated: true,
    });
  });

  test("a vendor that counts the output alone: no request is without input", () => {
    expect(metered([...text("abcdefgh"), counts(0, 7), finish])).toMatchObject({
      usage: { input: 50, output: 7 },
      estimated: true,
    });
    expect(metered([...text("x".repeat(80)), counts(0, 7)])).toMatchObject({
      usage: { input: 50, output: 20 },
      estimated: true,
    });
    expect(metered([counts(0, 7, { cacheRead: 3 }), finish])).toMatchObject({ usage: { input: 0 }, estimated: false });
  });

  test("a reply that broke off: the vendor's input, and the larger of its output and the estimate", () => {
    const early = counts(234, 1, { cacheRead: 1_000 });
    expect(metered([early, ...text("x".repeat(4_800))])).toMatchObject({
      usage: { input: 234, cacheRead: 1_000, cacheWrite: 0, output: 1_200, reasoning: 0 },
      estimated: true,
    });
    expect(metered([early, ...text("x".repeat(8)), counts(234, 700)])).toMatchObject({
      usage: { output: 700 },
      estimated: false,
    });
  });

  test("nothing came: no output is counted; what cannot be measured counts as one token", () => {
    expect(metered([{ type: "start" }, { type: "block-start", block: { kind: "text" } }]).usage).toEqual({
      ...NO_USAGE,
      input: 50,
    });
    const secret: Event = { type: "block-start", block: { kind: "redacted-reasoning", data: "x".repeat(5_000) } };
    expect(metered([secret, { type: "block-end" }]).usage.output).toBe(1);
  });

  test("absurd and broken counts are cut to what can be", () => {
    const { usage } = metered([counts(1e15, 1e15, { reasoning: 2e15, cacheRead: -5, cacheWrite: 1.5 }), finish]);
    expect(usage).toEqual({
      input: 100_000_000,
      cacheRead: 0,
      cacheWrite: 1,
      output: 100_000_000,
      reasoning: 100_000_000,
    });
    expect(metered([counts(1, 10, { reasoning: 11 }), finish]).usage.reasoning).toBe(10);
    expect(metered([counts(Number.NaN, 4), finish]).usage).toEqual({ ...NO_USAGE, input: 50, output: 4 });
  });
});

describe("a reply of several rounds", () => {
  const FIRST = { ...NO_USAGE, input: 10, output: 3 };
  /** What a reply came to whose first round was counted, and whose second one brought this. */
  function second(events: Event[], apart?: readonly Usage[]) {
    const meter = new Meter(manualClock());
    meter.take([...text("abcd"), { ...counts(10, 3), ...(apart && { apart }) } as Event, finish]);
    meter.nextRound(
      () => 50,
      () => 70,
    );
    meter.take(events);
    return meter.usage(() => 50);
  }

  test.each([
    ["text", text("x".repeat(8)), { output: 2 }],
    ["reasoning alone", reasoning("x".repeat(8)), { output: 2, reasoning: 2 }],
    ["a call alone", call("look", '{"a":1}'), { output: 3 }],
    ["its end alone", [finish], { output: 1 }],
  ])("of a further one that broke off what came is charged, with its input: %s", (_name, events, own) => {
    const { rounds, usage, estimated } = second(events);
    const round = { ...NO_USAGE, input: 70, ...own };
    expect(rounds).toEqual([FIRST, round]);
    expect(usage).toEqual({ ...NO_USAGE, input: 80, output: 3 + round.output, reasoning: round.reasoning });
    expect(estimated).toBe(true);
  });

  test("one of which nothing came is not charged", () => {
    expect(second([])).toEqual({ usage: FIRST, estimated: false });
  });

  test("what its vendor makes on top is charged once, of each round", () => {
    const made = (input: number): Usage => ({ ...NO_USAGE, input, output: 1 });
    const last = { ...counts(20, 4), apart: [made(300)] } as Event;
    const both = second([...text("abcd"), last, finish], [made(100), made(200)]);
    expect(both).toMatchObject({ apart: 3, usage: { input: 630, output: 10 }, estimated: false });
    const one = second([...text("abcd"), counts(20, 4), finish], [made(100)]);
    expect(one).toMatchObject({ apart: 1, usage: { input: 130, output: 8 }, estimated: false });
    expect(one.rounds).toEqual([FIRST, { ...NO_USAGE, input: 20, output: 4 }, made(100)]);
    // One that broke off has said nothing of it.
    expect(second(text("abcd"), [made(100)])).toMatchObject({ apart: 1, usage: { input: 180, output: 5 } });
    // Where it made no reply on top of it, the rounds before that are charged all the same.
    const bare = second([{ ...counts(0, 0), apart: [made(100)] } as Event, finish]);
    expect(bare.rounds?.[0]).toEqual(FIRST);
  });
});

describe("what the meter saw", () => {
  test("the first output is timed once; an opened block alone is no output", async () => {
    const clock = manualClock();
    const meter = new Meter(clock);
    await clock.advance(100);
    meter.take([{ type: "start" }, { type: "block-start", block: { kind: "text" } }]);
    expect(meter.sawOutput).toBe(false);
    await clock.advance(20);
    meter.take([{ type: "block-delta", text: "a" }]);
    await clock.advance(500);
    meter.take([{ type: "block-delta", text: "b" }, { type: "block-end" }, finish]);
    expect(meter.sawOutput).toBe(true);
    expect(meter.firstTokenAt).toBe(120);
    expect(meter.finish).toEqual({ reason: "stop" });
  });

  test("a tool call without arguments is output; an error is no finish", () => {
    const { meter } = metered([
      { type: "block-start", block: { kind: "tool-call", id: "1", name: "go" } },
      { type: "error", error: new GatewayError("stream_truncated", "cut") },
    ]);
    expect(meter.sawOutput).toBe(true);
    expect(meter.finish).toBeUndefined();
  });
});
