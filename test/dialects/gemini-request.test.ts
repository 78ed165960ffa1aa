import { describe, expect, test } from "bun:test";
import { GatewayError } from "../../src/canon/errors.ts";
import type { Orders } from "../../src/canon/intent.ts";
import type { Part, Prompt, Turn } from "../../src/canon/prompt.ts";
import { chat } from "../../src/dialects/chat/index.ts";
import type { ClientDialect } from "../../src/dialects/dialect.ts";
import { gemini } from "../../src/dialects/gemini/index.ts";
import { messages } from "../../src/dialects/messages/index.ts";
import { JsonText } from "../../src/lib/json-text.ts";
import { translateWhole } from "../support/translate.ts";
import { run } from "./gemini-run.ts";

const promptOf = (more: Partial<Prompt> = {}): Prompt => ({
  system: [],
  turns: [{ role: "user", parts: [{ type: "text", text: "Hi" }] }],
  tools: [],
  stop: [],
  ...more,
});
const encode = (more: Partial<Prompt> = {}) => gemini.encodeRequest(promptOf(more), {});
const contentsOf = (...turns: Turn[]) => encode({ turns }).body["contents"];
const configOf = (more: Partial<Prompt>) => encode(more).body["generationConfig"];

const user = (...parts: Part[]): Turn => ({ role: "user", parts });
const assistant = (...parts: Part[]): Turn => ({ role: "assistant", parts });
const text = (words: string): Part => ({ type: "text", text: words });
const call = (id: string, name: string, args = "{}", signature?: string): Part => ({
  type: "tool-call",
  id,
  name,
  arguments: args,
  ...(signature && { signature }),
});
const result = (callId: string, ...parts: Part[]): Part => ({ type: "tool-result", callId, parts });
const thinking = (words: string, signature?: string): Part => ({
  type: "reasoning",
  text: words,
  ...(signature && { signature }),
});
const PNG = "iVBORw0KGgoAAAA=";

const refused = (turns: Turn[]) => {
  try {
    encode({ turns });
  } catch (error) {
    if (error instanceof GatewayError) return error.code;
    throw error;
  }
  return "taken";
};

describe("path", () => {
  test("names model and method, and the model stays one step of it", () => {
    expect(gemini.pathFor("gemini-3-pro", false)).toBe("/models/gemini-3-pro:generateContent");
    expect(gemini.pathFor("gemini-3-pro", true)).toBe("/models/gemini-3-pro:streamGenerateContent?alt=sse");
    expect(gemini.pathFor("models/gemini-3-pro", false)).toBe("/models/gemini-3-pro:generateContent");
    const sly = new URL(`https://vendor.example/v1beta${gemini.pathFor("../../other?x=#", false)}`);
    expect([sly.pathname, sly.search, sly.hash]).toEqual([
      "/v1beta/models/..%2F..%2Fother%3Fx%3D%23:generateContent",
      "",
      "",
    ]);
  });
});

