import type { Event, Finish } from "../canon/events.ts";
import { longWrite, promptTokens, sumUsage, type Usage, withLong } from "../canon/usage.ts";
import type { Clock } from "../lib/clock.ts";

/** Letters of generated text that count as one token where the vendor sent no counts. */
const LETTERS_PER_TOKEN = 4;
/** Ideographs, kana and Hangul: each is worth about as many letters as this in every vocabulary. Without it, a text of them would count a third of its tokens. */
const WIDE = /[\u2e80-\ud7ff\uff00-\uffef]/g;
const LETTERS_IN_WIDE = 3;

/** How many letters a generated text counts for. */
const lettersOf = (text: string): number => text.length + (text.match(WIDE)?.length ?? 0) * (LETTERS_IN_WIDE - 1);

/** Tokens of generated text by its length, not rounded: what is charged where the vendor sent no counts. */
export const roughOutput = (text: string): number => lettersOf(text) / LETTERS_PER_TOKEN;
/** Largest count believed: a vendor's slip must not become a bill (reliability 3.1 rule 6). */
const MAX_TOKENS = 100_000_000;

type Generated = { text: number; reasoning: number; arguments: number };

const clamp = (count: number) => (count > 0 ? Math.min(Math.floor(count), MAX_TOKENS) : 0);

const isCount = (count: number) => Number.isInteger(count) && count >= 0 && count <= MAX_TOKENS;

/** Whole counts that can be; the same object where they are so already. */
function soundUsage(usage: Usage): Usage {
  const { input, cacheRead, cacheWrite, reasoning } = usage;
  const sound = isCount(input) && isCount(cacheRead) && isCount(cacheWrite) && isCount(usage.output);
  if (sound && isCount(reasoning) && reasoning <= usage.output) return usage;
  const output = clamp(usage.output);
  const clamped = {
    input: clamp(usage.input),
    cacheRead: clamp(usage.cacheRead),
    cacheWrite: clamp(usage.cacheWrite),
    output,
    reasoning: Math.min(clamp(usage.reasoning), output),
  };
  return withLong(clamped, clamp(longWrite(usage)));
}

/** The larger output of the two: a reply that broke off had often told no more than a beginning. */
const withOutput = (usage: Usage, own: Pick<Usage, "output" | "reasoning">): Usage =>
  usage.output >= own.output ? usage : { ...usage, ...own };

/**
 * Counts, and whether one of them is the gateway's own. `rounds`: of each round, where there were several; the last `apart` of them the vendor
 * made on top of the reply.
 */
export type Metered = { usage: Usage; estimated: boolean; rounds?: readonly Usage[]; apart?: number };

/** Reads one reply's events as they pass and says what it came to. It keeps counts, never content. */
export class Meter {
  /** Why the reply ended, once it did. */
  finish: Finish | undefined;
  /** Monotonic time of the first output of any kind, ms. */
  firstTokenAt: number | undefined;
  /** Letters generated so far, by kind; a tool call's name counts among its arguments. */
  readonly generated: Generated = { text: 0, reasoning: 0, arguments: 0 };
  #kind: keyof Generated = "text";
  #usage: Usage | undefined;
  /** The vendor's last count of output is that of a beginning, and not of the whole. */
  #isBegun = false;
  /** What the vendor bills beside the round under way, and beside those before it. */
  #apart: readonly Usage[] | undefined;
  #earlierApart: readonly Usage[] | undefined;
  /** What the vendor of a further round had counted when its reading broke off before anything was shown of it. */
  counted: Usage | undefined;
  /** The client gave up while a vendor was at work on a further round: its input is paid, though nothing came of it. */
  #left = false;
  /** Of the rounds before this one, and how the input of this one is estimated. */
  #earlier: Metered[] | undefined;
  #estimateRound: (() => number) | undefined;

  constructor(
    private readonly clock: Clock,
    /** Replies that were asked for at once: of all but the first nothing is read, and they are taken to be as long. */
    public choices = 1,
  ) {}

  /** Anything was generated, visible or not: what came before may be retried, what comes after is paid for (contract 5). */
  get sawOutput(): boolean {
    return this.firstTokenAt !== undefined;
  }

  /** Takes the next events of the reply, in their order. */
  take(events: readonly Event[]): void {
    for (const event of events) {
      if (event.type === "block-delta") this.#count(this.#kind, event.text);
      else if (event.type === "block-start") this.#open(event.block);
      else if (event.type === "usage") {
        this.#usage = event.usage;
        this.#isBegun = event.begun === true;
        this.#apart = event.apart;
      } else if (event.type === "finish") this.finish = event.finish;
    }
  }

