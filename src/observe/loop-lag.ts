import { Histogram } from "./figures.ts";

/** How often the event loop is looked at, ms. */
export const LOOK_EVERY_MS = 50;
/** Looks that are remembered: ten seconds. */
const KEPT = 200;
/** The 99th percentile, as a fraction. */
const P99 = 0.99;
/** Bounds by which all looks since the start are counted, seconds. */
const DELAYS = [0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1];
const MS_PER_SECOND = 1_000;

/**
 * Measures how late the event loop is: by how much a timer runs later than it should have. {@link read} tells of the last ten seconds, the present; the
 * histogram counts all looks since the start, for whoever asks how it was over hours.
 */
export class LoopLag {
  /** Of all looks, seconds. */
  readonly delays = new Histogram(DELAYS);
  readonly #lags = new Float64Array(KEPT);
  #at = 0;
  #filled = 0;
  #expectedAt = 0;
  #timer: ReturnType<typeof setInterval> | undefined;

  /** `monotonic`: ms that never step back. `onLook` is called after each look with its lag, ms. */
  constructor(
    private readonly monotonic: () => number,
    private readonly onLook: (lagMs: number) => void = () => {},
  ) {}

  /** Begins to look. The timer keeps no process alive. */
  start(): void {
    this.#expectedAt = this.monotonic() + LOOK_EVERY_MS;
    this.#timer = setInterval(() => this.look(), LOOK_EVERY_MS);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** One look, as the timer takes it. */
  look(): void {
    const now = this.monotonic();
    const lag = Math.max(0, now - this.#expectedAt);
    this.#expectedAt = now + LOOK_EVERY_MS;
    this.#lags[this.#at] = lag;
    this.#at = (this.#at + 1) % KEPT;
    this.#filled = Math.min(KEPT, this.#filled + 1);
    this.delays.observe(lag / MS_PER_SECOND);
    this.onLook(lag);
  }

  /** Median, 99th percentile and worst of the last ten seconds, ms. */
  read(): { median: number; p99: number; worst: number } {
    const sorted = this.#lags.slice(0, this.#filled).sort();
    const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
    return { median: at(0.5), p99: at(P99), worst: at(1) };
  }
}
