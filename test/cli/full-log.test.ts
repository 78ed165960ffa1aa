import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Subprocess } from "bun";
import { cleanEnvironment, makeFolder, removeFolder } from "../support/binary.ts";
import { until } from "../support/wait.ts";
import { COMMAND } from "./support.ts";

// A server is a process of its own, on a machine that may be busy.
setDefaultTimeout(30_000);

let folder: string;
let server: Subprocess<"ignore", "pipe", number> | undefined;
beforeEach(() => {
  folder = makeFolder();
});
afterEach(async () => {
  server?.kill("SIGKILL");
  await server?.exited;
  server = undefined;
  removeFolder(folder);
});

/** Starts a server whose log goes to `path`. */
async function start(path: string, command: readonly string[] = COMMAND): Promise<{ url: string; key: string }> {
  const log = openSync(path, "a");
  const env = { SLUICE_LOCAL_DISCOVERY: "false", SLUICE_LOG_LEVEL: "info" };
  const child = Bun.spawn([...command, "serve", "--port", "0"], {
    ...{ cwd: folder, env: cleanEnvironment({ folder, env }) },
    ...{ stdin: "ignore", stdout: "pipe", stderr: log },
  });
  server = child;
  closeSync(log);
  let said = "";
  for await (const bytes of child.stdout) {
    said += new TextDecoder().decode(bytes);
    if (said.split("\n").length > 4) break;
  }
  const url = /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0] ?? "";
  return { url, key: /sk-sluice-\w+/.exec(said)?.[0] ?? "" };
}

/** Asks for an echo, which is noted in the log. */
async function ask({ url, key }: { url: string; key: string }): Promise<number> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: "sluice/echo", messages: [{ role: "user", content: "Hello" }] }),
  });
  await response.text();
  return response.status;
}

test.skipIf(Bun.which("prlimit") === null)("a log file that could not be written goes on when it can", async () => {
  const path = join(folder, "log");
  // Ignored, so that a file that may not grow is a fault of the write and not the end of the process.
  const gateway = await start(path, ["sh", "-c", 'trap "" XFSZ; exec "$@"', "sh", ...COMMAND]);
  const lines = () => readFileSync(path, "utf8").split("\n").length;
  expect(await ask(gateway)).toBe(200);
  await until(() => lines() > 1, "the first line of the log");
  const limit = (bytes: string) => Bun.spawnSync(["prlimit", "--pid", String(server?.pid), `--fsize=${bytes}:`]);
  limit("1");
  expect([503, 200]).toContain(await ask(gateway));
  const before = lines();
  limit("unlimited");
  const ready = async () => (await fetch(`${gateway.url}/readyz`)).status === 200;
  // Not more often: whoever asks without a key is bounded for each address.
  while (!(await ready())) await Bun.sleep(100);
  expect(await ask(gateway)).toBe(200);
  await until(() => lines() > before, "the log to go on");
  expect(server?.exitCode).toBeNull();
});
