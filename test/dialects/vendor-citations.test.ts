import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, sse, startUpstream, type Upstream } from "../support/upstream.ts";
import { chatStream, chunk, typedStream, type Wire } from "./crossing.ts";

let upstream: Upstream;
let gateway: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  const dialects = ["messages", "responses"] as const;
  gateway = await startApp({
    vendors: [
      vendorAt(upstream, "chat", "plain"),
      ...dialects.map((dialect) => vendorAt(upstream, dialect, dialect)),
      { ...vendorAt(upstream, "chat", "gemini"), dialect: "gemini" },
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});
afterEach(() => upstream.reset());

const URL = "https://a.example/x";
const annotations = [
  { type: "url_citation", url_citation: { url: URL, title: "A", content: "Dawn.", start_index: 3, end_index: 7 } },
];
/** As OpenRouter sends it, and the list of a vendor that only numbers its pages. */
const replies: [string, Wire, Wire, { start: number; end: number; title: string; quote: string }][] = [
  ["annotations of a message", { annotations }, {}, { start: 3, end: 7, title: "A", quote: "Dawn." }],
  [
    "search results beside the choices",
    {},
    { search_results: [{ title: "A", url: URL, snippet: "Dawn." }], citations: ["https://b.example"] },
    { start: 11, end: 11, title: "A", quote: "Dawn." },
  ],
  ["addresses beside the choices", {}, { citations: [URL, 7, "no"] }, { start: 11, end: 11, title: URL, quote: "" }],
];

/** The data of each record of a stream. */
const dataOf = (text: string): Wire[] =>
  [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => JSON.parse(data ?? "") as Wire);

describe.each(replies)("%s reach clients of other dialects as citations", (_what, message, beside, cited) => {
  const { start, end, title, quote } = cited;
  const annotation = { type: "url_citation", start_index: start, end_index: end, title, url: URL };
  const citation = { type: "web_search_result_location", url: URL, title, cited_text: quote };

  test("whole", async () => {
    const said = { role: "assistant", content: "At dawn [1]", ...message };
    const reply = { id: "1", choices: [{ index: 0, message: said, finish_reason: "stop" }], ...beside };
    upstream.always("/v1/chat/completions", json(reply));
    const response = await gateway.post("/v1/responses", { model: "plain/x", input: "Hi" });
    const { output } = (await response.json()) as { output: Wire[] };
    expect(output).toMatchObject([{ content: [{ text: "At dawn [1]", annotations: [annotation] }] }]);
    const messages = [{ role: "user", content: "Hi" }];
    const other = await gateway.post("/v1/messages", { model: "plain/x", max_tokens: 9, messages });
    const { content } = (await other.json()) as { content: Wire[] };
    expect(content).toMatchObject([{ type: "text", text: "At dawn [1]", citations: [citation] }]);
  });

  test("streamed", async () => {
    const text = chatStream(
      chunk({ role: "assistant", content: "At " }),
      chunk({ content: "dawn" }),
      chunk({ content: " [1]" }),
      { ...chunk({ ...message }), ...beside },
      chunk({}, "stop"),
    );
    upstream.answer("/v1/chat/completions", sse(text), sse(text));
    const response = await gateway.post("/v1/responses", { model: "plain/x", input: "Hi", stream: true });
    const records = dataOf(await response.text());
    const added = records.filter(({ type }) => type === "response.output_text.annotation.added");
    expect(added).toMatchObject([{ annotation_index: 0, annotation }]);
    expect(records.at(-1)).toMatchObject({ response: { output: [{ content: [{ annotations: [annotation] }] }] } });
    const messages = [{ role: "user", content: "Hi" }];
    const asked = { model: "plain/x", max_tokens: 9, messages, stream: true };
    const events = dataOf(await (await gateway.post("/v1/messages", asked)).text());
    const deltas = events
      .map(({ delta }) => delta as Wire | undefined)
      .filter((one) => one?.["type"] === "citations_delta");
    expect(deltas).toMatchObject([{ citation }]);
  });
});

const said = { type: "text", text: "" };
const page = { type: "web_search_result_location", url: URL, title: "A", cited_text: "Dawn.", encrypted_index: "E" };
const found = { type: "search_result_location", source: "https://b.example", title: null, cited_text: "b" };
const place = { type: "char_location", cited_text: "c", document_index: 0, document_title: "D", start_char_index: 0 };
const asked = { role: "user", content: "Hi" };

/** What the vendor said, and each of its citations: the first of a page in a block, by where its block stands in all of the text. */
const SAID = "It is said: at dawn and at dusk.";
const ANNOTATED = [
  { url: URL, title: "A", start_index: 12, end_index: 19 },
  { url: "https://b.example", title: "https://b.example", start_index: 12, end_index: 19 },
  { url: URL, title: "A", start_index: 24, end_index: 31 },
];
const CITED: [text: string, citations: Wire[]][] = [
  ["It is said: ", []],
  ["at dawn", [page, { ...page, cited_text: "Dawn again." }, found, place]],
  [" and ", [place]],
  ["at dusk", [page]],
  [".", []],
];

/** A message of those blocks, as its vendor sends it whole or in a stream, each letter by itself. */
const message = { id: "msg_1", type: "message", role: "assistant", model: "m", stop_sequence: null };
const wholeMessage = json({
  ...message,
  content: CITED.map(([text, citations]) => ({ ...said, text, ...(citations.length > 0 && { citations }) })),
  stop_reason: "end_turn",
  usage: { input_tokens: 9, output_tokens: 9 },
});
const streamedMessage = typedStream(
  { type: "message_start", message: { ...message, content: [], usage: { input_tokens: 9, output_tokens: 1 } } },
  ...CITED.flatMap(([text, citations], index) => [
    { type: "content_block_start", index, content_block: { ...said, citations: [] } },
    ...citations.map((citation) => ({
      type: "content_block_delta",
      index,
      delta: { type: "citations_delta", citation },
    })),
    ...[...text].map((letter) => ({ type: "content_block_delta", index, delta: { type: "text_delta", text: letter } })),
    { type: "content_block_stop", index },
  ]),
  { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 9 } },
  { type: "message_stop" },
);

