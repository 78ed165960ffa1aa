import type { Pixels } from "../../lib/pixels.ts";
import { decodeAt, measure, newPicture, type Picture } from "./canvas-picture.ts";

/** Every picture has about so many pixels. */
const AREA = 1024 * 1024;
/** The longer side of the blurred copy that fills what the source does not cover, pixels. */
const BLUR = 24;
/** How much darker the filling is, so that the picture stands out. */
const DIM = 0.82;

/** The size of a picture of exactly this ratio (`16:9`), of about a megapixel. */
export function sizeOf(ratio: string): Pixels {
  const [wide = 1, high = 1] = ratio.split(":").map(Number);
  const unit = Math.max(1, Math.floor(Math.sqrt(AREA / (wide * high))));
  return { width: wide * unit, height: high * unit };
}

function scaled({ width, height }: Pixels, scale: number): Pixels {
  const side = (length: number) => Math.max(1, Math.round(length * scale));
  return { width: side(width), height: side(height) };
}

/** The largest size of the ratio of `size` that lies inside `frame`. */
const sizeInside = (size: Pixels, frame: Pixels): Pixels =>
  scaled(size, Math.min(frame.width / size.width, frame.height / size.height));

/** The smallest size of the ratio of `size` that covers `frame`. */
const sizeAround = (size: Pixels, frame: Pixels): Pixels =>
  scaled(size, Math.max(frame.width / size.width, frame.height / size.height));

/**
 * A source image in a new frame: all of it, not stretched, and around it a blurred continuation of its own. Rejects when the source cannot be
 * read.
 */
export async function reframe(source: Uint8Array, ratio: string): Promise<Picture> {
  const frame = sizeOf(ratio);
  const size = await measure(source);
  const inside = sizeInside(size, frame);
  const image = await decodeAt(source, inside.width, inside.height);
  if (inside.width === frame.width && inside.height === frame.height) return image;
  const small = sizeInside(size, { width: BLUR, height: BLUR });
  const picture = newPicture(frame.width, frame.height);
  fillBlurred(picture, await decodeAt(source, small.width, small.height), sizeAround(size, frame));
  place(picture, image);
  return picture;
}

/** Fills the picture with the small one, scaled up smoothly to `cover` and centred. */
function fillBlurred(picture: Picture, small: Picture, cover: Pixels): void {
  const { width, height, stride, pixels } = picture;
  const left = (cover.width - width) / 2;
  const top = (cover.height - height) / 2;
  for (let row = 0; row < height; row++) {
    const y = along(row + top, cover.height, small.height);
    for (let column = 0; column < width; column++) {
      const x = along(column + left, cover.width, small.width);
      const to = row * stride + column * 3;
      for (let channel = 0; channel < 3; channel++) pixels[to + channel] = sample(small, x, y, channel) * DIM;
    }
  }
}

/** The place on a side of `to` pixels, counted from centre to centre, that the pixel `at` of a side of `from` pixels falls on. */
function along(at: number, from: number, to: number): number {
  return Math.min(to - 1, Math.max(0, ((at + 0.5) * to) / from - 0.5));
}

/** The value of a channel at a place between pixels, mixed of the four around it. */
function sample({ width, height, stride, pixels }: Picture, x: number, y: number, channel: number): number {
  const [column, row] = [Math.floor(x), Math.floor(y)];
  const [nextColumn, nextRow] = [Math.min(width - 1, column + 1), Math.min(height - 1, row + 1)];
  const value = (r: number, c: number) => pixels[r * stride + c * 3 + channel]!;
  const [dx, dy] = [x - column, y - row];
  const upper = value(row, column) * (1 - dx) + value(row, nextColumn) * dx;
  const lower = value(nextRow, column) * (1 - dx) + value(nextRow, nextColumn) * dx;
  return upper * (1 - dy) + lower * dy;
}

/** Puts an image in the middle. */
function place(picture: Picture, image: Picture): void {
  const left = Math.floor((picture.width - image.width) / 2);
  const top = Math.floor((picture.height - image.height) / 2);
  for (let row = 0; row < image.height; row++) {
    const from = row * image.stride;
    picture.pixels.set(image.pixels.subarray(from, from + image.width * 3), (row + top) * picture.stride + left * 3);
  }
}
