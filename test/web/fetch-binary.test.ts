import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import type { PageResult } from "../../src/web/fetch/results.ts";
import { makeFolder, removeFolder } from "../support/binary.ts";

const ROOT = join(import.meta.dir, "../..");
const PAGES = join(import.meta.dir, "../fixtures/web-pages");

let folder: string;
let server: ReturnType<typeof Bun.serve>;
beforeAll(() => {
  folder = makeFolder();
  server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: ({ url }) => {
      const path = new URL(url).pathname.slice(1);
      // Nothing is said of a charset.
      const type = path.endsWith(".pdf") ? "application/pdf" : "text/html";
      return new Response(Bun.file(join(PAGES, path)), { headers: { "content-type": type } });
    },
  });
});
afterAll(async () => {
  await server.stop(true);
  removeFolder(folder);
});

test("an executable fetches and reads pages: HTML, a legacy charset and PDF, in its thread", async () => {
  const outfile = join(folder, "reader");
  // As build.ts does it: the worker is an entry point, and what is imported late a piece of its own.
  const built = Bun.spawnSync(
    [
      process.execPath,
      "build",
      "--compile",
      "--bytecode",
      "--splitting",
      "--format=esm",
      "--target=bun",
      `--root=${ROOT}`,
      `--outfile=${outfile}`,
      join(import.meta.dir, "fetch-binary-program.ts"),
      join(ROOT, "src/web/extract/worker.ts"),
    ],
    { cwd: ROOT, stderr: "pipe" },
  );
  expect(built.stderr.toString()).not.toContain("error");
  const files = ["docs.html", "unnamed-charset.html", "paper.pdf"];
  const urls = files.map((file) => `${server.url.href}${file}`);
  const child = Bun.spawn([outfile, ...urls], { cwd: folder, env: { HOME: folder }, stdout: "pipe", stderr: "pipe" });
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  expect([stderr, code]).toEqual(["", 0]);
  const results = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as PageResult);
  for (const [index, file] of files.entries()) {
    const expected = await Bun.file(join(PAGES, file.replace(/\.[^.]+$/, ".expected.md"))).text();
    const result = results[index]!;
    expect(result.status === "ok" && `${result.markdown}\n`).toBe(expected);
  }
}, 60_000);