/** A response of the same, in two parts of one message behind another one. */
const annotation = (url: string, title: string, start: number, end: number) => ({
  ...{ type: "url_citation", url, title },
  ...{ start_index: start, end_index: end },
});
const file = { type: "file_citation", file_id: "f", filename: "F", index: 3 };
const part = (text: string, ...all: Wire[]) => ({ type: "output_text", text, annotations: all, logprobs: [] });
const item = (id: string, ...content: Wire[]) => ({
  id,
  type: "message",
  role: "assistant",
  status: "completed",
  content,
});
const items = [
  item("msg_1", part("It is said: ", file)),
  item(
    "msg_2",
    part("at dawn and ", annotation(URL, "A", 0, 7), annotation("https://b.example", "", 0, 7), file),
    part("at dusk.", annotation(URL, "A", 0, 7)),
  ),
];
const response = { id: "resp_1", object: "response", created_at: 1, status: "completed", model: "m", output: items };
const counted = { ...response, usage: { input_tokens: 9, output_tokens: 9, total_tokens: 18 } };
const streamedResponse = typedStream(
  { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
  ...items.flatMap(({ content, ...head }, index) => [
    { type: "response.output_item.added", output_index: index, item: { ...head, status: "in_progress", content: [] } },
    ...content.flatMap((one, at) =>
      [...String(one.text)].map((delta) => ({
        ...{ type: "response.output_text.delta", output_index: index, content_index: at },
        ...{ item_id: head.id, delta },
      })),
    ),
    { type: "response.output_item.done", output_index: index, item: { ...head, content } },
  ]),
  { type: "response.completed", response: counted },
);

describe.each([
  { vendor: "messages", path: "/v1/messages", whole: wholeMessage, stream: streamedMessage },
  { vendor: "responses", path: "/v1/responses", whole: json(counted), stream: streamedResponse },
])("what a $vendor vendor cites reaches clients of other dialects", ({ vendor, path, whole, stream }) => {
  const annotations = ANNOTATED.map((url_citation) => ({ type: "url_citation", url_citation }));

  test("whole", async () => {
    upstream.always(path, whole);
    const chat = await gateway.post("/v1/chat/completions", { model: `${vendor}/x`, messages: [asked] });
    const { choices } = (await chat.json()) as { choices: Wire[] };
    expect(choices).toMatchObject([{ message: { content: SAID, annotations } }]);
    expect((choices[0] as { message: { annotations: Wire[] } }).message.annotations).toHaveLength(3);
  });

  test("streamed", async () => {
    upstream.answer(path, sse(stream));
    const body = { model: `${vendor}/x`, messages: [asked], stream: true };
    const records = dataOf(await (await gateway.post("/v1/chat/completions", body)).text());
    const deltas = records.flatMap(({ choices }) => (choices as { delta: Wire }[]).map(({ delta }) => delta));
    expect(deltas.map(({ content }) => content ?? "").join("")).toBe(SAID);
    expect(deltas.flatMap(({ annotations: all }) => (all as Wire[] | undefined) ?? [])).toEqual(annotations);
  });

  test("in the blocks or items of the third dialect", async () => {
    for (const [mode, answer] of [["whole", whole] as const, ["stream", sse(stream)] as const]) {
      upstream.answer(path, answer);
      if (vendor === "messages") {
        const body = { model: "messages/x", input: "Hi", stream: mode === "stream" };
        const reply = await gateway.post("/v1/responses", body);
        const text = await reply.text();
        const told = mode === "stream" ? dataOf(text).at(-1)?.["response"] : JSON.parse(text);
        const { output } = told as { output: { content: { annotations: Wire[] }[] }[] };
        const each = output.map(({ content }) => content.flatMap(({ annotations: all }) => all));
        const inside = (url: string, title: string) => annotation(url, title, 0, 7);
        const other = inside("https://b.example", "https://b.example");
        expect(each).toEqual([[], [inside(URL, "A"), other], [], [inside(URL, "A")], []]);
      } else {
        const body = { model: "responses/x", max_tokens: 99, messages: [asked], stream: mode === "stream" };
        const reply = await (await gateway.post("/v1/messages", body)).text();
        const urls = [...reply.matchAll(/"type":"web_search_result_location","url":"([^"]+)"/g)].map(([, url]) => url);
        expect(urls).toEqual([URL, "https://b.example", URL]);
      }
    }
  });

  test("and those of its own as they came", async () => {
    upstream.answer(path, whole, sse(stream));
    const body = { model: `${vendor}/x`, max_tokens: 99, messages: [asked], input: "Hi" };
    const told = await (await gateway.post(path, body)).text();
    const streamed = await (await gateway.post(path, { ...body, stream: true })).text();
    for (const text of [told, streamed]) {
      for (const own of vendor === "messages" ? [page, found, place] : [file, annotation(URL, "A", 0, 7)])
        expect(text).toContain(JSON.stringify(own));
    }
  });
});

/** What Gemini says of its sources: places are bytes of UTF-8, and the first of them, at 0, is not written. */
const GROUNDED = "Früh dämmert es, 😀 so früh.";
const bytesBefore = (text: string) => Buffer.byteLength(GROUNDED.slice(0, GROUNDED.indexOf(text)));
const segmentOf = (text: string) => ({
  startIndex: bytesBefore(text),
  endIndex: bytesBefore(text) + Buffer.byteLength(text),
  text,
});
const grounding = {
  groundingMetadata: {
    webSearchQueries: ["dawn"],
    groundingChunks: [
      { web: { uri: URL, title: "A" } },
      { web: { uri: "https://b.example" } },
      { web: { title: "no address" } },
    ],
    groundingSupports: [
      { segment: { endIndex: Buffer.byteLength("Früh") }, groundingChunkIndices: [0, 1, 2, 9] },
      { segment: segmentOf("so früh"), groundingChunkIndices: [1] },
      { segment: { ...segmentOf("Früh"), endIndex: 9_999 }, groundingChunkIndices: [0] },
    ],
  },
  citationMetadata: { citations: [{ ...segmentOf("dämmert"), uri: "https://c.example", license: "mit" }] },
};
const GROUNDS: [string, string, string][] = [
  [URL, "A", "Früh"],
  ["https://b.example", "https://b.example", "Früh"],
  ["https://b.example", "https://b.example", "so früh"],
  [URL, "A", GROUNDED],
  ["https://c.example", "https://c.example", "dämmert"],
];
const candidate = (parts: Wire[], more: Wire = {}) => ({
  candidates: [{ content: { role: "model", parts }, index: 0, ...more }],
});
const counts = { usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 9, totalTokenCount: 18 } };

