import { describe, expect, test } from "bun:test";
import { dialects } from "../../src/dialects/index.ts";
import { faultOf } from "../support/fault.ts";
import { leastWork } from "../support/wait.ts";
import { BAD_MEDIA, GOOD_MEDIA, held, PLACES } from "./bad-media.ts";
import {
  CLIENTS,
  type ClientName,
  recordsOf,
  reply,
  send,
  stream,
  typedStream,
  UPSTREAMS,
  type UpstreamName,
  type Wire,
} from "./crossing.ts";

const PDF = "JVBERi0xLjQ=";

/** A conversation of which the second turn holds the part under test. */
const CHAT = (...content: Wire[]): Wire => ({
  messages: [
    { role: "user", content: "Hi" },
    { role: "user", content },
  ],
});
const MESSAGES = (...content: Wire[]): Wire => ({
  messages: [
    { role: "user", content: "Hi" },
    { role: "user", content },
  ],
});
const RESPONSES = (...content: Wire[]): Wire => ({
  input: [
    { role: "user", content: "Hi" },
    { role: "user", content },
  ],
});

const text = { type: "text", text: "see" };
const chatFile = { type: "file", file: { file_id: "file-1" } };
const chatAudio = { type: "input_audio", input_audio: { data: "UklGRg==", format: "wav" } };
const messagesFile = (type: string) => ({ type, source: { type: "file", file_id: "file_1" } });
const inputText = { type: "input_text", text: "see" };
const responsesFile = { type: "input_file", file_id: "file-1" };
const toolResult = (content: Wire[]): Wire => ({
  messages: [
    { role: "user", content: "Hi" },
    { role: "assistant", content: [{ type: "tool_use", id: "t", name: "f", input: {} }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content }] },
  ],
});

const REFUSED: [what: string, from: ClientName, to: UpstreamName[], body: Wire, param: string][] = [
  [
    "a file id of another vendor",
    "chat",
    ["messages", "gemini"],
    CHAT(text, chatFile),
    "messages[1].content[1].file.file_id",
  ],
  [
    "an image by another vendor's file id",
    "messages",
    ["chat", "responses", "gemini"],
    MESSAGES(text, messagesFile("image")),
    "messages[1].content[1]",
  ],
  [
    "a document by another vendor's file id",
    "messages",
    ["chat", "responses", "gemini"],
    MESSAGES(text, messagesFile("document")),
    "messages[1].content[1]",
  ],
  [
    "a file id inside a tool's result",
    "messages",
    ["chat", "responses", "gemini"],
    toolResult([text, messagesFile("image")]),
    "messages[2].content[0].content[1]",
  ],
  [
    "a file id",
    "responses",
    ["messages", "gemini", "chat"],
    RESPONSES(inputText, responsesFile),
    "input[1].content[1].file_id",
  ],
  [
    "an image by file id",
    "responses",
    ["messages", "gemini", "chat"],
    RESPONSES({ type: "input_image", file_id: "file-1" }),
    "input[1].content[0].file_id",
  ],
  [
    "a file id in the part itself",
    "chat",
    ["messages", "gemini"],
    CHAT({ type: "file", file_id: "f" }),
    "messages[1].content[0].file_id",
  ],
  [
    "audio on the web",
    "chat",
    ["gemini"],
    CHAT(text, { type: "input_audio", input_audio: "https://a.test/b.mp3" }),
    "messages[1].content[1]",
  ],
  ["audio to a vendor of text", "chat", ["messages", "responses"], CHAT(text, chatAudio), "messages[1].content[1]"],
  ["audio to a vendor of text", "responses", ["messages"], RESPONSES(inputText, chatAudio), "input[1].content[1]"],
  [
    "a document of a format it cannot read",
    "chat",
    ["messages"],
    CHAT({ type: "file", file: { filename: "a.docx", file_data: "data:application/msword;base64,AAAA" } }),
    "messages[1].content[0]",
  ],
  [
    "an image on the web, to a vendor that fetches none",
    "chat",
    ["gemini"],
    CHAT(text, { type: "image_url", image_url: { url: "https://a.test/b.png" } }),
    "messages[1].content[1]",
  ],
  [
    "a document on the web, to a vendor that fetches none",
    "messages",
    ["chat", "gemini"],
    MESSAGES({ type: "document", source: { type: "url", url: "https://a.test/b.pdf" } }),
    "messages[1].content[0]",
  ],
];

