import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { replaceMedia, soundMedia } from "../../src/dialects/media/walk.ts";
import { asPng } from "../../src/relay/media/as-png.ts";
import { MAX_FILE_BYTES, MAX_REMOTE, MEDIA_DEADLINE_MS } from "../../src/relay/media/fetch-all.ts";
import { registry } from "../../src/vendors/registry.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { KEPT_MS } from "../../src/web/safe-fetch/media.ts";
import { BAD_MEDIA } from "../dialects/bad-media.ts";
import { GENERATION_PATH as PATHS, startApp, type TestApp, vendorAt } from "../support/app.ts";
import { manualClock } from "../support/clock.ts";
import {
  type Answer,
  chatReply,
  json,
  neverAnswer,
  redirect,
  startUpstream,
  type Upstream,
} from "../support/upstream.ts";
import { within } from "../support/wait.ts";

const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
  "base64",
);
const PNG_URL = `data:image/png;base64,${PNG.toString("base64")}`;
const PDF = Buffer.from("%PDF-1.4\n1 0 obj <<>> endobj\n%%EOF");

const MESSAGES_REPLY = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "m",
  content: [{ type: "text", text: "fine" }],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: { input_tokens: 1, output_tokens: 1 },
};
const GEMINI_REPLY = {
  candidates: [{ content: { role: "model", parts: [{ text: "fine" }] }, finishReason: "STOP", index: 0 }],
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
};

const RESPONSES_REPLY = {
  id: "resp_1",
  object: "response",
  status: "completed",
  model: "m",
  output: [
    {
      id: "msg_1",
      type: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "fine", annotations: [] }],
    },
  ],
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
};

let files: Upstream;
let vendor: Upstream;
let app: TestApp;

const geminiAt = ({ url }: Upstream): Vendor => ({
  ...vendorAt(vendor, "chat", "gem"),
  dialect: "gemini",
  baseUrl: `${url}/v1beta`,
  auth: "none",
});

const vendors = () => [
  vendorAt(vendor, "chat", "local", { remoteMedia: "none" }),
  vendorAt(vendor, "chat", "hosted"),
  vendorAt(vendor, "chat", "texts", { noPdf: true }),
  vendorAt(vendor, "chat", "webless", { remoteMedia: "none", noWebp: true }),
  vendorAt(vendor, "messages", "claude"),
  vendorAt(vendor, "messages", "rock", { remoteMedia: "none" }),
  vendorAt(vendor, "responses", "newer"),
  vendorAt(vendor, "responses", "own", { remoteMedia: "none" }),
  geminiAt(vendor),
];
const allowing = () => ({ web: { fetch: { allow_hosts: [new URL(files.url).host] } } });

beforeAll(async () => {
  files = startUpstream();
  vendor = startUpstream();
});
const answerVendor = () => {
  vendor.always("/v1/chat/completions", json(chatReply("fine")));
  vendor.always("/v1/messages", json(MESSAGES_REPLY));
  vendor.always("/v1/responses", json(RESPONSES_REPLY));
  for (const model of ["gemini-2.5-pro", "gemini-3-pro"])
    vendor.always(`/v1beta/models/${model}:generateContent`, json(GEMINI_REPLY));
};
afterEach(async () => {
  await app?.stop();
  files.reset();
  vendor.reset();
});
afterAll(() => {
  files.close();
  vendor.close();
});

async function start(options: Parameters<typeof startApp>[0] = {}): Promise<void> {
  app = await startApp({ vendors: vendors(), config: allowing(), ...options });
  answerVendor();
}

const file = (bytes: Uint8Array | string, contentType: string): Answer => ({
  headers: { "content-type": contentType },
  parts: [bytes],
  framing: "length",
  finish: "end",
});

type Client = keyof typeof PATHS;

const imageIn: Record<Client, (url: string) => unknown> = {
  chat: (url) => ({ type: "image_url", image_url: { url, detail: "low" } }),
  messages: (url) => ({ type: "image", source: { type: "url", url } }),
  responses: (url) => ({ type: "input_image", image_url: url, detail: "low" }),
};
const documentIn: Record<Client, (url: string) => unknown> = {
  chat: (url) => ({ type: "file", file: { file_data: url } }),
  messages: (url) => ({ type: "document", source: { type: "url", url }, title: "Paper" }),
  responses: (url) => ({ type: "input_file", file_url: url }),
};
const WORDS: Record<Client, unknown> = {
  chat: { type: "text", text: "What is this?" },
  messages: { type: "text", text: "What is this?" },
  responses: { type: "input_text", text: "What is this?" },
};

function bodyOf(client: Client, model: string, parts: unknown[]): Record<string, unknown> {
  const turn = { role: "user", content: [WORDS[client], ...parts] };
  if (client === "responses") return { model, input: [turn] };
  return { model, max_tokens: 50, messages: [turn] };
}

const ask = (client: Client, model: string, ...parts: unknown[]) =>
  app.post(PATHS[client], bodyOf(client, model, parts));

const CLIENTS = Object.keys(PATHS) as Client[];
/** Vendors that fetch nothing, and the text in which their request must hold a file's bytes. */
const TAKERS = ["local/llava", "rock/claude", "gem/gemini-3-pro"];

describe("an image that its vendor cannot read is told in the words by which agents know it", () => {
  test.each([
    ["claude/m", "/v1/messages", "Could not process image"],
    [
      "newer/m",
      "/v1/responses",
      "The image data you provided does not represent a valid image. Please check your input.",
    ],
    ["gem/gemini-3-pro", "/v1beta/models/gemini-3-pro:generateContent", "Unable to process input image. Please retry."],
    ["gem/gemini-3-pro", "/v1beta/models/gemini-3-pro:generateContent", "Provided image is not valid"],
    ["hosted/m", "/v1/chat/completions", "cannot identify image file <_io.BytesIO object at 0x7f>"],
    ["hosted/m", "/v1/chat/completions", "Failed to load image or audio file"],
  ])("%s at %s: %s", async (model, path, words) => {
    await start();
    const type = "invalid_request_error";
    vendor.always(path, json({ type: "error", error: { type, message: words } }, { status: 400 }));
    for (const client of CLIENTS) {
      const response = await ask(client, model, imageIn[client](PNG_URL));
      const { error } = (await response.json()) as { error: { message: string; code: string } };
      expect([response.status, error.code]).toEqual([400, "invalid_request"]);
      // Claude Code's, and Codex's.
      expect(error.message).toContain("Could not process image");
      expect(error.message).toContain("The image data you provided does not represent a valid image");
      expect(error.message).toContain(`It says: ${words.slice(0, 20)}`);
    }
  });
});

