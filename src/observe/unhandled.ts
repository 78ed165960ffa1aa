import { errorFields, type Log } from "./log.ts";

/** How many errors nobody caught since the start. Each is a fault of the program; none are expected. */
export const unhandled = { count: 0 };

/**
 * From now on an error that nobody caught is logged and counted, and the process goes on: a fault in one request must not end all others
 * (reliability 2 #28). Without this, a rejection in a timer would end the process.
 */
export function outliveFaults(log: Pick<Log, "error">): void {
  const note = (thrown: unknown) => {
    unhandled.count++;
    log.error("unhandled", errorFields(thrown));
  };
  process.on("unhandledRejection", note);
  process.on("uncaughtException", note);
}
