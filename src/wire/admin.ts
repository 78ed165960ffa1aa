import { type TSchema, Type } from "@sinclair/typebox";
import { time } from "./account.ts";
import {
  MAX_CAP_REQUESTS,
  MAX_DETAIL,
  MAX_NAME,
  MAX_PATTERN,
  MAX_PATTERNS,
  MAX_PLAN_ID,
  MAX_TOKEN_DAYS,
  MAX_USD,
  MODEL_PATTERN,
  REFERENCE_PATTERN,
} from "./bounds.ts";
import { Closed, late, Maybe, Nullable, Open } from "./open.ts";
import { SCOPES, TOKEN_SCOPES } from "./scopes.ts";

const name = late(() =>
  Type.String({
    minLength: 1,
    maxLength: MAX_NAME,
    pattern: "\\S",
    description: `a name of 1 to ${MAX_NAME} characters, not all of them blank`,
  }),
);
const usdText = 'an amount in USD with at most nine decimals, such as 25 or "0.5"';
const usd = late(() =>
  Type.Union(
    [Type.String({ pattern: "^\\d{1,10}(?:\\.\\d{1,9})?$" }), Type.Number({ exclusiveMinimum: 0, maximum: MAX_USD })],
    { description: usdText },
  ),
);
const signedUsd = late(() =>
  Type.Union(
    [Type.String({ pattern: "^-?\\d{1,10}(?:\\.\\d{1,9})?$" }), Type.Number({ minimum: -MAX_USD, maximum: MAX_USD })],
    { description: `${usdText}; below 0 it is taken away` },
  ),
);
const planId = late(() => Type.String({ minLength: 1, maxLength: MAX_PLAN_ID, description: "the id of a plan" }));
const accountRef = late(() =>
  Type.String({ minLength: 1, maxLength: MAX_NAME, description: "the id or the name of an account" }),
);

/** Body of `POST /admin/v1/accounts`. */
export const CreateAccount = late(() =>
  Open({ name: name(), plan: planId() }, { title: "CreateAccount", examples: [{ name: "team", plan: "pro" }] }),
);

/** Body of `POST /admin/v1/accounts/{account}/plan`. */
export const SetPlan = late(() => Open({ plan: planId() }, { title: "SetPlan", examples: [{ plan: "pro" }] }));

const booking = late(() => ({
  reference: Type.String({
    pattern: REFERENCE_PATTERN,
    description:
      "a name of your own for this payment, 1 to 200 printable ASCII characters; the same one is booked once",
  }),
  detail: Maybe(Type.String({ maxLength: MAX_DETAIL, description: "a remark" })),
}));

/** Body of a deposit or a promotion. */
export const MoneyRequest = late(() =>
  Open(
    { amount_usd: usd(), ...booking() },
    { title: "Money", examples: [{ amount_usd: "25.00", reference: "invoice-2026-0042" }] },
  ),
);

/** Body of a correction. */
export const CorrectionRequest = late(() =>
  Open(
    { amount_usd: signedUsd(), ...booking() },
    { title: "Correction", examples: [{ amount_usd: "-5.00", reference: "correction-2026-0007" }] },
  ),
);

const limits = late(() => ({
  expires_at: Maybe(
    Type.String({
      maxLength: 40,
      pattern: "^\\d{4}-\\d{2}-\\d{2}T",
      description: "a time in the future such as 2027-01-31T00:00:00Z",
    }),
  ),
  models: Maybe(
    Type.Array(
      Type.String({
        ...{ pattern: MODEL_PATTERN, maxLength: MAX_PATTERN },
        description: "a model ID such as openai/gpt-5 or a pattern such as openai/*",
      }),
      {
        ...{ minItems: 1, maxItems: MAX_PATTERNS },
        description: `an array of 1 to ${MAX_PATTERNS} model IDs or patterns such as openai/*`,
      },
    ),
  ),
  endpoints: Maybe(
    Type.Array(Type.Union(SCOPES.map((scope) => Type.Literal(scope))), {
      minItems: 1,
      description: `an array of ${SCOPES.join(", ")}`,
    }),
  ),
  cap_day_usd: Maybe(usd()),
  cap_total_usd: Maybe(usd()),
  cap_requests_day: Maybe(Type.Integer({ minimum: 1, maximum: MAX_CAP_REQUESTS, description: "a whole number" })),
}));

/** Body of `POST /admin/v1/keys`. */
export const CreateKey = late(() =>
  Closed(
    {
      account: accountRef(),
      name: name(),
      kind: Type.Optional(
        Type.Union([Type.Literal("api"), Type.Literal("admin")], { description: '"api" or "admin"' }),
      ),
      ...limits(),
    },
    { title: "CreateKey", examples: [{ account: "local", name: "laptop" }] },
  ),
);

