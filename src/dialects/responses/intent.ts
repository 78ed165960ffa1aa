import { GatewayError } from "../../canon/errors.ts";
import { type Intent, type ReasoningIntent, readEffort } from "../../canon/intent.ts";
import { isObject } from "../../lib/json.ts";

/** What `reasoning.effort` asks for (interface 4.8). An object without an effort leaves the depth to the model. */
function readReasoning(reasoning: unknown): ReasoningIntent {
  if (reasoning === undefined || reasoning === null) return { kind: "omitted" };
  if (!isObject(reasoning)) return { kind: "unrecognised" };
  const effort = reasoning["effort"];
  return effort === undefined || effort === null ? { kind: "omitted" } : readEffort(effort);
}

/** All that the gateway reads of a body of this dialect. Throws GatewayError (invalid_request, param `model`) without a model. */
export function readIntent(body: unknown): Intent {
  const model = isObject(body) ? body["model"] : undefined;
  if (!isObject(body) || typeof model !== "string" || model === "") {
    const wanted = model == null || model === "" ? "is required" : "must be a string";
    throw new GatewayError("invalid_request", `model ${wanted}: a model ID such as <vendor>/<model_name>`, {
      param: "model",
    });
  }
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
