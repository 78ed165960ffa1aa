import { longWrite, promptTokens, sumUsage, type Usage } from "../../canon/usage.ts";
import type { Receipt } from "../../ledger/book.ts";
import { formatUsd, fullRates, PICO_PER_NANO, type Rates, ratesFor } from "../../ledger/price.ts";
import type { Totals } from "../../ledger/rollup.ts";
import type { ReportRow } from "../../ledger/usage-report.ts";
import type { UsageRow } from "../../ledger/usage-rows.ts";
import { toUsd } from "../../lib/usd.ts";
import { type Attempt, attemptOutcome } from "../../observe/request-facts.ts";

const MICRO_PER_USD = 1_000_000;

/** Nano-USD as a number of USD with 6 decimals, rounded down: how balances are shown (reliability 3.1 rule 4). */
export function toBalance(nano: bigint): number {
  const micro = nano >= 0n ? nano / 1_000n : -((-nano + 999n) / 1_000n);
  return Number(micro) / MICRO_PER_USD;
}

/** Pico-USD as USD with all twelve decimals. */
function formatPico(pico: bigint): string {
  const digits = pico.toString().padStart(13, "0");
  return `${digits.slice(0, -12)}.${digits.slice(-12)}`;
}

/** A time (Unix ms) in ISO 8601, UTC. */
export const toIso = (atMs: number): string => new Date(atMs).toISOString();

/** {@link toIso}; null where it has not happened. */
export const isoOrNull = (atMs: number | null | undefined) => (atMs == null ? null : toIso(atMs));

const toTokens = (row: Pick<Totals, "input" | "cacheRead" | "cacheWrite" | "output" | "reasoning" | "units">) => ({
  input_tokens: row.input,
  cache_read_tokens: row.cacheRead,
  cache_write_tokens: row.cacheWrite,
  output_tokens: row.output,
  reasoning_tokens: row.reasoning,
  units: row.units,
});

/** A request as the API shows it (contract 3). `Money`: how amounts are written, numbers on pages and exact text in exports. */
export function toEntry<Money>(row: UsageRow, money: (nano: bigint) => Money) {
  return {
    object: "usage" as const,
    request_id: row.requestId,
    at: toIso(row.atMs),
    account: row.accountId,
    key: row.keyId,
    dialect: row.dialect,
    stream: row.stream,
    model: row.model,
    vendor: row.vendor,
    upstream_model: row.upstreamModel,
    outcome: row.outcome,
    finish_reason: row.finish,
    error: row.error,
    attempts: row.attempts,
    ...toTokens(row),
    estimated: row.estimated,
    cost_usd: row.costNano === null ? null : money(row.costNano),
    charged_usd: money(row.chargedNano),
    duration_ms: row.durationMs,
    first_token_ms: row.firstTokenMs,
    cache_write_1h_tokens: row.cacheWriteLong,
  };
}

/** A group as the API shows it. */
export function toGroup<Money>(row: ReportRow, money: (nano: bigint) => Money) {
  return {
    object: "usage.group" as const,
    group: row.group,
    name: row.label,
    requests: row.requests,
    estimated_requests: row.estimated,
    unpriced_requests: row.unpriced,
    ...toTokens(row),
    cost_usd: money(row.costNano),
    charged_usd: money(row.chargedNano),
  };
}

/** Micro-USD per million tokens, which is pico-USD a token, as USD per million. */
const perMillion = (micro: bigint) => Number(micro) / MICRO_PER_USD;

function priceView(rates: Rates, sinceMs: number) {
  const { input, output, cacheRead, cacheWrite, cacheWriteLong } = fullRates(rates);
  return {
    currency: "USD" as const,
    unit: "per_1m_tokens" as const,
    since: toIso(sinceMs),
    input: perMillion(input),
    output: perMillion(output),
    cache_read: perMillion(cacheRead),
    cache_write: perMillion(cacheWrite),
    ...(rates.cacheWriteLong !== undefined && { cache_write_1h: perMillion(cacheWriteLong) }),
  };
}

/** What was counted at each rate: all of it at one, unless a reply took several calls and the rate goes by the length of a prompt. */
function countByRates({ usage, rounds = [usage], price }: Receipt): { usage: Usage; rates: Rates | undefined }[] {
  const counted = new Map<Rates | undefined, Usage>();
  for (const round of rounds) {
    const rates = price && ratesFor(price.prices, promptTokens(round));
    const before = counted.get(rates);
    counted.set(rates, before ? sumUsage(before, round) : round);
  }
  return [...counted].map(([rates, usage]) => ({ usage, rates }));
}

function tokenLines(usage: Usage, rates: Rates | undefined) {
  const line = (bucket: string, count: number, price: bigint | undefined) => ({
    bucket,
    count,
    usd_per_1m: price === undefined ? null : perMillion(price),
    usd: price === undefined ? null : formatPico(BigInt(count) * price),
  });
  const full = rates && fullRates(rates);
  const long = longWrite(usage);
  return [
    line("input", usage.input, full?.input),
    line("cache_read", usage.cacheRead, full?.cacheRead),
    line("cache_write", usage.cacheWrite - long, full?.cacheWrite),
    ...(long > 0 ? [line("cache_write_1h", long, full?.cacheWriteLong)] : []),
    line("output", usage.output, full?.output),
  ];
}

/** Units have no price of their own in the receipt: those of the allowance are free, and what the others cost is their sum. */
const unitLines = ({ units, costNano }: UsageRow) => [
  { bucket: "units", count: units, usd_per_1m: null, usd: formatPico((costNano ?? 0n) * PICO_PER_NANO) },
];

/** The calls to vendors that a request took: those that were kept, or the only one. */
function attemptLines(row: UsageRow, kept: readonly Attempt[]) {
  const line = ({ vendor, model, outcome, ms }: Omit<Attempt, "key" | "at">) => ({
    vendor,
    upstream_model: model,
    outcome,
    duration_ms: ms,
  });
  if (kept.length > 0) return kept.map((attempt) => ({ ...line(attempt), key: attempt.key + 1 }));
  if (row.attempts !== 1) return [];
  const { vendor, upstreamModel: model, outcome, error, durationMs: ms } = row;
  return [line({ vendor, model, outcome: attemptOutcome(outcome, error), ms })];
}

/** One request's receipt: who served it, what was counted, at which price, and who paid (contract 3). */
export function toReceipt(receipt: Receipt, attempts: readonly Attempt[]) {
  const { row, price, legs, flags } = receipt;
  const counted = countByRates(receipt);
  const rates = counted.at(-1)?.rates;
  return {
    ...toEntry(row, toUsd),
    object: "usage.receipt" as const,
    attempt_list: attemptLines(row, attempts),
    price: price && rates ? priceView(rates, price.sinceMs) : null,
    lines: row.units > 0 ? unitLines(row) : counted.flatMap((some) => tokenLines(some.usage, some.rates)),
    cost: row.costNano === null ? null : formatUsd(row.costNano),
    charged: formatUsd(row.chargedNano),
    paid_from: legs.map(({ from, amountNano }) => ({ from, usd: formatUsd(amountNano) })),
    flags,
  };
}
