import { heapStats } from "bun:jsc";
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { chat } from "../../src/dialects/chat/index.ts";
import { FrameSplitter, FrameTooLong, MAX_FRAME_CHARACTERS, MAX_FRAME_LINES } from "../../src/dialects/frames.ts";
import { countWork } from "../support/wait.ts";

type Record = { event: string | undefined; data: string };

/** All frames of a byte sequence cut at `cuts`, through an incremental decoder as the relay uses it. */
function split(bytes: Uint8Array, cuts: readonly number[]): Record[] {
  const splitter = new FrameSplitter();
  const decoder = new TextDecoder();
  const found: Record[] = [];
  const take = (frames: readonly Record[]) => found.push(...frames.map(({ event, data }) => ({ event, data })));
  let from = 0;
  for (const cut of [...cuts, bytes.length]) {
    take(splitter.push(decoder.decode(bytes.subarray(from, cut), { stream: true })));
    from = cut;
  }
  take(splitter.push(decoder.decode()));
  take(splitter.end());
  return found;
}

const encode = (text: string) => new TextEncoder().encode(text);

/** LF, CRLF, CR and mixtures, comments, a BOM, no space after the colon, several data lines, an unfinished last record. */
const NASTY =
  '\ufeff: hello\n\ndata: {"a":"é😀"}\n\nevent: ping\r\ndata:{"type":"ping"}\r\n\r\n:\r\rdata: one\rdata: two\r\rid: 7\nretry: 10\n\n\n\n' +
  "event:  spaced\ndata:  two spaces\n\nunknown\ndata\n\ndata: [DONE]\r\n\r\ndata: tail";
const EXPECTED: Record[] = [
  { event: undefined, data: '{"a":"é😀"}' },
  { event: "ping", data: '{"type":"ping"}' },
  { event: undefined, data: "one\ntwo" },
  { event: " spaced", data: " two spaces" },
  { event: undefined, data: "" },
  { event: undefined, data: "[DONE]" },
  { event: undefined, data: "tail" },
];

/** Text that a field may hold: what ends lines elsewhere (NEL, LS, FF) ends none here, and neither does NUL. */
const value = fc
  .oneof(
    fc.string({ unit: "grapheme", maxLength: 8 }),
    fc.string({ unit: "binary", maxLength: 8 }),
    fc.constantFrom("", " ", "  x", ":", "\0", "\u0085", "\u2028", "\f", "\ufeff", "[DONE]", '{"a":"é😀"}'),
  )
  .map((text) => text.replace(/[\r\n]/g, ""));
const line = fc.oneof(
  { weight: 4, arbitrary: value.map((text) => `data: ${text}`) },
  ...["data:", "event: ", "event:", "id: ", "retry: ", ": ", ":", "Data: ", "data", ""].map((field) =>
    value.map((text) => field + text),
  ),
  { weight: 3, arbitrary: fc.constant("") },
);
/** Lines in any order, each with an ending of its own, a mark in front or not. */
const documents = fc
  .tuple(
    fc.boolean(),
    fc.array(fc.tuple(line, fc.oneof({ weight: 4, arbitrary: fc.constant("\n") }, fc.constantFrom("\r\n", "\r"))), {
      maxLength: 14,
    }),
    fc.oneof(fc.constant(""), line),
  )
  .map(([marked, lines, rest]) => (marked ? "\ufeff" : "") + lines.map((each) => each.join("")).join("") + rest);

/**
 * The same by the letter of the specification, with the whole text at hand; but a last record needs no blank line, and one without data that begins an object
 * is data itself.
 */
function readAtLeisure(text: string): Record[] {
  const found: Record[] = [];
  let event: string | undefined;
  let data: string | undefined;
  let raw = "";
  let before = "";
  for (const [, each = "", ending = ""] of `${text.replace(/^\ufeff/, "")}\n\n`.matchAll(/([^\r\n]*)(\r\n|\r|\n)/g)) {
    if (each === "") {
      if (data !== undefined) found.push({ event, data });
      else if (raw.startsWith("{")) found.push({ event: undefined, data: raw });
      event = data = undefined;
      raw = before = "";
      continue;
    }
    raw += before + each;
    before = ending;
    const [, field = each, told = ""] = /^([^:]*):? ?(.*)$/s.exec(each) ?? [];
    if (field === "event") event = told;
    else if (field === "data") data = data === undefined ? told : `${data}\n${told}`;
  }
  return found;
}

