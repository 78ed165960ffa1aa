import { type Pixels, readRatio } from "../../lib/pixels.ts";
import type { ImageRequest } from "../image-upstream.ts";
import type { PixelRule } from "./wire.ts";

/** A size of exactly the ratio is taken where its area differs from the wanted one by less than this factor; else one whose ratio is a few pixels off. */
const EXACT_WITHIN = 1.35;
/** How far a size's ratio may be from the one asked for, as the logarithm of their quotient, before another size is looked for. */
const MOST_OFF = 0.06;

function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b);
}

/** A ratio in its smallest whole numbers: `16:8` as 2 and 1. Throws as {@link readRatio} does. */
export function reducedRatio(ratio: string): Pixels {
  const { width, height } = readRatio(ratio);
  const divisor = greatestDivisor(width, height);
  return { width: width / divisor, height: height / divisor };
}

type Rounding = (value: number) => number;

/**
 * Pixels of the request's ratio that follow the rule: of the caller's own area where it named a size, within the rule's bounds; else of the rule's
 * usual one. Exactly of the ratio where such a size is near, else as near as the rule's multiples let it be (dialects.md 7). Pure.
 */
export function pixelsOf({ ratio, size }: Pick<ImageRequest, "ratio" | "size">, rule: PixelRule): Pixels {
  const { width, height } = reducedRatio(ratio);
  const stretch = Math.max(width, height) / Math.min(width, height);
  const most = Math.min(rule.maxArea, (rule.maxEdge * rule.maxEdge) / stretch);
  const wanted = size ? Math.max(rule.minArea, size.width * size.height) : rule.area;
  const area = Math.min(most, wanted);
  const unit = width * height * rule.multiple * rule.multiple;
  let times = Math.max(1, Math.round(Math.sqrt(area / unit)));
  if (times > 1 && times * times * unit > most) times--;
  if (times * times * unit < rule.minArea) times++;
  const exact = times * times * unit;
  if (exact <= most && exact / area < EXACT_WITHIN && area / exact < EXACT_WITHIN) {
    return { width: width * rule.multiple * times, height: height * rule.multiple * times };
  }
  const rounded = nearestOf({ width, height }, area, rule, Math.round);
  return rounded.width * rounded.height < rule.minArea ? nearestOf({ width, height }, area, rule, Math.ceil) : rounded;
}

/** A size about as large as `area` whose ratio is a few pixels off. */
function nearestOf({ width, height }: Pixels, area: number, rule: PixelRule, round: Rounding): Pixels {
  const { multiple, maxEdge } = rule;
  const side = Math.sqrt(area / (width * height));
  const longest = maxEdge - (maxEdge % multiple);
  const within = (value: number) => Math.min(Math.max(1, round(value / multiple)) * multiple, longest);
  const nearest = { width: within(width * side), height: within(height * side) };
  // Small pictures in large steps: where both sides were rounded apart, the second one follows the first.
  const following = { ...nearest, height: within((nearest.width * height) / width) };
  const off = (pixels: Pixels) => Math.abs(Math.log((pixels.width * height) / (pixels.height * width)));
  return off(nearest) > MOST_OFF && off(following) < off(nearest) ? following : nearest;
}

/** The name of the largest of `steps` that a caller's size reaches; undefined where there is no size, or it reaches none. */
export function resolutionOf(
  size: Pixels | undefined,
  steps: readonly { area: number; name: string }[],
): string | undefined {
  if (!size) return undefined;
  return steps.findLast((step) => size.width * size.height >= step.area)?.name;
}
