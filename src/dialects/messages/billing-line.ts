import { isObject } from "../../lib/json.ts";

/** Claude Code's first system block, new with every request: it defeats every other vendor's prefix cache (field.md 12). */
const BILLING_LINE = /^x-anthropic-billing-header/;
const FIRST_LINE = /^[^\n]*\n?/;

const isBillingLine = (text: unknown): boolean => typeof text === "string" && BILLING_LINE.test(text);

/** `system` without the billing line, as text or as blocks, undefined when nothing is left; itself when it holds none. */
export function withoutBillingLine(system: unknown): unknown {
  if (typeof system === "string") {
    return BILLING_LINE.test(system) ? system.replace(FIRST_LINE, "") || undefined : system;
  }
  if (!Array.isArray(system)) return system;
  const blocks: readonly unknown[] = system;
  const [first, ...rest] = blocks;
  if (!isObject(first) || !isBillingLine(first["text"])) return system;
  return rest.length === 0 ? undefined : rest;
}
