import { constants, type Database } from "bun:sqlite";

/** Where SQLite writes its answer. Bun takes no array of less than 8 bytes. */
const answer = new Int32Array(2);

/**
 * Whether the file of an open database is no longer the one under its name (SQLite's file control HAS_MOVED, 2 µs): it was removed, moved away, or
 * replaced by another. False for a database in memory, and where the system lets nobody take an open file away.
 */
export function hasMoved(database: Database): boolean {
  return database.fileControl(constants.SQLITE_FCNTL_HAS_MOVED, answer) === 0 && answer[0] !== 0;
}
