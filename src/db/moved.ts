import { constants, type Database } from "bun:sqlite";

/** Where SQLite writes what it is asked for: it takes nothing smaller. */
const answer = new Int32Array(2);

/**
 * Whether the file of an open database is no longer the one under its name (SQLite's file control HAS_MOVED, 2 µs): it was removed, moved away or put
 * another in its place. False for one in memory, and where an open file can be taken away by nobody.
 */
export function hasMoved(database: Database): boolean {
  return database.fileControl(constants.SQLITE_FCNTL_HAS_MOVED, answer) === 0 && answer[0] !== 0;
}
