import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { soundText } from "../../src/dialects/sound-text.ts";
import { checkJson, checkParts } from "../../src/http/body/body.ts";
import { type Known, LARGE_BODY } from "../../src/http/body/json-parts.ts";
import { KnownParts } from "../../src/http/body/known-parts.ts";
import { estimateInputTokens } from "../../src/relay/tokens/estimate.ts";
import { manualClock } from "../support/clock.ts";

type Outcome = { value: unknown; edited: string; sound: string; text: string } | { fault: string };

const EDITS = { model: "other", stream: true, max_tokens: undefined };

function outcomeOf(read: () => ReturnType<typeof checkJson>): Outcome {
  try {
    const json = read();
    const edited = json.edit(EDITS);
    const sound = json.mayHoldHalves ? soundText(edited) : edited;
    // From then on it is text, whatever it came as.
    const { value, text } = json;
    expect(json.edit(EDITS)).toBe(edited);
    return { value, edited, sound, text };
  } catch (thrown) {
    return { fault: (thrown as Error).message };
  }
}

const bytesOf = (text: string | Uint8Array): Buffer => Buffer.from(text as string);

const inParts = (text: string | Uint8Array, known: Known) => outcomeOf(() => checkParts(bytesOf(text), known));

/** How a body is read of which nothing is known. */
const atOnce = (text: string | Uint8Array) =>
  outcomeOf(() => {
    try {
      return checkJson(new TextDecoder("utf-8", { fatal: true }).decode(bytesOf(text)));
    } catch (thrown) {
      throw thrown instanceof TypeError ? new Error("The request body is not valid UTF-8.") : thrown;
    }
  });

/** Text that stands where a value does, as no value would be written. */
const RAW = [
  '{"a":{"__proto__":1}}',
  '{"a":[{"\\u005f_proto__":1}]}',
  '"\\u0041"',
  '"\\uD83D"',
  "1e999",
  "[-1e400]",
  "01",
  "nul",
  '"\\x"',
  '"\t"',
  "[1,]",
  '{"a":1,}',
  "[[[[",
] as const;
const raw = (at: number) => `raw:${at}`;
const withRaw = (text: string) => text.replaceAll(/"raw:(\d+)"/g, (_, at: string) => RAW[Number(at)] ?? "");

/** What every body gets so that it is large. */
const FILL = "x".repeat(LARGE_BODY);

const key = fc.constantFrom(
  "model",
  "messages",
  "tools",
  "stream",
  "max_tokens",
  "a\\b",
  "\ud800",
  "é",
  "1",
  "__proto__",
  "",
);
const item = fc.oneof(
  { arbitrary: fc.nat(RAW.length - 1).map(raw), weight: 1 },
  { arbitrary: fc.jsonValue({ maxDepth: 4 }), weight: 9 },
  {
    weight: 9,
    arbitrary: fc.constantFrom<unknown>(
      "__proto__",
      { __proto__x: 1 },
      '\\u005f"',
      [],
      {},
      1e308,
      -0,
      null,
      [[[]]],
      "\ud83d\ude00",
      "half of a character: \ud83d",
      "\u2028",
    ),
  },
);
const field = fc.tuple(key, fc.oneof(fc.array(item, { maxLength: 6 }), item));
const space = fc.constantFrom("", "", "", " ", "\n", "\t \r");

/** The text of an object with these fields, blanks between them as they come, some fields perhaps twice. */
function written(fields: readonly [string, unknown][], blanks: readonly string[]): string {
  let at = 0;
  const blank = () => blanks[at++ % Math.max(1, blanks.length)] ?? "";
  const listOf = (items: readonly unknown[]) =>
    `[${blank()}${items.map((one) => `${JSON.stringify(one)}${blank()}`).join(`,${blank()}`)}]`;
  const parts = fields.map(([name, value]) => {
    const text = Array.isArray(value) ? listOf(value) : JSON.stringify(value);
    return `${blank()}${JSON.stringify(name)}${blank()}:${blank()}${text}${blank()}`;
  });
  return withRaw(`${blank()}{${parts.join(",")}}${blank()}`);
}

const fields = fc.array(field, { minLength: 1, maxLength: 6 });

