import { isObject } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";

const NOTHING_LOST: readonly string[] = [];

/**
 * Edits of a body whose effort stands where the chat dialect has it, after which it stands where this one does; undefined where there is none. Open WebUI's
 * connections of this dialect send it so (its `routers/openai.py`, `convert_to_responses_payload`). One that is said here as well counts.
 */
export function ownForms(body: Record<string, unknown>): { edits: Edits; lost: readonly string[] } | undefined {
  const { reasoning_effort: effort, reasoning } = body;
  if (typeof effort !== "string" || (reasoning != null && !isObject(reasoning))) return undefined;
  const told = reasoning?.["effort"] == null ? { reasoning: { ...reasoning, effort } } : {};
  return { edits: { ...told, reasoning_effort: undefined }, lost: NOTHING_LOST };
}
