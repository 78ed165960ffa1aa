import { countAsNumber } from "../canon/usage.ts";
import { isObject } from "../lib/json.ts";
import { mapFields } from "../lib/map-changed.ts";

/**
 * A vendor's usage object with the counts that it wrote as text as numbers, those of its details as well: clients add them up, and those with checked
 * types refuse them. The very object where there are none. `levels`: how far inside is looked.
 */
export function withNumbers(usage: unknown, levels = 2): unknown {
  if (!isObject(usage)) return countAsNumber(usage);
  return levels === 0 ? usage : mapFields(usage, (value) => withNumbers(value, levels - 1));
}
