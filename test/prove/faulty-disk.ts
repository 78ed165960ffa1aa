import { Database, type Statement } from "bun:sqlite";
import { FolderFiles } from "../../src/jobs/files.ts";

/** Error codes that SQLite gives for a broken disk, and whether it undoes the whole transaction with them, as it does for some. */
export const FAULTS = [
  { code: "SQLITE_FULL", undoes: true },
  { code: "SQLITE_IOERR_WRITE", undoes: true },
  { code: "SQLITE_READONLY", undoes: false },
  { code: "SQLITE_FULL", undoes: false },
  { code: "SQLITE_IOERR_FSYNC", undoes: true },
] as const;
export type Fault = (typeof FAULTS)[number];

/** Statements that write. A rollback does not: it undoes what is in memory. */
const WRITES =
  /^\s*(?:BEGIN|COMMIT|SAVEPOINT|RELEASE|INSERT|UPDATE|DELETE|REPLACE|VACUUM|CREATE|WITH\b.*\b(?:INSERT|UPDATE|DELETE))/is;

type Armed = { at: number; fault: Fault; lasting: boolean };

/** Counts every write to stores and image files, and makes the one fail that it is told to. There is one for the whole process. */
class FaultyDisk {
  #count = 0;
  #armed: Armed | undefined;
  /** Faults that were thrown since it was armed. */
  thrown = 0;

  /** Writes since it was armed. */
  get count(): number {
    return this.#count;
  }

  /** From now on write number `at`, from 1, fails; and all behind it, when it is lasting, until {@link heal}. */
  arm(armed: Armed): void {
    this.#armed = armed;
    this.#count = 0;
    this.thrown = 0;
  }

  heal(): void {
    this.#armed = undefined;
  }

  /** Called before each write: the fault it is to fail with, or undefined. */
  next(): Fault | undefined {
    this.#count++;
    const { at, lasting, fault } = this.#armed ?? { at: Number.POSITIVE_INFINITY, lasting: false };
    if (lasting ? this.#count < at : this.#count !== at) return undefined;
    this.thrown++;
    return fault;
  }
}

export const disk = new FaultyDisk();

const errorOf = (code: string) => Object.assign(new Error(`${code} of the proof`), { name: "SQLiteError", code });

/** Bun gives the same statement object each time a query is asked for, which must be changed only once. */
const guardedStatements = new WeakSet<Statement>();

/** Makes every way to run a statement ask the disk first. */
function guardStatement(database: Database, rollback: () => void, sql: string, statement: Statement): Statement {
  if (!WRITES.test(sql) || guardedStatements.has(statement)) return statement;
  guardedStatements.add(statement);
  for (const way of ["run", "get", "all", "values"] as const) {
    const real = statement[way].bind(statement) as (...values: never[]) => unknown;
    const guarded = (...values: never[]) => {
      const fault = disk.next();
      if (!fault) return real(...values);
      if (fault.undoes && database.inTransaction) rollback();
      throw errorOf(fault.code);
    };
    Object.defineProperty(statement, way, { value: guarded });
  }
  return statement;
}

/** Puts the faulty disk below every store and every image file that this process opens from now on. */
export function installFaultyDisk(): void {
  const { prepare, query, run } = Database.prototype;
  const rollback = (database: Database) => () => void run.call(database, "ROLLBACK");
  Database.prototype.prepare = function (this: Database, sql: string, ...rest: never[]) {
    return guardStatement(this, rollback(this), sql, prepare.call(this, sql, ...rest));
  } as typeof prepare;
  Database.prototype.query = function (this: Database, sql: string) {
    return guardStatement(this, rollback(this), sql, query.call(this, sql));
  } as typeof query;
  const { save } = FolderFiles.prototype;
  FolderFiles.prototype.save = async function (name, bytes) {
    const fault = disk.next();
    if (!fault) return save.call(this, name, bytes);
    throw Object.assign(new Error("no space left on the device of the proof"), { code: "ENOSPC" });
  };
}
