import type { Command } from "commander";

/** Called with the exit code of the command that ran; undefined while `serve` goes on. */
export type Report = (code: number | undefined) => void;

/** A command on the data folder. */
export const withFolder = (command: Command) =>
  command.option("--data <dir>", "data folder (default: $SLUICE_DATA, else the platform's)");

/** A command that reads the configuration. */
export const withConfig = (command: Command) =>
  withFolder(command).option(
    "--config <file>",
    "configuration file (default: sluice.yaml, .toml or .json in the data folder)",
  );

/** A command whose output programs can read. */
export const withJson = (command: Command) => command.option("--json", "print JSON for programs");
