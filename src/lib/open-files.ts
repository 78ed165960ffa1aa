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

/** The system's words for this process, or all of them, having as many files open as may be. */
const NO_FILE_LEFT: ReadonlySet<string> = new Set(["EMFILE", "ENFILE"]);

/** Whether no further file, and so no further connection, can be opened at this moment. The runtime tells of one that could not be as of one that was refused. */
export function hasNoFileLeft(): boolean {
  try {
    closeSync(openSync(devNull, "r"));
    return false;
  } catch (thrown) {
    return NO_FILE_LEFT.has(errorCode(thrown));
  }
}