describe("what is legal in the client's dialect and impossible for the model is a 400 that names the block and its place", () => {
  for (const [what, from, upstreams, body, param] of REFUSED) {
    test.each(upstreams)(`${what}: ${from} → %s`, (to) => {
      const fault = faultOf(() => send({ from, to }, body));
      expect([fault.code, fault.param]).toEqual(["invalid_request", param]);
      expect(fault.message).toContain(` at ${param} cannot be sent.`);
    });
  }

  test.each([
    ["chat", { tools: [{ type: "function", function: { name: "" } }] }, "tools[0].function.name"],
    ["chat", { tools: [{ type: "custom", custom: { name: "" } }] }, "tools[0].custom.name"],
    [
      "chat",
      {
        tools: [{ type: "function", function: { name: "f" } }],
        tool_choice: { type: "function", function: { name: "g" } },
      },
      "tool_choice",
    ],
    ["chat", { functions: [{ name: "f" }], function_call: { name: "g" } }, "function_call"],
    ["chat", { n: 2 }, "n"],
  ] as [ClientName, Wire, string][])("%s %j is refused at %s", (from, body, param) => {
    const fault = faultOf(() => send({ from, to: "gemini" }, { ...CHAT(text), ...body }));
    expect([fault.code, fault.param]).toEqual(["invalid_request", param]);
  });

  test("the same is let through where it can be said", () => {
    const toOwn = send({ from: "chat", to: "responses" }, CHAT(text, chatFile)).body["input"];
    expect(JSON.stringify(toOwn)).toContain('{"type":"input_file","file_id":"file-1"}');
    expect(send({ from: "chat", to: "chat" }, CHAT(chatFile)).body["messages"]).toEqual(CHAT(chatFile)["messages"]);
    for (const [given, mimeType] of [
      [chatAudio.input_audio, "audio/wav"],
      ["UklGRg==", "audio/mp3"],
      [{ data: "data:;base64,UklGRg==", format: "wav" }, "audio/wav"],
      [{ data: "data:audio/ogg;base64,UklGRg==" }, "audio/ogg"],
    ]) {
      const part = { type: "input_audio", input_audio: given };
      const heard = send({ from: "chat", to: "gemini" }, CHAT(part)).body["contents"];
      expect(JSON.stringify(heard)).toContain(JSON.stringify({ inlineData: { mimeType, data: "UklGRg==" } }));
    }
    const spoken = send({ from: "responses", to: "chat" }, RESPONSES(chatAudio)).body["messages"];
    expect(JSON.stringify(spoken)).toContain('"input_audio":{"data":"UklGRg==","format":"wav"}');
  });
});

describe("media that no vendor can read is a 400 that names its field, on the diagonal and across", () => {
  for (const from of CLIENTS) {
    test.each(BAD_MEDIA[from])(`${from}: %s`, (_what, part, field) => {
      for (const place of PLACES) {
        const { body, path } = held(from, place, part);
        for (const to of UPSTREAMS) {
          const fault = faultOf(() => send({ from, to }, body));
          expect([to, fault.code, fault.param]).toEqual([to, "invalid_request", `${path}.${field}`]);
          expect(fault.message).toStartWith(`${path}.${field} `);
          expect(fault.message.length).toBeLessThan(400);
        }
      }
    });

    test.each(GOOD_MEDIA[from])(`${from}: %s passes as it is`, (_what, part) => {
      for (const place of PLACES) {
        const sent = send({ from, to: from }, held(from, place, part).body).text;
        expect(sent).toContain(JSON.stringify(part));
      }
    });
  }

  test("sound of which the data is none", () => {
    for (const [what, data] of [
      ["nothing", ""],
      ["no base64", "@@@@"],
      ["a file of the host", "file:///a.wav"],
    ]) {
      const fault = faultOf(() => send({ from: "chat", to: "chat" }, CHAT({ ...chatAudio, input_audio: { data } })));
      expect([what, fault.param]).toEqual([what, "messages[1].content[0].input_audio.data"]);
    }
  });

  test("5 MB of base64 are looked at once, by the runtime's own decoder", () => {
    const data = Buffer.alloc(5 * 1024 * 1024, 7).toString("base64");
    const body = MESSAGES({ type: "image", source: { type: "base64", media_type: "image/png", data } });
    const whole = { model: "a/b", max_tokens: 9, ...body };
    // A third of a millisecond; character by character it is ten times as much as is allowed here.
    expect(leastWork(() => dialects.messages.check(whole), 20)).toBeLessThan(2);
  });
});