test("the pages that a Gemini vendor's answer rests on, or repeats, reach clients of every dialect", async () => {
  const annotations = GROUNDS.map(([url, title, text]) => {
    const start_index = GROUNDED.indexOf(text);
    return { type: "url_citation", start_index, end_index: start_index + text.length, title, url };
  });
  const ending = { finishReason: "STOP", ...grounding };
  // A thought in between does not count, and all is said with the last record.
  const streamed = [
    candidate([{ text: "Hm.", thought: true }]),
    ...[...GROUNDED].map((text) => candidate([{ text }])),
    { ...candidate([], ending), ...counts },
  ];
  upstream.always("/v1/models/x:generateContent", json({ ...candidate([{ text: GROUNDED }], ending), ...counts }));
  upstream.always(
    "/v1/models/x:streamGenerateContent",
    sse(streamed.map((one) => `data: ${JSON.stringify(one)}\r\n\r\n`).join("")),
  );
  for (const stream of [false, true]) {
    const body = { model: "gemini/x", max_tokens: 99, messages: [asked], stream };
    const chat = await (await gateway.post("/v1/chat/completions", body)).text();
    const choices = (stream ? dataOf(chat) : [JSON.parse(chat) as Wire]).flatMap(
      (record) => record["choices"] as Wire[],
    );
    const said = choices.map((choice) => (choice["delta"] ?? choice["message"]) as Wire);
    const told = said.flatMap((one) => (one["annotations"] as { url_citation: Wire }[] | undefined) ?? []);
    expect(told.map(({ url_citation: cited }) => ({ type: "url_citation", ...cited }))).toEqual(annotations);
    const responses = await (await gateway.post("/v1/responses", { model: "gemini/x", input: "Hi", stream })).text();
    for (const one of annotations) expect(responses).toContain(JSON.stringify(one));
    const messages = await (await gateway.post("/v1/messages", body)).text();
    const urls = [...messages.matchAll(/"type":"web_search_result_location","url":"([^"]+)"/g)].map(([, url]) => url);
    expect(urls).toEqual(annotations.map(({ url }) => url));
  }
});

