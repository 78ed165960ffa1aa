import type { Citation } from "../../canon/events.ts";
import { isObject, listOf } from "../../lib/json.ts";
import { type Cited, citedAt, citedPage, MAX_CITED } from "../cited.ts";

/** A citation as an annotation of a message (dialects.md 1.3): its place is counted in all of the message's text. */
export function annotationOf({ url, title, start, end, before }: Citation): Record<string, unknown> {
  return { type: "url_citation", url_citation: { start_index: before + start, end_index: before + end, title, url } };
}

function readAnnotation(annotation: unknown): Cited[] {
  const said = isObject(annotation) ? annotation["url_citation"] : undefined;
  if (!isObject(said)) return [];
  const { url, title, content, start_index: start, end_index: end } = said;
  return citedPage(url, title, content).map((cited) => citedAt(cited, start, end));
}

/** The annotations of a message or a delta (dialects.md 1.3). */
export const annotationsIn = (delta: Record<string, unknown>): Cited[] =>
  listOf(delta["annotations"]).slice(0, MAX_CITED).flatMap(readAnnotation);

const readSource = (source: unknown): Cited[] =>
  isObject(source) ? citedPage(source["url"], source["title"], source["snippet"]) : citedPage(source, "", "");

/** Whether a reply, or a chunk, lists the pages that it rests on beside its choices (Perplexity, xAI). */
export const listsSources = ({ search_results: results, citations }: Record<string, unknown>): boolean =>
  listOf(results).length > 0 || listOf(citations).length > 0;

/** Those pages, in the order in which the text numbers them. */
export function sourcesIn({ search_results: results, citations }: Record<string, unknown>): Cited[] {
  const found = listOf(results).slice(0, MAX_CITED).flatMap(readSource);
  return found.length > 0 ? found : listOf(citations).slice(0, MAX_CITED).flatMap(readSource);
}
