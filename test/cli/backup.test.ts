import { Database } from "bun:sqlite";
import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeFolder, type RunningBinary, removeFolder, runBinary } from "../support/binary.ts";
import { until } from "../support/wait.ts";
import { COMMAND, serve, sluice } from "./support.ts";

// Every command is a process of its own, on a machine that may be busy.
setDefaultTimeout(60_000);

let folder: string;
let server: RunningBinary | undefined;
beforeEach(() => {
  folder = makeFolder();
});
afterEach(async () => {
  server?.child.kill("SIGKILL");
  await server?.child.exited;
  server = undefined;
  removeFolder(folder);
});

const run = (...args: string[]) => sluice(folder, args);
const done = async (...args: string[]) => {
  const result = await run(...args);
  expect([args.join(" "), result.code, result.code === 0 ? "" : result.stderr]).toEqual([args.join(" "), 0, ""]);
  return result;
};
const made = async (...args: string[]) =>
  JSON.parse((await done(...args, "--json")).stdout) as { id: string; key: string };
const answer = async (key: string) => {
  const body = JSON.stringify({ model: "sluice/echo", messages: [{ role: "user", content: "Hello" }] });
  const headers = { "content-type": "application/json", authorization: `Bearer ${key}` };
  return (await fetch(`${server?.url}/v1/chat/completions`, { method: "POST", headers, body })).status;
};

test("a key that was revoked after the backup stays revoked through a restore; what was made since is gone, and said to be", async () => {
  const kept = await made("keys", "create", "--name", "kept");
  const leaked = await made("keys", "create", "--name", "leaked");
  const early = await made("keys", "create", "--name", "early");
  const token = await made("tokens", "create");
  await done("keys", "revoke", early.id);
  const file = join(folder, "copy.db");
  await done("backup", file);
  await done("keys", "revoke", leaked.id);
  await done("tokens", "revoke", token.id);
  const later = await made("keys", "create", "--name", "later");
  const restored = await done("restore", file);
  expect(restored.stderr).toBe(
    "2 keys revoked since the backup: revoked in it too.\n1 key made since the backup: gone, with all that was written since.\n",
  );
  server = await serve(folder, ["--port", "0"]);
  expect(await Promise.all([kept, leaked, early, token, later].map(({ key }) => answer(key)))).toEqual([
    200, 401, 401, 401, 401,
  ]);
});

test("a key that was limited otherwise after the backup is limited so through a restore", async () => {
  const limitsOf = async () =>
    (JSON.parse((await done("keys", "list", "--json")).stdout) as Record<string, unknown>[]).map((key) => [
      ...[key["name"], key["models"], key["endpoints"], key["cap_day_usd"], key["cap_total_usd"]],
      ...[key["cap_requests_day"], key["expires_at"], key["revoked_at"]],
    ]);
  const narrowed = await made("keys", "create", "--name", "narrowed");
  const widened = await made("keys", "create", "--name", "widened", "--cap-usd", "5", "--models", "openai/*");
  await made("keys", "create", "--name", "same", "--endpoints", "chat");
  const file = join(folder, "copy.db");
  await done("backup", file);
  await done("keys", "change", narrowed.id, ...["--models", "openai/*", "--endpoints", "web", "--cap-usd", "3"]);
  await done("keys", "change", narrowed.id, ...["--expires", "1d", "--cap-usd-day", "1", "--cap-requests-day", "9"]);
  await done("keys", "change", widened.id, "--cap-usd", "none");
  const before = await limitsOf();
  const restored = await done("restore", file);
  expect(restored.stderr).toBe("2 keys limited otherwise since the backup: so in it too.\n");
  expect(await limitsOf()).toEqual(before);
  server = await serve(folder, ["--port", "0"]);
  expect(await answer(narrowed.key)).toBe(403);
});

test("both say for programs what they say for people", async () => {
  await made("keys", "create");
  const file = join(folder, "copy.db");
  const taken = await done("backup", file, "--json");
  expect(JSON.parse(taken.stdout)).toEqual({ file, notes: [] });
  await made("keys", "create");
  const { stdout, stderr } = await done("restore", file, "--json");
  const store = join(folder, "data", "sluice.db");
  expect(JSON.parse(stdout)).toEqual({
    file,
    store,
    before: expect.stringContaining(`${store}.`),
    notes: ["1 key made since the backup: gone, with all that was written since."],
  });
  expect(stderr).toBe("");
});

