import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { buildBinary, makeFolder, type RunningBinary, removeFolder, startBinary } from "../support/binary.ts";

// A build and a start of the executable, on a machine that may be busy.
setDefaultTimeout(60_000);

let folder: string;
let running: RunningBinary;

beforeAll(async () => {
  buildBinary();
  folder = makeFolder();
  running = await startBinary(["--port", "0"], { folder });
});
afterAll(async () => {
  running.child.kill("SIGKILL");
  await running.child.exited;
  removeFolder(folder);
});

test("the executable holds the tokenizer's worker and its vocabulary, and ends with it running", async () => {
  const response = await fetch(`${running.url}/v1/messages/count_tokens`, {
    method: "POST",
    headers: { "x-api-key": running.key, "content-type": "application/json" },
    body: JSON.stringify({ model: "sluice/echo", messages: [{ role: "user", content: "Hello, world!" }] }),
  });
  expect([response.status, response.headers.get("x-sluice-token-count")]).toEqual([200, "local"]);
  // 4 tokens of text by 1.1, 4 for the turn, 12 for the request.
  expect(await response.json()).toEqual({ input_tokens: 21 });
  expect(await running.stop()).toBe(0);
});
