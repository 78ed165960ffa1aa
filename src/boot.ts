/**
 * What has to be true of the process before anything else is loaded: the first import of main.ts, and itself free of imports.
 * Elysia reads NODE_ENV when it is loaded; Bun reads its own settings from the environment before the program starts, so a change
 * of those needs the process to execute itself again (runtime.md 0).
 */

/**
 * How many requests Bun's own client may have in flight, open streams included. Without it these are 256, and the rest is queued without a word
 * (runtime.md 0.2). The gateway's own client has no such bound: where that calls the vendors, the process is not executed again for this alone.
 */
const MAX_FETCHES = "8192";

/** With one of these somebody else's code or flags would run inside the gateway (reliability 7.4). */
const REFUSED = ["BUN_OPTIONS", "BUN_BE_BUN", "NODE_OPTIONS"];

/** These would print keys, drop the check of certificates, open a debugger, or send prompts through a stranger. */
const REMOVED = /^(?:BUN_CONFIG_VERBOSE_FETCH|NODE_TLS_REJECT_UNAUTHORIZED|BUN_INSPECT\w*)$/i;
const PROXIES = /^(?:HTTP|HTTPS|ALL)_PROXY$/i;

/** Variables that other parts compare literally, so that they must have no blanks around their values (config/load.ts has the list of all variables). */
const SWITCHES = ["SLUICE_USE_ENV_PROXY", "SLUICE_HTTP_CLIENT", "SLUICE_HTTP_SERVER"];

/**
 * How many times more often than usual code has to run before it is compiled. A start runs nearly all of its code once or a few times: compiling that took a
 * fifth of the processor's time until the first answer. A server goes back to the usual measure once it runs (serving.ts), or earlier when it has much to
 * clear up; commands keep this one until they end.
 */
const START_JIT_SCALE = 20;

/** Variable that a process which executes itself again sets to its own id, so that this happens only once, whatever the environment holds then. */
const MARK = "STARTED_BY_SLUICE";

/** Ctrl-C, Ctrl-Break and the closed window of Windows. */
const FROM_TERMINAL = ["SIGINT", "SIGBREAK", "SIGHUP"] as const;

function say(sentence: string): void {
  process.stderr.write(`sluice: ${sentence}\n`);
}

function refuseForeignOptions(): void {
  const found = REFUSED.filter((name) => process.env[name]);
  if (found.length === 0) return;
  say(`refuses to run with ${found.join(" and ")} set, which could load other code into it. Unset it and start again.`);
  process.exit(1);
}

/** Removes blanks around the values of {@link SWITCHES}, as is done for other variables: `set NAME=1 && sluice` in Windows' cmd leaves one. */
function trimSwitches(): void {
  for (const name of SWITCHES) if (process.env[name]) process.env[name] = process.env[name].trim();
}

/** Removes variables that must not take effect, says so on stderr, and returns their names. */
function cleanEnvironment(): string[] {
  const keepProxies = process.env["SLUICE_USE_ENV_PROXY"] === "1";
  const found = Object.keys(process.env).filter(
    (name) => process.env[name] && (REMOVED.test(name) || (!keepProxies && PROXIES.test(name))),
  );
  for (const name of found) {
    delete process.env[name];
    const hint = PROXIES.test(name) ? " (SLUICE_USE_ENV_PROXY=1 keeps it)" : "";
    say(`ignores ${name} of the environment${hint}.`);
  }
  return found;
}

/**
 * Keeps AWS_SESSION_TOKEN from Bun's client for buckets. That takes the token when the program starts, though it belongs to another key than the configured
 * one, and writes it into the addresses of images that it signs for callers. Only an empty S3_SESSION_TOKEN prevents it. Returns whether that was set here.
 */
function keepTokenFromBuckets(): boolean {
  if (!process.env["AWS_SESSION_TOKEN"] || process.env["S3_SESSION_TOKEN"] !== undefined) return false;
  process.env["S3_SESSION_TOKEN"] = "";
  return true;
}

/** Whether the command is `serve`, which is also what runs when none is named. */
function isServe(words: readonly string[]): boolean {
  if (words.some((word) => ["-h", "--help", "-V", "--version"].includes(word))) return false;
  const first = words[0];
  return first === undefined || first === "serve" || first.startsWith("-");
}

/**
 * Where a process cannot replace itself (Windows): runs the command as a child and exits with its code. The child has the same terminal and gets Ctrl-C and
 * the like from there itself, so this process only ignores them. It passes no signals on: on Windows, sending one would kill the child.
 */
async function runAsChild(command: string[]): Promise<never> {
  for (const signal of FROM_TERMINAL) process.on(signal, () => {});
  const child = Bun.spawn(command, { stdio: ["inherit", "inherit", "inherit"], env: { ...process.env } });
  process.exit(await child.exited);
}

/** Whether this process was executed again by itself, or is the child that runs in its place. Removes the mark, so that no further process sees it. */
function takeMark(): boolean {
  const mark = process.env[MARK];
  delete process.env[MARK];
  return mark !== undefined && (mark === String(process.pid) || mark === String(process.ppid));
}

/** Starts this program again with the environment as it is now; the process id stays where the system allows it. */
async function executeAgain(): Promise<void> {
  // From source, Bun would read the folder's .env again and put back what was removed. The rest of it is in the environment already.
  const source = () => ["--no-env-file", ...process.execArgv, ...process.argv.slice(1)];
  const command = [process.execPath, ...(Bun.isStandaloneExecutable ? process.argv.slice(2) : source())];
  process.env[MARK] = String(process.pid);
  if (process.platform === "win32" || !process.execve) await runAsChild(command);
  try {
    process.execve?.(process.execPath, command, { ...process.env });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    delete process.env[MARK];
    say(`could not execute itself again (${reason}): at most 256 requests to vendors run at the same time.`);
  }
}

Bun.unsafe.setJITPolicy(START_JIT_SCALE);
// As `Bun.env`: the build replaces the words `process.env.NODE_ENV` by a text.
Bun.env["NODE_ENV"] ??= "production";
refuseForeignOptions();
process.umask(0o077);
const again = takeMark();
trimSwitches();
const removed = cleanEnvironment();
const words = process.argv.slice(2);
// SIGHUP ends a process without a handler, such as a service that is reloaded while it starts. To ignore it is right: no configuration has been read yet.
if (isServe(words)) process.on("SIGHUP", () => {});
// Bun read these before the program started: they still act in this process, though they were removed, whichever command it runs.
const acts = removed.some((name) => REMOVED.test(name));
const changed = keepTokenFromBuckets() || removed.length > 0;
const fetches = process.env["SLUICE_USE_ENV_PROXY"] === "1" || process.env["SLUICE_HTTP_CLIENT"] === "fetch";
const bounded = fetches && !process.env["BUN_CONFIG_MAX_HTTP_REQUESTS"];
// The commands that talk to vendors and buckets.
const talks = isServe(words) || words[0] === "doctor";
if (!again && (acts || (talks && (bounded || changed)))) {
  process.env["BUN_CONFIG_MAX_HTTP_REQUESTS"] ||= MAX_FETCHES;
  await executeAgain();
}

export {};
