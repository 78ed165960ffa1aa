import type { Store } from "../db/open.ts";
import type { Writer } from "../db/writer.ts";
import { keepAttempts } from "../ledger/attempts.ts";
import type { Clock } from "../lib/clock.ts";
import { retryAfterSeconds } from "../lib/http1/retry-after.ts";
import { type Figure, single } from "../observe/figures.ts";
import { errorFields, type Log } from "../observe/log.ts";
import { LoopLag } from "../observe/loop-lag.ts";
import { mergeFigures } from "../observe/merge-figures.ts";
import { createObserver, type Listener } from "../observe/observer.ts";
import { collectProcess } from "../observe/process-figures.ts";
import type { RequestObserver } from "../observe/request-facts.ts";
import { RequestFigures } from "../observe/request-figures.ts";
import { TraceExporter, type TraceSettings } from "../observe/traces.ts";
import type { VendorHealth } from "../vendors/health.ts";
import type { Vendor } from "../vendors/vendor.ts";
import { collectGateway } from "./metrics/figures.ts";

/** What sends traces as they are set up to be sent; undefined where they are off. `onFault`: see {@link TraceExporter}. */
export function createTraces(
  settings: TraceSettings | null | undefined,
  { version, log, clock, onFault }: { version: string; log: Log; clock: Clock; onFault(thrown: unknown): void },
  vendorOf: (id: string) => Vendor | undefined,
): TraceExporter | undefined {
  if (!settings) return undefined;
  return new TraceExporter({
    ...{ ...settings, version, scrub: log.scrub, after: clock.after, onFault },
    baseUrlOf(id) {
      const vendor = vendorOf(id);
      // The built-in one is in this process: its address is a name that nobody can call.
      return vendor?.serve ? undefined : vendor?.baseUrl;
    },
    retryAfter: (headers) => retryAfterSeconds(headers, clock.now()),
  });
}

export type ObservationParts = {
  store: Store;
  writer: Writer;
  clock: Clock;
  log: Log;
  version: string;
  health: VendorHealth;
  vendors(): Iterable<Vendor>;
  /** One of them, by its ID. */
  vendor(id: string): Vendor | undefined;
  running(): number;
  /** Where traces go; undefined: there are none, and they cost nothing. */
  traces: TraceSettings | undefined;
  /** Figures of other parts. */
  others(): readonly Figure[];
  /** Called with each look at the event loop, and its lag in ms. */
  onLag?(lagMs: number): void;
};

/** All that is kept to see how the gateway does: figures, traces, attempts of requests, and the event loop's lag. */
export class Observation {
  /** To be told of every request. */
  readonly observer: RequestObserver;
  /** Asks the processes that work for this one for their figures; undefined where there are none. Never rejects. */
  workers: (() => Promise<readonly (readonly Figure[])[]>) | undefined;
  /** Configurations read again since the start. */
  readonly reloads = { taken: 0, refused: 0 };
  readonly #requests: RequestFigures;
  readonly #lag: LoopLag;
  readonly #traces: TraceExporter | undefined;

  constructor(private readonly parts: ObservationParts) {
    const { clock, log, store, writer, traces, version } = parts;
    const failed = (thrown: unknown) => log.error("observe", errorFields(thrown));
    const attempts: Listener = {
      settling: (requestId, made) => void keepAttempts(store, writer, requestId, made).catch(failed),
    };
    this.#requests = new RequestFigures(log.scrub);
    this.#lag = new LoopLag(() => clock.monotonic(), parts.onLag);
    this.#traces = createTraces(traces, { version, log, clock, onFault: failed }, (id) => parts.vendor(id));
    this.observer = createObserver([this.#requests, attempts, ...(this.#traces ? [this.#traces] : [])], failed);
  }

  /** Begins to look at the event loop. */
  start(): void {
    this.#lag.start();
  }

  /** Stops looking, and sends what waits. */
  async close(): Promise<void> {
    this.#lag.stop();
    await this.#traces?.close();
  }

  /** Everything there is to see now, of the processes that work for this one too. */
  async collectAll(): Promise<Figure[]> {
    const others = await this.workers?.();
    return others ? mergeFigures([this.collect(), ...others]) : this.collect();
  }

  /** Everything there is to see of this process now. */
  collect(): Figure[] {
    const { parts } = this;
    const gateway = collectGateway({
      ...parts,
      scrub: parts.log.scrub,
      requests: this.#requests,
      reloads: this.reloads,
    });
    return [...collectProcess(parts.version, this.#lag), ...gateway, ...this.#traceFigures()];
  }

  #traceFigures(): Figure[] {
    return this.#traces ? traceFigures(this.#traces.counts) : [];
  }
}

/** What became of a process's traces. */
export function traceFigures({ sent, lost }: TraceExporter["counts"]): Figure[] {
  return [
    single("sluice_trace_spans_sent_total", "counter", "Spans that the collector took.", sent),
    single("sluice_trace_spans_lost_total", "counter", "Spans that it did not take in time.", lost),
  ];
}
