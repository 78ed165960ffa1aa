import type { Attempt, RequestFacts, WorkFacts } from "./request-facts.ts";
import { type Sampling, type Span, toSpans, toWorkSpans } from "./spans.ts";

/** Spans are sent together this often, ms, where nothing else is set. */
const EVERY_MS = 5_000;
/** Spans that are sent at once, and that wait for a collector that does not answer, where nothing else is set; further ones are counted and left out. */
const BATCH = 512;
const MAX_WAITING = 4_096;
/** A collector has this long to take a batch, ms, where nothing else is set. */
const TIMEOUT_MS = 10_000;
/** With these it asks to be offered the same again later (OTLP); it is, after as long as it says, within bounds. */
const LATER: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const MAX_LATER_S = 60;
/** Most that is read of what a collector says to a batch, bytes: it may have taken a part of it. */
const MAX_ANSWER_BYTES = 64 * 1024;
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
  /** How many spans are kept until they are sent, and how many of them are sent at once. */
  maxWaiting?: number | undefined;
  maxBatch?: number | undefined;
  /** What is sent is packed with gzip. */
  packed?: boolean | undefined;
  /** Who may have signed the collector's certificate, and what shows it who calls: PEM. The key is never logged. */
  tls?: { ca?: string; cert?: string; key?: string } | undefined;
};

export type TraceParts = TraceSettings & {
  version: string;
  /** Takes secrets out of text: a model is called whatever a client has written. */
  scrub(text: string): string;
  /** See {@link SpanSettings}. */
  baseUrlOf(vendor: string): string | undefined;
  /** Runs a function once after so many ms; what it returns takes that back. */
  after(ms: number, callback: () => void): () => void;
  /** Seconds until whoever answered wants to be asked again; undefined where it does not say. */
  retryAfter(headers: Headers): number | undefined;
  /** Told once when a collector begins to fail, and not again until it has taken something. */
  onFault(thrown: unknown): void;
};

/** Why a batch was not taken, or so many of its spans, and after how many ms it is worth offering it again; undefined: never. */
type Refusal = { fault: unknown; spans: number; againMs: number | undefined };

/**
 * Sends a trace of every request that costs or takes time to an OpenTelemetry collector, as OTLP over HTTP in JSON: a span for the request, and one for
 * each call to a vendor and of a tool, named by the GenAI conventions. No prompt and no answer is ever in them. What the collector cannot take now is
 * kept for it while there is room; what it does not want is lost, and counted.
 */
export class TraceExporter {
  readonly traces = true;
  #waiting: Span[] = [];
  #cancel: (() => void) | undefined;
  #sending: Promise<void> = Promise.resolve();
  #isSending = false;
  #failing = false;
  #leaving = new AbortController();
  readonly counts = { sent: 0, lost: 0 };

  readonly #maxWaiting: number;
  readonly #maxBatch: number;

  constructor(private readonly parts: TraceParts) {
    const { maxWaiting = MAX_WAITING, maxBatch = BATCH } = parts;
    this.#maxWaiting = maxWaiting;
    this.#maxBatch = Math.min(maxBatch, maxWaiting);
  }

  /** See {@link ended}. */
  refused(facts: RequestFacts): void {
    this.ended(facts);
  }

  /** Notes a request that is over. Waits for nothing. */
  ended(facts: RequestFacts): void {
    this.#take(toSpans(this.#clean(facts), this.parts));
  }

  /** The same of what is no generation. */
  worked(facts: WorkFacts): void {
    const { scrub } = this.parts;
    const { subject, upstreamModel, calls, rpc } = facts;
    const clean: WorkFacts = {
      ...facts,
      subject: scrub(subject),
      upstreamModel: upstreamModel && scrub(upstreamModel),
      calls: calls.map((call) => ({ ...call, model: scrub(call.model) })),
      rpc: rpc && { ...rpc, id: scrub(rpc.id) },
    };
    this.#take(toWorkSpans(clean, this.parts));
  }

  /** A request's own span is its first: where there is not room for all of them it is that one which is kept. */
  #take(spans: readonly Span[]): void {
    const { everyMs = EVERY_MS } = this.parts;
    const room = this.#maxWaiting - this.#waiting.length;
    this.#waiting.push(...(spans.length > room ? spans.slice(0, room) : spans));
    this.counts.lost += Math.max(0, spans.length - room);
    // Who is at it takes these along.
    if (this.#isSending || this.#waiting.length === 0) return;
    if (this.#waiting.length >= this.#maxBatch && !this.#failing) void this.flush();
    else this.#cancel ??= this.parts.after(everyMs, () => void this.flush());
  }

  #clean(facts: RequestFacts): RequestFacts {
    const { scrub } = this.parts;
    const clean = (attempt: Attempt): Attempt => ({ ...attempt, model: scrub(attempt.model) });
    const [attempts, rounds] = [facts.attempts.map(clean), facts.rounds?.map(clean)];
    const tools = facts.tools?.map((call) => ({ ...call, callId: scrub(call.callId) }));
    return { ...facts, attempts, rounds, tools, model: scrub(facts.model), upstreamModel: scrub(facts.upstreamModel) };
  }

