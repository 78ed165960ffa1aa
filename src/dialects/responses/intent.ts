import { type Intent, type ReasoningIntent, readEffort } from "../../canon/intent.ts";
import { isObject } from "../../lib/json.ts";
import { readModel } from "../model-field.ts";

/** What `reasoning.effort` asks for (interface 4.8). An object without an effort leaves the depth to the model. */
function readReasoning(reasoning: unknown): ReasoningIntent {
  if (reasoning === undefined || reasoning === null) return { kind: "omitted" };
  if (!isObject(reasoning)) return { kind: "unrecognised" };
  const effort = reasoning["effort"];
  return effort === undefined || effort === null ? { kind: "omitted" } : readEffort(effort);
}

/** All that the gateway reads of a body of this dialect. Throws GatewayError (invalid_request, param `model`) without a model. */
export function readIntent(given: unknown): Intent {
  const body = isObject(given) ? given : {};
  const model = readModel(body, "a model ID such as <vendor>/<model_name>");
  const ceiling = body["max_output_tokens"];
  const intent: Intent = {
    model,
    stream: body["stream"] === true,
    reasoning: readReasoning(body["reasoning"]),
    wantsUsage: true,
  };
  if (typeof ceiling === "number" && Number.isInteger(ceiling) && ceiling > 0) intent.maxOutputTokens = ceiling;
  return intent;
}
