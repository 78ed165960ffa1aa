import type { Attempt, RequestFacts, WorkFacts } from "./request-facts.ts";
import { type Sampling, type Span, toSpans, toWorkSpans } from "./spans.ts";

/** How often spans are sent, ms, where nothing else is set. */
const EVERY_MS = 5_000;
/** Most spans of one batch, and most that wait to be sent, where nothing else is set; further ones are counted and left out. */
const BATCH = 512;
const MAX_WAITING = 4_096;
/** A collector has this long to take a batch, ms, where nothing else is set. */
const TIMEOUT_MS = 10_000;
/** Statuses with which a collector asks for the same batch again later (OTLP). It is sent again after the time that it names, this many seconds at most. */
const LATER: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const MAX_LATER_S = 60;
/** Most that is read of a collector's answer, which says whether it took a part of the batch only, bytes. */
const MAX_ANSWER_BYTES = 64 * 1024;
/** How long it has to take all that is left when the process ends, ms: a restart must not wait for it. */
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
  /** How long a collector has to take a batch, and how often spans are sent, ms. */
  timeoutMs?: number | undefined;
  everyMs?: number | undefined;
  /** Most spans that wait to be sent, and most of one batch. */
  maxWaiting?: number | undefined;
  maxBatch?: number | undefined;
  /** Whether batches are packed with gzip. */
  packed?: boolean | undefined;
  /** The authority of the collector's certificate, and the client certificate with its key, all PEM. The key is never logged. */
  tls?: { ca?: string; cert?: string; key?: string } | undefined;
};

export type TraceParts = TraceSettings & {
  version: string;
  /** Takes secrets out of text: the name of a model is whatever a client has written. */
  scrub(text: string): string;
  /** See {@link SpanSettings}. */
  baseUrlOf(vendor: string): string | undefined;
  /** Runs a function once after so many ms; the returned function cancels that. */
  after(ms: number, callback: () => void): () => void;
  /** How many seconds an answer's headers ask to wait before the next try; undefined where they do not say. */
  retryAfter(headers: Headers): number | undefined;
  /** Called once when the collector begins to fail, and not again before it has taken a batch whole. */
  onFault(thrown: unknown): void;
};

/** Why a batch, or `spans` of it, was not taken. `againMs`: after how many ms the whole batch is to be offered again; undefined: never. */
type Refusal = { fault: unknown; spans: number; againMs: number | undefined };

/**
 * Sends a trace of every request that costs or takes time to an OpenTelemetry collector, as OTLP over HTTP in JSON: a span for the request, and one for
 * each call to a vendor and of a tool, named by the GenAI conventions. No prompt and no answer is ever in them. Spans that the collector asks for again
 * later, or that did not reach it, wait while there is room; those that it refuses are lost, and counted.
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

  /** {@link ended} for a request other than a generation. */
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

  /** Keeps spans to be sent, as far as there is room: from the first on, which is the request's own. */
  #take(spans: readonly Span[]): void {
    const { everyMs = EVERY_MS } = this.parts;
    const room = this.#maxWaiting - this.#waiting.length;
    this.#waiting.push(...(spans.length > room ? spans.slice(0, room) : spans));
    this.counts.lost += Math.max(0, spans.length - room);
    // The sending that is under way takes these along.
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

  /** Sends what waits. Resolves when all of it was taken, lost, or is to be offered again later. Never rejects. */
  flush(): Promise<void> {
    this.#isSending = true;
    this.#sending = this.#sending.then(() => this.#sendAll());
    return this.#sending;
  }

  /** Flushes for the last time, for {@link CLOSE_MS} at the most. What is not taken by then is lost, and counted. */
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

  /** Sends one batch. Resolves with undefined when all of it was taken; never rejects. */
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
    } catch (cause) {
      // What the network says by itself does not tell an operator whom it was about.
      const fault = new Error("The traces could not be given to their collector.", { cause });
      // A collector that did not answer in time may have taken them: offered again, they could be there twice.
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

/** A body as text; "" for one of more than {@link MAX_ANSWER_BYTES}. */
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

/** A collector's answer to a batch that it took in part. `rejectedSpans` is a 64-bit number, which OTLP writes as text in JSON. */
type PartlyTaken = { partialSuccess?: { rejectedSpans?: unknown } | null };

/**
 * Of a batch of `of` spans that a collector took: why and how many of them it rejected (OTLP/HTTP: `partialSuccess`), which are never to be offered
 * again; undefined where it took all. Never rejects.
 */
async function readLeft(response: Response, of: number): Promise<Refusal | undefined> {
  let rejected: unknown;
  try {
    const text = await readShort(response);
    if (text.includes("partialSuccess")) rejected = (JSON.parse(text) as PartlyTaken).partialSuccess?.rejectedSpans;
  } catch {
    // Its status says that it took them. An answer that cannot be read is no reason to send them twice.
  }
  const spans = Math.min(of, Number(rejected ?? 0));
  if (!(spans > 0)) return undefined;
  return { fault: new Error(`The collector of traces left out ${spans} of ${of} spans.`), spans, againMs: undefined };
}

/** Packs a text with gzip, on a thread beside the event loop. zlib is loaded only when it is first needed. */
async function pack(text: string): Promise<Uint8Array> {
  const { gzip } = await import("node:zlib");
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
  gzip(text, (fault, packed) => (fault ? reject(fault) : resolve(packed)));
  return promise;
}
