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
