import { type Figure, figure, Histogram, type Labels, type Sample } from "./figures.ts";
import { attemptOutcome, NANO_PER_USD, type RequestFacts, type RequestObserver } from "./request-facts.ts";

/** Combinations of dialect, vendor and model that are counted apart: clients can make up names of models. Further ones are counted as `other`. */
export const MAX_SERIES = 500;
/** How many of these may begin with a request that was not completed: asking for models that no vendor has must not use all of them up. */
export const MAX_UNPROVEN = 50;
/** Upper bounds of durations, seconds: from a cached answer to a long blocking one. */
const SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 95, 180, 600];
const OTHER = "other";

/** What is counted for one combination. */
type Series = {
  labels: Labels;
  outcomes: Map<string, number>;
  duration: Histogram;
  firstToken: Histogram;
  input: number;
  cacheRead: number;
  cacheWrite: number;
  output: number;
  reasoning: number;
  costUsd: number;
  /** Requests that its vendor served at the first attempt. */
  served: number;
};

/** Counts what became of requests, with a bounded set of labels. Costs one look-up and a few additions a request. */
export class RequestFigures implements RequestObserver {
  readonly traces = false;
  readonly #series = new Map<string, Series>();
  readonly #attempts = new Map<string, number>();
  readonly #errors = new Map<string, number>();
  #upstream = 0;
  #last: { asked: string; vendor: string; model: string; series: Series } | undefined;
  #unproven = 0;

  /** `scrub` takes secrets out of text: the name of a model is whatever a client has written. */
  constructor(private readonly scrub: (text: string) => string = (text) => text) {}

  /** Requests that a vendor is working on now. */
  get upstream(): number {
    return this.#upstream;
  }

  began(): void {
    this.#upstream++;
  }

  settling(): void {}

  refused(): void {}

  worked(): void {}

  told(code: string): void {
    this.#errors.set(code, (this.#errors.get(code) ?? 0) + 1);
  }

  ended(facts: RequestFacts): void {
    if (facts.tried > 0) this.#upstream--;
    const series = this.#find(facts);
    const { usage } = facts;
    if (facts.error !== undefined && facts.outcome !== "client-left") this.told(facts.error);
    series.outcomes.set(facts.outcome, (series.outcomes.get(facts.outcome) ?? 0) + 1);
    series.duration.observe(facts.durationMs / 1_000);
    if (facts.firstTokenMs !== undefined) series.firstToken.observe(facts.firstTokenMs / 1_000);
    if (usage) {
      series.input += usage.input;
      series.cacheRead += usage.cacheRead;
      series.cacheWrite += usage.cacheWrite;
      series.output += usage.output;
      series.reasoning += usage.reasoning;
    }
    if (facts.costNano !== undefined) series.costUsd += Number(facts.costNano) / NANO_PER_USD;
    for (const { vendor, outcome } of facts.attempts) this.#countAttempt(vendor, outcome);
    if (facts.attempts.length === 0 && facts.tried > 0) {
      // The only call may have failed too: once the first of its answer has come, no other vendor is asked.
      const outcome = attemptOutcome(facts.outcome, facts.error);
      if (outcome === "served" && series.labels["vendor"] === facts.vendor) series.served++;
      else this.#countAttempt(facts.vendor, outcome);
    }
  }

