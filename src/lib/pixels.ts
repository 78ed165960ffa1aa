/** Width and height in pixels; of a ratio, its two numbers. */
export type Pixels = { width: number; height: number };

/** An aspect ratio such as `16:9` as its two numbers. Throws RangeError for what is none, which only a faulty row of the program's own could hold. */
export function readRatio(ratio: string): Pixels {
  const [, width, height] = /^([1-9]\d{0,3}):([1-9]\d{0,3})$/.exec(ratio) ?? [];
  if (width === undefined || height === undefined) throw new RangeError(`${ratio} is no aspect ratio.`);
  return { width: Number(width), height: Number(height) };
}
