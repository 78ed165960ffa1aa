import { type ImageType, MAX_IMAGE_BYTES, TOO_LARGE_IMAGE } from "../vendors/image-upstream.ts";

/** Most pixels of a result that is taken (reliability 5.4). */
export const MAX_IMAGE_PIXELS = 64_000_000;

/** Ends of file names by type; nothing else is ever written or served. */
export const EXTENSIONS: Readonly<Record<ImageType, string>> = {
  "image/png": "png",
  "image/jpeg": "jpg",
  "image/webp": "webp",
};

/** What the bytes themselves say. */
export type ImageFacts = { type: ImageType; width: number; height: number };

/** A result that is no image this gateway passes on. The message is for the caller. */
export class BadImage extends Error {
  override readonly name = "BadImage";
}

const startsWith = (bytes: Uint8Array, at: number, codes: readonly number[]) =>
  codes.every((code, index) => bytes[at + index] === code);

const PNG = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a] as const;
const JPEG = [0xff, 0xd8, 0xff] as const;
const RIFF = [0x52, 0x49, 0x46, 0x46] as const;
const WEBP = [0x57, 0x45, 0x42, 0x50] as const;

/** The type that the first bytes tell; a declared one is never believed (dialects.md 7). */
function typeOf(bytes: Uint8Array): ImageType | undefined {
  if (startsWith(bytes, 0, PNG)) return "image/png";
  if (startsWith(bytes, 0, JPEG)) return "image/jpeg";
  if (startsWith(bytes, 0, RIFF) && startsWith(bytes, 8, WEBP)) return "image/webp";
  return undefined;
}

type Size = { width: number; height: number } | undefined;

function pngSize(view: DataView): Size {
  // The header chunk is always the first: length, "IHDR", width, height.
  if (view.byteLength < 33 || view.getUint32(12) !== 0x49484452) return undefined;
  return { width: view.getUint32(16), height: view.getUint32(20) };
}

/** Start-of-frame markers; the four others of that range (C4, C8, CC) hold tables. */
const isFrame = (marker: number) => marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);

/** Where the frame's marker is, behind which the picture comes. */
function jpegFrame(view: DataView): number | undefined {
  let at = 2;
  while (at + 9 <= view.byteLength) {
    if (view.getUint8(at) !== 0xff) return undefined;
    const marker = view.getUint8(at + 1);
    if (marker === 0xff) {
      at++;
      continue;
    }
    if (isFrame(marker)) return at;
    const length = view.getUint16(at + 2);
    if (length < 2) return undefined;
    at += 2 + length;
  }
  return undefined;
}

function jpegSize(view: DataView): Size {
  const at = jpegFrame(view);
  return at === undefined ? undefined : { height: view.getUint16(at + 5), width: view.getUint16(at + 7) };
}

function webpSize(view: DataView): Size {
  if (view.byteLength < 30) return undefined;
  const kind = String.fromCharCode(...[12, 13, 14, 15].map((at) => view.getUint8(at)));
  const low = (at: number) => view.getUint16(at, true);
  if (kind === "VP8 ") return { width: low(26) & 0x3fff, height: low(28) & 0x3fff };
  if (kind === "VP8L") {
    const bits = view.getUint32(21, true);
    return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
  }
  if (kind !== "VP8X") return undefined;
  const three = (at: number) => low(at) | (view.getUint8(at + 2) << 16);
  return { width: three(24) + 1, height: three(27) + 1 };
}

const SIZES: Readonly<Record<ImageType, (view: DataView) => Size>> = {
  "image/png": pngSize,
  "image/jpeg": jpegSize,
  "image/webp": webpSize,
};

/** Bytes of a PNG chunk beside its data: length, name, checksum. */
const CHUNK_BYTES = 12;

/** Its chunks follow each other up to the last one, "IEND"; what stands behind that is nobody's. */
function isWholePng(view: DataView): boolean {
  for (let at = 8; at + CHUNK_BYTES <= view.byteLength; at += CHUNK_BYTES + view.getUint32(at)) {
    if (view.getUint32(at + 4) === 0x49454e44) return true;
  }
  return false;
}

/** Behind its frame no end marker can stand but its own; those of previews come before it. */
function isWholeJpeg(view: DataView): boolean {
  const bytes = Buffer.from(view.buffer, view.byteOffset, view.byteLength);
  return bytes.lastIndexOf("\xff\xd9", undefined, "latin1") > (jpegFrame(view) ?? 0);
}

const isWholeWebp = (view: DataView): boolean => view.byteLength >= 8 + view.getUint32(4, true);

const WHOLE: Readonly<Record<ImageType, (view: DataView) => boolean>> = {
  "image/png": isWholePng,
  "image/jpeg": isWholeJpeg,
  "image/webp": isWholeWebp,
};

/**
 * Type and size of a result, read from its header and never decoded: it may be hostile (reliability 5.4). Throws BadImage for anything but a
 * PNG, JPEG or WebP of at most 32 MiB and 64 megapixels that is there to its end: SVG and HTML are none.
 */
export function inspectImage(bytes: Uint8Array): ImageFacts {
  if (bytes.length > MAX_IMAGE_BYTES) throw new BadImage(TOO_LARGE_IMAGE);
  const type = typeOf(bytes);
  if (!type) throw new BadImage("The vendor's answer is no PNG, JPEG or WebP image.");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const size = SIZES[type](view);
  if (!size || size.width < 1 || size.height < 1) throw new BadImage("The vendor's image is damaged.");
  if (size.width * size.height > MAX_IMAGE_PIXELS) {
    throw new BadImage("The vendor's image has more than 64 megapixels.");
  }
  if (!WHOLE[type](view)) throw new BadImage("The vendor's image breaks off before its end.");
  return { type, ...size };
}
