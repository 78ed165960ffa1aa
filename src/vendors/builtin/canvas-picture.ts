import { inflateSync } from "node:zlib";
import type { Pixels } from "../../lib/pixels.ts";
import type { Colour } from "./canvas-palette.ts";

/** Pixels, three bytes each (blue, green, red), row by row from the top; each row is filled up to a multiple of four bytes. */
export type Picture = { width: number; height: number; stride: number; pixels: Uint8Array };

/** Largest picture that is decoded, pixels: what the gateway takes as a result (reliability 5.4). */
const MAX_PIXELS = 64_000_000;

/** A black picture. */
export function newPicture(width: number, height: number): Picture {
  const stride = Math.ceil((width * 3) / 4) * 4;
  return { width, height, stride, pixels: new Uint8Array(stride * height) };
}

/** Gives the pixel whose first byte stands at `at` a colour. */
export function put({ pixels }: Picture, at: number, [red, green, blue]: Colour): void {
  pixels[at] = blue;
  pixels[at + 1] = green;
  pixels[at + 2] = red;
}

/** Lays a colour over such a pixel, `share` of it. */
export function blend({ pixels }: Picture, at: number, [red, green, blue]: Colour, share: number): void {
  pixels[at] = pixels[at]! + (blue - pixels[at]!) * share;
  pixels[at + 1] = pixels[at + 1]! + (green - pixels[at + 1]!) * share;
  pixels[at + 2] = pixels[at + 2]! + (red - pixels[at + 2]!) * share;
}

/** The picture as a PNG file. The runtime's encoder takes raw pixels only as a bitmap file, which is made first. */
export function encodePng({ width, height, pixels }: Picture): Promise<Uint8Array> {
  const bitmap = Buffer.alloc(54 + pixels.length);
  bitmap.write("BM", 0, "latin1");
  bitmap.writeUInt32LE(bitmap.length, 2);
  bitmap.writeUInt32LE(54, 10);
  bitmap.writeUInt32LE(40, 14);
  bitmap.writeInt32LE(width, 18);
  // Negative: the first row is the top one.
  bitmap.writeInt32LE(-height, 22);
  bitmap.writeUInt16LE(1, 26);
  bitmap.writeUInt16LE(24, 28);
  bitmap.set(pixels, 54);
  return new Bun.Image(bitmap).png({ compressionLevel: 6 }).bytes();
}

/** Width and height of an image file. Rejects when it cannot be read. */
export async function measure(bytes: Uint8Array): Promise<Pixels> {
  return new Bun.Image(bytes, { maxPixels: MAX_PIXELS }).metadata();
}

/** An image file scaled to exactly this size. Rejects when it cannot be read. */
export async function decodeAt(bytes: Uint8Array, width: number, height: number): Promise<Picture> {
  const image = new Bun.Image(bytes, { maxPixels: MAX_PIXELS }).resize(width, height);
  return readPng(await image.png({ compressionLevel: 0 }).bytes());
}

/** Bytes of a pixel by a PNG's colour type; 8 bits a channel is all that the runtime writes for these. */
const CHANNELS: Readonly<Record<number, number>> = { 0: 1, 2: 3, 4: 2, 6: 4 };

/** The pixels of a PNG that this process has just made; what is transparent is laid on white. Throws TypeError for a kind that the runtime does not write. */
function readPng(file: Uint8Array): Picture {
  const png = Buffer.from(file.buffer, file.byteOffset, file.byteLength);
  const picture = newPicture(png.readUInt32BE(16), png.readUInt32BE(20));
  const channels = CHANNELS[png[25] ?? -1];
  if (channels === undefined || png[24] !== 8 || png[28] !== 0) throw new TypeError("This PNG is of an unknown kind.");
  const parts: Buffer[] = [];
  for (let at = 8; at + 12 <= png.length; ) {
    const length = png.readUInt32BE(at);
    if (png.toString("latin1", at + 4, at + 8) === "IDAT") parts.push(png.subarray(at + 8, at + 8 + length));
    at += length + 12;
  }
  const raw = inflateSync(Buffer.concat(parts));
  unfilter(raw, picture.width * channels, picture.height, channels);
  copyPixels(raw, picture, channels);
  return picture;
}

/** The predictor that PNG calls Paeth. */
function paeth(left: number, above: number, corner: number): number {
  const guess = left + above - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - above), Math.abs(guess - corner)];
  if (a <= b && a <= c) return left;
  return b <= c ? above : corner;
}

/** Undoes the filters of a PNG's rows in place: each row has its filter's number in front. */
function unfilter(raw: Buffer, rowBytes: number, rows: number, step: number): void {
  for (let row = 0; row < rows; row++) {
    const start = row * (rowBytes + 1) + 1;
    const filter = raw[start - 1];
    if (filter === 0) continue;
    for (let at = 0; at < rowBytes; at++) {
      const here = start + at;
      const left = at >= step ? raw[here - step]! : 0;
      const above = row > 0 ? raw[here - rowBytes - 1]! : 0;
      const corner = at >= step && row > 0 ? raw[here - rowBytes - 1 - step]! : 0;
      const guesses = [0, left, above, (left + above) >> 1, filter === 4 ? paeth(left, above, corner) : 0];
      raw[here] = raw[here]! + (guesses[filter ?? 0] ?? 0);
    }
  }
}

function copyPixels(raw: Buffer, { width, height, stride, pixels }: Picture, channels: number): void {
  const coloured = channels >= 3;
  const alphaAt = channels === 4 ? 3 : channels === 2 ? 1 : -1;
  for (let row = 0; row < height; row++) {
    let from = row * (width * channels + 1) + 1;
    let to = row * stride;
    for (let column = 0; column < width; column++, from += channels, to += 3) {
      const alpha = alphaAt < 0 ? 255 : raw[from + alphaAt]!;
      for (let channel = 0; channel < 3; channel++) {
        const value = raw[from + (coloured ? 2 - channel : 0)]!;
        pixels[to + channel] = alpha === 255 ? value : (value * alpha + 255 * (255 - alpha)) / 255;
      }
    }
  }
}
