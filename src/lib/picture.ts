import type { Pixels } from "./pixels.ts";

type PictureType = "image/png" | "image/jpeg" | "image/webp" | "image/gif";

/** The type of a picture by its first 12 bytes; undefined for anything else. */
export function readPictureType(bytes: Buffer): PictureType | undefined {
  const magic = bytes.toString("latin1", 0, 12);
  if (magic.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (magic.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (magic.startsWith("GIF8")) return "image/gif";
  return magic.startsWith("RIFF") && magic.endsWith("WEBP") ? "image/webp" : undefined;
}

/** A PNG's header chunk is always the first: length, "IHDR", width, height. */
function readPng(bytes: Buffer): Pixels | undefined {
  if (bytes.length < 24 || bytes.toString("latin1", 12, 16) !== "IHDR") return undefined;
  return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
}

/** Start-of-frame markers of a JPEG; the three other markers of that range are something else. */
const isFrame = (marker: number) => marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);

/** Index of a JPEG's start-of-frame marker, after which its size stands; undefined where there is none in these bytes. */
export function findJpegFrame(bytes: Buffer): number | undefined {
  let at = 2;
  while (at + 9 <= bytes.length) {
    if (bytes[at] !== 0xff) return undefined;
    const marker = bytes[at + 1] as number;
    if (marker === 0xff) {
      at++;
      continue;
    }
    if (isFrame(marker)) return at;
    const length = bytes.readUInt16BE(at + 2);
    if (length < 2) return undefined;
    at += 2 + length;
  }
  return undefined;
}

function readJpeg(bytes: Buffer): Pixels | undefined {
  const at = findJpegFrame(bytes);
  return at === undefined ? undefined : { width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) };
}

function readWebp(bytes: Buffer): Pixels | undefined {
  if (bytes.length < 30) return undefined;
  const kind = bytes.toString("latin1", 12, 16);
  if (kind === "VP8X") return { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 };
  if (kind === "VP8 ") return { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff };
  if (kind !== "VP8L") return undefined;
  const bits = bytes.readUInt32LE(21);
  return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
}

function readGif(bytes: Buffer): Pixels | undefined {
  return bytes.length < 10 ? undefined : { width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) };
}

const READERS: Readonly<Record<PictureType, (bytes: Buffer) => Pixels | undefined>> = {
  "image/png": readPng,
  "image/jpeg": readJpeg,
  "image/webp": readWebp,
  "image/gif": readGif,
};

/** The size by the header of a picture, which is never decoded; undefined where the header is damaged, or is not in these bytes. */
export function readPictureSize(type: PictureType, bytes: Buffer): Pixels | undefined {
  const size = READERS[type](bytes);
  return size && size.width > 0 && size.height > 0 ? size : undefined;
}
