import { describe, expect, test } from "bun:test";
import OpenAI from "openai";
import {
  type ClientName,
  chatStream,
  chunk,
  recordsOf,
  reply,
  send,
  stream,
  typedStream,
  type UpstreamName,
  type Wire,
} from "./crossing.ts";

const PNG = "iVBORw0KGgoAAAANSUhEUg";
const URL = `data:image/png;base64,${PNG}`;
const PROOF = { extra_content: { google: { thought_signature: "sig" } } };

const geminiRecord = (parts: Wire[], finishReason?: string): Wire => ({
  candidates: [{ content: { role: "model", parts }, ...(finishReason && { finishReason }) }],
  usageMetadata: { promptTokenCount: 4, candidatesTokenCount: 1_290 },
});
const drawn = { inlineData: { mimeType: "image/png", data: PNG }, thoughtSignature: "sig" };
const draft = { inlineData: { mimeType: "image/png", data: "iVBORw0KDRAFT" }, thought: true };
const item = { id: "ig_1", type: "image_generation_call", status: "completed", output_format: "png", result: PNG };
const message = { id: "m1", type: "message", role: "assistant", content: [{ type: "output_text", text: "A cat." }] };
const entry = { type: "image_url", image_url: { url: URL } };

/** The same reply of each vendor, whole and as a stream: a sentence and an image behind it. */
const VENDORS: Record<Exclude<UpstreamName, "messages">, { whole: Wire; sse: string; proof: Wire }> = {
  gemini: {
    whole: geminiRecord([draft, { text: "A cat." }, drawn], "STOP"),
    sse: [geminiRecord([draft]), geminiRecord([{ text: "A cat." }]), geminiRecord([drawn], "STOP")]
      .map((record) => `data: ${JSON.stringify(record)}\r\n\r\n`)
      .join(""),
    proof: PROOF,
  },
  chat: {
    whole: {
      id: "c1",
      choices: [
        { index: 0, message: { role: "assistant", content: "A cat.", images: [entry] }, finish_reason: "stop" },
      ],
    },
    sse: chatStream(
      chunk({ role: "assistant", content: "A cat." }),
      chunk({ content: "", images: [entry] }),
      chunk({}, "stop"),
    ),
    proof: {},
  },
  responses: {
    whole: { id: "r1", status: "completed", output: [message, item] },
    sse: typedStream(
      { type: "response.created", response: { id: "r1" } },
      { type: "response.output_item.added", output_index: 0, item: { ...message, content: [] } },
      { type: "response.output_text.delta", output_index: 0, delta: "A cat." },
      { type: "response.output_item.done", output_index: 0, item: message },
      { type: "response.output_item.added", output_index: 1, item: { id: "ig_1", type: "image_generation_call" } },
      { type: "response.image_generation_call.completed", output_index: 1, item_id: "ig_1" },
      { type: "response.output_item.done", output_index: 1, item },
      { type: "response.completed", response: { id: "r1", status: "completed", output: [message, item] } },
    ),
    proof: {},
  },
};

const deltasOf = (sse: string): Wire[] =>
  recordsOf(sse).flatMap(({ choices }) => (choices as { delta: Wire }[]).map(({ delta }) => delta));

