import { expect, test } from "bun:test";
import { Shelf } from "../../src/web/shelf.ts";
import { manualClock } from "../support/clock.ts";

/** A shelf for texts of ten characters in all, each of which stays for a second. */
function startShelf() {
  const clock = manualClock();
  const shelf = new Shelf<string>(clock, { count: 5, size: 10 }, (text) => text.length);
  const put = (name: string, text: string) => shelf.put(name, text, 1_000);
  const kept = () => ["a", "b", "c", "d", "e", "f"].filter((name) => shelf.get(name) !== undefined).join("");
  return { clock, shelf, put, kept };
}

test("what is kept has a bound of size, up to which all of it stays: the oldest goes first", () => {
  const { put, kept } = startShelf();
  for (const [name, text] of Object.entries({ a: "1234", b: "123", c: "123" })) put(name, text);
  expect(kept()).toBe("abc");
  put("d", "1");
  expect(kept()).toBe("bcd");
  put("e", "1234567890");
  expect(kept()).toBe("e");
  put("f", "12345678901");
  expect(kept()).toBe("");
});

test("and one of number", () => {
  const { put, kept } = startShelf();
  for (const name of "abcdef") put(name, "1");
  expect(kept()).toBe("bcdef");
});

test("what is replaced, or was kept for its time, takes no room", async () => {
  const { clock, put, kept } = startShelf();
  for (let times = 0; times < 4; times++) put("a", "1234");
  put("b", "123456");
  expect(kept()).toBe("ab");
  await clock.advance(1_000);
  expect(kept()).toBe("");
  put("c", "1234567890");
  expect(kept()).toBe("c");
});

test("what was asked for again stays longer than what was not", () => {
  const { shelf, put, kept } = startShelf();
  for (const name of "abc") put(name, "123");
  shelf.moveBack("a");
  shelf.moveBack("f");
  put("d", "123");
  expect(kept()).toBe("acd");
});
