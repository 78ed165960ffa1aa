import { join, resolve } from "node:path";
import type { Environment } from "../lib/environment.ts";
import { ConfigError } from "./faults.ts";

/** What decides where the data folder is. */
export type Place = {
  environment: Environment;
  platform: NodeJS.Platform;
  /** The user's home folder; "" where there is none. */
  home: string;
  /** The folder that the program was started in, which relative paths start from. */
  workingFolder: string;
};

/** A folder in the user's home. Throws ConfigError where there is none: nobody would look for keys under the folder that this was started in. */
function inHome(home: string, ...names: readonly string[]): string {
  if (home === "")
    throw new ConfigError([
      "this user has no home folder to keep data in (no account, and HOME is not set); choose a folder with --data or SLUICE_DATA",
    ]);
  return join(home, ...names);
}

/** The platform's folder for a program's own data (contract 2). */
function platformFolder({ environment, platform, home }: Place): string {
  if (platform === "darwin") return inHome(home, "Library", "Application Support", "sluice");
  if (platform === "win32") return join(environment["LOCALAPPDATA"] || inHome(home, "AppData", "Local"), "sluice");
  const shared = environment["XDG_DATA_HOME"];
  // The XDG specification says that a relative path there is to be ignored.
  return join(shared?.startsWith("/") ? shared : inHome(home, ".local", "share"), "sluice");
}

/**
 * The data folder as an absolute path: the one given by flag or `SLUICE_DATA`, else the platform's (contract 2). Does not touch the disk. Throws
 * ConfigError where that would be in a home and there is none.
 */
export function findDataFolder(given: string | undefined, place: Place): string {
  return given ? resolve(place.workingFolder, given) : platformFolder(place);
}

/** The store's file in a data folder. */
export const storePath = (dataFolder: string): string => join(dataFolder, "sluice.db");

/** The folder of the request log's files, in a data folder. */
export const requestLogFolder = (dataFolder: string): string => join(dataFolder, "requests");
