import type { Intent } from "../canon/intent.ts";
import { isObject } from "../lib/json.ts";
import { type RequestSettings, SAMPLING_FIELDS } from "../observe/request-facts.ts";

/**
 * How a client wants its reply made, for the traces. `body`: the request as the client sent it. What is left out there, or is nothing that the field may
 * hold, is left out here.
 */
export function settingsOf(intent: Intent, body: unknown): RequestSettings {
  const { maxOutputTokens, choices, reasoning } = intent;
  const settings: RequestSettings = { sampling: {} };
  if (maxOutputTokens !== undefined) settings.maxTokens = maxOutputTokens;
  if (choices !== undefined) settings.choices = choices;
  if (reasoning.kind === "effort") settings.effort = reasoning.effort;
  if (reasoning.kind === "off") settings.effort = "none";
  for (const field of SAMPLING_FIELDS) {
    const value = isObject(body) ? body[field] : undefined;
    if (typeof value === "number") settings.sampling[field] = value;
  }
  return settings;
}
