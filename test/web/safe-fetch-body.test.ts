import { expect, test } from "bun:test";
import { readBody } from "../../src/web/safe-fetch-body.ts";

const MiB = 1024 * 1024;

test("a long body is put together piece by piece, and the event loop has its turns", async () => {
  // Odd sizes, so that pieces and chunks do not end together.
  const chunks = Array.from({ length: 90 }, (_, at) => new Uint8Array(100_003).fill(at));
  const waiting = [...chunks];
  let turns = 0;
  let turning = setImmediate(function turn() {
    turns++;
    turning = setImmediate(turn);
  });
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const chunk = waiting.shift();
      // What is counted from the last one on is the putting together.
      turns = 0;
      if (chunk) return controller.enqueue(chunk);
      controller.close();
    },
  });
  try {
    const limits = { maxBytes: 8 * MiB, whenLonger: "cut" } as const;
    const read = await readBody(new Response(body), limits, new AbortController().signal);
    expect(turns).toBeGreaterThanOrEqual(6);
    expect(read.cut).toBe(true);
    expect(
      Buffer.concat(chunks)
        .subarray(0, 8 * MiB)
        .equals(read.body),
    ).toBe(true);
  } finally {
    clearImmediate(turning);
  }
});