describe("contents", () => {
  test("user first, roles alternating, nothing empty", () => {
    expect(
      contentsOf(
        assistant(text("Hello")),
        user(text("a")),
        user(text(""), text("b")),
        assistant(text("")),
        assistant(text("c")),
      ),
    ).toEqual([
      { role: "user", parts: [{ text: "(continue)" }] },
      { role: "model", parts: [{ text: "Hello" }] },
      { role: "user", parts: [{ text: "a" }, { text: "b" }] },
      { role: "model", parts: [{ text: "c" }] },
    ]);
    expect(contentsOf()).toEqual([{ role: "user", parts: [{ text: "(empty)" }] }]);
    expect(contentsOf(user(text("")))).toEqual([{ role: "user", parts: [{ text: "(empty)" }] }]);
  });

  test("system parts, and system turns before the model speaks, stand in systemInstruction, in order", () => {
    const { body } = encode({
      system: [{ type: "text", text: "One.", cache: { type: "ephemeral" } }],
      turns: [user(text("a")), { role: "system", parts: [text("Two.")] }, user(text("b"))],
    });
    expect(body["systemInstruction"]).toEqual({ parts: [{ text: "One." }, { text: "Two." }] });
    expect(body["contents"]).toEqual([{ role: "user", parts: [{ text: "a" }, { text: "b" }] }]);
    expect("systemInstruction" in encode().body).toBe(false);
  });

  test("results stand in one content, in the calls' order, named after their calls, before everything else", () => {
    const contents = contentsOf(
      user(text("go")),
      assistant(text("I look."), call("a", "weather", '{"city":"Ulm"}'), call("b", "clock"), call("c", "clock")),
      user(result("b", text("noon")), text("And?"), {
        ...result("a", text("rain"), text("wind")),
        isError: true,
      } as Part),
    );
    expect(contents).toEqual([
      { role: "user", parts: [{ text: "go" }] },
      {
        role: "model",
        parts: [
          { text: "I look." },
          { functionCall: { name: "weather", args: { city: "Ulm" } } },
          { functionCall: { name: "clock", args: {} } },
          { functionCall: { name: "clock", args: {} } },
        ],
      },
      {
        role: "user",
        parts: [
          { functionResponse: { name: "weather", response: { error: "rain\nwind" } } },
          { functionResponse: { name: "clock", response: { output: "noon" } } },
          { functionResponse: { name: "clock", response: { error: "No result was given for this tool call." } } },
          { text: "And?" },
        ],
      },
    ]);
    expect(JSON.stringify(contents)).not.toContain('"id"');
  });

  test("calls of Gemini 3 have their ids, and so have their results; a foreign one is told apart from those before it", () => {
    const conversation = [
      user(text("go")),
      assistant(call("call_41", "clock"), call("call_42", "clock")),
      user(result("call_42", text("two")), result("call_41", text("one"))),
      assistant(call("call_41", "clock"), call("functions.clock:0", "clock")),
      user(result("call_41", text("three"))),
    ];
    const idsOf = (model: string) => {
      const { body } = gemini.encodeRequest(promptOf({ turns: conversation }), {}, model);
      const parts = (body["contents"] as { parts: Record<string, { id?: string }>[] }[]).flatMap((one) => one.parts);
      const named = (kind: string) => parts.flatMap(({ [kind]: held }) => (held ? [held.id] : []));
      return [named("functionCall"), named("functionResponse")] as const;
    };
    const [calls, results] = idsOf("gemini-3.8-flash");
    expect(calls.slice(0, 3)).toEqual(["call_41", "call_42", "call_41_2"]);
    expect(calls[3]).toMatch(/^functions_clock_0_\w+$/);
    expect(results).toEqual(calls);
    expect(idsOf("gemini-flash-latest")[1]).toEqual(calls);
    for (const older of ["gemini-2.5-pro", "gemma-4-31b-it"]) {
      expect(idsOf(older)).toStrictEqual([new Array(4).fill(undefined), new Array(4).fill(undefined)]);
    }
  });

  test("results in several turns are brought together", () => {
    expect(contentsOf(assistant(call("a", "f"), call("b", "g")), user(result("a")), user(result("b")))).toMatchObject([
      {},
      {},
      {
        parts: [
          { functionResponse: { name: "f", response: { output: "" } } },
          { functionResponse: { name: "g", response: { output: "" } } },
        ],
      },
    ]);
  });

  test("calls of one id take their results one after the other", () => {
    expect(
      contentsOf(assistant(call("a", "f"), call("a", "g")), user(result("a", text("1")), result("a", text("2")))),
    ).toMatchObject([
      {},
      {},
      {
        parts: [
          { functionResponse: { name: "f", response: { output: "1" } } },
          { functionResponse: { name: "g", response: { output: "2" } } },
        ],
      },
    ]);
  });

  test("a call nobody answered gets an error, also before the next answer and at the very end", () => {
    const error = { functionResponse: { name: "f", response: { error: "No result was given for this tool call." } } };
    expect(contentsOf(user(text("a")), assistant(call("x", "f")))).toMatchObject([
      {},
      {},
      { role: "user", parts: [error] },
    ]);
    expect(contentsOf(user(text("a")), assistant(call("x", "f")), user(text("b")))).toMatchObject([
      {},
      {},
      { role: "user", parts: [error, { text: "b" }] },
    ]);
  });

  test("a result without its call is the user's text", () => {
    expect(contentsOf(user(result("gone", text("42"))))).toEqual([
      { role: "user", parts: [{ text: "Result of tool call gone:" }, { text: "42" }] },
    ]);
  });

  test("media of a result go beside it, with a word on both sides", () => {
    const image: Part = { type: "image", source: { kind: "base64", mediaType: "image/jpeg", data: PNG } };
    expect(contentsOf(assistant(call("a", "shot")), user(result("a", text("done"), image)))).toMatchObject([
      {},
      {},
      {
        parts: [
          { functionResponse: { name: "shot", response: { output: "done\n[image 1 attached below]" } } },
          { text: "[image 1 of the tool results above]" },
          { inlineData: { mimeType: "image/png", data: PNG } },
        ],
      },
    ]);
  });

  test("images, documents and audio are inline data of the type their bytes show", () => {
    expect(
      contentsOf(
        user(
          { type: "image", source: { kind: "base64", mediaType: "image/jpg", data: "AAAA" } },
          { type: "document", title: "T", source: { kind: "base64", mediaType: "x", data: "JVBERi0x" } },
          { type: "document", title: "Notes", source: { kind: "text", text: "body" } },
          { type: "document", source: { kind: "base64", mediaType: "text/csv", data: btoa("a,b") } },
          { type: "audio", data: "UklGRg==", format: "wav" },
          { type: "image", source: { kind: "url", url: "gs://bucket/cat.png" } },
          { type: "document", source: { kind: "url", url: "gs://bucket/a b.PDF" } },
          { type: "document", source: { kind: "url", url: "gs://bucket/v1.2/no ending" } },
        ),
      ),
    ).toEqual([
      {
        role: "user",
        parts: [
          { inlineData: { mimeType: "image/jpeg", data: "AAAA" } },
          { text: "T" },
          { inlineData: { mimeType: "application/pdf", data: "JVBERi0x" } },
          { text: "Notes\nbody" },
          { text: "a,b" },
          { inlineData: { mimeType: "audio/wav", data: "UklGRg==" } },
          { fileData: { mimeType: "image/png", fileUri: "gs://bucket/cat.png" } },
          { fileData: { mimeType: "application/pdf", fileUri: "gs://bucket/a b.PDF" } },
          { fileData: { fileUri: "gs://bucket/v1.2/no ending" } },
        ],
      },
    ]);
  });

  test("web addresses and file ids are refused", () => {
    const image = (source: Extract<Part, { type: "image" }>["source"]): Turn[] => [user({ type: "image", source })];
    expect(refused(image({ kind: "url", url: "https://example.com/cat.png" }))).toBe("invalid_request");
    expect(refused(image({ kind: "file", id: "file-1" }))).toBe("invalid_request");
    expect(refused(image({ kind: "base64", mediaType: "image/png", data: PNG }))).toBe("taken");
  });

  test("arguments are an object, whatever came", () => {
    const args = (json: string) =>
      JSON.stringify(contentsOf(user(text("x")), assistant(call("a", "f", json)))).match(/"args":(.*?\})\}/)?.[1];
    expect(args("")).toBe("{}");
    expect(args("null")).toBe("{}");
    expect(args('"{\\"a\\":1}"')).toBe('{"a":1}');
    expect(args("[1]")).toBe('{"value":[1]}');
  });

  test("null characters and lone surrogates never leave", () => {
    expect(contentsOf(user(text("a\0b\ud800")))).toEqual([{ role: "user", parts: [{ text: "ab\ufffd" }] }]);
  });

  test("parts of other dialects are named", () => {
    const part: Part = { type: "opaque", dialect: "chat", name: "messages[0].content[1]", value: {} };
    expect(encode({ turns: [user(text("a"), part)] }).dropped).toEqual(["messages[0].content[1]"]);
  });
});

