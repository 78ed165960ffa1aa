import { Type } from "@sinclair/typebox";
import { late, Nullable, Open } from "./open.ts";

const limit = (description: string) => Nullable(Type.Integer(), `${description}; null: no limit.`);
/** A time, or null where there is none. */
export const time = (description: string) => Nullable(Type.String(), `${description}, ISO 8601, UTC.`);

/** What a plan allows (contract 4). */
export const PlanView = late(() =>
  Open(
    {
      object: Type.Literal("plan"),
      id: Type.String(),
      metered: Type.Boolean({ description: "False: everything is counted and nothing is charged." }),
      requests_per_minute: limit("Chat, messages and responses requests"),
      concurrent_generations: limit("Generations at the same time"),
      spending_window_usd: Type.Number({ description: "USD that the plan itself pays in each window of 5 hours." }),
      images_per_day: limit("Free images in any 24 hours"),
      image_jobs_in_flight: limit("Image jobs at the same time"),
      web_calls_per_day: limit("Web calls in a UTC day"),
      web_calls_per_minute: limit("Web calls in a minute"),
      web_calls_concurrent: limit("Web calls at the same time"),
      web_call_usd: Nullable(Type.Number(), "USD for a web call beyond the day's; null: there are no more."),
    },
    { title: "Plan" },
  ),
);

/** An allowance as it stands. */
const Allowance = late(() =>
  Open({
    limit: limit("How many there are"),
    used: Type.Integer(),
    remaining: limit("How many are left"),
    resets_at: time("When the next one comes free"),
  }),
);

const account = () => ({
  object: Type.Literal("account"),
  id: Type.String(),
  name: Type.String(),
  created: Type.Integer({ description: "Unix seconds." }),
  plan: PlanView(),
  balance: Open(
    {
      usd: Type.Number({ description: "What the wallet has, 6 decimals, rounded down." }),
      held_usd: Type.Number({ description: "The part of it that running requests hold." }),
      available_usd: Type.Number({ description: "What a new request can take." }),
      has_deposit: Type.Boolean({ description: "A real deposit was made: premium models are open." }),
    },
    { description: "The wallet." },
  ),
  window: Nullable(
    Open({
      usd: Type.Number({ description: "What the plan pays in a window." }),
      available_usd: Type.Number(),
      held_usd: Type.Number(),
      starts_at: time("When it was opened; null: it opens at its first use"),
      ends_at: time("When it ends"),
    }),
    "The plan's spending window; null for a plan without one.",
  ),
  allowances: Open({ images: Allowance(), web: Allowance() }),
});

/** An account as it stands: its plan, its money, what is left of its allowances. */
export const AccountView = late(() => Open(account(), { title: "Account" }));

/** One of a key's caps as it stands. */
const Cap = late(() =>
  Nullable(
    Open({
      limit: Type.Number(),
      used: Type.Number(),
      remaining: Type.Number({ description: "What is left beside what is under way." }),
      resets_at: time("When it begins anew; null: never"),
    }),
    "null: there is no such cap.",
  ),
);

/** {@link AccountView} as one of its keys sees it, with that key's caps. */
export const OwnAccountView = late(() =>
  Open(
    {
      ...account(),
      key: Open(
        {
          id: Type.String(),
          cap_day_usd: Cap(),
          cap_total_usd: Cap(),
          cap_requests_day: Cap(),
        },
        { description: "The key that is asking, and how its caps stand, USD and requests." },
      ),
    },
    { title: "OwnAccount" },
  ),
);
