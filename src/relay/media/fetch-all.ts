import { type GatewayError, invalidField } from "../../canon/errors.ts";
import { isTextType, sniffMediaType } from "../../dialects/media/type.ts";
import type { FoundMedia, InlineMedia } from "../../dialects/media/walk.ts";
import { follow } from "../../lib/signals.ts";
import type { Asked } from "../prepare.ts";

/** Different addresses in one request, bytes of one file and of all together, and how many are fetched at a time. */
export const MAX_REMOTE = 20;
export const MAX_FILE_BYTES = 10 * 1024 * 1024;
const MAX_TOTAL_BYTES = 20 * 1024 * 1024;
const PARALLEL = 4;
/** For all of a request's files together, milliseconds. */
export const MEDIA_DEADLINE_MS = 10_000;

/** What is asked for, by where the file is to stand. */
const ACCEPT = {
  image: "image/png, image/jpeg, image/webp, image/gif",
  document: "application/pdf, text/plain;q=0.9, text/*;q=0.8, application/json;q=0.8",
} as const;

const refuse = ({ path, kind }: FoundMedia, why: string): GatewayError =>
  invalidField(path, `${path}: the ${kind} at this URL cannot be used. ${why}`);

const utf8 = new TextDecoder("utf-8", { fatal: true });

function isUtf8(bytes: Uint8Array): boolean {
  try {
    utf8.decode(bytes);
    return true;
  } catch {
    return false;
  }
}

/** What a file is: its own first bytes know better than its server (dialects.md 4.8 #46). Throws GatewayError for other formats. */
function readMedia(found: FoundMedia, body: Uint8Array, contentType: string): InlineMedia {
  const data = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("base64");
  const seen = sniffMediaType(data);
  if (found.kind === "image") {
    if (seen?.startsWith("image/")) return { mediaType: seen, data };
    throw refuse(found, "It is no PNG, JPEG, GIF or WebP.");
  }
  if (seen === "application/pdf") return { mediaType: seen, data };
  const said = (contentType.split(";")[0] ?? "").trim().toLowerCase();
  if (isTextType(said) && isUtf8(body)) return { mediaType: "text/plain", data };
  throw refuse(found, "It is neither PDF nor plain text.");
}

/** Fetches a request's files, some at a time, within one deadline and one sum of bytes. */
class Fetching {
  readonly #startedAt: number;
  readonly #following: ReturnType<typeof follow>;
  /** What was fetched, by the keys of what was found. */
  readonly media = new Map<string, InlineMedia>();
  #bytes = 0;

  constructor(private readonly asked: Asked) {
    this.#startedAt = asked.services.clock.monotonic();
    this.#following = follow(asked.abort.signal);
  }

  /** Throws GatewayError (invalid_request, with the place) for the first file that cannot be had; the others are given up then. */
  async all(remote: ReadonlyMap<string, FoundMedia>): Promise<void> {
    const left = remote.entries();
    const fetchInTurn = async () => {
      for (const [key, found] of left) this.media.set(key, await this.#fetch(found));
    };
    try {
      await Promise.all(Array.from({ length: PARALLEL }, fetchInTurn));
    } catch (thrown) {
      this.#following.controller.abort(thrown);
      throw thrown;
    } finally {
      this.#following.leave();
    }
  }

  async #fetch(found: FoundMedia): Promise<InlineMedia> {
    const { clock, fetchMedia } = this.asked.services;
    const { signal } = this.#following.controller;
    signal.throwIfAborted();
    const deadlineMs = MEDIA_DEADLINE_MS - (clock.monotonic() - this.#startedAt);
    if (deadlineMs <= 0) throw refuse(found, "It took too long.");
    const got = await fetchMedia(found.url.trim(), {
      accept: found.kind === "image" ? ACCEPT.image : ACCEPT.document,
      maxBytes: MAX_FILE_BYTES,
      deadlineMs,
      signal,
    });
    if ("refused" in got) throw refuse(found, got.refused);
    this.#bytes += got.body.length;
    if (this.#bytes > MAX_TOTAL_BYTES) throw refuse(found, "The files of this request are too large together.");
    return readMedia(found, got.body, got.contentType);
  }
}

/**
 * The files at these addresses, by the same keys. Throws GatewayError (invalid_request, with the place) for the first that cannot be had, and where there
 * are too many.
 */
export async function fetchAll(
  asked: Asked,
  remote: ReadonlyMap<string, FoundMedia>,
): Promise<ReadonlyMap<string, InlineMedia>> {
  if (remote.size === 0) return new Map();
  const surplus = [...remote.values()][MAX_REMOTE];
  if (surplus) throw refuse(surplus, `At most ${MAX_REMOTE} files are fetched for one request.`);
  const fetching = new Fetching(asked);
  await fetching.all(remote);
  return fetching.media;
}
