import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { PIECES, soundAnswer, WIRES } from "../scenarios/wires.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

const REFUSALS = [
  "messages.1.content.0: Invalid `signature` in `thinking` block",
  "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
  "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
];
const text = { type: "text", text: "hm" };
const thinking = { type: "thinking", thinking: "another's", signature: "Zm9yZWlnbg==" };

let upstream: Upstream;
let app: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  app = await startApp({ vendors: [vendorAt(upstream, "messages", "claude")] });
});
afterEach(() => upstream.reset());
afterAll(async () => {
  await app.stop();
  upstream.close();
});

/** A vendor that refuses all thinking that is brought back, in these words. */
function refuseThinking(words: string): void {
  upstream.always("/v1/messages", (call) => {
    if (call.text.includes("another's") || call.text.includes("redacted_thinking"))
      return json({ type: "error", error: { type: "invalid_request_error", message: words } }, { status: 400 });
    const isStream = (call.json as { stream?: boolean }).stream === true;
    return soundAnswer(WIRES.messages, isStream ? "stream" : "blocking");
  });
}

const ask = (content: unknown[], more: object = {}, headers: Record<string, string> = {}) =>
  app.post(
    "/v1/messages",
    {
      model: "claude/m",
      max_tokens: 50,
      messages: [
        { role: "user", content: "Hi" },
        { role: "assistant", content },
        { role: "user", content: "Go on" },
      ],
      ...more,
    },
    { headers },
  );

describe("proofs of reasoning that nobody here has seen, and their vendor refuses", () => {
  for (const stream of [false, true]) {
    test.each(REFUSALS)(`are left out, and the request is told again, stream ${stream}: %s`, async (words) => {
      refuseThinking(words);
      const before = app.rows().length;
      const response = await ask([thinking, { type: "redacted_thinking", data: "Zm9v" }, text], { stream });
      const told = await response.text();
      expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([200, "2"]);
      for (const piece of PIECES) expect(told).toContain(piece.trim());
      expect(upstream.calls.length).toBe(2);
      const { messages } = upstream.calls[1]!.json as { messages: { content: unknown }[] };
      expect(messages[1]?.content).toEqual([text]);
      expect(app.rows().length).toBe(before + 1);
    });
  }

  test("only once, and nothing is charged when that does not help", async () => {
    upstream.always("/v1/messages", () =>
      json({ type: "error", error: { type: "invalid_request_error", message: REFUSALS[0] } }, { status: 400 }),
    );
    const before = app.rows().length;
    const response = await ask([thinking, text]);
    expect(response.status).toBe(400);
    expect(await response.text()).toContain("Invalid `signature`");
    expect([upstream.calls.length, app.rows().length]).toEqual([2, before]);
  });

  test("another refusal is told at once", async () => {
    const message = "messages.1.content.0.thinking.thinking: Field required";
    upstream.always("/v1/messages", () =>
      json({ type: "error", error: { type: "invalid_request_error", message } }, { status: 400 }),
    );
    expect((await ask([thinking, text])).status).toBe(400);
    expect(upstream.calls.length).toBe(1);
  });
});
