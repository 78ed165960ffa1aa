import { afterEach, beforeEach, expect, spyOn, test } from "bun:test";
import { dialects } from "../../src/dialects/index.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { insideOnly } from "../support/black-box-config.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

let upstream: Upstream;
let gateway: TestApp;
beforeEach(async () => {
  upstream = startUpstream();
  gateway = await startApp({ vendors: [vendorAt(upstream, "chat", "lab")] });
});
afterEach(async () => {
  await gateway.stop();
  upstream.close();
});

const REPLY = {
  object: "chat.completion",
  model: "tiny",
  choices: [{ index: 0, message: { role: "assistant", content: "Hi." }, finish_reason: "stop" }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
};

/** Turns of the event loop between the check of a conversation of so many characters and its translation. */
async function turnsBetween(length: number): Promise<number> {
  const { chat } = dialects;
  let turn = 0;
  let checkedAt = Number.NaN;
  let translatedAt = Number.NaN;
  let counting = true;
  const count = () => {
    turn++;
    if (counting) setImmediate(count);
  };
  const { check, amend } = chat;
  const checked = spyOn(chat, "check").mockImplementation((body) => {
    checkedAt = turn;
    check(body);
  });
  const translated = spyOn(chat, "amend").mockImplementation((...terms) => {
    translatedAt = turn;
    return amend(...terms);
  });
  try {
    count();
    const body = { model: "lab/tiny", messages: [{ role: "user", content: "x".repeat(length) }] };
    expect((await gateway.post("/v1/chat/completions", body)).status).toBe(200);
    return translatedAt - checkedAt;
  } finally {
    counting = false;
    checked.mockRestore();
    translated.mockRestore();
  }
}

test("others are served between the steps of a long conversation, and a short one is done in one go", async () => {
  insideOnly("the turns of its event loop");
  upstream.always("/v1/chat/completions", json(REPLY));
  expect(await turnsBetween(1_000)).toBe(0);
  expect(await turnsBetween(300_000)).toBeGreaterThan(0);
  expect(gateway.rows().map(({ outcome }) => outcome)).toEqual(["completed", "completed"]);
});