describe("bodies read in parts", () => {
  test("are what they are when read whole, however often and in whatever order their parts came before", () => {
    fc.assert(
      fc.property(
        fc.array(fields, { minLength: 1, maxLength: 5 }),
        fc.array(space, { maxLength: 9 }),
        (bodies, blanks) => {
          const known = { parts: new KnownParts(manualClock()), owner: "acc_1" };
          for (const body of [...bodies, ...bodies]) {
            const text = written([["fill", FILL], ...body], blanks);
            expect(inParts(text, known)).toEqual(atOnce(text));
          }
        },
      ),
    );
  });

  test("that are broken anywhere are refused in the same words", () => {
    fc.assert(
      fc.property(
        fields,
        fc.nat(),
        fc.constantFrom(
          "",
          '"',
          ",",
          "}",
          "]",
          "{",
          "[",
          ":",
          "\\",
          "\n",
          "0",
          "e999",
          "x",
          "\u0000",
          "\ufeff",
          "[[".repeat(40),
        ),
        fc.boolean(),
        (body, place, insertion, cuts) => {
          const known = { parts: new KnownParts(manualClock()), owner: "acc_1" };
          const sound = written([...body, ["fill", FILL], ...body], []);
          inParts(sound, known);
          const at = place % sound.length;
          const text = sound.slice(0, at) + insertion + (cuts ? "" : sound.slice(at + (place % 2)));
          if (text.length < LARGE_BODY) return;
          expect(inParts(text, known)).toEqual(atOnce(text));
        },
      ),
      { numRuns: 300 },
    );
  });

  test("that are no UTF-8 somewhere are refused in the same words", () => {
    fc.assert(
      fc.property(fields, fc.nat(), fc.integer({ min: 0x80, max: 0xff }), (body, place, byte) => {
        const known = { parts: new KnownParts(manualClock()), owner: "acc_1" };
        const bytes = bytesOf(written([...body, ["fill", `é${FILL}\u2028`], ["a\\b", "\ud83d\ude00"], ...body], []));
        inParts(bytes, known);
        bytes[place % bytes.length] = byte;
        expect(inParts(bytes, known)).toEqual(atOnce(bytes));
      }),
      { numRuns: 300 },
    );
  });

  test("are estimated as the text that they are", () => {
    for (const word of [
      "plain words of a tool's result, ",
      "числа и слова, ",
      "漢字とかな、",
      "f(x) => { return 12345; }\n",
    ]) {
      for (const length of [20_000, 100_003]) {
        const content = word.repeat(length / word.length);
        const text = JSON.stringify({
          model: "a/b",
          tools: [{ type: "function" }],
          messages: [{ role: "user", content }],
        });
        const parts = checkParts(bytesOf(text), { parts: new KnownParts(manualClock()), owner: "acc_1" });
        // Each estimate looks at other samples.
        const usual = (body: Parameters<typeof estimateInputTokens>[0]) =>
          Array.from({ length: 200 }, () => estimateInputTokens(body)).reduce((sum, each) => sum + each, 0);
        expect(Math.abs(usual(parts) / usual(checkJson(text)) - 1)).toBeLessThan(0.03);
      }
    }
  });

  test("with a mark before a value are refused, and one before all of it is none of it", () => {
    const known = { parts: new KnownParts(manualClock()), owner: "acc_1" };
    for (const text of [`{"a":"${FILL}","b":\ufeff"m"}`, `{"a":["${FILL}",\ufeff1]}`, `\ufeff{"a":"${FILL}"}`]) {
      expect(inParts(text, known)).toEqual(atOnce(text));
    }
    expect(inParts(`{"a":\ufeff"${FILL}"}`, known)).toHaveProperty("fault");
  });

  test("bounds hold for all parts together, known or not, and nothing may follow", () => {
    const known = { parts: new KnownParts(manualClock()), owner: "acc_1" };
    const many = JSON.stringify(Array.from({ length: 60 }, () => Array.from({ length: 10_000 }, () => 1)));
    const some = JSON.stringify(Array.from({ length: 4 }, () => Array.from({ length: 10_000 }, () => 1)));
    for (let again = 0; again < 2; again++) {
      for (const text of [
        `{"a":${many}}`,
        `{"a":${some},"b":"${FILL}"}x`,
        `{"a":${some}}{}`,
        `{"a":${some}}]`,
        `[${some}]`,
      ]) {
        const told = inParts(text, known);
        expect(told).toHaveProperty("fault");
        expect(told).toEqual(atOnce(text));
      }
      expect(inParts(`{"a":${some}}`, known)).not.toHaveProperty("fault");
    }
  });

  test("an object of very many fields is read whole: reading each by itself would take ten times as long", () => {
    const keptOf = (fields: number) => {
      const known = { parts: new KnownParts(manualClock()), owner: "acc_1" };
      const text = `{${Array.from({ length: fields }, (_, at) => `"k${at}":0`).join()},"x":"${FILL}"}`;
      expect(inParts(text, known)).toEqual(atOnce(text));
      return known.parts.kept;
    };
    expect(keptOf(255)).toBeGreaterThan(LARGE_BODY);
    expect(keptOf(20_000)).toBe(keptOf(1_000));
    expect(keptOf(256)).toBeLessThan(keptOf(255));
  });

  test("a conversation that goes on is read from where it was left", () => {
    const parts = new KnownParts(manualClock());
    const known = { parts, owner: "acc_1" };
    const turns = Array.from({ length: 100 }, (_, at) => ({
      role: at % 2 ? "assistant" : "user",
      content: `${at} ${FILL}`,
    }));
    let before: unknown[] = [];
    for (let count = 1; count <= turns.length; count++) {
      const { messages } = checkParts(bytesOf(JSON.stringify({ model: "a/b", messages: turns.slice(0, count) })), known)
        .value as {
        messages: unknown[];
      };
      expect(messages).toEqual(turns.slice(0, count));
      for (const [at, message] of before.entries()) expect(messages[at]).toBe(message);
      before = messages;
    }
    const others = checkParts(bytesOf(JSON.stringify({ messages: turns })), { parts, owner: "acc_2" })
      .value as typeof known & {
      messages: unknown[];
    };
    expect(others.messages[0]).toEqual(before[0]);
    expect(others.messages[0]).not.toBe(before[0]);
  });
});

