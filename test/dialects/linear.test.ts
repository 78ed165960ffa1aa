import { describe, expect, test } from "bun:test";
import type { Orders } from "../../src/canon/intent.ts";
import { BlockWriter } from "../../src/dialects/chat/block-writer.ts";
import { ThinkSplitter } from "../../src/dialects/chat/think-tags.ts";
import { type ToolFragment, ToolTracker } from "../../src/dialects/chat/tool-calls.ts";
import { type DialectName, UPSTREAM_DIALECTS, type UpstreamDialectName } from "../../src/dialects/dialect.ts";
import { dialects, upstreamDialects } from "../../src/dialects/index.ts";
import { Lines, OnceLines } from "../../src/dialects/lines.ts";
import { parseDataUrl } from "../../src/dialects/media/url.ts";
import { weave } from "../../src/dialects/reasoning/replay.ts";
import { plainFaults } from "../../src/dialects/refusals/python-faults.ts";
import { innerError } from "../../src/dialects/refusals/upstream-error.ts";
import { toInputSchema } from "../../src/dialects/schema/input-schema.ts";
import { toStrictSchema } from "../../src/dialects/schema/strict-schema.ts";
import { InputReader } from "../../src/dialects/tools/custom-tools.ts";
import { DistinctNames } from "../../src/dialects/tools/distinct-names.ts";
import { toInput } from "../../src/dialects/tools/tool-input.ts";
import { JsonText, type ObjectText } from "../../src/lib/json-text.ts";
import { translateWhole } from "../support/translate.ts";
import { countWork, leastWork } from "../support/wait.ts";

const ORDERS: Orders = {
  upstreamModel: "m",
  stream: true,
  reasoning: { kind: "nothing" },
  isReasoningActive: false,
  dropSampling: false,
  remove: [],
};

const times = <T>(count: number, make: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at));
const use = (at: number, id = `toolu_${at}`) => ({ type: "tool_use", id, name: "run", input: { at } });
const result = (at: number, content: unknown = "ok", id = `toolu_${at}`) => ({
  type: "tool_result",
  tool_use_id: id,
  content,
});
const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgoAAAANSUhEUg" } };
const asking = { role: "user", content: "go" };

/** Requests that repeat one thing as often as they are told: none may cost more than their length. */
const REPEATED: Record<string, (count: number) => unknown[]> = {
  "calls of one id": (count) => [
    asking,
    { role: "assistant", content: times(count, (at) => use(at, "same")) },
    { role: "user", content: times(count, (at) => result(at, "ok", "same")) },
  ],
  "turns of one call id": (count) => [
    asking,
    ...times(count, (at) =>
      at % 2 === 0
        ? { role: "assistant", content: [use(at, "same")] }
        : { role: "user", content: [result(at, "ok", "same")] },
    ),
  ],
  "results without a call": (count) => [{ role: "user", content: times(count, (at) => result(at, "ok", "same")) }],
  "parallel calls": (count) => [
    asking,
    { role: "assistant", content: times(count, (at) => use(at)) },
    { role: "user", content: times(count, (at) => result(at)) },
  ],
  "pictures in a result": (count) => [
    asking,
    { role: "assistant", content: [use(1)] },
    {
      role: "user",
      content: [
        result(
          1,
          times(count, () => image),
        ),
      ],
    },
  ],
  "blocks that other vendors cannot be told, before as many that they can": (count) => [
    {
      role: "user",
      content: [
        ...times(count, () => ({ type: "of_another_kind" })),
        ...times(count, (at) => ({ type: "text", text: `hi ${at}` })),
      ],
    },
  ],
  "turns of the user": (count) => times(count, (at) => ({ role: "user", content: `hi ${at}` })),
};

type Translated = { ms: number; text: string };

/** CPU time, which other processes do not lengthen; the better of two runs, as the first may compile or collect. */
function timeOf(body: unknown, from: DialectName, to: UpstreamDialectName): Translated {
  let best: Translated | undefined;
  for (let run = 0; run < 2; run++) {
    const json: ObjectText = new JsonText(JSON.stringify(body));
    const work = countWork();
    const { text } = translateWhole(json, dialects[from], upstreamDialects[to], { orders: ORDERS, quirks: {} });
    const ms = work();
    if (!best || ms < best.ms) best = { ms, text };
  }
  return best as Translated;
}

const FEW = 500;
const MANY = 8_000;
/** Sixteen times as much may take so many times as long; the square would be 256. */
const MOST = 120;
/** Below this a measure is noise, milliseconds. */
const NOISE = 8;

function expectLinear(few: Translated, many: Translated): void {
  expect(many.text.length).toBeGreaterThan(few.text.length * 8);
  expect(many.ms / Math.max(few.ms, NOISE)).toBeLessThan(MOST);
}