describe("a model that takes text alone", () => {
  const routes = (id: string) => [{ vendor: id, model: id === "gem" ? "gemini-2.5-pro" : "m" }];
  const models: NonNullable<Parameters<typeof startApp>[0]>["models"] = [
    ...["local", "claude", "newer", "gem"].map((id) => ({
      ...{ id: `blind/${id}`, capabilities: { vision: false }, routes: routes(id) },
    })),
    { id: "blind/unsaid", capabilities: { tools: true }, routes: routes("local") },
  ];
  const sound = { type: "input_audio", input_audio: { data: "UklGRgAA", format: "wav" } };

  for (const client of CLIENTS) {
    test.each(["local", "claude", "newer", "gem"])(`is shown no image of a ${client} client: %s`, async (id) => {
      await start({ models });
      for (const url of [PNG_URL, `${files.url}/cat`]) {
        const response = await ask(client, `blind/${id}`, imageIn[client](url));
        const { error } = (await response.json()) as { error: { message: string; param: string } };
        const place = client === "responses" ? "input[0].content[1]" : "messages[0].content[1]";
        expect([response.status, error.param]).toEqual([400, place]);
        expect(error.message).toContain("text alone");
      }
      expect([files.calls.length, vendor.calls.length, app.rows().length]).toEqual([0, 0, 0]);
    });
  }

  describe("in a conversation that another model saw", () => {
    const SEEN = `${PNG_URL}`;
    /** An answered turn with an image in it, a call with an image as its result, and what comes last. */
    const talk: Record<Client, (last: unknown) => Record<string, unknown>> = {
      chat: (last) => ({
        messages: [
          { role: "user", content: [WORDS.chat, imageIn.chat(SEEN)] },
          {
            role: "assistant",
            content: null,
            tool_calls: [{ id: "call_1", type: "function", function: { name: "look", arguments: "{}" } }],
          },
          { role: "tool", tool_call_id: "call_1", content: [imageIn.chat(SEEN)] },
          ...(last ? [{ role: "user", content: [last] }] : []),
        ],
      }),
      messages: (last) => ({
        max_tokens: 50,
        messages: [
          { role: "user", content: [WORDS.messages, imageIn.messages(SEEN)] },
          { role: "assistant", content: [{ type: "tool_use", id: "call_1", name: "look", input: {} }] },
          {
            role: "user",
            content: [
              { type: "tool_result", tool_use_id: "call_1", content: [imageIn.messages(SEEN)] },
              ...(last ? [last] : []),
            ],
          },
        ],
      }),
      responses: (last) => ({
        input: [
          { role: "user", content: [WORDS.responses, imageIn.responses(SEEN)] },
          { type: "function_call", call_id: "call_1", name: "look", arguments: "{}" },
          { type: "function_call_output", call_id: "call_1", output: [imageIn.responses(SEEN)] },
          ...(last ? [{ role: "user", content: [last] }] : []),
        ],
      }),
    };
    const PLACES: Record<Client, string> = {
      chat: "messages[0].content[1], messages[2].content[0]",
      messages: "messages[0].content[1], messages[2].content[0].content[0]",
      responses: "input[0].content[1], input[2].output[0]",
    };

    for (const client of CLIENTS) {
      test.each(["local", "claude", "newer", "gem"])(
        `and from a tool, words stand for it: ${client} client, %s`,
        async (id) => {
          await start({ models });
          for (const last of [undefined, WORDS[client]]) {
            const response = await app.post(PATHS[client], { model: `blind/${id}`, ...talk[client](last) });
            expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, PLACES[client]]);
            const { text } = vendor.calls.at(-1)!;
            expect(text.split("Left out here: an image.").length).toBe(3);
            expect(text).not.toContain(PNG.toString("base64"));
          }
        },
      );

      test(`and behind a tool's result, where chat clients put its images: ${client} client`, async () => {
        await start({ models });
        const body = { model: "blind/local", ...talk[client](imageIn[client](SEEN)) };
        const response = await app.post(PATHS[client], body);
        const place = {
          chat: "messages[3].content[0]",
          messages: "messages[2].content[1]",
          responses: "input[3].content[0]",
        };
        const places = `${PLACES[client]}, ${place[client]}`;
        expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, places]);
        expect(vendor.calls.at(-1)?.text).not.toContain(PNG.toString("base64"));
      });

      test(`what it is asked about now is refused: ${client} client`, async () => {
        await start({ models });
        const said = talk[client](undefined);
        const field = client === "responses" ? "input" : "messages";
        const turns = [
          ...(said[field] as unknown[]),
          { role: "assistant", content: "A cat." },
          { role: "user", content: [imageIn[client](SEEN)] },
        ];
        const response = await app.post(PATHS[client], { model: "blind/local", ...said, [field]: turns });
        const { error } = (await response.json()) as { error: { param: string } };
        expect([response.status, error.param, vendor.calls.length]).toEqual([400, `${field}[4].content[0]`, 0]);
      });

      test.each([
        ["an image", "blind/local", imageIn.messages(SEEN), "image"],
        [
          "a PDF",
          "texts/gpt",
          documentIn.messages(`data:application/pdf;base64,${PDF.toString("base64")}`),
          "document",
        ],
      ])("Claude Code is told what to take out of its conversation: %s", async (_what, model, block, kind) => {
        await start({ models });
        const messages = [
          ...(talk.messages(undefined)["messages"] as unknown[]),
          { role: "assistant", content: "A cat." },
          { role: "user", content: [WORDS.messages, block] },
        ];
        const response = await app.post(PATHS.messages, { model, max_tokens: 50, messages });
        const { error } = (await response.json()) as { error: { message: string } };
        expect(response.status).toBe(400);
        expect(error.message).toContain(`messages.4.content.1.${kind}`);
      });
    }

    const bytes = PNG.toString("base64");
    test.each<[string, Client, Record<string, unknown>, string]>([
      [
        "that it drew beside its words",
        "chat",
        {
          messages: [
            { role: "user", content: "Draw." },
            { role: "assistant", content: "Here.", images: [{ type: "image_url", image_url: { url: SEEN } }] },
            { role: "user", content: "Tell." },
          ],
        },
        "messages[1].images[0]",
      ],
      [
        "that it drew without a word",
        "responses",
        {
          input: [
            { role: "user", content: "Draw." },
            { type: "image_generation_call", id: "ig_1", status: "completed", result: bytes },
            { role: "user", content: "Tell." },
          ],
        },
        "input[1]",
      ],
      [
        "in the place of a file",
        "chat",
        {
          messages: [
            { role: "user", content: [{ type: "file", file: { filename: "a.png", file_data: SEEN } }] },
            { role: "assistant", content: "A cat." },
            { role: "user", content: "Tell." },
          ],
        },
        "messages[0].content[0]",
      ],
      [
        "in the place of a document",
        "messages",
        {
          max_tokens: 50,
          messages: [
            {
              role: "user",
              content: [{ type: "document", source: { type: "base64", media_type: "image/png", data: bytes } }],
            },
            { role: "assistant", content: "A cat." },
            { role: "user", content: "Tell." },
          ],
        },
        "messages[0].content[0]",
      ],
    ])("an image %s is told in words: %s client", async (_what, client, body, place) => {
      await start({ models });
      for (const id of ["local", "claude", "newer", "gem"]) {
        const response = await app.post(PATHS[client], { model: `blind/${id}`, ...body });
        expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, place]);
        const { text } = vendor.calls.at(-1)!;
        expect(text.split("Left out here: an image.").length).toBe(2);
        expect(text).not.toContain(bytes);
      }
      // Who sees images is shown it, or told that it is not.
      const seen = await app.post(PATHS[client], { model: "hosted/m", ...body });
      expect([seen.status, vendor.calls.at(-1)!.text.includes("Left out here")]).toEqual([200, false]);
    });

    test("the beginning of an answer makes no question a past one", async () => {
      await start({ models });
      const messages = [
        { role: "user", content: [WORDS.messages, imageIn.messages(SEEN)] },
        { role: "assistant", content: "It is" },
      ];
      const response = await app.post(PATHS.messages, { model: "blind/local", max_tokens: 50, messages });
      expect([response.status, vendor.calls.length]).toEqual([400, 0]);
    });

    test("a strict client has the places named in an error; a cache mark stays", async () => {
      await start({ models });
      const marked = { ...(imageIn.messages(SEEN) as object), cache_control: { type: "ephemeral" } };
      const messages = [
        { role: "user", content: [marked] },
        { role: "assistant", content: "A cat." },
        { role: "user", content: "Sure?" },
      ];
      const body = { model: "blind/claude", max_tokens: 50, messages };
      const refused = await app.post(PATHS.messages, body, { headers: { "x-sluice-strict": "1" } });
      expect([refused.status, vendor.calls.length]).toEqual([400, 0]);
      expect((await app.post(PATHS.messages, body)).status).toBe(200);
      const sent = vendor.calls[0]?.json as { messages: { content: unknown[] }[] };
      expect(sent.messages[0]?.content[0]).toEqual({
        type: "text",
        text: expect.stringContaining("Left out here"),
        cache_control: { type: "ephemeral" },
      });
    });
  });

  test("hears nothing either; of one whose row does not say, nobody knows", async () => {
    await start({ models });
    expect((await ask("chat", "blind/local", sound)).status).toBe(400);
    expect(vendor.calls.length).toBe(0);
    for (const part of [sound, imageIn.chat(PNG_URL)])
      expect((await ask("chat", "blind/unsaid", part)).status).toBe(200);
    expect((await ask("chat", "local/llava", imageIn.chat(PNG_URL))).status).toBe(200);
  });
});

