import type { Prompt } from "../canon/prompt.ts";

/** Fields that mean the same in both of OpenAI's dialects, by the chat dialect's names (dialects.md 1.1). */
const SHARED: ReadonlySet<string> = new Set([
  "metadata",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "service_tier",
  "verbosity",
]);

export const isShared = (field: string): boolean => SHARED.has(field);

/** Keeps a field that {@link isShared} for the other of the two dialects. */
export function share(prompt: Prompt, field: string, value: unknown): void {
  prompt.shared ??= {};
  prompt.shared[field] = value;
}

/** Names what only OpenAI's dialects can say. */
export function nameShared({ shared }: Prompt, dropped: string[]): void {
  for (const field in shared) dropped.push(field);
}
