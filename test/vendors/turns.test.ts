import { expect, test } from "bun:test";
import { type Taker, Turns } from "../../src/vendors/http/turns.ts";
import { nextTurn } from "../support/wait.ts";

const NOTHING: Taker = { onTurn() {}, onMore() {} };

/** Turns in which others always have more to do: each who is called is there again at once. */
function busyTurns() {
  const turns = new Turns();
  let goesOn = true;
  const busy: Taker = {
    onTurn: () => void (goesOn && turns.add(busy)),
    onMore: () => void (goesOn && turns.addWanting(busy)),
  };
  const stop = () => {
    goesOn = false;
  };
  return { turns, busy, stop };
}

test("who has waited longest has a turn, and gets more, while others keep coming", async () => {
  const { turns, busy, stop } = busyTurns();
  const told: string[] = [];
  turns.add({ onTurn: () => void told.push("turn"), onMore() {} });
  turns.addWanting({ onTurn() {}, onMore: () => void told.push("more") });
  turns.add(busy);
  for (let turn = 0; turn < 20; turn++) await nextTurn();
  stop();
  expect(told.sort()).toEqual(["more", "turn"]);
});

test("who has got more is not held, though somebody always waits for it", async () => {
  const { turns, busy, stop } = busyTurns();
  turns.addWanting(busy);
  turns.addWanting(busy);
  const given: WeakRef<Taker>[] = [];
  for (let count = 0; count < 200; count++) {
    const taker = { ...NOTHING };
    given.push(new WeakRef(taker));
    turns.addWanting(taker);
    await nextTurn();
    await nextTurn();
  }
  await Bun.sleep(1);
  Bun.gc(true);
  stop();
  expect(given.filter((one) => one.deref()).length).toBeLessThan(100);
});