describe("a vendor that takes no PDF", () => {
  const data = PDF.toString("base64");
  const url = `data:application/pdf;base64,${data}`;
  const pdf: Record<Client, unknown> = {
    chat: { type: "file", file: { filename: "a.pdf", file_data: url } },
    messages: { type: "document", source: { type: "base64", media_type: "application/pdf", data } },
    responses: { type: "input_file", filename: "a.pdf", file_data: url },
  };
  const fn = { name: "read", arguments: "{}" };
  /** An answered turn with a file in it, and a tool that gave one; behind it, what is asked now. */
  const talk = (client: Client, now: unknown[]): Record<string, unknown> => {
    const asked = { role: "user", content: [WORDS[client], pdf[client]] };
    const last =
      now.length > 0
        ? [
            { role: "assistant", content: "Read." },
            { role: "user", content: now },
          ]
        : [];
    if (client === "responses") {
      const call = { type: "function_call", call_id: "c1", ...fn };
      const output = { type: "function_call_output", call_id: "c1", output: [WORDS.responses, pdf.responses] };
      return { input: [asked, call, output, ...last] };
    }
    const call = { id: "c1", type: "function", function: fn };
    const chat = [
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "c1", content: "a.pdf" },
      { role: "user", content: [WORDS.chat, pdf.chat] },
    ];
    const result = { type: "tool_result", tool_use_id: "c1", content: [WORDS.messages, pdf.messages] };
    const messages = [
      { role: "assistant", content: [{ type: "tool_use", id: "c1", name: "read", input: {} }] },
      { role: "user", content: [result] },
    ];
    return { max_tokens: 50, messages: [asked, ...(client === "chat" ? chat : messages), ...last] };
  };
  const PLACES: Record<Client, string> = {
    chat: "messages[0].content[1], messages[3].content[1]",
    messages: "messages[0].content[1], messages[2].content[0].content[1]",
    responses: "input[0].content[1], input[2].output[1]",
  };

  for (const client of CLIENTS) {
    test(`words stand for one of an earlier turn, or of a tool: ${client} client`, async () => {
      await start();
      for (const now of [[], [WORDS[client]]]) {
        const response = await app.post(PATHS[client], { model: "texts/m", ...talk(client, now) });
        expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, PLACES[client]]);
        const { text } = vendor.calls.at(-1)!;
        expect(text.split("Left out here: a document.").length).toBe(3);
        expect(text).not.toContain(data);
      }
      const shown = await app.post(PATHS[client], { model: "hosted/m", ...talk(client, []) });
      expect([shown.status, vendor.calls.at(-1)?.text.split(data).length]).toEqual([200, 3]);
    });

    test(`one that it is asked about now is refused with its place: ${client} client`, async () => {
      await start();
      const response = await app.post(PATHS[client], { model: "texts/m", ...talk(client, [pdf[client]]) });
      const { error } = (await response.json()) as { error: { message: string; param: string } };
      const place = { chat: "messages[5]", messages: "messages[4]", responses: "input[4]" }[client];
      expect([response.status, error.param, vendor.calls.length]).toEqual([400, `${place}.content[0]`, 0]);
      expect(error.message).toContain("takes no PDF");
    });
  }

  test("a document of text is told it, as ever", async () => {
    await start();
    const source = { type: "text", media_type: "text/plain", data: "Gates open at dawn." };
    expect((await ask("messages", "texts/m", { type: "document", source })).status).toBe(200);
    expect(vendor.calls[0]?.text).toContain("Gates open at dawn.");
  });
});

