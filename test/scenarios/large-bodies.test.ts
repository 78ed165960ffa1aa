import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { LARGE_BODY } from "../../src/http/body/json-parts.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { listen } from "../support/listening.ts";
import { chatReply, json, sse, startUpstream } from "../support/upstream.ts";
import { RawClient } from "./http-wire-client.ts";

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

/** Sizes of the pieces in which a body comes, over and over, bytes. */
const PIECES = [70_000, 300, 200, 5_000, 9_000, 1];
/** Bytes of a chunk: most of what comes is the lines around them. */
const CHUNK = 2;

test.each([
  ["in pieces of any size", 13_000, false],
  ["in pieces of any size", 50_000, false],
  ["in pieces of any size", 300_000, false],
  ["in chunks", 13_000, true],
  ["in chunks", 300_000, true],
])("a body that comes %s, of %d bytes, is the one that was sent", async (_how, size, inChunks) => {
  const listening = listen(app);
  const client = await RawClient.open(listening.port, (text) => text);
  try {
    for (const vendor of [first, second]) vendor.always(PATH, json(reply));
    const content = Array.from({ length: size / 10 }, (_, at) => `${at}`.padStart(10, " ")).join("");
    const body = { model: "lab/big", messages: [{ role: "user", content }] };
    let rest = JSON.stringify(body);
    const framing = inChunks ? "Transfer-Encoding: chunked" : `Content-Length: ${rest.length}`;
    const head = ["Host: localhost", `Authorization: Bearer ${app.key}`, "Content-Type: application/json", framing];
    await client.send(`POST ${PATH} HTTP/1.1\r\n${head.join("\r\n")}\r\n\r\n`);
    for (let at = rest.length > 70_000 ? 0 : 1; rest !== ""; at++) {
      const piece = rest.slice(0, PIECES[at % PIECES.length]);
      rest = rest.slice(piece.length);
      const sent = piece.replaceAll(
        new RegExp(`.{1,${CHUNK}}`, "g"),
        (part) => `${part.length.toString(16)}\r\n${part}\r\n`,
      );
      await client.send(inChunks ? sent : piece);
      await Bun.sleep(2);
    }
    if (inChunks) await client.send("0\r\n\r\n");
    expect((await client.answer()).status).toBe(200);
    // A failed comparison of these texts would be printed.
    expect([...first.calls, ...second.calls].map(({ text }) => text === asSent(body))).toEqual([true]);
  } finally {
    client.reset();
    await listening.stop();
  }
});

test.each([
  ["a small one", 5_000],
  ["one of some tens of kilobytes", 50_000],
  ["a large one", 300_000],
])("a body that is no JSON is told so, however late its end comes: %s", async (_name, size) => {
  const listening = listen(app);
  const client = await RawClient.open(listening.port, (text) => text);
  try {
    const body = `{"model":"lab/big","messages":"${"x".repeat(size)}"`;
    const head = ["Host: localhost", `Authorization: Bearer ${app.key}`, "Content-Type: application/json"];
    await client.send(`POST ${PATH} HTTP/1.1\r\n${head.join("\r\n")}\r\nContent-Length: ${body.length}\r\n\r\n`);
    for (const piece of [body.slice(0, -10), body.slice(-10)]) {
      await client.send(piece);
      await Bun.sleep(5);
    }
    const answer = await client.answer();
    expect([answer.status, answer.body.includes("not valid JSON")]).toEqual([400, true]);
  } finally {
    client.reset();
    await listening.stop();
  }
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
