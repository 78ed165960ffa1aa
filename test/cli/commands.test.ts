import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import manifest from "../../package.json";
import { cleanEnvironment, makeFolder, removeFolder, runBinary } from "../support/binary.ts";
import { COMMAND, serve, sluice } from "./support.ts";

/** Starts a program under an id that no account has, where the system lets anybody do so. */
const NOBODY = ["unshare", "--user", "--map-user=54321", "--map-group=54321"];
const canBeNobody = Bun.which("unshare") !== null && Bun.spawnSync([...NOBODY, "true"]).exitCode === 0;

// Every command is a process of its own, on a machine that may be busy.
setDefaultTimeout(60_000);

let folder: string;
beforeEach(() => {
  folder = makeFolder();
});
afterEach(() => removeFolder(folder));

const KEY = /^sk-sluice-[0-9A-Za-z]{38}$/;
const dataExists = () => existsSync(join(folder, "data"));

describe("help", () => {
  test.each([
    [["--help"], ["serve", "keys", "models", "usage", "doctor", "openapi", "version"]],
    [["help"], ["serve", "keys"]],
    [
      ["serve", "--help"],
      ["--host", "--port", "--data", "--config", "--public-url", "--cdn-url", "--workers"],
    ],
    [
      ["keys", "--help"],
      ["create", "list", "revoke"],
    ],
    [
      ["keys", "create", "--help"],
      ["--name", "--account", "--admin", "--json"],
    ],
    [["keys", "list", "--help"], ["--json"]],
    [["keys", "revoke", "--help"], ["<id>"]],
    [
      ["models", "--help"],
      ["--modality", "--all-models", "--json"],
    ],
    [
      ["usage", "--help"],
      ["--account", "--since", "--until", "--json", "--csv", "--group"],
    ],
    [
      ["accounts", "--help"],
      ["create", "list", "show", "plan", "deposit"],
    ],
    [["backup", "--help"], ["<file>"]],
    [["restore", "--help"], ["<file>"]],
    [["doctor", "--help"], ["--json"]],
    [["openapi", "--help"], ["Usage: sluice openapi"]],
    [["version", "--help"], ["--json"]],
  ])("%j", async (args, words) => {
    const { code, stdout, stderr } = await sluice(folder, args);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    for (const word of words) expect(stdout).toContain(word);
    expect(stdout).not.toContain("\x1b");
    expect(dataExists()).toBe(false);
  });
});

test.each(["--help", "--version", "serve --help", "keys --help"])(
  "%s ends without a word when nobody reads it",
  async (args) => {
    const script = `{ sleep 0.3; "$@" ${args}; echo "ended with $?" >&2; } | true`;
    const env = cleanEnvironment({ folder });
    const child = Bun.spawn(["sh", "-c", script, "sh", ...COMMAND], { env, stdin: "ignore", stderr: "pipe" });
    expect(await child.stderr.text()).toBe("ended with 0\n");
  },
);

// Only Linux has a file that is always full.
test.skipIf(process.platform !== "linux").each(["--help", "openapi", "version --json"])(
  "%s says in one sentence that what it prints cannot be kept, and ends with 1",
  async (args) => {
    const script = `"$@" ${args} >/dev/full; echo "ended with $?" >&2`;
    const env = cleanEnvironment({ folder });
    const child = Bun.spawn(["sh", "-c", script, "sh", ...COMMAND], { env, stdin: "ignore", stderr: "pipe" });
    expect(await child.stderr.text()).toBe(
      "error: the output cannot be written (ENOSPC); what of it is there is not whole\nended with 1\n",
    );
  },
);

// Where no file may grow beyond a hundred kilobytes the log of a server that died has no room to go back into the store.
test.skipIf(process.platform === "win32")(
  "a full disk loses nothing, and a command that only reads works there",
  async () => {
    const server = await serve(folder, ["--port", "0"]);
    server.child.kill("SIGKILL");
    await server.child.exited;
    const env = { ...cleanEnvironment({ folder }), SLUICE_LOCAL_DISCOVERY: "false" };
    const script = `trap "" XFSZ; ulimit -f 200; exec "$@" keys list --json`;
    const child = Bun.spawn(["sh", "-c", script, "sh", ...COMMAND], {
      env,
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()]);
    expect({ code: await child.exited, stderr }).toEqual({ code: 0, stderr: "" });
    const [row] = JSON.parse(stdout) as { id: string }[];
    const { stdout: later } = await sluice(folder, ["keys", "list", "--json"]);
    expect(JSON.parse(later)).toMatchObject([{ id: row!.id }]);
  },
);

