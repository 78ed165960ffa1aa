import { expect, test } from "bun:test";
import type { Turn } from "../../src/canon/prompt.ts";
import { mergeTurns } from "../../src/dialects/turns.ts";
import { countWork } from "../support/wait.ts";

const turn = (role: Turn["role"], ...texts: string[]): Turn => ({
  role,
  parts: texts.map((text) => ({ type: "text", text })),
});

test("neighbours of one role become one turn, system turns between them do not part them", () => {
  const merged = mergeTurns([
    turn("user", "a"),
    turn("system", "s"),
    turn("user", "b", "c"),
    turn("user", "d"),
    turn("assistant", "e"),
    turn("user", "f"),
    turn("user", "g"),
  ]);
  expect(merged).toEqual([turn("user", "a", "b", "c", "d"), turn("assistant", "e"), turn("user", "f", "g")]);
});

test("what was given stays as it was, and a turn without such a neighbour is itself", () => {
  const given = [turn("user", "a"), turn("user", "b"), turn("user", "c"), turn("assistant", "d")];
  const before = structuredClone(given);
  expect(mergeTurns(given)[1]).toBe(given[3] as Turn);
  expect(given).toEqual(before);
});

test("a hundred thousand turns of one role are joined in linear time", () => {
  const many = Array.from({ length: 100_000 }, (_, at) => turn("user", String(at)));
  const work = countWork();
  const [only, ...others] = mergeTurns(many);
  expect(work()).toBeLessThan(2_000);
  expect(others).toEqual([]);
  expect(only?.parts).toHaveLength(100_000);
});
