import { afterEach, beforeEach, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readOrigin } from "../../.release/origin.ts";
import { makeFolder, removeFolder } from "../support/binary.ts";

/** A repository with one commit of one source, one page and one test. */
let root: string;
beforeEach(() => {
  root = makeFolder();
  for (const folder of ["src", "test"]) mkdirSync(join(root, folder));
  for (const file of ["src/main.ts", "test/main.test.ts", "README.md", "bun.lock"]) write(file, "first");
  git("init", "-q");
  git("add", "-A");
  git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "first");
});
afterEach(() => removeFolder(root));

const write = (file: string, text: string) => writeFileSync(join(root, file), text);
function git(...words: string[]): string {
  const env = { ...process.env, GIT_COMMITTER_DATE: "1790000000 +0200" };
  const { stdout, stderr, exitCode } = Bun.spawnSync(["git", "-C", root, ...words], { env });
  expect([words, exitCode, stderr.toString()]).toEqual([words, 0, ""]);
  return stdout.toString().trim();
}

const present = Bun.which("git") !== null;

test.skipIf(!present)("a tree is known by its commit, and by what is not as in it", () => {
  const commit = git("rev-parse", "HEAD");
  const lockfile = new Bun.CryptoHasher("sha256").update("first").digest("hex");
  const clean = { commit, madeAt: 1_790_000_000, modified: false, lockfile };
  expect(readOrigin(root)).toEqual(clean);
  expect(readOrigin(root, commit)).toEqual(clean);
  // Neither is in what is built.
  write("test/main.test.ts", "second");
  write("notes", "new");
  expect(readOrigin(root).modified).toBe(false);
  for (const file of ["src/main.ts", "src/new.ts", "README.md"]) {
    git("stash", "--include-untracked", "-q");
    write(file, "second");
    expect([file, readOrigin(root).modified]).toEqual([file, true]);
  }
  // New files count, whatever this user's git is told to show.
  git("stash", "--include-untracked", "-q");
  git("config", "status.showUntrackedFiles", "no");
  write("src/new.ts", "new");
  expect(readOrigin(root).modified).toBe(true);
});

test.skipIf(!present)(
  "of a tree without its repository, or of another commit, nobody says that nothing was changed",
  () => {
    const commit = git("rev-parse", "HEAD");
    const other = "f".repeat(40);
    expect(readOrigin(root, other)).toMatchObject({ commit: other, madeAt: 0, modified: null });
    rmSync(join(root, ".git"), { recursive: true });
    expect(readOrigin(root, commit)).toMatchObject({ commit, madeAt: 0, modified: null });
    expect(readOrigin(root)).toMatchObject({ commit: "", madeAt: 0, modified: null });
    expect(() => readOrigin(root, "HEAD; id")).toThrow("not a commit");
  },
);

test.skipIf(!present)(
  "a checkout has the files as they are in the commit, also where Git is set to change line ends",
  () => {
    copyFileSync(join(import.meta.dir, "../../.gitattributes"), join(root, ".gitattributes"));
    git("config", "core.autocrlf", "true");
    const files = { "install.sh": "#!/bin/sh\necho\n", "stream.sse": "data: 1\r\n\r\n" };
    for (const [file, text] of Object.entries(files)) write(file, text);
    git("add", "-A");
    for (const file of Object.keys(files)) rmSync(join(root, file));
    git("checkout-index", "-f", "-a");
    for (const [file, text] of Object.entries(files))
      expect([file, readFileSync(join(root, file), "utf8")]).toEqual([file, text]);
  },
);
