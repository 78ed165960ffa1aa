import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cleanEnvironment, makeFolder, type RunningBinary, removeFolder } from "../support/binary.ts";
import { chatReply, json, startUpstream, type Upstream } from "../support/upstream.ts";
import { until } from "../support/wait.ts";
import { COMMAND, serve } from "./support.ts";

setDefaultTimeout(60_000);

const PATH = "/v1/chat/completions";
let folder: string;
let server: RunningBinary;
let upstream: Upstream;

/** A configuration with one model, under another name each time. */
const configOf = (model: string, more = "") => `
vendors: [{ id: lab, dialect: chat, base_url: "${upstream.url}/v1", api_key: lab-secret-key }]
models: [{ id: lab/${model}, pricing: free, display_name: "${model}" }]
local_discovery: false
${more}`;
const file = () => join(folder, "data", "sluice.yaml");
const listed = async (): Promise<string[]> => {
  const list = (await (await fetch(`${server.url}/v1/models`)).json()) as { data: { id: string }[] };
  return list.data.map(({ id }) => id).filter((id) => id.startsWith("lab/"));
};
const ask = (model: string) =>
  fetch(`${server.url}${PATH}`, {
    method: "POST",
    headers: { authorization: `Bearer ${server.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }] }),
  });
const said = (sentence: string) => until(() => server.stderr.includes(sentence), sentence);

beforeEach(async () => {
  upstream = startUpstream();
  folder = makeFolder();
  mkdirSync(join(folder, "data"));
  writeFileSync(file(), configOf("old"), { mode: 0o600 });
  server = await serve(folder, ["--port", "0"]);
});
afterEach(async () => {
  server.child.kill("SIGKILL");
  await server.child.exited;
  upstream.close();
  removeFolder(folder);
});

describe("a running server", () => {
  test("takes over a changed file by itself; what runs meanwhile keeps what it has", async () => {
    const held = Promise.withResolvers<void>();
    upstream.answer(PATH, { ...json(chatReply("from before")), headersAfter: held.promise });
    const running = ask("lab/old");
    await upstream.called();
    writeFileSync(file(), configOf("new"), { mode: 0o600 });
    await said("taken over");
    expect(await listed()).toEqual(["lab/new"]);
    expect((await ask("lab/old")).status).toBe(404);
    held.resolve();
    const response = await running;
    expect([response.status, (await response.text()).includes("from before")]).toEqual([200, true]);
  });

  test("on SIGHUP too; and what needs a new start is named", async () => {
    writeFileSync(file(), configOf("new", "images: { keep_days: 3 }\nretention: { usage_days: 9 }"), { mode: 0o600 });
    server.child.kill("SIGHUP");
    await said("taken over");
    expect(await listed()).toEqual(["lab/new"]);
    expect(server.stderr).toContain(
      "what has changed of retention or request_log, images takes effect at the next start",
    );
    upstream.answer(PATH, json(chatReply("yes")));
    expect((await ask("lab/new")).status).toBe(200);
    // The file's own change is looked for twice a second, and taken when it stands still.
    await Bun.sleep(1_500);
    expect(server.stderr.split("taken over").length - 1).toBe(1);
  });

  test("a file at fault changes nothing, and is told with its place; mended, it is taken", async () => {
    writeFileSync(file(), configOf("new").replace("pricing: free", "pricing: dear"), { mode: 0o600 });
    server.child.kill("SIGHUP");
    await said("nothing was changed");
    expect(server.stderr).toContain("models[0].pricing: expected");
    expect(server.stderr).not.toContain("lab-secret-key");
    expect(await listed()).toEqual(["lab/old"]);
    upstream.answer(PATH, json(chatReply("yes")));
    expect((await ask("lab/old")).status).toBe(200);
    writeFileSync(file(), configOf("newer"), { mode: 0o600 });
    await said("taken over");
    expect(await listed()).toEqual(["lab/newer"]);
  });

  test("an emptied file is one that is about to be written: nothing is given up meanwhile", async () => {
    writeFileSync(file(), "", { mode: 0o600 });
    await said("nothing was changed");
    expect(server.stderr).toContain("sluice.yaml: expected a configuration, found an empty file");
    expect(await listed()).toEqual(["lab/old"]);
    writeFileSync(file(), configOf("new"), { mode: 0o600 });
    await said("taken over");
    expect(await listed()).toEqual(["lab/new"]);
  });

  test("a link whose file is away for a while is no wish to have none; when it is back, it is read", async () => {
    const kept = join(folder, "kept.yaml");
    renameSync(file(), kept);
    symlinkSync(kept, file());
    const away = `${kept}.away`;
    renameSync(kept, away);
    server.child.kill("SIGHUP");
    await said("nothing was changed");
    expect(server.stderr).toContain("sluice.yaml: cannot be read (ENOENT)");
    expect(await listed()).toEqual(["lab/old"]);
    writeFileSync(away, configOf("new"), { mode: 0o600 });
    renameSync(away, kept);
    await said("taken over");
    expect(await listed()).toEqual(["lab/new"]);
  });
});

test("SIGUSR1 and SIGUSR2 end nothing", async () => {
  for (const signal of ["SIGUSR1", "SIGUSR2"] as const) server.child.kill(signal);
  // Heard behind them.
  server.child.kill("SIGHUP");
  await Promise.race([said("taken over"), server.child.exited]);
  expect(server.child.signalCode).toBeNull();
});

test("SIGHUP while a server starts ends nothing, and is heard once it serves", async () => {
  const other = makeFolder();
  const child = Bun.spawn([...COMMAND, "serve", "--port", "0"], {
    ...{ cwd: other, stdin: "ignore", stdout: "pipe", stderr: "pipe" },
    env: cleanEnvironment({ folder: other, env: { SLUICE_LOCAL_DISCOVERY: "false" } }),
  });
  try {
    const begun = join(other, "data", "sluice.lock");
    // Looked for without a pause: the start is over soon.
    while (!existsSync(begun) && child.exitCode === null) await Bun.sleep(0);
    child.kill("SIGHUP");
    let said = "";
    for await (const bytes of child.stderr) {
      said += new TextDecoder().decode(bytes);
      if (said.includes("taken over")) break;
    }
    expect([said, child.signalCode]).toEqual([expect.stringContaining("taken over"), null]);
  } finally {
    child.kill("SIGKILL");
    await child.exited;
    removeFolder(other);
  }
});
