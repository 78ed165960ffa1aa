import { beginsWithName, detailedStatus, detailOf, limitsRate } from "./meant-status.ts";

/**
 * Words for programs by which vendors say that the account there is empty, whatever status they choose: Alibaba's `Arrearage` is a 400, and so is Groq's
 * `blocked_api_access`, which it tells as `spend_limit_reached`; new-api's `insufficient_user_quota` and, of a key alone, `pre_consume_token_quota_failed`,
 * Novita's `NOT_ENOUGH_BALANCE` and Volcengine's `AccountOverdueError` are a 403, OpenCode's three a 401 (its `zen/util/error.ts`).
 */
const NO_CREDIT_CODE =
  /insufficient_(?:user_)?(?:quota|balance)|not_enough_balance|exceeded_current_quota|token_quota_failed|credit_balance|billing|arrearage|account_?overdue|(?:organization|project)_(?:spend|usage)_limit|spend_limit_reached|blocked_api_access|\b(?:credits|monthlylimit|userlimit)error\b/i;
/**
 * Anthropic's words, in an error's details, for a month whose money is spent: its 429 has no other sign of that, no time, and ends with the month
 * (ContractSpendLimitReachedError and EnforcedSpendLimitReachedError of @anthropic-ai/sdk 1.14).
 */
const SPENT = /^(?:contract|enforced)_spend_limit_reached$/;
/**
 * And the beginnings of sentences of those that have no such word: Anthropic's 400 is an `invalid_request_error` like any other, xAI's 403 a right that
 * is missing, SiliconFlow's and Upstage's 403, Z.ai's 429 of a balance or a subscription that has ended and Fireworks' 412 have a code that tells nothing. Google's "check
 * your plan and billing details" is a limit of the minute as well, and none; its credits that are depleted and its cap on what a month may cost are one, and
 * OpenRouter's 403 of a key or a workspace that has spent what it may. Beginnings alone: what a request says is quoted further on, and would put the key to
 * rest for everybody.
 */
const NO_CREDIT_TEXT = new RegExp(
  `^(?:${[
    "key limit exceeded\\b",
    "workspace (?:daily|weekly|monthly|lifetime) budget of \\$",
    "your (?:project|billing account) has exceeded its monthly spending cap",
    "your (?:credit balance is too low|prepayment credits are depleted|subscription payment is past due)",
    "insufficient (?:account )?balance|余额不足|您的账户已欠费|your account is in arrears\\b",
    "your GLM coding plan package has expired|您的 ?GLM coding plan 套餐已到期",
    "(?:sorry, )?your account balance is insufficient",
    "API key suspended due to insufficient credit\\b",
    "you have reached your specified (?:workspace )?API usage limits",
    "your (?:newly created )?team\\b[^\"'\x60]{0,120}\\b(?:used all available credits|reached (?:its|your|the) monthly spending limit)",
    "your newly created teams? doesn't have any credits\\b",
    "(?:your )?account\\b[^\"'\x60]{0,120}\\bsuspended\\b[^\"'\x60]{0,60}\\b(?:balance|spending limit|invoices)",
  ].join("|")})`,
  "i",
);

/**
 * How OpenRouter says that an account has credit, but not as much as this request may come to: by the output that it asks for, which is its model's most
 * where it names none (can1357/oh-my-pi #9569), or by its prompt (continuedev/continue #11227). Another request of the same minute is served.
 */
const EXCEEDS_CREDIT =
  /^(?:This request requires more credits, or fewer max_tokens\b.*\bcan only afford [1-9]|Prompt tokens limit exceeded: \d+ > [1-9])/;

/** And its word for a request whose most is beyond what the account may have under way at once (openrouter.ai, "In-flight spending budget"). */
const EXCEEDS_BUDGET = /\bweight_exceeds_budget\b/;

/** Whether the gateway's account at the vendor has credit, and the request is too large for it: of the key and of its way that says nothing. */
export const exceedsCredit = ({ type, message }: { type?: unknown; message?: unknown }): boolean =>
  EXCEEDS_CREDIT.test(String(message)) || EXCEEDS_BUDGET.test(String(type));

