import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { appendFileSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { silentLog } from "../../src/observe/log.ts";
import { RequestLog } from "../../src/observe/request-log.ts";
import { LogFollower, readLast } from "../../src/observe/request-log-reader.ts";
import { cleanEnvironment, makeFolder, removeFolder } from "../support/binary.ts";
import { until } from "../support/wait.ts";
import { COMMAND, sluice } from "./support.ts";

setDefaultTimeout(60_000);

let folder: string;
let log: RequestLog;
/** The log as a later start has it. */
let restarted: () => RequestLog;
let now: number;
const path = () => join(folder, "data", "requests");

beforeEach(() => {
  folder = makeFolder();
  now = Date.UTC(2026, 0, 2, 3, 4, 5);
  mkdirSync(path(), { recursive: true });
  const onFault = (thrown: unknown) => {
    throw thrown;
  };
  const settings = {
    folder: path(),
    days: 14,
    maxBytes: 2 * 1024 * 1024,
    bodies: true,
    scrub: silentLog.scrub,
    onFault,
  };
  restarted = () => new RequestLog({ ...settings, now: () => now++ });
  log = restarted();
});
afterEach(() => removeFolder(folder));

/** A line as the relay notes it. */
function note(id: string, more: Record<string, string | number> = {}): void {
  log.add(more["error"] === undefined ? "info" : "warn", {
    ...{ request_id: id, account: "acc", key: "key", dialect: "chat", stream: true, model: "lab/a", vendor: "lab" },
    ...{ attempts: 1, outcome: "completed", status: 200, duration_ms: 1234, first_token_ms: 321 },
    ...{ input_tokens: 11, output_tokens: 7, cost_usd: "0.000012000", ...more },
  });
}

/** Three requests, one of them with its bodies. */
async function noteThree(): Promise<void> {
  note("req_one");
  note("req_two", { model: "other/b", error: "upstream_error", status: 502, outcome: "refused", attempts: 2 });
  note("req_three", { status: 429, error: "rate_limit_exceeded", outcome: "refused" });
  log.addBodies("req_one", "the prompt", "the answer");
  await log.flush();
}

const idsOf = async (...args: string[]) => {
  const { code, stdout, stderr } = await sluice(folder, ["logs", "--json", ...args]);
  expect([code, stderr]).toEqual([0, ""]);
  return (JSON.parse(stdout) as { request_id: string }[]).map(({ request_id: id }) => id);
};

describe("sluice logs", () => {
  test("a table of the last requests with time to the first token, tokens, cost and tries", async () => {
    await noteThree();
    // Of an image there is no status.
    log.add("info", { event: "image", request_id: "img_four", model: "lab/draw", outcome: "cancelled" });
    await log.flush();
    const { code, stdout } = await sluice(folder, ["logs"]);
    const lines = stdout.trimEnd().split("\n");
    expect([code, lines.length]).toEqual([0, 5]);
    expect(lines[0]).toMatch(/^time +status +model +vendor +in +out +first ms +ms +cost USD +tries +request +error$/);
    expect(lines[1]).toMatch(
      /^2026-01-02 03:04:05\.\d+ +200 +lab\/a +lab +11 +7 +321 +1234 +0\.000012000 +1 +req_one$/,
    );
    expect(lines[2]).toMatch(/ 502 +other\/b .* 2 +req_two +upstream_error$/);
    expect(lines[4]?.split(/ +/).slice(2).join(" ")).toBe("cancelled lab/draw - - - - - - - img_four cancelled");
    expect(stdout).not.toContain("the prompt");
  });

  test("says so where only the last ones of a span of time are shown", async () => {
    for (let at = 0; at < 51; at++) note(`req_${at}`);
    await log.flush();
    const cut = await sluice(folder, ["logs", "--json", "--since", "2026-01-01"]);
    expect(JSON.parse(cut.stdout)).toHaveLength(50);
    expect(cut.stderr).toBe("These are the last 50; `--limit` shows more.\n");
    expect(await idsOf("--limit", "50")).toHaveLength(50);
    note("req_last", { model: "other/b" });
    await log.flush();
    expect((await idsOf("--since", "2026-01-01", "--model", "other/*")).length).toBe(1);
  });

  test("finds by model, status, kind of status, outcome, error and id", async () => {
    await noteThree();
    const all = await Promise.all([
      idsOf("--model", "other/*"),
      idsOf("--model", "lab/a"),
      idsOf("--status", "502"),
      idsOf("--status", "4xx"),
      idsOf("--status", "completed"),
      idsOf("--status", "rate_limit_exceeded", "--model", "lab/a"),
      idsOf("--id", "req_two"),
      idsOf("--limit", "1"),
      idsOf("--since", "2026-01-03"),
    ]);
    expect(all).toEqual([
      ["req_two"],
      ["req_one", "req_three"],
      ["req_two"],
      ["req_three"],
      ["req_one"],
      ["req_three"],
      ["req_two"],
      ["req_three"],
      [],
    ]);
  });

  test("shows all that is known of one request, its bodies too", async () => {
    await noteThree();
    const { stdout } = await sluice(folder, ["logs", "--id", "req_one"]);
    expect(stdout).toContain("first_token_ms: 321\n");
    expect(stdout).toContain("request: the prompt\n");
    expect(stdout).not.toContain("req_two");
  });

  test("what clients and vendors wrote neither makes a line of its own nor reaches the terminal as a command", async () => {
    note("req_one", {
      model: "no/\u009b2J\x1b[31m\nstatus: 200\n\u202emodel: lab/a",
      error: "model_not_found",
      status: 404,
    });
    await log.flush();
    const shown = (await sluice(folder, ["logs", "--id", "req_one"])).stdout;
    expect(shown).toContain("model: no/?2J?[31m\n  status: 200\n  ?model: lab/a\n");
    expect(shown.match(/^status: .*$/gm)).toEqual(["status: 404"]);
    const { stdout } = await sluice(folder, ["logs", "--json"]);
    expect(stdout).toMatch(/^[\x20-\x7e\n]*$/);
    expect(JSON.parse(stdout)).toMatchObject([{ model: "no/\u009b2J\x1b[31m\nstatus: 200\n\u202emodel: lab/a" }]);
  });

  test("says what is wrong with a filter, and that there is nothing", async () => {
    for (const [option, value, expected] of [
      ["--status", "9 lives", "429, 5xx, an outcome or an error's code"],
      ["--limit", "0", "a whole number from 1 to 100000"],
      ["--limit", "100001", "a whole number from 1 to 100000"],
    ] as const) {
      const wrong = await sluice(folder, ["logs", option, value]);
      const stderr = `error: ${option}: expected ${expected}, found "${value}"\n`;
      expect([wrong.code, wrong.stderr]).toEqual([2, stderr]);
    }
    const none = await sluice(folder, ["logs"]);
    expect([none.code, none.stdout]).toEqual([0, "No such request was noted.\n"]);
  });

  test("--follow goes on with what comes, each line once", async () => {
    await noteThree();
    const child = Bun.spawn([...COMMAND, "logs", "--follow", "--json", "--model", "lab/a"], {
      ...{ cwd: folder, env: cleanEnvironment({ folder }), stdout: "pipe", stderr: "inherit", stdin: "ignore" },
    });
    let output = "";
    const reading = (async () => {
      for await (const bytes of child.stdout) output += new TextDecoder().decode(bytes);
    })();
    const ids = () =>
      output
        .split("\n")
        .slice(0, -1)
        .map((line) => (JSON.parse(line) as { request_id: string }).request_id);
    await until(() => ids().length === 2, "the lines that are there", 15_000);
    note("req_four");
    note("req_five", { model: "other/b" });
    note("req_six");
    await log.flush();
    await until(() => ids().length === 4, "the lines that come", 15_000);
    child.kill();
    await reading;
    expect(ids()).toEqual(["req_one", "req_three", "req_four", "req_six"]);
  });
});

describe("reading the log", () => {
  test("takes the last ones across files, whole lines only, and nothing of a damaged one", async () => {
    for (let count = 0; count < 4_000; count++) {
      note(`req_${count}`);
      if (count % 200 === 0) await log.flush();
    }
    await log.flush();
    const files = readdirSync(path()).sort();
    expect(files.length).toBeGreaterThan(3);
    appendFileSync(
      join(path(), files.at(-1) ?? ""),
      'not json\n{"time":"x"}\n{"time":1e20,"request_id":"never"}\n{"time":5,"request_id":"half',
    );
    const last = await readLast(path(), 2_000, () => true);
    expect(last.map(({ request_id: id }) => id)).toEqual(Array.from({ length: 2_000 }, (_, at) => `req_${at + 2_000}`));
    expect(await readLast(join(folder, "nowhere"), 5, () => true)).toEqual([]);
  });

  test("follows into files that are begun meanwhile, and through lines that come in two pieces", async () => {
    const follower = new LogFollower(path());
    const seen: unknown[] = [];
    const read = () => follower.read(({ request_id: id }) => seen.push(id));
    await read();
    note("req_a");
    await log.flush();
    const [first = ""] = readdirSync(path());
    appendFileSync(join(path(), first), '{"time":1,"request_id":"req_');
    await read();
    expect(seen).toEqual(["req_a"]);
    appendFileSync(join(path(), first), 'b"}\n');
    appendFileSync(join(path(), "requests-20990101T000000000Z.jsonl"), '{"time":2,"request_id":"req_c"}\n');
    await read();
    await read();
    expect(seen).toEqual(["req_a", "req_b", "req_c"]);
  });

  test("after a start under a clock that was set back, what came last is the last", async () => {
    note("req_ahead");
    await log.flush();
    const follower = new LogFollower(path());
    now -= 3 * 60 * 60 * 1_000;
    log = restarted();
    note("req_back");
    await log.flush();
    const seen: unknown[] = [];
    await follower.read(({ request_id: id }) => seen.push(id));
    expect(seen).toEqual(["req_back"]);
    expect(await idsOf("--limit", "1")).toEqual(["req_back"]);
    expect(await idsOf()).toEqual(["req_ahead", "req_back"]);
  });

  test("follows a file that was removed under the server, which begins it anew by its name", async () => {
    const file = join(path(), "requests-20260101T000000000Z.jsonl");
    const write = (...ids: string[]) =>
      writeFileSync(file, ids.map((id) => `{"time":1,"request_id":"${id}"}\n`).join(""));
    write("req_1", "req_2");
    const follower = new LogFollower(path());
    const seen: unknown[] = [];
    write("req_3");
    await follower.read(({ request_id: id }) => seen.push(id));
    expect(seen).toEqual(["req_3"]);
  });
});

test("a reader that has enough ends the command, without a word", async () => {
  for (let count = 0; count < 3_000; count++) note(`req_${count}`);
  await log.flush();
  for (const args of ["--limit 3000", "--follow", "--json --limit 3000"]) {
    const script = `{ "$@" logs ${args}; echo "ended with $?" >&2; } | head -n 1`;
    const child = Bun.spawn(["sh", "-c", script, "sh", ...COMMAND], {
      env: cleanEnvironment({ folder }),
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    // Who follows a log hears that nobody reads with the next line of it.
    const next = setInterval(() => {
      note("req_next");
      void log.flush();
    }, 100);
    const [seen, said] = await Promise.all([child.stdout.text(), child.stderr.text()]);
    clearInterval(next);
    expect([args, seen.split("\n").length, said]).toEqual([args, 2, "ended with 0\n"]);
    // Lines that come one by one stand in columns of a table too.
    if (args === "--follow")
      expect(seen).toMatch(/^2026-01-02 03:04:07\.\d{3} {5}200 {2}lab\/a {23} {2}lab {9} {7}11 /);
  }
});

test("a data folder that is not there is told, not taken for an empty one", async () => {
  const { code, stdout, stderr } = await sluice(folder, ["logs", "--data", join(folder, "nowhere")]);
  expect([code, stdout]).toEqual([1, ""]);
  expect(stderr).toBe(`error: there is no data folder ${join(folder, "nowhere")}\n`);
});

test("a log that cannot be read is told in a sentence", async () => {
  rmSync(path(), { recursive: true, force: true });
  mkdirSync(join(folder, "data"), { recursive: true });
  writeFileSync(path(), "a file in its place");
  for (const more of [[], ["--follow"]]) {
    const { code, stdout, stderr } = await sluice(folder, ["logs", ...more]);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toBe(
      `error: the request log in ${path()} cannot be read (ENOTDIR); check its owner and permissions\n`,
    );
  }
});
