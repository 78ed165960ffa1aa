import type { Clock } from "../../lib/clock.ts";
import { follow } from "../../lib/signals.ts";
import { isOk } from "../../vendors/answer.ts";
import { DEFAULT_CONTENT_TOKENS, MAX_CONTENT_TOKENS, MAX_URLS } from "../../wire/bounds.ts";
import { type ReaderPool, ReadFault } from "../extract/pool.ts";
import { FetchFault } from "../safe-fetch/fault.ts";
import type { SafeFetch } from "../safe-fetch/safe-fetch.ts";
import { limit } from "../safe-fetch/time.ts";
import type { LostPage, PageResult } from "./results.ts";
import type { PageShelf } from "./shelf.ts";

/** Most bytes of a page, after decompression; PDF files may be larger. */
const MAX_PAGE_BYTES = 10 * 1024 * 1024;
const MAX_PDF_BYTES = 20 * 1024 * 1024;
/** How long one URL may take, and all of a call, milliseconds. */
export const URL_DEADLINE_MS = 20_000;
export const CALL_DEADLINE_MS = 45_000;

/** How many pages in a row are followed that only lead on to another. */
const MAX_SIGNPOSTS = 2;
/** How much of a media type is shown, characters: a server can write anything there, and a model may read it. */
const MAX_SHOWN_TYPE = 200;

/** Markdown is asked for first: more and more sites have it (web-and-mcp.md C2). */
const ACCEPT =
  "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, application/json;q=0.8, application/pdf;q=0.8, */*;q=0.5";

export type PageOptions = {
  /** Most tokens of each page, 1 to {@link MAX_CONTENT_TOKENS}. Default {@link DEFAULT_CONTENT_TOKENS}. */
  maxContentTokens?: number;
  /** Aborted when the pages are not wanted any more. */
  signal?: AbortSignal;
};

export type PageServices = {
  clock: Clock;
  safeFetch: SafeFetch;
  reader: Pick<ReaderPool, "read">;
  /** Pages that were read a short while ago. */
  shelf?: PageShelf;
  /** Is given faults of this gateway, not those of a page or its server. */
  onFault?(thrown: unknown): void;
};

/** A URL without its fragment, which is a place in the page and is not sent to the server: the same for all URLs of one page. */
export const pageOf = (url: string): string => url.trim().replace(/#.*/s, "");

/** A page's result for the URL that was asked for, which may name a place in it: a page that has not moved has it still. */
function nameResult(result: PageResult, url: string): PageResult {
  const { finalUrl } = result;
  const stayed = finalUrl !== undefined && finalUrl === URL.parse(pageOf(url))?.href;
  return { ...result, url, ...(stayed && { finalUrl: finalUrl + (URL.parse(url)?.hash ?? "") }) };
}

const isPdf = (headers: Headers) => /pdf/i.test(headers.get("content-type") ?? "");

type Call = { services: PageServices; maxTokens: number; signal: AbortSignal };

/** One URL, from the asking to the Markdown; a page that only leads on to another is followed. */
async function readUrl(url: string, call: Call, signal: AbortSignal): Promise<PageResult> {
  let from = url;
  for (let hops = 0; ; hops++) {
    const { result, movedTo } = await readOne(from, call, signal);
    const next = hops < MAX_SIGNPOSTS ? movedTo : undefined;
    if (next === undefined || !mayLead(result.finalUrl ?? from, next)) return { ...result, url };
    from = next;
  }
}

/** Whether a page may lead to an address: not to itself, and not from https to http, as with redirects. */
const mayLead = (from: string, to: string): boolean =>
  pageOf(to) !== pageOf(from) && !(from.startsWith("https:") && !to.startsWith("https:"));

async function readOne(
  url: string,
  { services, maxTokens }: Call,
  signal: AbortSignal,
): Promise<{ result: PageResult; movedTo?: string | undefined }> {
  const fetched = await services.safeFetch(url, {
    accept: ACCEPT,
    maxBytes: (headers) => (isPdf(headers) ? MAX_PDF_BYTES : MAX_PAGE_BYTES),
    whenLonger: "cut",
    deadlineMs: URL_DEADLINE_MS,
    signal,
  });
  const { status: httpStatus, url: finalUrl, headers, body: bytes, cut } = fetched;
  if (!isOk(fetched)) {
    const error = { code: "http_error", message: `The server answered ${httpStatus}.` } as const;
    return { result: { status: "error", url, finalUrl, httpStatus, error } };
  }
  const contentType = headers.get("content-type") ?? "";
  const read = await services.reader.read({ url: finalUrl, contentType, bytes, cut, maxTokens }, signal);
  const { movedTo, ...page } = read;
  const shownType = contentType.slice(0, MAX_SHOWN_TYPE);
  const result = { status: "ok", url, finalUrl, httpStatus, contentType: shownType, cached: false, ...page } as const;
  return { result, movedTo };
}

/** What went wrong, as the URL's result. Throws the call's own reason once that is aborted. */
function lose(url: string, thrown: unknown, { services, signal }: Call): LostPage {
  signal.throwIfAborted();
  if (thrown instanceof FetchFault || thrown instanceof ReadFault) {
    return { status: "error", url, error: { code: thrown.code, message: thrown.message } };
  }
  services.onFault?.(thrown);
  return {
    status: "error",
    url,
    error: { code: "internal", message: "Something went wrong while reading this page." },
  };
}

async function getPage(url: string, call: Call): Promise<PageResult> {
  const { clock, shelf } = call.services;
  const known = shelf?.get(url, call.maxTokens);
  if (known) return { ...known, url, cached: true };
  const patience = limit(clock, CALL_DEADLINE_MS, "It took too long.", call.signal);
  try {
    const result = await readUrl(url, call, patience.signal);
    if (result.status === "ok") shelf?.put(url, call.maxTokens, result);
    return result;
  } catch (thrown) {
    return lose(url, thrown, call);
  } finally {
    patience.end();
  }
}

/**
 * The pages at `urls` as Markdown, one result for each URL, in order; what goes wrong with one is its own result (web-and-mcp.md
 * C2 to C4). All are fetched at the same time, equal URLs once; a URL that is none is that URL's result. Throws RangeError for more than
 * {@link MAX_URLS}, and the signal's reason once that is aborted.
 */
export async function fetchPages(
  urls: readonly string[],
  options: PageOptions,
  services: PageServices,
): Promise<PageResult[]> {
  const { maxContentTokens = DEFAULT_CONTENT_TOKENS } = options;
  const maxTokens = Math.min(Math.max(1, Math.floor(maxContentTokens)), MAX_CONTENT_TOKENS);
  if (urls.length > MAX_URLS) throw new RangeError(`at most ${MAX_URLS} URLs`);
  const { controller, leave } = follow(options.signal);
  const call = { services, maxTokens, signal: controller.signal };
  const pages = new Map<string, Promise<PageResult>>();
  try {
    controller.signal.throwIfAborted();
    for (const url of urls) {
      const name = pageOf(url);
      if (!pages.has(name)) pages.set(name, getPage(name, call));
    }
    const named = urls.map(async (url) => nameResult(await pages.get(pageOf(url))!, url));
    return await Promise.all(named);
  } catch (thrown) {
    controller.abort(thrown);
    throw thrown;
  } finally {
    leave();
  }
}
