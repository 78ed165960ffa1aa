import { closeSync, constants, openSync, readSync } from "node:fs";
import { errorCode } from "../lib/error-code.ts";

/** How long a pipe without new bytes is waited for in all, and how often it is looked at, ms: a start must not hang on one that nobody writes to. */
const PATIENCE_MS = 5_000;
const LOOK_MS = 10;
const PIECE_BYTES = 64 * 1024;

/** The content of pipes that were read, by their paths: a pipe can be read only once, and the configuration is read again while the server runs. */
const come = new Map<string, Buffer>();

/** The next bytes of a pipe: 0 when nobody has it open for writing, undefined when its writer has nothing yet. */
function readPiece(descriptor: number, piece: Buffer): number | undefined {
  try {
    return readSync(descriptor, piece);
  } catch (thrown) {
    if (errorCode(thrown) === "EAGAIN") return undefined;
    throw thrown;
  }
}

/**
 * All that comes through the pipe at `path` (a shell's `<(…)`, `/dev/stdin`, a FIFO) until its writer closes it; a later call for the same path
 * returns the same. Throws Error, with a sentence, for more than `maxBytes` and after {@link PATIENCE_MS} of waiting.
 */
export function readPipe(path: string, maxBytes: number): Buffer {
  const known = come.get(path);
  if (known) return known;
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const pieces: Buffer[] = [];
    let size = 0;
    for (let waitedMs = 0; ; ) {
      const piece = Buffer.alloc(PIECE_BYTES);
      const count = readPiece(descriptor, piece);
      if (count) {
        size += count;
        if (size > maxBytes) throw new Error(`expected at most ${maxBytes} bytes, found more`);
        pieces.push(piece.subarray(0, count));
      } else if (count === 0 && size > 0) {
        const bytes = Buffer.concat(pieces);
        come.set(path, bytes);
        return bytes;
      } else {
        // A FIFO that nobody has opened for writing yet looks like one that has ended: so an empty one is waited for as well.
        if (waitedMs >= PATIENCE_MS) {
          throw new Error(`expected text that ends within ${PATIENCE_MS / 1000} s, found a pipe that nobody ends`);
        }
        Bun.sleepSync(LOOK_MS);
        waitedMs += LOOK_MS;
      }
    }
  } finally {
    closeSync(descriptor);
  }
}
