import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { closeSync, constants, existsSync, openSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Subprocess } from "bun";
import { cleanEnvironment, makeFolder, removeFolder } from "../support/binary.ts";
import { until } from "../support/wait.ts";
import { COMMAND } from "./support.ts";

// A server is a process of its own, on a machine that may be busy.
setDefaultTimeout(60_000);

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

/** Asks for an echo, or for another model, which is noted in the log. */
async function ask({ url, key }: { url: string; key: string }, model = "sluice/echo"): Promise<number> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
  });
  await response.text();
  return response.status;
}

/** Files of the server may not grow beyond so many bytes: a disk that is full in the midst of a line. */
const limit = (bytes: number | "unlimited") =>
  Bun.spawnSync(["prlimit", "--pid", String(server?.pid), `--fsize=${bytes}:`]);

/** Ignored, so that a file that may not grow is a fault of the write and not the end of the process. */
const OUTLIVING = ["sh", "-c", 'trap "" XFSZ; exec "$@"', "sh", ...COMMAND];

/** Lets files grow again, and waits until the gateway takes requests. */
async function makeRoom({ url }: { url: string }): Promise<void> {
  limit("unlimited");
  // Not more often: whoever asks without a key is bounded for each address.
  while ((await fetch(`${url}/readyz`)).status !== 200) await Bun.sleep(100);
}

const isJson = (line: string): boolean => {
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
};

const hasLimits = Bun.which("prlimit") !== null;

test.skipIf(!hasLimits).each([
  ["before a line", 0],
  ["in the midst of one", 100],
])("a log file that could not be written goes on when it can, each line by itself: full %s", async (_, room) => {
  const path = join(folder, "log");
  const gateway = await start(path, OUTLIVING);
  const text = () => readFileSync(path, "utf8");
  const count = () => text().split("\n").length;
  expect(await ask(gateway)).toBe(200);
  await until(() => count() > 1, "the first line of the log");
  limit(statSync(path).size + room);
  expect([503, 200]).toContain(await ask(gateway));
  await makeRoom(gateway);
  const before = count();
  expect(await ask(gateway)).toBe(200);
  await until(() => count() > before, "the log to go on");
  const lines = text().split("\n");
  const broken = lines.filter((line) => line.startsWith("{") && !isJson(line));
  expect(broken.map((line) => line.length)).toEqual(room === 0 ? [] : [room]);
  expect(server?.exitCode).toBeNull();
});

test.skipIf(!hasLimits)(
  "a request log that was full in the midst of a line loses none but those that it counts",
  async () => {
    const requests = join(folder, "data", "requests");
    const log = join(folder, "log");
    // Read through a pipe: there it can say that its files are full.
    const reader = Bun.spawn(["sh", "-c", `mkfifo ${log}; exec cat ${log}`], { stdout: "pipe" });
    await until(() => existsSync(log), "the pipe");
    const gateway = await start(log, OUTLIVING);
    const file = () => join(requests, readdirSync(requests)[0] ?? "");
    const lines = () => readFileSync(file(), "utf8").split("\n").slice(0, -1);
    expect(await ask(gateway)).toBe(200);
    await until(
      () => existsSync(requests) && readdirSync(requests).length > 0 && lines().length === 1,
      "the first line",
    );
    limit(statSync(file()).size + 100);
    expect([503, 200]).toContain(await ask(gateway));
    let said = "";
    for await (const bytes of reader.stdout) {
      said += new TextDecoder().decode(bytes);
      if (said.includes("Requests are not noted")) break;
    }
    await makeRoom(gateway);
    expect(await ask(gateway)).toBe(200);
    await until(() => lines().some((line) => line.includes("left-out")), "the request log to go on");
    expect(lines().map((line) => isJson(line) && JSON.parse(line).status)).toStrictEqual([200, 200, undefined]);
    expect(JSON.parse(lines()[2] ?? "")).toMatchObject({ event: "left-out", lines: 1 });
  },
);

test.skipIf(Bun.which("mkfifo") === null)(
  "a reader of the log that stands still costs no memory without end: what it does not take is counted, and told when it goes on",
  async () => {
    const path = join(folder, "log");
    Bun.spawnSync(["mkfifo", path]);
    const still = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const gateway = await start(path);
    // Half a kilobyte of log each.
    const model = `sluice/${"n".repeat(1_000)}`;
    let asked = 0;
    for (; asked < 3_000; asked += 50) {
      const statuses = await Promise.all(Array.from({ length: 50 }, () => ask(gateway, model)));
      expect(new Set(statuses)).toEqual(new Set([404]));
    }
    const reader = Bun.spawn(["cat", path], { stdout: "pipe" });
    let said = "";
    const reading = (async () => {
      for await (const bytes of reader.stdout) said += new TextDecoder().decode(bytes);
    })();
    await until(() => said.length > 0, "somebody reads");
    closeSync(still);
    const isTold = async () => {
      asked++;
      await ask(gateway);
      return said.includes('"event":"left-out"');
    };
    await until(isTold, "the log to go on");
    await until(() => said.endsWith("\n") && said.includes(`"event":"generate"`), "the line behind it");
    server?.kill("SIGTERM");
    await reading;
    const events = said
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { event: string; lines?: number });
    const left = events.reduce((sum, { lines = 0 }) => sum + lines, 0);
    expect(left).toBeGreaterThan(100);
    expect(events.filter(({ event }) => event === "generate").length + left).toBe(asked);
  },
);
