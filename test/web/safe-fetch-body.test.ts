import { expect, test } from "bun:test";
import { deflateRawSync, deflateSync, gzipSync } from "node:zlib";
import { readBody } from "../../src/web/safe-fetch/body.ts";

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

test("a packed body that stalls behind its bound is cut there, and its sender is hung up on", async () => {
  const packed = gzipSync(Buffer.alloc(20 * MiB, "a"));
  const { promise: hungUp, resolve } = Promise.withResolvers<void>();
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(packed.subarray(0, packed.length - 1_000)),
    cancel: () => resolve(),
  });
  const limits = { maxBytes: MiB, whenLonger: "cut" } as const;
  const response = new Response(body, { headers: { "content-encoding": "gzip" } });
  const read = await readBody(response, limits, new AbortController().signal);
  expect([read.cut, read.body.length]).toEqual([true, MiB]);
  await hungUp;
});

test("a packed body that stalls before its bound is given up with its signal", async () => {
  const abort = new AbortController();
  const packed = gzipSync(Buffer.alloc(MiB));
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(packed.subarray(0, 20)),
    pull: () => abort.abort(new Error("enough")),
  });
  const response = new Response(body, { headers: { "content-encoding": "gzip" } });
  const work = readBody(response, { maxBytes: MiB, whenLonger: "cut" }, abort.signal);
  await expect(work).rejects.toThrow("enough");
});

test.each([
  ["deflate as it is meant", "deflate", deflateSync("hello")],
  ["bare deflate", "deflate", deflateRawSync("hello")],
  ["gzip", "gzip", gzipSync("hello")],
])("a packed body whose first byte comes by itself is unpacked as any other: %s", async (_name, encoding, packed) => {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const part of [packed.subarray(0, 1), packed.subarray(1)]) controller.enqueue(part);
      controller.close();
    },
  });
  const response = new Response(body, { headers: { "content-encoding": encoding } });
  const limits = { maxBytes: MiB, whenLonger: "refuse" } as const;
  const read = await readBody(response, limits, new AbortController().signal);
  expect(Buffer.from(read.body).toString()).toBe("hello");
});
