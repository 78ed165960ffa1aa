import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tryPort } from "../../src/cli/port.ts";
import { cleanEnvironment, makeFolder, type RunningBinary, removeFolder } from "../support/binary.ts";
import { until } from "../support/wait.ts";
import { COMMAND, serve, sluice } from "./support.ts";

setDefaultTimeout(60_000);

let folder: string;
const running: RunningBinary[] = [];
beforeEach(() => {
  folder = makeFolder();
});
afterEach(async () => {
  for (const server of running.splice(0)) {
    server.child.kill("SIGKILL");
    await server.child.exited;
  }
  removeFolder(folder);
});

async function start(args: string[] = [], env: Record<string, string> = {}, home = folder): Promise<RunningBinary> {
  const server = await serve(home, args, env);
  running.push(server);
  return server;
}

async function ask(url: string, key: string, body: object): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

const ECHO = { model: "sluice/echo", messages: [{ role: "user", content: "one two three" }] };
const SLOW = {
  model: "sluice/script",
  stream: true,
  messages: [
    {
      role: "user",
      content: JSON.stringify({ blocks: [{ type: "text", text: "a b c d e f", chunk: 2 }], chunk_delay_ms: 300 }),
    },
  ],
};

/** Asks until the answer has this status. */
async function untilStatus(status: number, url: string, key: string): Promise<void> {
  const deadline = performance.now() + 10_000;
  for (;;) {
    const found = await statusOf(ask(url, key, ECHO));
    if (found === status) return;
    if (performance.now() > deadline) throw new Error(`waited in vain for status ${status}, found ${found}`);
  }
}

/** The status alone. */
const statusOf = async (response: Promise<Response>) => {
  const { status, body } = await response;
  await body?.cancel();
  return status;
};

describe("a first start", () => {
  test("says four lines; the curl succeeds as it stands; the store is there and the process kept its id", async () => {
    const server = await start(["--port", "0"], { BUN_CONFIG_VERBOSE_FETCH: "curl" });
    const { lines, url, key } = server;
    expect(lines).toHaveLength(4);
    expect(server.stderr).toBe("sluice: ignores BUN_CONFIG_VERBOSE_FETCH of the environment.\n");
    expect(lines[1]).toBe(`API key (shown once): ${key}`);
    expect(lines[2]).toStartWith("Found: no vendor keys and no local model servers.");
    const curl = Bun.spawn(["sh", "-c", lines[3]!.slice("Try: ".length)], { stdout: "pipe", stderr: "ignore" });
    const output = await curl.stdout.text();
    expect(await curl.exited).toBe(0);
    expect(output).toContain('"content":');
    expect(output.trimEnd()).toEndWith("data: [DONE]");
    expect(await statusOf(ask(url, `${key}x`, ECHO))).toBe(401);
    expect(existsSync(join(folder, "data", "sluice.db"))).toBe(true);
    if (process.platform === "linux") {
      // The pid is the one that was spawned, and the program was started again inside it with the higher bound
      // and without what it must not obey.
      const environment = readFileSync(`/proc/${server.child.pid}/environ`, "utf8").split("\0");
      expect(environment).toContain("BUN_CONFIG_MAX_HTTP_REQUESTS=8192");
      expect(environment.filter((entry) => entry.includes("VERBOSE"))).toEqual([]);
    }
  });

  // Elsewhere the machine has but one such address.
  test.skipIf(process.platform !== "linux")("answers where it says that it listens, on 127.0.0.2 too", async () => {
    const { lines, url, key } = await start(["--port", "0", "--host", "127.0.0.2"]);
    expect(lines[0]).toEndWith(`listening on ${url}`);
    expect(url).toStartWith("http://127.0.0.2:");
    expect(await statusOf(ask(url, key, ECHO))).toBe(200);
  });

  test("tells of vendors by name and of local servers by their models, never of a key", async () => {
    using local = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => Response.json({ data: [{ id: "a" }] }) });
    mkdirSync(join(folder, "data"), { recursive: true });
    writeFileSync(
      join(folder, "data", "sluice.yaml"),
      `vendors: [{ id: lab, name: Lab, dialect: chat, base_url: "${local.url}v1" }, { id: groq, api_key: gsk-canary-0002, models: catalog }]`,
      { mode: 0o600 },
    );
    const { lines, stderr } = await start(["--port", "0"], { OPENAI_API_KEY: "sk-canary-0001" });
    expect(lines[2]).toBe("Found: OpenAI (OPENAI_API_KEY), Lab, Groq");
    expect(lines.join("\n") + stderr).not.toContain("canary");
  });

  test("names the file that is there as the place for vendors", async () => {
    mkdirSync(join(folder, "data"), { recursive: true });
    const file = join(folder, "data", "sluice.json");
    writeFileSync(file, '{ "local_discovery": false }', { mode: 0o600 });
    const { lines } = await start(["--port", "0"]);
    expect(lines[2]).toEndWith(`or list vendors in ${file}`);
  });

  test("that cannot listen makes no key: the next start shows it", async () => {
    using taken = Bun.serve({ port: 0, hostname: "127.0.0.1", reusePort: false, fetch: () => new Response("") });
    const failed = await sluice(folder, ["serve", "--port", String(taken.port)]);
    expect(failed).toMatchObject({ code: 1, stdout: "" });
    expect(failed.stderr).toBe(
      `error: port ${taken.port} of 127.0.0.1 is taken by another program; choose another with --port\n`,
    );
    expect((await start(["--port", "0"])).key).not.toBe("");
  });
});

