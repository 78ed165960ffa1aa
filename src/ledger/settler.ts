import { longWrite, NO_USAGE, promptTokens, sumUsage, type Usage, withLong } from "../canon/usage.ts";
import type { Clock } from "../lib/clock.ts";
import { type Entries, HOUSE } from "./entries.ts";
import { type Funds, OVERRUN_NANO } from "./funds.ts";
import type { Beside, Charge, HoldRequest, Reading, Settlement, UsageFlag } from "./ledger.ts";
import type { Legs } from "./legs.ts";
import { atLeastZero, least } from "./nano.ts";
import { costNano } from "./price.ts";
import { mostOutput, type SliceWish } from "./slice.ts";
import { toUsageRow, type UsageRows, writeFlags } from "./usage-rows.ts";

/** A vendor's input is believed up to this multiple of the model's window, its output up to the ceiling and a twentieth (reliability 3.1 rule 6). */
const INPUT_SLACK = 2;
const OUTPUT_SLACK = 1.05;
/** The window assumed for a model whose own is not known, tokens: few have more, and what a vendor miscounts is a thousand times that. */
const USUAL_WINDOW = 1_000_000;
/** Tokens that a small ceiling may be passed by: some vendors count the end of a turn. */
const OUTPUT_GRACE = 16;

/** What a settle needs of its hold. */
export type Settling = {
  request: HoldRequest;
  wish: SliceWish;
  ceiling: number | undefined;
  priceId: number;
  legs: Legs;
};

/** What is known of a request whose process died. */
export type Interrupted = { reading: Reading; createdAt: number; estimatedInput: number };

/** Where the money for a cost comes from; `loss` is the operator's. */
type Draw = { window: bigint; wallet: bigint; loss: bigint; overrun: boolean };

/** Counts that can be true: a vendor's slip must not become a bill. `suspect`: the vendor's own could not be, and were cut to these. */
export type Believed = { usage: Usage; suspect: boolean; rounds?: readonly Usage[] | undefined };

/** The calls of a vendor that a reply took, where it took several. */
type Calls = Pick<Settlement, "rounds" | "apart">;

/** What can be believed of a paid request: no more output than it was given money for. */
export function clampUsage(
  usage: Usage,
  { ceiling, wish }: Pick<Settling, "ceiling" | "wish">,
  calls: Calls = {},
): Believed {
  const { contextLength = Math.max(USUAL_WINDOW, Math.ceil(wish.estimatedInput)) } = wish.payment;
  const { choices = 1 } = wish;
  const asked = Math.min((ceiling ?? Number.POSITIVE_INFINITY) * choices, mostOutput(wish));
  return clampRounds(usage, calls, contextLength, asked, choices);
}

/**
 * {@link clampCounts} of a reply that may have taken several calls: each has the whole window, and what was asked for is for all of them
 * together, but for those that the vendor made on top.
 */
export function clampRounds(
  usage: Usage,
  { rounds, apart = 0 }: Calls,
  contextLength: number,
  asked: number,
  choices = 1,
): Believed {
  if (!rounds) return clampCounts(usage, contextLength, asked, choices);
  let left = asked;
  let suspect = false;
  const own = rounds.length - apart;
  const believed = rounds.map((round, at) => {
    const clamped = clampCounts(round, contextLength, at < own ? left : Number.POSITIVE_INFINITY, choices);
    left = Math.max(0, left - clamped.usage.output);
    suspect ||= clamped.suspect;
    return clamped.usage;
  });
  return { usage: believed.reduce(sumUsage), rounds: believed, suspect };
}

/** What can be believed of so many replies from a model with this window, of which at most `asked` tokens of output in all were asked for. */
function clampCounts(usage: Usage, contextLength: number, asked: number, choices: number): Believed {
  const told = Math.min(asked, contextLength * choices);
  const mostOut = Math.max(Math.floor(told * OUTPUT_SLACK), told + OUTPUT_GRACE * choices);
  const mostIn = contextLength * INPUT_SLACK;
  const fits = usage.output <= mostOut && promptTokens(usage) <= mostIn;
  if (fits) return { usage, suspect: false };
  const cacheRead = Math.min(usage.cacheRead, mostIn);
  const cacheWrite = Math.min(usage.cacheWrite, mostIn - cacheRead);
  const input = Math.min(usage.input, mostIn - cacheRead - cacheWrite);
  const output = Math.min(usage.output, mostOut);
  const clamped = { input, cacheRead, cacheWrite, output, reasoning: Math.min(usage.reasoning, output) };
  return { usage: withLong(clamped, longWrite(usage)), suspect: true };
}

