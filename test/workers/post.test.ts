import { describe, expect, test } from "bun:test";
import { postTo } from "../../src/workers/post.ts";

const BATCH = [[".", "revoked", "key_1"]] as const;

/** A process that repeats what it is told, and ends when that is the word. */
function startParrot() {
  const heard = Promise.withResolvers<unknown>();
  const program = 'process.on("message", (told) => { process.send(told); }); process.send("ready");';
  const ready = Promise.withResolvers<void>();
  const child = Bun.spawn([process.execPath, "-e", program], {
    ...{ stdin: "ignore", stdout: "ignore", stderr: "inherit", serialization: "json" },
    ipc: (told) => (told === "ready" ? ready.resolve() : heard.resolve(told)),
  });
  return { child, ready: ready.promise, heard: heard.promise };
}

describe("a batch for a worker", () => {
  test("reaches one that lives", async () => {
    const { child, ready, heard } = startParrot();
    await ready;
    postTo(child, BATCH);
    expect(await heard).toEqual([[".", "revoked", "key_1"]]);
    child.kill("SIGKILL");
    await child.exited;
  });

  test.each(["SIGKILL", "SIGTERM"] as const)(
    "is nobody's once it has ended: no fault of the gateway (%s)",
    async (signal) => {
      const { child, ready } = startParrot();
      await ready;
      child.kill(signal);
      await child.exited;
      // That it is so is why there is this function.
      expect(() => child.send(BATCH)).toThrow();
      expect(() => postTo(child, BATCH)).not.toThrow();
    },
  );

  test("that cannot be written to one that lives is a fault", async () => {
    const { child, ready } = startParrot();
    await ready;
    const circle: unknown[] = [];
    circle.push(circle);
    expect(() => postTo(child, [["=", 1, circle]])).toThrow();
    child.kill("SIGKILL");
    await child.exited;
  });
});
