import { afterAll, expect, test } from "bun:test";
import { Abort } from "../../src/lib/abort.ts";
import { send } from "../../src/vendors/send.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";

/** Half a megabyte and a bit, in which every place is known by its neighbours. */
const SENT = Uint8Array.from({ length: 600_001 }, (_, at) => (at * 31 + (at >> 8)) & 255);

const server = Bun.serve({
  ...{ hostname: "127.0.0.1", port: 0 },
  fetch: () => new Response(SENT, { headers: { "content-type": "application/octet-stream" } }),
});
afterAll(() => server.stop(true));

test("a large answer is read whole and in its order, no piece larger than 64 KiB", async () => {
  const vendor: Vendor = {
    ...{ id: "lab", name: "lab", dialect: "chat", baseUrl: `http://127.0.0.1:${server.port}`, auth: "none" },
    ...{ models: "any", quirks: {} },
  };
  const answer = await send(vendor, { path: "/", body: "{}", headers: {}, abort: new Abort(), userAgent: "test" });
  const pieces: Uint8Array[] = [];
  for (;;) {
    const { done, value } = await answer.read();
    if (value) pieces.push(value);
    if (done) break;
    // More waits meanwhile than one piece.
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThanOrEqual(64 * 1024);
  expect(Buffer.concat(pieces).equals(SENT)).toBe(true);
});