describe("documents and images", () => {
  const CHAT_PDF = { type: "file", file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` } };
  const PNG = "iVBORw0KGgoAAAANSUhEUg==";

  test.each([
    ["messages", `"source":{"type":"base64","media_type":"application/pdf","data":"${PDF}"},"title":"a.pdf"`],
    ["responses", `{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,${PDF}"}`],
    ["gemini", `{"inlineData":{"mimeType":"application/pdf","data":"${PDF}"}}`],
  ] as [UpstreamName, string][])("a PDF from chat to %s", (to, expected) => {
    expect(JSON.stringify(send({ from: "chat", to }, CHAT(CHAT_PDF)).body)).toContain(expected);
  });

  test.each(["chat", "responses", "gemini"] as const)("what is said of a document is told to %s, once", (to) => {
    const pdf = { type: "base64", media_type: "application/pdf", data: "JVBERi0xLjQ=" };
    const csv = { type: "base64", media_type: "text/csv", data: btoa("a,b") };
    for (const source of [pdf, csv, { ...pdf, data: PNG }]) {
      const part = { type: "document", title: "T", context: "Signed in Ulm.", source };
      const held = { type: "tool_result", tool_use_id: "c1", content: [part] };
      for (const said of [part, held]) {
        const { text: sent, dropped } = send({ from: "messages", to }, MESSAGES(said));
        expect([sent.split("Signed in Ulm.").length, dropped]).toEqual([2, []]);
      }
    }
  });

  test.each(["chat", "responses", "gemini"] as const)("a picture sent as a document is a picture to %s", (to) => {
    const part = { type: "document", source: { type: "base64", media_type: "application/pdf", data: PNG } };
    const body = JSON.stringify(send({ from: "messages", to }, MESSAGES(part)).body);
    expect(body).toContain(to === "gemini" ? '"mimeType":"image/png"' : `data:image/png;base64,${PNG}`);
    expect(body).not.toContain("pdf");
  });

  test.each([
    ["chat", '{"role":"tool","tool_call_id":"t","content":"see\\n[image 1 attached below]"},{"role":"user"'],
    ["responses", '"output":[{"type":"input_text","text":"see"},{"type":"input_image"'],
    ["gemini", '{"functionResponse":{"name":"f","response":{"output":"see\\n[image 1 attached below]"}}}'],
    ["messages", '"tool_use_id":"t","content":[{"type":"text","text":"see"},{"type":"image"'],
  ] as [UpstreamName, string][])("an image inside a tool's result, to %s", (to, expected) => {
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } };
    expect(JSON.stringify(send({ from: "messages", to }, toolResult([text, image])).body)).toContain(expected);
  });

  test("what stands where it cannot be said is named as lost", () => {
    const image = { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } };
    const body = { messages: [{ role: "system", content: [text, image] }, ...(CHAT(text)["messages"] as Wire[])] };
    expect(send({ from: "chat", to: "messages" }, body).dropped).toEqual(["messages[0].content[1]"]);
    const shown = {
      messages: [
        { role: "user", content: "Hi" },
        { role: "assistant", content: [{ type: "document", source: { type: "text", data: "x" } }, text] },
        { role: "user", content: "?" },
      ],
    };
    for (const to of ["chat", "responses", "gemini"] as const) {
      expect(send({ from: "messages", to }, shown).dropped).toEqual(["messages[1].content[0]"]);
    }
    const served = {
      messages: [
        { role: "user", content: "Hi" },
        {
          role: "assistant",
          content: [
            { type: "server_tool_use", id: "s", name: "web_search", input: {} },
            { type: "web_search_tool_result", tool_use_id: "s", content: [] },
            text,
          ],
        },
        { role: "user", content: "?" },
      ],
    };
    for (const to of ["chat", "responses", "gemini"] as const) {
      const { body: sent, dropped } = send({ from: "messages", to }, served);
      expect(dropped).toEqual(["messages[1].content[0]", "messages[1].content[1]"]);
      expect(JSON.stringify(sent)).not.toContain("web_search");
    }
    expect(send({ from: "messages", to: "messages" }, served).body["messages"]).toEqual(served.messages);
  });
});

const SCHEMA = { type: "object", properties: { a: { type: "integer", minimum: 1 } }, required: ["a"] };

