import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { LARGE_BODY } from "../../src/http/json-parts.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { chatReply, json, sse, startUpstream } from "../support/upstream.ts";

const PATH = "/v1/chat/completions";
const first = startUpstream();
const second = startUpstream();
let app: TestApp;

/** Of a vendor that counts nothing: the gateway has to estimate what it was sent. */
const { usage: _uncounted, ...reply } = chatReply("Done.");

/** Steps of an agent: words of several scripts, a call with an escape in it, and what a terminal said. */
const step = (at: number) => [
  { role: "user", content: `Step ${at}: „más“ — 続けて 🙂 ${"x".repeat(LARGE_BODY / 4)}` },
  {
    role: "assistant",
    content: null,
    tool_calls: [{ id: `call_${at}`, type: "function", function: { name: "run", arguments: `{"at":${at}}` } }],
  },
  { role: "tool", tool_call_id: `call_${at}`, content: `\u001b[31m${at}\u001b[0m\t"done"\n` },
];
const PICTURE = {
  role: "user",
  content: [
    { type: "text", text: "And this?" },
    {
      type: "image_url",
      image_url: {
        url: "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
      },
    },
  ],
};

const conversation = (steps: number, more: readonly unknown[] = []) => ({
  model: "lab/big",
  messages: [...Array.from({ length: steps }, (_, at) => step(at)).flat(), ...more],
  tools: [{ type: "function", function: { name: "run", parameters: { type: "object", properties: {} } } }],
  max_completion_tokens: 100,
});

const asSent = (body: object) => JSON.stringify({ ...body, model: "big" });

beforeEach(async () => {
  first.reset();
  second.reset();
  app ??= await startApp({
    vendors: [vendorAt(first, "chat", "one"), vendorAt(second, "chat", "two")],
    models: [
      {
        id: "lab/big",
        pricing: "free",
        routes: [
          { vendor: "one", model: "big" },
          { vendor: "two", model: "big" },
        ],
      },
    ],
  });
  app.app.services.pause = () => Promise.resolve();
});
afterAll(async () => {
  await app.stop();
  first.close();
  second.close();
});

describe("the large bodies of agents, which are read in parts", () => {
  test("go to each vendor that is asked as they came, turn after turn, whole and as streams", async () => {
    const record = {
      ...reply,
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta: { content: "Done." }, finish_reason: "stop" }],
    };
    const earlier = new Set(app.rows().map(({ requestId }) => requestId));
    for (const stream of [false, true]) {
      first.always(PATH, json({ error: { message: "No." } }, { status: 503 }));
      second.always(PATH, stream ? sse([`data: ${JSON.stringify(record)}\n\n`, "data: [DONE]\n\n"]) : json(reply));
      for (let steps = 4; steps < 8; steps++) {
        for (const more of [[], [PICTURE]]) {
          const body = {
            ...conversation(steps, more),
            ...(stream && { stream, stream_options: { include_usage: true } }),
          };
          const response = await app.post(PATH, body);
          expect(response.status).toBe(200);
          expect(await response.text()).toContain("Done.");
          expect(second.calls.at(-1)?.text).toBe(asSent(body));
        }
      }
    }
    expect(first.calls.length).toBeGreaterThan(0);
    for (const { text } of first.calls)
      expect(text).toStartWith('{"model":"big","messages":[{"role":"user","content":"Step 0: „más“ — 続けて 🙂 x');
    const rows = app.rows().filter(({ requestId }) => !earlier.has(requestId));
    const counted = rows.map(({ input }) => input);
    expect(Math.min(...counted)).toBeGreaterThan((4 * LARGE_BODY) / 4 / 16);
  });

  test("that are broken in a part that was never seen are refused, and nobody is asked", async () => {
    second.always(PATH, json(reply));
    first.always(PATH, json(reply));
    await app.post(PATH, conversation(5));
    const asked = first.calls.length;
    const text = JSON.stringify(conversation(6));
    for (const broken of [text.slice(0, -1), text.replace("call_5", 'call"5'), text.replace("Step 5", "Step \n5")]) {
      const response = await app.post(PATH, broken);
      expect(response.status).toBe(400);
      expect(await response.text()).toContain("not valid JSON");
    }
    expect(first.calls).toHaveLength(asked);
  });
});

test("an image of 4K that a model draws arrives whole, in one record as in a whole reply", async () => {
  const url = `data:image/png;base64,${"iVBOR".repeat(4 * 1024 * 1024)}`;
  const images = [{ type: "image_url", image_url: { url } }];
  const record = {
    id: "c1",
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta: { images }, finish_reason: "stop" }],
  };
  for (const stream of [false, true]) {
    const whole = {
      ...reply,
      choices: [{ index: 0, message: { role: "assistant", content: "", images }, finish_reason: "stop" }],
    };
    for (const vendor of [first, second])
      vendor.always(PATH, stream ? sse([`data: ${JSON.stringify(record)}\n\n`, "data: [DONE]\n\n"]) : json(whole));
    const response = await app.post("/v1/responses", { model: "lab/big", input: "Draw.", stream });
    expect(response.status).toBe(200);
    const text = await response.text();
    // Found by its length: a failed comparison of these texts would be printed.
    expect(text.length).toBeGreaterThan(url.length);
    expect(text).toContain('"completed"');
  }
});
