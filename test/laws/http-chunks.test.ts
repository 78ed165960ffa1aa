import { expect, test } from "bun:test";
import fc from "fast-check";
import { writeChunk } from "../../src/lib/http1/fields.ts";

const repeated = fc.tuple(fc.string({ unit: "binary", minLength: 1 }), fc.constantFrom(1, 7, 1_000, 30_000));
const heads = fc.constantFrom("", "HTTP/1.1 200 OK\r\nx: \xe9\r\n\r\n");
const texts = repeated.map(([text, times]) => text.repeat(times));

test("a text as a chunk says its size in bytes, whatever it holds and however long it is", () => {
  fc.assert(
    fc.property(heads, texts, fc.constantFrom("\r\n", "\r\n0\r\n\r\n"), (head, text, end) => {
      const body = Buffer.from(text);
      const before = Buffer.from(`${head}${body.length.toString(16)}\r\n`, "latin1");
      const chunk = Buffer.concat([before, body, Buffer.from(end)]);
      expect(Buffer.from(writeChunk(head, text, end)).equals(chunk)).toBe(true);
    }),
    { numRuns: 300 },
  );
});

test("a chunk of nothing, and those at the ends of what is lent", () => {
  for (const length of [0, 1, 15, 16, 255, 256, 21_839, 21_840, 349_520, 349_521, 1_100_000]) {
    const text = "é".repeat(length);
    expect(Buffer.from(writeChunk("", text, "\r\n")).toString("latin1")).toBe(
      `${(length * 2).toString(16)}\r\n${Buffer.from(text).toString("latin1")}\r\n`,
    );
  }
});
