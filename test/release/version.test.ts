import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import manifest from "../../package.json";
import { buildBinary, givenExecutable, makeFolder, removeFolder, runBinary } from "../support/binary.ts";

// The executable may have to be built first.
setDefaultTimeout(60_000);

const ROOT = join(import.meta.dir, "../..");
let folder: string;
beforeAll(() => {
  buildBinary();
  folder = makeFolder();
});
afterAll(() => removeFolder(folder));

const hasHistory = Bun.spawnSync(["git", "-C", ROOT, "rev-parse", "HEAD"], { stderr: "ignore" }).exitCode === 0;

test("the executable says what it was made of, and in JSON every fact under its name", async () => {
  const { code, stdout, stderr } = await runBinary(["version", "--json"], { folder });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const facts = JSON.parse(stdout) as Record<string, unknown>;
  expect(Object.keys(facts)).toEqual(
    "version commit committed_at modified lockfile target platform bun sqlite".split(" "),
  );
  const platform = `${process.platform}-${process.arch}`;
  expect(facts).toMatchObject({ version: manifest.version, bun: Bun.version, platform });
  // One that is given may be of a release; the tree's own is built for no target by name.
  if (!givenExecutable()) expect(facts["target"]).toBeNull();
  expect(facts["sqlite"]).toMatch(/^3\.\d+\.\d+$/);
  if (!hasHistory) return;
  if (!givenExecutable()) {
    const lockfile = readFileSync(join(ROOT, "bun.lock"));
    expect(facts["lockfile"]).toBe(new Bun.CryptoHasher("sha256").update(lockfile).digest("hex"));
  }
  expect(facts["commit"]).toMatch(/^[0-9a-f]{40}$/);
  expect(typeof facts["modified"]).toBe("boolean");
  // A time that is that commit's own, not that of the build.
  const shown = Bun.spawnSync(["git", "-C", ROOT, "log", "-1", "--format=%ct", String(facts["commit"])]);
  expect(Date.parse(String(facts["committed_at"]))).toBe(Number(shown.stdout.toString()) * 1000);
});

test("run from source it knows no commit, and says so", async () => {
  const options = { folder, command: [process.execPath, "--no-env-file", join(ROOT, "src/main.ts")] };
  const json = await runBinary(["version", "--json"], options);
  expect(JSON.parse(json.stdout)).toMatchObject({ commit: null, committed_at: null, modified: null, target: null });
  const { code, stdout } = await runBinary(["version"], options);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^sluice +\d+\.\d+\.\d+/);
  expect(stdout).toContain("unknown (run from source)");
  expect(stdout).not.toContain("null");
});

test("one that was built where no commit was known does not say that it is run from source", async () => {
  const origin = JSON.stringify({
    commit: "",
    madeAt: 0,
    modified: null,
    lockfile: "a".repeat(64),
    target: "linux-x64",
  });
  const define = ["--define", `SLUICE_BUILD=${origin}`];
  const command = [process.execPath, "--no-env-file", ...define, join(ROOT, "src/main.ts")];
  const { code, stdout } = await runBinary(["version"], { folder, command });
  expect(code).toBe(0);
  expect(stdout).toMatch(/^commit +unknown$/m);
});