describe("vendors that fetch nothing are sent the bytes", () => {
  for (const client of CLIENTS) {
    test.each(TAKERS)(`an image from ${client} to %s: fetched once, its type by its own bytes`, async (model) => {
      await start();
      files.always("/cat", file(PNG, "image/jpeg"));
      const part = imageIn[client](`${files.url}/cat`);
      expect((await ask(client, model, part, part)).status).toBe(200);
      expect(files.calls.length).toBe(1);
      expect(files.calls[0]?.headers["accept"]).toContain("image/png");
      const { text } = vendor.calls[0]!;
      expect(text.split(PNG.toString("base64")).length).toBe(3);
      expect(text).toContain("image/png");
      expect(text).not.toContain("image/jpeg");
      expect(text).not.toContain(files.url);
      expect(text).not.toContain("/cat");
    });

    test.each(TAKERS)(`a PDF document from ${client} to %s`, async (model) => {
      await start();
      files.always("/paper.pdf", file(PDF, "application/octet-stream"));
      expect((await ask(client, model, documentIn[client](`${files.url}/paper.pdf`))).status).toBe(200);
      const { text } = vendor.calls[0]!;
      expect(text).toContain(PDF.toString("base64"));
      expect(text).toContain("application/pdf");
      expect(text).not.toContain(files.url);
    });
  }

  const KINDS = { image: [imageIn, PNG, "image/png"], document: [documentIn, PDF, "application/pdf"] } as const;
  for (const [kind, [partOf, bytes, type]] of Object.entries(KINDS)) {
    test.each(CLIENTS)(
      `the ${kind} of a %s client is fetched once for a server that refuses a field beside it`,
      async (client) => {
        await start();
        files.always("/a", file(bytes, type));
        vendor.answer(PATHS.chat, json({ error: { message: "property 'user' is unsupported" } }, { status: 400 }));
        const user = client === "messages" ? { metadata: { user_id: "u" } } : { user: "u" };
        const response = await app.post(PATHS[client], {
          ...bodyOf(client, "local/llava", [partOf[client](`${files.url}/a`)]),
          ...user,
        });
        expect([response.status, files.calls.length, vendor.calls.length]).toEqual([200, 1, 2]);
        const [refused, taken] = vendor.calls.map(({ json: sent }) => sent as Record<string, unknown>);
        expect(refused).toEqual({ ...taken, user: "u" });
        expect(taken).not.toHaveProperty("user");
        expect(JSON.stringify(taken)).toContain(bytes.toString("base64"));
      },
    );
  }

  test("a document of text becomes text", async () => {
    await start();
    files.always("/notes", file("Notes of the day: überall", "text/markdown; charset=utf-8"));
    expect((await ask("messages", "rock/claude", documentIn.messages(`${files.url}/notes`))).status).toBe(200);
    const sent = vendor.calls[0]?.json as { messages: { content: unknown[] }[] };
    expect(sent.messages[0]?.content[1]).toEqual({
      type: "document",
      source: { type: "text", media_type: "text/plain", data: "Notes of the day: überall" },
      title: "Paper",
    });
  });

  test("images inside results of tools and inside documents of blocks, on the diagonal", async () => {
    await start();
    files.always("/a.png", file(PNG, "image/png"));
    const image = imageIn.messages(`${files.url}/a.png`);
    const inline = { type: "base64", media_type: "image/png", data: PNG.toString("base64") };
    const messages = [
      { role: "user", content: "Look." },
      { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "shot", input: {} }] },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "toolu_1", content: [image, { type: "text", text: "x" }] },
          { type: "document", source: { type: "content", content: [image] } },
        ],
      },
    ];
    const tools = [{ name: "shot", input_schema: { type: "object" } }];
    const body = { model: "rock/claude", max_tokens: 9, messages, tools };
    expect((await app.post(PATHS.messages, body)).status).toBe(200);
    expect(files.calls.length).toBe(1);
    const sent = vendor.calls[0]?.json as { messages: { content: Record<string, unknown>[] }[] };
    const [result, document] = sent.messages[2]!.content;
    expect(result?.["content"]).toEqual([
      { type: "image", source: inline },
      { type: "text", text: "x" },
    ]);
    expect(document?.["source"]).toEqual({ type: "content", content: [{ type: "image", source: inline }] });
  });

  test("an output of a function with an image, from the newer dialect", async () => {
    await start();
    files.always("/a.png", file(PNG, "image/png"));
    const output = [imageIn.responses(`${files.url}/a.png`)];
    const input = [
      { role: "user", content: "Look." },
      { type: "function_call", call_id: "call_1", name: "shot", arguments: "{}" },
      { type: "function_call_output", call_id: "call_1", output },
    ];
    expect((await app.post(PATHS.responses, { model: "local/llava", input })).status).toBe(200);
    expect(vendor.calls[0]?.text).toContain(PNG_URL);
  });

  test("on the diagonal everything else stays as it was", async () => {
    await start();
    files.always("/a.png", file(PNG, "image/png"));
    const url = `${files.url}/a.png`;
    const part = `{"type":"image_url","image_url":{"url":"${url}","detail":"low"},"x":1}`;
    const body = `{ "model":"local/llava", "seed":12345678901234567890,  "unknown":{"a":1.50},"messages":[{"role":"user","content":[${part}],"name":"n"}]}`;
    expect((await app.post(PATHS.chat, body)).status).toBe(200);
    const { text } = vendor.calls[0]!;
    expect(text).toContain('"seed":12345678901234567890,  "unknown":{"a":1.50}');
    expect(text).toContain(part.replace(url, PNG_URL));
    expect(text).toContain('"name":"n"');
  });
});

