/** Labels of a figure, in the order in which they are written. */
export type Labels = Readonly<Record<string, string | number>>;
/** One value of a figure. */
export type Sample = {
  labels?: Labels;
  value: number;
  /** Written after the figure's name: `_bucket`, `_sum`, `_count`. */
  suffix?: string;
};
/** A figure as Prometheus reads it (text format 0.0.4). Names end in their unit; counters in `_total`. */
export type Figure = {
  name: string;
  type: "counter" | "gauge" | "histogram" | "summary";
  help: string;
  samples: readonly Sample[];
};

const escapeLabel = (text: string) => text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");

function writeLabels(labels: Labels | undefined): string {
  const written = Object.entries(labels ?? {}).map(([name, value]) => `${name}="${escapeLabel(String(value))}"`);
  return written.length === 0 ? "" : `{${written.join(",")}}`;
}

/** Decimals that are written: all sums are made of whole nanoseconds and nano-dollars. */
const DIGITS = 9;
/** From {@link LARGE} on a value is written with this many digits in all: the last ones of a double's sixteen are rounding errors of addition. */
const LARGE = 100_000;
const LARGE_DIGITS = 13;

/**
 * A value without the rounding errors of its addition. The sums of several processes are added in another order once one of them has died; a counter that
 * fell by a rounding error would look as if it had begun again at 0, and all of it would be counted once more.
 */
function writeValue(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  if (Number.isInteger(value)) return String(value);
  return String(Number(Math.abs(value) < LARGE ? value.toFixed(DIGITS) : value.toPrecision(LARGE_DIGITS)));
}

/** Figures as text for Prometheus. Help is one line; a figure without samples is left out. */
export function writeFigures(figures: readonly Figure[]): string {
  let text = "";
  for (const { name, type, help, samples } of figures) {
    if (samples.length === 0) continue;
    text += `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
    for (const { labels, value, suffix = "" } of samples) {
      text += `${name}${suffix}${writeLabels(labels)} ${writeValue(value)}\n`;
    }
  }
  return text;
}

/** A figure of several values. */
export function figure(name: string, type: Figure["type"], help: string, samples: readonly Sample[]): Figure {
  return { name, type, help, samples };
}

/** A figure of one value. */
export function single(name: string, type: "counter" | "gauge", help: string, value: number): Figure {
  return figure(name, type, help, [{ value }]);
}

/** Counts values into buckets. `bounds`: the buckets' upper bounds, which belong to them, ascending. */
export class Histogram {
  readonly #counts: number[];
  #sum = 0;
  #count = 0;

  constructor(private readonly bounds: readonly number[]) {
    this.#counts = bounds.map(() => 0);
  }

  /** Counts a value. */
  observe(value: number): void {
    const { bounds } = this;
    this.#sum += value;
    this.#count++;
    for (let at = 0; at < bounds.length; at++) {
      if (value <= bounds[at]!) {
        this.#counts[at]!++;
        return;
      }
    }
  }

  /** The samples of a figure of type histogram, cumulative as Prometheus wants them. */
  samples(labels: Labels): Sample[] {
    let below = 0;
    const buckets = this.bounds.map((bound, at): Sample => {
      below += this.#counts[at]!;
      return { suffix: "_bucket", labels: { ...labels, le: bound }, value: below };
    });
    return [
      ...buckets,
      { suffix: "_bucket", labels: { ...labels, le: "+Inf" }, value: this.#count },
      { suffix: "_sum", labels, value: this.#sum },
      { suffix: "_count", labels, value: this.#count },
    ];
  }
}
