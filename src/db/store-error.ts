import { GatewayError, TellableError } from "../canon/errors.ts";
import { errorCode } from "../lib/error-code.ts";

/** What a client is told to wait before it asks again, seconds. */
const WAIT_SECONDS = 2;

/** What a client is told while the store fails. */
export const NOT_WRITABLE = "The gateway cannot write its books at the moment. Try again in a moment.";

/** What is wrong with a store, for code that must tell the cases apart. */
export type StoreFault = "locked" | "damaged" | "read-only" | "disk-full" | "newer" | "unusable" | "busy" | "closed";

/** A fault of the store in one plain sentence for the operator. It may name a file, so it is never shown to a client. */
export class StoreError extends TellableError {
  override readonly name = "StoreError";

  constructor(
    readonly fault: StoreFault,
    message: string,
    cause?: unknown,
  ) {
    super(message, { cause });
  }

  /** 503, or 529 in the messages dialect, and worth another try: the disk may have room again (reliability 8.2, N2). */
  override tell(): GatewayError {
    return new GatewayError("upstream_overloaded", NOT_WRITABLE, { retryAfterSeconds: WAIT_SECONDS, cause: this });
  }
}

/** Beginnings of SQLite result codes and system error codes, and what they mean to the operator. First match wins. */
const FAULTS: readonly (readonly [prefix: string, fault: StoreFault, sentence: string])[] = [
  ["SQLITE_BUSY", "locked", "is in use by another program; try again when that is done"],
  ["SQLITE_LOCKED", "locked", "is in use by another program; try again when that is done"],
  ["SQLITE_CORRUPT", "damaged", "is damaged; restore it from a backup"],
  ["SQLITE_NOTADB", "damaged", "is damaged or not a Sluice store; restore it from a backup"],
  [
    "SQLITE_READONLY",
    "read-only",
    "cannot be written; check its owner and permissions, and that its disk is not mounted read-only",
  ],
  ["EACCES", "read-only", "cannot be opened by this user; check its owner and permissions"],
  ["EPERM", "read-only", "cannot be opened by this user; check its owner and permissions"],
  ["EROFS", "read-only", "is on a file system that cannot be written"],
  ["SQLITE_FULL", "disk-full", "cannot grow: the disk is full"],
  ["ENOSPC", "disk-full", "cannot grow: the disk is full"],
  // The `-shm` file that processes share could not be made larger. SQLite says no more than that; what keeps it from it is a full disk.
  ["SQLITE_IOERR_SHMSIZE", "disk-full", "cannot grow: the disk is full"],
  [
    "SQLITE_CANTOPEN",
    "unusable",
    "cannot be opened; check that its folder exists, may be written and has room for another file",
  ],
  // A used-up quota comes so as well: SQLite calls nothing but the system's ENOSPC a full disk, and tells no more of others.
  [
    "SQLITE_IOERR_WRITE",
    "unusable",
    "cannot be written: the disk reports an error, or this user's quota on it is used up",
  ],
  ["EDQUOT", "disk-full", "cannot grow: this user's quota on the disk is used up"],
  ["SQLITE_IOERR", "unusable", "cannot be read or written: the disk reports an error"],
  ["ENAMETOOLONG", "unusable", "cannot be opened: its path is too long"],
  ["ENOTDIR", "unusable", "cannot be opened: part of its path is a file, not a folder"],
  ["ENOENT", "unusable", "cannot be opened: its folder cannot be made"],
  ["EEXIST", "unusable", "cannot be opened: part of its path is a file, not a folder, or a link that leads nowhere"],
];

/**
 * Anything thrown while using the store at `path`: a fault of the file or the disk becomes a {@link StoreError}, everything else
 * (a broken constraint, a bug) is given back as it was.
 */
export function toStoreError(thrown: unknown, path: string): unknown {
  const code = errorCode(thrown);
  const row = FAULTS.find(([prefix]) => code.startsWith(prefix));
  return row ? new StoreError(row[1], `The store ${path} ${row[2]}.`, thrown) : thrown;
}

/**
 * {@link toStoreError} for work that uses the store at `path` and other files too: only what SQLite itself throws becomes a {@link StoreError}, since a
 * system error (such as ENOENT) may be about one of the others.
 */
export function ofStore(thrown: unknown, path: string): unknown {
  return errorCode(thrown).startsWith("SQLITE_") ? toStoreError(thrown, path) : thrown;
}
