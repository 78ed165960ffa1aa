/** Which tree is built, as its repository says. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

export type Origin = {
  /** The whole commit, or "" when nobody knows. */
  commit: string;
  /** When it was made, Unix s; 0 when nobody knows. */
  madeAt: number;
  /** Whether something of the tree is not as in the commit; null when nobody knows. */
  modified: boolean | null;
  /** SHA-256 of the lockfile, which says what was built in. */
  lockfile: string;
};

/** What executables and archives are made of. */
const SOURCES = [
  ...["src", "drizzle", ".release", "build.ts", "package.json", "bun.lock", "bunfig.toml", "tsconfig.json"],
  ...["LICENSE", "README.md"],
];

/** Asks git; undefined outside a repository or without git. */
function askGit(root: string, ...words: string[]): string | undefined {
  if (!existsSync(join(root, ".git")) || Bun.which("git") === null) return undefined;
  const result = Bun.spawnSync(["git", "-C", root, ...words]);
  return result.exitCode === 0 ? result.stdout.toString().trim() : undefined;
}

/**
 * Reads which commit is built. `given`: the value of `--commit`. SOURCE_DATE_EPOCH takes precedence over the commit's own time (reproducible-builds.org).
 * Throws Error where either is malformed.
 */
export function readOrigin(root: string, given?: string): Origin {
  const head = askGit(root, "rev-parse", "HEAD") ?? "";
  const commit = given || head;
  if (!/^(?:[0-9a-f]{7,64})?$/.test(commit)) throw new Error(`not a commit: ${commit}`);
  const madeAt = Number(
    process.env["SOURCE_DATE_EPOCH"] || askGit(root, "log", "-1", "--format=%ct", commit || "HEAD") || 0,
  );
  if (!Number.isSafeInteger(madeAt) || madeAt < 0) throw new Error("SOURCE_DATE_EPOCH is not a number of seconds");
  // Of a commit that is not the one checked out, nobody can say how the tree differs.
  const known = head !== "" && head.startsWith(commit);
  const changes = known
    ? askGit(root, "status", "--porcelain", "--untracked-files=normal", "--", ...SOURCES)
    : undefined;
  const lockfile = new Bun.CryptoHasher("sha256").update(readFileSync(join(root, "bun.lock"))).digest("hex");
  return { commit, madeAt, modified: changes === undefined ? null : changes !== "", lockfile };
}
