import type { Database } from "bun:sqlite";
import type { Seen } from "./statements.ts";

/** A statement whose plan may walk through a table or sort, and why the work is bounded. */
type Exception = {
  /** Matches the statement after each white space is made one blank and quotes are removed; or the file that the statement stands in. */
  about: RegExp | string;
  /** The step of its plan that is excused. */
  step: RegExp;
  why: string;
};

const GROUPED = /^USE TEMP B-TREE FOR GROUP BY/;
const ORDERED = /^USE TEMP B-TREE FOR ORDER BY/;

const EXCEPTIONS: readonly Exception[] = [
  {
    about: /^SELECT seq, hash FROM ledger_entry ORDER BY seq DESC LIMIT 1$/,
    step: /^SCAN ledger_entry$/,
    why: "walks back from the last row and stops at the first",
  },
  {
    about: /FROM ledger_hold(?: h)? WHERE/,
    step: /^SCAN (?:ledger_hold|h)$/,
    why: "holds only what runs just now and has gone on for a while",
  },
  {
    about: /FROM ledger_entry WHERE request_id = \? .*ORDER BY seq/,
    step: ORDERED,
    why: "the few entries of one request",
  },
  {
    about: "src/ledger/verify.ts",
    step: /./,
    why: "proves the books right as a whole, for the doctor",
  },
  {
    about: /where (?:image_job\.boot <> \? and )?\(?(?:image_job\.boot <> \? and )?state (?:IN|=)/i,
    step: /^SCAN image_job USING (?:COVERING )?INDEX image_job_(?:running|queued|flight)$/,
    why: "an index that holds only the jobs at work, in the queue or either, read once at a start",
  },
  {
    about: /^select .* from (?:server_stop|usage_kept)$/,
    step: /^SCAN (?:server_stop|usage_kept)$/,
    why: "has one row",
  },
  {
    about: /from api_key inner join account .* where api_key\.revoked_at is null$/,
    step: /^SCAN api_key$/,
    why: "all keys are taken into memory at a start, so that no request asks for one",
  },
  {
    about: /^select .* from account order by \w+\.created_at asc, \w+\.id asc$/,
    step: /^(?:SCAN account$|USE TEMP B-TREE FOR ORDER BY)/,
    why: "an operator's list of all of them",
  },
  { about: /^select id from account limit \?$/, step: /^SCAN account/, why: "is there one: stops at the first" },
  {
    about: /from usage where .*order by usage\.at_ms desc, usage\.request_id desc/,
    step: /^USE TEMP B-TREE FOR LAST TERM OF ORDER BY$/,
    why: "sorts only the requests of one millisecond",
  },
  {
    about: /from usage(?:_rollup)?(?: indexed by usage_rollup_account)? where .*group by/,
    step: GROUPED,
    why: "a slice of a report: a thousand sums or rows; `prove --only ledger-usage` measures it over a million requests",
  },
  {
    about: /^SELECT count\(\*\) AS states, total\(bytes\) AS bytes FROM reasoning_state$/,
    step: /^SCAN reasoning_state USING COVERING INDEX/,
    why: "counted once, at the first state after a start, in an index",
  },
];

const READS_ROWS = /^\s*(?:select|insert|update|delete|with|replace)\b/i;

/** Steps that take longer the more rows a table has, or that sort. */
function isSlow(step: string, place: number, steps: readonly string[]): boolean {
  if (step.startsWith("SCAN")) {
    if (/VALUES CLAUSE$|^SCAN CONSTANT ROW$/.test(step)) return false;
    // A virtual table is a list of wanted values, and comes first. Where it comes after a table, that table is walked through.
    return / VIRTUAL TABLE /.test(step) ? place > 0 && !steps[place - 1]?.startsWith("LIST SUBQUERY") : true;
  }
  return /TEMP B-TREE| AUTOMATIC /.test(step);
}

const plain = (sql: string) => sql.replace(/\s+/g, " ").replace(/["`]/g, "").trim();

const isAbout = ({ about }: Exception, text: string, file: string) =>
  typeof about === "string" ? about === file : about.test(text);

/** The steps of a statement's plan. */
export function planOf(database: Database, sql: string): string[] {
  const steps = database.query(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[];
  return steps.map(({ detail }) => detail);
}

/** A sentence for each statement whose plan walks through a table or sorts, and is not excused (reliability 8.1, G20). */
export function slowStatements(database: Database, statements: readonly Seen[]): string[] {
  const faults: string[] = [];
  for (const { sql, file } of statements) {
    // A migration runs once on a store, and rewrites what it must.
    if (!READS_ROWS.test(sql) || file === "src/db/migrations.ts") continue;
    const text = plain(sql);
    const steps = planOf(database, sql);
    const slow = steps.filter(
      (step, place) =>
        isSlow(step, place, steps) &&
        !EXCEPTIONS.some((excuse) => isAbout(excuse, text, file) && excuse.step.test(step)),
    );
    if (slow.length > 0) faults.push(`${file}: ${text.slice(0, 300)}\n    ${steps.join("; ")}`);
  }
  return faults;
}
