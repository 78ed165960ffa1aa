import { type Figure, figure, single } from "./figures.ts";
import type { LoopLag } from "./loop-lag.ts";
import { unhandled } from "./unhandled.ts";

const MS_PER_SECOND = 1_000;
const US_PER_SECOND = 1_000_000;

/** Unix time, seconds. Computed once: computed anew each time it would now and then round to another second, which would look like a restart. */
const STARTED_AT = Math.round(Date.now() / MS_PER_SECOND - process.uptime());

/** Requests to vendors that this process may have in flight; Bun queues more without a word (runtime.md 0.2). */
export const fetchLimit = (): number => Number(process.env["BUN_CONFIG_MAX_HTTP_REQUESTS"]) || 256;

let lastMemory = { rss: 0, heapUsed: 0 };

/** Memory of this process, bytes; the last known figures where it cannot be read, as in a process that may open no further file. Never throws. */
function readMemory(): { rss: number; heapUsed: number } {
  try {
    lastMemory = process.memoryUsage();
  } catch {
    // The other figures can be told all the same.
  }
  return lastMemory;
}

/** The figures of this process: its version, memory, processor time and uncaught faults, and how late its event loop is. */
export function collectProcess(version: string, lag: LoopLag): Figure[] {
  const { rss, heapUsed } = readMemory();
  const { user, system } = process.cpuUsage();
  const { median, p99, worst } = lag.read();
  return [
    figure("sluice_build_info", "gauge", "What runs here. Always 1.", [
      { labels: { version, bun: Bun.version }, value: 1 },
    ]),
    single("process_start_time_seconds", "gauge", "When the process started, Unix time.", STARTED_AT),
    single("process_cpu_seconds_total", "counter", "Processor time, user and system.", (user + system) / US_PER_SECOND),
    single("process_resident_memory_bytes", "gauge", "Memory that is in use and not swapped out.", rss),
    single(
      "sluice_unhandled_faults_total",
      "counter",
      "Faults that nobody caught; none are expected.",
      unhandled.count,
    ),
    single("sluice_heap_used_bytes", "gauge", "What JavaScript holds of it.", heapUsed),
    // A summary and no gauge: a checker of figures objects to a gauge with the label `quantile`.
    figure("sluice_event_loop_lag_seconds", "summary", "How late the event loop was within the last ten seconds.", [
      { labels: { quantile: "0.5" }, value: median / MS_PER_SECOND },
      { labels: { quantile: "0.99" }, value: p99 / MS_PER_SECOND },
      { labels: { quantile: "1" }, value: worst / MS_PER_SECOND },
    ]),
    figure(
      "sluice_event_loop_delay_seconds",
      "histogram",
      "How late the event loop was, looked at every 50 ms since the start.",
      lag.delays.samples({}),
    ),
  ];
}
