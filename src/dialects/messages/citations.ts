import type { Citation } from "../../canon/events.ts";
import { cutText } from "../../lib/cut-text.ts";
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

/** What the gateway's own tools were used for, beside the tokens (dialects.md 2.4); undefined where they were not offered. */
export function serverToolUsage({ webCalls }: ReplyContext): Record<string, unknown> | undefined {
  if (!webCalls) return undefined;
  return { server_tool_use: { web_search_requests: webCalls.searches, web_fetch_requests: webCalls.pages } };
}
