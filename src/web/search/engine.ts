import { objectsOf } from "../../lib/json.ts";
import type { RawResult, SearchQuery } from "./query.ts";

/** Engines that can be configured, in the order in which `auto` takes them (contract 9); `fixture` only by its name. */
export const SEARCH_ENGINES = ["brave", "tavily", "exa", "perplexity", "serper", "searxng", "fixture"] as const;
export type SearchEngineId = (typeof SEARCH_ENGINES)[number];

/**
 * Why a call brought no results. `busy`: too many of them, or the account is used up; `auth`: the key is not good; `refused`: this very query is not
 * liked; `broken`: anything else.
 */
export type Refusal = "busy" | "auth" | "refused" | "broken";

/** A filter that an engine was not told, or not exactly. */
export type UnmetFilter = "recency" | "country" | "length";

/** One call to an engine. */
export type EngineCall = {
  method: "GET" | "POST";
  url: string;
  headers: Record<string, string>;
  /** JSON; absent for a GET. */
  body?: unknown;
  /** Filters of the query that this call does not hold. Domains are never among them: they are applied to the results. */
  unmet: readonly UnmetFilter[];
};

/** Where an engine is and how it is paid. */
export type EngineAccess = {
  /** Without a slash at the end. */
  baseUrl: string;
  apiKey: string | undefined;
  /** Results to ask for: more than are wanted where some will be taken out. */
  count: number;
  /** Unix ms. */
  now: number;
};

/** The JSON object that an engine answers with. */
export type EngineAnswer = Record<string, unknown>;

/** A search engine over the network: how the five arguments are said on its wire, and how its results are read (web-and-mcp.md B). */
export type SearchEngine = {
  id: SearchEngineId;
  /** Where it is when nobody says otherwise; undefined: the operator has to say. */
  baseUrl: string | undefined;
  /** The environment variable that holds its key, or its address where it has no key. */
  env: string;
  /** `key`: works with a key only; `optional`: without one too, for trying out; `none`: it has no keys. */
  keys: "key" | "optional" | "none";
  /** Most results of one call. */
  most: number;
  toCall(query: SearchQuery, access: EngineAccess): EngineCall;
  /** The results of an answer; an empty list for one that says that there are none, undefined for one that says nothing of results. */
  read(answer: EngineAnswer): RawResult[] | undefined;
  /** Whether an answer may lack results only because whom the engine itself asks did not answer it. Absent: never. */
  isPartial?(answer: EngineAnswer): boolean;
  /** What a refusal means, by its JSON, `{}` where it has none, where its status alone does not tell; undefined: what its status says. */
  kindOf?(answer: EngineAnswer): Refusal | undefined;
};

/** The objects of a list of results; undefined for what is no list, and does not say that nothing was found. */
export const resultsOf = (value: unknown): Record<string, unknown>[] | undefined =>
  Array.isArray(value) ? objectsOf(value) : undefined;

/** The first of these that is a text with something in it. */
export function firstText(...values: unknown[]): string {
  for (const value of values) if (typeof value === "string" && value.trim() !== "") return value;
  return "";
}

/** `date`, where there is one. */
export const withDate = (date: string): { date?: string } => (date === "" ? {} : { date });

/** A header with the key in it, where there is a key. `before`: what stands before it, such as `Bearer `. */
export function keyHeader(name: string, key: string | undefined, before = ""): Record<string, string> {
  return key ? { [name]: before + key } : {};
}