describe("wrong usage ends with 2, names the nearest, and touches nothing", () => {
  test.each([
    [["srve"], "error: unknown command 'srve'\n(Did you mean serve?)\n"],
    [["modles"], "error: unknown command 'modles'\n(Did you mean models?)\n"],
    [["qqqqqqq"], "error: unknown command 'qqqqqqq'\nThe commands are: serve, keys,"],
    [["keys", "crate"], "error: unknown command 'crate'\n(Did you mean create?)\n"],
    [["help", "kyes"], "error: unknown command 'kyes'\n(Did you mean keys?)\n"],
    [["help", "qqqqqqq"], "error: unknown command 'qqqqqqq'\nThe commands are: serve, keys,"],
    [["keys", "help", "crate"], "error: unknown command 'crate'\n(Did you mean create?)\n"],
    [["--prot", "1"], "error: unknown option '--prot'\n(Did you mean --port?)\n"],
    [["serve", "--hots", "x"], "error: unknown option '--hots'\n(Did you mean --host?)\n"],
    [["keys", "list", "--jsn"], "error: unknown option '--jsn'\n(Did you mean --json?)\n"],
    [["serve", "extra"], "error: too many arguments for 'serve'."],
    [
      ["--config", "some.yaml", "keys", "list"],
      "(The command comes before its options: sluice keys list --config some.yaml)\n",
    ],
    [
      ["--json", "version"],
      "error: unknown option '--json'\n(The command comes before its options: sluice version --json)\n",
    ],
    [["keys", "revoke"], "error: missing required argument 'id'"],
    [["keys"], "Usage: sluice keys"],
    [["serve", "--port"], "error: option '--port <port>' argument missing"],
    [["serve", "--port", "abc"], 'error: --port: expected a port from 0 to 65535, found "abc"'],
    [["keys", "create", "--data", ""], "error: option '--data <dir>' argument '' is invalid. Expected a value"],
    [["serve", "--config="], "error: option '--config <file>' argument '' is invalid. Expected a value"],
    [["serve", "--data", " "], "argument ' ' is invalid. Expected a value"],
    [["backup", ""], "error: command-argument value '' is invalid for argument 'file'. Expected a value"],
    [["keys", "revoke", " "], "error: command-argument value ' ' is invalid for argument 'id'. Expected a value"],
    [["keys", "create", "--account", " "], "error: option '--account <account>' argument ' ' is invalid."],
    [["models", "--modality", "smell"], "Allowed choices are chat, image"],
    [["usage", "--since", "5y"], "error: --since: expected a span such as 24h or 7d"],
    [
      ["keys", "create", "--expires", "999999w"],
      'error: --expires: expected a span such as 12h or 30d, or a date to come such as 2027-01-31, found "999999w"',
    ],
    [["usage", "--until", "soon"], "error: --until: expected a span such as 24h or 7d"],
    [["usage", "--since", "1d", "--until", "2d"], "error: --until: expected a time after --since"],
    [["usage", "--json", "--csv"], "error: option '--csv' cannot be used with option '--json'"],
    [["usage", "--by", "moon"], "Allowed choices are model, key, day, account, request"],
  ])("%j", async (args, message) => {
    const { code, stdout, stderr } = await sluice(folder, args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(message);
    expect(dataExists()).toBe(false);
  });
});

describe("version", () => {
  test("as text, by flag", async () => {
    const text = await sluice(folder, ["version"]);
    expect(text.code).toBe(0);
    expect(text.stdout).toContain(manifest.version);
    expect(text.stdout).toContain(Bun.version);
    expect((await sluice(folder, ["--version"])).stdout).toBe(`${manifest.version}\n`);
    expect(dataExists()).toBe(false);
  });
});

describe("keys", () => {
  test("create, list, revoke, without a server and with no key ever shown again", async () => {
    const created = await sluice(folder, ["keys", "create", "--name", "laptop"]);
    const key = created.stdout.trim();
    expect(created.code).toBe(0);
    expect(key).toMatch(KEY);
    expect(created.stderr).toMatch(/^Key key_\w+ of account local\. It is not shown again\.$/m);
    const second = await sluice(folder, ["keys", "create", "--admin", "--json"]);
    const made = JSON.parse(second.stdout);
    expect(Object.keys(made)).toEqual(["id", "key", "name", "account"]);
    expect(made.key).toMatch(/^sk-sluice-admin-[0-9A-Za-z]{38}$/);

    const list = await sluice(folder, ["keys", "list", "--json"]);
    const rows = JSON.parse(list.stdout) as Record<string, unknown>[];
    expect(rows.map(({ name, kind, account_name, revoked_at }) => [name, kind, account_name, revoked_at])).toEqual([
      ["laptop", "api", "local", null],
      ["admin", "admin", "local", null],
    ]);
    expect(list.stdout).not.toContain(key);
    expect(list.stdout).not.toContain(made.key);

    const revoked = await sluice(folder, ["keys", "revoke", String(rows[0]?.["id"])]);
    expect(revoked).toMatchObject({ code: 0, stderr: "" });
    expect(revoked.stdout).toContain("laptop");
    const after = JSON.parse((await sluice(folder, ["keys", "list", "--json"])).stdout) as Record<string, unknown>[];
    expect(after.map((row) => row["revoked_at"] !== null)).toEqual([true, false]);
    const again = await sluice(folder, ["keys", "revoke", String(rows[0]?.["id"]), "--json"]);
    expect(JSON.parse(again.stdout)).toEqual(after[0]);
    const table = (await sluice(folder, ["keys", "list"])).stdout.split("\n");
    expect(table[0]).toMatch(/^id {2,}name {2,}account {2,}kind/);
    const [first] = rows;
    expect(table[1]?.split(/ {2,}/)).toEqual([
      ...[first?.["id"], "laptop", "local", "api", `${key.slice(0, 14)}…${key.slice(-4)}`],
      ...[
        expect.stringMatching(/^20\d\d-\d\d-\d\d \d\d:\d\d UTC$/),
        "never",
        expect.stringMatching(/^revoked 20/),
        "-",
      ],
    ]);
    expect(table[2]).toContain("in force");
  });

  test("are made in a folder that is closed to others", async () => {
    await sluice(folder, ["keys", "create"]);
    expect(statSync(join(folder, "data")).mode & 0o777).toBe(0o700);
    for (const file of readdirSync(join(folder, "data"))) {
      expect(statSync(join(folder, "data", file)).mode & 0o077).toBe(0);
    }
  });

  test.skipIf(!canBeNobody)(
    "under a user that has no account and no home: where the folder is named, else with a sentence",
    async () => {
      const asNobody = (args: readonly string[], ...without: readonly string[]) => {
        const unset = ["HOME", ...without].flatMap((name) => ["-u", name]);
        return runBinary(args, { folder, command: [...NOBODY, "env", ...unset, ...COMMAND] });
      };
      expect(await asNobody(["keys", "create"])).toMatchObject({ code: 0 });
      const lost = await asNobody(["keys", "list"], "SLUICE_DATA", "XDG_DATA_HOME");
      expect(lost).toEqual({
        code: 1,
        stdout: "",
        stderr:
          "error: this user has no home folder to keep data in (no account, and HOME is not set); choose a folder with --data or SLUICE_DATA\n",
      });
    },
  );

  test("faults end with 1 and a sentence, no stack", async () => {
    const nothing = await sluice(folder, ["keys", "list"]);
    expect(nothing).toMatchObject({ code: 1, stdout: "" });
    expect(nothing.stderr).toMatch(
      /^error: there is no store in .* yet; `sluice` makes one at its first start\. A server's own folder is named with --data\.\n$/,
    );
    expect(dataExists()).toBe(false);
    await sluice(folder, ["keys", "create"]);
    const stranger = await sluice(folder, ["keys", "create", "--account", "nobody"]);
    expect(stranger).toMatchObject({ code: 1, stderr: 'error: there is no account "nobody"; there are: local\n' });
    const unused = await sluice(folder, ["usage", "--account", "nobody"]);
    expect(unused).toMatchObject({ code: 1, stderr: 'error: there is no account "nobody"; there are: local\n' });
    const unknown = await sluice(folder, ["keys", "revoke", "key_nosuch"]);
    expect(unknown).toMatchObject({ code: 1, stdout: "" });
    expect(unknown.stderr).toMatch(
      /^error: No key or token fits\. `sluice keys list` and `sluice tokens list` show their ids\./,
    );
    writeFileSync(join(folder, "data", "sluice.db"), "this is no database".repeat(1000));
    const damaged = await sluice(folder, ["keys", "list"]);
    expect(damaged).toMatchObject({ code: 1, stdout: "" });
    expect(damaged.stderr).toMatch(/^error: The store .* is damaged/);
    expect(damaged.stderr).not.toContain("    at ");
  });
});

describe("models", () => {
  const ids = (text: string) => (JSON.parse(text) as { id: string }[]).map((row) => row.id);

  test("without any key: the built-in ones, as a table and as JSON", async () => {
    const table = await sluice(folder, ["models"]);
    expect(table.code).toBe(0);
    const lines = table.stdout.trimEnd().split("\n");
    expect(lines[0]).toMatch(/^id +modality +tier +context +max output +input +output +capabilities$/);
    expect(lines.slice(1).map((line) => line.split(" ")[0])).toEqual(["sluice/echo", "sluice/script"]);
    const json = await sluice(folder, ["models", "--json"]);
    expect(JSON.parse(json.stdout)).toMatchObject([
      { id: "sluice/echo", object: "model", modality: "chat", access_tier: "free" },
      { id: "sluice/script", object: "model" },
    ]);
    expect(dataExists()).toBe(false);
  });

  test("models that draw have their price per image in a column of its own", async () => {
    const pricing = { per_image: 0.04 };
    const rows = [
      { id: "openai/drawn", modality: "image", pricing },
      { id: "openai/unknown", modality: "image" },
    ];
    writeFileSync(join(folder, "models.json"), JSON.stringify({ models: rows }));
    const args = ["models", "--modality", "image", "--config", join(folder, "models.json")];
    const { stdout, stderr } = await sluice(folder, args, { OPENAI_API_KEY: "sk-x" });
    const lines = stdout.split("\n");
    expect(lines[0]).toMatch(/ output +image +capabilities$/);
    expect(lines.find((line) => line.startsWith("openai/drawn "))).toMatch(/ - +- +0\.04 +\S+$/);
    expect(lines.find((line) => line.startsWith("openai/unknown "))).toMatch(/ - +- +- +\S+$/);
    expect(stderr).toContain("(image: per image)");
  });

  test("a key switches its vendor's models on; --all-models says what would", async () => {
    const on = ids((await sluice(folder, ["models", "--json"], { ANTHROPIC_API_KEY: "sk-ant-x" })).stdout);
    expect(on.some((id) => id.startsWith("anthropic/"))).toBe(true);
    expect(on.some((id) => id.startsWith("openai/"))).toBe(false);
    const all = JSON.parse(
      (await sluice(folder, ["models", "--json", "--all-models", "--modality", "all"])).stdout,
    ) as {
      id: string;
      routable: boolean;
      switched_on_by: string[];
      access_tier: string;
      context_length?: number;
      max_output_tokens?: number;
      pricing?: { input: number; output: number };
    }[];
    const row = all.find((entry) => entry.id.startsWith("anthropic/"));
    expect(row).toMatchObject({ routable: false });
    expect(row?.switched_on_by).toContain("ANTHROPIC_API_KEY");
    expect(all.find((entry) => entry.id === "sluice/echo")).toMatchObject({ routable: true, switched_on_by: [] });
    const table = (await sluice(folder, ["models", "--all-models"])).stdout.split("\n");
    expect(table.find((line) => line.startsWith("sluice/echo "))).toEndWith("  on");
    expect(table.find((line) => line.startsWith("mistral/"))).toMatch(/ {2}needs .*MISTRAL_API_KEY/);
    // A line has what the JSON has, in the columns' order.
    const cells = table.find((line) => line.startsWith("anthropic/"))?.split(/ {2,}/);
    const told = all.find(({ id }) => id === cells?.[0]);
    const { context_length: context = 0, max_output_tokens: most = 0, pricing } = told ?? {};
    expect(pricing?.input).not.toBe(pricing?.output);
    expect(cells?.slice(1, 7)).toEqual([
      ...["chat", told?.access_tier ?? "", context.toLocaleString("en-US"), most.toLocaleString("en-US")],
      ...[String(pricing?.input), String(pricing?.output)],
    ]);
  });

  test("rows of the file are among them, and a vendor's own list is asked for", async () => {
    using upstream = Bun.serve({ port: 0, fetch: () => Response.json({ object: "list", data: [{ id: "tiny" }] }) });
    mkdirSync(join(folder, "data"));
    writeFileSync(
      join(folder, "data", "sluice.yaml"),
      `vendors:
  - { id: lab, dialect: chat, base_url: "${upstream.url}v1", models: discover }
  - { id: gone, dialect: chat, base_url: "http://127.0.0.1:9/v1", models: discover }
models:
  - { id: lab/big, context_length: 8192, routes: [{ vendor: lab, model: big }] }
`,
    );
    const { code, stdout, stderr } = await sluice(folder, ["models", "--json"]);
    expect(code).toBe(0);
    expect(ids(stdout).filter((id) => !id.startsWith("sluice/"))).toEqual(["lab/big", "lab/tiny"]);
    expect(stderr).toStartWith("warning: gone did not list its models:");
  });
});

test("a model whose vendor is on and does not have it needs nothing that could be named", async () => {
  mkdirSync(join(folder, "data"));
  const vendor = '{ id: lab, dialect: chat, base_url: "http://127.0.0.1:9/v1", models: [a] }';
  writeFileSync(join(folder, "data", "sluice.yaml"), `vendors: [${vendor}]\nmodels: [{ id: lab/b }]\n`);
  const { stdout } = await sluice(folder, ["models", "--all-models"]);
  const states = stdout.split("\n").filter((line) => line.startsWith("lab/"));
  expect(states.map((line) => line.split(/ {2,}/).at(-1))).toEqual(["had from no vendor", "on"]);
});

describe("a bad configuration", () => {
  test("ends every command that needs it with 1, the file, the line and the place", async () => {
    mkdirSync(join(folder, "data"));
    const path = join(folder, "data", "sluice.yaml");
    writeFileSync(path, "server: { prt: 1 }");
    for (const args of [["serve"], ["models"]]) {
      const { code, stdout, stderr } = await sluice(folder, args);
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr).toBe(`error: ${path}:1: server.prt: unknown key; did you mean "port"?\n`);
    }
    expect(readdirSync(join(folder, "data"))).toEqual(["sluice.yaml"]);
  });
});

