import type { Caller } from "../accounts/caller.ts";

/**
 * One call of a web tool by a model that the gateway serves it to (issue 6, build 5). It runs with the engine, the allowance and the meter
 * that the MCP server and the standalone endpoints run with, and is one more call of its caller.
 */
export type WebToolCall = {
  /** Of `web_search`: query, max_results, search_domain_filter, country; of `web_fetch`: urls (one), max_content_tokens (interface 2.7). */
  name: "web_search" | "web_fetch";
  arguments: Record<string, unknown>;
  caller: Caller;
  /** Of the generation that it belongs to, for the log. */
  requestId: string;
  /** The client's, for the usage row. */
  dialect: string;
  signal: AbortSignal;
};

export type SearchHit = { title: string; url: string; snippet: string; source: string; date: string | null };

/** `published`: ISO 8601, where the page tells it. */
export type PageText = { url: string; title: string; contentType: string; text: string; published?: string };

/**
 * Why a tool gave nothing. `bad_arguments`: the call was none; `not_allowed`: an address that is not fetched; `not_accessible`: the page could
 * not be had; `unsupported`: it is nothing that can be read; `too_many`: too fast, or the allowance is used up; `unavailable`: the rest.
 */
export const WEB_TOOL_FAULTS = [
  "bad_arguments",
  "not_allowed",
  "not_accessible",
  "unsupported",
  "too_many",
  "unavailable",
] as const;
export type WebToolFault = (typeof WEB_TOOL_FAULTS)[number];

/** `message` is for the model and its user: one sentence. */
export type WebToolAnswer =
  | { kind: "results"; results: readonly SearchHit[]; notes: readonly string[] }
  | { kind: "page"; page: PageText }
  | { kind: "fault"; fault: WebToolFault; message: string };

/** Runs a web tool: claims, runs, settles. Rejects only when `signal` is aborted; whatever else goes wrong is a fault. */
export type RunWebTool = (call: WebToolCall) => Promise<WebToolAnswer>;