describe("vendors that fetch by themselves are sent the URL", () => {
  test.each([
    ["chat", "hosted/m"],
    ["messages", "hosted/m"],
    ["messages", "claude/m"],
    ["chat", "claude/m"],
  ] as const)("an https image from %s to %s", async (client, model) => {
    await start();
    expect((await ask(client, model, imageIn[client]("https://pictures.example/cat.png"))).status).toBe(200);
    expect(vendor.calls[0]?.text).toContain("https://pictures.example/cat.png");
    expect(files.calls).toEqual([]);
  });

  test("plain http, which the messages dialect's vendors refuse, is fetched here", async () => {
    await start();
    files.always("/a.png", file(PNG, "image/png"));
    for (const client of ["chat", "messages"] as const) {
      expect((await ask(client, "claude/m", imageIn[client](`${files.url}/a.png`))).status).toBe(200);
    }
    expect(vendor.calls.map(({ text }) => text.includes(PNG.toString("base64")))).toEqual([true, true]);
  });

  test("an image from http to a chat vendor stays a URL, a document there does not", async () => {
    await start();
    files.always("/p.pdf", file(PDF, "application/pdf"));
    const parts = [imageIn.messages(`${files.url}/a.png`), documentIn.messages(`${files.url}/p.pdf`)];
    expect((await ask("messages", "hosted/m", ...parts)).status).toBe(200);
    expect(files.calls.map(({ path }) => path)).toEqual(["/p.pdf"]);
    expect(vendor.calls[0]?.text).toContain(`${files.url}/a.png`);
    expect(vendor.calls[0]?.text).toContain(`data:application/pdf;base64,${PDF.toString("base64")}`);
  });

  test("a document for a vendor that fetches them too stays a URL, on the diagonal and across", async () => {
    await start({ vendors: [vendorAt(vendor, "chat", "router", { remoteMedia: "all" })] });
    const url = "http://papers.example/p.pdf";
    for (const client of CLIENTS) expect((await ask(client, "router/m", documentIn[client](url))).status).toBe(200);
    for (const { text } of vendor.calls) expect(text).toContain(`"file_data":"${url}"`);
    expect(vendor.calls.length).toBe(CLIENTS.length);
  });

  test("addresses that Gemini reads by itself", async () => {
    await start();
    const urls = ["https://www.youtube.com/watch?v=1", "https://generativelanguage.googleapis.com/v1beta/files/x"];
    expect((await ask("chat", "gem/gemini-3-pro", ...urls.map(imageIn.chat))).status).toBe(200);
    for (const url of urls) expect(vendor.calls[0]?.text).toContain(url);
  });

  test.each(["chat", "messages", "responses"] as const)(
    "a cloud's own address from %s: to those that read it",
    async (client) => {
      await start();
      const part = imageIn[client]("gs://bucket/a.png");
      for (const model of ["gem/gemini-3-pro", "hosted/m"]) {
        expect((await ask(client, model, part)).status).toBe(200);
        expect(vendor.calls.pop()?.text).toContain("gs://bucket/a.png");
      }
      const refused = [
        ...["claude/m", "newer/m"].map((model) => [model, part] as const),
        ["gem/gemini-3-pro", imageIn[client]("s3://b/a.png")] as const,
      ];
      for (const [model, odd] of refused) {
        const response = await ask(client, model, odd);
        const { error } = (await response.json()) as { error: { message: string } };
        expect([model, response.status]).toEqual([model, 400]);
        expect(error.message).toMatch(
          /^The image at (?:messages|input)\[0\]\.content\[1\] .* does not read such addresses\.(?: \(messages\.0\.content\.1\.image\))?$/,
        );
      }
      expect(vendor.calls).toEqual([]);
    },
  );

  const FILMS = ["data:application/pdf;base64,JVBERi0x", "data:video/mp4;base64,AAAA", "JVBERi0x"];
  test.each(FILMS)("%s for an image: to those that read it", async (url) => {
    await start();
    for (const client of CLIENTS) {
      for (const model of ["claude/m", "rock/claude", "newer/m"]) {
        const { param, message } = await refusal(await ask(client, model, imageIn[client](url)));
        expect(param).toEndWith("[0].content[1]");
        expect(message).toContain("takes no image of type");
      }
    }
    for (const client of CLIENTS) {
      for (const model of ["gem/gemini-3-pro", "hosted/m"]) {
        expect((await ask(client, model, imageIn[client](url))).status).toBe(200);
        expect(vendor.calls.pop()?.text).toContain(url.split(",").at(-1)!);
      }
    }
  });

  test("an image of a type that the messages dialect does not have (dialects.md 2.2)", async () => {
    await start();
    const source = { type: "base64", media_type: "image/bmp", data: "Qk0AAAAA" };
    const { param } = await refusal(await ask("messages", "claude/m", { type: "image", source }));
    expect(param).toBe("messages[0].content[1]");
    expect((await ask("messages", "hosted/m", { type: "image", source })).status).toBe(200);
  });

  test("a URL in a text is a text", async () => {
    await start();
    expect((await ask("chat", "local/llava", { type: "text", text: `${files.url}/a.png` })).status).toBe(200);
    expect(files.calls).toEqual([]);
  });
});

/** What a client is told, and that nothing else happened. */
async function refusal(response: Response): Promise<{ param: string; message: string }> {
  expect(response.status).toBe(400);
  const { error } = (await response.json()) as { error: { code: string; param: string; message: string } };
  expect(error.code).toBe("invalid_request");
  expect(vendor.calls).toEqual([]);
  expect(app.rows()).toEqual([]);
  return error;
}

describe("a vendor that refuses a URL is sent the bytes, and the next ones at once", () => {
  test.each([
    ["copilot", "external image URLs are not supported"],
    ["lmstudio", "'url' field must be a base64 encoded image."],
    ["kimi", "Invalid request: unsupported image url: https://pictures.example/cat.png"],
    ["ollama", "invalid image input"],
    ["ollama-old", "image URLs are not currently supported, please use base64 encoded data instead"],
    ["vllm", "The URL must be from one of the allowed domains: ['a.example']. Input URL domain: b.example"],
  ])("%s: %s", async (name, message) => {
    await start();
    files.always("/a.png", file(PNG, "image/png"));
    vendor.always("/v1/chat/completions", ({ text }) =>
      text.includes(files.url) ? json({ error: { message } }, { status: 400 }) : json(chatReply("fine")),
    );
    for (const [client, attempts] of [
      ["chat", "2"],
      ["messages", null],
      ["responses", null],
    ] as const) {
      const { status, headers } = await ask(client, `hosted/${name}`, imageIn[client](`${files.url}/a.png`));
      expect([status, headers.get("x-sluice-attempts")]).toEqual([200, attempts]);
    }
    expect(vendor.calls.map(({ text }) => text.includes(PNG.toString("base64")))).toEqual([false, true, true, true]);
  });

  test("bytes that are no image are no reason to ask again", async () => {
    await start();
    vendor.always("/v1/chat/completions", json({ error: { message: "invalid image input" } }, { status: 400 }));
    expect((await ask("chat", "hosted/m", imageIn.chat(PNG_URL))).status).toBe(400);
    expect(vendor.calls).toHaveLength(1);
  });
});

