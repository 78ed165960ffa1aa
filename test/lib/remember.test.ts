import { expect, test } from "bun:test";
import { remember } from "../../src/lib/remember.ts";

/** A remembering length of names, and the names that it was really asked for. */
function watched() {
  const asked: string[] = [];
  const lengthOf = remember((name) => {
    asked.push(name);
    return name.length;
  });
  return { asked, lengthOf };
}

test("each name is asked for once, and answered as itself", () => {
  const { asked, lengthOf } = watched();
  expect([lengthOf("a"), lengthOf("bb"), lengthOf("a"), lengthOf("bb"), lengthOf("a")]).toEqual([1, 2, 1, 2, 1]);
  expect(asked).toEqual(["a", "bb"]);
});

test("names that a client made long are answered and not kept", () => {
  const { asked, lengthOf } = watched();
  const long = "x".repeat(201);
  expect([lengthOf(long), lengthOf(long)]).toEqual([201, 201]);
  expect(asked).toHaveLength(2);
});

test("however many names there are, only so many are kept", () => {
  const { asked, lengthOf } = watched();
  for (let at = 0; at < 1_001; at++) lengthOf(String(at));
  expect(asked).toHaveLength(1_001);
  expect(lengthOf("0")).toBe(1);
  expect(asked).toHaveLength(1_002);
  // The newest is known still.
  expect(lengthOf("1000")).toBe(4);
  expect(asked).toHaveLength(1_002);
});

test("an answer that cannot be given is asked for again", () => {
  let asked = 0;
  const refuse = remember((): string => {
    asked++;
    throw new Error("no such name");
  });
  expect(() => refuse("a")).toThrow("no such name");
  expect(() => refuse("a")).toThrow("no such name");
  expect(asked).toBe(2);
});
