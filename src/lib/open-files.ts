import { closeSync, openSync } from "node:fs";
import { devNull } from "node:os";
import { errorCode } from "./error-code.ts";
import { isObject } from "./json.ts";

/** How many files and sockets this process may have open; undefined where the system does not say. */
export function readOpenFiles(): number | undefined {
  const report: unknown = process.report?.getReport();
  const limits = isObject(report) ? report["userLimits"] : undefined;
  const files = isObject(limits) ? limits["open_files"] : undefined;
  const soft = isObject(files) ? files["soft"] : undefined;
  if (soft === "unlimited") return Number.POSITIVE_INFINITY;
  return typeof soft === "number" ? soft : undefined;
}

/** Codes of the system's errors when this process (EMFILE), or the whole machine (ENFILE), has as many files open as it may. */
const NO_FILE_LEFT: ReadonlySet<string> = new Set(["EMFILE", "ENFILE"]);

/** Whether no further file, and so no connection, can be opened now. The runtime reports a connection that failed for that as one that was refused. */
export function hasNoFileLeft(): boolean {
  try {
    closeSync(openSync(devNull, "r"));
    return false;
  } catch (thrown) {
    return NO_FILE_LEFT.has(errorCode(thrown));
  }
}
