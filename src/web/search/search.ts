import { GatewayError, invalidField } from "../../canon/errors.ts";
import type { Clock } from "../../lib/clock.ts";
import { sleep } from "../../lib/signals.ts";
import type { Log } from "../../observe/log.ts";
import { limit } from "../safe-fetch/time.ts";
import { askEngine, EngineFault } from "./ask.ts";
import { brave } from "./brave.ts";
import { Breaker } from "./breaker.ts";
import type { SearchEngine, SearchEngineId, UnmetFilter } from "./engine.ts";
import { exa } from "./exa.ts";
import { answerFixture } from "./fixture.ts";
import { perplexity } from "./perplexity.ts";
import type { SearchQuery, SearchResult } from "./query.ts";
import { refineResults } from "./results.ts";
import { searxng } from "./searxng.ts";
import { serper } from "./serper.ts";
import { SearchShelf } from "./shelf.ts";
import { tavily } from "./tavily.ts";

/** The engines of the network, in the order of contract 9. */
export const ENGINES: readonly SearchEngine[] = [brave, tavily, exa, perplexity, serper, searxng];

/** An engine that is switched on. `baseUrl`: its address, where that is not the engine's usual one; without a slash at the end. */
export type SearchSource = { engine: SearchEngineId; apiKey?: string; baseUrl?: string };

/** How long a whole search may take, over all engines that are tried, milliseconds (web-and-mcp.md B3). */
export const SEARCH_DEADLINE_MS = 20_000;
/** By this factor more results are asked for where some may be filtered out. */
const SURPLUS = 2;
/** How long an engine that refuses its key is not called, milliseconds: only the operator can help. */
const AUTH_PAUSE_MS = 5 * 60_000;
/** How long an engine that is overloaded or used up is not called, where it does not say how long, milliseconds. */
const BUSY_PAUSE_MS = 60_000;

/** The longest pause of an engine that a search waits for, milliseconds: some take one call a second, and models search for several things at once. */
const SHORT_REST_MS = 2_000;
/** How often one search waits. */
const MAX_WAITS = 4;

/** What a search found, and by which engine. `notes`: sentences for the client on filters that the engine could not be given. */
export type SearchAnswer = {
  engine: SearchEngineId;
  results: readonly SearchResult[];
  notes: readonly string[];
  /** How many engines were called. */
  attempts: number;
  cached: boolean;
};

export type SearchSettings = { clock: Clock; log: Log; userAgent: string; sources: readonly SearchSource[] };

const NOTES: Readonly<Record<UnmetFilter, string>> = {
  recency: "The search engine takes the recency filter only roughly: results without a date may be older.",
  country: "The search engine could not be told the country exactly: results may be from elsewhere.",
  length: "The search engine takes 50 words: the query's first ones were searched for.",
};

const NONE = "No search engine is configured on this gateway. Its operator can set a key, such as BRAVE_API_KEY.";

const PARTIAL =
  "Some of the services that the search engine asks did not answer it: there may be results all the same.";

type Found = Omit<SearchAnswer, "cached" | "attempts">;
/** `partial`: there are no results, and the reason may be a failure of those that the engine itself asks. */
type Tried = Found & { partial: boolean };

/** The state of a search so far. */
type Tally = { attempts: number; refused: boolean; empty: Found | undefined };

/**
 * Searches the web with the engines that are switched on, in their order: where one fails, the next is called, and one that keeps failing is
 * not called for a while (web-and-mcp.md B3).
 */
export class WebSearch {
  readonly #breaker: Breaker;
  readonly #shelf: SearchShelf<Found>;

  constructor(private readonly settings: SearchSettings) {
    this.#breaker = new Breaker(settings.clock);
    this.#shelf = new SearchShelf(settings.clock);
  }