describe("WebP for a vendor that reads none", () => {
  let webp: Buffer;
  let webpUrl: string;
  beforeAll(async () => {
    // Two pixels of one colour: what is written anew shows the very same.
    webp = Buffer.from(await new Bun.Image(PNG).resize(2, 1).webp({ lossless: true }).bytes());
    webpUrl = `data:image/webp;base64,${webp.toString("base64")}`;
  });

  /** The image that the vendor was sent last, as its type and its pixels. */
  async function sentImage() {
    const [, type, data] = /data:(image\/\w+);base64,([\w+/=]+)/.exec(vendor.calls.at(-1)?.text ?? "") ?? [];
    const { width, height, format } = await new Bun.Image(Buffer.from(data ?? "", "base64")).metadata();
    return { type, data, size: [width, height], format };
  }

  test.each(CLIENTS)("is sent as PNG, from %s; others get it as it is", async (client) => {
    await start();
    for (const url of [webpUrl, webpUrl.replace("webp", "png")]) {
      expect((await ask(client, "webless/m", imageIn[client](url))).status).toBe(200);
      expect(await sentImage()).toMatchObject({ type: "image/png", size: [2, 1], format: "png" });
    }
    const [first, second] = vendor.calls.map(({ text }) => text);
    expect(first).toBe(second!);
    expect((await ask(client, "webless/m", imageIn[client](PNG_URL))).status).toBe(200);
    expect(vendor.calls.at(-1)?.text).toContain(PNG_URL);
    expect((await ask(client, "hosted/m", imageIn[client](webpUrl))).status).toBe(200);
    expect(vendor.calls.at(-1)?.text).toContain(webpUrl);
  });

  test("also where it is fetched; one that cannot be read goes as it is", async () => {
    await start();
    files.always("/a.webp", file(webp, "image/webp"));
    expect((await ask("chat", "webless/m", imageIn.chat(`${files.url}/a.webp`))).status).toBe(200);
    expect(await sentImage()).toMatchObject({ type: "image/png", format: "png" });
    const damaged = `data:image/webp;base64,${webp.subarray(0, 20).toString("base64")}`;
    expect((await ask("chat", "webless/m", imageIn.chat(damaged))).status).toBe(200);
    expect(vendor.calls.at(-1)?.text).toContain(damaged);
  });

  test.each([
    "Failed to load image or audio file",
    "'url' field must be a base64 encoded image.",
    "invalid image input",
  ])("is learnt of a server that refuses it: %s", async (message) => {
    await start();
    vendor.always("/v1/chat/completions", ({ text }) =>
      text.includes("image/webp") ? json({ error: { message } }, { status: 400 }) : json(chatReply("fine")),
    );
    for (const attempts of ["2", null]) {
      const { status, headers } = await ask("chat", "hosted/local", imageIn.chat(webpUrl));
      expect([status, headers.get("x-sluice-attempts")]).toEqual([200, attempts]);
    }
    expect(vendor.calls.map(({ text }) => text.includes("image/png"))).toEqual([false, true, true]);
  });

  test("whose request is over does not wait for the images of others, which are written one at a time", async () => {
    const large = await new Bun.Image(PNG).resize(1_000, 1_000).webp().bytes();
    const media = (bytes: Uint8Array) => ({ mediaType: "image/webp", data: Buffer.from(bytes).toString("base64") });
    const leaving = new AbortController();
    const ended: string[] = [];
    const first = asPng(media(large), manualClock(), new AbortController().signal).then(() => ended.push("first"));
    const second = asPng(media(webp), manualClock(), leaving.signal).catch((reason) => ended.push(String(reason)));
    leaving.abort("left");
    await Promise.all([first, second]);
    expect(ended).toEqual(["left", "first"]);
    expect((await asPng(media(webp), manualClock(), new AbortController().signal)).mediaType).toBe("image/png");
  });

  test("the built-in rows of llama.cpp, LM Studio and Ollama know it", () => {
    const rows = registry.filter(({ quirks }) => quirks.noWebp).map(({ id }) => id);
    expect(rows).toEqual(["ollama", "lmstudio", "llamacpp"]);
  });
});

