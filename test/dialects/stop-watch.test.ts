import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Event } from "../../src/canon/events.ts";
import { changeEvents } from "../../src/dialects/reply/changer.ts";
import { StopWatch } from "../../src/dialects/reply/stop-watch.ts";
import { faultOf } from "../support/fault.ts";
import { eventList } from "./chat-events.ts";
import { readBack, send, write } from "./crossing.ts";
import { grammarFault } from "./diagonal.ts";

/** What a watch lets out of a text cut at the given places. */
function watched(stops: readonly string[], text: string, cuts: readonly number[]): { text: string; stop?: string } {
  const watch = new StopWatch(stops);
  let out = "";
  let from = 0;
  for (const cut of [...new Set([...cuts, text.length])].sort((one, other) => one - other)) {
    const found = watch.push(text.slice(from, cut));
    from = cut;
    if (typeof found !== "string") return { text: out + found.text, stop: found.stop };
    out += found;
  }
  return { text: out + watch.end() };
}

/** The same, looked up in the whole text: the first place at which any sequence is complete wins nothing before its own beginning. */
function expected(stops: readonly string[], text: string): number {
  const places = stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0);
  return places.length === 0 ? -1 : Math.min(...places);
}

const letters = fc.string({ unit: fc.constantFrom("a", "b", "\n", "é"), maxLength: 30 });
const stop = fc.string({ unit: fc.constantFrom("a", "b", "\n"), minLength: 1, maxLength: 4 });