test("pages that a Gemini vendor only lists stand at all of the text", async () => {
  const { groundingChunks } = grounding.groundingMetadata;
  const reply = {
    ...candidate([{ text: GROUNDED }], { finishReason: "STOP", groundingMetadata: { groundingChunks } }),
    ...counts,
  };
  upstream.answer("/v1/models/x:generateContent", json(reply));
  const chat = await gateway.post("/v1/chat/completions", { model: "gemini/x", messages: [asked] });
  const { choices } = (await chat.json()) as { choices: { message: { annotations: Wire[] } }[] };
  const whole = { start_index: 0, end_index: GROUNDED.length };
  expect(choices[0]?.message.annotations).toEqual([
    { type: "url_citation", url_citation: { ...whole, title: "A", url: URL } },
    { type: "url_citation", url_citation: { ...whole, title: "https://b.example", url: "https://b.example" } },
  ]);
});

describe.each([false, true])("a vendor that cites by itself where the gateway offers a search, stream %p", (stream) => {
  const look = { role: "assistant", content: "I look. " };
  const calls = [
    { index: 0, id: "c", type: "function", function: { name: "web_search", arguments: '{"query":"gates"}' } },
  ];
  const said = { role: "assistant", content: "At dawn [1]", annotations };
  let searching: TestApp;
  beforeAll(async () => {
    searching = await startApp({
      vendors: [vendorAt(upstream, "chat", "plain")],
      config: { search: [{ engine: "fixture" }] },
    });
  });
  afterAll(() => searching.stop());

  const ask = async (path: string, body: Wire): Promise<Wire[]> => {
    const whole = (message: Wire, finish: string) =>
      json({ id: "1", choices: [{ index: 0, message, finish_reason: finish }] });
    const streamed = (message: Wire, finish: string) => sse(chatStream(chunk(message), chunk({}, finish)));
    const answer = stream ? streamed : whole;
    upstream.answer("/v1/chat/completions", answer({ ...look, tool_calls: calls }, "tool_calls"), answer(said, "stop"));
    const messages = [{ role: "user", content: "When?" }];
    const response = await searching.post(path, { model: "plain/x", messages, stream, ...body });
    const text = await response.text();
    expect([response.status, upstream.calls.length]).toEqual([200, 2]);
    return stream ? dataOf(text) : [JSON.parse(text) as Wire];
  };

  test("is repeated to a chat client, with the places in all that it was told", async () => {
    const records = await ask("/v1/chat/completions", { web_search_options: {} });
    const found = records.flatMap(({ choices }) => {
      const [{ message, delta } = {}] = choices as Record<string, Wire>[];
      return ((message ?? delta)?.["annotations"] ?? []) as unknown[];
    });
    const [start_index, end_index] = [3, 7].map((place) => place + look.content.length);
    expect(found).toMatchObject([{ url_citation: { url: URL, title: "A", start_index, end_index } }]);
  });

  test("is repeated to a messages client", async () => {
    const tools = [{ type: "web_search_20250305", name: "web_search" }];
    const records = await ask("/v1/messages", { max_tokens: 64, tools });
    const citation = { type: "web_search_result_location", url: URL, title: "A", cited_text: "Dawn." };
    const content = records.flatMap((record) => (record["content"] ?? []) as Wire[]);
    if (!stream) return expect(content.at(-1)).toMatchObject({ citations: [citation] });
    const deltas = records.flatMap(({ delta }) => (delta ? [delta as Wire] : []));
    expect(deltas.filter(({ type }) => type === "citations_delta")).toMatchObject([{ citation }]);
  });
});

