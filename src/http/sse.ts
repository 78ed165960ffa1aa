import type { Clock } from "../lib/clock.ts";

/** Silence after which a ping goes out; contract 7 asks for one at least every 15 s. */
const PING_MS = 12_000;

const encoder = new TextEncoder();

const HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
};

/**
 * A stream of SSE text as a response. Pull-driven, so that a slow client slows the upstream; a ping fills the silence; the client
 * leaving ends `chunks`. The text must come as whole records.
 */
export function sseResponse(
  chunks: AsyncIterator<string>,
  options: { ping: string; clock: Clock; headers: Record<string, string> },
): Response {
  const { clock } = options;
  let lastAt = clock.monotonic();
  let stopPing = () => {};
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      const arm = (waitMs: number) => {
        stopPing = clock.after(waitMs, () => {
          const silentMs = clock.monotonic() - lastAt;
          if (silentMs < PING_MS) return arm(PING_MS - silentMs);
          lastAt = clock.monotonic();
          // A client that does not read what it has needs no ping, and gets no queue.
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(options.ping));
          arm(PING_MS);
        });
      };
      arm(PING_MS);
    },
    async pull(controller) {
      try {
        const { done, value } = await chunks.next();
        lastAt = clock.monotonic();
        if (cancelled) return;
        if (!done) return controller.enqueue(encoder.encode(value));
        stopPing();
        controller.close();
      } catch (thrown) {
        stopPing();
        throw thrown;
      }
    },
    async cancel() {
      cancelled = true;
      stopPing();
      await chunks.return?.();
    },
  });
  return new Response(body, { headers: { ...HEADERS, ...options.headers } });
}
