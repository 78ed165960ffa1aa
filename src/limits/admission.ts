import { GatewayError } from "../canon/errors.ts";
import { type Figure, single } from "../observe/figures.ts";

/** A look at the event loop that came later than this is a late one; one within the other bound a calm one, ms (reliability 4). */
const LATE_MS = 50;
const CALM_MS = 10;
/** What is judged together, ms. It is a late second when the lag of its late looks made up so much of it. */
const WINDOW_MS = 1_000;
const LATE_PART = 0.1;
/** Late seconds in a row before anybody is turned away: thousands of streams that begin at once are no overload, and pass. */
const LATE_SECONDS = 5;
/** The bound when the loop first lags, for each processor; what it is cut to at each further second of lag; and the least it comes to. */
const START_PER_CORE = 64;
const CUT = 0.9;
const FLOOR = 8;
/** Parts of the memory beyond which no new streams, and no new requests, are taken (reliability 4). */
const STREAMS_UNTIL = 0.85;
const REQUESTS_UNTIL = 0.95;
/** What a refused client is told to wait, seconds. */
const WAIT_SECONDS = 1;

export type AdmissionParts = {
  cores: number;
  /** What this process may use, bytes. */
  memoryBytes: number;
  /** What it uses, bytes. Asked about once a second. */
  readMemory(): number;
  /** Generations that are under way. */
  running(): number;
  /** The store takes no writes at the moment: what a request comes to could not be written down. */
  storeFails?(): boolean;
};

const OVERLOADED = "The gateway has more to do than it can. Try again in a moment.";
const NO_STORE = "The gateway cannot write its books at the moment. Try again in a moment.";
const NO_MEMORY = "The gateway is short of memory. Try again in a moment.";

/**
 * Who is let in while there is too much to do (reliability 4, the adaptive part): asked before anything is done for a request, even its key. As
 * long as the event loop keeps up there is no bound; when it goes on lagging, the number of generations under way is bounded, a tenth lower each second,
 * until it keeps up again. Polls, health, reads and whatever is under way never come here: what they need is theirs.
 */
export class Admission {
  /** Generations that may be under way; infinite while the loop keeps up. */
  limit = Number.POSITIVE_INFINITY;
  readonly shed = { load: 0, memory: 0, store: 0 };
  #elapsedMs = 0;
  #lateMs = 0;
  #calmMs = 0;
  #lateSeconds = 0;
  #shedBefore = 0;
  #memory: "free" | "tight" | "full" = "free";

  constructor(private readonly parts: AdmissionParts) {}

  /** Throws GatewayError (upstream_overloaded: 503, or 529 in the messages dialect) when a new request cannot be taken. */
  check(): void {
    if (this.#memory === "full") this.#refuse("memory", NO_MEMORY);
    this.checkStore();
    if (this.limit !== Number.POSITIVE_INFINITY && this.parts.running() >= this.limit) this.#refuse("load", OVERLOADED);
  }

  /** Throws GatewayError when what a request came to could not be written down. */
  checkStore(): void {
    if (this.parts.storeFails?.()) this.#refuse("store", NO_STORE);
  }

  /** {@link check} for a request that turns out to be for a stream, which holds memory for minutes. */
  checkStream(): void {
    if (this.#memory !== "free") this.#refuse("memory", NO_MEMORY);
  }

  /** A look at the event loop came `lagMs` after its time, which was `everyMs` after the one before. */
  look(lagMs: number, everyMs: number): void {
    const ms = lagMs + everyMs;
    this.#elapsedMs += ms;
    if (lagMs > LATE_MS) this.#lateMs += lagMs;
    else if (lagMs < CALM_MS) this.#calmMs += ms;
    if (this.#elapsedMs < WINDOW_MS) return;
    this.#judge();
    this.#elapsedMs = 0;
    this.#lateMs = 0;
    this.#calmMs = 0;
  }

  /** How it stands, for the operator. */
  collect(): Figure[] {
    return [
      single(
        "sluice_admission_limit",
        "gauge",
        "Generations that may be under way now; +Inf while there is no bound.",
        this.limit,
      ),
      {
        ...{
          name: "sluice_shed_total",
          type: "counter",
          help: "Requests that were refused before anything was done for them.",
        },
        samples: [
          { labels: { reason: "load" }, value: this.shed.load },
          { labels: { reason: "memory" }, value: this.shed.memory },
          { labels: { reason: "store" }, value: this.shed.store },
        ],
      },
    ];
  }

  #judge(): void {
    const { running, cores, memoryBytes, readMemory } = this.parts;
    const used = readMemory() / memoryBytes;
    this.#memory = used > REQUESTS_UNTIL ? "full" : used > STREAMS_UNTIL ? "tight" : "free";
    const refused = this.shed.load - this.#shedBefore;
    this.#shedBefore = this.shed.load;
    const late = this.#lateMs > this.#elapsedMs * LATE_PART;
    this.#lateSeconds = late ? this.#lateSeconds + 1 : 0;
    const bounded = this.limit !== Number.POSITIVE_INFINITY;
    if (late && (bounded || this.#lateSeconds >= LATE_SECONDS)) {
      const bound = Math.min(this.limit, Math.max(running(), START_PER_CORE * cores));
      this.limit = Math.max(FLOOR, Math.floor(bound * CUT));
    } else if (bounded && this.#calmMs > this.#elapsedMs / 2) {
      // A bound that turns nobody away is none any more.
      this.limit = refused === 0 ? Number.POSITIVE_INFINITY : this.limit + 1;
    }
  }

  #refuse(reason: "load" | "memory" | "store", text: string): never {
    this.shed[reason]++;
    throw new GatewayError("upstream_overloaded", text, { retryAfterSeconds: WAIT_SECONDS });
  }
}

/** What this process may use of its machine, bytes: its container's bound where there is one, else what is there. */
export function memoryBound(constrained: number | undefined, total: number): number {
  return constrained !== undefined && constrained > 0 && constrained < total ? constrained : total;
}
