import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { dirname, join } from "node:path";
import type { GatewayError } from "../../src/canon/errors.ts";
import { Passage, passOn } from "../../src/workers/passage.ts";
import { makeFolder, removeFolder } from "../support/binary.ts";
import { until, within } from "../support/wait.ts";

/** More than any socket's queue holds (512 of Bun's, at the most what the system lets). */
const MANY = 1_200;

/** A gateway that has something else to do, until a file is there, before it takes whoever knocks. */
const BUSY = `
  const [path, done] = process.argv.slice(1);
  Bun.serve({ unix: path, idleTimeout: 0, fetch: async (request) => new Response("heard " + (await request.text())) });
  process.stdout.write("listens");
  process.stdin.once("data", () => {
    process.stdout.write("busy");
    while (!require("node:fs").existsSync(done)) Bun.sleepSync(5);
  });
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
    const done = join(folder, "done");
    const gateway = Bun.spawn([process.execPath, "-e", BUSY, path, done], {
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
      const asked = passOn(request, "", path);
      await until(() => refused > 0, "those for whom there is no room");
      // It knocks meanwhile, in vain.
      await Bun.sleep(300);
      writeFileSync(done, "");
      const answer = await within(asked, "it is heard");
      expect(await answer?.text()).toBe("heard a body");
    } finally {
      for (const socket of crowd) socket.destroy();
      gateway.kill();
      await gateway.exited;
    }
  },
  20_000,
);

/** A gateway that dies with every request that it has read. */
function startMortal(path: string) {
  return Bun.listen({ unix: path, socket: { data: (socket) => void socket.terminate() } });
}

test.skipIf(process.platform !== "linux")(
  "who was passed on to a gateway that then died is not told that nothing was charged, nor to ask for the same again where it could be done twice",
  async () => {
    const path = join(folder, "mortal.sock");
    const gateway = startMortal(path);
    const ask = async (method: string, headers: Record<string, string> = {}) => {
      const body = method === "POST" ? "{}" : null;
      const request = new Request("http://localhost/v1/images/generations", { method, headers, body });
      const { code, message, retry } = (await passOn(request, "", path).catch(
        (thrown: unknown) => thrown,
      )) as GatewayError;
      return { code, retry, saysNothing: message.includes("Nothing was charged") };
    };
    try {
      const told = { code: "internal_error" as const, saysNothing: false };
      expect(await ask("POST")).toEqual({ ...told, retry: false });
      expect(await ask("POST", { "idempotency-key": "once" })).toEqual({ ...told, retry: true });
      expect(await ask("GET")).toEqual({ ...told, retry: true });
    } finally {
      gateway.stop(true);
    }
  },
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

test.skipIf(process.platform !== "linux")(
  "at its end its socket is gone and nothing else, wherever it had to be made",
  async () => {
    for (const name of ["data", "d".repeat(100)]) {
      const data = join(folder, name);
      mkdirSync(data);
      writeFileSync(join(data, "sluice.db"), "the books");
      const passage = new Passage({ folder: data, answer: () => new Response("") });
      const { path } = passage;
      expect([dirname(path) === data, statSync(path).mode & 0o777]).toEqual([name === "data", 0o600]);
      await passage.close();
      expect([existsSync(path), readdirSync(data)]).toEqual([false, ["sluice.db"]]);
      expect(existsSync(dirname(path))).toBe(name === "data");
    }
  },
);
