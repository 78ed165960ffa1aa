/**
 * The suite held against an executable, which it sees from outside only (issue 7). `bun test/prove/black-box.ts` builds a release of HEAD for this machine
 * from a clean clone, installs it with the release's own script and holds the suite against that; `--executable FILE` takes a file as it is, `--quick` the
 * tree's own build and a few files; with `--workers N` gateways serve with so many. Cases that want what only a gateway inside the tests' process has, such
 * as a clock turned by hand, are left out and counted. Exits 1 when a case fails, or when more are left out than hold.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { readFlags } from "../../.release/flags.ts";
import { buildBinary } from "../support/binary.ts";
import { INSIDE_ONLY } from "../support/black-box-config.ts";

const ROOT = join(import.meta.dir, "../..");
/** How many test files run side by side: more than there are cores, since pauses between attempts are real here, and most of the time is waiting. */
const SIDE_BY_SIDE = 4;
/** A case may wait for such pauses, ms. */
const CASE_MS = 60_000;
/** How long the whole run may take, ms. */
const MOST_MS = 10 * 60_000;
/** Modules through which a test comes to a gateway of its own. */
const DOORS = ["support/app.ts", "support/binary.ts"];
/** The few test files of `--quick`. */
const QUICK = ["scenarios/fidelity", "scenarios/own-counts", "http/metrics", "http/responses", "web/mcp.test"];

/** Runs a command to its end, silently. Throws Error with what it said when it fails. */
function run(cwd: string, ...command: string[]): void {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, { cwd, stdin: "ignore" });
  if (exitCode !== 0) throw new Error(`${command.join(" ")} ended with ${exitCode}:\n${stdout}${stderr}`);
}

/** An executable, and the tree whose suite it is held against. */
type Subject = { executable: string; root: string };
/** Of a failed case's report, characters: enough for two values and a place. */
const MAX_TOLD = 800;

/** A release of HEAD for this machine, built from a clone and installed as a user would; and that clone, with what its tests need. */
function installRelease(folder: string): Subject {
  const clone = join(folder, "clone");
  const musl = existsSync(`/lib/ld-musl-${process.arch === "x64" ? "x86_64" : "aarch64"}.so.1`);
  const glibc = existsSync("/lib64/ld-linux-x86-64.so.2") || existsSync("/lib/ld-linux-aarch64.so.1");
  const target = `${process.platform}-${process.arch}${musl && !glibc ? "-musl" : ""}`;
  run(folder, "git", "clone", "--quiet", "--no-hardlinks", ROOT, clone);
  run(clone, process.execPath, "install", "--frozen-lockfile", "--ignore-scripts", "--production", "--silent");
  run(clone, process.execPath, "build.ts", "--release", "--target", target);
  run(clone, "sh", "dist/install.sh", "--from", "dist", "--to", join(folder, "bin"));
  run(clone, process.execPath, "install", "--frozen-lockfile", "--ignore-scripts", "--silent");
  return { executable: join(folder, "bin/sluice"), root: clone };
}

/** Test files that come to a gateway, themselves or through what they import. */
function findFiles(root: string): string[] {
  const tests = join(root, "test");
  const known = new Map<string, boolean>(DOORS.map((door) => [join(tests, door), true]));
  const reaches = (file: string): boolean => {
    const before = known.get(file);
    if (before !== undefined) return before;
    known.set(file, false);
    const imports = [...readFileSync(file, "utf8").matchAll(/from "(\.[^"]+\.ts)"/g)].map(([, to = ""]) => to);
    const inside = imports.map((to) => join(dirname(file), to)).filter((to) => to.startsWith(tests) && existsSync(to));
    const found = inside.some(reaches);
    known.set(file, found);
    return found;
  };
  const files = [...new Bun.Glob("**/*.test.ts").scanSync(tests)].sort();
  return files.filter((file) => reaches(join(tests, file)));
}

type Counts = { held: number; skipped: number; failed: string[]; leftOut: Map<string, number>; reported: Set<string> };