describe("what cannot be had is a 400 that names its place", () => {
  test.each(CLIENTS)("what no vendor can read, from %s: none of them is asked", async (client) => {
    await start();
    for (const [what, part, field] of BAD_MEDIA[client]) {
      for (const model of ["hosted/m", "claude/m", "newer/m", "gem/gemini-3-pro"]) {
        const { param } = await refusal(await ask(client, model, part));
        const list = client === "responses" ? "input" : "messages";
        expect([what, model, param]).toEqual([what, model, `${list}[0].content[1].${field}`]);
      }
    }
  });

  const rows: [name: string, answer: () => Answer, says: RegExp][] = [
    ["missing", () => ({ ...file("no", "text/plain"), status: 404 }), /answered 404/],
    ["empty", () => file("", "image/png"), /empty/],
    ["a web page", () => file("<html>", "image/png"), /no PNG/],
    ["a redirect inward", () => redirect("http://10.0.0.1/secret.png"), /not public/],
    ["too large", () => file(Buffer.concat([PNG, Buffer.alloc(MAX_FILE_BYTES)]), "image/png"), /larger than 10 MiB/],
  ];
  test.each(rows)("an image that is %s", async (_name, answer, says) => {
    await start();
    files.always("/a", answer());
    const { param, message } = await refusal(await ask("chat", "local/llava", imageIn.chat(`${files.url}/a`)));
    expect(param).toBe("messages[0].content[1]");
    expect(message).toMatch(says);
    expect(message).not.toContain("10.0.0.1");
  });

  test("a host inside that nobody allowed: not even asked", async () => {
    await start({ config: {} });
    const { message } = await refusal(await ask("chat", "gem/gemini-3-pro", imageIn.chat(`${files.url}/a`)));
    expect(message).toMatch(/not one of a web server|not public/);
    expect(files.calls).toEqual([]);
  });

  test.each(["own/llava", "local/llava", "newer/gpt"])(
    "a list beside the conversation hides nothing of it: %s",
    async (model) => {
      await start({ config: {} });
      for (const url of [`${files.url}/image`, "file:///etc/passwd"]) {
        if (model.startsWith("newer") && url.startsWith("http")) continue;
        for (const hiding of [[], [{ role: "user", content: "Hello" }]]) {
          const body = { messages: hiding, ...bodyOf("responses", model, [imageIn.responses(url)]) };
          const response = await app.post(PATHS.responses, body);
          expect(response.status).toBe(400);
          expect(await response.text()).toContain("input[0].content[1]");
        }
      }
      expect([files.unexpected.length, files.calls.length, vendor.calls.length]).toEqual([0, 0, 0]);
    },
  );

  test.each(["own/llava", "local/llava", "newer/gpt"])(
    "a list of content beside a tool's output hides nothing of it: %s",
    async (model) => {
      await start({ config: {} });
      for (const url of [`${files.url}/image`, "file:///etc/passwd"]) {
        if (model.startsWith("newer") && url.startsWith("http")) continue;
        for (const content of [[], [{ type: "input_text", text: "Hello" }]]) {
          const call = { type: "function_call", call_id: "c1", name: "look", arguments: "{}" };
          const result = { type: "function_call_output", call_id: "c1", content, output: [imageIn.responses(url)] };
          const response = await app.post(PATHS.responses, { model, input: [call, result] });
          expect(response.status).toBe(400);
          expect(await response.text()).toContain("input[1].output[0]");
        }
      }
      expect([files.unexpected.length, files.calls.length, vendor.calls.length]).toEqual([0, 0, 0]);
    },
  );

  test("a film, sound and a hidden image, which a model server would fetch by itself: not asked to", async () => {
    await start();
    const url = "http://169.254.169.254/latest/meta-data";
    const hidden = { type: "text", text: "x", uuid: "1" };
    for (const part of [
      { type: "video_url", video_url: { url } },
      { type: "audio_url", audio_url: { url } },
      { ...hidden, image_url: url },
      { ...hidden, video_url: { url: ` ${url}` } },
      { ...imageIn.chat(PNG_URL)!, uuid: "1", audio_url: "file:///etc/passwd" },
    ]) {
      const response = await ask("chat", "local/vlm", part);
      const { error } = (await response.json()) as { error: { message: string; param: string } };
      expect([response.status, error.param]).toEqual([400, "messages[0].content[1]"]);
      expect(error.message).toContain("not fetched for this model");
    }
    expect([files.calls.length, vendor.calls.length]).toEqual([0, 0]);
    // Their bytes go on, as does everything to those who may fetch.
    const film = { type: "video_url", video_url: { url: "data:video/mp4;base64,AAAAIGZ0eXBpc29t" } };
    const away = { type: "video_url", video_url: { url: "https://a.example/b.mp4" } };
    expect([(await ask("chat", "local/vlm", film)).status, (await ask("chat", "hosted/vlm", away)).status]).toEqual([
      200, 200,
    ]);
    expect(vendor.calls.length).toBe(2);
  });

  test("in the messages dialect, inside a result of a tool, in a stream", async () => {
    await start();
    const result = { type: "tool_result", tool_use_id: "toolu_1", content: [imageIn.messages(`${files.url}/none`)] };
    const messages = [
      { role: "user", content: "Look." },
      { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "shot", input: {} }] },
      { role: "user", content: [result] },
    ];
    const response = await app.post(PATHS.messages, { model: "local/llava", max_tokens: 9, messages, stream: true });
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { error: { message: string } };
    expect(error.message).toStartWith("messages[2].content[0].content[0]: ");
    expect(vendor.calls).toEqual([]);
    expect(app.rows()).toEqual([]);
  });

  test("a document that is neither PDF nor text", async () => {
    await start();
    files.always("/a.zip", file(Buffer.from([0x50, 0x4b, 3, 4]), "application/zip"));
    const { message } = await refusal(await ask("responses", "local/m", documentIn.responses(`${files.url}/a.zip`)));
    expect(message).toMatch(/^input\[0\]\.content\[1\]: .*neither PDF nor plain text/);
  });

  test("one address too many", async () => {
    await start();
    const parts = Array.from({ length: MAX_REMOTE + 1 }, (_, at) => imageIn.chat(`${files.url}/${at}`));
    const { param } = await refusal(await ask("chat", "local/llava", ...parts));
    expect(param).toBe(`messages[0].content[${MAX_REMOTE + 1}]`);
    expect(files.calls).toEqual([]);
  });

  test("all together too large", async () => {
    await start();
    const big = Buffer.concat([PNG, Buffer.alloc(MAX_FILE_BYTES - PNG.length)]);
    for (const name of ["a", "b", "c"]) files.always(`/${name}`, file(big, "image/png"));
    const parts = ["a", "b", "c"].map((name) => imageIn.chat(`${files.url}/${name}`));
    const { message } = await refusal(await ask("chat", "local/llava", ...parts));
    expect(message).toMatch(/too large together/);
  });

  test("a server that never answers has ten seconds, and the others are given up then", async () => {
    const clock = manualClock();
    await start({ clock });
    files.always("/slow", neverAnswer());
    files.always("/slower", neverAnswer());
    const parts = [imageIn.chat(`${files.url}/slow`), imageIn.chat(`${files.url}/slower`)];
    const work = ask("chat", "local/llava", ...parts);
    await files.called(1);
    await clock.advance(MEDIA_DEADLINE_MS);
    const { message } = await refusal(await work);
    expect(message).toMatch(/took too long|does not answer/);
    await Promise.all(files.calls.map((call) => within(call.whenAborted, "the server was hung up on")));
  });

  test("when one cannot be had, the others are given up", async () => {
    await start();
    files.always("/slow", neverAnswer());
    files.always("/missing", async () => {
      await files.called(1);
      return { ...file("no", "text/plain"), status: 404 };
    });
    const parts = [imageIn.chat(`${files.url}/slow`), imageIn.chat(`${files.url}/missing`)];
    const { param } = await refusal(await ask("chat", "local/llava", ...parts));
    expect(param).toBe("messages[0].content[2]");
    const slow = files.calls.find(({ path }) => path === "/slow")!;
    await within(slow.whenAborted, "the server was hung up on");
  });

  test("a client that leaves: the fetch ends, the vendor is not asked", async () => {
    await start();
    files.always("/slow", neverAnswer());
    const leaving = new AbortController();
    const body = bodyOf("chat", "local/llava", [imageIn.chat(`${files.url}/slow`)]);
    const work = app.post(PATHS.chat, body, { signal: leaving.signal });
    await files.called();
    leaving.abort();
    await within(files.calls[0]!.whenAborted, "the server was hung up on");
    await work;
    expect(vendor.calls).toEqual([]);
  });
});

