import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { Passage, passOn } from "../../src/workers/passage.ts";
import { makeFolder, removeFolder } from "../support/binary.ts";
import { within } from "../support/wait.ts";

/** More than any socket's queue holds (512 of Bun's, at the most what the system lets). */
const MANY = 1_200;

/** A gateway that has something else to do for a while before it takes whoever knocks. */
const BUSY = `
  Bun.serve({ unix: process.argv[1], idleTimeout: 0, fetch: async (request) => new Response("heard " + (await request.text())) });
  process.stdout.write("listens");
  process.stdin.once("data", () => { process.stdout.write("busy"); Bun.sleepSync(700); });
`;

let folder: string;
beforeEach(() => {
  folder = makeFolder();
});
afterEach(() => removeFolder(folder));

test.skipIf(process.platform !== "linux")(
  "who is passed on while too many knock at once waits, and is heard",
  async () => {
    const path = join(folder, "busy.sock");
    const gateway = Bun.spawn([process.execPath, "-e", BUSY, path], {
      stdin: "pipe",
      stdout: "pipe",
      stderr: "inherit",
    });
    const said = gateway.stdout.getReader();
    const crowd: Socket[] = [];
    try {
      await said.read();
      gateway.stdin.write("go");
      await gateway.stdin.flush();
      await said.read();
      let refused = 0;
      for (let at = 0; at < MANY; at++) crowd.push(connect(path).on("error", () => refused++));
      const stream = new ReadableStream<Uint8Array>({
        pull(controller) {
          controller.enqueue(new TextEncoder().encode("a body"));
          controller.close();
        },
      });
      const request = new Request("http://localhost/v1/account", { method: "POST", body: stream });
      const answer = await within(passOn(request, "", path), "it is heard", 5_000);
      expect(refused).toBeGreaterThan(0);
      expect(await answer?.text()).toBe("heard a body");
    } finally {
      for (const socket of crowd) socket.destroy();
      gateway.kill();
      await gateway.exited;
    }
  },
  20_000,
);

test.skipIf(process.platform !== "linux")("a socket that cannot be taken away holds up no stop", async () => {
  const inside = join(folder, "data");
  mkdirSync(inside);
  const passage = new Passage({ folder: inside, answer: () => new Response("heard") });
  expect(await (await passOn(new Request("http://localhost/v1/account"), "", passage.path))?.text()).toBe("heard");
  renameSync(inside, join(folder, "elsewhere"));
  writeFileSync(inside, "no folder");
  await passage.close();
});
