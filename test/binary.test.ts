import { afterEach, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  buildBinary,
  cleanEnvironment,
  makeFolder,
  type RunningBinary,
  removeFolder,
  runBinary,
  startBinary,
} from "./support/binary.ts";

// A build and several starts of an executable of 110 MB, on a machine that may be busy.
setDefaultTimeout(60_000);

let folder: string;
let running: RunningBinary | undefined;

beforeAll(() => {
  buildBinary();
});
beforeEach(() => {
  folder = makeFolder();
});
afterEach(async () => {
  running?.child.kill("SIGKILL");
  await running?.child.exited;
  running = undefined;
  removeFolder(folder);
});

/** Starts with `args`, remembered so that it is ended whatever happens. */
async function start(args: string[] = ["--port", "0"], options: { cwd?: string; env?: Record<string, string> } = {}) {
  running = await startBinary(args, { folder, ...options });
  return running;
}

async function ask(url: string, key: string): Promise<{ status: number; body: unknown }> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "sluice/echo", messages: [{ role: "user", content: "Is it there?" }] }),
  });
  return { status: response.status, body: await response.json() };
}

/** The text of a chat stream, and whether its terminator came last. */
function readStream(sse: string): { text: string; terminated: boolean } {
  const records = sse
    .split("\n\n")
    .filter((record) => record.startsWith("data: "))
    .map((record) => record.slice("data: ".length));
  const terminated = records.at(-1)?.trim() === "[DONE]";
  type Chunk = { choices: { delta: { content?: string } }[] };
  const chunks = records.filter((record) => record.trim() !== "[DONE]").map((record) => JSON.parse(record) as Chunk);
  return { text: chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""), terminated };
}

describe("the executable in an empty folder", () => {
  test("says four lines at its first start, and the curl it prints streams an answer", async () => {
    const { lines, url, key, child } = await start();
    expect(lines.length).toBe(4);
    expect(lines[0]).toMatch(/^Sluice \d+\.\d+\.\d+\S* listening on http:\/\/127\.0\.0\.1:\d+$/);
    expect(lines[1]).toContain(key);
    expect(key).toMatch(/^sk-sluice-[0-9A-Za-z]{38}$/);
    expect(lines[2]).toMatch(/^Found: /);
    expect(lines[3]).toMatch(/^Try: curl -N /);

    const command = (lines[3] as string).slice("Try: ".length);
    const curl = Bun.spawn(["sh", "-c", command], {
      env: cleanEnvironment({ folder }),
      stdout: "pipe",
      stderr: "pipe",
    });
    const [output, complaint, code] = await Promise.all([curl.stdout.text(), curl.stderr.text(), curl.exited]);
    expect({ code, complaint: code === 0 ? "" : complaint }).toEqual({ code: 0, complaint: "" });
    const { text, terminated } = readStream(output);
    expect(text.length).toBeGreaterThan(0);
    expect(terminated).toBe(true);

    expect((await ask(url, key)).status).toBe(200);
    expect((await ask(url, `${key.slice(0, -1)}${key.endsWith("0") ? "1" : "0"}`)).status).toBe(401);
    expect(child.exitCode).toBeNull();
  });

  test("keeps its data to itself, and writes nothing anywhere else", async () => {
    const cwd = join(folder, "cwd");
    mkdirSync(cwd);
    const { url, key, stop } = await start(undefined, { cwd });
    expect((await ask(url, key)).status).toBe(200);
    expect(await stop()).toBe(0);
    const data = join(folder, "data");
    expect(statSync(data).mode & 0o777).toBe(0o700);
    const files = readdirSync(data);
    expect(files.length).toBeGreaterThan(0);
    for (const file of files) {
      const { mode } = statSync(join(data, file));
      expect([file, (mode & 0o077).toString(8)]).toEqual([file, "0"]);
    }
    expect(readdirSync(cwd)).toEqual([]);
    expect(readdirSync(folder).sort()).toEqual(["cwd", "data"]);
  });

  test("ends with 0 on SIGTERM, and the key of the first start works after the second, which does not show it", async () => {
    const first = await start();
    const { key } = first;
    expect(await first.stop()).toBe(0);
    await expect(fetch(first.url)).rejects.toThrow();
    const second = await start();
    expect(second.lines.length).toBe(4);
    expect(second.key).toBe("");
    expect(second.lines.join("\n")).not.toContain(key);
    expect(second.stderr).not.toContain(key);
    expect((await ask(second.url, key)).status).toBe(200);
    expect(await second.stop()).toBe(0);
  });

  test("prints its version as JSON, and commands make no data folder they do not need", async () => {
    const { code, stdout, stderr } = await runBinary(["version", "--json"], { folder });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const manifest = (await import("../package.json")).default;
    expect(JSON.parse(stdout)).toMatchObject({ version: manifest.version, bun: Bun.version });
    expect(existsSync(join(folder, "data"))).toBe(false);
  });
});

