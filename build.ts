/**
 * Makes the executable: `bun build.ts` for this machine, `--target linux-arm64` for another. The result lies in `dist/`: `sluice`, or
 * `sluice-<target>`; `--outfile FILE` puts a single one elsewhere. `--all` makes a release: every target, with archives, bill of materials,
 * install script and SHA256SUMS; `--release` makes these of the named targets only, `--release-url ADDRESS` says where they will lie.
 * `--commit HASH` is for a tree without its repository.
 */
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { readFlags, refuse } from "./.release/flags.ts";
import { hasSoundSignature, signForMac } from "./.release/mac-signature.ts";
import { type Origin, readOrigin } from "./.release/origin.ts";
import { writeRelease } from "./.release/release.ts";

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
  "src/web/extract/worker.ts",
  "src/vendors/builtin/canvas-worker.ts",
];

/** Folders that the code reads at run time. */
const ASSETS = ["drizzle"];

/** The tokenizer's vocabulary, a list of two hundred thousand words. */
const VOCABULARY = /[\\/]gpt-tokenizer[\\/].*[\\/]bpeRanks[\\/]\w+\.js$/;

/**
 * Puts the vocabulary into the executable as one text, which the tokenizer's thread parses. As a list in the code, each of its words would stand in the table
 * of names that every start reads: 2.5 MB of resident memory, 1.5 ms.
 */
const vocabularyAsText: Bun.BunPlugin = {
  name: "vocabulary-as-text",
  setup(builder) {
    builder.onLoad({ filter: VOCABULARY }, async ({ path }) => {
      const { default: words } = (await import(path)) as { default: unknown };
      const text = JSON.stringify(words);
      if (!Bun.deepEquals(JSON.parse(text), words)) throw new Error(`${path} cannot be written as JSON`);
      return { contents: `export default JSON.parse(${JSON.stringify(text)});`, loader: "js" };
    });
  },
};

const isTarget = (name: string): name is Target => Object.hasOwn(TARGETS, name);

/** Builds one executable. Throws AggregateError with what the bundler has to say. */
async function build(target: Target | undefined, outfile: string, origin: Origin): Promise<void> {
  await Bun.build({
    entrypoints: ENTRY_POINTS.map((file) => join(ROOT, file)),
    root: ROOT,
    target: "bun",
    format: "esm",
    bytecode: true,
    // Modules that are imported late stay pieces of their own, which are read when they are needed; so the small first piece, which may execute the program
    // again, runs without the rest.
    splitting: true,
    // Elysia reads the source of handlers: with renamed identifiers it silently does not give them the body and the headers.
    minify: false,
    plugins: [vocabularyAsText],
    sourcemap: "inline",
    define: {
      "process.env.NODE_ENV": '"production"',
      SLUICE_BUILD: JSON.stringify({ ...origin, target: target ?? null }),
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

/** Signs an executable for macOS again where its signature does not fit, see .release/mac-signature.ts. */
function mendSignature(file: string): void {
  const bytes = readFileSync(file);
  if (!hasSoundSignature(bytes)) writeFileSync(file, signForMac(bytes, "sluice"));
}

/** {@link build} in a folder of its own, which is removed: the build leaves source maps beside the executable that are inside it as well. */
async function buildAlone(target: Target | undefined, outfile: string, origin: Origin): Promise<void> {
  mkdirSync(dirname(outfile), { recursive: true });
  const folder = mkdtempSync(join(dirname(outfile), "build-"));
  try {
    const fresh = join(folder, "sluice.exe");
    await build(target, fresh, origin);
    if ((target ?? process.platform).startsWith("darwin")) mendSignature(fresh);
    renameSync(fresh, outfile);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Prints a file's name, its size, and how long it took to make. `startedAt`: by performance.now(). */
function announce(file: string, startedAt: number): void {
  const size = (statSync(file).size / MEGABYTE).toFixed(1);
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  console.log(`${relative(process.cwd(), file)}  ${size} MB  ${seconds} s`);
}

const USAGE = `build: [--target TARGET]… [--outfile FILE] [--all | --release] [--release-url ADDRESS] [--commit HASH]
Targets: ${Object.keys(TARGETS).join(", ")}`;

function readArguments() {
  const values = readFlags(USAGE, {
    all: { type: "boolean", default: false },
    release: { type: "boolean", default: false },
    target: { type: "string", multiple: true, default: [] },
    outfile: { type: "string" },
    commit: { type: "string" },
    "release-url": { type: "string" },
  });
  const unknown = values.target.find((name) => !isTarget(name));
  if (unknown !== undefined) refuse(`unknown target ${unknown}; there are: ${Object.keys(TARGETS).join(", ")}`);
  const targets = values.all ? (Object.keys(TARGETS) as Target[]) : values.target.filter(isTarget);
  const release = values.all || values.release;
  if (values.outfile !== undefined && (targets.length > 1 || release))
    refuse("--outfile names one file: give one target");
  if (release && targets.length === 0) refuse("--release needs a --target, or --all");
  return { ...values, targets, release };
}

async function main(): Promise<void> {
  const { targets, release, outfile: given, commit, "release-url": releaseUrl } = readArguments();
  const origin = readOrigin(ROOT, commit);
  const folder = join(ROOT, "dist");
  if (origin.modified) console.error("The tree is not as in its commit; `sluice version` will say so: modified.");
  const built = new Map<string, string>();
  for (const target of targets.length > 0 ? targets : [undefined]) {
    const windows = target ? target.startsWith("windows") : process.platform === "win32";
    const name = `sluice${target ? `-${target}` : ""}${windows ? ".exe" : ""}`;
    const outfile = given ?? join(folder, name);
    const startedAt = performance.now();
    await buildAlone(target, outfile, origin);
    announce(outfile, startedAt);
    if (target) built.set(target, name);
  }
  if (!release) return;
  let startedAt = performance.now();
  writeRelease({ root: ROOT, folder, ...origin, releaseUrl }, built, (name) => {
    announce(join(folder, name), startedAt);
    startedAt = performance.now();
  });
}

await main();