/** Its search is a call that is whole as it begins, and ends as the pages that it found; the text numbers those (vercel/ai, `agent-web-search`). */
describe("a vendor that searches by itself (Perplexity) has found pages, and called no tool", async () => {
  const stream = await Bun.file(`${import.meta.dir}/../fixtures/responses/own-search/stream.sse`).text();
  const whole = dataOf(stream).at(-1)?.["response"] as Wire;
  const urls = ["https://a.example/sun", "https://b.example/dawn"];

  test.each([
    ["whole", json(whole), false],
    ["streamed", sse(stream), true],
  ])("%s", async (_mode, answer, streams) => {
    upstream.answer("/v1/responses", answer);
    const asked = [{ role: "user", content: "When is dawn?" }];
    const body = { model: "responses/x", max_tokens: 99, messages: asked, stream: streams };
    const chat = await (await gateway.post("/v1/chat/completions", body)).text();
    expect(chat).toContain('"finish_reason":"stop"');
    expect(chat).not.toContain("search_web");
    expect([...chat.matchAll(/"url":"([^"]+)"/g)].map(([, url]) => url)).toEqual(urls);
    upstream.answer("/v1/responses", answer);
    const messages = await (await gateway.post("/v1/messages", body)).text();
    expect(messages).toContain('"stop_reason":"end_turn"');
    expect(messages).not.toContain("search_web");
    expect([...messages.matchAll(/"url":"([^"]+)"/g)].map(([, url]) => url)).toEqual(urls);
  });
});
