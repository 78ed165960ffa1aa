import type { RequestFacts } from "./request-facts.ts";
import { type Sampling, type Span, toSpans } from "./spans.ts";

/** Spans are sent together this often, ms, where nothing else is set. */
const EVERY_MS = 5_000;
/** Spans that are sent at once, and that wait for a collector that does not answer; further ones are counted and left out. */
const BATCH = 512;
const MAX_WAITING = 4_096;
/** A collector has this long to take a batch, ms, where nothing else is set. */
const TIMEOUT_MS = 10_000;
/** And this long for all that is left when the process ends, ms: nobody's restart waits for it. */
const CLOSE_MS = 2_000;

export type TraceSettings = {
  /** The whole address: `http://127.0.0.1:4318/v1/traces`. */
  url: string;
  /** Headers of every call, such as a key. Never logged. */
  headers: Readonly<Record<string, string>>;
  /** `service.name` of the resource. */
  serviceName: string;
  /** Further attributes of the resource, by name. */
  resource?: Readonly<Record<string, string>>;
  /** Which traces are sent; left out: all but those that a client does not sample. */
  sampling?: Sampling | undefined;
  /** How long a collector has to take a batch, and how often one is sent, ms. */
  timeoutMs?: number | undefined;
  everyMs?: number | undefined;
};

export type TraceParts = TraceSettings & {
  version: string;
  /** Runs a function once after so many ms; what it returns takes that back. */
  after(ms: number, callback: () => void): () => void;
  /** Told once when a collector begins to fail, and not again until it has taken something. */
  onFault(thrown: unknown): void;
};

/**
 * Sends a trace of every request to an OpenTelemetry collector, as OTLP over HTTP in JSON: a span for the request and one for each call to a
 * vendor, named by the GenAI conventions. No prompt and no answer is ever in them. What the collector does not take is lost, and counted.
 */
export class TraceExporter {
  readonly traces = true;
  #waiting: Span[] = [];
  #cancel: (() => void) | undefined;
  #sending: Promise<void> = Promise.resolve();
  #failing = false;
  #leaving = new AbortController();
  readonly counts = { sent: 0, lost: 0 };

  constructor(private readonly parts: TraceParts) {}

  /** Notes a request that is over. Waits for nothing. */
  ended(facts: RequestFacts): void {
    const { sampling, everyMs = EVERY_MS } = this.parts;
    const spans = toSpans(facts, sampling);
    if (spans.length === 0) return;
    if (this.#waiting.length + spans.length > MAX_WAITING) {
      this.counts.lost += spans.length;
      return;
    }
    this.#waiting.push(...spans);
    if (this.#waiting.length >= BATCH) void this.flush();
    else this.#cancel ??= this.parts.after(everyMs, () => void this.flush());
  }

  /** Sends what waits. Resolves when the collector has answered, or has not. */
  flush(): Promise<void> {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#sending = this.#sending.then(() => this.#sendAll());
    return this.#sending;
  }

  /** The last flush, {@link CLOSE_MS} at most: what is not taken by then is lost. */
  async close(): Promise<void> {
    const cancel = this.parts.after(CLOSE_MS, () =>
      this.#leaving.abort(new Error("The collector of traces did not take them before the end.")),
    );
    await this.flush();
    cancel();
    if (this.#leaving.signal.aborted) this.#leaving = new AbortController();
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH);
      try {
        await this.#send(batch);
        this.counts.sent += batch.length;
        this.#failing = false;
      } catch (thrown) {
        this.counts.lost += batch.length;
        if (!this.#failing) this.parts.onFault(thrown);
        this.#failing = true;
      }
    }
  }

  async #send(spans: readonly Span[]): Promise<void> {
    this.#leaving.signal.throwIfAborted();
    const { url, headers, serviceName, version, resource, timeoutMs = TIMEOUT_MS } = this.parts;
    const named = { "service.name": serviceName, "service.version": version, ...resource };
    const attributes = Object.entries(named).map(([key, value]) => ({ key, value: { stringValue: value } }));
    const scopeSpans = [{ scope: { name: "sluice", version }, spans }];
    const response = await fetch(url, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify({ resourceSpans: [{ resource: { attributes }, scopeSpans }] }),
      redirect: "manual",
      proxy: false,
      signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), this.#leaving.signal]),
    } as RequestInit);
    await response.body?.cancel();
    if (!response.ok) throw new Error(`The collector of traces answered with ${response.status}.`);
  }
}