const ENTITIES: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&", "#10": "\n" };
const decode = (text: string) => text.replace(/&(#?\w+);/g, (whole, name: string) => ENTITIES[name] ?? whole);

/** What became of each case, by the report of `bun test`. */
function readReport(xml: string): Counts {
  const counts: Counts = { held: 0, skipped: 0, failed: [], leftOut: new Map(), reported: new Set() };
  for (const [, head = "", body = ""] of xml.matchAll(/<testcase ([^>]*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g)) {
    const attribute = (name: string) => decode(new RegExp(`\\b${name}="([^"]*)"`).exec(head)?.[1] ?? "");
    counts.reported.add(attribute("file"));
    const [, wish] = new RegExp(`${INSIDE_ONLY}: ([^\\n&"]+)`).exec(body) ?? [];
    if (!body.includes("<failure")) counts[body.includes("<skipped") ? "skipped" : "held"]++;
    else if (wish) counts.leftOut.set(wish, (counts.leftOut.get(wish) ?? 0) + 1);
    else {
      const why = decode(/<failure[^>]*>([^<]*)/.exec(body)?.[1] ?? "").slice(0, MAX_TOLD);
      counts.failed.push(`${attribute("file")}: ${attribute("classname")} > ${attribute("name")}\n${why}`);
    }
  }
  return counts;
}

/** What `bun test` says of an error that came when no case was under way, and the error. */
const STRAY = /^# Unhandled error between tests\n-*\n([\s\S]*?)\n-{3}/gm;

/** Holds the files against the executable, which is started with `flags` too. Throws Error when the tests left no report. */
async function hold(subject: Subject & { flags: string }, files: readonly string[], folder: string): Promise<Counts> {
  const { executable, root, flags } = subject;
  const report = join(folder, "report.xml");
  const parallel = ["--parallel", String(SIDE_BY_SIDE)].join("=");
  const reporter = ["--reporter=junit", `--reporter-outfile=${report}`];
  const child = Bun.spawn([process.execPath, "test", ...files, parallel, `--timeout=${CASE_MS}`, ...reporter], {
    cwd: root,
    env: { ...process.env, SLUICE_EXECUTABLE: executable, ...(flags !== "" && { SLUICE_TEST_FLAGS: flags }) },
    stdin: "ignore",
    stdout: Bun.file(join(folder, "output.txt")),
    stderr: Bun.file(join(folder, "output.txt")),
    timeout: MOST_MS,
  });
  await child.exited;
  const output = readFileSync(join(folder, "output.txt"), "utf8");
  if (!existsSync(report)) throw new Error(`the tests left no report:\n${output.slice(-2_000)}`);
  const counts = readReport(readFileSync(report, "utf8"));
  // An error that a case has left behind could as well have hit the next case, and made that fail.
  for (const [, said = ""] of output.matchAll(STRAY)) {
    counts.failed.push(`an error outside of every case\n${said.slice(-MAX_TOLD)}`);
  }
  return counts;
}

async function main(): Promise<number> {
  const values = readFlags("test:binary: [--executable FILE | --quick] [--workers N]", {
    executable: { type: "string" },
    workers: { type: "string" },
    quick: { type: "boolean", default: false },
  });
  const folder = mkdtempSync(join(tmpdir(), "sluice-black-box-"));
  try {
    const given = values.executable ?? (values.quick ? buildBinary() : undefined);
    const subject = given === undefined ? installRelease(folder) : { executable: given, root: ROOT };
    const { executable, root } = subject;
    const version = Bun.spawnSync([executable, "version", "--json"]).stdout.toString();
    const { commit, target } = JSON.parse(version) as { commit: string | null; target: string | null };
    const files = findFiles(root).filter((file) => !values.quick || QUICK.some((name) => file.startsWith(name)));
    const { held, skipped, failed, leftOut, reported } = await hold(
      { ...subject, flags: values.workers === undefined ? "" : `--workers ${values.workers}` },
      files.map((file) => `test/${file}`),
      folder,
    );
    for (const file of files.filter((name) => !reported.has(`test/${name}`)))
      failed.push(`test/${file}: no report of it`);
    for (const name of failed) console.log(`failed: ${name}`);
    const reasons = [...leftOut].sort(([, one], [, other]) => other - one);
    const out = reasons.reduce((sum, [, count]) => sum + count, 0);
    for (const [wish, count] of reasons.slice(0, 5)) console.log(`left out: ${count} that want ${wish}`);
    console.log(
      `${target ?? "this tree's"} executable of ${commit?.slice(0, 12) ?? "no commit"}, ${files.length} files`,
    );
    console.log(`${held} passed, ${failed.length} failed, ${out} ${INSIDE_ONLY}, ${skipped} skipped`);
    return failed.length === 0 && held > out ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

process.exit(await main());