describe("a watch for stop sequences (dialects.md 4.8 #30)", () => {
  test("one sequence: lets out all before its first place, whatever the pieces", () => {
    fc.assert(
      fc.property(stop, letters, fc.array(fc.nat(30)), (one, text, cuts) => {
        const at = expected([one], text);
        const whole = at < 0 ? { text } : { text: text.slice(0, at), stop: one };
        expect(watched([one], text, cuts)).toEqual(whole);
      }),
    );
  });

  test("several: never lets out a sequence, and nothing is lost where there is none", () => {
    fc.assert(
      fc.property(
        fc.array(stop, { minLength: 1, maxLength: 4 }),
        letters,
        fc.array(fc.nat(30)),
        (stops, text, cuts) => {
          const found = watched(stops, text, cuts);
          for (const one of stops) expect(found.text).not.toContain(one);
          expect(found.stop === undefined).toBe(expected(stops, text) < 0);
          if (found.stop === undefined) expect(found.text).toBe(text);
          else expect(text.startsWith(found.text + found.stop)).toBe(true);
        },
      ),
    );
  });

  test("several: the one that is whole first, whatever the pieces", () => {
    const several = fc.array(stop, { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(several, letters, fc.array(fc.nat(30)), (stops, text, cuts) => {
        expect(watched(stops, text, cuts)).toEqual(watched(stops, text, []));
      }),
    );
    expect(watched(["abcd", "b"], "xabcd", [])).toEqual({ text: "xa", stop: "b" });
    for (const stops of [
      ["b", "ab"],
      ["ab", "b"],
    ])
      expect(watched(stops, "xab", [2])).toEqual({ text: "x", stop: "ab" });
  });
});

const finish = { type: "finish", finish: { reason: "stop" } } as const;
const block = (kind: "text" | "reasoning", ...texts: string[]): Event[] => [
  { type: "block-start", block: { kind } },
  ...texts.map((text) => ({ type: "block-delta", text }) as const),
  { type: "block-end" },
];
const call: Event[] = [
  { type: "block-start", block: { kind: "tool-call", id: "c", name: "f" } },
  { type: "block-delta", text: '{"a":"END"}' },
  { type: "block-end" },
];

describe("a reply whose upstream was not told a stop sequence", () => {
  const stops = { stops: ["END"] };

  test("ends at it, says so, and keeps its usage", () => {
    const usage = { type: "usage", usage: { input: 1, cacheRead: 0, cacheWrite: 0, output: 9, reasoning: 0 } } as const;
    const events = [{ type: "start" } as const, ...block("text", "One E", "ND two"), ...call, usage, finish];
    expect(changeEvents(events, stops)).toEqual([
      { type: "start" },
      ...block("text", "One "),
      usage,
      { type: "finish", finish: { reason: "stop-sequence", stopSequence: "END" } },
    ]);
  });

  test.each([
    ["stop-sequence", []],
    ["tool-calls", call],
  ] as const)("keeps the tier that it was served in: %s", (reason, before) => {
    const served = { type: "finish", finish: { reason: "stop", tier: "flex" } } as const;
    const changed = changeEvents([...before, ...block("text", "END"), served], stops);
    expect(changed.at(-1)).toMatchObject({ finish: { reason, tier: "flex" } });
  });

  test("that begins with it has no text at all", () => {
    expect(changeEvents([...block("text", "END and more"), finish], stops)).toEqual([
      { type: "finish", finish: { reason: "stop-sequence", stopSequence: "END" } },
    ]);
  });

  test("is not looked for in reasoning and in arguments, nor across two texts", () => {
    const events = [...block("reasoning", "the END"), ...call, ...block("text", "E"), ...block("text", "ND"), finish];
    expect(changeEvents(events, stops)).toEqual(events);
  });

  test("what is held back comes out at the end of the text", () => {
    const changed = changeEvents([...block("text", "say E"), finish], stops);
    expect(changed.flatMap((event) => (event.type === "block-delta" ? [event.text] : [])).join("")).toBe("say E");
  });

  test("keeps the grammar of events, whatever is changed and whatever came", () => {
    const changes = fc.record({
      stops: fc.array(fc.string({ minLength: 1, maxLength: 2, unit: "binary" }), { maxLength: 3 }),
      toolNames: fc.constant(new Map([["a", "b.c"]])),
      customTools: fc.array(fc.stringMatching(/^[a-z]{1,2}$/)).map((names) => new Set(names)),
    });
    fc.assert(
      fc.property(eventList, changes, (events, change) => {
        const changed = changeEvents(events, change);
        expect(grammarFault(changed)).toBeUndefined();
        expect(changed.at(-1)?.type).toBe("finish");
        const usages = (all: readonly Event[]) => all.filter((event) => event.type === "usage");
        expect(usages(changed)).toEqual(usages(events));
      }),
    );
  });

  test("a proof inside a text stays inside it", () => {
    const proof = { type: "block-signature", signature: "s" } as const;
    const [start, end] = [block("text")[0]!, block("text")[1]!];
    const events = [start, proof, { type: "block-delta", text: "E" } as const, end, finish];
    expect(changeEvents(events, stops)).toEqual(events);
  });

  test("a call before it is still to be answered", () => {
    const events = [...call, ...block("text", "END"), finish];
    expect(changeEvents(events, stops).at(-1)).toEqual({ type: "finish", finish: { reason: "tool-calls" } });
  });

  test("reaches a messages client as stop_sequence, a chat client as stop", () => {
    const { body, changes } = send(
      { from: "messages", to: "responses" },
      { messages: [{ role: "user", content: "Hi" }], stop_sequences: ["END"] },
    );
    expect(body).not.toContainKey("stop");
    const events = [{ type: "start" } as const, ...block("text", "One END"), finish];
    const sse = write("messages", events, changes);
    expect(sse).toContain('"stop_reason":"stop_sequence","stop_sequence":"END"');
    expect(sse).not.toContain("One END");
    expect(readBack("chat", write("chat", events, changes)).at(-1)).toMatchObject({ finish: { reason: "stop" } });
  });

  test("those that the model refuses are watched for, and are no loss", () => {
    const body = {
      messages: [{ role: "user", content: "Hi" }],
      stop_sequences: ["a", "b", "c", "d", "e"],
      temperature: 1,
    };
    const orders = { remove: ["stop", "temperature"] };
    const sent = send({ from: "messages", to: "chat", orders }, body);
    expect(sent.body).not.toContainKey("stop");
    expect([sent.changes?.stops, sent.dropped]).toEqual([["a", "b", "c", "d", "e"], ["temperature"]]);
    for (const stop of [["a"], "a"]) {
      const own = send({ from: "chat", to: "chat", orders }, { messages: body.messages, stop });
      expect([own.changes?.stops, own.dropped, own.body["stop"]]).toEqual([["a"], [], undefined]);
    }
    // None that asks for anything: the reply goes back as it comes.
    const empty = send({ from: "chat", to: "chat", orders }, { ...body, stop_sequences: undefined, stop: [""] });
    expect([empty.changes, empty.dropped, empty.body["stop"]]).toEqual([undefined, ["temperature"], undefined]);
    // One answer is written anew, and no second one.
    const several = { messages: body.messages, n: 2 };
    const refused = faultOf(() => send({ from: "chat", to: "chat", orders }, { ...several, stop: "a" }));
    expect(refused).toMatchObject({ code: "invalid_request", param: "n" });
    expect(send({ from: "chat", to: "chat", orders }, several).body["n"]).toBe(2);
  });

  test("there is a most that is watched for: what is beyond is named as lost", () => {
    const ask = (stop: string[]) =>
      send({ from: "chat", to: "responses" }, { messages: [{ role: "user", content: "Hi" }], stop });
    const many = ask(Array.from({ length: 40 }, (_, at) => `stop ${at}`));
    expect([many.changes?.stops?.length, many.dropped]).toEqual([32, ["stop"]]);
    const longest = "x".repeat(500);
    const long = ask([`${longest}x`, longest, "y", "y", ""]);
    expect([long.changes?.stops, long.dropped]).toEqual([[longest, "y"], ["stop"]]);
    expect(ask(["y", "y"]).dropped).toEqual([]);
  });

  test("only what the upstream does not take is watched for", () => {
    const messages = [{ role: "user", content: "Hi" }];
    const six = ["1", "2", "3", "4", "5", "6"];
    const chatBody = { messages, stop: six };
    const toChat = send({ from: "messages", to: "chat" }, { messages, stop_sequences: six });
    expect([toChat.body["stop"], toChat.changes?.stops]).toEqual([six.slice(0, 4), ["5", "6"]]);
    const toGemini = send({ from: "chat", to: "gemini" }, chatBody);
    expect([toGemini.body["generationConfig"], toGemini.changes?.stops]).toMatchObject([
      { stopSequences: six.slice(0, 5) },
      ["6"],
    ]);
    const toMessages = send({ from: "chat", to: "messages" }, { messages, stop: ["\n\n", "x"] });
    expect([toMessages.body["stop_sequences"], toMessages.changes?.stops]).toEqual([["x"], ["\n\n"]]);
    expect(send({ from: "chat", to: "messages" }, chatBody).changes).toBeUndefined();
  });
});
