import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeFolder, type RunningBinary, removeFolder, runBinary, startBinary } from "./support/binary.ts";

const FROM_SOURCE = [process.execPath, join(import.meta.dir, "../src/main.ts")];

let folder: string;
let running: RunningBinary[];
beforeEach(() => {
  folder = makeFolder();
  running = [];
});
afterEach(async () => {
  for (const gateway of running) await gateway.stop();
  removeFolder(folder);
});

async function start(env: Record<string, string> = {}): Promise<RunningBinary> {
  const gateway = await startBinary(["serve", "--port", "0"], { folder, command: FROM_SOURCE, env });
  running.push(gateway);
  return gateway;
}

const count = (text: string, word: string) => text.split(word).length - 1;

/** Starts it as where a process cannot replace itself (Windows), in a group of its own, as a terminal's programs are. */
async function startWithChild(): Promise<RunningBinary> {
  const preload = join(folder, "windows.ts");
  writeFileSync(preload, "process.execve = undefined;\n");
  const [bun = "", main = ""] = FROM_SOURCE;
  const gateway = await startBinary(["serve", "--port", "0"], {
    ...{ folder, command: ["setsid", bun, "--preload", preload, main] },
    env: { HTTPS_PROXY: "http://127.0.0.1:9" },
  });
  running.push(gateway);
  return gateway;
}

describe.skipIf(process.platform !== "linux")("a start as a child, where a process cannot replace itself", () => {
  test("hears Ctrl-C once: what runs may end", async () => {
    const { url, key, child } = await startWithChild();
    const script = { blocks: [{ type: "text", text: "x".repeat(20), chunk: 1 }], chunk_delay_ms: 100 };
    const asked = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({
        ...{ model: "sluice/script", stream: true },
        messages: [{ role: "user", content: JSON.stringify(script) }],
      }),
    });
    // The terminal tells all of its programs.
    process.kill(-child.pid, "SIGINT");
    expect(await asked.text()).toEndWith("data: [DONE]\n\n");
    expect(await child.exited).toBe(0);
  });
});

describe("a start from source", () => {
  test("executes itself once, though Bun reads a proxy from .env at each execution", async () => {
    writeFileSync(join(folder, ".env"), "HTTP_PROXY=http://127.0.0.1:9\nSLUICE_BLOCKING_SECONDS=60\n");
    const { url, stderr } = await start();
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    expect(count(stderr, "ignores HTTP_PROXY")).toBe(1);
  });

  test("is not kept from it by a mark that another process left behind", async () => {
    const { stderr, child } = await start({ STARTED_BY_SLUICE: "1", HTTP_PROXY: "http://127.0.0.1:9" });
    // The second execution finds a clean environment: the first one must have happened, and must have said so.
    expect(count(stderr, "ignores HTTP_PROXY")).toBe(1);
    expect(stderr).not.toContain("STARTED_BY_SLUICE");
    if (process.platform !== "linux") return;
    expect(readFileSync(`/proc/${child.pid}/environ`, "utf8")).not.toContain("HTTP_PROXY");
  });

  test.skipIf(process.platform === "win32")(
    "outlives SIGHUP from its first step on, and no other command does",
    async () => {
      const begun = join(folder, "begun.ts");
      const boot = JSON.stringify(join(import.meta.dir, "../src/boot.ts"));
      const steps = `await import(${boot});\nprocess.kill(process.pid, "SIGHUP");\nawait Bun.sleep(50);\nconsole.log("alive");\n`;
      writeFileSync(begun, steps);
      const command = [process.execPath, begun];
      const said = async (words: string[]) => (await runBinary(words, { folder, command })).stdout.trim();
      expect([await said(["serve"]), await said([]), await said(["keys", "list"])]).toEqual(["alive", "alive", ""]);
    },
  );

  test("of another command happens in one execution", async () => {
    const { code, stderr } = await runBinary(["version"], {
      folder,
      command: FROM_SOURCE,
      env: { HTTP_PROXY: "http://127.0.0.1:9" },
    });
    expect({ code, said: count(stderr, "ignores HTTP_PROXY") }).toEqual({ code: 0, said: 1 });
  });

  // The executable is what test/cli asks; the source has other ways to its files (the catalog, the migrations, the document).
  test("every command runs", async () => {
    const commands = [
      ["keys", "create"],
      ["tokens", "create"],
      ["accounts", "show", "local"],
      ["models", "--json"],
      ["usage", "--csv"],
      ["openapi"],
      ["doctor", "--port", "0"],
      ["backup", join(folder, "copy.db")],
    ];
    for (const words of commands) {
      const { code, stderr } = await runBinary(words, {
        ...{ folder, command: FROM_SOURCE, env: { SLUICE_LOCAL_DISCOVERY: "false" } },
      });
      expect({ words, code, stderr }).toMatchObject({ words, code: 0, stderr: expect.not.stringContaining("error") });
    }
  });
});