test("where the store before cannot be asked, a restore says that revoked keys work again", async () => {
  const key = await made("keys", "create");
  const file = join(folder, "copy.db");
  await done("backup", file);
  await done("keys", "revoke", key.id);
  writeFileSync(join(folder, "data", "sluice.db"), "broken".repeat(10_000));
  const over = await done("restore", file);
  expect(over.stderr).toStartWith(
    "The store before could not be read: keys that were revoked or limited after the backup work again as before.",
  );
  const other = join(folder, "other");
  const fresh = await done("restore", file, "--data", other);
  expect(fresh.stderr).toStartWith(
    "No store was here before: keys that were revoked or limited after the backup work again as before.",
  );
  expect(readdirSync(other).filter((name) => /restor/.test(name))).toEqual([]);
  server = await serve(folder, ["--port", "0"]);
  expect(await answer(key.key)).toBe(200);
});

test("books that do not add up are told by doctor, and a backup of them is not restored", async () => {
  await made("keys", "create");
  await done("accounts", "deposit", "local", "5");
  const file = join(folder, "copy.db");
  await done("backup", file);
  const path = join(folder, "data", "sluice.db");
  for (const books of [path, file]) {
    const database = new Database(books);
    database.run("UPDATE ledger_account SET posted = posted + 1000 WHERE kind = 'wallet'");
    database.close();
  }
  const doctor = await run("doctor", "--json");
  const told = (JSON.parse(doctor.stdout) as Record<string, string>[]).filter(({ check }) => check === "ledger");
  expect(doctor.code).toBe(1);
  expect(told[0]).toMatchObject({
    state: "fault",
    detail: expect.stringMatching(/wallet:\S+: posted 5000001000, its entries say 5000000000/),
    advice: "restore the store from a backup: sluice restore FILE",
  });
  const before = readFileSync(path);
  const { code, stderr } = await run("restore", file);
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(/^error: the ledger in this file is not right: \S+, .*its entries say 5000000000\n$/),
  ]);
  expect(readFileSync(path).equals(before)).toBe(true);
});

test("a backup says what is not in it, and a restore what is missing", async () => {
  server = await serve(folder, ["--port", "0"]);
  const headers = { "content-type": "application/json", authorization: `Bearer ${server.key}`, prefer: "wait=20" };
  const body = JSON.stringify({ model: "sluice/sketch", prompt: "a lighthouse" });
  const drawn = await fetch(`${server.url}/v1/images/generations`, { method: "POST", headers, body });
  expect(((await drawn.json()) as { status: string }).status).toBe("succeeded");
  const file = join(folder, "copy.db");
  writeFileSync(join(folder, "data", "reasoning.key"), Buffer.alloc(32), { mode: 0o600 });
  const { stdout } = await done("backup", file);
  const lines = stdout.trimEnd().split("\n");
  expect(lines).toHaveLength(3);
  expect(lines[1]).toBe(`Not in it: the files of 1 image. Copy the folder ${join(folder, "data", "images")} too.`);
  expect(lines[2]).toStartWith("Not in it: the key that kept reasoning is sealed with");
  await server.stop();
  expect((await done("restore", file)).stderr).toBe("");
  const other = join(folder, "other");
  mkdirSync(other);
  const elsewhere = await done("restore", file, "--data", other);
  expect(elsewhere.stderr).toContain(
    `The files of 1 image are not in ${join(other, "images")}: a backup does not hold them.`,
  );
  expect(existsSync(join(other, "images"))).toBe(false);
});

test("a restore says of images made since the backup that a server will remove them", async () => {
  server = await serve(folder, ["--port", "0"]);
  const headers = { "content-type": "application/json", authorization: `Bearer ${server.key}`, prefer: "wait=20" };
  const body = JSON.stringify({ model: "sluice/sketch", prompt: "a lighthouse" });
  const draw = async () => {
    const drawn = await fetch(`${server?.url}/v1/images/generations`, { method: "POST", headers, body });
    expect(((await drawn.json()) as { status: string }).status).toBe("succeeded");
  };
  await draw();
  const file = join(folder, "copy.db");
  await done("backup", file);
  await draw();
  await draw();
  await server.stop();
  const images = join(folder, "data", "images");
  expect((await done("restore", file)).stderr).toBe(
    `The files of 2 images made since the backup are removed by a server soon after its start, from ${images} or the bucket that they are kept in. Copy them first where you may want the store before again.\n`,
  );
  expect((await done("restore", join(folder, "data", "sluice.db.before-restore"))).stderr).toBe("");
});

