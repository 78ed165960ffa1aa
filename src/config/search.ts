import type { Environment } from "../lib/environment.ts";
import { ENGINES, type SearchSource } from "../web/search/search.ts";
import type { WebSetting } from "./schema.ts";
import { readKey, readUrl } from "./values.ts";

type SearchSetting = NonNullable<WebSetting["search"]>;
type Row = (typeof ENGINES)[number];

/** The search engines that are on, in the order in which they are tried, and what could not be switched on. */
export type SearchChoice = { sources: SearchSource[]; warnings: string[] };

const trimmed = (written: string | undefined) => written?.trim().replace(/\/+$/, "") || undefined;

/** The value of a row's variable, trimmed; an address also without the slashes at its end. Undefined where it is not set. */
const variableOf = (row: Row, environment: Environment) =>
  row.keys === "none" ? trimmed(environment[row.env]) : environment[row.env]?.trim() || undefined;

/** An engine with its key and address from the file, else from the environment. */
function toSource(row: Row, { engines = {} }: SearchSetting, environment: Environment): SearchSource {
  const setting = Object.entries(engines).find(([id]) => id === row.id)?.[1] ?? {};
  const written = variableOf(row, environment);
  const fromEnvironment = written !== undefined && readerOf(row).from(written) !== undefined ? written : undefined;
  const apiKey = row.keys === "none" ? undefined : (setting.api_key?.trim() ?? fromEnvironment);
  const address = trimmed(setting.base_url) ?? (row.keys === "none" ? fromEnvironment : undefined);
  return { engine: row.id, ...(apiKey && { apiKey }), ...(address && { baseUrl: address }) };
}

/** The reader of a row's variable: it holds the address of an engine without keys, else a key. */
const readerOf = ({ keys }: Row) => (keys === "none" ? readUrl : readKey);

/** Whether an engine has its key, or its address where it takes no key. */
const isComplete = (row: Row, source: SearchSource) =>
  row.keys === "none" ? source.baseUrl !== undefined : source.apiKey !== undefined;

/**
 * The search engines by `web.search` and the environment (contract 9). `auto`: all that have their key or address, in the order of
 * {@link ENGINES}, and where none has, Tavily without a key. A name: that one first, then the others that have theirs. A list: exactly these.
 * `fixture`: the fixture alone; `none`: no engine. Pure.
 */
export function chooseSearch(web: WebSetting, environment: Environment): SearchChoice {
  const setting = web.search ?? {};
  const { engine = "auto" } = setting;
  if (engine === "none") return { sources: [], warnings: [] };
  if (engine === "fixture") return { sources: [{ engine }], warnings: [] };
  const rows = new Map(ENGINES.map((row) => [row.id as string, { row, source: toSource(row, setting, environment) }]));
  const complete = [...rows.values()].filter(({ row, source }) => isComplete(row, source));
  const named = typeof engine === "string" ? [engine] : engine;
  const sources: SearchSource[] = [];
  const warnings: string[] = [];
  for (const id of new Set(named)) {
    const known = rows.get(id);
    if (id === "auto") continue;
    if (!known) sources.push({ engine: "fixture" });
    else if (isComplete(known.row, known.source) || known.row.keys === "optional") sources.push(known.source);
    else warnings.push(whatIsMissing(known.row));
  }
  const told = typeof engine === "string" ? ENGINES : ENGINES.filter(({ id }) => engine.includes(id));
  // An engine that has what it needs from the file does not need its variable.
  const lacking = told.filter((row) => !complete.some((one) => one.row === row));
  warnings.push(...lacking.flatMap((row) => wrongVariable(row, environment) ?? []));
  if (typeof engine === "string") {
    sources.push(...complete.filter(({ row }) => row.id !== engine).map(({ source }) => source));
    if (sources.length === 0 && engine === "auto") sources.push(rows.get("tavily")!.source);
  }
  return { sources, warnings };
}

function whatIsMissing({ id, env, keys }: Row): string {
  const field = keys === "none" ? "base_url" : "api_key";
  return `Search engine ${id} stays off: it needs web.search.engines.${id}.${field} or the variable ${env}.`;
}

/** The warning about a variable whose value is not valid, which then counts as not set; undefined where there is none. The file's values were checked before. */
function wrongVariable(row: Row, environment: Environment): string | undefined {
  const written = variableOf(row, environment);
  const { from, what } = readerOf(row);
  if (written === undefined || from(written) !== undefined) return undefined;
  return `Of the variable ${row.env}, for the search engine ${row.id}, expected ${what}, found another text.`;
}
