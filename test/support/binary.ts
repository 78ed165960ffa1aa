import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Subprocess } from "bun";
import { holdsSecrets, leakNet, secretsOfEnvironment } from "./leaks.ts";
import { until } from "./wait.ts";

const ROOT = join(import.meta.dir, "../..");
/** Files and folders that an executable is made of. */
const INGREDIENTS = ["src", "drizzle", "build.ts", "package.json", "bun.lock"] as const;
/** How long a start may take on a loaded machine, milliseconds. */
const START_PATIENCE_MS = 15_000;

/** A text that is another one after each change of the ingredients: Bun's version, their number, and the newest time of change. */
function readStamp(): string {
  let newest = 0;
  let files = 0;
  for (const ingredient of INGREDIENTS) {
    const path = join(ROOT, ingredient);
    const inside = statSync(path).isDirectory() ? [...new Bun.Glob("**/*").scanSync(path)] : [""];
    for (const file of inside) {
      files++;
      newest = Math.max(newest, statSync(join(path, file)).mtimeMs);
    }
  }
  return `${Bun.version} ${files} ${newest}`;
}

/**
 * Absolute path of the executable that the tests are to run against instead of the tree (`SLUICE_EXECUTABLE`); undefined when none is given. Throws Error
 * for a file that is not there.
 */
export function givenExecutable(): string | undefined {
  const given = process.env["SLUICE_EXECUTABLE"];
  if (!given) return undefined;
  const path = resolve(given);
  if (!existsSync(path)) throw new Error(`SLUICE_EXECUTABLE: there is no file ${path}`);
  return path;
}

let built: string | undefined;

/**
 * The executable, built from the tree as it stands: once per run, and not at all when nothing changed since the last run. One that is given is taken as
 * it is.
 */
export function buildBinary(): string {
  built ??= givenExecutable();
  if (built) return built;
  const folder = join(ROOT, "dist/test");
  const binary = join(folder, process.platform === "win32" ? "sluice.exe" : "sluice");
  const stampFile = `${binary}.stamp`;
  const stamp = readStamp();
  if (!existsSync(binary) || !existsSync(stampFile) || readFileSync(stampFile, "utf8") !== stamp) {
    mkdirSync(folder, { recursive: true });
    // Test files may run side by side: each builds under a name of its own, and the last one that is renamed stays, whole.
    const fresh = join(folder, `sluice-${process.pid}`);
    const result = Bun.spawnSync([process.execPath, "build.ts", "--outfile", fresh], { cwd: ROOT, stderr: "pipe" });
    if (result.exitCode !== 0) throw new Error(`the executable could not be built:\n${result.stderr.toString()}`);
    renameSync(fresh, binary);
    writeFileSync(stampFile, stamp);
  }
  built = binary;
  return binary;
}

/** Folders that were made and not removed yet. */
const folders = new Set<string>();
process.once("exit", () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** A fresh empty folder, removed with {@link removeFolder}, or else when this process ends. */
export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-test-"));
  folders.add(folder);
  return folder;
}

/** Removes a folder, after what a program has left there was searched for secrets. */
export function removeFolder(folder: string): void {
  if (existsSync(folder)) leakNet.lookInFolder(folder, leakNet.known, holdsSecrets);
  rmSync(folder, { recursive: true, force: true });
  folders.delete(folder);
}

export type RunOptions = {
  /** Its home, data folder and, unless `cwd` says otherwise, current folder. */
  folder: string;
  cwd?: string;
  /** Beside PATH, HOME and SLUICE_DATA, nothing of this process's environment is handed on. */
  env?: Record<string, string>;
  /** What runs: the executable unless given, such as `["bun", "src/main.ts"]`. */
  command?: readonly string[];
};

/** The clean environment a program is given. */
export function cleanEnvironment({ folder, env }: RunOptions): Record<string, string> {
  leakNet.remember(secretsOfEnvironment(env ?? {}));
  return { PATH: process.env["PATH"] ?? "", HOME: folder, SLUICE_DATA: join(folder, "data"), ...env };
}

/** Runs a command of the executable to its end. */
export async function runBinary(
  args: readonly string[],
  options: RunOptions,
): Promise<{ code: number; stdout: string; stderr: string }> {
  const child = Bun.spawn([...(options.command ?? [buildBinary()]), ...args], {
    cwd: options.cwd ?? options.folder,
    env: cleanEnvironment(options),
    stdout: "pipe",
    stderr: "pipe",
    stdin: "ignore",
  });
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  lookAtOutput(args, stdout, stderr);
  return { code, stdout, stderr };
}

/** Searches what a program printed for secrets. Its standard output may show a caller's key, which is how a new one is told. */
function lookAtOutput([command = ""]: readonly string[], stdout: string, stderr: string): void {
  leakNet.look(stdout, `what ${command} printed`, leakNet.known, false);
  leakNet.look(stderr, `the log of ${command}`, leakNet.known);
}

/** A gateway that runs as a process of its own. */
export type RunningBinary = {
  url: string;
  /** The key shown at the first start; "" at later ones. */
  key: string;
  /** Lines of stdout so far. */
  lines: string[];
  readonly stderr: string;
  child: Subprocess;
  /** SIGTERM, then the exit code. */
  stop(): Promise<number>;
};

async function collect(stream: ReadableStream<Uint8Array>, take: (text: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  for await (const bytes of stream) take(decoder.decode(bytes, { stream: true }));
}

const READY = /listening on (http:\/\/\S+)/;

/** Starts the executable and waits until it has printed the four lines of a start. Throws Error with its stderr when it ends instead. */
export async function startBinary(args: readonly string[], options: RunOptions): Promise<RunningBinary> {
  const child = Bun.spawn([...(options.command ?? [buildBinary()]), ...args], {
    cwd: options.cwd ?? options.folder,
    env: cleanEnvironment(options),
    stdout: "pipe",
    stderr: "pipe",
    stdin: "ignore",
  });
  let stdout = "";
  let stderr = "";
  const reading = [
    collect(child.stdout, (text) => {
      stdout += text;
    }),
    collect(child.stderr, (text) => {
      stderr += text;
    }),
  ];
  const lines = () => stdout.split("\n").filter((line) => line !== "");
  await until(() => lines().length >= 4 || child.exitCode !== null, "the four lines of a start", START_PATIENCE_MS);
  const url = READY.exec(stdout)?.[1];
  if (!url) {
    child.kill("SIGKILL");
    throw new Error(`the gateway did not start (exit ${child.exitCode}):\n${stdout}\n${stderr}`);
  }
  return {
    url,
    key: /sk-sluice-[0-9A-Za-z]{38}/.exec(stdout)?.[0] ?? "",
    get lines() {
      return lines();
    },
    get stderr() {
      return stderr;
    },
    child,
    async stop() {
      child.kill("SIGTERM");
      const code = await child.exited;
      await Promise.all(reading);
      lookAtOutput(args, stdout, stderr);
      return code;
    },
  };
}
