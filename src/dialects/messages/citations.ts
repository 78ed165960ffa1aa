import type { Citation } from "../../canon/events.ts";
import { cutText } from "../../lib/cut-text.ts";
import { isObject, listOf } from "../../lib/json.ts";
import { type Cited, citedPage, MAX_CITED } from "../cited.ts";
import type { ReplyContext } from "../dialect.ts";
import { sealText } from "./server-tools.ts";

/** Characters of a page that a citation repeats (dialects.md 2.2: the vendor's own are no longer). */
const MAX_QUOTE = 150;

/** A citation as this dialect writes it: by page, since a search result is what was cited. */
export function citationOf({ url, title, quote }: Citation): Record<string, unknown> {
  return {
    type: "web_search_result_location",
    url,
    title,
    encrypted_index: sealText(url),
    cited_text: cutText(quote, MAX_QUOTE).toWellFormed(),
  };
}

/**
 * The pages among the citations of a text block (dialects.md 2.5): search results, the vendor's and the client's own. Places in documents, which have
 * no address, are not among them.
 */
export const citedIn = (citations: unknown): Cited[] =>
  listOf(citations)
    .slice(0, MAX_CITED)
    .filter(isObject)
    .flatMap(({ url, source, title, cited_text: quote }) => citedPage(url ?? source, title, quote));

/** What the gateway's own tools were used for, beside the tokens (dialects.md 2.4); undefined where they were not offered. */
export function serverToolUsage({ webCalls }: ReplyContext): Record<string, unknown> | undefined {
  if (!webCalls) return undefined;
  return { server_tool_use: { web_search_requests: webCalls.searches, web_fetch_requests: webCalls.pages } };
}
