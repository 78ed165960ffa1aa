import { Type } from "@sinclair/typebox";
import { late, Nullable, Open } from "./open.ts";

const time = (description: string) => Type.String({ description: `${description}, ISO 8601, UTC.` });
const usd = (description: string) => Type.Number({ description: `USD. ${description}` });
const tokens = (description: string) => Type.Integer({ description });

const counts = late(() => ({
  input_tokens: tokens("Fresh input: neither read from nor written to the vendor's cache."),
  cache_read_tokens: tokens("Input read from the vendor's cache."),
  cache_write_tokens: tokens("Input written to the vendor's cache."),
  output_tokens: tokens("Output, reasoning included."),
  reasoning_tokens: tokens("The part of the output that was reasoning."),
  units: tokens("Images or web calls; 0 where tokens are counted."),
}));

/** One settled request. */
const UsageEntry = late(() =>
  Open(
    {
      object: Type.Literal("usage"),
      request_id: Type.String({ description: "As in the answer's header `x-request-id`." }),
      at: time("When it was settled"),
      account: Type.String(),
      key: Type.String(),
      dialect: Type.String(),
      stream: Type.Boolean(),
      model: Type.String({ description: "The model ID that was asked for." }),
      vendor: Type.String({ description: "Who served it." }),
      upstream_model: Type.String({ description: "The vendor's own name of the model." }),
      outcome: Type.String({
        examples: ["completed", "client-left", "timed-out", "upstream-failed", "interrupted", "blocked"],
      }),
      finish_reason: Nullable(Type.String()),
      error: Nullable(Type.String(), "Its code."),
      attempts: Type.Integer({ description: "How often vendors were tried; the rounds of one reply are one try." }),
      ...counts(),
      estimated: Type.Boolean({ description: "The vendor sent no counts: these are the gateway's own." }),
      cost_usd: Nullable(usd("What it cost at the price of its time; null where no price was known.")),
      charged_usd: usd("What the account paid of that: 0 on plan `local`."),
      duration_ms: Type.Integer(),
      first_token_ms: Nullable(Type.Integer()),
      cache_write_1h_tokens: tokens(
        "The part of `cache_write_tokens` that is kept for an hour, or at OpenAI for twelve, where a vendor tells it.",
      ),
    },
    { title: "Usage" },
  ),
);

/** What one day, model, key or account came to. */
const UsageGroup = late(() =>
  Open(
    {
      object: Type.Literal("usage.group"),
      group: Type.String({ description: "A UTC day as `YYYY-MM-DD`, a model ID, or the id of a key or an account." }),
      name: Type.String({ description: "The name of the key or the account; else the group." }),
      requests: Type.Integer(),
      estimated_requests: Type.Integer({ description: "Requests whose counts are the gateway's own." }),
      unpriced_requests: Type.Integer({ description: "Requests whose cost is not known and not in the sum." }),
      ...counts(),
      cost_usd: usd("At the prices of the time."),
      charged_usd: usd("What was paid of that."),
    },
    { title: "UsageGroup" },
  ),
);

const page = late(() => ({
  object: Type.Literal("list"),
  has_more: Type.Boolean(),
  next_cursor: Nullable(Type.String(), "Pass it as `cursor` for the next page; null on the last one."),
}));

const exactUsd = late(() => Type.String({ description: "USD, exact, with 9 decimals." }));
const exported = late(() => ({ cost_usd: Nullable(exactUsd()), charged_usd: exactUsd() }));

/** A page of requests or of groups; with `format=json` all of them as one array. */
export const UsageList = late(() =>
  Type.Union([
    Open({ ...page(), data: Type.Array(UsageEntry()) }, { title: "UsageList" }),
    Open(
      { ...page(), group_by: Type.String(), data: Type.Array(UsageGroup()), total: UsageGroup() },
      { title: "UsageGroupList" },
    ),
    Type.Array(Open({ ...UsageEntry().properties, ...exported() }), { title: "UsageExport" }),
    Type.Array(Open({ ...UsageGroup().properties, ...exported() }), { title: "UsageGroupExport" }),
  ]),
);

/** What one request came to, line by line. */
export const UsageReceipt = late(() =>
  Open(
    {
      ...UsageEntry().properties,
      object: Type.Literal("usage.receipt"),
      attempt_list: Type.Array(
        Open({
          vendor: Type.String(),
          upstream_model: Type.String(),
          key: Type.Optional(
            Type.Integer({ description: "Which of the vendor's keys, from 1; where several were tried." }),
          ),
          outcome: Type.String({
            description:
              "`served`, the code of its error, or `client-left` or `interrupted` where its client or the gateway did not wait for its end.",
          }),
          duration_ms: Type.Integer(),
        }),
        { description: "The calls to vendors, in their order." },
      ),
      price: Nullable(
        Open({
          currency: Type.Literal("USD"),
          unit: Type.Literal("per_1m_tokens"),
          since: time("When this price was first used"),
          input: Type.Number(),
          output: Type.Number(),
          cache_read: Type.Number(),
          cache_write: Type.Number(),
          cache_write_1h: Type.Optional(
            Type.Number({ description: "Where it is priced apart; of OpenAI's models for twelve hours." }),
          ),
        }),
        "The price of its time, as it was for a prompt of this length, that of the last call where a reply took several; null where none was known.",
      ),
      lines: Type.Array(
        Open({
          bucket: Type.String({
            examples: ["input", "cache_read", "cache_write", "cache_write_1h", "output", "units"],
          }),
          count: Type.Integer(),
          usd_per_1m: Nullable(Type.Number(), "USD for a million of them."),
          usd: Nullable(Type.String(), "count × price, exact, with 12 decimals."),
        }),
        {
          description:
            "Their sum, rounded up once to a billionth of a dollar, is the cost. Where a reply took several calls to vendors at rates for short and for long prompts, each rate has lines of its own.",
        },
      ),
      cost: Nullable(Type.String(), "USD, exact, with 9 decimals."),
      charged: Type.String({ description: "USD, exact, with 9 decimals." }),
      paid_from: Type.Array(Open({ from: Type.String({ examples: ["window", "wallet"] }), usd: Type.String() })),
      flags: Type.Array(Type.String({ examples: ["overrun", "usage_suspect", "balance"] })),
    },
    { title: "UsageReceipt" },
  ),
);