/** Body of `POST /admin/v1/keys/{key}`: what is not named stays, null takes a limit away. */
export const ChangeKey = late(() =>
  Closed({ name: Type.Optional(name()), ...limits() }, { title: "ChangeKey", examples: [{ name: "laptop" }] }),
);

/** Body of `POST /admin/v1/tokens`. */
export const CreateToken = late(() =>
  Closed(
    {
      account: accountRef(),
      name: name(),
      scopes: Maybe(
        Type.Array(Type.Union(TOKEN_SCOPES.map((scope) => Type.Literal(scope))), {
          minItems: 1,
          description: `an array of ${TOKEN_SCOPES.map((scope) => `"${scope}"`).join(" and ")}`,
        }),
      ),
      days: Maybe(
        Type.Number({
          minimum: 0.0001,
          maximum: MAX_TOKEN_DAYS,
          description: `a number of days, at most ${MAX_TOKEN_DAYS}`,
        }),
      ),
      calls_per_day: Type.Optional(
        Type.Union([Type.Integer({ minimum: 1, maximum: MAX_CAP_REQUESTS }), Type.Null()], {
          description: "a whole number, or null for no cap",
        }),
      ),
    },
    { title: "CreateToken", examples: [{ account: "local", name: "laptop", scopes: ["web"], days: 30 }] },
  ),
);

const keyFields = late(() => ({
  object: Type.Union([Type.Literal("key"), Type.Literal("token")]),
  id: Type.String(),
  account: Type.String(),
  kind: Type.String({ examples: ["api", "admin", "token"] }),
  name: Type.String(),
  prefix: Type.String(),
  last4: Type.String(),
  created_at: Type.String(),
  last_used_at: time("To the minute"),
  revoked_at: time("From then on it is no key any more"),
  expires_at: time("From then on it is no key any more"),
  models: Nullable(Type.Array(Type.String())),
  endpoints: Nullable(Type.Array(Type.String())),
  cap_day_usd: Nullable(Type.Number()),
  cap_total_usd: Nullable(Type.Number()),
  cap_requests_day: Nullable(Type.Integer()),
}));

/** A key or a token: never itself, never its hash. */
export const KeyView = late(() => Open(keyFields(), { title: "Key" }));
/** A key or a token just made. */
export const CreatedKeyView = late(() =>
  Open(
    { ...keyFields(), key: Type.String({ description: "The key itself, shown this once." }) },
    { title: "CreatedKey" },
  ),
);

/** An account in a list. */
export const AccountEntry = late(() =>
  Open(
    {
      object: Type.Literal("account"),
      id: Type.String(),
      name: Type.String(),
      plan: Type.String(),
      created: Type.Integer({ description: "Unix seconds." }),
    },
    { title: "AccountEntry" },
  ),
);

/** A transfer of the ledger. */
export const EntryView = late(() =>
  Open(
    {
      object: Type.Literal("ledger.entry"),
      seq: Type.Integer(),
      at: Type.String(),
      kind: Type.String(),
      debit: Type.String(),
      credit: Type.String(),
      amount: Type.String({ description: "USD, exact, with 9 decimals." }),
      request_id: Nullable(Type.String()),
      reference: Nullable(Type.String()),
      detail: Nullable(Type.String()),
      repeated: Type.Optional(Type.Boolean({ description: "This reference was booked before: nothing was written." })),
    },
    { title: "LedgerEntry" },
  ),
);

/** A vendor, and how it fared since the start. */
export const VendorView = late(() =>
  Open(
    {
      object: Type.Literal("vendor"),
      id: Type.String(),
      name: Type.String(),
      dialect: Type.String(),
      host: Type.String(),
      state: Type.String({ description: "`unused`, `ok`, or `failing`: its last call failed.", examples: ["ok"] }),
      served: Type.Integer({ description: "Calls it answered since the start." }),
      failed: Type.Integer({ description: "Calls it failed." }),
      failing_since: time("When the failures in a row began"),
      last_served_at: time("When it last answered"),
      last_failed_at: time("When it last failed"),
      last_error: Nullable(Type.String(), "The code of its last failure."),
      in_trouble: Type.Array(Type.String(), {
        description:
          "Keys (`vendor#1`) and ways (`vendor#1/model`) that are left alone for a while, after failures or a refusal.",
      }),
      probe: Type.Optional(
        Open(
          { ok: Type.Boolean(), models: Type.Optional(Type.Integer()), error: Type.Optional(Type.String()) },
          { description: "With `probe=true`: what its model list answered just now." },
        ),
      ),
    },
    { title: "Vendor" },
  ),
);

/** A page of anything. */
export const PageOf = (entryOf: () => TSchema, title: string) =>
  late(() =>
    Open(
      {
        object: Type.Literal("list"),
        data: Type.Array(entryOf()),
        has_more: Type.Boolean(),
        next_cursor: Nullable(Type.String(), "Pass it as `cursor` for the next page; null on the last one."),
      },
      { title },
    ),
  );
