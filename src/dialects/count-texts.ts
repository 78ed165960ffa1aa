import { countAsNumber } from "../canon/usage.ts";
import { isObject } from "../lib/json.ts";

/**
 * A vendor's usage object with the counts that it wrote as text as numbers, those of its details as well: clients add them up, and those with checked
 * types refuse them. The very object where there are none. `levels`: how far inside is looked.
 */
export function withNumbers(usage: unknown, levels = 2): unknown {
  if (!isObject(usage)) return countAsNumber(usage);
  if (levels === 0) return usage;
  let changed: Record<string, unknown> | undefined;
  for (const field in usage) {
    const sound = withNumbers(usage[field], levels - 1);
    if (sound !== usage[field]) {
      changed ??= { ...usage };
      changed[field] = sound;
    }
  }
  return changed ?? usage;
}
