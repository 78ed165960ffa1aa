import { expect, test } from "bun:test";
import { outbox } from "../../src/lib/outbox.ts";
import { nextTurn } from "../support/wait.ts";

/** Notes what is sent, by its name. */
function makeNoted() {
  const sent: number[] = [];
  const post = (name: number) => outbox.add({ sendNow: () => void sent.push(name) });
  return { sent, post };
}

test("what is posted in a turn goes out at its end, in its order, once", async () => {
  const { sent, post } = makeNoted();
  post(1);
  await Promise.resolve();
  post(2);
  expect(sent).toEqual([]);
  await nextTurn();
  expect(sent).toEqual([1, 2]);
  await nextTurn();
  expect(sent).toEqual([1, 2]);
});

test("no more than 32 wait, and what is posted behind them goes out with the same turn", async () => {
  const { sent, post } = makeNoted();
  for (let name = 0; name < 31; name++) post(name);
  expect(sent).toEqual([]);
  post(31);
  post(32);
  expect(sent.length).toBe(32);
  await nextTurn();
  expect(sent).toEqual(Array.from({ length: 33 }, (_, name) => name));
});

test("what is posted while others are sent is sent too", async () => {
  const { sent, post } = makeNoted();
  outbox.add({ sendNow: () => post(2) });
  post(1);
  outbox.send();
  expect(sent).toEqual([1]);
  await nextTurn();
  expect(sent).toEqual([1, 2]);
});

test("who has sent something is told when the turn is over, behind all that is sent in it", async () => {
  const told: string[] = [];
  const post = (name: string) =>
    outbox.add({ sendNow: () => void told.push(name), goOn: () => void told.push(`${name} goes on`) });
  post("a");
  outbox.send();
  post("b");
  expect(told).toEqual(["a"]);
  await nextTurn();
  expect(told).toEqual(["a", "b", "a goes on", "b goes on"]);
});
