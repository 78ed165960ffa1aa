import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeFolder, type RunningBinary, removeFolder } from "../support/binary.ts";
import { until } from "../support/wait.ts";
import { serve, sluice } from "./support.ts";

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
const json = async (...args: string[]) => {
  const { code, stdout, stderr } = await run(...args, "--json");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout);
};
/** Makes the store, as a first start would. */
const begin = () => run("keys", "create");

/** Writes over the page where a table or an index of the store begins. `bytes`: a store so large that it is not looked through at its start. */
function breakPage(name: string, bytes = 0): void {
  const path = join(folder, "data", "sluice.db");
  const store = new Database(path);
  if (bytes > 0) {
    store.run("CREATE TABLE filler (bytes BLOB)");
    store.run("INSERT INTO filler VALUES (zeroblob(?))", [bytes]);
  }
  const [page] = store.query("SELECT rootpage FROM sqlite_schema WHERE name = ?").values(name)[0] ?? [];
  const [size] = store.query("PRAGMA page_size").values()[0] ?? [];
  store.run("PRAGMA wal_checkpoint(TRUNCATE)");
  store.close();
  const written = readFileSync(path);
  written.fill(0xa5, (Number(page) - 1) * Number(size), Number(page) * Number(size));
  writeFileSync(path, written);
}

test("a store with a broken page takes nothing more, and is read where it can be", async () => {
  await begin();
  await json("accounts", "create", "team");
  breakPage("idempotency_age");
  for (const args of [
    ["accounts", "deposit", "team", "5"],
    ["accounts", "plan", "team", "pro"],
    ["accounts", "create", "other"],
    ["keys", "create"],
    ["tokens", "create"],
  ]) {
    const { code, stderr } = await run(...args);
    expect(`${args.join(" ")}: ${code} ${stderr}`).toMatch(/: 1 error: The store .* is damaged/);
  }
  expect(await json("accounts", "show", "team")).toMatchObject({ plan: { id: "free" }, balance: { usd: 0 } });
  const [key] = await json("keys", "list");
  expect((await run("keys", "revoke", key.id)).code).toBe(0);
});

test("a page that turns out to be broken only when it is read is a sentence, no trace", async () => {
  await begin();
  breakPage("usage_rollup");
  breakPage("ledger_hold", 33 * 1024 * 1024);
  const sentence = `error: The store ${join(folder, "data", "sluice.db")} is damaged; restore it from a backup.\n`;
  expect(await run("usage")).toMatchObject({ code: 1, stderr: sentence });
  expect(await run("serve", "--port", "0")).toMatchObject({ code: 1, stderr: sentence });
});

test("a command that only reads looks like no write to a server beside it, which would read all its keys again; one that writes does", async () => {
  await begin();
  const beside = new Database(join(folder, "data", "sluice.db"));
  const version = () => beside.query("PRAGMA data_version").values()[0]?.[0];
  const change = () => beside.run("UPDATE account SET created_at = created_at + 1");
  change();
  const first = version();
  for (const args of [
    ["keys", "list"],
    ["tokens", "list"],
    ["accounts", "list"],
    ["accounts", "show", "local"],
    ["usage"],
    ["doctor"],
  ]) {
    await run(...args);
    expect({ args, version: version() }).toEqual({ args, version: first });
    change();
  }
  await json("keys", "create");
  expect(version()).not.toBe(first);
  beside.close();
});

test("of many accounts the nearest is named, not all of them", async () => {
  await begin();
  const store = new Database(join(folder, "data", "sluice.db"));
  const insert = store.query("INSERT INTO account (id, name, plan, created_at) VALUES (?, ?, 'free', 1)");
  store.transaction(() => {
    for (let count = 0; count < 5_000; count++) insert.run(`acct_${count}`, `user-${count}`);
  })();
  store.close();
  const { code, stderr } = await run("accounts", "show", "usr-4711");
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: `error: there is no account "usr-4711"; did you mean user-4711? \`sluice accounts list\` shows the 5001 there are\n`,
  });
});