/**
 * How vendors say that a plan's hours or its week are used up, with a 429 that names no time: Z.ai's 1308, 1310 and 1316 to 1321 (hugalafutro/model-hotel #955,
 * dirge-code/dirge #818; docs.z.ai/api-reference/api-code), MiniMax (MiniMax-AI/MiniMax-M2.7 #36), Ollama's cloud (NousResearch/hermes-agent #68832),
 * Volcengine's Coding Plan, Alibaba's Coding and Token Plan (help.aliyun.com, "Coding Plan FAQ") and OpenCode's Go; with a 403 Kimi Code (MoonshotAI/kimi-code
 * #2121, openclaw/openclaw #142656) and Huawei's Token Plan (support.huaweicloud.com/Token-plan-maas/tokenplan-maas-0013.html). So they say that what is free
 * of a day or of a model is (Workers AI: developers.cloudflare.com/workers-ai/platform/errors; ModelScope, OpenRouter, Volcengine, Alibaba with a 403, Tencent
 * with a 402: cloud.tencent.com/document/product/1823/131595; Cerebras), what Bedrock allows an account in a day, or what an operator himself allows a model
 * (Volcengine's "Safe Experience Mode"). It is not over in a moment, as a rate is.
 */
const PLAN_USED_UP = new RegExp(
  `^(?:${[
    "(?:AiError: ){0,2}(?:\\d{4}: )?you have used up your daily free allocation\\b",
    "usage limit reached for (?:the past )?\\d",
    "weekly\\/monthly limit exhausted",
    "(?:5-hour|weekly|monthly|token plan) usage limit reached\\b",
    "usage limit exceeded(?:, | \\(2056\\))",
    "you(?: \\([^)]{1,100}\\))?(?:'ve| have) reached your (?:(?:session|hourly|weekly|monthly) (?:\\([^)]{1,20}\\) )?)?usage limit",
    "you have exceeded the (?:5-hour|daily|weekly|monthly) usage quota\\b",
    "(?:your|the) account \\S{1,40} has (?:reached the set inference limit for|exhausted the free trial quota)\\b",
    "your (?:[\\w-]{1,20} )?\\d+-(?:hour|day|week|month) quota has been exhausted\\b",
    "(?:hour|week|month) allocated quota exceeded\\b",
    "the free tier of the model has been exhausted\\b",
    "your token plan quota has been exhausted\\b",
    "endpoint is inactive: free_quota_exhausted\\b",
    "you have exceeded today's quota for model\\b",
    "too many tokens per day\\b",
    "(?:tokens|requests) per day limit exceeded\\b",
    "rate limit exceeded: free-models-per-day\\b",
    "已达到 ?\\d+ ?小时的使用上限|您已达到每周\\/每月使用上限|(?:当前)?已达到 ?token plan 用量上限",
  ].join("|")})`,
  "i",
);
/** And for programs: Baidu's Coding Plan, and LiteLLM of what a key, a team or a user may spend in a time, with a 400 or a 429. */
const PLAN_USED_UP_CODE = /^(?:coding_plan_(?:hour|week|month)_quota_exceeded|budget_exceeded)$/;

/** Whether a vendor says so. Of the key's other models that tells nothing: a local Ollama has some of its own beside those of the cloud. */
export function meansUsedUp({ message, code, type }: { message?: unknown; code?: unknown; type?: unknown }): boolean {
  const words = String(message);
  if (PLAN_USED_UP_CODE.test(String(code)) || PLAN_USED_UP_CODE.test(String(type))) return true;
  return PLAN_USED_UP.test(words) && !beginsWithName(words);
}

/** Whether an error means that the gateway's account at the vendor has no credit left: its key is of no use to any request (reliability 6.2). */
export function meansNoCredit(
  status: unknown,
  { type, code, message, details }: { type?: unknown; code?: unknown; message?: unknown; details?: unknown },
): boolean {
  if (exceedsCredit({ type, message }) || limitsRate({ message }) || meansUsedUp({ type, code, message })) return false;
  // The credit of the customer that a request names is none of the gateway's.
  if (detailedStatus(details) !== undefined) return false;
  if (status === 402 || NO_CREDIT_CODE.test(`${code} ${type}`)) return true;
  if (SPENT.test(detailOf(details))) return true;
  const words = String(message);
  return NO_CREDIT_TEXT.test(words) && !beginsWithName(words);
}
