import type { Account } from "../../accounts/accounts.ts";
import type { Plan } from "../../accounts/plans.ts";
import type { AllowanceState, Book, UnitKind } from "../../ledger/book.ts";
import { toUsd } from "../../lib/usd.ts";
import type { CapState, CapStates } from "../../limits/key-spend.ts";
import { isoOrNull, toBalance } from "../usage/shape.ts";

/** A plan as the API shows it (contract 4). */
export function toPlanView(plan: Plan) {
  return {
    object: "plan" as const,
    id: plan.id,
    metered: plan.metered,
    requests_per_minute: plan.requestsPerMinute ?? null,
    concurrent_generations: plan.concurrentGenerations ?? null,
    spending_window_usd: toUsd(plan.windowNano),
    images_per_day: plan.imagesPerDay ?? null,
    image_jobs_in_flight: plan.imageJobsInFlight ?? null,
    web_calls_per_day: plan.webCallsPerDay ?? null,
    web_calls_per_minute: plan.webCallsPerMinute ?? null,
    web_calls_concurrent: plan.webCallsConcurrent ?? null,
    web_call_usd: plan.webCallNano === undefined ? null : toUsd(plan.webCallNano),
  };
}

/** An allowance without a limit is counted all the same; a limit that cannot be reached stands for it in the book. */
function toAllowance(book: Book, accountId: string, kind: UnitKind, limit: number | undefined) {
  const state: AllowanceState = book.allowance(accountId, kind, limit ?? Number.MAX_SAFE_INTEGER);
  return {
    limit: limit ?? null,
    used: state.used,
    remaining: limit === undefined ? null : state.remaining,
    resets_at: isoOrNull(state.resetsAtMs),
  };
}

function toWindow(book: Book, accountId: string, plan: Plan) {
  const window = book.window(accountId, plan.windowNano);
  if (!window) return null;
  return {
    usd: toUsd(window.grantNano),
    available_usd: toBalance(window.availableNano),
    held_usd: toUsd(window.heldNano),
    starts_at: isoOrNull(window.startedAtMs),
    ends_at: isoOrNull(window.endsAtMs),
  };
}

/** A cap as it stands; null for none. */
function toCap(state: CapState | undefined, show: (value: bigint) => number, resetsAtMs?: number) {
  if (!state) return null;
  const { cap, used, left } = state;
  return { limit: show(cap), used: show(used), remaining: show(left), resets_at: isoOrNull(resetsAtMs) };
}

/** The key that is asking, with how its caps stand; `states` is undefined for a key without. */
export function toOwnKey(id: string, states: CapStates | undefined) {
  const { dayNano, totalNano, requestsDay, dayEndsAt } = states ?? {};
  return {
    id,
    cap_day_usd: toCap(dayNano, toUsd, dayEndsAt),
    cap_total_usd: toCap(totalNano, toUsd),
    cap_requests_day: toCap(requestsDay, Number, dayEndsAt),
  };
}

/** An account as it stands: plan, wallet, window, allowances (contract 3). */
export function toAccountView(account: Account, plan: Plan, book: Book) {
  const { id } = account;
  const { postedNano, heldNano, availableNano } = book.balance(id);
  return {
    object: "account" as const,
    id,
    name: account.name,
    created: Math.floor(account.createdAt / 1_000),
    plan: toPlanView(plan),
    balance: {
      usd: toBalance(postedNano),
      held_usd: toUsd(heldNano),
      available_usd: toBalance(availableNano),
      has_deposit: book.hasDeposit(id),
    },
    window: toWindow(book, id, plan),
    allowances: {
      images: toAllowance(book, id, "image", plan.imagesPerDay),
      web: toAllowance(book, id, "web", plan.webCallsPerDay),
    },
  };
}
