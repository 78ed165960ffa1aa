import { afterEach, expect, setSystemTime, test } from "bun:test";
import { newId, randomBase62, toBase62 } from "../../src/lib/id.ts";

afterEach(() => {
  setSystemTime();
});

test("identifiers are unique, and those of a later millisecond sort after those of an earlier one", () => {
  const made: string[] = [];
  for (const at of [1_700_000_000_000, 1_700_000_000_001, 1_700_000_000_061, 1_763_000_000_000, 4_000_000_000_000]) {
    setSystemTime(at);
    for (let count = 0; count < 300; count++) made.push(newId("req"));
  }
  for (const id of made) expect(id).toMatch(/^req_[0-9A-Za-z]{24}$/);
  expect(new Set(made).size).toBe(made.length);
  // The random part orders those of one millisecond, so blocks of 300 are compared.
  const blocks = Array.from({ length: 5 }, (_, at) => made.slice(at * 300, at * 300 + 300).sort());
  expect(blocks.flat()).toEqual([...made].sort());
});

test("base62 uses all its characters, and numbers keep their order and width", () => {
  expect(new Set(randomBase62(20_000)).size).toBe(62);
  expect([toBase62(0, 2), toBase62(61, 2), toBase62(62, 2), toBase62(2 ** 32 - 1, 6)]).toEqual([
    "00",
    "0z",
    "10",
    "4gfFC3",
  ]);
});
