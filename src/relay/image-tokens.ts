import type { ImageRule } from "../catalog/token-families.ts";

/** A picture's size, pixels. */
export type Size = { width: number; height: number };

/** What a picture of unknown size is taken for (dialects.md 6.3). */
const UNKNOWN_SIZE: Size = { width: 1000, height: 1000 };

/** How much of a picture is decoded to find its size, base64 characters: a JPEG may hold metadata of any length before it. */
const HEADS = [4_096, 131_072, 2_097_152];

const sizeOrNone = (width: number, height: number): Size | undefined =>
  width > 0 && height > 0 ? { width, height } : undefined;

function readWebp(bytes: Buffer): Size | undefined {
  if (bytes.length < 30) return undefined;
  const kind = bytes.toString("latin1", 12, 16);
  if (kind === "VP8X") return sizeOrNone(bytes.readUIntLE(24, 3) + 1, bytes.readUIntLE(27, 3) + 1);
  if (kind === "VP8 ") return sizeOrNone(bytes.readUInt16LE(26) & 0x3fff, bytes.readUInt16LE(28) & 0x3fff);
  if (kind !== "VP8L") return undefined;
  const bits = bytes.readUInt32LE(21);
  return sizeOrNone((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1);
}

/** Start-of-frame markers: C0 to CF without DHT, JPG and DAC. */
const isFrame = (marker: number) => marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);

function readJpeg(bytes: Buffer): Size | undefined {
  let at = 2;
  while (at + 9 <= bytes.length) {
    if (bytes[at] !== 0xff) return undefined;
    const marker = bytes[at + 1] ?? 0;
    if (marker === 0xff) at++;
    else if (isFrame(marker)) return sizeOrNone(bytes.readUInt16BE(at + 7), bytes.readUInt16BE(at + 5));
    else at += 2 + Math.max(2, bytes.readUInt16BE(at + 2));
  }
  return undefined;
}

function readSize(bytes: Buffer): Size | undefined {
  const magic = bytes.toString("latin1", 0, 4);
  if (magic === "\x89PNG" && bytes.length >= 24) return sizeOrNone(bytes.readUInt32BE(16), bytes.readUInt32BE(20));
  if (magic === "GIF8" && bytes.length >= 10) return sizeOrNone(bytes.readUInt16LE(6), bytes.readUInt16LE(8));
  if (magic === "RIFF") return readWebp(bytes);
  return magic.startsWith("\xff\xd8") ? readJpeg(bytes) : undefined;
}

/** The size that the header of a PNG, JPEG, GIF or WebP picture tells, given as base64; undefined when there is none to read. */
export function readImageSize(base64: string): Size | undefined {
  for (const head of HEADS) {
    const size = readSize(Buffer.from(base64.slice(0, head), "base64"));
    if (size) return size;
    if (base64.length <= head) return undefined;
  }
  return undefined;
}

const shrink = ({ width, height }: Size, scale: number): Size =>
  scale < 1 ? { width: width * scale, height: height * scale } : { width, height };

function countTiles(size: Size): number {
  const fitted = shrink(size, 2048 / Math.max(size.width, size.height));
  const { width, height } = shrink(fitted, 768 / Math.min(fitted.width, fitted.height));
  return Math.ceil(width / 512) * Math.ceil(height / 512);
}

function countPatches({ width, height }: Size, edge: number, most: number): number {
  const patches = Math.ceil(width / edge) * Math.ceil(height / edge);
  return Math.min(patches, most);
}

/** Tokens of a picture by its family's rule (dialects.md 6.3). At least 1. */
export function imageTokens(rule: ImageRule, size: Size = UNKNOWN_SIZE): number {
  if (rule.kind === "fixed") return rule.tokens;
  if (rule.kind === "tiles") return rule.base + rule.perTile * countTiles(size);
  if (rule.kind === "patches") return Math.ceil(countPatches(size, rule.edge, rule.mostPatches) * rule.factor);
  if (rule.kind === "crops") {
    const small = Math.max(size.width, size.height) <= 384;
    return rule.perTile * (small ? 1 : Math.min(64, Math.ceil(size.width / 768) * Math.ceil(size.height / 768)));
  }
  const { width, height } = shrink(size, rule.longEdge / Math.max(size.width, size.height));
  return Math.max(1, Math.min(rule.most, Math.ceil((width * height) / rule.pixelsPerToken)));
}
