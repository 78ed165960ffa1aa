import type { Figure, Sample } from "./figures.ts";

/** Figures of which the largest value is taken, that of the worst process: a sum of them would mean nothing. */
const LARGEST: ReadonlySet<string> = new Set([
  "sluice_event_loop_lag_seconds",
  "sluice_vendor_failing",
  "sluice_breaker_open",
  "sluice_key_resting",
]);
/** Figures that are taken from the first process alone, for all of them. */
const FIRST: ReadonlySet<string> = new Set(["sluice_build_info", "process_start_time_seconds"]);

const nameOf = ({ labels = {}, suffix = "" }: Sample) => `${suffix}\n${JSON.stringify(Object.entries(labels))}`;

type Merged = Omit<Figure, "samples"> & { samples: Map<string, Sample> };

/**
 * The figures of several processes as those of one: counters, histograms and most gauges are summed, of some gauges the largest counts. Figures and samples
 * stay in the order in which they are first met.
 */
export function mergeFigures(sets: readonly (readonly Figure[])[]): Figure[] {
  const merged = new Map<string, Merged>();
  for (const figure of sets.flat()) {
    const { name, type, help } = figure;
    const known = merged.get(name);
    if (known && FIRST.has(name)) continue;
    const into = known ?? { name, type, help, samples: new Map() };
    merged.set(name, into);
    for (const sample of figure.samples) addSample(into, sample);
  }
  return [...merged.values()].map((figure) => ({ ...figure, samples: [...figure.samples.values()] }));
}

function addSample({ name, samples }: Merged, sample: Sample): void {
  const key = nameOf(sample);
  const known = samples.get(key);
  if (!known) samples.set(key, { ...sample });
  else known.value = LARGEST.has(name) ? Math.max(known.value, sample.value) : known.value + sample.value;
}

/** Those of a process's figures that are still counted after its end: counters and histograms, so that no sum ever falls. */
export function lastingFigures(figures: readonly Figure[]): Figure[] {
  return figures.filter(({ type }) => type === "counter" || type === "histogram");
}
