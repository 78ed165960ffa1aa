import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, sse, startUpstream, type Upstream } from "../support/upstream.ts";
import { chatStream, chunk, type Wire } from "./crossing.ts";

let upstream: Upstream;
let gateway: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  gateway = await startApp({ vendors: [vendorAt(upstream, "chat", "plain")] });
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