/** Where model servers of this machine are looked for. */
const LOCAL_PORTS = [1234, 11434, 8000, 8080, 7860, 8188];

/** Listens on the first of those that nobody has, and never answers. `asked` resolves when somebody has come. */
function listenSilently(): { asked: Promise<void>; stop(): void } {
  const { promise: asked, resolve } = Promise.withResolvers<void>();
  for (const port of LOCAL_PORTS) {
    try {
      const silent = Bun.listen({
        port,
        hostname: "127.0.0.1",
        exclusive: true,
        socket: { open: () => resolve(), data() {} },
      });
      return { asked, stop: () => silent.stop(true) };
    } catch (thrown) {
      if ((thrown as { code?: string }).code !== "EADDRINUSE") throw thrown;
    }
  }
  throw new Error("every usual port of a model server is taken");
}

describe("a first start that is ended while it looks for model servers", () => {
  test.each(["SIGKILL", "SIGTERM"] as const)("makes no key that it does not show: %s", async (signal) => {
    const silent = listenSilently();
    const env = cleanEnvironment({ folder, env: { SLUICE_LOG_LEVEL: "error" } });
    const child = Bun.spawn([...COMMAND, "serve", "--port", "0"], { env, stderr: "inherit" });
    await silent.asked;
    child.kill(signal);
    const said = await new Response(child.stdout).text();
    await child.exited;
    silent.stop();
    const next = await start(["--port", "0"]);
    const shown = [said, next.lines.join("\n")].filter((lines) => lines.includes("API key (shown once)"));
    expect(shown).toHaveLength(1);
    expect(await statusOf(ask(next.url, /sk-sluice-\w{38}/.exec(shown[0]!)?.[0] ?? "", ECHO))).toBe(200);
  });
});

describe("a later start", () => {
  test("shows no key, and the first one still works; SIGTERM ends with 0 and leaves no log behind", async () => {
    const first = await start(["--port", "0"]);
    expect(await first.stop()).toBe(0);
    const beside = () => readdirSync(join(folder, "data")).filter((name) => /-wal|restoring/.test(name));
    expect(beside()).toEqual([]);
    // As of a restore that was killed.
    writeFileSync(join(folder, "data", "sluice.db.restoring"), "half");
    const second = await start(["--port", "0"]);
    expect(beside().filter((name) => name.includes("restoring"))).toEqual([]);
    expect(second.key).toBe("");
    expect(second.lines[1]).toContain("keys create");
    expect(second.lines[3]).toContain("$SLUICE_API_KEY");
    expect(await statusOf(ask(second.url, first.key, ECHO))).toBe(200);
    second.child.kill("SIGINT");
    expect(await second.child.exited).toBe(0);
  });
});

