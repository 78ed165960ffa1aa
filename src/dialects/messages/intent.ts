import { type Intent, type ReasoningIntent, readEffort } from "../../canon/intent.ts";
import { isObject } from "../../lib/json.ts";
import { readModel } from "../model-field.ts";
import { turnEffort } from "./turn-settings.ts";

const UNRECOGNISED: ReasoningIntent = { kind: "unrecognised" };

/** A budget as it was written: 0 is off (interface 4.8); one that is missing leaves the depth to the model. */
function readBudget(tokens: unknown): ReasoningIntent {
  if (tokens === undefined || tokens === null) return { kind: "adaptive" };
  if (typeof tokens !== "number" || !Number.isFinite(tokens) || tokens < 0) return UNRECOGNISED;
  return tokens === 0 ? { kind: "off" } : { kind: "budget", tokens: Math.floor(tokens) };
}

/** Words of `thinking.type` by which a client wants none: the second one is that of models which cannot be switched off altogether (dialects.md 5.1). */
export const OFF_TYPES: ReadonlySet<unknown> = new Set(["disabled", "between_tools"]);

/**
 * What `thinking` and `output_config.effort` ask for together (dialects.md 5.3): the effort wins for depth, but never over `disabled`.
 * An effort alone is an explicit depth too, since it is the only control of models that always think.
 */
function readReasoning(thinking: unknown, effort: unknown): ReasoningIntent {
  const said: ReasoningIntent = effort === undefined || effort === null ? { kind: "omitted" } : readEffort(effort);
  if (thinking === undefined || thinking === null) return said;
  const explicit = said.kind === "omitted" || said.kind === "unrecognised" ? undefined : said;
  if (!isObject(thinking)) return UNRECOGNISED;
  if (OFF_TYPES.has(thinking["type"])) return { kind: "off" };
  if (thinking["type"] === "adaptive") return explicit ?? { kind: "adaptive" };
  if (thinking["type"] === "enabled") return explicit ?? readBudget(thinking["budget_tokens"]);
  return UNRECOGNISED;
}

/** Whether thinking is not to be in the reply, be it that the model thinks all the same (interface 2.4, dialects.md 5.3). */
const hidesReasoning = ({ thinking }: Record<string, unknown>): boolean =>
  isObject(thinking) && (thinking["type"] === "disabled" || thinking["display"] === "omitted");

/** All that the gateway reads of a body of this dialect. Throws GatewayError (invalid_request, param `model`) without a model. */
export function readIntent(given: unknown): Intent {
  const body = isObject(given) ? given : {};
  const model = readModel(body, "a model ID such as <vendor>/<model_name>");
  const ceiling = body["max_tokens"];
  const { thinking, output_config: config } = body;
  const intent: Intent = {
    model,
    stream: body["stream"] === true,
    reasoning: readReasoning(thinking, isObject(config) ? config["effort"] : undefined),
    wantsUsage: true,
  };
  if (typeof ceiling === "number" && Number.isInteger(ceiling) && ceiling >= 0) intent.maxOutputTokens = ceiling;
  const later = turnEffort(body["messages"]);
  if (later !== undefined) intent.turnReasoning = readReasoning(thinking, later);
  if (hidesReasoning(body)) intent.hidesReasoning = true;
  return intent;
}
