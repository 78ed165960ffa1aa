import type { ImageRule } from "../../catalog/token-families.ts";
import { readPictureSize, readPictureType } from "../../lib/picture.ts";
import type { Pixels } from "../../lib/pixels.ts";

/** What a picture of unknown size is taken for (dialects.md 6.3). */
const UNKNOWN_SIZE: Pixels = { width: 1000, height: 1000 };

/** How much of a picture is decoded to find its size, base64 characters: a JPEG may hold metadata of any length before it. */
const HEADS = [4_096, 131_072, 2_097_152];

/** The size that the header of a PNG, JPEG, GIF or WebP picture tells, given as base64; undefined when there is none to read. */
export function readImageSize(base64: string): Pixels | undefined {
  for (const head of HEADS) {
    const bytes = Buffer.from(base64.slice(0, head), "base64");
    const type = readPictureType(bytes);
    if (!type) return undefined;
    const size = readPictureSize(type, bytes);
    if (size) return size;
    if (base64.length <= head) return undefined;
  }
  return undefined;
}

const shrink = ({ width, height }: Pixels, scale: number): Pixels =>
  scale < 1 ? { width: width * scale, height: height * scale } : { width, height };

function countTiles(size: Pixels): number {
  const fitted = shrink(size, 2048 / Math.max(size.width, size.height));
  const { width, height } = shrink(fitted, 768 / Math.min(fitted.width, fitted.height));
  return Math.ceil(width / 512) * Math.ceil(height / 512);
}

function countPatches({ width, height }: Pixels, edge: number, most: number): number {
  const patches = Math.ceil(width / edge) * Math.ceil(height / edge);
  return Math.min(patches, most);
}

/** Tokens of a picture by its family's rule (dialects.md 6.3). At least 1. */
export function imageTokens(rule: ImageRule, size: Pixels = UNKNOWN_SIZE): number {
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
