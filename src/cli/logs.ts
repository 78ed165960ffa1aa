import { statSync } from "node:fs";
import { requestLogFolder } from "../config/data-folder.ts";
import { errorCode } from "../lib/error-code.ts";
import { LogFollower, type LoggedRequest, readLast } from "../observe/request-log-reader.ts";
import { dataFolderOf } from "./context.ts";
import type { LogsOptions } from "./options.ts";
import { Failure, paint, print, printJson, toSafeJson, toShownText, WrongUsage, warn } from "./output.ts";
import { readSince } from "./since.ts";
import { type Column, formatTable } from "./table.ts";

/** How often a followed log is read, ms; the server writes it every half second. */
const LOOK_MS = 250;
/** How many lines are shown by default, and at most. */
const DEFAULT_LINES = 50;
const MAX_LINES = 100_000;

type Filter = (record: LoggedRequest) => boolean;

const wordOf = (value: unknown): string => (value === undefined || value === null ? "" : String(value));

/** `anthropic/*` or a whole model ID. */
function fitsModel(wanted: string): Filter {
  if (!wanted.endsWith("*")) return ({ model }) => model === wanted;
  const beginning = wanted.slice(0, -1);
  return ({ model }) => wordOf(model).startsWith(beginning);
}

/** `429`, `5xx`, or a word such as `completed` or `rate_limit_exceeded`. Throws WrongUsage for anything else. */
function fitsStatus(wanted: string): Filter {
  if (/^\d{3}$/.test(wanted)) return ({ status }) => wordOf(status) === wanted;
  if (/^[1-5]xx$/i.test(wanted)) return ({ status }) => wordOf(status)[0] === wanted[0];
  if (/^[a-z_-]{3,40}$/.test(wanted)) return ({ outcome, error }) => outcome === wanted || error === wanted;
  throw new WrongUsage(`--status: expected 429, 5xx, an outcome or an error's code, found "${wanted}"`);
}

function createFilter({ model, status, id, since }: LogsOptions): Filter {
  const filters: Filter[] = [id === undefined ? ({ event }) => event !== "bodies" : ({ request_id: of }) => of === id];
  if (model !== undefined) filters.push(fitsModel(model));
  if (status !== undefined) filters.push(fitsStatus(status));
  if (since !== undefined) {
    const fromMs = readSince(since, Date.now());
    filters.push(({ time }) => time >= fromMs);
  }
  return (record) => filters.every((fits) => fits(record));
}

function readLimit(text: string | undefined): number {
  if (text === undefined) return DEFAULT_LINES;
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= MAX_LINES) return limit;
  throw new WrongUsage(`--limit: expected a whole number from 1 to ${MAX_LINES}, found "${text}"`);
}

const COLUMNS: readonly Column[] = [
  { title: "time" },
  { title: "status", align: "right" },
  { title: "model" },
  { title: "vendor" },
  { title: "in", align: "right" },
  { title: "out", align: "right" },
  { title: "first ms", align: "right" },
  { title: "ms", align: "right" },
  { title: "cost USD", align: "right" },
  { title: "tries", align: "right" },
  { title: "request" },
  { title: "error" },
];
/** Widths of columns, characters, while lines come one by one: they cannot be fitted to lines to come. */
const WIDTHS = [23, 6, 28, 12, 7, 7, 8, 7, 12, 5, 30, 0];

function toCells(record: LoggedRequest): string[] {
  const outcome = wordOf(record["outcome"]);
  return [
    new Date(record.time).toISOString().slice(0, 23).replace("T", " "),
    wordOf(record["status"] ?? outcome),
    wordOf(record["model"]) || "-",
    wordOf(record["vendor"]) || "-",
    wordOf(record["input_tokens"]) || "-",
    wordOf(record["output_tokens"]) || "-",
    wordOf(record["first_token_ms"]) || "-",
    wordOf(record["duration_ms"]) || "-",
    wordOf(record["cost_usd"]) || "-",
    wordOf(record["attempts"]) || "-",
    wordOf(record["request_id"]),
    wordOf(record["error"]) || (outcome === "completed" ? "" : outcome),
  ];
}

const toJsonLine = (record: LoggedRequest): string => toSafeJson(JSON.stringify(record));

/** Everything known of one request, a field a line. */
function printDetails(records: readonly LoggedRequest[]): void {
  for (const record of records) {
    for (const [name, value] of Object.entries(record)) {
      const shown = name === "time" ? new Date(record.time).toISOString() : wordOf(value);
      print(`${paint(name, "bold")}: ${toShownText(shown)}`);
    }
    print("");
  }
}

/** One line of a table whose other lines are not known yet. */
function formatLine(record: LoggedRequest): string {
  const [, line = ""] = formatTable(
    COLUMNS.map((column, at) => ({ ...column, title: " ".repeat(WIDTHS[at] ?? 0) })),
    [toCells(record)],
  );
  return line;
}

/** Prints new requests until the process is ended. `shown` were printed already. */
async function follow(
  follower: LogFollower,
  fits: Filter,
  json: boolean,
  shown: readonly LoggedRequest[],
): Promise<never> {
  const known = new Set(shown.map((record) => JSON.stringify(record)));
  const show = (record: LoggedRequest) => {
    if (known.size > 0 && known.delete(JSON.stringify(record))) return;
    if (fits(record)) print(json ? toJsonLine(record) : formatLine(record));
  };
  for (;;) {
    await follower.read(show);
    await Bun.sleep(LOOK_MS);
  }
}

/**
 * `sluice logs`: what became of generations and image jobs, newest last: status, time to the first token, tokens, cost, tries. `--json` prints an array, with `--follow`
 * a line each. Reads the files beside the store, whether a server runs or not. Throws
 * WrongUsage, and Failure for a data folder that is not there or cannot be read.
 */
export async function showLogs(options: LogsOptions): Promise<number> {
  const fits = createFilter(options);
  const limit = readLimit(options.limit);
  const dataFolder = dataFolderOf(options);
  const folder = requestLogFolder(dataFolder);
  try {
    // A mistyped `--data` must not look like a gateway without requests. A folder that may not be read is not a missing one.
    if (!statSync(dataFolder, { throwIfNoEntry: false })) throw new Failure(`there is no data folder ${dataFolder}`);
    return await showFolder(folder, limit, fits, options);
  } catch (thrown) {
    const code = errorCode(thrown);
    if (code === "") throw thrown;
    throw new Failure(`the request log in ${folder} cannot be read (${code}); check its owner and permissions`);
  }
}

async function showFolder(folder: string, limit: number, fits: Filter, options: LogsOptions): Promise<number> {
  const following = options.follow === true;
  // Made before the existing lines are read, so that none that is written meanwhile is missed.
  const follower = following ? new LogFollower(folder) : undefined;
  // One more than is shown tells whether there are others. Who named a number or follows does not ask for all.
  const asksForAll = options.limit === undefined && !following;
  const found = await readLast(folder, asksForAll ? limit + 1 : limit, fits);
  const records = found.slice(-limit);
  if (found.length > limit) warn(`These are the last ${limit}; \`--limit\` shows more.`);
  if (options.json) {
    if (following) for (const record of records) print(toJsonLine(record));
    else printJson(records);
  } else if (following) for (const record of records) print(formatLine(record));
  else if (records.length === 0) print("No such request was noted.");
  else if (options.id !== undefined) printDetails(records);
  else print(...formatTable(COLUMNS, records.map(toCells)));
  if (follower) await follow(follower, fits, options.json === true, records);
  return 0;
}