  #open(block: Extract<Event, { type: "block-start" }>["block"]): void {
    this.#kind = block.kind === "tool-call" ? "arguments" : block.kind === "reasoning" ? "reasoning" : "text";
    if (block.kind === "tool-call") this.#count("arguments", block.name);
    // The vendor's own secret has no length that tells tokens, nor has an image; it is output all the same.
    else if (block.kind !== "text" && block.kind !== "reasoning") this.#mark();
  }

  #count(kind: keyof Generated, text: string): void {
    this.generated[kind] += lettersOf(text);
    this.#mark();
  }

  #mark(): void {
    this.firstTokenAt ??= this.clock.monotonic();
  }

  /**
   * The vendor is asked once more for the same reply: what was counted stays, and what follows is counted anew and added. The two functions
   * estimate the input of the round that ends and of the one that begins.
   */
  nextRound(estimateInput: () => number, estimateNext: () => number): void {
    this.#earlier ??= [];
    this.#earlier.push(this.#roundUsage(this.#estimateRound ?? estimateInput));
    this.#estimateRound = estimateNext;
    this.#usage = undefined;
    this.#earlierApart = this.#allApart;
    this.#apart = undefined;
    this.finish = undefined;
    Object.assign(this.generated, { text: 0, reasoning: 0, arguments: 0 });
  }

  /** The vendor of the round under way has failed with nothing but counts: they are none of the reply's. */
  forgetRound(): void {
    this.#usage = undefined;
    this.#apart = undefined;
    this.counted = undefined;
  }

  /** Something was generated in the round under way, or it has ended. */
  get hasRoundBegun(): boolean {
    const { text, reasoning, arguments: given } = this.generated;
    return this.finish !== undefined || text + reasoning + given > 0;
  }

  /** The client gave up on the reply, be it by its time, while its vendor was at work on it: that is paid, as a first round is (contract 5). */
  leave(): void {
    this.#left = true;
    this.#usage ??= this.counted;
  }

  get #allApart(): readonly Usage[] | undefined {
    return this.#earlierApart ? [...this.#earlierApart, ...(this.#apart ?? [])] : this.#apart;
  }

  /** What the whole reply came to, in tokens: one round, or more where the gateway answered calls of tools itself or the vendor made some on top. */
  usage(estimateInput: () => number): Metered {
    const counted = this.#replyUsage(estimateInput);
    const apart = this.#allApart?.map(soundUsage);
    if (!apart) return counted;
    // A vendor that was told to stop behind its summary has made no reply: nothing of one is to be estimated.
    const told = this.#usage;
    const isBare = !this.#earlier && told !== undefined && promptTokens(told) + told.output === 0;
    const rounds = [...(isBare ? [] : (counted.rounds ?? [counted.usage])), ...apart];
    const usage = rounds.reduce(sumUsage);
    return { usage, estimated: counted.estimated && !isBare, rounds, apart: apart.length };
  }

  /** The same of the reply alone. */
  #replyUsage(estimateInput: () => number): Metered {
    const earlier = this.#earlier;
    if (!earlier) return this.#roundUsage(estimateInput);
    // A round of which nothing came is not charged.
    const counts = this.#usage !== undefined || this.hasRoundBegun || this.#left;
    const all = counts ? [...earlier, this.#roundUsage(this.#estimateRound ?? estimateInput)] : earlier;
    const rounds = all.map(({ usage }) => usage);
    const usage = rounds.reduce(sumUsage);
    const estimated = all.some((round) => round.estimated);
    return rounds.length > 1 ? { usage, estimated, rounds } : { usage, estimated };
  }

  /**
   * What a round came to, in tokens. The vendor's last counts where it sent any and finished. Of a reply that broke off, a vendor has
   * often said the input and no more than a beginning of the output, and some say no more of one that did not: its input is taken, and of the output the larger of its count
   * and the estimate. Without any counts: `estimateInput`, and a token for every four letters generated. `estimated` says that
   * a figure is the gateway's own (contract 5). All counts are whole, from 0 to 100,000,000.
   */
  #roundUsage(estimateInput: () => number): Metered {
    const vendor = this.#usage && soundUsage(this.#usage);
    // Some servers count the output alone: nothing is not what was asked.
    if (vendor && vendor.output > 0 && promptTokens(vendor) === 0) {
      const told = this.finish !== undefined ? vendor : withOutput(vendor, this.#estimateOutput());
      return { usage: soundUsage({ ...told, input: estimateInput() }), estimated: true };
    }
    if (vendor && this.finish !== undefined && vendor.output > 0 && !this.#isBegun)
      return { usage: vendor, estimated: false };
    const own = this.#estimateOutput();
    // Some servers send zeros where they count nothing.
    if (!vendor || promptTokens(vendor) === 0) {
      const usage = soundUsage({ input: estimateInput(), cacheRead: 0, cacheWrite: 0, ...own });
      return { usage, estimated: true };
    }
    // Others count the input alone: nothing is not what was generated.
    if (vendor.output >= own.output) return { usage: vendor, estimated: false };
    return { usage: { ...vendor, ...own }, estimated: true };
  }

  #estimateOutput(): { output: number; reasoning: number } {
    const { text, reasoning, arguments: given } = this.generated;
    const tokens = (letters: number) => clamp(Math.ceil(letters / LETTERS_PER_TOKEN) * this.choices);
    const isBegun = this.#earlier ? this.hasRoundBegun : this.sawOutput;
    const output = Math.max(tokens(text + reasoning + given), isBegun ? 1 : 0);
    return { output, reasoning: Math.min(tokens(reasoning), output) };
  }
}