describe("thought signatures", () => {
  const modelParts = (...parts: Part[]) =>
    (contentsOf(user(text("x")), assistant(...parts)) as { parts: unknown[] }[])[1]?.parts;
  const F = { functionCall: { name: "f", args: {} } };

  test("go back to the part they belong to", () => {
    expect(modelParts(thinking("Hm.", "gm:call:c2ln"), text("So."), call("a", "f"), call("b", "f"))).toEqual([
      { text: "Hm.", thought: true },
      { text: "So." },
      { ...F, thoughtSignature: "c2ln" },
      F,
    ]);
    expect(modelParts(thinking("", "gm:call:c2ln"), call("a", "f", "{}", "gm:call:b3du"))).toEqual([
      { ...F, thoughtSignature: "b3du" },
    ]);
    expect(modelParts(thinking("Hm.", "gm:thought:c2ln"), text("So."))).toEqual([
      { text: "Hm.", thought: true, thoughtSignature: "c2ln" },
      { text: "So." },
    ]);
    expect(modelParts(thinking("", "gm:text:c2ln"), text("So."))).toEqual([
      { text: "", thoughtSignature: "c2ln" },
      { text: "So." },
    ]);
  });

  test("and reasoning of other vendors do not", () => {
    for (const foreign of [undefined, "ErUBCkYIBRgC", "rs:WyJhIiwiYiJd", "gm:other:x", "gm:call:"]) {
      expect(modelParts(thinking("secret", foreign), call("a", "f"))).toEqual([F]);
    }
    expect(modelParts({ type: "redacted-reasoning", data: "x" }, text("So."))).toEqual([{ text: "So." }]);
  });

  test("survive the way through a client of the messages dialect", async () => {
    const stream = await Bun.file(`${import.meta.dir}/../fixtures/gemini/parallel-calls-with-ids/stream.sse`).text();
    const context = { model: "m", replyId: "R", created: 1, wantsUsage: true, estimatedInputTokens: 0 };
    const reply = messages.encodeReply(run([stream]), context);
    const body = {
      model: "m",
      max_tokens: 100,
      messages: [
        { role: "user", content: "Weather?" },
        { role: "assistant", content: reply["content"] },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "fc-2", content: "sun" },
            { type: "tool_result", tool_use_id: "fc-1", content: "rain" },
          ],
        },
      ],
    };
    const { body: upstream } = gemini.encodeRequest(messages.decodeRequest(body).prompt, {});
    expect(upstream["contents"]).toEqual([
      { role: "user", parts: [{ text: "Weather?" }] },
      {
        role: "model",
        parts: [
          { text: "Looking both up.", thought: true },
          { functionCall: { name: "weather", args: { city: "Ulm" } }, thoughtSignature: "Zmlyc3Q=" },
          { functionCall: { name: "weather", args: { city: "Bonn" } } },
        ],
      },
      {
        role: "user",
        parts: [
          { functionResponse: { name: "weather", response: { output: "rain" } } },
          { functionResponse: { name: "weather", response: { output: "sun" } } },
        ],
      },
    ]);
  });
});

