import { invalidField } from "../canon/errors.ts";

/** A body's model ID. Throws GatewayError (invalid_request, param `model`) where there is none, or no string; `words` tell what one is. */
export function readModel(body: Record<string, unknown>, words: string): string {
  const { model } = body;
  if (typeof model === "string" && model !== "") return model;
  const wanted = model == null || model === "" ? "is required" : "must be a string";
  throw invalidField("model", `model ${wanted}: ${words}`);
}