describe("structured output", () => {
  const asked: Record<ClientName, Wire> = {
    chat: {
      ...CHAT(text),
      response_format: { type: "json_schema", json_schema: { name: "n", schema: SCHEMA, strict: true } },
    },
    messages: { ...MESSAGES(text), output_config: { format: { type: "json_schema", schema: SCHEMA } } },
    responses: {
      ...RESPONSES(inputText),
      text: { format: { type: "json_schema", name: "n", schema: SCHEMA, strict: true } },
    },
  };
  const closed = { ...SCHEMA, additionalProperties: false };

  test.each([
    ["chat", "messages"],
    ["responses", "messages"],
  ] as [ClientName, UpstreamName][])("%s → %s: closed, other constraints in words (dialects.md 4.9)", (from, to) => {
    const { body, dropped } = send({ from, to }, asked[from]);
    expect(body["output_config"]).toEqual({
      format: {
        type: "json_schema",
        schema: { ...closed, properties: { a: { type: "integer", description: "{minimum: 1}" } } },
      },
    });
    expect(dropped).toEqual([]);
  });

  test.each(["json_schema", "json_object"])("a chat client's %s with the schema beside it", (type) => {
    const format = { type, schema: SCHEMA };
    expect(send({ from: "chat", to: "chat" }, { ...CHAT(text), response_format: format }).body).toMatchObject({
      response_format: format,
    });
    const { body, dropped } = send({ from: "chat", to: "responses" }, { ...CHAT(text), response_format: format });
    expect([body["text"], dropped]).toEqual([{ format: { type: "json_schema", name: "output", schema: SCHEMA } }, []]);
  });

  /** Anthropic holds its models to every schema; OpenAI to those alone that are said to be strict, and so far not all others. */
  test("messages → chat and responses: under a name, and strict at OpenAI where that changes nothing of it", () => {
    const own = { customTools: true };
    const strict = { name: "output", schema: closed, strict: true };
    expect(send({ from: "messages", to: "chat" }, asked.messages).body["response_format"]).toEqual({
      type: "json_schema",
      json_schema: { name: "output", schema: SCHEMA },
    });
    expect(send({ from: "messages", to: "chat", quirks: own }, asked.messages).body["response_format"]).toEqual({
      type: "json_schema",
      json_schema: strict,
    });
    expect(send({ from: "messages", to: "responses" }, asked.messages).body["text"]).toEqual({
      format: { type: "json_schema", ...strict },
    });
    const free = { ...SCHEMA, required: [] };
    const format = { type: "json_schema", schema: free };
    const loose = { ...MESSAGES(text), output_config: { format } };
    for (const to of ["chat", "responses"] as const) {
      const { body, dropped } = send({ from: "messages", to, quirks: own }, loose);
      expect(JSON.stringify(body)).toContain(JSON.stringify({ name: "output", schema: free }).slice(1, -1));
      expect([JSON.stringify(body).includes("strict"), dropped]).toEqual([false, []]);
    }
  });

  test("chat ↔ responses: strict stays strict, with its objects closed", () => {
    expect(send({ from: "chat", to: "responses" }, asked.chat).body["text"]).toEqual({
      format: { type: "json_schema", name: "n", schema: closed, strict: true },
    });
    expect(send({ from: "responses", to: "chat" }, asked.responses).body["response_format"]).toEqual({
      type: "json_schema",
      json_schema: { name: "n", schema: closed, strict: true },
    });
  });

  test.each(["chat", "messages", "responses"] as const)("%s → gemini", (from) => {
    expect(send({ from, to: "gemini", orders: { upstreamModel: "gemini-3-pro" } }, asked[from]).body).toMatchObject({
      generationConfig: { responseMimeType: "application/json", responseJsonSchema: SCHEMA },
    });
  });

  test("a schema that OpenAI's strict mode cannot say goes out as it is, and strict is named as lost", () => {
    const schema = { type: "object", properties: { a: { type: "string" } } };
    const tools = [{ name: "f", input_schema: schema, strict: true }];
    for (const to of ["chat", "responses"] as const) {
      const { body, dropped } = send({ from: "messages", to }, { ...MESSAGES(text), tools });
      expect(dropped).toEqual(["tools[0].strict"]);
      expect(JSON.stringify(body["tools"])).toContain(JSON.stringify(schema));
      expect(JSON.stringify(body["tools"])).not.toContain('"strict":true');
    }
  });
});

describe("a reply of the responses dialect repeats its request", () => {
  const said = {
    instructions: "be brief",
    temperature: 0.5,
    top_p: 0.9,
    max_output_tokens: 99,
    metadata: { a: "b" },
    parallel_tool_calls: false,
    tools: [{ type: "function", name: "f", parameters: { type: "object", properties: {} }, strict: false }],
    tool_choice: "required",
    reasoning: { effort: "low", summary: "auto" },
    text: { verbosity: "low" },
    user: "u",
  };
  const request = { ...RESPONSES(inputText), ...said };

  test("whole and in every record that holds it", () => {
    const way = { from: "responses", to: "messages" } as const;
    const { changes } = send(way, request);
    const message = { type: "message", role: "assistant", content: [text], stop_reason: "end_turn", usage: {} };
    const expected = { ...said, text: { format: { type: "text" }, verbosity: "low" } };
    expect(reply(way, message, changes)).toMatchObject(expected);
    const sse = typedStream(
      { type: "message_start", message: { ...message, content: [] } },
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 1 } },
      { type: "message_stop" },
    );
    const responses = recordsOf(stream(way, sse, changes)).flatMap((record) => record["response"] ?? []);
    expect(responses).toHaveLength(3);
    for (const response of responses) expect(response).toMatchObject(expected);
    // Nothing of one request is told in the reply to another.
    expect(reply(way, message)).toMatchObject({
      instructions: null,
      tools: [],
      tool_choice: "auto",
      temperature: null,
    });
  });
});
