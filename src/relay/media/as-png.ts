import { createHash } from "node:crypto";
import type { InlineMedia } from "../../dialects/media/walk.ts";
import type { Clock } from "../../lib/clock.ts";
import { until } from "../../lib/signals.ts";

/** Largest image that is written anew, pixels: decoded it takes four bytes of each. */
const MAX_PIXELS = 16_000_000;
/** Characters of base64 that are kept at most, and how long after the last image: an agent sends its whole conversation every turn, images included. */
const MAX_KEPT = 16 * 1024 * 1024;
const KEPT_MS = 5 * 60_000;

/** PNG as base64, by the hash of the base64 that it was made of, the newest last. */
const kept = new Map<string, string>();
let size = 0;
let cancelForgetting = () => {};
/** Images are written anew one at a time, whoever they are of: a decoded one is large. */
let before: Promise<unknown> = Promise.resolve();

function drop(key: string, data: string): void {
  kept.delete(key);
  size -= data.length;
}

function keep(key: string, data: string, clock: Clock): void {
  const known = kept.get(key);
  if (known !== undefined) drop(key, known);
  kept.set(key, data);
  size += data.length;
  for (const [oldest, its] of kept) {
    if (size <= MAX_KEPT) break;
    drop(oldest, its);
  }
  cancelForgetting();
  cancelForgetting = clock.after(KEPT_MS, () => {
    kept.clear();
    size = 0;
  });
}

async function encode(data: string): Promise<string | undefined> {
  try {
    const image = new Bun.Image(Buffer.from(data, "base64"), { maxPixels: MAX_PIXELS });
    return Buffer.from(await image.png().bytes()).toString("base64");
  } catch {
    // A file that is damaged, too large, or a film: whoever is sent it says so best.
    return undefined;
  }
}

/** An image of another format as PNG, pixel by pixel; as it is where it cannot be read. Rejects with the signal's reason, at once. */
export async function asPng(media: InlineMedia, clock: Clock, signal: AbortSignal): Promise<InlineMedia> {
  const key = createHash("sha256").update(media.data).digest("base64");
  const encoded = before.then(async () => {
    signal.throwIfAborted();
    const data = kept.get(key) ?? (await encode(media.data));
    if (data !== undefined) keep(key, data, clock);
    return data;
  });
  before = encoded.catch(() => {});
  const data = await until(signal, () => encoded);
  return data === undefined ? media : { mediaType: "image/png", data };
}
