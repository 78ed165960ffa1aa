import { ConfigError } from "../config/faults.ts";
import type { Config } from "../config/load.ts";
import { serverIsRunning } from "../db/folder-lock.ts";
import { dataFolderOf, readConfig } from "./context.ts";
import { examineBucket } from "./examine/bucket.ts";
import { examineClock, examineLimits, examinePort, examineRoom } from "./examine/machine.ts";
import { examineSearch } from "./examine/search.ts";
import { examineFiles, examineStore } from "./examine/store.ts";
import { examineVendors } from "./examine/vendors.ts";
import { type Finding, fault, formatFindings, note, ok } from "./findings.ts";
import type { JsonOption, ServeOptions } from "./options.ts";
import { print, printJson } from "./output.ts";

/** The configuration, or its faults. Throws ConfigError for a fault of the command line itself, which is wrong usage. */
function examineConfig(options: ServeOptions): { config?: Config; findings: Finding[] } {
  try {
    const config = readConfig(options);
    const source = config.file ?? "no file: environment and defaults";
    const notes = config.warnings.map((sentence) => note("configuration", sentence));
    return { config, findings: [ok("configuration", source), ...notes] };
  } catch (error) {
    if (!(error instanceof ConfigError) || error.fromFlags) throw error;
    return { findings: error.lines.map((line) => fault("configuration", line, "correct the file or the variable")) };
  }
}

/**
 * `sluice doctor`: checks configuration, files, store, vendors, the images' bucket, port, clock and limits, and says what to do (contract 1). Returns 1 when
 * something is at fault. Changes nothing that a start would not change.
 */
export async function examine(options: ServeOptions & JsonOption): Promise<number> {
  const { config, findings } = examineConfig(options);
  const dataFolder = config?.dataFolder ?? dataFolderOf(options);
  // Modes first: opening the store puts them right.
  findings.push(...examineFiles(dataFolder, config?.file));
  const running = serverIsRunning(dataFolder);
  const { findings: found, newestAt } = examineStore(dataFolder, running, config?.plans);
  findings.push(...found, ...examineRoom(dataFolder), examineClock(Date.now(), newestAt));
  if (config) {
    findings.push(examinePort(config.server, running));
    findings.push(...(await examineVendors(config, running)), ...(await examineBucket(config)));
    findings.push(await examineSearch(config));
  }
  findings.push(examineLimits());
  if (options.json) printJson(findings);
  else print(...formatFindings(findings));
  return findings.some((finding) => finding.state === "fault") ? 1 : 0;
}