/** Books what a paid request came to. All of it runs inside one operation of the writer. */
export class Settler {
  constructor(
    private readonly rows: UsageRows,
    private readonly entries: Entries,
    private readonly funds: Funds,
    private readonly clock: Clock,
  ) {}

  /**
   * Writes the usage row, the transfers, and what stands beside them; the last thing its operation does. Throws SQLite's error when the request was settled
   * before; then nothing is written.
   */
  book(settling: Settling, settlement: Settlement, beside?: Beside): Charge {
    const { request, wish, priceId, legs } = settling;
    const { usage, suspect, rounds } = clampUsage(settlement.usage, settling, settlement);
    const cost = costNano(usage, wish.prices, rounds);
    const draw = this.#draw(legs, cost);
    const flags: UsageFlag[] = [];
    if (draw.overrun) flags.push("overrun");
    if (suspect) flags.push("usage_suspect");
    if (settlement.ranOut) flags.push("balance");
    const atMs = this.clock.now();
    const chargedNano = draw.window + draw.wallet;
    const billing = { priceId, costNano: cost, chargedNano, flags: flags.length === 0 ? 0 : writeFlags(flags) };
    const row = toUsageRow(request, suspect ? { ...settlement, usage } : settlement, atMs, billing);
    this.rows.insert(row);
    if (rounds) this.rows.keepRounds(request.requestId, usage, rounds, wish.prices);
    // An account that lives on its plan's window alone has no wallet until it goes beyond.
    if (draw.overrun) this.funds.openWallet(request.accountId);
    const kind = settlement.outcome === "completed" ? "usage" : "usage_partial";
    const { requestId, accountId: owner } = request;
    const post = (debit: string, amountNano: bigint) => {
      if (amountNano > 0n)
        this.entries.append({ atMs, kind, debit, credit: HOUSE.revenue, amountNano, owner, requestId });
    };
    if (legs.windowId) post(legs.windowId, draw.window);
    post(legs.walletId, draw.wallet);
    if (draw.loss > 0n) {
      const loss = { kind: "writeoff", debit: HOUSE.loss, credit: HOUSE.revenue, amountNano: draw.loss } as const;
      this.entries.append({ atMs, ...loss, owner, requestId });
    }
    beside?.(cost);
    this.rows.count(row);
    const charge = { costNano: cost, chargedNano, metered: true };
    return flags.length === 0 ? charge : { ...charge, flags, ...(suspect && { believed: usage }) };
  }

  /** What a request is settled by whose process died in the middle of it: its input, and the output that was told of. */
  interruption({ reading, createdAt, estimatedInput }: Interrupted): Settlement {
    const { vendor, upstreamModel, output } = reading;
    const usage = { ...NO_USAGE, input: Math.ceil(estimatedInput), output };
    const durationMs = Math.max(0, this.clock.now() - createdAt);
    return { outcome: "interrupted", vendor, upstreamModel, usage, estimated: true, attempts: 1, durationMs };
  }

  /** Books what a request may have cost of which nobody knows whether anything was delivered: the operator's loss. Inside an operation of the writer. */
  writeOff({ request, wish }: Settling): void {
    const amountNano = costNano({ ...NO_USAGE, input: Math.ceil(wish.estimatedInput) }, wish.prices);
    if (amountNano === 0n) return;
    const { requestId, accountId: owner } = request;
    const detail = "the process died that was serving this request";
    const loss = { kind: "writeoff", debit: HOUSE.loss, credit: HOUSE.vendor, amountNano } as const;
    this.entries.append({ atMs: this.clock.now(), ...loss, owner, requestId, detail });
  }

  /**
   * The window first (contract 5): what is held of it, then what others hold no longer, since a wallet's leg says only that the window was all held when the
   * request came. Then the wallet's leg. A cost beyond what is held takes the wallet down to {@link OVERRUN_NANO} below zero; what other requests
   * hold is never touched before that. What is held is not there where another process has just corrected the wallet.
   */
  #draw(legs: Legs, cost: bigint): Draw {
    // The window is looked at only where its leg is too short: most are not.
    const window = cost <= legs.windowNano ? cost : least(cost, legs.windowNano + legs.windowFree());
    const due = cost - window;
    const held = least(due, legs.walletNano);
    const more = due === held ? 0n : least(due - held, atLeastZero(this.funds.free(legs.walletId) + OVERRUN_NANO));
    const wallet = due === 0n ? 0n : least(held + more, this.funds.chargeable(legs.walletId));
    const overrun = cost > legs.windowNano + legs.walletNano;
    return { window, wallet, loss: due - wallet, overrun };
  }
}