/** Writes a trap into a folder: code that leaves a mark when anything runs it, and settings that would change what the gateway does. */
function setTraps(cwd: string): { mark: string } {
  mkdirSync(cwd, { recursive: true });
  const mark = join(cwd, "trap-sprung");
  const trap = `require("node:fs").writeFileSync(${JSON.stringify(mark)}, "sprung"); console.log("trap");`;
  const write = (name: string, text: string) => writeFileSync(join(cwd, name), text);
  const environment = [
    "SLUICE_PORT=46999",
    "SLUICE_HOST=0.0.0.0",
    "SLUICE_DATA=./trap-data",
    "SLUICE_CONFIG=./sluice.yaml",
    "HTTP_PROXY=http://127.0.0.1:9",
    "HTTPS_PROXY=http://127.0.0.1:9",
    "OPENAI_API_KEY=sk-trap-000000000000",
    "NODE_TLS_REJECT_UNAUTHORIZED=0",
    "BUN_CONFIG_VERBOSE_FETCH=curl",
  ].join("\n");
  for (const name of [".env", ".env.local", ".env.production", ".env.development"]) write(name, environment);
  write("bunfig.toml", 'preload = ["./trap.js"]\n[serve.static]\nplugins = ["./trap.js"]\n[run]\nsilent = false\n');
  write("tsconfig.json", JSON.stringify({ compilerOptions: { baseUrl: ".", paths: { "*": ["./trap.js"] } } }));
  write("package.json", JSON.stringify({ name: "trap", main: "./trap.js", imports: { "#*": "./trap.js" } }));
  write("sluice.yaml", "server: { port: 46998 }\n");
  for (const name of ["trap.js", "index.ts", "index.js", "main.ts", "boot.ts"]) write(name, trap);
  for (const name of ["elysia", "commander", "drizzle-orm"]) {
    mkdirSync(join(cwd, "node_modules", name), { recursive: true });
    write(join("node_modules", name, "index.js"), trap);
  }
  return { mark };
}

describe("the executable in a hostile folder", () => {
  test("takes nothing of it: no settings, no keys, no code", async () => {
    const cwd = join(folder, "hostile");
    const { mark } = setTraps(cwd);
    const before = readdirSync(cwd).sort();
    // At the usual port: one that is given would hide what it is told there.
    const { url, key, lines, stderr } = await start([], { cwd });
    expect(new URL(url).hostname).toBe("127.0.0.1");
    expect(["46999", "46998"]).not.toContain(new URL(url).port);
    expect(lines[2]).not.toContain("OpenAI");
    expect(lines.join("\n")).not.toContain("trap");
    // boot speaks up about every setting of this kind that it finds and removes: here it must not find any.
    expect(stderr).not.toMatch(/PROXY|NODE_TLS|VERBOSE/);
    const models = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] };
    expect(models.data.filter((model) => model.id.startsWith("openai/"))).toEqual([]);
    expect((await ask(url, key)).status).toBe(200);
    const report = await runBinary(["version", "--json"], { folder, cwd });
    expect(report.code).toBe(0);
    expect(JSON.parse(report.stdout)).toMatchObject({ bun: Bun.version });
    expect(existsSync(mark)).toBe(false);
    expect(readdirSync(cwd).sort()).toEqual(before);
    expect(existsSync(join(folder, "data"))).toBe(true);
  });

  test("the traps are sharp: Bun itself walks into them", async () => {
    const cwd = join(folder, "hostile");
    const { mark } = setTraps(cwd);
    const bun = Bun.spawn([process.execPath, "-e", "console.log(process.env.SLUICE_PORT)"], {
      cwd,
      env: cleanEnvironment({ folder }),
      stdout: "pipe",
      stderr: "ignore",
    });
    expect(await bun.stdout.text()).toContain("46999");
    expect(existsSync(mark)).toBe(true);
  });

  test.each(["BUN_OPTIONS", "NODE_OPTIONS"])("refuses to run under %s", async (name) => {
    for (const args of [[], ["version"], ["keys", "list"]]) {
      const { code, stdout, stderr } = await runBinary(args, { folder, env: { [name]: "--smol" } });
      expect({ args, code, stdout }).toEqual({ args, code: 1, stdout: "" });
      expect(stderr).toContain(name);
    }
    expect(existsSync(join(folder, "data"))).toBe(false);
  });

  test("drops what would lead its traffic elsewhere, and says so", async () => {
    const env = { HTTPS_PROXY: "http://user:secret@127.0.0.1:9", NODE_TLS_REJECT_UNAUTHORIZED: "0" };
    const { url, key, stderr } = await start(undefined, { env });
    expect(stderr).toContain("HTTPS_PROXY");
    expect(stderr).toContain("NODE_TLS_REJECT_UNAUTHORIZED");
    expect(stderr).not.toContain("secret");
    expect((await ask(url, key)).status).toBe(200);
  });
});
