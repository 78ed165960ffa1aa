import { findJpegFrame, readPictureSize, readPictureType } from "../lib/picture.ts";
import type { Pixels } from "../lib/pixels.ts";
import { type ImageType, MAX_IMAGE_BYTES, TOO_LARGE_IMAGE } from "../vendors/image-upstream.ts";

/** Most pixels of a result that is taken (reliability 5.4). */
const MAX_IMAGE_PIXELS = 64_000_000;

/** Ends of file names by type; nothing else is ever written or served. */
export const EXTENSIONS: Readonly<Record<ImageType, string>> = {
  "image/png": "png",
  "image/jpeg": "jpg",
  "image/webp": "webp",
};

/** What the bytes themselves say. */
type ImageFacts = Pixels & { type: ImageType };

/** A result that is no image this gateway passes on. The message is for the caller. */
export class BadImage extends Error {
  override readonly name = "BadImage";
}

/** Bytes of a PNG chunk beside its data: length, name, checksum. */
const CHUNK_BYTES = 12;

/** Its chunks follow each other up to the last one; what stands behind that is nobody's. */
function isWholePng(bytes: Buffer): boolean {
  for (let at = 8; at + CHUNK_BYTES <= bytes.length; at += CHUNK_BYTES + bytes.readUInt32BE(at)) {
    if (bytes.toString("latin1", at + 4, at + 8) === "IEND") return true;
  }
  return false;
}

/** Behind its frame no end marker can stand but its own; those of previews come before it. */
const isWholeJpeg = (bytes: Buffer): boolean =>
  bytes.lastIndexOf("\xff\xd9", undefined, "latin1") > (findJpegFrame(bytes) ?? 0);

const isWholeWebp = (bytes: Buffer): boolean => bytes.length >= 8 + bytes.readUInt32LE(4);

const WHOLE: Readonly<Record<ImageType, (bytes: Buffer) => boolean>> = {
  "image/png": isWholePng,
  "image/jpeg": isWholeJpeg,
  "image/webp": isWholeWebp,
};

/**
 * Type and size of a result, read from its header and never decoded: it may be hostile (reliability 5.4). Throws BadImage for anything but a
 * PNG, JPEG or WebP of at most 32 MiB and 64 megapixels that is there to its end: SVG and HTML are none.
 */
export function inspectImage(image: Uint8Array): ImageFacts {
  if (image.length > MAX_IMAGE_BYTES) throw new BadImage(TOO_LARGE_IMAGE);
  const bytes = Buffer.from(image.buffer, image.byteOffset, image.byteLength);
  const type = readPictureType(bytes);
  if (!type || type === "image/gif") throw new BadImage("The vendor's answer is no PNG, JPEG or WebP image.");
  const size = readPictureSize(type, bytes);
  if (!size) throw new BadImage("The vendor's image is damaged.");
  if (size.width * size.height > MAX_IMAGE_PIXELS) {
    throw new BadImage("The vendor's image has more than 64 megapixels.");
  }
  if (!WHOLE[type](bytes)) throw new BadImage("The vendor's image breaks off before its end.");
  return { type, ...size };
}