describe("doctor", () => {
  type Finding = { check: string; state: string; detail: string; advice?: string };
  const examine = async (args: string[] = [], env: Record<string, string> = {}) => {
    const { code, stdout } = await sluice(folder, ["doctor", "--json", ...args], env);
    const findings = JSON.parse(stdout) as Finding[];
    const of = (check: string) => findings.filter((finding) => finding.check === check);
    return { code, findings, of };
  };

  test("finds nothing at fault in a fresh place, and makes nothing", async () => {
    const { code, findings } = await examine();
    expect({ code, faults: findings.filter((finding) => finding.state === "fault") }).toEqual({ code: 0, faults: [] });
    expect(findings.map((finding) => finding.check)).toEqual([
      "configuration",
      "files",
      "store",
      "clock",
      "port",
      "vendors",
      "web search",
      "limits",
    ]);
    expect(findings.find((finding) => finding.check === "web search")?.detail).toStartWith("tavily without a key");
    expect(dataExists()).toBe(false);
  });

  test("what it says to do about a mode is a command for a path with a blank too, as macOS has it", async () => {
    const data = join(folder, "Application Support");
    mkdirSync(data, { mode: 0o755 });
    const path = join(data, "sluice.yaml");
    writeFileSync(path, "vendors: [{ id: openai, api_key: sk-plain }]");
    chmodSync(path, 0o666);
    const { of } = await examine(["--data", data]);
    expect(of("files").map(({ advice }) => advice)).toEqual([`chmod 700 '${data}'`, `chmod 600 '${path}'`]);
    const { stderr } = await sluice(folder, ["models", "--data", data]);
    expect(stderr).toContain(`holds a key and can be read by other users: chmod 600 '${path}'\n`);
  });

  test("says what is at fault and what to do: configuration, modes, damage", async () => {
    await sluice(folder, ["keys", "create"]);
    const data = join(folder, "data");
    chmodSync(data, 0o755);
    writeFileSync(join(data, "sluice.yaml"), "vendors: [{ id: opnai }]", { mode: 0o600 });
    writeFileSync(join(data, "sluice.db"), "broken".repeat(5000));
    const { code, of } = await examine();
    expect(code).toBe(1);
    expect(of("configuration").map((finding) => finding.state)).toEqual(["fault", "fault"]);
    expect(of("files")).toMatchObject([{ state: "fault", advice: `chmod 700 ${data}` }]);
    expect(of("store")).toMatchObject([{ state: "fault", detail: expect.stringContaining("damaged") }]);
    const text = await sluice(folder, ["doctor"]);
    expect(text.code).toBe(1);
    expect(text.stdout).toContain("What to do:");
  });

  test("asks the vendors: one answers, one refuses the key, one is not there; no key is printed", async () => {
    using upstream = Bun.serve({
      port: 0,
      fetch(request) {
        const key = request.headers.get("authorization");
        if (key === "Bearer sk-good-key-0001") return Response.json({ data: [{ id: "a" }] });
        if (key === "Bearer sk-empty-key-0004")
          return Response.json({ error: { message: "Insufficient Balance" } }, { status: 402 });
        if (key === "Bearer sk-barred-key-0005")
          return Response.json({ error: { message: "This host name is not served here." } }, { status: 403 });
        return Response.json({ error: { message: "bad key sk-wrong-key-0002" } }, { status: 401 });
      },
    });
    mkdirSync(join(folder, "data"), { mode: 0o700 });
    const row = (id: string, url: string, ...keys: string[]) =>
      `  - { id: ${id}, dialect: chat, base_url: "${url}", api_key${keys.length > 1 ? `s: [${keys}]` : `: ${keys}`} }\n`;
    const file = [
      row("good", `${upstream.url}v1`, "sk-good-key-0001"),
      row("wrong", `${upstream.url}v1`, "sk-wrong-key-0002"),
      row("gone", "http://127.0.0.1:9/v1", "sk-gone-key-0003"),
      row("empty", `${upstream.url}v1`, "sk-empty-key-0004"),
      row("barred", `${upstream.url}v1`, "sk-barred-key-0005"),
      row("two", `${upstream.url}v1`, "sk-good-key-0001", "sk-wrong-key-0002"),
    ];
    writeFileSync(join(folder, "data", "sluice.yaml"), `vendors:\n${file.join("")}  - { id: openai }\n`, {
      mode: 0o600,
    });
    const { code, findings, of } = await examine();
    expect(code).toBe(1);
    expect(of("vendor good")).toMatchObject([{ state: "ok", detail: expect.stringContaining("its models: 1") }]);
    expect(of("vendor wrong")).toMatchObject([{ state: "fault", detail: expect.stringContaining("refuses the key") }]);
    expect(of("vendor gone")).toMatchObject([{ state: "fault", detail: expect.stringContaining("cannot be reached") }]);
    expect(of("vendor empty")).toMatchObject([
      { state: "fault", detail: expect.stringContaining("no credit left"), advice: expect.stringContaining("pay in") },
    ]);
    expect(of("vendor barred")).toMatchObject([
      { detail: expect.stringContaining("403"), advice: expect.stringContaining("base_url") },
    ]);
    expect(of("vendor two")).toMatchObject([
      { state: "ok", detail: expect.stringContaining("its models: 1") },
      {
        state: "fault",
        detail: expect.stringContaining("refuses key 2 of 2"),
        advice: expect.stringContaining("api_keys"),
      },
    ]);
    expect(of("vendors")).toMatchObject([{ state: "fault", detail: expect.stringContaining("OPENAI_API_KEY") }]);
    expect(JSON.stringify(findings)).not.toMatch(/sk-(good|wrong|gone|empty|barred)/);
  });

  test("a proxy that cannot be used is one fault among what else is found", async () => {
    const env = { OPENAI_API_KEY: "sk-one", HTTPS_PROXY: "socks5://u:secret@127.0.0.1:1", SLUICE_USE_ENV_PROXY: "1" };
    const { code, findings, of } = await examine([], env);
    expect(code).toBe(1);
    expect(of("vendors")).toMatchObject([
      { state: "fault", detail: expect.stringContaining("HTTPS_PROXY is no http"), advice: expect.any(String) },
    ]);
    expect(findings.at(-1)?.check).toBe("limits");
    expect(JSON.stringify(findings)).not.toContain("secret");
  });

  test("a taken port is a fault only when somebody chose it", async () => {
    using taken = Bun.serve({ port: 0, hostname: "127.0.0.1", reusePort: false, fetch: () => new Response("") });
    const chosen = await examine(["--port", String(taken.port)]);
    expect(chosen.code).toBe(1);
    expect(chosen.of("port")).toMatchObject([{ state: "fault", detail: expect.stringContaining("is taken") }]);
  });
});