describe("tools and settings", () => {
  const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

  test("declarations hold name, description and plain JSON Schema; an empty one is left out", () => {
    const { body } = encode({
      tools: [
        { name: "weather", description: "Tells it.", schema, strict: true, cache: {} },
        { name: "clock", schema: { type: "object", properties: {} } },
      ],
    });
    expect(body["tools"]).toEqual([
      {
        functionDeclarations: [
          { name: "weather", description: "Tells it.", parametersJsonSchema: schema },
          { name: "clock" },
        ],
      },
    ]);
    expect("toolConfig" in body).toBe(false);
  });

  test.each([
    [{ type: "auto" }, { mode: "AUTO" }],
    [{ type: "none" }, { mode: "NONE" }],
    [{ type: "required" }, { mode: "ANY" }],
    [
      { type: "tool", name: "weather" },
      { mode: "ANY", allowedFunctionNames: ["weather"] },
    ],
  ] as const)("choice %j", (toolChoice, wanted) => {
    const { body } = encode({ tools: [{ name: "weather", schema }], toolChoice });
    expect(body["toolConfig"]).toEqual({ functionCallingConfig: wanted });
    expect("toolConfig" in encode({ toolChoice }).body).toBe(false);
  });

  test("what this dialect has no word for is named, and only when it was wanted", () => {
    const tools = [{ name: "weather", schema }];
    expect(encode({ tools, parallelToolCalls: false }).dropped).toEqual(["parallel_tool_calls"]);
    expect(encode({ tools, parallelToolCalls: true }).dropped).toEqual([]);
    // The vendor takes five; the gateway watches for the sixth itself.
    expect(encode({ stop: ["a", "b", "c", "d", "e", "f"] })).toMatchObject({ dropped: [], changes: { stops: ["f"] } });
    expect(encode({ userId: "u", stop: ["a"] }).dropped).toEqual(["user"]);
  });

  test("generationConfig", () => {
    expect("generationConfig" in encode().body).toBe(false);
    expect(
      configOf({
        maxOutputTokens: 5,
        temperature: 2.5,
        topP: 0.5,
        topK: 3,
        stop: ["", "END"],
        seed: -7,
        frequencyPenalty: 0,
        presencePenalty: 0.5,
      }),
    ).toEqual({
      maxOutputTokens: 5,
      temperature: 2,
      topP: 0.5,
      topK: 3,
      stopSequences: ["END"],
      seed: 7,
      presencePenalty: 0.5,
    });
    expect(configOf({ seed: 9_007_199_254_740_991 })).toEqual({ seed: 2_147_483_647 });
  });

  test("formats of the answer", () => {
    expect(configOf({ output: { type: "json" } })).toEqual({ responseMimeType: "application/json" });
    expect(configOf({ output: { type: "json-schema", name: "n", schema } })).toEqual({
      responseMimeType: "application/json",
      responseJsonSchema: schema,
    });
  });
});

