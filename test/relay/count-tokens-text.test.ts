import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { countText } from "../../src/relay/tokenizer/count-text.ts";
import { cutRuns, MAX_RUN } from "../../src/relay/tokenizer/cut.ts";
import { countPdfPages } from "../../src/relay/tokenizer/pdf-pages.ts";
import { countWork } from "../support/wait.ts";

/** Counts made with another implementation of the same vocabulary. */
const EXACT: readonly (readonly [text: string, tokens: number])[] = [
  ["", 0],
  ["Hello, world!", 4],
  ["The gate stands open from dawn to dusk; whoever brings a key may pass.", 16],
  ['fn main() {\n    let total: u64 = (1..=100).sum();\n    println!("{total}");\n}\n', 25],
  [
    '{"name":"get_tide","parameters":{"type":"object","properties":{"harbour":{"type":"string"}},"required":["harbour"]}}',
    29,
  ],
  ["Überraschend großzügig öffnete der Schleusenwärter das Tor.", 15],
  ["闸门从早到晚都开着，带着钥匙的人都可以通过。", 20],
  ["水門は夜明けから日暮れまで開いている。", 15],
  ["Шлюз открыт от рассвета до заката.", 12],
  ["بوابة السد مفتوحة من الفجر حتى الغسق.", 14],
  ["🔑🚪 → 👩‍🚀", 10],
  ["1234567890 3.14159 2026-11-21", 16],
  ["<|endoftext|> is only text here <|im_start|>", 17],
  ["\t\t\tif (x) {\n\n\n\t\t}\r\n        return;", 12],
  ["  leading and trailing  ", 5],
  ["don't we'll they'd I'm YOU'RE", 7],
];

describe("counting a text", () => {
  test.each(EXACT.map(([text, tokens]) => ({ shown: JSON.stringify(text), text, tokens })))(
    "$tokens tokens: $shown",
    ({ text, tokens }) => {
      expect(countText(text).tokens).toBe(tokens);
    },
  );

  test("characters outside ASCII are counted apart", () => {
    expect(countText("Übergroß").wide).toBe(2);
    expect(countText("plain").wide).toBe(0);
  });

  // Each is one word, or one run, to the vocabulary: encoded whole it would cost the square of its length, minutes for this much.
  const MEGABYTE = 1_000_000;
  const HOSTILE: readonly (readonly [name: string, piece: string, first?: string])[] = [
    ["one letter", "a"],
    ["capitals", "A"],
    ["two letters", "xq"],
    ["blanks", " "],
    ["exclamation marks", "!"],
    ["line ends and slashes", "\n/"],
    ["accented letters", "é"],
    ["an ideograph", "门"],
    ["an ideograph behind a digit", "门", "1"],
    ["combining marks", "\u0301"],
    ["half of a pair", "\ud83d"],
  ];
  const hostile = HOSTILE.map(([name, piece, first = ""]) => ({ name, piece, first }));
  test.each(hostile)("a megabyte of $name takes no time", ({ piece, first }) => {
    const text = first + piece.repeat(MEGABYTE / piece.length);
    const work = countWork();
    const { tokens } = countText(text);
    // 0.2 s at the most on an idle core; the limit leaves room for a slower one and is far below what the square would take.
    expect(work()).toBeLessThan(3_000);
    expect(tokens).toBeGreaterThan(MEGABYTE / 200);
    expect(tokens).toBeLessThan(MEGABYTE * 3);
  });

  test("twice the length is twice the count", () => {
    const once = countText("qzxj".repeat(5_000)).tokens;
    expect(countText("qzxj".repeat(10_000)).tokens / once).toBeCloseTo(2, 1);
  });
});

describe("cutting runs", () => {
  const piece = fc.oneof(
    fc.string({ unit: "grapheme", maxLength: 300 }),
    fc.tuple(fc.string({ unit: "binary", minLength: 1, maxLength: 3 }), fc.nat(600)).map(([s, n]) => s.repeat(n)),
  );
  const longText = fc.array(piece, { maxLength: 6 }).map((parts) => parts.join(""));

  test("loses nothing, splits no character, and leaves no long run of one kind", () => {
    fc.assert(
      fc.property(longText, (text) => {
        const { pieces } = cutRuns(text);
        expect(pieces.join("")).toBe(text);
        if (text.isWellFormed()) for (const each of pieces) expect(each.isWellFormed()).toBe(true);
        for (const each of pieces) {
          expect(each.match(/[A-Za-z]{66}/)).toBeNull();
          expect(each.match(/[ -/]{130}/)).toBeNull();
        }
      }),
    );
  });

  test("what has no long runs comes back whole, and costs exactly the same when it is cut at words", () => {
    const prose = "The lock keeper opened the gate. ".repeat(50);
    expect(cutRuns(prose).pieces).toEqual([prose]);
    const russian = "Шлюз открыт от рассвета до заката. ".repeat(50);
    expect(cutRuns(russian).pieces.length).toBeGreaterThan(1);
    expect(countText(russian).tokens).toBe(countTokens(russian));
  });

  test("a run of exactly the limit stays whole, one more is cut", () => {
    expect(cutRuns("a".repeat(MAX_RUN.word)).pieces.length).toBe(1);
    expect(cutRuns("a".repeat(MAX_RUN.word + 1)).pieces.length).toBe(2);
    expect(cutRuns("-".repeat(MAX_RUN.marks)).pieces.length).toBe(1);
    expect(cutRuns("-".repeat(MAX_RUN.marks + 1)).pieces.length).toBe(2);
  });
});

describe("the pages of a PDF", () => {
  const base64 = (text: string) => Buffer.from(text, "latin1").toString("base64");
  const page = `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << >> >>${" ".repeat(60)}\n`;

  test("its page objects are counted, its page trees are not", () => {
    const text = `%PDF-1.4\n<< /Type /Pages /Kids [] >>\n${page.repeat(3)}<</Type/Page>>${" ".repeat(100)}`;
    expect(countPdfPages(base64(text))).toBe(4);
  });

  test("the tree's count and a linearised head are believed as far as the bytes can hold them", () => {
    expect(countPdfPages(base64(`%PDF-1.4 << /Type /Pages /Count 12 >>${" ".repeat(5_000)}`))).toBe(12);
    expect(countPdfPages(base64(`%PDF-1.4 << /Linearized 1 /N 7 >>${" ".repeat(5_000)}`))).toBe(7);
    expect(countPdfPages(base64("%PDF-1.4 << /Type /Pages /Count 999999 >>"))).toBe(1);
  });

  test("a file that hides its structure counts by its size, never as nothing", () => {
    expect(countPdfPages(base64(`%PDF-1.7 ${"x".repeat(160_000)}`))).toBe(10);
    expect(countPdfPages(base64("%PDF-1.7"))).toBe(1);
    expect(countPdfPages("JVBERi")).toBe(1);
  });
});