describe("what must not act on the process", () => {
  test.each(["BUN_OPTIONS", "BUN_BE_BUN", "NODE_OPTIONS"])("%s is refused", async (name) => {
    // Bun itself obeys these two before the program runs: a harmless value reaches it.
    const { code, stdout, stderr } = await sluice(folder, ["version"], {
      [name]: name === "BUN_BE_BUN" ? "0" : "--smol",
    });
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain(`refuses to run with ${name} set`);
  });

  test("proxies and the like are removed and named once, their values not", async () => {
    const env = {
      https_proxy: "http://user:secret@127.0.0.1:9",
      ALL_PROXY: "http://127.0.0.1:9",
      NODE_TLS_REJECT_UNAUTHORIZED: "0",
      BUN_CONFIG_VERBOSE_FETCH: "curl",
    };
    const { code, stderr } = await sluice(folder, ["version"], env);
    expect(code).toBe(0);
    for (const name of Object.keys(env)) expect(stderr.split(`ignores ${name} of`).length).toBe(2);
    expect(stderr).not.toContain("secret");
    // `set NAME=1 && sluice` of cmd leaves the blank.
    for (const on of ["1", "1 "]) {
      const kept = await sluice(folder, ["version"], { ALL_PROXY: "http://127.0.0.1:9", SLUICE_USE_ENV_PROXY: on });
      expect(kept).toMatchObject({ code: 0, stderr: "" });
    }
  });

  test("what Bun obeys before the program runs acts on no command either: the key of a vendor that is asked is not printed", async () => {
    using upstream = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => Response.json({ data: [{ id: "tiny" }] }),
    });
    const lab = {
      id: "lab",
      dialect: "chat",
      base_url: `${upstream.url}v1`,
      api_key: `\${LAB_KEY}`,
      models: "discover",
    };
    const file = join(folder, "lab.json");
    writeFileSync(file, JSON.stringify({ vendors: [lab] }));
    const env = { LAB_KEY: "sk-lab-0123456789", BUN_CONFIG_VERBOSE_FETCH: "curl" };
    for (const command of ["models", "doctor"]) {
      const { stdout, stderr } = await sluice(folder, [command, "--config", file], env);
      expect(stdout).toContain("lab");
      expect(stderr.split("ignores BUN_CONFIG_VERBOSE_FETCH of").length).toBe(2);
      expect(stderr).not.toContain(env.LAB_KEY);
      expect(stderr).not.toContain("curl --http1.1");
    }
  });
});
