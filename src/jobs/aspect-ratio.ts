import { type Pixels, readRatio } from "../lib/pixels.ts";

/** No model draws anything as long as this; beyond it a size is a mistake. */
const MOST_STRETCHED = 8;

/** Two to five digits each, as in `1024x1536` (dialects.md 7); `10:1` is a ratio and no size. */
const SIZE = /^(\d{2,5})x(\d{2,5})$/;

/**
 * A `size` as pixels. `"auto"` and nothing are undefined: the model's own. Anything that is no size, has a side of zero, or is longer than
 * 8:1 gives `"bad"`. Pure.
 */
export function readSize(text: string | null | undefined): Pixels | undefined | "bad" {
  if (text === null || text === undefined || text === "auto") return undefined;
  const [, width, height] = SIZE.exec(text) ?? [];
  const size = { width: Number(width), height: Number(height) };
  if (!(size.width > 0 && size.height > 0)) return "bad";
  const long = Math.max(size.width, size.height);
  return long > Math.min(size.width, size.height) * MOST_STRETCHED ? "bad" : size;
}

/** Pixels by which a size of this ratio and of the same area differs from the asked one. */
function pixelsApart({ width, height }: Pixels, ratio: Pixels): number {
  const unit = Math.sqrt((width * height) / (ratio.width * ratio.height));
  return Math.abs(width - unit * ratio.width) + Math.abs(height - unit * ratio.height);
}

/** Ratios this close count as equally near: the last bits of a logarithm decide nothing. */
const EQUAL = 1e-12;

/**
 * The ratio of `ratios` that is nearest to a size: an exact one, else the one that is stretched least, seen by the logarithm so that 2:1 and
 * 1:2 are as far from 1:1; of two as near the one fewer pixels apart, then the earlier (dialects.md 7). Pure. `ratios` is not empty.
 */
export function nearestRatio(size: Pixels, ratios: readonly string[]): string {
  const asked = Math.log(size.width / size.height);
  let best: { ratio: string; far: number; apart: number } | undefined;
  for (const ratio of ratios) {
    const parts = readRatio(ratio);
    if (size.width * parts.height === size.height * parts.width) return ratio;
    const far = Math.abs(asked - Math.log(parts.width / parts.height));
    const apart = pixelsApart(size, parts);
    const nearer = !best || far < best.far - EQUAL || (far <= best.far + EQUAL && apart < best.apart);
    if (nearer) best = { ratio, far, apart };
  }
  if (!best) throw new RangeError("A model without ratios draws nothing.");
  return best.ratio;
}

/** The ratio of a job that names no size: square where the model draws that, else the model's first. */
export function usualRatio(ratios: readonly string[]): string {
  return ratios.includes("1:1") || ratios[0] === undefined ? "1:1" : ratios[0];
}