describe("what is known of earlier bodies", () => {
  const body = (word: string) => bytesOf(JSON.stringify({ messages: [{ role: "user", content: word + FILL }] }));

  test("is bounded", () => {
    const parts = new KnownParts(manualClock(), 10 * LARGE_BODY);
    for (let at = 0; at < 100; at++) {
      checkParts(body(String(at)), { parts, owner: "acc_1" });
      expect(parts.kept).toBeLessThan(10 * LARGE_BODY);
    }
  });

  test("is bounded by the names of fields too", () => {
    const parts = new KnownParts(manualClock(), 10 * LARGE_BODY);
    for (let at = 0; at < 100; at++) {
      checkParts(bytesOf(JSON.stringify({ [`${at}${FILL}`]: 1 })), { parts, owner: "acc_1" });
      if (at === 0) expect(parts.kept).toBeGreaterThan(LARGE_BODY);
      expect(parts.kept).toBeLessThan(10 * LARGE_BODY);
    }
  });

  test("is forgotten when none has come for five minutes", async () => {
    const clock = manualClock();
    const parts = new KnownParts(clock);
    checkParts(body("a"), { parts, owner: "acc_1" });
    await clock.advance(4 * 60_000);
    checkParts(body("b"), { parts, owner: "acc_1" });
    const root = parts.rootOf("acc_1", "messages");
    await clock.advance(4 * 60_000);
    expect(parts.kept).toBeGreaterThan(0);
    await clock.advance(60_000);
    expect(parts.kept).toBe(0);
    expect(parts.rootOf("acc_1", "messages")).not.toBe(root);
    // And so is what comes later.
    await clock.advance(5 * 60_000);
    expect([parts.kept, clock.pending]).toEqual([0, 0]);
  });

  test("has one look to come, however often all was forgotten for its size", () => {
    const clock = manualClock();
    const parts = new KnownParts(clock, 2 * LARGE_BODY);
    for (let at = 0; at < 10; at++) checkParts(body(String(at)), { parts, owner: "acc_1" });
    expect(clock.pending).toBeLessThanOrEqual(1);
  });

  test("is bounded by what may follow one and the same part", () => {
    const parts = new KnownParts(manualClock());
    for (let at = 0; at < 70; at++) checkParts(body(String(at)), { parts, owner: "acc_1" });
    expect(parts.rootOf("acc_1", "messages").next).toHaveLength(64);
  });

  test("cannot be changed by who reads it, at any depth", () => {
    const known = { parts: new KnownParts(manualClock()), owner: "acc_1" };
    const text = JSON.stringify({ messages: [{ content: [{ text: FILL, cache_control: { type: "ephemeral" } }] }] });
    type Message = { content: { cache_control: object }[] };
    const read = () => (checkParts(bytesOf(text), known).value as { messages: [Message] }).messages[0];
    const message = read();
    // Two bodies share it.
    expect(read()).toBe(message);
    const [part] = message.content;
    expect([message, part, part?.cache_control].map(Object.isFrozen)).toEqual([true, true, true]);
  });
});