describe("agents send the same images every turn", () => {
  test("they are fetched again only after a while", async () => {
    const clock = manualClock();
    await start({ clock });
    files.always("/a.png", file(PNG, "image/png"));
    const turn = () => ask("chat", "local/llava", imageIn.chat(`${files.url}/a.png`));
    for (let round = 0; round < 3; round++) expect((await turn()).status).toBe(200);
    expect(files.calls.length).toBe(1);
    await clock.advance(KEPT_MS);
    await turn();
    expect(files.calls.length).toBe(2);
    expect(vendor.calls.every(({ text }) => text.includes(PNG_URL))).toBe(true);
  });

  test("a failure is not kept", async () => {
    await start();
    files.answer("/a.png", { ...file("later", "text/plain"), status: 503 }, file(PNG, "image/png"));
    const turn = () => ask("chat", "local/llava", imageIn.chat(`${files.url}/a.png`));
    expect((await turn()).status).toBe(400);
    expect((await turn()).status).toBe(200);
  });
});

describe("data URLs (dialects.md 4.8 #46)", () => {
  const base64 = PNG.toString("base64");
  const rows: [odd: string, sound: string][] = [
    [`data:image/jpeg;base64,${base64}`, PNG_URL],
    [`data:image/jpg;base64,/9j/4AAQ`, "data:image/jpeg;base64,/9j/4AAQ"],
    [`data:image/png;charset=utf-8;base64,${base64}`, PNG_URL],
    [`data:;base64,${base64}`, PNG_URL],
    [`DATA:IMAGE/PNG;BASE64,${base64}`, PNG_URL],
    [`data:image/png;base64,${encodeURIComponent(base64)}`, PNG_URL],
    ["data:image/svg+xml;utf8,<svg/>", "data:image/svg+xml;base64,PHN2Zy8+"],
    [`data:image/png,${base64}`, PNG_URL],
    [`data:image/png;base64,${base64.slice(0, 76)}\r\n${base64.slice(76)}`, PNG_URL],
    [`data:image/png;base64,${base64}\n`, PNG_URL],
    [base64, PNG_URL],
  ];
  test.each(rows)("%s is mended on the diagonal", async (odd, sound) => {
    await start();
    expect((await ask("chat", "hosted/m", imageIn.chat(odd))).status).toBe(200);
    const sent = vendor.calls[0]?.json as { messages: { content: { image_url: unknown }[] }[] };
    const [, image] = sent.messages[0]!.content;
    expect(image?.image_url).toEqual({ url: sound, detail: "low" });
  });

  test("a messages image of another type than it says, and one with a prefix", async () => {
    await start();
    const sources: Record<string, unknown>[] = [
      { type: "base64", media_type: "image/jpeg", data: base64 },
      { type: "base64", media_type: "image/png", data: PNG_URL },
      { type: "base64", media_type: "image/png", data: `${base64.slice(0, 76)}\n${base64.slice(76)}` },
      { type: "base64", media_type: "image/png", data: `${base64}\n` },
      { type: "base64", media_type: "text/html", data: `\n${base64}` },
      { type: "url", url: PNG_URL },
    ];
    // Its vendor takes four marks at the most.
    const marked = (at: number) => at < 4 && { cache_control: { type: "ephemeral" } };
    const parts = sources.map((source, at) => ({ type: "image", source, ...marked(at) }));
    expect((await ask("messages", "claude/m", ...parts)).status).toBe(200);
    const sent = vendor.calls[0]?.json as { messages: { content: unknown[] }[] };
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: base64 } };
    expect(sent.messages[0]?.content.slice(1)).toEqual(sources.map((_, at) => ({ ...image, ...marked(at) })));
  });

  test("a document's text at a data: URL, which the messages dialect does not have", async () => {
    await start();
    expect((await ask("messages", "claude/m", documentIn.messages("data:text/plain;base64,aGk="))).status).toBe(200);
    const sent = vendor.calls[0]?.json as { messages: { content: unknown[] }[] };
    const source = { type: "text", media_type: "text/plain", data: "hi" };
    expect(sent.messages[0]?.content[1]).toEqual({ type: "document", source, title: "Paper" });
  });

  test("a document of bare base64 is told as what it is", async () => {
    await start();
    const data = PDF.toString("base64");
    expect((await ask("chat", "hosted/m", documentIn.chat(data))).status).toBe(200);
    expect(vendor.calls[0]?.text).toContain(`"file_data":"data:application/pdf;base64,${data}"`);
    const url = `data:application/pdf;base64,${data}`;
    for (const part of [{ file_data: data }, { file_url: data }, { file_url: url }]) {
      expect((await ask("responses", "hosted/m", { type: "input_file", ...part })).status).toBe(200);
      expect(vendor.calls.at(-1)?.text).toContain(`"file_data":"${url}"`);
    }
  });

  test.each([PNG_URL, "data:application/pdf;base64,JVBERi0x", "data:text/plain;base64,aGk=", "https://x.example/a"])(
    "%s stays as it is",
    (url) => {
      expect(soundMedia({ kind: "document", path: "", field: "", url })).toBeUndefined();
    },
  );

  test.each(["image/heic", "image/svg+xml", "image/x-icon", "video/mp4", ""])(
    "an image of %p stays as it is",
    (type) => {
      const url = `data:${type};base64,AAAA`;
      expect(soundMedia({ kind: "image", path: "", field: "", url })).toBeUndefined();
    },
  );
});

describe("the walk", () => {
  test("changes nothing by itself, whatever the body is", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (value, other) => {
        const body = { messages: [value, { role: "user", content: [value, other] }], input: other };
        const before = JSON.stringify(body);
        expect(replaceMedia(body as Record<string, unknown>, () => undefined)).toBeUndefined();
        expect(JSON.stringify(body)).toBe(before);
      }),
    );
  });

  test("never changes the body it is given", () => {
    const body = bodyOf("chat", "m", [imageIn.chat("https://x.example/a")]);
    const before = structuredClone(body);
    const edits = replaceMedia(body, () => ({ mediaType: "image/png", data: "AAAA" }));
    expect(body).toEqual(before);
    expect(JSON.stringify(edits)).toContain("data:image/png;base64,AAAA");
    expect(JSON.stringify(edits)).not.toContain("x.example");
  });
});

describe("a translation that is only shown", () => {
  test("has a note where the bytes would stand, and fetches nothing", async () => {
    await start();
    const body = bodyOf("chat", "gem/gemini-3-pro", [imageIn.chat(`${files.url}/a.png`)]);
    const response = await app.post("/v1/debug/translate", { dialect: "chat", body });
    expect(response.status).toBe(200);
    const note = Buffer.from(`The bytes of ${files.url}/a.png stand here.`).toString("base64");
    expect(await response.text()).toContain(note);
    expect(files.calls).toEqual([]);
    expect(vendor.calls).toEqual([]);
  });
});