  /** Sends what waits. Resolves when the collector has answered, or has not. */
  flush(): Promise<void> {
    this.#isSending = true;
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
    this.#forgetTimer();
    this.counts.lost += this.#waiting.splice(0).length;
    if (this.#leaving.signal.aborted) this.#leaving = new AbortController();
  }

  #forgetTimer(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    this.#forgetTimer();
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, this.#maxBatch);
      const refusal = await this.#offer(batch);
      if (refusal && !this.#failing) this.parts.onFault(refusal.fault);
      this.#failing = refusal !== undefined;
      if (refusal?.againMs !== undefined) {
        this.#cancel = this.parts.after(refusal.againMs, () => void this.flush());
        break;
      }
      this.#waiting.splice(0, batch.length);
      const lost = refusal?.spans ?? 0;
      this.counts.lost += lost;
      this.counts.sent += batch.length - lost;
    }
    this.#isSending = false;
  }

  /** Never rejects: undefined where all the spans were taken. */
  async #offer(spans: readonly Span[]): Promise<Refusal | undefined> {
    const { timeoutMs = TIMEOUT_MS, everyMs = EVERY_MS } = this.parts;
    const timeout = AbortSignal.timeout(timeoutMs);
    try {
      this.#leaving.signal.throwIfAborted();
      const response = await this.#send(spans, AbortSignal.any([timeout, this.#leaving.signal]));
      if (response.ok) return await readLeft(response, spans.length);
      await response.body?.cancel();
      const fault = new Error(`The collector of traces answered with ${response.status}.`);
      const seconds = Math.min(MAX_LATER_S, this.parts.retryAfter(response.headers) ?? 0);
      const againMs = LATER.has(response.status) ? Math.max(everyMs, 1_000 * seconds) : undefined;
      return { fault, spans: spans.length, againMs };
    } catch (fault) {
      // Whether a collector that does not answer has taken them nobody knows: it might have them twice.
      const reached = timeout.aborted || this.#leaving.signal.aborted;
      return { fault, spans: spans.length, againMs: reached ? undefined : everyMs };
    }
  }

  async #send(spans: readonly Span[], signal: AbortSignal): Promise<Response> {
    const { url, headers, serviceName, version, resource, packed, tls } = this.parts;
    const named = { "service.name": serviceName, "service.version": version, ...resource };
    const attributes = Object.entries(named).map(([key, value]) => ({ key, value: { stringValue: value } }));
    const scopeSpans = [{ scope: { name: "sluice", version }, spans }];
    const text = JSON.stringify({ resourceSpans: [{ resource: { attributes }, scopeSpans }] });
    const fixed = { "content-type": "application/json", ...(packed && { "content-encoding": "gzip" }) };
    return fetch(url, {
      method: "POST",
      headers: { "user-agent": `sluice/${version}`, ...headers, ...fixed },
      body: packed ? await pack(text) : text,
      redirect: "manual",
      proxy: false,
      signal,
      ...(tls && { tls }),
    } as RequestInit);
  }
}

/** A body as text; "" for one that is longer than a collector's answer is. */
async function readShort({ body }: Response): Promise<string> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of body ?? []) {
    size += piece.length;
    if (size > MAX_ANSWER_BYTES) return "";
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}

/** A 64-bit number, which JSON has as text. */
type PartlyTaken = { partialSuccess?: { rejectedSpans?: unknown } | null };

/** What a collector has left of a batch of `of` spans that it took: `partialSuccess` (OTLP/HTTP), which is never to be offered again. Never rejects. */
async function readLeft(response: Response, of: number): Promise<Refusal | undefined> {
  let rejected: unknown;
  try {
    const text = await readShort(response);
    if (text.includes("partialSuccess")) rejected = (JSON.parse(text) as PartlyTaken).partialSuccess?.rejectedSpans;
  } catch {
    // It has said that it took them; what else it would have said is no reason to send them twice.
  }
  const spans = Math.min(of, Number(rejected ?? 0));
  if (!(spans > 0)) return undefined;
  return { fault: new Error(`The collector of traces left out ${spans} of ${of} spans.`), spans, againMs: undefined };
}

/** Beside the event loop, and loaded when somebody wants it. */
async function pack(text: string): Promise<Uint8Array> {
  const { gzip } = await import("node:zlib");
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
  gzip(text, (fault, packed) => (fault ? reject(fault) : resolve(packed)));
  return promise;
}
