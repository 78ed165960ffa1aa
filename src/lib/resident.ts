let last = 0;

/**
 * What this process has resident, bytes: as it was last known when the system cannot say, as it cannot to a process that may open no further
 * file (Bun reads it from one). Never throws: it is asked by timers, where that would end the process.
 */
export function readResident(): number {
  try {
    last = process.memoryUsage.rss();
  } catch {
    // Whoever wants to know asks again.
  }
  return last;
}
