import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { FrameSplitter, FrameTooLong, MAX_FRAME_CHARACTERS } from "../../src/dialects/frames.ts";

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
    const line = fc.oneof(
      fc.string({ unit: "grapheme" }).map((text) => text.replace(/[\r\n]/g, "")),
      fc.constant(""),
    );
    const record = fc.record({
      event: fc.option(line, { nil: undefined }),
      lines: fc.array(line, { minLength: 1, maxLength: 3 }),
    });
    fc.assert(
      fc.property(
        fc.array(record),
        fc.constantFrom("\n", "\r\n", "\r"),
        fc.array(fc.nat(400)),
        (records, ending, cutPoints) => {
          const document = records
            .map(
              ({ event, lines }) =>
                [...(event === undefined ? [] : [`event: ${event}`]), ...lines.map((text) => `data: ${text}`), ""].join(
                  ending,
                ) + ending,
            )
            .join("");
          const bytes = encode(document);
          const cuts = cutPoints.filter((cut) => cut < bytes.length).sort((a, b) => a - b);
          const wanted = records.map(({ event, lines }) => ({ event, data: lines.join("\n") }));
          expect(split(bytes, cuts)).toEqual(wanted);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  test("a record without end is refused, not gathered for ever", () => {
    const splitter = new FrameSplitter();
    const piece = `data: ${"x".repeat(1024 * 1024)}`;
    expect(() => {
      for (let size = 0; size <= MAX_FRAME_CHARACTERS + piece.length; size += piece.length) splitter.push(piece);
    }).toThrow(FrameTooLong);
  });
});