describe("accounts", () => {
  test("create, list, plan, deposit, show", async () => {
    await begin();
    const made = await json("accounts", "create", "team", "--plan", "pro");
    expect(made).toMatchObject({ object: "account", name: "team", plan: "pro" });
    expect((await json("accounts", "create", "guests")).plan).toBe("free");
    expect((await json("accounts", "list")).map((row: { name: string }) => row.name)).toEqual([
      "local",
      "team",
      "guests",
    ]);
    expect(await json("accounts", "plan", made.id, "max")).toMatchObject({ name: "team", plan: "max" });
    const first = await json("accounts", "deposit", "team", "12.5", "--reference", "r1");
    expect(first).toMatchObject({ kind: "deposit", amount: "12.500000000", reference: "r1", repeated: false });
    expect(await json("accounts", "deposit", "team", "12.5", "--reference", "r1")).toEqual({
      ...first,
      repeated: true,
    });
    expect((await run("accounts", "deposit", "team", "12.5", "--reference", "r1")).stdout).toBe(
      "Booked before, nothing was written: deposit of 12.500000000 USD, team, reference r1.\nThe wallet has 12.500000000 USD.\n",
    );
    await json("accounts", "deposit", "team", "0.000000001", "--promotion", "--detail", "a gift");
    expect(await json("accounts", "list")).toMatchObject([
      { name: "local", wallet_usd: "0.000000000" },
      { name: "team", wallet_usd: "12.500000001" },
      { name: "guests", wallet_usd: "0.000000000" },
    ]);
    const { stdout: corrected } = await run("accounts", "deposit", "team", "--correction", "--", "-2.5");
    expect(corrected).toMatch(
      /^Booked: correction of -2\.500000000 USD, team, reference command-\w{16}\.\nThe wallet has 10\.000000001 USD\.\n$/,
    );
    expect(await json("accounts", "show", "team")).toMatchObject({
      plan: { id: "max" },
      balance: { usd: 10, has_deposit: true },
      window: { usd: 10, available_usd: 10 },
    });
    const shown = (await run("accounts", "show", "team")).stdout.trimEnd().split("\n");
    expect(shown.map((line) => line.slice(0, 19))).toContain("requests a minute  ");
    expect(Object.fromEntries(shown.map((line) => line.split(/ {2,}/)))).toEqual({
      ...{ id: made.id, name: "team", plan: "max", created: expect.stringMatching(/^20.*Z$/) },
      ...{ wallet: expect.stringContaining("10 USD, 10 USD available"), "real deposit": "yes" },
      ...{ window: "10 of 10 USD, ends 5 h after its first use", "images, 24 h": "0 of 80" },
      ...{ "web calls, today": "0 of 300", "requests a minute": "240" },
    });
    const table = (await run("accounts", "list")).stdout.split("\n");
    expect(table[0]).toMatch(/^id +name +plan +created +wallet USD$/);
    expect(table[2]).toMatch(/ team +max .* 10\.000000001$/);
  });

  test("refusals, each with a sentence; nothing is written", async () => {
    await begin();
    await run("accounts", "create", "team");
    await run("accounts", "deposit", "team", "5", "--reference", "r1");
    const refused: [string[], number, string][] = [
      [["accounts", "create", "team"], 1, "There already is an account team."],
      [["accounts", "create", "x", "--plan", "gold"], 2, 'there is no plan "gold"; there are: local, free, pro'],
      [["accounts", "create", "n".repeat(101)], 2, "An account's name has 1 to 100 characters."],
      [["keys", "create", "--name", "n".repeat(101)], 2, "A key's name has 1 to 100 characters."],
      [["keys", "create", "--admin", "--models", "sluice/*"], 2, "An admin key calls no model"],
      [["tokens", "create", "--expires", "91d"], 2, "A token expires after 90 days at the latest."],
      [["accounts", "plan", "nobody", "pro"], 1, 'there is no account "nobody"; there are: local, team'],
      [["accounts", "deposit", "team", "0"], 2, "the amount"],
      [["accounts", "deposit", "team", "1.0000000001"], 2, "nine decimals at the most"],
      [["accounts", "deposit", "team", "1000000.000000001"], 2, "at most 1,000,000"],
      [["accounts", "deposit", "team", "1e3"], 2, "the amount"],
      [["accounts", "deposit", "team", "--", "-1"], 2, "the amount: what takes money away is a --correction"],
      [["accounts", "deposit", "team", "6", "--reference", "r".repeat(201)], 2, "A reference has 1 to 200"],
      [["accounts", "deposit", "team", "6", "--detail", "d".repeat(1001)], 2, "A remark has at most 1000 characters."],
      [
        ["accounts", "deposit", "team", "6", "--reference", "r1"],
        1,
        "This reference was used for another account, kind or amount.",
      ],
      [["accounts", "deposit", "team", "--correction", "--", "-6"], 1, "less free than the correction would take"],
      [["accounts", "deposit", "team"], 2, "missing required argument 'usd'"],
      [
        ["accounts", "deposit", "team", "6", "--promotion", "--correction"],
        2,
        "--promotion and --correction do not go together",
      ],
    ];
    for (const [args, code, text] of refused) {
      const told = await run(...args);
      expect([args, told.code, told.stdout]).toEqual([args, code, ""]);
      expect(told.stderr).toContain(text);
      expect(told.stderr).not.toContain("    at ");
    }
    expect(await json("accounts", "show", "team")).toMatchObject({ balance: { usd: 5 }, plan: { id: "free" } });
    expect((await json("accounts", "list")).length).toBe(2);
  });

  test("a plan that is taken out of the file under its accounts is told: by doctor, at a start and when the file is read again", async () => {
    await begin();
    const file = join(folder, "data", "sluice.yaml");
    writeFileSync(file, "plans: { lab: { requests_per_minute: 7 } }", { mode: 0o600 });
    await json("accounts", "create", "team", "--plan", "lab");
    const doctor = async () => {
      const { stdout } = await run("doctor", "--json");
      return (JSON.parse(stdout) as { check: string }[]).filter(({ check }) => check === "plans");
    };
    expect(await doctor()).toEqual([]);
    server = await serve(folder, ["--port", "0"]);
    expect(server.stderr).not.toContain("Plan ");
    writeFileSync(file, "plans: {}");
    const told = 'Plan "lab" is not configured: the account on it is treated as on plan free.';
    await until(() => server!.stderr.includes(`warning: ${told}`), "the warning");
    expect(await doctor()).toEqual([
      expect.objectContaining({
        state: "fault",
        detail: told,
        advice: expect.stringContaining("sluice accounts plan"),
      }),
    ]);
    await server.stop();
    await json("accounts", "create", "guests", "--plan", "pro");
    server = await serve(folder, ["--port", "0"]);
    expect(server.stderr).toContain(`warning: ${told}`);
    await json("accounts", "plan", "team", "pro");
    expect(await doctor()).toEqual([]);
  });

  test("need the file's plans and nothing else of it: the keys of vendors may be in the environment of the service alone", async () => {
    await begin();
    const file = join(folder, "data", "sluice.yaml");
    const vendor = `{ id: lab, dialect: chat, base_url: "http://127.0.0.1:9/v1", api_key: "\${LAB_KEY}" }`;
    writeFileSync(file, `vendors: [ ${vendor} ]\nplans: { lab: { requests_per_minute: 7 } }\n`, { mode: 0o600 });
    await json("accounts", "create", "team", "--plan", "lab");
    expect(await json("accounts", "show", "team")).toMatchObject({ plan: { requests_per_minute: 7 } });
    writeFileSync(file, "plans: { lab: { requests_per_minute: 0 } }");
    const { code, stderr } = await run("accounts", "list");
    const fault = "plans.lab.requests_per_minute: expected a whole number, 1 or more, found 0";
    expect({ code, stderr }).toEqual({ code: 1, stderr: `error: ${file}:1: ${fault}\n` });
  });

  test("plans of the file are known", async () => {
    await begin();
    writeFileSync(join(folder, "data", "sluice.yaml"), "plans: { lab: { requests_per_minute: 7 } }");
    await json("accounts", "create", "team", "--plan", "lab");
    expect((await json("accounts", "show", "team")).plan).toMatchObject({ id: "lab", requests_per_minute: 7 });
  });
});

