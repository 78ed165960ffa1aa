import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, messagesReply, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

let upstream: Upstream;
let gateway: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  gateway = await startApp({ vendors: [vendorAt(upstream, "messages")] });
});
afterEach(() => upstream.reset());
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } };
const found = { type: "tool_reference", tool_name: "find" };
const text = (words: string) => ({ type: "text", text: words });
const call = (id: string) => ({ type: "tool_use", id, name: "look", input: {} });
const result = (id: string, ...content: unknown[]) => ({ type: "tool_result", tool_use_id: id, content });
const tool = (name: string) => ({ name, input_schema: { type: "object", properties: {} } });
const turns = (...results: unknown[]) => [
  { role: "user", content: "Look" },
  { role: "assistant", content: [call("a"), call("b")] },
  { role: "user", content: results },
];
const holdsMore = ({ messages }: Wire): boolean =>
  (messages as Wire[]).some(({ content }) =>
    (Array.isArray(content) ? (content as Wire[]) : []).some(
      (block) => block["type"] === "tool_result" && (block["content"] as Wire[]).some(({ type }) => type !== "text"),
    ),
  );

// LM Studio's words, Bedrock's and Anthropic's own.
test.each([
  'request.messages.2.content.0.content.0.type: Invalid literal value, expected "text"',
  "messages.2.content.0.tool_result.content.0.type: Field required",
  "messages.2.content.0.tool_result.content.0: Input tag 'tool_reference' found using 'type' does not match any of the expected tags",
])(
  "a tool's result is text alone for a server that takes nothing else, and its image stands behind the results: %s",
  async (message) => {
    upstream.always("/v1/messages", ({ json: body }) =>
      holdsMore(body as Wire) ? json({ error: { message } }, { status: 400 }) : json(messagesReply("ok")),
    );
    const model = `messages/m${message.length}`;
    const asked = { model, max_tokens: 90, tools: [tool("look"), tool("find")] };
    const messages = turns(result("a", text("Here"), image), result("b", found), text("Go on"));
    for (const calls of [2, 3]) {
      expect((await gateway.post("/v1/messages", { ...asked, messages })).status).toBe(200);
      expect(upstream.calls).toHaveLength(calls);
      const told = (upstream.calls.at(-1)!.json as { messages: Wire[] }).messages.at(-1);
      expect(told?.["content"]).toEqual([
        result("a", text("Here"), text("[image 1 attached below]")),
        result("b", text(JSON.stringify(found))),
        text("Go on"),
        text("[image 1 of the tool result above]"),
        image,
      ]);
    }
    // What holds text alone goes as it is.
    const plain = turns(result("a", text("Here")), result("b", text("There")));
    await gateway.post("/v1/messages", { ...asked, messages: plain });
    expect((upstream.calls.at(-1)!.json as Wire)["messages"]).toEqual(plain);
  },
);
