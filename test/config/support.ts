import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Flags } from "../../src/config/chooser.ts";
import { ConfigError } from "../../src/config/faults.ts";
import { type Config, loadConfig } from "../../src/config/load.ts";

/** A folder of its own for one test, gone afterwards by {@link removeFolders}. */
const folders: string[] = [];

export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-config-"));
  folders.push(folder);
  return folder;
}

export function removeFolders(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

/** Writes a file below a folder and returns its path. */
export function writeIn(folder: string, name: string, content: string, mode = 0o600): string {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content, { mode });
  return path;
}

export type Given = { environment?: Record<string, string>; flags?: Flags; platform?: NodeJS.Platform; home?: string };

/** Loads the configuration of a data folder, with nothing of the machine's own environment. */
export function load(folder: string, given: Given = {}): Config {
  return loadConfig({
    environment: given.environment ?? {},
    flags: { data: folder, ...given.flags },
    platform: given.platform ?? "linux",
    home: given.home ?? folder,
    workingFolder: folder,
    registryIds: ["openai", "anthropic", "openrouter"],
    builtinIds: ["sluice"],
  });
}

/** The lines of the ConfigError that loading ends in, without the lines of the file that they name. Fails when it does not. */
export function faultLines(folder: string, given: Given = {}): readonly string[] {
  return faultOf(folder, given).lines.map((line) => line.replace(/^([^:]+):\d+: /, "$1: "));
}

export function faultOf(folder: string, given: Given = {}): ConfigError {
  try {
    load(folder, given);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("expected a ConfigError, but the configuration was accepted");
}
