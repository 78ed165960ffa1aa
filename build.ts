/**
 * Makes the executable: `bun build.ts` for this machine, `--target linux-arm64` for another, `--all` for every one. The result lies in
 * `dist/`: `sluice`, or `sluice-<target>`; `--outfile FILE` puts a single one elsewhere.
 */
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { parseArgs } from "node:util";

const ROOT = import.meta.dir;
const MEGABYTE = 1_000_000;

/** Every platform an executable is made for, and Bun's name for it. */
const TARGETS = {
  "linux-x64": "bun-linux-x64",
  "linux-arm64": "bun-linux-arm64",
  "linux-x64-musl": "bun-linux-x64-musl",
  "linux-arm64-musl": "bun-linux-arm64-musl",
  "darwin-x64": "bun-darwin-x64",
  "darwin-arm64": "bun-darwin-arm64",
  "windows-x64": "bun-windows-x64",
} as const satisfies Record<string, Bun.Build.CompileTarget>;
type Target = keyof typeof TARGETS;

/** The program, and the threads it starts: a worker is in the executable only when it is named here (runtime.md 1). */
const ENTRY_POINTS = [
  "src/main.ts",
  "src/relay/tokenizer/worker.ts",
  "src/web/extract-worker.ts",
  "src/vendors/builtin/canvas-worker.ts",
];

/** Folders that the code reads at run time. */
const ASSETS = ["drizzle"];

const isTarget = (name: string): name is Target => Object.hasOwn(TARGETS, name);

/** The commit the tree stands at, or "" outside a repository or without git. */
function readCommit(): string {
  if (!existsSync(join(ROOT, ".git")) || Bun.which("git") === null) return "";
  const result = Bun.spawnSync(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"]);
  return result.exitCode === 0 ? result.stdout.toString().trim() : "";
}

/** Builds one executable. Throws AggregateError with what the bundler has to say. */
async function build(target: Target | undefined, outfile: string): Promise<void> {
  await Bun.build({
    entrypoints: ENTRY_POINTS.map((file) => join(ROOT, file)),
    root: ROOT,
    target: "bun",
    format: "esm",
    bytecode: true,
    // What is imported late stays a piece of its own: it is read only when it is wanted, and the small first piece, which may start
    // the program again, without the rest.
    splitting: true,
    // Elysia reads the source of functions: renamed identifiers silently lose it the body and the headers.
    minify: false,
    sourcemap: "inline",
    define: {
      "process.env.NODE_ENV": '"production"',
      SLUICE_COMMIT: JSON.stringify(readCommit()),
    },
    compile: {
      outfile,
      assets: ASSETS.map((asset) => join(ROOT, asset)),
      // Nothing of the folder it is started in may take effect (contract 2).
      autoloadDotenv: false,
      autoloadBunfig: false,
      autoloadTsconfig: false,
      autoloadPackageJson: false,
      ...(target && { target: TARGETS[target] }),
    },
  });
}

/** {@link build} in a folder of its own: it leaves maps beside the executable, which are inside it already. */
async function buildAlone(target: Target | undefined, outfile: string): Promise<void> {
  mkdirSync(dirname(outfile), { recursive: true });
  const folder = mkdtempSync(join(dirname(outfile), "build-"));
  try {
    const fresh = join(folder, "sluice.exe");
    await build(target, fresh);
    renameSync(fresh, outfile);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      all: { type: "boolean", default: false },
      target: { type: "string", multiple: true, default: [] },
      outfile: { type: "string" },
    },
  });
  const unknown = values.target.find((name) => !isTarget(name));
  if (unknown !== undefined) {
    console.error(`unknown target ${unknown}; there are: ${Object.keys(TARGETS).join(", ")}`);
    process.exit(2);
  }
  const named = values.all ? (Object.keys(TARGETS) as Target[]) : values.target.filter(isTarget);
  if (values.outfile !== undefined && named.length > 1) {
    console.error("--outfile names one file: give one target");
    process.exit(2);
  }
  for (const target of named.length > 0 ? named : [undefined]) {
    const windows = target ? target.startsWith("windows") : process.platform === "win32";
    const name = `sluice${target ? `-${target}` : ""}${windows ? ".exe" : ""}`;
    const outfile = values.outfile ?? join(ROOT, "dist", name);
    const startedAt = performance.now();
    await buildAlone(target, outfile);
    const size = (statSync(outfile).size / MEGABYTE).toFixed(1);
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    console.log(`${relative(process.cwd(), outfile)}  ${size} MB  ${seconds} s`);
  }
}

await main();