describe("the time of a translation grows with the request, not with its square", () => {
  for (const [name, make] of Object.entries(REPEATED)) {
    for (const to of UPSTREAM_DIALECTS) {
      test(`${name}, messages → ${to}`, () => {
        const [few, many] = [FEW, MANY].map((count) =>
          timeOf({ model: "x/m", max_tokens: 9, messages: make(count) }, "messages", to),
        ) as [Translated, Translated];
        expectLinear(few, many);
        if (to !== "chat" && to !== "responses") return;
        // The same back from the dialect it was brought into.
        const back = ({ text }: Translated) => timeOf({ ...JSON.parse(text), model: "x/m" }, to, "messages");
        expectLinear(back(few), back(many));
      });
    }
  }
});

const fragmentOf = (fields: Partial<ToolFragment>): ToolFragment => ({
  index: undefined,
  id: "",
  name: "",
  arguments: "",
  custom: false,
  ...fields,
});

/** A reply's calls from the fragments they come in. */
function writeCalls(fragments: readonly ToolFragment[]): void {
  const writer = new BlockWriter();
  const tools = new ToolTracker();
  for (const fragment of fragments) writer.tool(tools.add(fragment, ""), fragment.arguments, []);
}

describe("the time of a call's arguments grows with them, not with their square", () => {
  const SHORT = 5_000;
  const LONG = 80_000;
  const ways: Record<string, (piece: string, count: number) => void> = {
    "as a function's in the chat dialect"(piece, count) {
      const writer = new BlockWriter();
      const tools = new ToolTracker();
      const fragment = { index: 0, id: "c", name: "write", arguments: '{"text":"', custom: false };
      writer.tool(tools.add(fragment, ""), fragment.arguments, []);
      for (let at = 0; at < count; at++) {
        const next = { ...fragment, name: "", arguments: piece };
        writer.tool(tools.add(next, ""), piece, []);
      }
    },
    "as text in the chat dialect, sent as JSON inside a string"(piece, count) {
      const writer = new BlockWriter();
      const tools = new ToolTracker();
      const fragment = { index: 0, id: "c", name: "write", arguments: '"{', custom: false };
      writer.tool(tools.add(fragment, ""), fragment.arguments, []);
      for (let at = 0; at < count; at++) {
        writer.tool(tools.add({ ...fragment, name: "", arguments: piece }, ""), piece, []);
      }
    },
    "as a function's, behind white space"(piece, count) {
      const start = fragmentOf({ index: 0, id: "c", name: "write" });
      const more = fragmentOf({ index: 0, arguments: " ".repeat(piece.length) });
      writeCalls([start, ...times(count, () => more), fragmentOf({ index: 0, arguments: "{}" })]);
    },
    "of two calls by turns"(piece, count) {
      const start = [0, 1].map((index) =>
        fragmentOf({ index, id: `c${index}`, name: "write", arguments: '{"text":[' }),
      );
      const more = [0, 1].map((index) => fragmentOf({ index, arguments: `{"${piece}":1},{}` }));
      writeCalls([...start, ...times(count, (at) => more[at % 2] as ToolFragment)]);
    },
    "under a name that is repeated, and no id"(piece, count) {
      const start = fragmentOf({ index: 0, name: "write", arguments: '{"text":[' });
      const more = { ...start, arguments: `{"${piece}":1},{}` };
      writeCalls([start, ...times(count, () => more)]);
    },
    "of many calls without a number"(_piece, count) {
      writeCalls(times(count, (at) => fragmentOf({ id: `c${at}`, name: "run", arguments: "{}" })));
    },
    "of a custom tool, under another name than its own"(piece, count) {
      const reader = new InputReader();
      reader.push('{"text":"');
      for (let at = 0; at < count; at++) reader.push(piece);
    },
  };
  for (const [name, run] of Object.entries(ways)) {
    test(name, () => {
      const [short, long] = [SHORT, LONG].map((count) => leastWork(() => run("abcdefgh", count), 4)) as [
        number,
        number,
      ];
      // Half of what the others may take: one that reads all before it again would take four times this.
      expect(long / Math.max(short, NOISE)).toBeLessThan(MOST / 2);
    });
  }
});

test("the time of a strict schema grows with its properties, not with their square", () => {
  const strictTime = (count: number): number => {
    const names = times(count, (at) => `p${at}`);
    const properties = Object.fromEntries(names.map((name) => [name, { type: "string" }]));
    const schema = { type: "object", properties, required: names, additionalProperties: false };
    expect(toStrictSchema(schema)).toEqual(schema);
    return leastWork(() => toStrictSchema(schema), 3);
  };
  expect(strictTime(32_000) / Math.max(strictTime(2_000), NOISE)).toBeLessThan(MOST / 2);
});

test("the time of a tool's schema grows with its branches and what they all refer to, not with both at once", () => {
  const time = (count: number): number => {
    const names = times(count, (at) => `p${at}`);
    const properties = Object.fromEntries(names.map((name) => [name, {}]));
    const allOf = times(count, () => ({ $ref: "#/$defs/a" }));
    const schema = { allOf, $defs: { a: { properties, required: names } } };
    expect(toInputSchema(schema)).toMatchObject({ properties, required: names });
    return leastWork(() => toInputSchema(schema), 3);
  };
  expect(time(8_000) / Math.max(time(500), NOISE)).toBeLessThan(MOST / 2);
});

