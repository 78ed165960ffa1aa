/**
 * What has to be true of the process before anything else is loaded: the first import of main.ts, and itself free of imports.
 * Elysia reads NODE_ENV when it is loaded; Bun reads its own settings from the environment before the program starts, so a change
 * of those needs the process to execute itself again (runtime.md 0).
 */

/**
 * Bun's own client holds at most 256 requests in flight otherwise, open streams included, and queues the rest without a word (runtime.md 0.2). Where
 * vendors are called by the gateway's client, which has no such bound, it does little, and a start need not be made twice.
 */
const MAX_FETCHES = "8192";

/** With one of these somebody else's code or flags would run inside the gateway (reliability 7.4). */
const REFUSED = ["BUN_OPTIONS", "BUN_BE_BUN", "NODE_OPTIONS"];

/** These would print keys, drop the check of certificates, open a debugger, or send prompts through a stranger. */
const REMOVED = /^(?:BUN_CONFIG_VERBOSE_FETCH|NODE_TLS_REJECT_UNAUTHORIZED|BUN_INSPECT\w*)$/i;
const PROXIES = /^(?:HTTP|HTTPS|ALL)_PROXY$/i;

/** What steers the parts below, which take each at its word (config/load.ts says which there are). */
const SWITCHES = ["SLUICE_USE_ENV_PROXY", "SLUICE_HTTP_CLIENT", "SLUICE_HTTP_SERVER"];

/**
 * How much more often than usual code has to run until it is compiled. A start runs nearly all of its code once or a few times: compiling that took a fifth
 * of the processor's time until the first answer. A server takes the usual measure once it stands (serving.ts), or has much to clear up; commands end as they began.
 */
const START_JIT_SCALE = 20;

/** Set by a process that executes itself again, to its own id: so that this happens once, whatever the environment holds afterwards. */
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

/** Other variables are read without the blanks around them: `set NAME=1 && sluice` of Windows' cmd leaves one. */
function trimSwitches(): void {
  for (const name of SWITCHES) if (process.env[name]) process.env[name] = process.env[name].trim();
}

/** Removes what must not act, says so, and returns its names. */
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
 * Bun's client for buckets takes the session token of AWS's own variables, which is that of another key, and writes it into the addresses of images
 * that it signs for callers. Read when the program starts, and only an empty one of its own keeps it from that. Returns whether one was set.
 */
function keepTokenFromBuckets(): boolean {
  if (!process.env["AWS_SESSION_TOKEN"] || process.env["S3_SESSION_TOKEN"] !== undefined) return false;
  process.env["S3_SESSION_TOKEN"] = "";
  return true;
}

/** `serve` is also what runs when no command is named. */
function isServe(words: readonly string[]): boolean {
  if (words.some((word) => ["-h", "--help", "-V", "--version"].includes(word))) return false;
  const first = words[0];
  return first === undefined || first === "serve" || first.startsWith("-");
}

/**
 * Where a process cannot replace itself (Windows): a child with the same terminal, which hears what comes from there by itself. This one only outlives
 * that, and hands on the exit code: Windows has no signals from one process to another, and sending one ends the child where it stands.
 */
async function runAsChild(command: string[]): Promise<never> {
  for (const signal of FROM_TERMINAL) process.on(signal, () => {});
  const child = Bun.spawn(command, { stdio: ["inherit", "inherit", "inherit"], env: { ...process.env } });
  process.exit(await child.exited);
}

/** Whether this process was executed again by itself, or is the child that stands for it. Takes the mark away: it is meant for nobody else. */
function takeMark(): boolean {
  const mark = process.env[MARK];
  delete process.env[MARK];
  return mark !== undefined && (mark === String(process.pid) || mark === String(process.ppid));
}

/** Starts this program again with the environment as it is now; the process id stays where the system allows it. */
async function executeAgain(): Promise<void> {
  // From source, Bun would read the folder's .env again and put back what was taken out. What it held is in the environment by now.
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
// By this name: the build replaces `process.env.NODE_ENV` itself by its value.
Bun.env["NODE_ENV"] ??= "production";
refuseForeignOptions();
process.umask(0o077);
const again = takeMark();
trimSwitches();
const removed = cleanEnvironment();
const words = process.argv.slice(2);
// It ends a process that hears it nowhere: a service that is reloaded while it starts. Nothing has been read yet that would have to be read again.
if (isServe(words)) process.on("SIGHUP", () => {});
// Bun has read these before: they act in this process, of whatever command, though they are gone from its environment.
const acts = removed.some((name) => REMOVED.test(name));
const changed = keepTokenFromBuckets() || removed.length > 0;
const fetches = process.env["SLUICE_USE_ENV_PROXY"] === "1" || process.env["SLUICE_HTTP_CLIENT"] === "fetch";
const bounded = fetches && !process.env["BUN_CONFIG_MAX_HTTP_REQUESTS"];
// What talks to vendors and buckets.
const talks = isServe(words) || words[0] === "doctor";
if (!again && (acts || (talks && (bounded || changed)))) {
  process.env["BUN_CONFIG_MAX_HTTP_REQUESTS"] ||= MAX_FETCHES;
  await executeAgain();
}

export {};
