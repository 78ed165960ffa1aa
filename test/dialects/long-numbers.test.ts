import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, sse, startUpstream } from "../support/upstream.ts";

// dialects.md 4.8 #43: ids are often longer than a double is exact.
const LONG = ["12345678901234567890", "-9007199254740993", "123456789012345678901234567890"];
const INPUT = `{"id":${LONG[0]},"list":[${LONG[1]}],"deep":{"big":${LONG[2]}},"said":"a:1234567890123456789","part":0.5}`;
/** As it may stand inside a string. */
const digitsIn = (text: string) => [...text.matchAll(/(?<![\d.])-?\d{16,}/g)].map(([found]) => found);
const EXPECTED = [LONG[0], LONG[1], LONG[2], "1234567890123456789"] as string[];

const CLIENTS = ["/v1/chat/completions", "/v1/messages", "/v1/responses"];
const upstreams = {
  chat: startUpstream(),
  messages: startUpstream(),
  responses: startUpstream(),
  gemini: startUpstream(),
};
type Wire = keyof typeof upstreams;
let app: TestApp;

beforeEach(async () => {
  for (const upstream of Object.values(upstreams)) upstream.reset();
  app ??= await startApp({
    vendors: [
      { ...vendorAt(upstreams.chat, "chat", "chat"), models: "any" },
      { ...vendorAt(upstreams.messages, "messages", "messages"), models: "any" },
      { ...vendorAt(upstreams.responses, "responses", "responses"), models: "any" },
      { ...vendorAt(upstreams.gemini, "chat", "gemini"), dialect: "gemini" },
    ],
  });
});
afterAll(async () => {
  await app.stop();
  for (const upstream of Object.values(upstreams)) upstream.close();
});

/** A body that is not written from a value, which would have lost the digits. */
const jsonText = (body: string) => ({ ...json({}), parts: [body] });
const usage = '"usage":{"input_tokens":3,"output_tokens":2}';
const call = `{"functionCall":{"name":"f","args":${INPUT}}}`;
const record = `{"candidates":[{"content":{"role":"model","parts":[${call}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2}}`;
const use = `{"type":"tool_use","id":"t","name":"f","input":${INPUT}}`;
const message = `{"id":"m","type":"message","role":"assistant","model":"m","content":[${use}],"stop_reason":"tool_use","stop_sequence":null,${usage}}`;
const event = (type: string, rest: string) => `event: ${type}\ndata: {"type":"${type}"${rest}}\n\n`;
const messageStream = [
  event(
    "message_start",
    `,"message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,${usage}}`,
  ),
  event("content_block_start", `,"index":0,"content_block":${use}`),
  event("content_block_stop", ',"index":0'),
  event("message_delta", ',"delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":2}'),
  event("message_stop", ""),
].join("");

/** The call with the long numbers, as a vendor of a wire gives it. */
function answer(wire: "messages" | "gemini", stream: boolean): void {
  if (wire === "messages") upstreams.messages.answer("/v1/messages", stream ? sse([messageStream]) : jsonText(message));
  else if (stream) upstreams.gemini.answer("/v1/models/m:streamGenerateContent", sse([`data: ${record}\n\n`]));
  else upstreams.gemini.answer("/v1/models/m:generateContent", jsonText(record));
}

const ask = (path: string, model: string, stream: boolean) =>
  app.post(path, {
    ...{ model, stream, max_tokens: 100 },
    ...(path === "/v1/responses"
      ? { input: "Hi", max_tokens: undefined }
      : { messages: [{ role: "user", content: "Hi" }] }),
  });

/** All that the client has of the call's arguments, put together. */
function argumentsOf(path: string, body: string, stream: boolean): string {
  if (!stream) return body;
  const records = [...body.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => JSON.parse(data as string));
  if (path === "/v1/messages") return records.map(({ delta }) => delta?.partial_json ?? "").join("");
  if (path === "/v1/responses")
    return records.find(({ type }) => type === "response.function_call_arguments.done").arguments;
  return records.map(({ choices }) => choices?.[0]?.delta?.tool_calls?.[0]?.function?.arguments ?? "").join("");
}

describe("numbers that no double holds keep their digits in a vendor's call", () => {
  const cases = (["messages", "gemini"] as const).flatMap((wire) =>
    CLIENTS.flatMap((path) => [false, true].map((stream) => [wire, path, stream] as const)),
  );
  test.each(cases)("of %s, for %s, streaming: %p", async (wire, path, stream) => {
    answer(wire, stream);
    const response = await ask(path, `${wire}/m`, stream);
    expect(response.status).toBe(200);
    expect(digitsIn(argumentsOf(path, await response.text(), stream))).toEqual(EXPECTED);
  });
});

test.each(CLIENTS)("and where the records of its stream have no names, for %s", async (path) => {
  upstreams.messages.answer("/v1/messages", sse([messageStream.replaceAll(/^event: .*\n/gm, "")]));
  const response = await ask(path, "messages/m", true);
  expect(digitsIn(argumentsOf(path, await response.text(), true))).toEqual(EXPECTED);
});

test.each(["chat", "messages", "responses", "gemini"] as Wire[])(
  "and in an earlier call of a messages client: to %s, with settings that stay numbers",
  async (wire) => {
    const turns = `[{"role":"user","content":"Hi"},{"role":"assistant","content":[${use}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]}]`;
    const tools = '[{"name":"f","input_schema":{"type":"object"}}]';
    const body = `{"model":"${wire}/m","max_tokens":100,"temperature":0.12345678901234567,"tools":${tools},"messages":${turns}}`;
    await app.post("/v1/messages", body);
    const sent = upstreams[wire].calls.at(-1)?.text ?? "";
    expect(digitsIn(sent)).toEqual(EXPECTED);
    expect(sent).toMatch(/"temperature":0\.12345678901234/);
  },
);
