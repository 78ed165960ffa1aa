/** Width and height in pixels; of a ratio, its two numbers. */
export type Pixels = { width: number; height: number };

/** `16:9` as its two numbers. Throws RangeError for what is no ratio: a fault of a vendor's row. */
export function readRatio(ratio: string): Pixels {
  const [, width, height] = /^([1-9]\d{0,3}):([1-9]\d{0,3})$/.exec(ratio) ?? [];
  if (width === undefined || height === undefined) throw new RangeError(`${ratio} is no aspect ratio.`);
  return { width: Number(width), height: Number(height) };
}