describe("beside a running server", () => {
  const ECHO = { model: "sluice/echo", messages: [{ role: "user", content: "one two three" }] };
  const ask = async (key: string, path: string, body?: object) => {
    const response = await fetch(`${server?.url}${path}`, {
      method: body ? "POST" : "GET",
      headers: { authorization: `Bearer ${key}`, ...(body && { "content-type": "application/json" }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Record<string, never> };
  };

  test("usage that nobody knows the price of is not told as free", async () => {
    const reply = { choices: [{ message: { role: "assistant", content: "Yes" }, finish_reason: "stop" }] };
    using upstream = Bun.serve({ port: 0, fetch: () => Response.json(reply) });
    const vendor = { id: "lab", dialect: "chat", base_url: `${upstream.url}v1`, models: "any" };
    mkdirSync(join(folder, "data"));
    writeFileSync(join(folder, "data", "sluice.json"), JSON.stringify({ vendors: [vendor] }));
    server = await serve(folder, ["--port", "0"]);
    for (const body of [ECHO, { ...ECHO, model: "lab/a" }, { ...ECHO, model: "lab/b" }]) {
      expect((await ask(server.key, "/v1/chat/completions", body)).status).toBe(200);
    }
    const told = "Not in these costs: 2 requests of models without a known price.\n";
    const table = await run("usage");
    expect(table).toMatchObject({ code: 0, stderr: told });
    const [titles, ...lines] = table.stdout
      .trimEnd()
      .split("\n")
      .map((line) => line.split(/ {2,}/));
    const counts = ["requests", "input", "cache read", "cache write", "output", "reasoning", "images, calls"];
    expect(titles).toEqual(["model", ...counts, "cost USD", "paid USD"]);
    expect(lines.map(([model, requests]) => [model, requests])).toEqual([
      ...[
        ["lab/a", "1"],
        ["lab/b", "1"],
      ],
      ...[
        ["sluice/echo", "1"],
        ["total", "3"],
      ],
    ]);
    const nothing = ["0", "0", "0.000000000", "0.000000000"];
    expect(lines.map((cells) => cells.slice(6))).toEqual([nothing, nothing, nothing, nothing]);
    const sum = (column: number) => lines.slice(0, 3).reduce((all, cells) => all + Number(cells[column]), 0);
    expect([2, 5].map((column) => Number(lines[3]?.[column]))).toEqual([sum(2), sum(5)]);
    expect((await json("usage")).map((row: { unpriced_requests: number }) => row.unpriced_requests)).toEqual([1, 1, 0]);
    await run("accounts", "create", "guests");
    for (const [account, rows] of [
      ["local", 3],
      ["guests", 0],
    ] as const)
      for (const group of ["model", "request"])
        expect(await json("usage", "--account", account, "--group", group)).toHaveLength(rows);
  });

  test("a plan and a deposit count at once; usage is told as a table, JSON and CSV; a backup is taken and restored", async () => {
    server = await serve(folder, ["--port", "0"]);
    const { key } = server;
    expect((await run("accounts", "plan", "local", "pro")).code).toBe(0);
    expect((await run("accounts", "deposit", "local", "3", "--reference", "x")).code).toBe(0);
    const account = (await ask(key, "/v1/account")).body as unknown as {
      plan: { id: string };
      balance: { usd: number };
    };
    expect([account.balance.usd, account.plan.id]).toEqual([3, "pro"]);
    for (let at = 0; at < 3; at++) expect((await ask(key, "/v1/chat/completions", ECHO)).status).toBe(200);

    const [byModel] = await json("usage", "--group", "model");
    expect(byModel).toMatchObject({ model: "sluice/echo", requests: 3, charged_usd: "0.000000000" });
    expect(await json("usage", "--by", "model")).toEqual([byModel]);
    expect((await json("usage", "--group", "account"))[0]).toMatchObject({ name: "local", requests: 3 });
    expect((await json("usage", "--group", "request")).length).toBe(3);
    const none = (await run("usage", "--since", "2026-01-01", "--until", "2026-01-02")).stdout;
    expect(none).toBe("No usage since 2026-01-01T00:00:00.000Z until 2026-01-02T00:00:00.000Z.\n");
    for (const group of ["model", "request"]) {
      expect(await json("usage", "--group", group, "--since", "2d", "--until", "1d")).toEqual([]);
      expect(await json("usage", "--group", group, "--until", "2100-01-01")).not.toEqual([]);
    }
    const csv = (await run("usage", "--csv", "--group", "day")).stdout.split("\r\n");
    expect([csv[0]?.startsWith("group,name,requests,"), csv[1]?.split(",")[2]]).toEqual([true, "3"]);
    expect((await run("usage", "--csv", "--group", "request")).stdout.trimEnd().split("\r\n")).toHaveLength(4);

    const file = join(folder, "copies", "one.db");
    expect(await run("backup", file)).toMatchObject({
      code: 0,
      stderr: "",
      stdout: `The store is copied to ${file}.\n`,
    });
    const again = await run("backup", file);
    expect([again.code, again.stderr]).toEqual([1, `error: There already is a file ${file}; choose another name.\n`]);
    const early = await run("restore", file);
    expect(early).toMatchObject({ code: 1, stdout: "" });
    expect(early.stderr).toStartWith("error: Another Sluice server is already running on the data folder");
    await ask(key, "/v1/chat/completions", ECHO);
    expect(await server.stop()).toBe(0);

    expect((await json("usage"))[0].requests).toBe(4);
    const restored = await run("restore", file);
    expect(restored).toMatchObject({ code: 0, stderr: "" });
    expect(restored.stdout).toContain("sluice.db.before-restore");
    expect((await json("usage"))[0].requests).toBe(3);
    server = await serve(folder, ["--port", "0"]);
    expect((await ask(key, "/v1/chat/completions", ECHO)).status).toBe(200);
    const doctor = await run("doctor");
    expect(doctor).toMatchObject({ code: 0, stdout: expect.stringContaining("; accounts: 1, keys in force: 1\n") });
  });

  test("plans of a server whose file is elsewhere: what this command is not told of is said, and with the file it knows them", async () => {
    const file = join(folder, "elsewhere.yaml");
    writeFileSync(file, "plans: { gold: { requests_per_minute: 7 } }\n");
    const hint = "a server runs here: if it was started with --config, so must this command be";
    await begin();
    const alone = await run("accounts", "create", "x", "--plan", "gold");
    expect([alone.code, alone.stderr]).toEqual([2, expect.not.stringContaining(hint)]);
    server = await serve(folder, ["--port", "0", "--config", file]);
    const beside = await run("accounts", "create", "x", "--plan", "gold");
    expect([beside.code, beside.stderr]).toEqual([2, expect.stringContaining(hint)]);
    expect((await run("accounts", "create", "x", "--plan", "gold", "--config", file)).code).toBe(0);
    expect((await run("accounts", "show", "x")).stdout).toContain(`gold (not configured: treated as free; ${hint})`);
    expect((await run("accounts", "show", "x", "--config", file)).stdout).not.toContain("not configured");
  });

  test("a file that is no store is refused; a folder without one is made", async () => {
    const file = join(folder, "junk");
    writeFileSync(file, "junk");
    const refused = await run("restore", file);
    expect([refused.code, refused.stderr]).toEqual([1, `error: ${file} is no store of Sluice: it is no database.\n`]);
    expect(existsSync(join(folder, "data", "sluice.db"))).toBe(false);
    const other = join(folder, "other");
    mkdirSync(other);
    await begin();
    expect((await run("backup", join(folder, "b.db"))).code).toBe(0);
    expect((await run("restore", join(folder, "b.db"), "--data", other)).code).toBe(0);
    expect(existsSync(join(other, "sluice.db"))).toBe(true);
  });
});