  /** Everything counted so far. */
  collect(): Figure[] {
    const all = [...this.#series.values()];
    const counter = (name: string, help: string, samples: Sample[]) => figure(name, "counter", help, samples);
    const histogram = (name: string, help: string, samples: Sample[]) => figure(name, "histogram", help, samples);
    return [
      counter(
        "sluice_requests_total",
        "Generations by how they ended; refused: nothing ran, nothing was charged.",
        all.flatMap(outcomeSamples),
      ),
      histogram(
        "sluice_request_duration_seconds",
        "From the request to the end of its answer.",
        all.flatMap(({ duration, labels }) => duration.samples(labels)),
      ),
      histogram(
        "sluice_time_to_first_token_seconds",
        "From the request to the first of its answer.",
        all.flatMap(({ firstToken, labels }) => firstToken.samples(labels)),
      ),
      counter("sluice_tokens_total", "Tokens by kind; reasoning is a part of output.", all.flatMap(tokenSamples)),
      counter(
        "sluice_cost_usd_total",
        "Cost at the price of its time, whoever pays.",
        all.map(({ labels, costUsd }) => ({ labels, value: costUsd })),
      ),
      counter(
        "sluice_upstream_attempts_total",
        "Attempts of generations by outcome: served, the code of an error, or how else it ended; the rounds of one reply are one.",
        toSamples(this.#allAttempts(all), ["vendor", "outcome"]),
      ),
      counter(
        "sluice_errors_total",
        "Errors that clients of generations were told, by code.",
        toSamples(this.#errors, ["code"]),
      ),
    ];
  }

  #find(facts: RequestFacts): Series {
    const { dialect, vendor, model } = facts;
    const last = this.#last;
    // Requests often come in a row with the same labels: then the key of the map need not be put together.
    if (last?.model === model && last.vendor === vendor && last.asked === dialect) return last.series;
    const known = this.#series.get(nameOf(facts));
    if (known) {
      this.#last = { asked: dialect, vendor, model, series: known };
      return known;
    }
    const shown = { ...facts, model: this.scrub(model) };
    return shown.model === model ? this.#begin(shown) : (this.#series.get(nameOf(shown)) ?? this.#begin(shown));
  }

  #begin(facts: RequestFacts): Series {
    const { dialect, vendor, model, outcome } = facts;
    const proven = outcome === "completed";
    if (this.#series.size < MAX_SERIES && (proven || this.#unproven < MAX_UNPROVEN)) {
      if (!proven) this.#unproven++;
      return this.#add(nameOf(facts), { dialect, vendor: vendor || "none", model });
    }
    const rest = nameOf({ dialect, vendor: OTHER, model: OTHER });
    return this.#series.get(rest) ?? this.#add(rest, { dialect, vendor: OTHER, model: OTHER });
  }

  #add(name: string, labels: Labels): Series {
    const counts = { served: 0, input: 0, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0, costUsd: 0 };
    const times = { duration: new Histogram(SECONDS), firstToken: new Histogram(SECONDS) };
    const series: Series = { labels, outcomes: new Map(), ...times, ...counts };
    this.#series.set(name, series);
    return series;
  }

  /** All calls to vendors by `vendor` and `outcome`, including those of requests that were served at the first attempt, which are counted by series. */
  #allAttempts(all: readonly Series[]): ReadonlyMap<string, number> {
    const attempts = new Map(this.#attempts);
    for (const { labels, served } of all) {
      if (served === 0) continue;
      const name = `${labels["vendor"]}\nserved`;
      attempts.set(name, (attempts.get(name) ?? 0) + served);
    }
    return attempts;
  }

  /** Needs no bound of its own: vendors are configured, and outcomes are few. */
  #countAttempt(vendor: string, outcome: string): void {
    const name = `${vendor}\n${outcome}`;
    this.#attempts.set(name, (this.#attempts.get(name) ?? 0) + 1);
  }
}

const nameOf = ({ dialect, vendor, model }: Pick<RequestFacts, "dialect" | "vendor" | "model">) =>
  `${dialect}\n${vendor}\n${model}`;

const outcomeSamples = ({ labels, outcomes }: Series): Sample[] =>
  [...outcomes].map(([outcome, value]) => ({ labels: { ...labels, outcome }, value }));

function tokenSamples({ labels, ...counts }: Series): Sample[] {
  const kinds = {
    input: "input",
    cacheRead: "cache_read",
    cacheWrite: "cache_write",
    output: "output",
    reasoning: "reasoning",
  } as const;
  return Object.entries(kinds).map(([field, kind]) => ({
    labels: { ...labels, kind },
    value: counts[field as keyof typeof kinds],
  }));
}

function toSamples(counts: ReadonlyMap<string, number>, names: readonly string[]): Sample[] {
  return [...counts].map(([joined, value]) => {
    const parts = joined.split("\n");
    return { labels: Object.fromEntries(names.map((name, at) => [name, parts[at] ?? ""])), value };
  });
}
