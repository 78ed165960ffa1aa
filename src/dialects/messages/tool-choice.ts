import { isObject } from "../../lib/json.ts";
import { type Edits, editedField } from "../../lib/json-text.ts";
import type { Quirks } from "../dialect.ts";
import { callHint } from "../refusals/own-words.ts";
import { traitsOf } from "./model-traits.ts";

type Body = Record<string, unknown>;

/** A forced choice as one the model is free in; undefined where nothing is forced. */
export function freeToolChoice(choice: unknown): Body | undefined {
  if (!isObject(choice) || (choice["type"] !== "any" && choice["type"] !== "tool")) return undefined;
  const { name: _forced, ...rest } = choice;
  return { ...rest, type: "auto" };
}

function withHint(system: unknown, hint: string): unknown {
  if (Array.isArray(system)) return [...system, { type: "text", text: hint }];
  return typeof system === "string" && system !== "" ? `${system}\n${hint}` : hint;
}

/**
 * Frees a tool choice that the model may not be forced in: where `edits` freed it already because the model thinks, for models that
 * never take one (dialects.md 2.9), and where the server forces none. What cannot be forced is said in words.
 */
export function editChoice(body: Body, edits: Edits, upstreamModel: string, { toolChoiceRequired }: Quirks): void {
  const choice = body["tool_choice"];
  const freed = freeToolChoice(choice);
  const wasFreed = Object.hasOwn(edits, "tool_choice");
  const canForce = traitsOf(upstreamModel).forcedChoice && toolChoiceRequired !== "auto";
  if (!freed || (!wasFreed && canForce)) return;
  const system = editedField("system", body, edits);
  if (!wasFreed) edits["tool_choice"] = freed;
  edits["system"] = withHint(system, callHint(isObject(choice) ? choice["name"] : undefined));
}