test("what was under way at a backup does not keep it from being restored the day after, nor the doctor of a dead server's store from finding it sound", async () => {
  mkdirSync(join(folder, "data"), { mode: 0o700 });
  const priced = "models: [{ id: sluice/script, pricing: { input: 1, output: 2 } }]";
  writeFileSync(join(folder, "data", "sluice.yaml"), priced, { mode: 0o600 });
  server = await serve(folder, ["--port", "0"]);
  await done("accounts", "create", "team", "--plan", "pro");
  const { key } = await made("keys", "create", "--account", "team");
  const script = { chunk_delay_ms: 5_000, blocks: [{ type: "text", text: "one two three four five six" }] };
  const messages = [{ role: "user", content: JSON.stringify(script) }];
  const headers = { "content-type": "application/json", authorization: `Bearer ${key}` };
  const body = JSON.stringify({ model: "sluice/script", stream: true, messages });
  // Held on to: a client that is forgotten has left.
  const reply = await fetch(`${server.url}/v1/chat/completions`, { method: "POST", headers, body });
  expect(reply.status).toBe(200);
  const store = join(folder, "data", "sluice.db");
  const holds = () => {
    const database = new Database(store, { readonly: true });
    const [found] = database.query("SELECT count(*) FROM ledger_hold").values()[0] ?? [];
    database.close();
    return Number(found);
  };
  await until(() => holds() === 1, "the request is written down");
  const file = join(folder, "copy.db");
  await done("backup", file);
  expect(reply.bodyUsed).toBe(false);
  server.child.kill("SIGKILL");
  await server.child.exited;
  // As a day later.
  for (const path of [file, store]) {
    const database = new Database(path);
    database.run("UPDATE ledger_hold SET created_at = created_at - 86400000, deadline_at = deadline_at - 86400000");
    database.run("PRAGMA wal_checkpoint(TRUNCATE)");
    database.close();
  }
  await done("doctor");
  await done("restore", file);
  server = await serve(folder, ["--port", "0"]);
  expect(holds()).toBe(0);
  await done("doctor");
});

test("a backup that nobody may write to is restored, as a store that its owner may", async () => {
  await made("keys", "create");
  const file = join(folder, "copy.db");
  await done("backup", file);
  chmodSync(file, 0o400);
  await done("restore", file);
  if (process.platform !== "win32") expect(statSync(join(folder, "data", "sluice.db")).mode & 0o777).toBe(0o600);
  await made("keys", "create");
});

test("the store of a server of an older version is not changed below it: that version could not be started again", async () => {
  server = await serve(folder, ["--port", "0"]);
  const store = new Database(join(folder, "data", "sluice.db"));
  // As if the last step had not been taken.
  store.run("DELETE FROM __drizzle_migrations WHERE created_at = (SELECT max(created_at) FROM __drizzle_migrations)");
  const steps = () => store.query("SELECT count(*) FROM __drizzle_migrations").values();
  const before = steps();
  const file = join(folder, "copy.db");
  for (const args of [["backup", file], ["keys", "list"], ["keys", "create"], ["usage"], ["doctor"]]) {
    const { code, stdout, stderr } = await run(...args);
    expect([args, code, `${stdout}${stderr}`]).toEqual([args, 1, expect.stringContaining("is of an older version")]);
  }
  expect([steps(), existsSync(file)]).toEqual([before, false]);
  store.close();
});

// Windows syncs a file only for who may write to it: elsewhere the system calls show how it was opened.
const strace = process.platform === "linux" ? Bun.which("strace") : null;
test.skipIf(!strace)("what is synced to the disk was opened for writing", async () => {
  const trace = join(folder, "trace");
  const command = [strace ?? "", "-f", "-qq", "-e", "trace=openat,fsync", "-o", trace, ...COMMAND];
  await done("keys", "create");
  for (const [verb, name] of [
    ["backup", ".partial"],
    ["restore", "sluice.db.restoring"],
  ]) {
    const { code, stderr } = await runBinary([verb ?? "", join(folder, "copy.db")], { folder, command });
    // A system that forbids tracing cannot be asked.
    if (/ptrace|Operation not permitted/.test(stderr)) return;
    expect([verb, code]).toEqual([verb, 0]);
    // The last that is opened under this name, and what is done with it next.
    const lines = readFileSync(trace, "utf8").split("\n");
    const at = lines.findLastIndex((line) => line.includes(`${name}", O_`));
    expect([verb, lines[at]]).toEqual([verb, expect.stringMatching(/O_RDWR.* = \d+$/)]);
    expect([verb, lines[at + 1]]).toEqual([verb, expect.stringContaining(`fsync(${lines[at]?.split(" = ")[1]})`)]);
  }
});
