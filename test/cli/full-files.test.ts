import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeFolder, type RunningBinary, removeFolder } from "../support/binary.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";
import { serve } from "./support.ts";

setDefaultTimeout(60_000);

const REPLY = {
  ...{ id: "c", object: "chat.completion", created: 1, model: "m" },
  choices: [{ index: 0, message: { role: "assistant", content: "Hello" }, logprobs: null, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};

let folder: string;
let upstream: Upstream;
let server: RunningBinary | undefined;
beforeEach(() => {
  folder = makeFolder();
  upstream = startUpstream();
  upstream.always("/v1/chat/completions", () => json(REPLY));
});
afterEach(async () => {
  server?.child.kill("SIGKILL");
  await server?.child.exited;
  upstream.close();
  removeFolder(folder);
});

/** One connection, on which request follows request. */
async function ask({ url, key }: RunningBinary, model: string): Promise<[number, string]> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }] }),
  });
  return [response.status, await response.text()];
}

// Only Linux tells which files a process has open, and lets others bound them.
test.skipIf(!Bun.which("prlimit"))(
  "with no file left a vendor that cannot be called is not said to be down, and is asked again at once when there is one",
  async () => {
    mkdirSync(join(folder, "data"), { recursive: true });
    const row = `{ id: lab, dialect: chat, base_url: "${upstream.url}/v1", api_key: k }`;
    writeFileSync(join(folder, "data", "sluice.yaml"), `vendors: [${row}]\n`, { mode: 0o600 });
    server = await serve(folder, ["--port", "0"]);
    const { pid } = server.child;
    const limitTo = (most: string) => Bun.spawnSync(["prlimit", "--pid", String(pid), `--nofile=${most}:`]);
    expect((await ask(server, "sluice/echo"))[0]).toBe(200);
    const open = readdirSync(`/proc/${pid}/fd`).map(Number);
    // What is free between those that are open is free as well: the bound is on the number of the next one.
    const free = Array.from({ length: Math.max(...open) }, (_, at) => at).filter((at) => !open.includes(at));
    limitTo(String(free[0] ?? Math.max(...open) + 1));
    // Each asks twice.
    for (let count = 0; count < 3; count++) {
      const [status, text] = await ask(server, "lab/m");
      expect(status).toBe(503);
      expect(text).toContain("as many connections open as its system lets it");
    }
    limitTo("4096");
    expect((await ask(server, "lab/m"))[0]).toBe(200);
    expect(server.stderr).not.toContain("route-opened");
  },
);