  /**
   * Throws GatewayError: vendor_not_configured without engines; upstream_overloaded, with the time to wait, when all are overloaded or used up;
   * upstream_error when none answers. Throws the signal's reason once that is aborted.
   */
  async search(query: SearchQuery, signal: AbortSignal): Promise<SearchAnswer> {
    const { sources, clock } = this.settings;
    if (sources.length === 0) throw new GatewayError("vendor_not_configured", NONE);
    const kept = this.#shelf.get(query);
    if (kept) return { ...kept, attempts: 0, cached: true };
    const patience = limit(clock, SEARCH_DEADLINE_MS, "it took too long", signal);
    const tally: Tally = { attempts: 0, refused: false, empty: undefined };
    try {
      let asked = sources;
      for (let waits = 0; ; waits++) {
        const found = await this.#askInTurn(asked, query, tally, { signal: patience.signal, callers: signal });
        if (found) {
          this.#shelf.put(query, found);
          return { ...found, attempts: tally.attempts, cached: false };
        }
        asked = sources.filter(({ engine }) => this.#breaker.isResting(engine));
        if (tally.refused || tally.empty || asked.length === 0 || waits === MAX_WAITS) break;
        const restMs = Math.min(...asked.map(({ engine }) => this.#breaker.restOf(engine)));
        if (restMs > 0) await sleep(clock, restMs, patience.signal);
      }
    } finally {
      patience.end();
    }
    signal.throwIfAborted();
    // An answer that may be incomplete is used where no other engine answers; it is not kept, so that the next search asks again.
    if (tally.empty) return { ...tally.empty, attempts: tally.attempts, cached: false };
    throw this.#giveUp(tally.refused);
  }

  /** One engine after the other, until one has an answer; undefined where none has. Throws the caller's own reason. */
  async #askInTurn(
    sources: readonly SearchSource[],
    query: SearchQuery,
    tally: Tally,
    { signal, callers }: { signal: AbortSignal; callers: AbortSignal },
  ): Promise<Found | undefined> {
    for (const source of sources) {
      if (signal.aborted) return undefined;
      if (!this.#breaker.admits(source.engine)) continue;
      tally.attempts++;
      const tried = await this.#try(source, query, signal, callers);
      if (tried instanceof EngineFault) {
        tally.refused ||= tried.kind === "refused";
        continue;
      }
      const { partial, ...found } = tried;
      if (!partial) return found;
      tally.empty ??= { ...found, notes: [...found.notes, PARTIAL] };
    }
    return undefined;
  }

  /** One engine: what it found, or why it found nothing. Throws the caller's own reason. */
  async #try(
    source: SearchSource,
    query: SearchQuery,
    signal: AbortSignal,
    callers: AbortSignal,
  ): Promise<Tried | EngineFault> {
    const { engine } = source;
    try {
      const found = await this.#ask(source, query, signal);
      this.#breaker.succeeded(engine);
      return found;
    } catch (thrown) {
      if (callers.aborted) {
        this.#breaker.undecided(engine);
        callers.throwIfAborted();
      }
      const fault =
        thrown instanceof EngineFault ? thrown : new EngineFault("broken", String(thrown), undefined, thrown);
      this.settings.log.warn("web-search", { engine, kind: fault.kind, reason: fault.message });
      // That an engine refuses a query is no failure of the engine.
      if (fault.kind === "refused") this.#breaker.undecided(engine);
      else if (isShortRest(fault)) this.#breaker.rests(engine, fault.pauseMs);
      else this.#breaker.failed(engine, pauseOf(fault));
      return fault;
    }
  }

  async #ask(source: SearchSource, query: SearchQuery, signal: AbortSignal): Promise<Tried> {
    const { clock, userAgent } = this.settings;
    const now = clock.now();
    const row = ENGINES.find(({ id }) => id === source.engine);
    if (!row) {
      const results = refineResults(answerFixture(query, now), query, now);
      return { engine: source.engine, results, notes: [], partial: false };
    }
    const narrows = query.include.length + query.exclude.length > 0 || query.recency !== undefined;
    const count = Math.min(row.most, narrows ? query.maxResults * SURPLUS : query.maxResults);
    const baseUrl = source.baseUrl ?? row.baseUrl ?? "";
    const call = row.toCall(query, { baseUrl, apiKey: source.apiKey, count, now });
    const answer = await askEngine(call, row, { clock, userAgent }, signal);
    const raw = row.read(answer);
    // Such an answer, of whatever server, does not show that there are no results.
    if (!raw) throw new EngineFault("broken", "its answer has no list of results");
    const results = refineResults(raw, query, now);
    const partial = results.length === 0 && (row.isPartial?.(answer) ?? false);
    return { engine: row.id, results, notes: call.unmet.map((filter) => NOTES[filter]), partial };
  }

  #giveUp(refused: boolean): GatewayError {
    if (refused) {
      return invalidField("query", "The search engine does not take this query.");
    }
    const waits = this.settings.sources.map(({ engine }) => this.#breaker.waitOf(engine));
    const least = Math.min(...waits);
    if (least === 0) return new GatewayError("upstream_error", "The search engine did not answer. Try again.");
    const seconds = Math.ceil(least / 1_000);
    const text = `No search engine is to be had at the moment. Try again in ${seconds} seconds.`;
    return new GatewayError("upstream_overloaded", text, { retryAfterSeconds: seconds });
  }
}

/** Whether an engine takes no more calls for a moment, and says for how long. */
const isShortRest = (fault: EngineFault): fault is EngineFault & { pauseMs: number } =>
  fault.kind === "busy" && fault.pauseMs !== undefined && fault.pauseMs <= SHORT_REST_MS;

/** How long an engine is not called after this one failure, milliseconds; undefined: only after several. */
function pauseOf({ kind, pauseMs }: EngineFault): number | undefined {
  if (kind === "auth") return AUTH_PAUSE_MS;
  if (kind === "busy") return pauseMs ?? BUSY_PAUSE_MS;
  return pauseMs;
}