const READ: Record<ClientName, (to: UpstreamName, vendor: (typeof VENDORS)["chat"]) => void> = {
  chat(to, { whole, sse, proof }) {
    const image = { type: "image_url", image_url: { url: URL }, index: 0, ...proof };
    const [choice] = reply({ from: "chat", to }, whole)["choices"] as [Wire];
    expect(choice).toMatchObject({ message: { content: "A cat.", images: [image] }, finish_reason: "stop" });
    const deltas = deltasOf(stream({ from: "chat", to }, sse));
    expect(deltas.map(({ content }) => content ?? "").join("")).toBe("A cat.");
    expect(deltas.filter(({ images }) => images !== undefined)).toEqual([{ images: [image] }]);
  },
  responses(to, { whole, sse }) {
    const { output } = reply({ from: "responses", to }, whole);
    const made = { type: "image_generation_call", status: "completed", output_format: "png", result: PNG };
    expect(output).toMatchObject([{ content: [{ text: "A cat." }] }, made]);
    const records = recordsOf(stream({ from: "responses", to }, sse));
    const ofImage = records.filter(({ output_index: at }) => at === 1);
    expect(ofImage.map(({ type }) => type)).toEqual([
      "response.output_item.added",
      "response.image_generation_call.in_progress",
      "response.image_generation_call.generating",
      "response.image_generation_call.completed",
      "response.output_item.done",
    ]);
    expect(ofImage[0]).toMatchObject({ item: { status: "in_progress", result: null } });
    expect(ofImage.at(-1)).toMatchObject({ item: made });
    expect(records.at(-1)).toMatchObject({ response: { output: [{ content: [{ text: "A cat." }] }, made] } });
  },
  messages(to, { whole, sse }) {
    const told = /^\[An image \(image\/png, 1 KB\) stands here\./;
    const { content } = reply({ from: "messages", to }, whole) as { content: Wire[] };
    expect(content).toEqual([
      { type: "text", text: "A cat." },
      { type: "text", text: expect.stringMatching(told) },
    ]);
    const records = recordsOf(stream({ from: "messages", to }, sse));
    const texts = records.flatMap(({ index, delta }) => (index === 1 && delta ? [(delta as Wire)["text"]] : []));
    expect(texts).toEqual([expect.stringMatching(told)]);
    expect(records.filter(({ type }) => type === "content_block_stop")).toHaveLength(2);
    expect(JSON.stringify(records)).not.toContain(PNG);
  },
};

describe.each(Object.keys(VENDORS) as (keyof typeof VENDORS)[])("an image in a reply of a %s vendor", (to) => {
  for (const [from, read] of Object.entries(READ)) {
    // Its own dialect's clients get what the vendor sent.
    if (from !== to) test(`reaches ${from} clients, whole and in a stream`, () => read(to, VENDORS[to]));
  }
});

test("OpenAI's SDK reads a stream with an image to its end", async () => {
  const sse = stream({ from: "responses", to: "gemini" }, VENDORS.gemini.sse);
  const answer = async () => new Response(sse, { headers: { "content-type": "text/event-stream" } });
  const client = new OpenAI({ apiKey: "none", maxRetries: 0, fetch: answer });
  const { output } = await client.responses.stream({ model: "any", input: "A cat" }).finalResponse();
  expect(output).toMatchObject([{ type: "message" }, { type: "image_generation_call", result: PNG }]);
});

test("an image that a reseller keeps elsewhere is named where it is", () => {
  const images = [{ type: "image_url", image_url: { url: "https://a.example/x.png" } }];
  const said = { role: "assistant", content: "A cat. ", images };
  const whole = { id: "c1", choices: [{ index: 0, message: said, finish_reason: "stop" }] };
  const text = "A cat. ![image](https://a.example/x.png)";
  expect(reply({ from: "messages", to: "chat" }, whole)["content"]).toEqual([{ type: "text", text }]);
  expect(reply({ from: "responses", to: "chat" }, whole)["output"]).toMatchObject([{ content: [{ text }] }]);
});

describe("an image of an earlier turn", () => {
  const asked = { role: "user", content: "Draw a cat" };
  const next = { role: "user", content: "Now in blue" };
  const chatTurn = (beside: Wire) => ({ role: "assistant", content: "A cat.", images: [{ ...entry, ...beside }] });
  const sent = (beside: Wire, upstreamModel: string) =>
    send({ from: "chat", to: "gemini", orders: { upstreamModel } }, { messages: [asked, chatTurn(beside), next] });

  test("goes back to Google with its proof, or the word for a lost one", () => {
    const inlineData = { mimeType: "image/png", data: PNG };
    const turns = (thoughtSignature?: string) => [
      { role: "user" },
      { role: "model", parts: [{ text: "A cat." }, { inlineData, ...(thoughtSignature && { thoughtSignature }) }] },
      { role: "user" },
    ];
    const signed = sent(PROOF, "gemini-3-pro-image");
    expect([signed.body["contents"], signed.dropped]).toMatchObject([turns("sig"), []]);
    const unsigned = sent({}, "gemini-3-pro-image");
    expect(unsigned.body["contents"]).toMatchObject(turns("skip_thought_signature_validator"));
    const older = sent({}, "gemini-2.5-flash-image");
    expect([older.body["contents"], older.dropped]).toMatchObject([turns(), []]);
    expect(JSON.stringify(older.body)).not.toContain("thoughtSignature");
    const input = [asked, item, next];
    const ofResponses = send({ from: "responses", to: "gemini", orders: { upstreamModel: "gemini-2.5" } }, { input });
    expect(ofResponses.body["contents"]).toMatchObject([{}, { role: "model", parts: [{ inlineData }] }, {}]);
    expect(ofResponses.dropped).toEqual([]);
  });

  test("is named where the vendor has no place for it", () => {
    const messages = [asked, chatTurn({}), next];
    for (const to of ["messages", "responses"] as const) {
      const { dropped, text } = send({ from: "chat", to }, { messages });
      expect(dropped).toEqual(["messages[1].images[0]"]);
      expect(text).not.toContain(PNG);
    }
    const odd = { ...chatTurn({}), images: "a cat" };
    expect(send({ from: "chat", to: "gemini" }, { messages: [asked, odd, next] }).dropped).toEqual([
      "messages[1].images",
    ]);
    const elsewhere = { ...chatTurn({}), images: [{ image_url: { url: "https://a.example/x.png" } }] };
    const { dropped } = send({ from: "chat", to: "gemini" }, { messages: [asked, elsewhere, next] });
    expect(dropped).toEqual(["messages[1].images[0]"]);
    for (const to of ["chat", "messages"] as const) {
      expect(send({ from: "responses", to }, { input: [asked, item, next] }).dropped).toEqual(["input[1]"]);
    }
    const stored = { type: "image_generation_call", id: "ig_1" };
    expect(send({ from: "responses", to: "gemini" }, { input: [asked, stored, next] }).dropped).toEqual(["input[1]"]);
  });
});

describe("a wish for images", () => {
  const body = {
    messages: [{ role: "user", content: "Draw" }],
    modalities: ["image", "text"],
    image_config: { aspect_ratio: "16:9", image_size: "2K" },
  };

  test("is told to Google in its own words", () => {
    const { body: written, dropped } = send({ from: "chat", to: "gemini" }, body);
    const imageConfig = { aspectRatio: "16:9", imageSize: "2K" };
    expect(written["generationConfig"]).toEqual({ responseModalities: ["TEXT", "IMAGE"], imageConfig });
    expect(dropped).toEqual([]);
    const bare = send({ from: "chat", to: "gemini" }, { ...body, image_config: undefined });
    expect(bare.body["generationConfig"]).toEqual({ responseModalities: ["TEXT", "IMAGE"] });
  });

  test("is named elsewhere", () => {
    for (const to of ["messages", "responses"] as const) {
      expect(send({ from: "chat", to }, body).dropped).toEqual(["modalities", "image_config"]);
    }
    const text = send({ from: "chat", to: "gemini" }, { ...body, modalities: ["text"] });
    expect(text.dropped).toEqual(["image_config"]);
  });
});
