import { expect, test } from "bun:test";
import { join } from "node:path";

const MODULE = join(import.meta.dir, "../../src/observe/unhandled.ts");

/** A program that has faults in a timer, in a promise and in a callback, and says at its end what was noted of them. */
const program = (outlives: boolean) => `
  const { outliveFaults, unhandled } = await import(${JSON.stringify(MODULE)});
  const events = [];
  if (${outlives}) outliveFaults({ error: (event, fields) => events.push([event, fields.error]) });
  setTimeout(() => { throw new Error("in a timer"); }, 1);
  setTimeout(async () => { throw new Error("in a promise"); }, 2);
  setTimeout(() => queueMicrotask(() => { throw new TypeError("in a microtask"); }), 3);
  const tell = () => console.log(JSON.stringify({ count: unhandled.count, events }));
  // Set when the others have rung: of timers that are all due at once the last one rings before a promise is seen to have failed.
  setTimeout(() => setTimeout(tell, 50), 50);
`;

async function run(outlives: boolean) {
  const child = Bun.spawn([process.execPath, "-e", program(outlives)], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "ignore",
  });
  return { said: (await child.stdout.text()).trim(), code: await child.exited };
}

test("faults that nobody caught are logged and counted, and the process goes on", async () => {
  const { said, code } = await run(true);
  const { count, events } = JSON.parse(said) as { count: number; events: string[][] };
  expect(count).toBe(3);
  expect(events.map((event) => event.join(" ")).sort()).toEqual([
    "unhandled Error: in a promise",
    "unhandled Error: in a timer",
    "unhandled TypeError: in a microtask",
  ]);
  expect(code).toBe(0);
});

test("without that the first of them ends it", async () => {
  expect(await run(false)).toEqual({ said: "", code: 1 });
});