describe("from a client's body", () => {
  const orders: Orders = {
    upstreamModel: "gemini-3-pro",
    stream: true,
    reasoning: { kind: "level", form: "thinking-level", level: "low" },
    isReasoningActive: true,
    dropSampling: true,
    remove: [],
  };
  const translate = (client: ClientDialect, body: unknown) =>
    JSON.parse(
      translateWhole(new JsonText(JSON.stringify(body)), client, gemini, { orders, quirks: {} }).text,
    ) as unknown;
  const wanted = {
    systemInstruction: { parts: [{ text: "Be brief." }] },
    contents: [{ role: "user", parts: [{ text: "Hi" }] }],
    generationConfig: {
      maxOutputTokens: 50,
      thinkingConfig: { includeThoughts: true, thinkingLevel: "low" },
    },
  };

  test("chat and messages say the same; model and stream are in the path alone", () => {
    const content = "Hi";
    expect(
      translate(chat, {
        model: "google/gemini-3-pro",
        stream: true,
        stream_options: { include_usage: true },
        max_tokens: 50,
        temperature: 1,
        messages: [
          { role: "system", content: "Be brief." },
          { role: "user", content },
        ],
      }),
    ).toEqual(wanted);
    expect(
      translate(messages, {
        model: "google/gemini-3-pro",
        stream: true,
        max_tokens: 50,
        top_p: 0.5,
        system: "Be brief.",
        messages: [{ role: "user", content }],
      }),
    ).toEqual(wanted);
  });
});
