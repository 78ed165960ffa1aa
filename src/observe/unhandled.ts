import { errorFields, type Log } from "./log.ts";

/** Faults that nobody caught since the start: each is a fault of the program, and zero is what is expected. */
export const unhandled = { count: 0 };

/**
 * From now on a fault that nobody caught is logged and counted, and the process goes on: one request's fault must not end all others'
 * (reliability 2 #28). Without this a rejection in a timer ends it.
 */
export function outliveFaults(log: Pick<Log, "error">): void {
  const note = (thrown: unknown) => {
    unhandled.count++;
    log.error("unhandled", errorFields(thrown));
  };
  process.on("unhandledRejection", note);
  process.on("uncaughtException", note);
}
