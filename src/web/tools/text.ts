import { WEB_FRAME } from "../../canon/web-tools.ts";
import type { PageResult } from "../fetch/results.ts";
import type { Searched } from "./tools.ts";

/** A search's results as a list for a model to read. */
export function writeResults({ query, results, notes }: Searched): string {
  const remarks = notes.map((note) => `Note: ${note}`);
  if (results.length === 0) return [`Nothing was found on the web for: ${query}`, ...remarks].join("\n");
  const items = results.map(({ rank, title, url, source, date, snippet }) => {
    const about = date === null ? source : `${source}, ${date}`;
    return [`${rank}. ${title}`, url, about, snippet].filter((line) => line !== "").join("\n   ");
  });
  return [`Web search results for: ${query}`, ...remarks, WEB_FRAME, "", items.join("\n\n")].join("\n");
}

/** A page as text for a model to read, under a line that says which of the call's pages it is. */
export function writePage(page: PageResult, at: number, of: number): string {
  const place = of === 1 ? "" : `[${at + 1}/${of}] `;
  if (page.status === "error") return `${place}${page.url}\nCould not be read: ${page.error.message}`;
  const { title, finalUrl, url, published, note, markdown } = page;
  const moved = finalUrl === url ? "" : ` (now at ${finalUrl})`;
  const about = [title, published].filter((each) => each !== undefined).join(", ");
  const head = [`${place}${url}${moved}`, about, note ? `Note: ${note}` : "", WEB_FRAME].filter((line) => line !== "");
  return `${head.join("\n")}\n\n${markdown}`;
}

/** A page's result without its text, for programs, by its names on the wire. */
export function describePage(page: PageResult): Record<string, unknown> {
  if (page.status === "error") {
    const { url, status, finalUrl, httpStatus, error } = page;
    return {
      ...{ url, status },
      ...(finalUrl !== undefined && { final_url: finalUrl }),
      ...(httpStatus !== undefined && { http_status: httpStatus }),
      error,
    };
  }
  const { url, status, finalUrl, httpStatus, title, contentType, published, tokens, truncated, note, cached } = page;
  return {
    ...{ url, status, final_url: finalUrl, http_status: httpStatus },
    ...(title !== undefined && { title }),
    content_type: contentType,
    ...(published !== undefined && { published }),
    ...{ tokens, truncated },
    ...(note !== undefined && { note }),
    cached,
  };
}