describe("ports and folders", () => {
  test("the usual port taken: the next free one, and a word about it on stderr", async () => {
    const other = makeFolder();
    try {
      // A server of a test beside this one may have it for a moment; who has it for longer keeps it.
      for (let look = 0; look < 50 && tryPort("127.0.0.1", 4600) === "taken"; look++) await Bun.sleep(100);
      const first = await start();
      const second = await start([], {}, other);
      expect(second.url).not.toBe(first.url);
      expect(second.lines).toHaveLength(4);
      expect(second.stderr).toMatch(/^Port 4600 is taken; listening on \d+ instead\.\n$/);
      expect(await statusOf(ask(second.url, second.key, ECHO))).toBe(200);
      await second.stop();
    } finally {
      removeFolder(other);
    }
  });

  test("a second server on the same folder is refused with a sentence, and the first goes on", async () => {
    const first = await start(["--port", "0"]);
    const second = await sluice(folder, ["--port", "0"]);
    expect(second).toMatchObject({ code: 1, stdout: "" });
    expect(second.stderr).toMatch(/^error: Another Sluice server is already running on the data folder /);
    expect(await statusOf(ask(first.url, first.key, ECHO))).toBe(200);
  });
});

describe("commands beside a running server", () => {
  test.skipIf(process.platform === "win32")(
    "a store that is taken away is one that cannot be written: work is refused until it is back",
    async () => {
      const server = await start(["--port", "0"]);
      const { url, key } = server;
      const readiness = async () => (await fetch(`${url}/readyz`)).status;
      expect((await ask(url, key, ECHO)).status).toBe(200);
      const store = join(folder, "data", "sluice.db");
      renameSync(store, `${store}.away`);
      // Known before anything is to be written: whoever asks this first sends nothing then.
      expect(await readiness()).toBe(503);
      expect((await fetch(`${url}/healthz`)).status).toBe(200);
      expect((await ask(url, key, ECHO)).status).toBe(503);
      expect(server.stderr).toContain('"store-failing"');
      renameSync(`${store}.away`, store);
      // Not more often: whoever asks without a key is bounded for each address.
      while ((await readiness()) !== 200) await Bun.sleep(100);
      expect((await ask(url, key, ECHO)).status).toBe(200);
    },
  );

  test("keys made and revoked there count here; usage is reported", async () => {
    const { url, key } = await start(["--port", "0"]);
    const made = JSON.parse((await sluice(folder, ["keys", "create", "--json", "--name", "second"])).stdout);
    // The server looks for other processes' changes twice a second.
    await untilStatus(200, url, made.key);
    expect(await statusOf(ask(url, key, ECHO))).toBe(200);
    expect((await sluice(folder, ["keys", "revoke", made.id])).code).toBe(0);
    await untilStatus(401, url, made.key);
    expect(await statusOf(ask(url, key, ECHO))).toBe(200);

    const rows = JSON.parse((await sluice(folder, ["usage", "--json", "--by", "key"])).stdout) as {
      name: string;
      requests: number;
      input_tokens: number;
      output_tokens: number;
    }[];
    expect(rows.find((row) => row.name === "local")).toMatchObject({ requests: 2 });
    expect(rows.every((row) => row.input_tokens > 0 && row.output_tokens > 0)).toBe(true);
    const table = (await sluice(folder, ["usage"])).stdout.split("\n");
    expect(table[0]).toMatch(
      /^model +requests +input +cache read +cache write +output +reasoning +images, calls +cost USD +paid USD$/,
    );
    expect(table[1]).toStartWith("sluice/echo");
    const doctor = await sluice(folder, ["doctor"]);
    expect(doctor.code).toBe(0);
  });

  // A service has its keys from a file that a shell beside it has not read.
  test("what they find by their own variables, they say so of", async () => {
    const alone = await sluice(folder, ["keys", "create"]);
    expect(alone.stderr).toContain("note: ");
    expect(alone.stderr).toContain("had no store, and has a new one now. A server's own folder is named with --data.");
    expect((await sluice(folder, ["doctor"])).stdout).not.toContain("may have others");
    expect((await sluice(folder, ["models"])).stderr).not.toContain("this command's variables");
    await start(["--port", "0"], { ANTHROPIC_API_KEY: "sk-ant-1" });
    expect((await sluice(folder, ["keys", "create"])).stderr).not.toContain("note: ");
    expect((await sluice(folder, ["models"])).stderr).toContain(
      "This is what this command's variables switch on; what the server that runs here offers, its GET /v1/models says.",
    );
    const { code, stdout } = await sluice(folder, ["doctor"]);
    expect(code).toBe(0);
    expect(stdout).toContain("the server that runs here may have others");
    expect(stdout).toContain("give this command the server's variables too");
  });
});

