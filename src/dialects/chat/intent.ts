import { GatewayError, invalidField } from "../../canon/errors.ts";
import { type Intent, type ReasoningIntent, readEffort } from "../../canon/intent.ts";
import { isObject } from "../../lib/json.ts";
import { unknownPaths } from "../loss/unknown-fields.ts";
import { readModel } from "../model-field.ts";

type Wire = Record<string, unknown>;

const OMITTED: ReasoningIntent = { kind: "omitted" };
const UNRECOGNISED: ReasoningIntent = { kind: "unrecognised" };

const isCount = (value: unknown): value is number => typeof value === "number" && Number.isInteger(value) && value >= 0;

function readBudget(value: unknown): ReasoningIntent {
  return isCount(value) ? { kind: "budget", tokens: value } : UNRECOGNISED;
}

/** OpenRouter's object: effort, max_tokens or enabled. */
function readReasoningObject(value: unknown): ReasoningIntent {
  if (!isObject(value)) return UNRECOGNISED;
  if (value["enabled"] === false) return { kind: "off" };
  if (value["effort"] != null) return readEffort(value["effort"]);
  if (value["max_tokens"] != null) return readBudget(value["max_tokens"]);
  return value["enabled"] === true ? { kind: "adaptive" } : OMITTED;
}

/** The `thinking` object of the messages dialect, which several chat vendors and clients use too. */
function readThinking(value: unknown): ReasoningIntent {
  if (!isObject(value)) return UNRECOGNISED;
  if (value["type"] === "disabled") return { kind: "off" };
  if (value["type"] === "adaptive") return { kind: "adaptive" };
  if (value["type"] !== "enabled") return UNRECOGNISED;
  return value["budget_tokens"] == null ? { kind: "adaptive" } : readBudget(value["budget_tokens"]);
}

function readEnableThinking(body: Wire): ReasoningIntent {
  if (body["enable_thinking"] === false) return { kind: "off" };
  if (body["thinking_budget"] != null) return readBudget(body["thinking_budget"]);
  return body["enable_thinking"] === true ? { kind: "adaptive" } : UNRECOGNISED;
}

/** Every spelling of a client's wish about reasoning (dialects.md 1.1). */
export const REASONING_FIELDS: readonly string[] = [
  ...["reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget"],
];

/** What the client asked of reasoning, in whichever of four spellings (interface 4.8, dialects.md 1.1 and 5.1); the dialect's own wins. */
function readReasoning(body: Wire): ReasoningIntent {
  if (body["reasoning_effort"] != null) return readEffort(body["reasoning_effort"]);
  if (body["reasoning"] != null) return readReasoningObject(body["reasoning"]);
  if (body["thinking"] != null) return readThinking(body["thinking"]);
  if (body["enable_thinking"] != null || body["thinking_budget"] != null) return readEnableThinking(body);
  return OMITTED;
}

/** The objects among the fields of reasoning, and what in them is an intent, or asks for what a reply shows anyway. */
const REASONING_INSIDE: readonly [field: string, read: ReadonlySet<string>][] = [
  ["reasoning", new Set(["effort", "max_tokens", "enabled", "summary"])],
  ["thinking", new Set(["type", "budget_tokens"])],
];

/** The paths of what a client says of reasoning beside its intent, in the fields that `isTaken` tells to go: that goes with them. */
export function saidBesideReasoning(body: Wire, isTaken: (field: string) => boolean): string[] {
  return REASONING_INSIDE.flatMap(([field, read]) => (isTaken(field) ? unknownPaths(body[field], read, field) : []));
}

/** The client's ceiling on output: max_completion_tokens over its old name (dialects.md 1.1). */
export function readMaxTokens(body: Wire): number | undefined {
  const value = body["max_completion_tokens"] ?? body["max_tokens"];
  return isCount(value) && value > 0 ? value : undefined;
}

/** More replies than this no vendor makes at once. */
const MAX_CHOICES = 1_000_000;

/** How many replies are asked for at once, where that is more than one. */
function readChoices({ n }: Wire): number | undefined {
  return isCount(n) && n > 1 ? Math.min(n, MAX_CHOICES) : undefined;
}

/** Throws GatewayError (invalid_request) where more than one is. `why`: what speaks against it, behind "n must be 1". */
export function refuseChoices({ n }: Wire, why: string): void {
  if (typeof n === "number" && n > 1) throw invalidField("n", `n must be 1 ${why}`);
}

/** OpenRouter's own wish for usage, `usage: {include}`: its clients send that in place of the dialect's `stream_options`. */
export const isUsageWish = (value: unknown): value is { include: boolean } => {
  if (!isObject(value) || typeof value["include"] !== "boolean") return false;
  return Object.keys(value).length === 1;
};

function wantsUsage({ stream_options: options, usage: wish }: Wire): boolean {
  return (isObject(options) && options["include_usage"] === true) || (isUsageWish(wish) && wish.include);
}

/** What the gateway reads of a chat body. Throws GatewayError (invalid_request) for a body that is no object, and for a missing model. */
export function readIntent(body: unknown): Intent {
  if (!isObject(body)) throw new GatewayError("invalid_request", "The body must be a JSON object.");
  const model = readModel(body, "the ID of a model, such as <vendor>/<model_name>.");
  const maxOutputTokens = readMaxTokens(body);
  const intent: Intent = {
    model,
    stream: body["stream"] === true,
    reasoning: readReasoning(body),
    wantsUsage: wantsUsage(body),
  };
  if (maxOutputTokens !== undefined) intent.maxOutputTokens = maxOutputTokens;
  const choices = readChoices(body);
  if (choices !== undefined) intent.choices = choices;
  return intent;
}
