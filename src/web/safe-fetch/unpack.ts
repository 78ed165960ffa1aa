import type { Transform } from "node:stream";
import { codingOf } from "../../lib/http1/coding.ts";
import { FetchFault } from "./fault.ts";

/** Encodings that are asked for. Not zstd, which is taken as well: nobody tells where a body of it was torn off (Bun 1.4.5, node:zlib). */
export const ENCODINGS = "gzip, deflate, br";

/** Bytes that an unpacker gives at a time. */
const chunkSize = 64 * 1024;

/** Whether a body called `deflate` is in zlib's format, whose first two bytes have a check sum (RFC 1950 2.2). Some servers send bare deflate by that name. */
const isZlib = ([first = 0, second = 0]: Uint8Array) => (first & 15) === 8 && (first * 256 + second) % 31 === 0;

/** The first bytes of a body, which may come one by one: two at least, unless it has fewer. */
async function firstBytes(packed: AsyncGenerator<Uint8Array>): Promise<Uint8Array> {
  let bytes: Uint8Array = new Uint8Array();
  while (bytes.length < 2) {
    const next = await packed.next();
    if (next.done) break;
    bytes = bytes.length === 0 ? next.value : Buffer.concat([bytes, next.value]);
  }
  return bytes;
}

type Zlib = typeof import("node:zlib");

/** What makes an unpacker, by the encoding's name. `first`: the first bytes of the body. */
const UNPACKERS = new Map<string, (zlib: Zlib, first: Uint8Array) => Transform>([
  ["gzip", (zlib) => zlib.createGunzip({ chunkSize })],
  ["x-gzip", (zlib) => zlib.createGunzip({ chunkSize })],
  [
    "deflate",
    (zlib, first) => (isZlib(first) ? zlib.createInflate({ chunkSize }) : zlib.createInflateRaw({ chunkSize })),
  ],
  ["br", (zlib) => zlib.createBrotliDecompress({ chunkSize })],
  ["zstd", (zlib) => zlib.createZstdDecompress({ chunkSize })],
]);

/**
 * A body's bytes without its `content-encoding`, unpacked no faster than they are taken: fetch itself unpacks some encodings in one go, however much that gives.
 * Throws FetchFault for encodings that are not known and for several at once, and whatever is wrong with the packed bytes.
 */
export async function* unpack(packed: AsyncGenerator<Uint8Array>, encoding: string): AsyncGenerator<Uint8Array> {
  const name = codingOf(encoding);
  if (name === undefined) {
    yield* packed;
    return;
  }
  const toUnpacker = UNPACKERS.get(name);
  if (!toUnpacker) throw new FetchFault("unreachable", "The server packed it in a way that is not known here.");
  const first = await firstBytes(packed);
  if (first.length === 0) return;
  const rest = async function* () {
    yield first;
    yield* packed;
  };
  // Loaded with the first packed page: at the start they would cost a good part of it.
  const [{ pipeline, Readable }, zlib] = await Promise.all([import("node:stream"), import("node:zlib")]);
  // What goes wrong on either side is thrown where the bytes are taken.
  yield* pipeline(Readable.from(rest()), toUnpacker(zlib, first), () => {});
}
