import { expect, test } from "bun:test";
import { Places } from "../../src/web/safe-fetch/places.ts";
import { gate } from "../support/wait.ts";

const NEVER = new AbortController().signal;

test("whoever leaves while waiting frees no place, and the next one gets the place that is given back", async () => {
  const places = new Places(1);
  const first = gate();
  const started: string[] = [];
  const hold = (name: string, signal: AbortSignal, until: Promise<unknown>) =>
    places.hold(signal, async () => {
      started.push(name);
      await until;
    });
  const one = hold("one", NEVER, first.opened);
  const leaves = new AbortController();
  const left = hold("two", leaves.signal, Promise.resolve()).catch((thrown: Error) => thrown.message);
  const three = hold("three", NEVER, Promise.resolve());
  leaves.abort(new Error("gone"));
  expect(await left).toBe("gone");
  const four = hold("four", NEVER, Promise.resolve());
  await Bun.sleep(1);
  expect(started).toEqual(["one"]);
  first.open();
  await Promise.all([one, three, four]);
  expect(started).toEqual(["one", "three", "four"]);
});
