import type { Clock } from "../../lib/clock.ts";
import { isOk } from "../../vendors/answer.ts";
import { Shelf } from "../shelf.ts";
import { FetchFault } from "./fault.ts";
import type { SafeFetch } from "./safe-fetch.ts";

/** How long a fetched file is kept, milliseconds: an agent sends its whole conversation every turn, images included. */
export const KEPT_MS = 5 * 60_000;
/** How many bytes and files are kept at most. */
const MAX_KEPT_BYTES = 32 * 1024 * 1024;
const MAX_KEPT = 200;

export type MediaFile = { body: Uint8Array; contentType: string };
export type MediaOptions = { accept: string; maxBytes: number; deadlineMs: number; signal: AbortSignal };

/**
 * Fetches images and documents for requests to vendors that fetch none. The returned function gives the file, or a sentence for the
 * client that says why there is none; it rejects only with the reason of an aborted signal.
 */
export function createMediaFetch(safeFetch: SafeFetch, clock: Clock) {
  const kept = new Shelf<MediaFile>(clock, { count: MAX_KEPT, size: MAX_KEPT_BYTES }, ({ body }) => body.length);
  return async (url: string, options: MediaOptions): Promise<MediaFile | { refused: string }> => {
    options.signal.throwIfAborted();
    const known = kept.get(url);
    if (known && known.body.length <= options.maxBytes) {
      // The least lately used goes first.
      kept.moveBack(url);
      return known;
    }
    try {
      const fetched = await safeFetch(url, { ...options, whenLonger: "refuse" });
      if (!isOk(fetched)) return { refused: `Its server answered ${fetched.status}.` };
      const { headers, body } = fetched;
      if (body.length === 0) return { refused: "It is empty." };
      const file = { body, contentType: headers.get("content-type") ?? "" };
      kept.put(url, file, KEPT_MS);
      return file;
    } catch (thrown) {
      if (thrown instanceof FetchFault) return { refused: thrown.message };
      throw thrown;
    }
  };
}
