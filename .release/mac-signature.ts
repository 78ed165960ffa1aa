/**
 * The signature of executables for macOS. Bun signs those that it makes for arm64. In those for x64 it leaves the signature of its own executable, which does
 * not fit any more (seen with 1.4.5, oven-sh/bun#39837), and macOS kills such a program at its start. So it is signed again here, ad hoc, as linkers do: the
 * signature names nobody, and only says that the file is whole. Names and numbers are those of Apple's cs_blobs.h and loader.h.
 */

const MAGIC_64 = 0xfeedfacf;
const LC_SEGMENT_64 = 0x19;
const LC_CODE_SIGNATURE = 0x1d;
const SUPER_BLOB = 0xfade0cc0;
const CODE_DIRECTORY = 0xfade0c02;
const HEADER_BYTES = 32;
const SUPER_BLOB_BYTES = 20;
const DIRECTORY_BYTES = 88;
const HASH_BYTES = 32;
const HASH_SHA256 = 2;
const PAGE = 4096;
/** Version 2.4: with the executable segment. */
const VERSION = 0x20400;
/** Ad hoc, and made by a linker: tools may replace it without being told to. */
const FLAGS = 0x20002;
const MAIN_BINARY = 1n;

/** Offsets of the load commands that matter to a signature, bytes from the start of the file. */
type Commands = { signature: number; linkedit: number; text: number };

const roundUp = (value: number, unit: number): number => Math.ceil(value / unit) * unit;
const sha256 = (bytes: Uint8Array): Uint8Array => new Bun.CryptoHasher("sha256").update(bytes).digest();

/** Throws Error for what is not a 64-bit Mach-O executable with room for a signature at its end. */
function findCommands(file: Buffer): Commands {
  if (file.length < HEADER_BYTES || file.readUInt32LE(0) !== MAGIC_64) throw new Error("not an executable for macOS");
  const found: Partial<Commands> = {};
  let at = HEADER_BYTES;
  for (let left = file.readUInt32LE(16); left > 0; left--) {
    const command = file.readUInt32LE(at);
    if (command === LC_CODE_SIGNATURE) found.signature = at;
    if (command === LC_SEGMENT_64) {
      const name = file.toString("latin1", at + 8, at + 24).replace(/\0+$/, "");
      if (name === "__LINKEDIT") found.linkedit = at;
      if (name === "__TEXT") found.text = at;
    }
    at += file.readUInt32LE(at + 4);
  }
  const { signature, linkedit, text } = found;
  if (signature === undefined || linkedit === undefined || text === undefined)
    throw new Error("no place for a signature");
  return { signature, linkedit, text };
}

/** The hashes of all pages before the signature; the last page only as far as it goes. */
function hashPages(file: Buffer, limit: number): Buffer {
  const hashes: Uint8Array[] = [];
  for (let at = 0; at < limit; at += PAGE) hashes.push(sha256(file.subarray(at, Math.min(at + PAGE, limit))));
  return Buffer.concat(hashes);
}

/** Whether the signature covers the whole file and fits it. Throws Error for what is no executable for macOS. */
export function hasSoundSignature(file: Buffer): boolean {
  const { signature } = findCommands(file);
  const limit = file.readUInt32LE(signature + 8);
  const blob = file.subarray(limit, limit + file.readUInt32LE(signature + 12));
  if (blob.length < SUPER_BLOB_BYTES + DIRECTORY_BYTES || blob.readUInt32BE(0) !== SUPER_BLOB) return false;
  const directory = blob.subarray(blob.readUInt32BE(16));
  if (directory.length < DIRECTORY_BYTES || directory.readUInt32BE(0) !== CODE_DIRECTORY) return false;
  if (directory.readUInt32BE(32) !== limit || directory.readUInt8(37) !== HASH_SHA256) return false;
  const first = directory.readUInt32BE(16);
  return hashPages(file, limit).equals(directory.subarray(first, first + directory.readUInt32BE(28) * HASH_BYTES));
}

function writeDirectory(file: Buffer, limit: number, text: number, identifier: string): Buffer {
  const name = Buffer.from(`${identifier}\0`);
  const hashes = hashPages(file, limit);
  const head = Buffer.alloc(DIRECTORY_BYTES);
  const hashesAt = DIRECTORY_BYTES + name.length;
  const words = [CODE_DIRECTORY, hashesAt + hashes.length, VERSION, FLAGS, hashesAt, DIRECTORY_BYTES, 0];
  for (const [at, word] of [...words, hashes.length / HASH_BYTES, limit].entries()) head.writeUInt32BE(word, at * 4);
  head.writeUInt8(HASH_BYTES, 36);
  head.writeUInt8(HASH_SHA256, 37);
  head.writeUInt8(Math.log2(PAGE), 39);
  head.writeBigUInt64BE(file.readBigUInt64LE(text + 40), 64);
  head.writeBigUInt64BE(file.readBigUInt64LE(text + 48), 72);
  head.writeBigUInt64BE(MAIN_BINARY, 80);
  return Buffer.concat([head, name, hashes]);
}

/**
 * `file` with an ad-hoc signature in place of the one it has; the same bytes give the same bytes. Throws Error for what is no executable for macOS, or
 * one whose signature is not at its end.
 */
export function signForMac(file: Buffer, identifier: string): Buffer {
  const { signature, linkedit, text } = findCommands(file);
  const limit = file.readUInt32LE(signature + 8);
  const edit = Number(file.readBigUInt64LE(linkedit + 40));
  if (limit % 16 !== 0 || limit < edit || limit + file.readUInt32LE(signature + 12) < file.length - 16) {
    throw new Error("the signature is not at the end of the file");
  }
  const code = Buffer.from(file.subarray(0, limit));
  const hashed = Math.ceil(limit / PAGE) * HASH_BYTES;
  const blobBytes = SUPER_BLOB_BYTES + DIRECTORY_BYTES + Buffer.byteLength(identifier) + 1 + hashed;
  const room = roundUp(blobBytes, 16);
  // Before the pages are hashed: the sizes are in the first of them.
  code.writeUInt32LE(room, signature + 12);
  code.writeBigUInt64LE(BigInt(limit + room - edit), linkedit + 48);
  code.writeBigUInt64LE(BigInt(roundUp(limit + room - edit, PAGE)), linkedit + 32);
  const head = Buffer.alloc(SUPER_BLOB_BYTES);
  for (const [at, word] of [SUPER_BLOB, blobBytes, 1, 0, SUPER_BLOB_BYTES].entries()) head.writeUInt32BE(word, at * 4);
  const blob = Buffer.concat([head, writeDirectory(code, limit, text, identifier)]);
  return Buffer.concat([code, blob, Buffer.alloc(room - blob.length)]);
}
