import { appendFileSync, closeSync, openSync, readSync, statSync, truncateSync } from "node:fs";

/**
 * The end of a backup: these words, the database's count of changes, and the SHA-256 of all that stands before. SQLite has no checksums of its own: to it
 * another letter in a name, or another digit in a limit, is as sound as the right one. It reads as many pages as the head of the file tells, and so leaves
 * this end alone.
 */
const SEAL_WORDS = "\nsluice-backup ";
const SEAL_LENGTH = `${SEAL_WORDS}12345678 `.length + 64 + "\n".length;
/** Where the head of a database has its count of changes, and once more the same count: SQLite writes both with each change. */
const CHANGES_AT = [24, 92] as const;
const HEAD_BYTES = 100;
/** Bytes of a file that are read at once for its digest. */
const PIECE_BYTES = 1 << 20;

/** The bytes of a file from `at` on, `length` of them at the most. */
export function readAt(file: string, at: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  const opened = openSync(file, "r");
  try {
    return bytes.subarray(0, readSync(opened, bytes, 0, length, at));
  } finally {
    closeSync(opened);
  }
}

/** Both counts of changes of a database, as hexadecimal digits. */
function changesOf(file: string): string[] {
  const head = readAt(file, 0, HEAD_BYTES);
  return CHANGES_AT.map((at) => head.toString("hex", at, at + 4));
}

function digestOf(file: string, length: number): string {
  const hasher = new Bun.CryptoHasher("sha256");
  for (let at = 0; at < length; at += PIECE_BYTES) hasher.update(readAt(file, at, Math.min(PIECE_BYTES, length - at)));
  return hasher.digest("hex");
}

/** The end, {@link SEAL_WORDS}, of a backup whose database is the first `length` bytes of `file`. */
const sealOf = (file: string, length: number) => `${SEAL_WORDS}${changesOf(file)[0]} ${digestOf(file, length)}\n`;

/** Puts the end of a backup, {@link SEAL_WORDS}, behind the database in `file`. */
export const seal = (file: string): void => appendFileSync(file, sealOf(file, statSync(file).size));

/**
 * Takes the end of a backup, {@link SEAL_WORDS}, off `file`. Returns false where the database before it is damaged. One that somebody has changed since by
 * means of SQLite is not, and neither is one without such an end: a store that was copied by hand, or a backup of an older version.
 */
export function unseal(file: string): boolean {
  const length = statSync(file).size - SEAL_LENGTH;
  if (length < HEAD_BYTES) return true;
  const found = readAt(file, length, SEAL_LENGTH).toString("latin1");
  if (!found.startsWith(SEAL_WORDS)) return true;
  const [changes, again] = changesOf(file);
  const wasChanged = changes === again && !found.startsWith(`${SEAL_WORDS}${changes} `);
  const isSound = wasChanged || found === sealOf(file, length);
  truncateSync(file, length);
  return isSound;
}
