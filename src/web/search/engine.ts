import { objectsOf } from "../../lib/json.ts";
import type { RawResult, SearchQuery } from "./query.ts";

/** Engines that can be configured, in the order in which `auto` takes them (contract 9); `fixture` only by its name. */
export const SEARCH_ENGINES = ["brave", "tavily", "exa", "perplexity", "serper", "searxng", "fixture"] as const;
export type SearchEngineId = (typeof SEARCH_ENGINES)[number];

/**
 * Why a call brought no results. `busy`: too many calls, or the account is used up; `auth`: the key is refused; `refused`: this query is
 * refused; `broken`: anything else.
 */
export type Refusal = "busy" | "auth" | "refused" | "broken";

/** A filter of the query that an engine could not be given, or not exactly. */
export type UnmetFilter = "recency" | "country" | "length";

/** One call to an engine. */
export type EngineCall = {
  method: "GET" | "POST";
  url: string;
  headers: Record<string, string>;
  /** JSON; absent for a GET. */
  body?: unknown;
  /** Filters that this call does not carry. Domains are never among them: they are applied to the results. */
  unmet: readonly UnmetFilter[];
};

/** What a call needs beside the query: the engine's address and key, and how much to ask for. */
export type EngineAccess = {
  /** Without a slash at the end. */
  baseUrl: string;
  apiKey: string | undefined;
  /** Results to ask for: more than are wanted where some may be filtered out. */
  count: number;
  /** Unix ms. */
  now: number;
};

/** The JSON object that an engine answers with. */
export type EngineAnswer = Record<string, unknown>;

/** A search engine over the network: how the five arguments are written for it, and how its results are read (web-and-mcp.md B). */
export type SearchEngine = {
  id: SearchEngineId;
  /** Its usual address; undefined: the operator has to give one. */
  baseUrl: string | undefined;
  /** The environment variable that holds its key, or its address where it has no key. */
  env: string;
  /** `key`: works with a key only; `optional`: without one too, for trying out; `none`: it has no keys. */
  keys: "key" | "optional" | "none";
  /** Most results of one call. */
  most: number;
  toCall(query: SearchQuery, access: EngineAccess): EngineCall;
  /** The results in an answer; an empty list where it says that there are none, undefined where it is no answer to a search. */
  read(answer: EngineAnswer): RawResult[] | undefined;
  /** Whether an answer may lack results because services that the engine itself asks have failed. Absent: never. */
  isPartial?(answer: EngineAnswer): boolean;
  /** What a refusal means, by its JSON (`{}` where it has none), for engines whose status does not tell; undefined: what its status means. */
  kindOf?(answer: EngineAnswer): Refusal | undefined;
};

/** The objects in a list of results; undefined for anything else. */
export const resultsOf = (value: unknown): Record<string, unknown>[] | undefined =>
  Array.isArray(value) ? objectsOf(value) : undefined;

/** The first of these values that is a text and not empty. */
export function firstText(...values: unknown[]): string {
  for (const value of values) if (typeof value === "string" && value.trim() !== "") return value;
  return "";
}

/** An object with `date`, or an empty one where there is none. */
export const withDate = (date: string): { date?: string } => (date === "" ? {} : { date });

/** A header with the key in it, where there is a key. `before`: what stands before it, such as `Bearer `. */
export function keyHeader(name: string, key: string | undefined, before = ""): Record<string, string> {
  return key ? { [name]: before + key } : {};
}
