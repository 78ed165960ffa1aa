import type { Finish } from "../canon/events.ts";
import type { Part, Prompt } from "../canon/prompt.ts";
import { stringOf } from "../lib/json.ts";
import type { Edits } from "../lib/json-text.ts";
import { cleanText } from "./text.ts";

/** Fields that mean the same in both of OpenAI's dialects, by the chat dialect's names (dialects.md 1.1). */
const SHARED: ReadonlySet<string> = new Set([
  "metadata",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "service_tier",
  "verbosity",
]);

/** Whether a field, by its name in the chat dialect, means the same in the other one. */
export const isShared = (field: string): boolean => SHARED.has(field);

/** The field of a part that ends what is to be cached of a prompt, in both of OpenAI's dialects. */
export const BREAKPOINT = "prompt_cache_breakpoint";

/** The cache breakpoint of a part as OpenAI's dialects say it; undefined where there is none. */
export const breakpointOf = (part: Record<string, unknown>): unknown => part[BREAKPOINT] || undefined;

/**
 * A written part with the breakpoint of what it was written of. Where `prompt_cache_options` ask for explicit ones alone, nothing is cached without
 * them.
 */
export function withBreakpoint(written: Record<string, unknown>, part: Part): Record<string, unknown> {
  const breakpoint = "breakpoint" in part ? part.breakpoint : undefined;
  return breakpoint ? { ...written, [BREAKPOINT]: breakpoint } : written;
}

/** How a request is served where nothing else is said. */
const USUAL_TIERS: ReadonlySet<unknown> = new Set(["default", "auto", "", "on_demand"]);

/**
 * OpenAI's word for a tier that its vendor calls otherwise: Groq says `on_demand` of the usual one with each reply, at which clients with checked types
 * refuse all of it (64bit/async-openai#498). Undefined for any other word.
 */
const renamedTier = (tier: unknown): "default" | undefined => (tier === "on_demand" ? "default" : undefined);

/** `finish` with the tier that a vendor says it served a reply in (`service_tier`). */
export function withTier(finish: Finish, tier: unknown): Finish {
  return typeof tier === "string" && !USUAL_TIERS.has(tier) ? { ...finish, tier } : finish;
}

/** A time that is no less is told in milliseconds: as seconds it would lie beyond the year 5000, as milliseconds it begins in 1973. */
const LEAST_MILLISECONDS = 100_000_000_000;

/**
 * When a reply was made, as its vendor tells it, in whole seconds; undefined where it tells no time. SambaNova's have parts (BoundaryML/baml#1746),
 * ModelScope's, Vercel v0's and those of mistral.rs' streams are milliseconds (openai/openai-dotnet#752, zed-industries/zed#32982,
 * EricLBuehler/mistral.rs#1805), SGLang's responses are written with a point (QuantumNous/new-api#6822). Clients with checked types refuse all three.
 */
export const wholeSeconds = (created: unknown): number | undefined =>
  typeof created === "number" && Number.isFinite(created)
    ? Math.floor(created < LEAST_MILLISECONDS ? created : created / 1000)
    : undefined;

/** Adds to `edits` what a chat reply, or a chunk of one, says of its time and its tier, where clients could not read it. `created`: where it tells no time. */
export function repairHead(value: Record<string, unknown>, created: number, edits: Edits): void {
  const at = wholeSeconds(value["created"]) ?? created;
  if (at !== value["created"]) edits["created"] = at;
  const tier = renamedTier(value["service_tier"]);
  if (tier !== undefined) edits["service_tier"] = tier;
}

/** Keeps a field that {@link isShared} for the other of the two dialects. */
export function share(prompt: Prompt, field: string, value: unknown): void {
  prompt.shared ??= {};
  prompt.shared[field] = value;
}

/** Names what only OpenAI's dialects can say. */
export function nameShared({ shared }: Prompt, dropped: string[]): void {
  for (const field in shared) dropped.push(field);
}

/** Names the wish for images, for dialects whose models write. */
export function namePictures({ pictures }: Prompt, dropped: string[]): void {
  if (pictures) dropped.push("modalities");
  if (pictures?.ratio !== undefined || pictures?.size !== undefined) dropped.push("image_config");
}

/** The client's name for its end user, under the newer of two fields or under the older, which is named in `dropped` where it says another one. */
export function decodeUser(body: Record<string, unknown>, dropped: string[]): string | undefined {
  const [user, safety] = [stringOf(body["user"]), stringOf(body["safety_identifier"])];
  if (user !== "" && safety !== "" && safety !== user) dropped.push("user");
  return cleanText(safety || user) || undefined;
}