describe("FrameSplitter", () => {
  test("reads every ending, at every one- and two-cut of the bytes, and byte by byte", () => {
    const bytes = encode(NASTY);
    expect(split(bytes, [])).toEqual(EXPECTED);
    expect(split(bytes, Array.from(bytes.keys()))).toEqual(EXPECTED);
    for (let first = 0; first <= bytes.length; first++) {
      expect(split(bytes, [first])).toEqual(EXPECTED);
      for (let second = first; second <= bytes.length; second += 1) {
        if (Bun.deepEquals(split(bytes, [first, second]), EXPECTED)) continue;
        throw new Error(`cut at ${first} and ${second}`);
      }
    }
  });

  test("any document, any ending, any cuts: the same frames as whole", () => {
    fc.assert(
      fc.property(documents, fc.array(fc.nat(400)), (document, cutPoints) => {
        const bytes = encode(document);
        const cuts = cutPoints.filter((cut) => cut < bytes.length).sort((a, b) => a - b);
        expect(split(bytes, cuts)).toEqual(readAtLeisure(new TextDecoder().decode(bytes)));
      }),
      { numRuns: 20_000 },
    );
  });

  test.each(["\n", "\r\n", "\r"])(
    "a record of megabytes costs its length, not its square: lines end with %j",
    (end) => {
      const cpuOf = (characters: number) => {
        const text = `data: 1${end}${end}data: "${"x".repeat(characters)}"${end}data: 2${end}${end}: over${end}`;
        const splitter = new FrameSplitter();
        const frames: number[] = [];
        const work = countWork();
        for (let at = 0; at < text.length; at += 16 * 1024) {
          for (const { data } of splitter.push(text.slice(at, at + 16 * 1024))) frames.push(data.length);
        }
        const tookMs = work();
        expect(frames).toEqual([1, characters + 4]);
        return tookMs;
      };
      cpuOf(512 * 1024);
      const [few, many] = [cpuOf(512 * 1024), cpuOf(8 * 1024 * 1024)];
      expect(many / Math.max(few, 8)).toBeLessThan(40);
    },
  );

  test("a record without end is refused, not gathered for ever", () => {
    const splitter = new FrameSplitter();
    const piece = `data: ${"x".repeat(1024 * 1024)}`;
    expect(() => {
      for (let size = 0; size <= MAX_FRAME_CHARACTERS + piece.length; size += piece.length) splitter.push(piece);
    }).toThrow(FrameTooLong);
  });

  test.each([
    ["line feeds", "data: x\n"],
    ["carriage returns", "data: x\r"],
    ["both", "data: x\r\n"],
    ["both, cut between them", "\ndata: x\r"],
    ["comments", ": x\n"],
  ])("a record of lines without end is refused, and soon: %s", (_what, line) => {
    const splitter = new FrameSplitter();
    const border = line.startsWith("\n") ? "\ndata: x" : "";
    const piece = border + line.repeat(Math.ceil((64 * 1024) / line.length));
    const work = countWork();
    expect(() => {
      for (let size = 0; size <= MAX_FRAME_CHARACTERS + 2 * piece.length; size += piece.length) splitter.push(piece);
    }).toThrow(FrameTooLong);
    // Each piece put to all before it takes a minute.
    expect(work()).toBeLessThan(5_000);
  });

  test("a record of more lines than anybody writes is refused", () => {
    const lines = "data: x\n".repeat(MAX_FRAME_LINES);
    expect(new FrameSplitter().push(`${lines}\n`).map(({ data }) => data.length)).toEqual([2 * MAX_FRAME_LINES - 1]);
    expect(() => new FrameSplitter().push(`${lines}data: x\n\n`)).toThrow(FrameTooLong);
    const splitter = new FrameSplitter();
    splitter.push(`${lines}data: x`);
    expect(() => splitter.end()).toThrow(FrameTooLong);
  });

  test("behind much that waits, records end where they do in one piece", () => {
    const piece = fc.constantFrom("\r", "\n", "\r\n", "\n\n", "\r\r", "data: a", "x");
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), fc.constantFrom("\n", "\r", "\r\n", ""), (pieces, ending) => {
        const long = `data: ${"x".repeat(40_000)}${ending}`;
        const whole = new FrameSplitter();
        const cut = new FrameSplitter();
        const expected = [...whole.push(long + pieces.join("")), ...whole.end()];
        const found = [long, ...pieces].flatMap((text) => cut.push(text)).concat(cut.end());
        expect(found.map(({ data }) => data)).toEqual(expected.map(({ data }) => data));
      }),
      { numRuns: 2_000 },
    );
  });

  test.each(["\n", "\r", "\r\n"])(
    "a record in many pieces is given with the last of them: lines end with %j",
    (end) => {
      const splitter = new FrameSplitter();
      const line = `data: ${"x".repeat(100)}${end}`;
      const record = line.repeat(700);
      for (const text of [record.slice(0, 40_000), record.slice(40_000, 50_000), record.slice(50_000)]) {
        expect(splitter.push(text)).toEqual([]);
      }
      for (const [index, character] of [...end].entries()) {
        const given = splitter.push(character);
        // Behind a carriage return a line feed may come.
        const isWhole = index === end.length - 1 && end !== "\r";
        expect(given.length).toBe(isWhole ? 1 : 0);
      }
      if (end === "\r") expect(splitter.push("d").length).toBe(1);
    },
  );

  test("what waits for the rest of its record is held, and not all that it came with", () => {
    const record = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "x".repeat(1_000) } }] })}\n\n`;
    const bytes = Buffer.from(record.repeat(64) + record.slice(0, 500));
    Bun.gc(true);
    const before = heapStats().extraMemorySize;
    const streams = Array.from({ length: 100 }, () => {
      const splitter = new FrameSplitter();
      const decoder = chat.decoder({ quirks: {} });
      splitter.add(bytes.toString());
      for (let frame = splitter.next(); frame; frame = splitter.next(decoder.pattern)) decoder.push(frame);
      return { splitter, decoder };
    });
    Bun.gc(true);
    const held = heapStats().extraMemorySize - before;
    expect(held / streams.length).toBeLessThan(bytes.length / 8);
    for (const { splitter } of streams) expect(splitter.push(record.slice(500))).toHaveLength(1);
  });
});