describe("stopping", () => {
  test("lets a running stream end", async () => {
    const { url, key, child } = await start(["--port", "0"]);
    const response = await ask(url, key, SLOW);
    const reader = response.body!.getReader();
    await reader.read();
    child.kill("SIGTERM");
    let rest = "";
    const decoder = new TextDecoder();
    for (let part = await reader.read(); !part.done; part = await reader.read()) rest += decoder.decode(part.value);
    expect(rest.trimEnd()).toEndWith("data: [DONE]");
    expect(await child.exited).toBe(0);
  });

  test("a second signal ends at once: who is cut off is told, and what was done is written down", async () => {
    const server = await start(["--port", "0"]);
    const slow = JSON.stringify({ blocks: [{ type: "text", text: "a b c", chunk: 2 }], chunk_delay_ms: 20_000 });
    const response = await ask(server.url, server.key, { ...SLOW, messages: [{ role: "user", content: slow }] });
    const reader = response.body!.getReader();
    await reader.read();
    server.child.kill("SIGTERM");
    await until(() => server.stderr.includes("Stopping"), "the first signal is heard");
    server.child.kill("SIGTERM");
    let rest = "";
    const decoder = new TextDecoder();
    for (let part = await reader.read(); !part.done; part = await reader.read()) rest += decoder.decode(part.value);
    expect(rest).toContain("shutting down");
    expect(await server.child.exited).toBe(130);
    const rows = JSON.parse((await sluice(folder, ["usage", "--json"])).stdout);
    expect(rows).toMatchObject([{ model: "sluice/script", requests: 1 }]);
  });
});

describe("openapi", () => {
  test("prints the document, whatever the folder's configuration is", async () => {
    mkdirSync(join(folder, "data"));
    writeFileSync(join(folder, "data", "sluice.yaml"), "broken: [");
    const { code, stdout, stderr } = await sluice(folder, ["openapi"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(await sluice(folder, ["openapi", "--json"])).toMatchObject({ code: 0, stdout });
    const document = JSON.parse(stdout);
    expect(document.openapi).toStartWith("3.");
    expect(Object.keys(document.paths)).toContain("/v1/chat/completions");
    expect(readdirSync(join(folder, "data"))).toEqual(["sluice.yaml"]);
  });
});

test("goes on when nobody reads its log any more", async () => {
  // Its log goes to a program that has ended already; its pid and its lines come past that.
  const inner = 'echo "pid $$" >&3; exec "$@"';
  const script = `{ sh -c '${inner}' sh "$@" 2>&1 1>&3 | true; } 3>&1`;
  const env = cleanEnvironment({ folder, env: { SLUICE_LOCAL_DISCOVERY: "false", SLUICE_LOG_LEVEL: "info" } });
  const child = Bun.spawn(["sh", "-c", script, "sh", ...COMMAND, "serve", "--port", "0"], { env, stderr: "inherit" });
  let said = "";
  const reading = (async () => {
    const decoder = new TextDecoder();
    for await (const bytes of child.stdout) said += decoder.decode(bytes, { stream: true });
  })();
  await until(() => said.split("\n").length > 5, "the four lines", 15_000);
  const pid = Number(/^pid (\d+)$/m.exec(said)?.[1]);
  try {
    const url = /listening on (\S+)/.exec(said)?.[1] ?? "";
    const key = /sk-sluice-\w{38}/.exec(said)?.[0] ?? "";
    // A fault of writing is told later than the write.
    for (let count = 0; count < 200; count++) expect(await statusOf(ask(url, key, ECHO))).toBe(200);
  } finally {
    process.kill(pid, "SIGTERM");
    await reading;
  }
  await expect(ask(/listening on (\S+)/.exec(said)?.[1] ?? "", "", ECHO)).rejects.toThrow();
});
