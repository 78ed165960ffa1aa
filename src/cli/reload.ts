import { closeSync, openSync, statSync } from "node:fs";
import { ConfigError } from "../config/faults.ts";
import type { Config } from "../config/load.ts";
import { watchFiles } from "../config/watch.ts";
import type { Clock } from "../lib/clock.ts";
import { errorFields, type Log } from "../observe/log.ts";
import type { RunningServer } from "../server.ts";
import type { Vendor } from "../vendors/vendor.ts";
import { printWarnings, warn } from "./output.ts";

export type ReloadParts = {
  server: Pick<RunningServer, "reload" | "app">;
  log: Log;
  clock: Clock;
  /** What the server was started with. */
  config: Config;
  /** Reads everything anew. Throws ConfigError. */
  read(): { config: Config; vendors: readonly Vendor[]; warnings: readonly string[] };
  /** Keys of vendors that no line of the log may hold. */
  addSecrets(config: Config, vendors: readonly Vendor[]): void;
  /** What was heard before anybody could act on it. */
  hangup: Hangup;
};

/** See {@link hearHangup}. */
export type Hangup = {
  /** The server was started from a terminal that was there then. */
  readonly inTerminal: boolean;
  /** Tells whether SIGHUP came, and leaves the next one to others. */
  take(): boolean;
};

/** Parts of the configuration that a running server takes over (contract 2). */
const RELOADED: ReadonlySet<string> = new Set(["vendors", "models", "plans", "limits", "warnings", "file", "places"]);

/** Parts that are called otherwise in the file. */
const IN_FILE: Readonly<Partial<Record<keyof Config, string>>> = {
  search: "web.search",
  records: "retention or request_log",
  traces: "telemetry",
  localDiscovery: "local_discovery",
};

/** Names of the parts that differ and take effect at the next start only, as the file has them. */
function needingStart(before: Config, after: Config): string[] {
  const names = Object.keys(after) as (keyof Config)[];
  const changed = names.filter((name) => !RELOADED.has(name) && !Bun.deepEquals(before[name], after[name]));
  return changed.map((name) => IN_FILE[name] ?? name);
}

/**
 * Throws ConfigError for a file without a byte. A shell that is about to write one empties it first, and a full disk leaves it so: a server that took
 * that for a configuration would give up all that it has.
 */
function refuseEmptied(file: string | undefined): void {
  const facts = file === undefined ? undefined : statSync(file, { throwIfNoEntry: false });
  // A pipe has no size either.
  if (!facts?.isFile() || facts.size > 0) return;
  throw new ConfigError([`${file}: expected a configuration, found an empty file; to have none, remove it`]);
}

/** Takes over what the configuration says now, or says why not and changes nothing (contract 2). True when it was taken over. */
function reloadOnce(parts: ReloadParts): boolean {
  const { server, log } = parts;
  try {
    const { config, vendors, warnings } = parts.read();
    refuseEmptied(config.file);
    parts.addSecrets(config, vendors);
    server.reload({ config, vendors });
    printWarnings([...config.warnings, ...warnings]);
    const later = needingStart(parts.config, config);
    if (later.length > 0) printWarnings([`what has changed of ${later.join(", ")} takes effect at the next start.`]);
    warn("The configuration was read again and taken over.");
    server.app.observation.reloads.taken++;
    log.info("config-reload", { vendors: vendors.length, models: config.models.length });
    return true;
  } catch (thrown) {
    const lines = thrown instanceof ConfigError ? thrown.lines : [String(errorFields(thrown)["error"])];
    for (const line of lines) warn(`error: ${line}`);
    warn("The configuration was read again and is at fault: nothing was changed.");
    server.app.observation.reloads.refused++;
    log.error("config-reload", { faults: lines.length, error: lines[0] });
    return false;
  }
}

const STDIN = 0;

/** The terminal this was started from is gone: then SIGHUP means what it always meant, and nobody could stop the server any more. */
function hasLostTerminal(): boolean {
  try {
    closeSync(openSync("/dev/tty", "r"));
    return false;
  } catch {
    return true;
  }
}

/** Hears SIGHUP from now on, which ends a process that does not: a server that has only just been started must outlive it too. */
export function hearHangup(): Hangup {
  // In this order: a service has no terminal, and its start need not load what tells.
  const inTerminal = !hasLostTerminal() && process.getBuiltinModule("node:tty").isatty(STDIN);
  let came = false;
  const note = () => {
    came = true;
  };
  process.on("SIGHUP", note);
  const take = () => {
    process.off("SIGHUP", note);
    return came;
  };
  return { inTerminal, take };
}

/** While it stops there is nothing to read again, and the terminal may be gone. */
function ignoreHangup(): void {}

/** Reads the configuration again on SIGHUP and when its file changes, from now on until the returned function is called. */
export async function keepReloading(parts: ReloadParts): Promise<() => void> {
  const again = () => void reloadOnce(parts);
  const watch = await watchFiles(parts.config.places, parts.clock, again);
  const onHangup = () => {
    if (parts.hangup.inTerminal && hasLostTerminal()) process.kill(process.pid, "SIGTERM");
    // What is there by now is read once, not again because the file has changed too.
    else void watch.skip().then(again);
  };
  process.on("SIGHUP", onHangup);
  // What was read at the start may be older than the wish to have it read again.
  if (parts.hangup.take()) onHangup();
  return () => {
    // Before the other goes: a process that hears it nowhere is ended by it.
    process.on("SIGHUP", ignoreHangup);
    process.off("SIGHUP", onHangup);
    watch.stop();
  };
}
