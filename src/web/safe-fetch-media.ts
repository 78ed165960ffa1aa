import type { Clock } from "../lib/clock.ts";
import type { SafeFetch } from "./safe-fetch.ts";
import { FetchFault } from "./safe-fetch-fault.ts";

/** An agent sends its whole conversation every turn, images included: they are fetched once in this time, milliseconds. */
export const KEPT_MS = 5 * 60_000;
/** Bytes and files that are kept. */
const MAX_KEPT_BYTES = 32 * 1024 * 1024;
const MAX_KEPT = 200;

export type MediaFile = { body: Uint8Array; contentType: string };
export type MediaOptions = { accept: string; maxBytes: number; deadlineMs: number; signal: AbortSignal };

/** Files fetched lately, the least lately used first; bounded in number, bytes and age. */
class Kept {
  readonly #files = new Map<string, MediaFile & { until: number }>();
  #bytes = 0;

  constructor(private readonly clock: Clock) {}

  get(url: string, maxBytes: number): MediaFile | undefined {
    const file = this.#files.get(url);
    if (!file || file.body.length > maxBytes) return undefined;
    this.#drop(url);
    if (file.until <= this.clock.monotonic()) return undefined;
    this.#keep(url, file);
    return file;
  }

  put(url: string, file: MediaFile): void {
    this.#drop(url);
    this.#keep(url, { ...file, until: this.clock.monotonic() + KEPT_MS });
    for (const oldest of this.#files.keys()) {
      if (this.#bytes <= MAX_KEPT_BYTES && this.#files.size <= MAX_KEPT) break;
      this.#drop(oldest);
    }
  }

  #keep(url: string, file: MediaFile & { until: number }): void {
    this.#files.set(url, file);
    this.#bytes += file.body.length;
  }

  #drop(url: string): void {
    this.#bytes -= this.#files.get(url)?.body.length ?? 0;
    this.#files.delete(url);
  }
}

/**
 * Fetches images and documents for requests to vendors that fetch none. The returned function gives the file, or a sentence for the
 * client why there is none; it rejects only with the reason of an aborted signal.
 */
export function createMediaFetch(safeFetch: SafeFetch, clock: Clock) {
  const kept = new Kept(clock);
  return async (url: string, options: MediaOptions): Promise<MediaFile | { refused: string }> => {
    options.signal.throwIfAborted();
    const known = kept.get(url, options.maxBytes);
    if (known) return known;
    try {
      const { status, headers, body } = await safeFetch(url, { ...options, whenLonger: "refuse" });
      if (status < 200 || status > 299) return { refused: `Its server answered ${status}.` };
      if (body.length === 0) return { refused: "It is empty." };
      const file = { body, contentType: headers.get("content-type") ?? "" };
      kept.put(url, file);
      return file;
    } catch (thrown) {
      if (thrown instanceof FetchFault) return { refused: thrown.message };
      throw thrown;
    }
  };
}
