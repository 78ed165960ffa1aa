/**
 * Two builds of one commit are byte-equal (issue 7): clones HEAD twice, into folders of different names, installs each by itself, builds a release in each, and
 * compares every file. `bun test/prove/reproducible.ts [target …]`, without targets all of them. Exits 1 when a byte differs, and says in which file.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");

/** Runs a command to its end; its output goes where ours goes. Throws Error when it fails. */
function run(cwd: string, command: string[], env: Record<string, string | undefined>): void {
  const { exitCode } = Bun.spawnSync(command, { cwd, env, stdio: ["ignore", "inherit", "inherit"] });
  if (exitCode !== 0) throw new Error(`${command.join(" ")} ended with ${exitCode}`);
}

/** The sums of a release of `commit`, built in `folder`, by file name. */
function buildIn(
  folder: string,
  commit: string,
  targets: readonly string[],
  env: Record<string, string | undefined>,
): Map<string, string> {
  run(ROOT, ["git", "clone", "--quiet", "--no-hardlinks", ROOT, folder], env);
  run(folder, ["git", "checkout", "--quiet", "--detach", commit], env);
  run(folder, [process.execPath, "install", "--frozen-lockfile", "--ignore-scripts", "--production", "--silent"], env);
  const wanted = targets.length > 0 ? ["--release", ...targets.flatMap((target) => ["--target", target])] : ["--all"];
  run(folder, [process.execPath, "build.ts", ...wanted], env);
  const lines = readFileSync(join(folder, "dist/SHA256SUMS"), "utf8").trimEnd().split("\n");
  return new Map(lines.map((line) => [line.slice(66), line.slice(0, 64)]));
}

function main(): number {
  const targets = process.argv.slice(2);
  const folder = mkdtempSync(join(tmpdir(), "sluice-prove-"));
  try {
    // Where, when, by whom, in what language and time zone: none of it may matter.
    const other = { ...process.env, TZ: "Pacific/Kiritimati", LANG: "C", LC_ALL: "C", HOME: process.env["HOME"] };
    // Named once: in a tree that is worked in, HEAD moves on between two clones.
    const commit = Bun.spawnSync(["git", "-C", ROOT, "rev-parse", "HEAD"]).stdout.toString().trim();
    const first = buildIn(join(folder, "one"), commit, targets, process.env);
    mkdirSync(join(folder, "deeper"));
    const second = buildIn(join(folder, "deeper/another-name"), commit, targets, other);
    let different = first.size === second.size ? 0 : 1;
    for (const [name, sum] of first) {
      const same = second.get(name) === sum;
      if (!same) different++;
      console.log(
        `${same ? "equal    " : "DIFFERENT"}  ${sum.slice(0, 16)}  ${(second.get(name) ?? "none").slice(0, 16)}  ${name}`,
      );
    }
    console.log(`${first.size} files, ${different} different`);
    return different === 0 ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

process.exit(main());