describe("what may be reasoning is read as it comes, however long it is held", () => {
  /** Beside two runs of one length a copy of all that is held, at every piece, is told by how they grow. */
  const timeOfPieces = (piece: string, count: number) =>
    leastWork(() => {
      const splitter = new ThinkSplitter(true);
      for (let at = 0; at < count; at++) splitter.push(piece);
    }, 4);

  test("white space before the first word", () => {
    expect(timeOfPieces(" ", 80_000) / Math.max(timeOfPieces(" ", 5_000), NOISE)).toBeLessThan(MOST / 2);
  });

  test("text without an opening tag, held until the closing one", () => {
    expect(timeOfPieces("a", 64_000) / Math.max(timeOfPieces("a", 4_000), NOISE)).toBeLessThan(MOST / 8);
  });
});

test("remembered reasoning is put between many calls by looking at each of them once", () => {
  const count = 2_000;
  const items = times(count, (at) => `call ${at}`);
  // The client has left every other one out.
  const calls = times(count * 2, (at) => ({ kind: "tool-call" as const, id: `call ${at / 2}` }));
  let looks = 0;
  const woven = weave([{ kind: "reasoning", text: "thought" }, ...calls], items, {
    isText: () => false,
    isReasoning: () => false,
    make: () => "thought",
    sign: (item) => item,
    callIdOf(item) {
      looks++;
      return item;
    },
  });
  expect(woven).toEqual(["thought", ...items]);
  expect(looks).toBe(count);
});

describe("lines and names", () => {
  test("first come, first served, by key", () => {
    const lines = new Lines<string, number>();
    for (const [key, value] of [
      ["a", 1],
      ["b", 2],
      ["a", 3],
      ["a", 4],
    ] as const)
      lines.add(key, value);
    expect([lines.take("a"), lines.take("a"), lines.take("a")]).toEqual([1, 3, 4]);
    expect(lines.take("a")).toBeUndefined();
    expect(lines.take("nobody")).toBeUndefined();
    lines.add("a", 5);
    expect(lines.takeAll()).toEqual([5, 2]);
    expect(lines.takeAll()).toEqual([]);
  });

  test("and once: what was handed out by itself is passed over for good", () => {
    const lines = new OnceLines<string, { at: number }>();
    const [first, second, third] = [{ at: 1 }, { at: 2 }, { at: 3 }] as const;
    for (const value of [first, second, third]) lines.add("a", value);
    expect(lines.claim(first)).toBe(true);
    expect(lines.claim(first)).toBe(false);
    expect(lines.take("a")).toBe(second);
    expect(lines.claim(second)).toBe(false);
    expect([lines.take("a"), lines.take("a")]).toEqual([third, undefined]);
  });

  test("a name is given once, also one that was meant for another", () => {
    const names = new DistinctNames();
    const take = (name: string) => names.take(name, (count) => (count === 1 ? name : `${name}_${count}`));
    expect(["a", "a_2", "a", "a", "a_2", "b"].map(take)).toEqual(["a", "a_2", "a_3", "a_4", "a_2_2", "b"]);
  });
});

describe("what stands inside a string, where a body's own bounds do not reach, is read at the speed of its length", () => {
  const SIZE = 1_000_000;
  const RUNS = 3;

  test.each([
    ["a list of many numbers", `[1${",1".repeat(SIZE)}]`, 6],
    ["a list of many lists", `[[]${",[]".repeat(SIZE / 2)}]`, 6],
    ["brackets without end", "[".repeat(SIZE) + "]".repeat(SIZE), 0.5],
  ])("a call's arguments: %s", (_what, text, most) => {
    const parsed = leastWork(() => JSON.parse(text), RUNS);
    expect(leastWork(() => toInput(text), RUNS)).toBeLessThan(parsed * most);
  });

  test("the parameters of a data: URL", () => {
    const url = `data:image/png${";a=b".repeat(SIZE)};base64,iVBORw0KGgo=`;
    const split = leastWork(() => url.split(";"), RUNS);
    expect(leastWork(() => parseDataUrl(url), RUNS)).toBeLessThan(split);
    expect(parseDataUrl(url)).toEqual({ mediaType: "image/png", data: "iVBORw0KGgo=" });
  });

  test("a vendor's list of faults of which none is whole", () => {
    const readAt = (count: number) => {
      const words = `[${"{'type': 'x', 'loc': (".repeat(count)}`;
      return leastWork(() => plainFaults(words), RUNS);
    };
    expect(readAt(8_000)).toBeLessThan(readAt(1_000) * 24);
  });

  test.each(["message", "code"])("a vendor's error inside a 200, by its %s", (field) => {
    const text = JSON.stringify({ error: { message: "No.", [field]: "a".repeat(10 * SIZE) } });
    const error: unknown = JSON.parse(text);
    const parsed = leastWork(() => JSON.parse(text), RUNS);
    expect(leastWork(() => innerError(error), RUNS)).toBeLessThan(Math.max(parsed, NOISE) * 4);
    expect(innerError(error).message.length).toBeLessThan(500);
  });
});
